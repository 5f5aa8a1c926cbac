//! Who we talk to.
//!
//! Purpose: how each peer is installed, started as a server or a client, and what it lacks.
//! To add a peer: a row in [`ALL`]; if it speaks the common arguments of the programs in
//! `interop/` that is all, else a file here that builds its commands.

mod chromium;
mod debian;
mod setup;

use std::process::Command;

use anyhow::Result;

pub(crate) use self::setup::Setup;
use super::{case::Case, cell::Side, install::Workshop, process::Program};

/// How a peer comes to QUIC v2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionTwo {
    /// Compatible negotiation from v1 (RFC 9368).
    Compatible,
    /// Only when the first packet is of v2.
    First,
}

/// What sort of program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A package of the cargo workspace `interop/`, for the crate of this name.
    Cargo {
        package: &'static str,
        library: &'static str,
    },
    Go,
    Python,
    Chromium,
    Curl,
    Ngtcp2,
    Nginx,
}

/// A peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    kind: Kind,
    pub(crate) version_two: VersionTwo,
    /// It speaks HTTP/3 and no HTTP/0.9.
    pub(crate) http3_only: bool,
    /// Its client can be told to start key updates.
    pub(crate) starts_key_updates: bool,
    /// How often the client's port may change in [`Case::Rebinding`].
    pub(crate) rebindings: u32,
    /// What it lacks: the case, our side in it, and where one sees that it is lacking.
    lacks: &'static [(Case, Side, &'static str)],
}

const ONLY_CLIENT: &str = "it is a client only";
const ONLY_SERVER: &str = "it is a server only";

/// Every peer, in the order of the table.
pub(crate) const ALL: &[Peer] = &[
    Peer {
        name: "quinn",
        kind: Kind::Cargo {
            package: "interop-quinn",
            library: "quinn",
        },
        version_two: VersionTwo::First,
        http3_only: false,
        starts_key_updates: true,
        rebindings: 3,
        lacks: &[],
    },
    Peer {
        name: "noq",
        kind: Kind::Cargo {
            package: "interop-noq",
            library: "noq",
        },
        version_two: VersionTwo::First,
        http3_only: false,
        starts_key_updates: true,
        rebindings: 3,
        lacks: &[],
    },
    Peer {
        name: "s2n-quic",
        kind: Kind::Cargo {
            package: "interop-s2n",
            library: "s2n-quic",
        },
        version_two: VersionTwo::First,
        http3_only: false,
        starts_key_updates: false,
        rebindings: 3,
        lacks: &[
            (
                Case::Resumption,
                Side::Client,
                "its server sends no tickets: s2n-quic-rustls stops at the client's Finished (session.rs, `poll_complete_handshake`); resumption is the unstable feature `unstable_resumption` for s2n-tls",
            ),
            (
                Case::Resumption,
                Side::Server,
                "its client takes no tickets: s2n-quic-rustls leaves `process_post_handshake_message` empty",
            ),
            (
                Case::Version2,
                Side::Client,
                "it has version 1 only and leaves a first packet of v2 unanswered: s2n-quic-transport's version.rs reads its type bits as 0-RTT, for which it sends no Version Negotiation",
            ),
            (
                Case::ZeroRtt,
                Side::Client,
                "s2n-quic-transport drops 0-RTT packets (connection_impl.rs, handle_zero_rtt_packet: `_packet` is not used)",
            ),
            (
                Case::ZeroRtt,
                Side::Server,
                "s2n_quic::Client has no call that sends before the handshake is done",
            ),
            (
                Case::Version2,
                Side::Server,
                "s2n-quic-transport has version 1 only (`QUIC_VERSION` of s2n-quic-rustls is `Version::V1`)",
            ),
            (
                Case::Migration,
                Side::Server,
                "s2n_quic::Client has no call that moves it to another socket",
            ),
        ],
    },
    Peer {
        name: "quic-go",
        kind: Kind::Go,
        version_two: VersionTwo::First,
        http3_only: false,
        starts_key_updates: false,
        rebindings: 3,
        lacks: &[],
    },
    Peer {
        name: "aioquic",
        kind: Kind::Python,
        version_two: VersionTwo::Compatible,
        http3_only: false,
        starts_key_updates: true,
        rebindings: 3,
        lacks: &[],
    },
    Peer {
        name: "chromium",
        kind: Kind::Chromium,
        version_two: VersionTwo::First,
        http3_only: true,
        starts_key_updates: false,
        rebindings: 3,
        lacks: &[(
            Case::Migration,
            Side::Server,
            "Chromium moves when the operating system reports a new default network; loopback has one",
        )],
    },
    Peer {
        name: "curl",
        kind: Kind::Curl,
        version_two: VersionTwo::First,
        http3_only: true,
        starts_key_updates: false,
        rebindings: 3,
        lacks: &[
            (
                Case::Resumption,
                Side::Server,
                "Debian's curl uses OpenSSL's QUIC, for which it keeps no tickets: curl_osslq.c hands Curl_vquic_tls_init no session callbacks",
            ),
            (
                Case::Version2,
                Side::Server,
                "Debian's curl uses OpenSSL's QUIC, which has version 1 only (openssl-quic(7))",
            ),
            (
                Case::ZeroRtt,
                Side::Server,
                "Debian's curl uses OpenSSL's QUIC, which does not do 0-RTT (openssl-quic(7))",
            ),
            (
                Case::Migration,
                Side::Server,
                "curl has no option that moves a transfer to another socket",
            ),
        ],
    },
    Peer {
        name: "ngtcp2",
        kind: Kind::Ngtcp2,
        version_two: VersionTwo::Compatible,
        http3_only: true,
        starts_key_updates: true,
        rebindings: 3,
        lacks: &[],
    },
    Peer {
        name: "nginx",
        kind: Kind::Nginx,
        version_two: VersionTwo::First,
        http3_only: true,
        starts_key_updates: false,
        // It takes two connection IDs and never retires that of the path before the last.
        rebindings: 1,
        lacks: &[(
            Case::ZeroRtt,
            Side::Client,
            "nginx with OpenSSL's compatibility layer cannot do 0-RTT over QUIC (nginx.org/en/docs/quic.html)",
        )],
    },
];

