//! What became of `--fec` on a connection.
//!
//! Owns: whether erasure correction was agreed, its counters, how both are told.
//! Does not own: the option (`options.rs`), the counters themselves (`tautline`).

use std::fmt;

use serde::Serialize;
use tautline::{Connection, transport::fec::FecStats};

/// A connection to a server on which erasure correction was asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    connection: Connection,
    sending: bool,
    receiving: bool,
}

impl Asked {
    /// Notes what the handshake agreed, which a connection forgets at its end.
    pub(crate) fn on(connection: &Connection) -> Self {
        Self {
            connection: connection.clone(),
            sending: connection.is_fec_sender(),
            receiving: connection.is_fec_receiver(),
        }
    }

    /// What it has done so far; also after the connection's end.
    pub(crate) fn figures(&self) -> ErasureCorrection {
        let stats = self.connection.fec_stats();
        ErasureCorrection::new(self.sending, self.receiving, &stats)
    }
}

/// What erasure correction did on this end, in packets.
#[derive(Debug, Serialize)]
pub(crate) struct ErasureCorrection {
    /// Whether the handshake agreed on it for what we send.
    agreed_sending: bool,
    /// Whether it did for what the server sends.
    agreed_receiving: bool,
    repair_sent: u64,
    /// Lost packets of ours that the server rebuilt.
    recovered_by_server: u64,
    repair_received: u64,
    /// Lost packets of the server's that were rebuilt here.
    recovered: u64,
    /// Repair symbols received that told something new.
    useful: u64,
    /// Repair symbols received that told nothing new.
    wasted: u64,
}

impl ErasureCorrection {
    fn new(agreed_sending: bool, agreed_receiving: bool, stats: &FecStats) -> Self {
        Self {
            agreed_sending,
            agreed_receiving,
            repair_sent: stats.repairs_sent,
            recovered_by_server: stats.reported_recovered,
            repair_received: stats.repairs_received,
            recovered: stats.recovered,
            useful: stats.useful,
            wasted: stats.wasted,
        }
    }
}

impl fmt::Display for ErasureCorrection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agreed = match (self.agreed_sending, self.agreed_receiving) {
            (true, true) => "agreed both ways",
            (true, false) => "agreed towards the server only",
            (false, true) => "agreed from the server only",
            (false, false) => {
                return f.write_str(
                    "not agreed, nothing was protected: the server must have --fec too, one end \
                     another scheduler than none, and both the same code",
                );
            }
        };
        write!(
            f,
            "{agreed}; {} repair symbols sent, {} packets recovered by the server; {} repair symbols \
             received, {} useful, {} wasted, {} packets recovered",
            self.repair_sent,
            self.recovered_by_server,
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
        let said = |sending, receiving| {
            ErasureCorrection::new(sending, receiving, &FecStats::default()).to_string()
        };
        assert!(said(true, true).starts_with("agreed both ways; 0 repair symbols sent"));
        assert!(said(true, false).starts_with("agreed towards the server only"));
        assert!(said(false, true).starts_with("agreed from the server only"));
        let not = said(false, false);
        assert!(
            not.starts_with("not agreed") && not.contains("--fec"),
            "{not}"
        );
    }
}
