//! Opening packets with the secrets that SSLKEYLOGFILE tells. RFC 9001, RFC 9369.
//!
//! Own derivation, from the RFCs and not through the stack under test: what opens here is what any
//! other implementation would read.

use std::collections::BTreeMap;

use aws_lc_rs::{
    aead::{self, Aad, LessSafeKey, Nonce, UnboundKey, quic::HeaderProtectionKey},
    hkdf,
};
use tautline_transport::wire::decode_packet_number;

use crate::wire::Way;

pub(crate) const VERSION_1: u32 = 1;
pub(crate) const VERSION_2: u32 = 0x6b33_43cf;
/// RFC 9001 s5.2.
const SALT_1: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];
/// RFC 9369 s3.3.1.
const SALT_2: [u8; 20] = [
    0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb,
    0xf9, 0xbd, 0x2e, 0xd9,
];
const TAG_LEN: usize = 16;
/// Key phases past the present one that are tried.
const PHASES_AHEAD: u64 = 1;

/// Encryption levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Initial,
    ZeroRtt,
    Handshake,
    OneRtt,
}

/// One line of a key log, as far as QUIC uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Secret {
    pub(crate) random: Vec<u8>,
    pub(crate) level: Level,
    pub(crate) from_client: bool,
    pub(crate) secret: Vec<u8>,
}

/// The secrets of a key log in NSS format. Other lines are skipped.
pub(crate) fn read_key_log(text: &str) -> Vec<Secret> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (level, from_client) = match words.next()? {
            "CLIENT_EARLY_TRAFFIC_SECRET" => (Level::ZeroRtt, true),
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET" => (Level::Handshake, true),
            "SERVER_HANDSHAKE_TRAFFIC_SECRET" => (Level::Handshake, false),
            "CLIENT_TRAFFIC_SECRET_0" => (Level::OneRtt, true),
            "SERVER_TRAFFIC_SECRET_0" => (Level::OneRtt, false),
            _ => return None,
        };
        Some(Secret {
            random: hex(words.next()?)?,
            level,
            from_client,
            secret: hex(words.next()?)?,
        })
    };
    text.lines().filter_map(line).collect()
}

pub(crate) fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits?;
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    Some(
        pairs
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect(),
    )
}

/// The AEADs of QUIC and their hash functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suite {
    Aes128,
    Aes256,
    ChaCha20,
}

impl Suite {
    fn hash(self) -> hkdf::Algorithm {
        match self {
            Self::Aes128 | Self::ChaCha20 => hkdf::HKDF_SHA256,
            Self::Aes256 => hkdf::HKDF_SHA384,
        }
    }

    fn aead(self) -> (&'static aead::Algorithm, &'static aead::quic::Algorithm) {
        match self {
            Self::Aes128 => (&aead::AES_128_GCM, &aead::quic::AES_128),
            Self::Aes256 => (&aead::AES_256_GCM, &aead::quic::AES_256),
            Self::ChaCha20 => (&aead::CHACHA20_POLY1305, &aead::quic::CHACHA20),
        }
    }
}

struct Len(usize);

impl hkdf::KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label with an empty context. RFC 8446 s7.1.
fn expand(suite: Suite, secret: &[u8], label: &str, len: usize) -> Option<Vec<u8>> {
    let len_bytes = u16::try_from(len).ok()?.to_be_bytes();
    let label_len = [u8::try_from(6 + label.len()).ok()?];
    let info: [&[u8]; 5] = [&len_bytes, &label_len, b"tls13 ", label.as_bytes(), &[0]];
    let prk = hkdf::Prk::new_less_safe(suite.hash(), secret);
    let mut out = vec![0; len];
    prk.expand(&info, Len(len)).ok()?.fill(&mut out).ok()?;
    Some(out)
}

/// The words in front of HKDF labels: RFC 9001 s5.1, RFC 9369 s3.3.2.
fn prefix(version: u32) -> &'static str {
    if version == VERSION_2 {
        "quicv2"
    } else {
        "quic"
    }
}

/// What opens the packets of one direction and level of one connection.
pub(crate) struct Opener {
    pub(crate) level: Level,
    pub(crate) way: Way,
    /// What tells connections apart: the client's random, or the connection ID for Initials.
    pub(crate) connection: Vec<u8>,
    version: u32,
    suite: Suite,
    header: HeaderProtectionKey,
    /// Secret and keys by key phase, as far as seen.
    phases: Vec<(Vec<u8>, LessSafeKey, [u8; 12])>,
    phase: u64,
    largest: Option<u64>,
}

impl Opener {
    fn new(
        level: Level,
        way: Way,
        connection: &[u8],
        version: u32,
        suite: Suite,
        secret: &[u8],
    ) -> Option<Self> {
        let (packet, header) = suite.aead();
        let label = format!("{} hp", prefix(version));
        let bytes = expand(suite, secret, &label, packet.key_len())?;
        let mut opener = Self {
            level,
            way,
            connection: connection.to_vec(),
            version,
            suite,
            header: HeaderProtectionKey::new(header, &bytes).ok()?,
            phases: Vec::new(),
            phase: 0,
            largest: None,
        };
        opener.add_phase(secret.to_vec())?;
        Some(opener)
    }