impl Peer {
    /// Why a cell must stay blank, where that is known beforehand.
    pub(crate) fn lacks(&self, case: Case, ours: Side) -> Option<&'static str> {
        match (self.kind, ours) {
            (Kind::Chromium | Kind::Curl, Side::Client) => return Some(ONLY_CLIENT),
            (Kind::Nginx, Side::Server) => return Some(ONLY_SERVER),
            _ => {}
        }
        let found = self
            .lacks
            .iter()
            .find(|(lacked, side, _)| (*lacked, *side) == (case, ours));
        found.map(|(.., reason)| *reason)
    }

    /// Makes it ready to run.
    pub(crate) fn install(&self, workshop: &Workshop) -> Result<()> {
        match self.kind {
            Kind::Cargo { package, .. } => workshop.build_package(package),
            Kind::Go => workshop.build_go(),
            Kind::Python => workshop.make_python(),
            Kind::Chromium => workshop.install_debian_packages(&[("chromium", "chromium")]),
            Kind::Curl | Kind::Ngtcp2 | Kind::Nginx => workshop.make_debian_root(),
        }
    }

    /// Its server for a cell.
    pub(crate) fn server(&self, setup: &Setup<'_>) -> Result<Command> {
        match self.kind {
            Kind::Ngtcp2 => debian::ngtcp2_server(setup),
            Kind::Nginx => debian::nginx(setup),
            _ => Ok(setup.server_arguments(self.program(setup.workshop))),
        }
    }

    /// Its client for a cell: programs to run one after the other.
    pub(crate) fn client(&self, setup: &Setup<'_>) -> Result<Vec<Command>> {
        match self.kind {
            Kind::Chromium => Ok(vec![chromium::client(setup)?]),
            Kind::Curl => Ok(vec![debian::curl(setup)?]),
            Kind::Ngtcp2 => Ok(debian::ngtcp2_client(setup)),
            _ => {
                let mut command = setup.client_arguments(self.program(setup.workshop));
                if !setup.we_update_keys {
                    command.arg("--update-keys");
                }
                Ok(vec![command])
            }
        }
    }

    /// Brings what a client fetched to where it is compared.
    pub(crate) fn after_client(&self, setup: &Setup<'_>, client: &Program) -> Result<()> {
        if self.kind == Kind::Chromium {
            chromium::collect(setup, client)
        } else {
            Ok(())
        }
    }

    fn program(&self, workshop: &Workshop) -> Command {
        match self.kind {
            Kind::Go => Command::new(workshop.go_program()),
            Kind::Python => {
                let mut command = Command::new(workshop.python());
                command.arg(workshop.sources().join("python").join("peer.py"));
                command
            }
            Kind::Cargo { package, .. } => Command::new(workshop.program(package)),
            Kind::Chromium | Kind::Curl | Kind::Ngtcp2 | Kind::Nginx => Command::new("false"),
        }
    }

    /// Its version, as it or its lock file tells.
    pub(crate) fn version(&self, workshop: &Workshop) -> String {
        let version = match self.kind {
            Kind::Cargo { library, .. } => workshop.locked_version(library),
            Kind::Go => workshop.go_version("github.com/quic-go/quic-go"),
            Kind::Python => workshop.python_version("aioquic"),
            Kind::Chromium => workshop.debian_version("chromium"),
            Kind::Curl => workshop.root_version("curl"),
            Kind::Ngtcp2 => workshop.root_version("ngtcp2-client"),
            Kind::Nginx => workshop.root_version("nginx-light"),
        };
        version.unwrap_or_else(|| "not installed".to_owned())
    }
}
