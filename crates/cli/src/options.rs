//! Options that several subcommands share.

use std::{
    fs::File,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::{Args, builder::PossibleValuesParser};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use tautline::{
    AckRouting, ConnectHostError, Connection, Endpoint, HandshakeError, LocalEnd, MultipathConfig,
    ServerConfig, TransportConfig,
    tls::{ClientTls, Fingerprint},
    transport::{
        congestion,
        fec::redundancy::{SharedRedundancyFactory, registry},
        multipath, observe,
    },
};

use crate::failure::{Failure, Outcome};

/// How the transport behaves.
#[derive(Clone, Debug, Args)]
pub(crate) struct TransportOptions {
    /// Congestion controller for what this end sends
    #[arg(long, value_name = "NAME", default_value = "cubic",
          value_parser = PossibleValuesParser::new(congestion::registry::names()))]
    pub(crate) cc: String,
    /// Forward erasure correction: protect what this end sends with this redundancy scheduler, and
    /// decode what the other end protects; both ends must be asked. auto (what is worth more than it
    /// costs; begin with it), none, constant:N,K[,C] (N - K repair symbols after every K packets, over
    /// the latest C; constant alone is constant:25,20), quirl-object, quirl-burst:BYTES,MS[,beta=SHARE] (at the end of bursts), tail (over
    /// several paths), flec-bulk, flec-buffer (small receive windows),
    /// flec-message:deadline=MS,interval=MS, ac-rlnc, or rquic:initial=Q,slow-start=off
    /// (docs/erasure-correction.md has all options)
    #[arg(long, value_name = "SCHEDULER[:OPTIONS]", value_parser = parse_redundancy)]
    pub(crate) fec: Option<SharedRedundancyFactory>,
    /// With --fec: make packets with source and with repair symbols of one size, so that nobody on the way tells them apart
    /// by theirs; short packets take the room of long ones
    #[arg(long, requires = "fec")]
    pub(crate) fec_padding: bool,
    /// Which of several paths carries what this end sends, where both ends have several (--paths of
    /// the client)
    #[arg(long, value_name = "NAME", default_value = "auto",
          value_parser = PossibleValuesParser::new(multipath::sched::registry::names()))]
    pub(crate) scheduler: String,
    /// Which of several paths carries the acknowledgements of what this end receives: that of the packets,
    /// the one with the fastest way back, or that one with all of them together
    #[arg(long, value_name = "NAME", default_value = "same-path",
          value_parser = PossibleValuesParser::new(AckRouting::names()))]
    pub(crate) ack_routing: String,
    /// Write a qlog trace of each connection into this directory (made if missing)
    #[arg(long, value_name = "DIR")]
    pub(crate) qlog_dir: Option<PathBuf>,
}

impl TransportOptions {
    /// Applies the options to `config`.
    pub(crate) fn apply(&self, config: &mut TransportConfig) -> Outcome {
        // clap let only known names pass.
        if let Some(factory) = congestion::registry::by_name(&self.cc) {
            config.congestion = factory;
        }
        if let Some(redundancy) = &self.fec {
            config.fec.redundancy = Arc::clone(redundancy);
            // Who does not protect may still decode.
            config.fec.decode = true;
            config.fec.padding = self.fec_padding;
            // Who comes again, to the same process, need not be guessed at again.
            config.fec.loss_store = Some(Arc::default());
        }
        if let Some(dir) = &self.qlog_dir {
            config.observer = Some(qlog_into(dir)?);
        }
        Ok(())
    }

    /// What a connection does with several paths.
    pub(crate) fn multipath(&self) -> MultipathConfig {
        let mut config = MultipathConfig::default();
        // clap let only known names pass.
        if let Some(scheduler) = multipath::sched::registry::by_name(&self.scheduler) {
            config.scheduler = scheduler;
        }
        config.ack_routing = AckRouting::by_name(&self.ack_routing).unwrap_or_default();
        config
    }
}

/// A sink that writes one file per connection into `dir`.
pub(crate) fn qlog_into(dir: &Path) -> Outcome<observe::SharedSinkFactory> {
    std::fs::create_dir_all(dir).map_err(|error| Failure::file("make directory", dir, &error))?;
    let dir = dir.to_owned();
    let make = move |info: &observe::ConnectionInfo| {
        let path = dir.join(observe::QlogFactory::file_name(info));
        match File::create(&path) {
            Ok(file) => Some(Box::new(file) as observe::QlogWriter),
            Err(error) => {
                eprintln!("tautline: {}", Failure::file("write", &path, &error));
                None
            }
        }
    };
    Ok(Arc::new(observe::QlogFactory::new(make)))
}

/// Whose certificate a client accepts.
#[derive(Clone, Debug, Args)]
pub(crate) struct TrustOptions {
    /// Accept exactly the certificate with this SHA-256 fingerprint, as `serve` prints it
    /// (repeatable)
    #[arg(long, value_name = "SHA256", conflicts_with_all = ["insecure", "ca"])]
    pin: Vec<Fingerprint>,
    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Accept any certificate: encrypts, but anyone may sit in the middle
    #[arg(long)]
    insecure: bool,
}

