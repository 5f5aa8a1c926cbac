//! `tautline interop`: an end of the QUIC interop runner's tests.
//!
//! Purpose: $ROLE, $TESTCASE, $REQUESTS, $SSLKEYLOGFILE and $QLOGDIR as the runner sets them;
//! exit 127 for tests that we do not know. Flags stand in for the runner's directories.
//! Owns: what each test case asks of an end ([`Case`], `client.rs`, `server.rs`).
//! Does not own: transfers ([`crate::get`], [`crate::serve`]).
//! To add a test case: a line in [`Case::by_name`], and what it needs in both files.

mod client;
mod server;

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args as ClapArgs, Subcommand};
use tautline::{EndpointConfig, TransportConfig, Version};

use crate::{
    failure::{Failure, Outcome},
    options::qlog_into,
};

/// Which end of which test.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Which end to play [default: $ROLE]
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Serve files until a signal
    Server(ServerArgs),
    /// Download files, then end
    Client(ClientArgs),
}

#[derive(Debug, ClapArgs)]
struct ServerArgs {
    #[command(flatten)]
    common: Common,
    /// Address and UDP port
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:443")]
    listen: SocketAddr,
    /// The directory to serve
    #[arg(long, value_name = "DIR", default_value = "/www")]
    www: PathBuf,
    /// The directory with cert.pem and priv.key
    #[arg(long, value_name = "DIR", default_value = "/certs")]
    certs: PathBuf,
    /// In the connectionmigration test: an address of this server that clients move to, one for
    /// IPv4 and one for IPv6 at most [default: the addresses of server46, at the port after
    /// --listen's, which is then listened to as well]
    #[arg(long, value_name = "ADDR:PORT")]
    preferred: Vec<SocketAddr>,
    /// Listen here too, for instance where --preferred points to
    #[arg(long, value_name = "ADDR:PORT")]
    also_listen: Vec<SocketAddr>,
}

#[derive(Debug, ClapArgs)]
struct ClientArgs {
    #[command(flatten)]
    common: Common,
    /// URLs to download [default: $REQUESTS]
    #[arg(value_name = "URL")]
    requests: Vec<String>,
    /// Where files go to
    #[arg(long, value_name = "DIR", default_value = "/downloads")]
    downloads: PathBuf,
}

#[derive(Debug, ClapArgs)]
struct Common {
    /// The runner's name of the test [default: $TESTCASE]
    #[arg(long, value_name = "NAME")]
    testcase: Option<String>,
    /// Where qlog traces go to [default: $QLOGDIR]
    #[arg(long, value_name = "DIR")]
    qlog_dir: Option<PathBuf>,
}

/// What a test asks of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// Everything over one connection, and nothing special.
    Transfer,
    Http3,
    Retry,
    Resumption,
    ZeroRtt,
    KeyUpdate,
    ChaCha20,
    V2,
    /// A connection for each file.
    MultiConnect,
    /// The server names another address.
    ConnectionMigration,
}

impl Case {
    /// By the runner's name of the test, or what it calls it towards an end.
    fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "handshake" | "transfer" | "longrtt" | "multiplexing" | "blackhole" | "ecn"
            | "amplificationlimit" | "transferloss" | "transfercorruption" | "ipv6"
            | "rebind-port" | "rebind-addr" | "goodput" | "crosstraffic" => Self::Transfer,
            "http3" => Self::Http3,
            "retry" => Self::Retry,
            "resumption" => Self::Resumption,
            "zerortt" => Self::ZeroRtt,
            "keyupdate" => Self::KeyUpdate,
            "chacha20" => Self::ChaCha20,
            "v2" => Self::V2,
            "multiconnect" | "handshakeloss" | "handshakecorruption" => Self::MultiConnect,
            "connectionmigration" => Self::ConnectionMigration,
            _ => return None,
        })
    }

    /// Versions to speak. Offering v2 where a test wants v1 could make a peer upgrade.
    fn endpoint_config(self) -> EndpointConfig {
        let mut config = EndpointConfig::default();
        config.versions = if self == Self::V2 {
            vec![Version::V2, Version::V1]
        } else {
            vec![Version::V1]
        };
        config
    }
}

impl Common {
    fn case(&self) -> Outcome<Case> {
        let name = self.testcase.clone().or_else(|| variable("TESTCASE"));
        let name =
            name.ok_or_else(|| Failure::new("no test named: set $TESTCASE or --testcase"))?;
        Case::by_name(&name)
            .ok_or_else(|| Failure::unsupported(format!("the test {name:?} is not supported")))
    }

    fn transport(&self, case: Case) -> Outcome<TransportConfig> {
        use std::time::Duration;
        let mut config = TransportConfig::default();
        // The runner counts every byte that the client sends in 1-RTT against a small allowance,
        // and padded probes are none of what the test is about.
        config.mtu.discovery &= case != Case::ZeroRtt;
        // The runner drops 30 % of packets in some tests and gives them 300 s.
        config.handshake_timeout = Duration::from_secs(120);
        config.max_idle_timeout = Some(Duration::from_secs(60));
        let dir = self
            .qlog_dir
            .clone()
            .or_else(|| variable("QLOGDIR").map(PathBuf::from));
        if let Some(dir) = dir {
            config.observer = Some(qlog_into(&dir)?);
        }
        Ok(config)
    }
}

/// An environment variable that says something.
fn variable(name: &str) -> Option<String> {
    std::env::var(name)
        .ok()
        .filter(|value| !value.trim().is_empty())
}

pub(crate) async fn run(args: Args) -> Outcome {
    #[derive(clap::Parser)]
    #[command(no_binary_name = true)]
    struct FromRole {
        #[command(subcommand)]
        role: Role,
    }
    let role = match (args.role, variable("ROLE")) {
        (Some(role), _) => role,
        (None, Some(role)) if matches!(&*role, "client" | "server") => {
            let parsed = <FromRole as clap::Parser>::try_parse_from([role]);
            parsed
                .map_err(|error| Failure::new(error.to_string()))?
                .role
        }
        (None, Some(role)) => return Err(Failure::new(format!("unknown $ROLE {role:?}"))),
        (None, None) => return Err(Failure::new("which end: client or server (or set $ROLE)?")),
    };
    match role {
        Role::Server(args) => server::run(args).await,
        Role::Client(args) => client::run(args).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_of_the_runner_is_known() {
        let names = "handshake transfer longrtt chacha20 multiplexing retry resumption zerortt \
                     http3 blackhole keyupdate ecn amplificationlimit handshakeloss transferloss \
                     handshakecorruption transfercorruption ipv6 v2 rebind-port rebind-addr \
                     connectionmigration";
        assert_eq!(names.split_whitespace().count(), 22);
        assert!(
            names
                .split_whitespace()
                .all(|name| Case::by_name(name).is_some())
        );
        assert_eq!(Case::by_name("no-such-test"), None);
    }
}
