//! One connection's receiving side of erasure correction.

use tautline_codes::{Limits, Scheme};

use super::{
    feedback::Feedback,
    recover::{Recovering, Use},
    stats::FecStats,
};
use crate::{
    error::TransportError,
    packet::PacketWriter,
    wire::{Repair, SourceSymbol},
};

/// Takes source and repair symbols, gives recovered ones, and writes SYMBOL_ACK.
#[derive(Debug)]
pub struct FecReceiver {
    recovering: Recovering,
    feedback: Feedback,
    stats: FecStats,
}

impl FecReceiver {
    /// A decoder for what the peer sends with `scheme`.
    pub fn new(limits: Limits, scheme: Scheme) -> Self {
        Self {
            recovering: Recovering::new(limits, scheme),
            feedback: Feedback::default(),
            stats: FecStats::default(),
        }
    }

    /// A packet's frames from its SOURCE_SYMBOL header to its end. True if the symbol is known
    /// already: what may not be done twice was done.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION for a symbol beyond what we announced.
    pub fn on_source(
        &mut self,
        header: SourceSymbol,
        symbol: &[u8],
    ) -> Result<bool, TransportError> {
        self.stats.sources_received += 1;
        let id = self.recovering.complete(header);
        let used = self.recovering.on_source(id, symbol)?;
        self.stats.ignored += u64::from(used == Use::Nonsense);
        Ok(used == Use::Redundant)
    }

    /// A REPAIR frame.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION for one beyond what we announced, or that the code does not have. One
    /// that contradicts other symbols is ignored.
    pub fn on_repair(&mut self, repair: &Repair<'_>) -> Result<(), TransportError> {
        self.stats.repairs_received += 1;
        match self.recovering.on_repair(repair)? {
            Use::Useful => {}
            Use::Redundant | Use::Stale => self.stats.wasted += 1,
            Use::Nonsense => self.stats.ignored += 1,
        }
        Ok(())
    }

    /// The next symbol recovered: its ID and its frames.
    pub fn next_recovered(&mut self) -> Option<(u64, &[u8])> {
        self.recovering.next()
    }

    /// The frames of a recovered symbol were taken: the peer need not send them again.
    pub fn on_recovered(&mut self, id: u64) {
        self.stats.recovered += 1;
        self.feedback.on_recovered(id);
    }

    /// A recovered symbol is not what may be recovered; nothing of it was taken.
    pub fn on_nonsense(&mut self) {
        self.stats.ignored += 1;
    }

    /// Whether a SYMBOL_ACK must leave now.
    pub fn ack_due(&self) -> bool {
        self.feedback.is_due()
    }

    /// Writes a SYMBOL_ACK if there is something to tell and it fits.
    pub fn write_ack(&mut self, packet: &mut PacketWriter<'_>) {
        if self.feedback.has_news() && packet.push_symbol_ack(self.feedback.ranges()) {
            self.feedback.on_told();
        }
    }

    /// Counters; those of sending are 0.
    pub fn stats(&self) -> FecStats {
        self.stats
    }
}