    fn add_phase(&mut self, secret: Vec<u8>) -> Option<()> {
        let (packet, _) = self.suite.aead();
        let prefix = prefix(self.version);
        let key = expand(
            self.suite,
            &secret,
            &format!("{prefix} key"),
            packet.key_len(),
        )?;
        let iv = expand(self.suite, &secret, &format!("{prefix} iv"), 12)?;
        let key = LessSafeKey::new(UnboundKey::new(packet, &key).ok()?);
        self.phases.push((secret, key, iv.try_into().ok()?));
        Some(())
    }

    /// Openers of both directions for Initials sent to this connection ID.
    pub(crate) fn initial(version: u32, dcid: &[u8]) -> Vec<Self> {
        let salt = if version == VERSION_2 { SALT_2 } else { SALT_1 };
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, &salt);
        let prk = salt.extract(dcid);
        let make = |way, label: &str| {
            let label_len = [u8::try_from(6 + label.len()).ok()?];
            let info: [&[u8]; 5] = [&[0, 32], &label_len, b"tls13 ", label.as_bytes(), &[0]];
            let mut out = [0; 32];
            prk.expand(&info, Len(32)).ok()?.fill(&mut out).ok()?;
            Self::new(Level::Initial, way, dcid, version, Suite::Aes128, &out)
        };
        [
            make(Way::ToServer, "client in"),
            make(Way::ToClient, "server in"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Openers for a logged secret: one for each version and suite that it may belong to.
    pub(crate) fn logged(secret: &Secret) -> Vec<Self> {
        let suites: &[Suite] = match secret.secret.len() {
            48 => &[Suite::Aes256],
            _ => &[Suite::Aes128, Suite::ChaCha20],
        };
        let way = if secret.from_client {
            Way::ToServer
        } else {
            Way::ToClient
        };
        let mut openers = Vec::new();
        for version in [VERSION_1, VERSION_2] {
            openers.extend(suites.iter().filter_map(|&suite| {
                Self::new(
                    secret.level,
                    way,
                    &secret.random,
                    version,
                    suite,
                    &secret.secret,
                )
            }));
        }
        openers
    }

    /// Opens a packet; `pn_offset` is where its number starts.
    pub(crate) fn open(&mut self, packet: &[u8], pn_offset: usize) -> Option<Opened> {
        let mut packet = packet.to_vec();
        let sample_at = pn_offset.checked_add(4)?;
        let sample = packet.get(sample_at..sample_at + 16)?;
        let mask = self.header.new_mask(sample).ok()?;
        let first = packet.first_mut()?;
        let long = *first & 0x80 != 0;
        *first ^= mask.first()? & if long { 0x0f } else { 0x1f };
        let first = *first;
        let number_len = usize::from(first & 3) + 1;
        let number_bytes = packet.get_mut(pn_offset..pn_offset + number_len)?;
        let mut truncated = 0;
        for (byte, mask) in number_bytes.iter_mut().zip(mask.get(1..)?) {
            *byte ^= mask;
            truncated = truncated << 8 | u64::from(*byte);
        }
        let number = decode_packet_number(self.largest, truncated, number_len);
        let bit = u64::from(first >> 2 & 1);
        let (header, payload) = packet.split_at_checked(pn_offset + number_len)?;
        for phase in self.phases_to_try(long, bit) {
            while self.phases.len() as u64 <= phase {
                let (last, ..) = self.phases.last()?;
                let label = format!("{} ku", prefix(self.version));
                let next = expand(self.suite, last, &label, last.len())?;
                self.add_phase(next)?;
            }
            let (_, key, iv) = self.phases.get(usize::try_from(phase).ok()?)?;
            let mut nonce = *iv;
            for (byte, number) in nonce.iter_mut().skip(4).zip(number.to_be_bytes()) {
                *byte ^= number;
            }
            let mut plain = payload.to_vec();
            let nonce = Nonce::assume_unique_for_key(nonce);
            if key
                .open_in_place(nonce, Aad::from(header), &mut plain)
                .is_err()
            {
                continue;
            }
            plain.truncate(plain.len().saturating_sub(TAG_LEN));
            self.largest = self.largest.max(Some(number));
            self.phase = self.phase.max(phase);
            return Some(Opened {
                number,
                phase,
                protected_len: payload.len(),
                plain,
            });
        }
        None
    }

    fn phases_to_try(&self, long: bool, bit: u64) -> Vec<u64> {
        if long {
            return vec![0];
        }
        let first = self.phase.saturating_sub(1);
        let phases = first..=self.phase + PHASES_AHEAD;
        phases.filter(|phase| phase & 1 == bit).collect()
    }
}

/// A packet that could be read.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) number: u64,
    pub(crate) phase: u64,
    /// Bytes after the packet number, the authentication tag among them.
    pub(crate) protected_len: usize,
    pub(crate) plain: Vec<u8>,
}

/// All openers of a trace; the one that worked last for a connection ID is tried first.
#[derive(Default)]
pub(crate) struct Openers {
    all: Vec<Opener>,
    known: BTreeMap<(Level, bool, Vec<u8>), usize>,
}

impl Openers {
    pub(crate) fn with_log(secrets: &[Secret]) -> Self {
        let all = secrets.iter().flat_map(Opener::logged).collect();
        Self {
            all,
            known: BTreeMap::new(),
        }
    }