impl TrustOptions {
    /// TLS set-up without ALPN; respects SSLKEYLOGFILE.
    pub(crate) fn tls(&self) -> Outcome<ClientTls> {
        let tls = if !self.pin.is_empty() {
            ClientTls::pinned(self.pin.iter().copied())
        } else if self.insecure {
            ClientTls::danger_accept_any_certificate()
        } else if let Some(path) = &self.ca {
            let trusted = ClientTls::with_certificates(certificates_from(path)?);
            trusted.map_err(|error| Failure::new(format!("{}: {error}", path.display())))?
        } else {
            ClientTls::with_platform_roots()?
        };
        Ok(tls.key_log_from_env())
    }

    /// Connects to whichever address of `host` answers first, from any of `from`, or from anywhere if
    /// that is empty. Also tells from which.
    pub(crate) async fn connect(
        &self,
        endpoint: &Endpoint,
        from: &[LocalEnd],
        host: &str,
        port: u16,
    ) -> Outcome<(Connection, usize)> {
        let error = match endpoint.connect_host_from(from, host, port).await {
            Ok(connected) => return Ok(connected),
            Err(error) => error,
        };
        let wrong_pin = !self.pin.is_empty()
            && matches!(&error, ConnectHostError::AllFailed { attempts, .. } if attempts
                .iter()
                .any(|(_, error)| matches!(error, HandshakeError::BadCertificate { .. })));
        Err(if wrong_pin {
            Failure::new(format!(
                "{host} shows another certificate than the pinned one: check the fingerprint; if \
                 it is right, somebody else is answering"
            ))
        } else {
            error.into()
        })
    }
}

/// The certificates of a PEM file, at least one.
pub(crate) fn certificates_from(path: &Path) -> Outcome<Vec<CertificateDer<'static>>> {
    let text = std::fs::read(path).map_err(|error| Failure::file("read", path, &error))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(Failure::new(format!(
            "{} holds no certificate (PEM)",
            path.display()
        ))),
        Err(error) => Err(Failure::new(format!("{}: {error}", path.display()))),
    }
}

/// An endpoint for clients that reaches IPv6 and IPv4, or IPv4 alone where there is no IPv6.
pub(crate) fn client_endpoint() -> Outcome<Endpoint> {
    let any_v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let any_v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    Ok(Endpoint::client(any_v6).or_else(|_| Endpoint::client(any_v4))?)
}

/// A server at all of these addresses, the first of which is its own.
pub(crate) fn listen(config: ServerConfig, at: &[SocketAddr]) -> Outcome<Endpoint> {
    let Some((first, others)) = at.split_first() else {
        return Err(Failure::new("no address to listen at"));
    };
    let builder = Endpoint::builder().server(config);
    let builder = others
        .iter()
        .fold(builder, |builder, addr| builder.also_bind(*addr));
    Ok(builder.bind(*first)?)
}

/// Where a server listens, a line each; for programs, too.
pub(crate) fn listening(endpoint: &Endpoint) -> String {
    let mut text = format!("listening on {}\n", endpoint.local_addr());
    for other in endpoint.other_addrs() {
        text += &format!("  and on {other}\n");
    }
    text
}

/// A number of bytes: digits and one of the suffixes k, M, G (powers of 1000) or Ki, Mi, Gi.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, suffix) = text.split_at(split);
    let factor = match suffix {
        "" | "B" => 1,
        "k" | "K" | "kB" => 1_000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "Ki" | "KiB" => 1 << 10,
        "Mi" | "MiB" => 1 << 20,
        "Gi" | "GiB" => 1 << 30,
        _ => {
            return Err(format!(
                "unknown suffix {suffix:?}: use k, M, G, Ki, Mi or Gi"
            ));
        }
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "a size starts with a number".to_owned())?;
    number
        .checked_mul(factor)
        .ok_or_else(|| "too large".to_owned())
}

/// A redundancy scheduler with its options.
pub(crate) fn parse_redundancy(text: &str) -> Result<SharedRedundancyFactory, String> {
    registry::parse(text).map_err(|error| error.to_string())
}

/// [`parse_bytes`] of at least one byte.
pub(crate) fn parse_some_bytes(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        0 => Err("at least 1 byte".to_owned()),
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_bytes("0"), Ok(0));
        assert_eq!(parse_bytes("12k"), Ok(12_000));
        assert_eq!(parse_bytes("3Mi"), Ok(3 << 20));
        assert_eq!(parse_bytes("1GB"), Ok(1_000_000_000));
        for bad in ["", "k", "1x", "99999999999G", "-1"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_some_bytes("1k"), Ok(1_000));
        assert!(parse_some_bytes("0k").is_err());
    }
}
