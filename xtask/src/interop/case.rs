//! The cases: what is fetched, what stands in the way, what must have happened.

use super::{cell::Side, evidence::Evidence, peer::VersionTwo};

const KB: usize = 1_000;
const MB: usize = 1_000_000;

/// The columns of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Case {
    Handshake,
    Retry,
    Resumption,
    ZeroRtt,
    KeyUpdate,
    Version2,
    ChaCha20,
    Transfer,
    ManyFiles,
    Http3,
    Rebinding,
    Migration,
    Loss,
    Corruption,
    HandshakeLoss,
}

impl Case {
    pub(crate) const ALL: &[Self] = &[
        Self::Handshake,
        Self::Retry,
        Self::Resumption,
        Self::ZeroRtt,
        Self::KeyUpdate,
        Self::Version2,
        Self::ChaCha20,
        Self::Transfer,
        Self::ManyFiles,
        Self::Http3,
        Self::Rebinding,
        Self::Migration,
        Self::Loss,
        Self::Corruption,
        Self::HandshakeLoss,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Retry => "retry",
            Self::Resumption => "resumption",
            Self::ZeroRtt => "zerortt",
            Self::KeyUpdate => "keyupdate",
            Self::Version2 => "v2",
            Self::ChaCha20 => "chacha20",
            Self::Transfer => "transfer",
            Self::ManyFiles => "manyfiles",
            Self::Http3 => "http3",
            Self::Rebinding => "rebinding",
            Self::Migration => "migration",
            Self::Loss => "loss",
            Self::Corruption => "corruption",
            Self::HandshakeLoss => "handshakeloss",
        }
    }

    /// What the case is, for the document.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Handshake => "one handshake, 1 kB; seen: exactly one ServerHello, no Retry",
            Self::Retry => {
                "the server asks for a proof of address; seen: a Retry packet, then an Initial with its token"
            }
            Self::Resumption => {
                "a second connection resumes the first; seen: its ServerHello carries pre_shared_key"
            }
            Self::ZeroRtt => {
                "20 requests in early data of a resumed connection; seen: 0-RTT packets, and our end says that they were accepted"
            }
            Self::KeyUpdate => {
                "10 MB with key updates in mid-transfer; seen: our end counts the phases (when it starts them, two, the second of which is only possible once the peer followed the first)"
            }
            Self::Version2 => {
                "QUIC v2, by compatible negotiation where the peer has it, else from the first packet; seen: Handshake packets of v2 in both directions"
            }
            Self::ChaCha20 => {
                "3 MB under ChaCha20-Poly1305; seen: the cipher suite in the ServerHello"
            }
            Self::Transfer => "10 MB on one connection",
            Self::ManyFiles => {
                "1,000 files of 32 to 1,031 bytes on one connection, up to 200 at once"
            }
            Self::Http3 => "5 kB, 10 kB, 500 kB and 1 MB over HTTP/3; seen: ALPN `h3` at our end",
            Self::Rebinding => {
                "10 MB while the client's port changes behind its back three times (once with nginx, which takes two connection IDs and keeps both); seen: PATH_CHALLENGE by the server and traffic on each new port"
            }
            Self::Migration => {
                "10 MB while the client moves to another socket; seen: packets from there with a new connection ID, PATH_CHALLENGE by the server"
            }
            Self::Loss => {
                "2 MB with 5 % of datagrams dropped each way, from the first on; seen: drops in both directions"
            }
            Self::Corruption => {
                "2 MB with one byte changed in 5 % of datagrams each way; seen: changes in both directions"
            }
            Self::HandshakeLoss => {
                "one handshake and 1 kB with 30 % of datagrams dropped each way, five times; seen: drops, five ServerHellos"
            }
        }
    }

    /// Sizes in bytes of the files that are fetched.
    pub(crate) fn files(self) -> Vec<usize> {
        match self {
            Self::Handshake | Self::Retry | Self::HandshakeLoss => vec![KB],
            Self::Resumption => vec![5 * KB, 5 * KB],
            Self::ZeroRtt => vec![KB; 21],
            Self::Version2 => vec![100 * KB],
            Self::ChaCha20 => vec![3 * MB],
            Self::KeyUpdate | Self::Transfer | Self::Rebinding | Self::Migration => vec![10 * MB],
            Self::ManyFiles => (0..1000).map(|index| 32 + index).collect(),
            Self::Http3 => vec![5 * KB, 10 * KB, 500 * KB, MB],
            Self::Loss | Self::Corruption => vec![2 * MB],
        }
    }

    /// How often the client program is run.
    pub(crate) fn rounds(self) -> u64 {
        if self == Self::HandshakeLoss { 5 } else { 1 }
    }

    /// Handshakes there must be in all.
    fn handshakes(self) -> u64 {
        match self {
            Self::Resumption | Self::ZeroRtt => 2,
            _ => self.rounds(),
        }
    }

    /// The word for the programs' `--case`.
    pub(crate) fn argument(self, version_two: VersionTwo) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Resumption => "resumption",
            Self::ZeroRtt => "zerortt",
            Self::KeyUpdate => "keyupdate",
            Self::Version2 if version_two == VersionTwo::Compatible => "v2",
            Self::Version2 => "v2first",
            Self::ChaCha20 => "chacha20",
            Self::Migration => "migration",
            _ => "transfer",
        }
    }

    /// What the proxy is told.
    pub(crate) fn proxy(self) -> &'static [&'static str] {
        match self {
            // Slow enough for two updates, between which RFC 9001 s6.5 puts 3 PTO.
            Self::KeyUpdate => &["--kbps", "40000"],
            Self::Rebinding => &["--rebind-every", "2000000"],
            Self::Loss => &["--drop", "0.05"],
            Self::Corruption => &["--corrupt", "0.05"],
            Self::HandshakeLoss => &["--drop", "0.3"],
            _ => &[],
        }
    }

    /// Whether what the case is about was seen. `Err`: what was missing.
    pub(crate) fn judge(self, seen: &Evidence, ours: Side) -> Result<(), String> {
        seen.exactly("handshakes", self.handshakes())?;
        match self {
            Self::Handshake => seen.none("retry_v1_to_client"),
            Self::Retry => {
                seen.some("retry_v1_to_client")?;
                seen.some("initial_with_token")
            }
            Self::Resumption => {
                seen.exactly("resumed_handshakes", 1)?;
                seen.ours("resumed")
            }
            Self::ZeroRtt => {
                seen.some("zero_rtt_v1_to_server")?;
                seen.exactly("resumed_handshakes", 1)?;
                seen.ours("early_accepted")
            }
            Self::KeyUpdate => {
                if seen.ours_count("updates_by_us") >= 2 {
                    return Ok(());
                }
                seen.ours("updates_by_peer")
            }
            Self::Version2 => {
                seen.some("handshake_v2_to_server")?;
                seen.some("handshake_v2_to_client")?;
                seen.none("handshake_v1_to_client")
            }
            Self::ChaCha20 => seen.exactly("chacha20_handshakes", 1),
            Self::Http3 => seen.noted("alpn", "h3"),
            Self::Transfer | Self::ManyFiles => Ok(()),
            Self::Rebinding => {
                seen.some("rebinds")?;
                seen.at_least("rebinds_followed", seen.proxy_count("rebinds"))?;
                path_challenged(seen, ours)
            }
            Self::Migration => {
                seen.some("client_moves_with_new_cid")?;
                path_challenged(seen, ours)
            }
            Self::Loss | Self::HandshakeLoss => {
                seen.some("dropped_to_server")?;
                seen.some("dropped_to_client")
            }
            Self::Corruption => {
                seen.some("corrupted_to_server")?;
                seen.some("corrupted_to_client")
            }
        }
    }
}

/// The server made sure of the new path.
fn path_challenged(seen: &Evidence, ours: Side) -> Result<(), String> {
    match ours {
        Side::Client => seen.ours("challenges_received"),
        Side::Server => seen.ours("responses_received"),
    }
}
