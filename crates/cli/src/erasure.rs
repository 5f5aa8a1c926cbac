//! What became of `--fec` on a connection.
//!
//! Owns: whether erasure correction was agreed, its counters, how both are told.
//! Does not own: the option (`options.rs`), the counters themselves (`tautline`).

use std::fmt;

use serde::Serialize;
use tautline::{Connection, transport::fec::FecStats};

/// A connection on which erasure correction was asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    connection: Connection,
    peer: &'static str,
    sending: bool,
    receiving: bool,
}

impl Asked {
    /// Of a connection to a server: notes what the handshake agreed, which a connection forgets at its end.
    pub(crate) fn on(connection: &Connection) -> Self {
        Self::with(connection, "server")
    }

    /// The same of a client's connection; `None` where nothing was agreed.
    pub(crate) fn by_client(connection: &Connection) -> Option<Self> {
        let asked = Self::with(connection, "client");
        (asked.sending || asked.receiving).then_some(asked)
    }

    fn with(connection: &Connection, peer: &'static str) -> Self {
        Self {
            connection: connection.clone(),
            peer,
            sending: connection.is_fec_sender(),
            receiving: connection.is_fec_receiver(),
        }
    }

    /// What it has done so far; also after the connection's end.
    pub(crate) fn figures(&self) -> ErasureCorrection {
        let stats = self.connection.fec_stats();
        ErasureCorrection::new(self.peer, self.sending, self.receiving, &stats)
    }
}

/// What erasure correction did on this end, in packets.
#[derive(Debug, Serialize)]
pub(crate) struct ErasureCorrection {
    /// What the other end is called. Only of a server's figures is JSON made.
    #[serde(skip)]
    peer: &'static str,
    /// Whether the handshake agreed on it for what we send.
    agreed_sending: bool,
    /// Whether it did for what the other end sends.
    agreed_receiving: bool,
    repair_sent: u64,
    /// Lost packets of ours that the other end rebuilt.
    #[serde(rename = "recovered_by_server")]
    recovered_by_peer: u64,
    repair_received: u64,
    /// Lost packets of the other end that were rebuilt here.
    recovered: u64,
    /// Repair symbols received that told something new.
    useful: u64,
    /// Repair symbols received that told nothing new.
    wasted: u64,
}

impl ErasureCorrection {
    fn new(
        peer: &'static str,
        agreed_sending: bool,
        agreed_receiving: bool,
        stats: &FecStats,
    ) -> Self {
        Self {
            peer,
            agreed_sending,
            agreed_receiving,
            repair_sent: stats.repairs_sent,
            recovered_by_peer: stats.reported_recovered,
            repair_received: stats.repairs_received,
            recovered: stats.recovered,
            useful: stats.useful,
            wasted: stats.wasted,
        }
    }
}

impl fmt::Display for ErasureCorrection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = self.peer;
        match (self.agreed_sending, self.agreed_receiving) {
            (true, true) => f.write_str("agreed both ways")?,
            (true, false) => write!(f, "agreed towards the {peer} only")?,
            (false, true) => write!(f, "agreed from the {peer} only")?,
            (false, false) => {
                return f.write_str(
                    "not agreed, nothing was protected: the server must have --fec too, one end \
                     another scheduler than none, and both the same code",
                );
            }
        }
        write!(
            f,
            "; {} repair symbols sent, {} packets recovered by the {peer}; {} repair symbols \
             received, {} useful, {} wasted, {} packets recovered",
            self.repair_sent,
            self.recovered_by_peer,
            self.repair_received,
            self.useful,
            self.wasted,
            self.recovered,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_that_was_agreed_is_told() {
        let said_of = |peer, sending, receiving| {
            ErasureCorrection::new(peer, sending, receiving, &FecStats::default()).to_string()
        };
        let said = |sending, receiving| said_of("server", sending, receiving);
        assert!(said(true, true).starts_with("agreed both ways; 0 repair symbols sent"));
        assert!(said(true, false).starts_with("agreed towards the server only"));
        assert!(said(false, true).starts_with("agreed from the server only"));
        let towards = said_of("client", true, false);
        assert!(towards.starts_with("agreed towards the client only; 0 repair"));
        assert!(towards.contains("0 packets recovered by the client;"));
        let not = said(false, false);
        assert!(
            not.starts_with("not agreed") && not.contains("--fec"),
            "{not}"
        );
    }
}