    /// Initials may be protected by what this connection ID gives.
    pub(crate) fn add_initial(&mut self, dcid: &[u8]) {
        let is = |opener: &Opener| opener.level == Level::Initial && opener.connection == dcid;
        if self.all.iter().any(is) {
            return;
        }
        for version in [VERSION_1, VERSION_2] {
            self.all.extend(Opener::initial(version, dcid));
        }
    }

    /// Opens a packet sent to `dcid`; also tells whose it is.
    pub(crate) fn open(
        &mut self,
        level: Level,
        way: Way,
        dcid: &[u8],
        packet: &[u8],
        pn_offset: usize,
    ) -> Option<(Opened, Vec<u8>)> {
        let key = (level, way == Way::ToServer, dcid.to_vec());
        if let Some(&index) = self.known.get(&key)
            && let Some(opener) = self.all.get_mut(index)
            && let Some(opened) = opener.open(packet, pn_offset)
        {
            return Some((opened, opener.connection.clone()));
        }
        // The newest connection is the likeliest.
        for (index, opener) in self.all.iter_mut().enumerate().rev() {
            if opener.level != level || opener.way != way {
                continue;
            }
            if let Some(opened) = opener.open(packet, pn_offset) {
                self.known.insert(key, index);
                return Some((opened, opener.connection.clone()));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server's Initial of RFC 9001 appendix A.3.
    const SERVER_INITIAL: &str = "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a\
        5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e\
        7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d2039\
        8c276456cbc42158407dd074ee";
    /// The same of version 2, RFC 9369 appendix A.3.
    const SERVER_INITIAL_2: &str = "dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c4708969\
        8baeea26b91eb761d9b89237bbf87263017915358230035f7fd3945d88965cf17f9af6e16886c61bfc703106fba\
        f3cb4cfa52382dd16a393e42757507698075b2c984c707f0a0812d8cd5a6881eaf21ceda98f4bd23f6fe1a3e2c\
        43edd9ce7ca84bed8521e2e140";

    #[test]
    fn initials_of_the_rfcs_are_read() {
        let dcid = hex("8394c8f03e515708").unwrap();
        for packet in [SERVER_INITIAL, SERVER_INITIAL_2] {
            let packet = hex(packet).unwrap();
            let mut openers = Openers::default();
            openers.add_initial(&dcid);
            let opened = openers.open(Level::Initial, Way::ToClient, &[], &packet, 18);
            let (opened, connection) = opened.expect("authentic");
            assert_eq!((opened.number, connection), (1, dcid.clone()));
            // An ACK, then the ServerHello.
            assert_eq!(opened.plain.get(..6), Some(&[2, 0, 0, 0, 0, 6][..]));
            assert!(
                openers
                    .open(Level::Initial, Way::ToServer, &[], &packet, 18)
                    .is_none()
            );
        }
    }

    #[test]
    fn key_logs() {
        let log = "# comment\nCLIENT_TRAFFIC_SECRET_0 0a0b ff00\nEXPORTER_SECRET 00 00\n\
                   SERVER_HANDSHAKE_TRAFFIC_SECRET 01 02\nCLIENT_TRAFFIC_SECRET_0 0a0 zz\n";
        let secrets = read_key_log(log);
        assert_eq!(secrets.len(), 2);
        assert_eq!(secrets[0].random, [10, 11]);
        assert_eq!(
            (secrets[1].level, secrets[1].from_client),
            (Level::Handshake, false)
        );
    }

    /// RFC 9001 appendix A.5: a ChaCha20-Poly1305 short header packet, and the key update.
    #[test]
    fn chacha20_of_the_rfc_is_read() {
        let secret = Secret {
            random: vec![1],
            level: Level::OneRtt,
            from_client: false,
            secret: hex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b")
                .unwrap(),
        };
        let mut openers = Openers::with_log(&[secret]);
        for opener in &mut openers.all {
            // The example's number is 654360564, of which three bytes travel.
            opener.largest = Some(654_360_563);
        }
        let packet = hex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb").unwrap();
        let opened = openers.open(Level::OneRtt, Way::ToClient, &[], &packet, 1);
        let (opened, _) = opened.expect("authentic");
        assert_eq!((opened.number, opened.plain), (654_360_564, vec![1]));
        let opener = openers
            .all
            .iter()
            .find(|opener| opener.suite == Suite::ChaCha20)
            .unwrap();
        let next = expand(opener.suite, &opener.phases[0].0, "quic ku", 32).unwrap();
        let expected = "1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9";
        assert_eq!(next, hex(expected).unwrap());
    }
}
