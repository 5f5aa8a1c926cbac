//! One connection's receiving side of erasure correction.

use std::collections::VecDeque;

use tautline_codes::{Limits, Scheme};

use super::{
    feedback::Feedback,
    recover::{Recovering, Use},
    stats::FecStats,
};
use crate::{
    error::TransportError,
    packet::PacketWriter,
    wire::{Frame, Repair, SourceSymbol},
};

/// Repair symbols of one packet that are used; senders put one into a packet. Their coefficients cost work whatever
/// their size, and a packet has room for a hundred that are next to empty.
const MOST_OF_PACKET: u32 = 2;
/// Recovered symbols that are remembered at least, also once they are too old for the decoder; 8 bytes each. A network that holds their
/// packets back for longer may have a datagram delivered twice.
const OLD: usize = 1024;

/// Takes source and repair symbols, gives recovered ones, and writes SYMBOL_ACK.
#[derive(Debug)]
pub struct FecReceiver {
    recovering: Recovering,
    feedback: Feedback,
    /// The latest recovered symbols whose frames were taken, [`OLD`] or as many as the decoder has.
    recovered: VecDeque<u64>,
    limits: Limits,
    /// Source symbols that the newest FEC_WINDOW grants; none was needed so far, if `None`.
    window: Option<u16>,
    /// FEC_WINDOW frames written so far, and whether another is owed.
    windows_sent: u64,
    owes_window: bool,
    /// Repair symbols of the packet in work.
    of_packet: u32,
    stats: FecStats,
}

impl FecReceiver {
    /// A decoder for what the peer sends with `scheme`.
    pub fn new(limits: Limits, scheme: Scheme) -> Self {
        Self {
            recovering: Recovering::new(limits, scheme),
            feedback: Feedback::default(),
            recovered: VecDeque::new(),
            limits,
            window: None,
            windows_sent: 0,
            owes_window: false,
            of_packet: 0,
            stats: FecStats::default(),
        }
    }

    /// A packet's frames from its SOURCE_SYMBOL header to its end. True if the symbol was recovered and its
    /// frames were taken: what may not be done twice was done. One that is known for another reason was not:
    /// it made no sense, or the peer gave its number to two packets.
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
        Ok(matches!(used, Use::Redundant | Use::Stale) && self.recovered.contains(&id))
    }

    /// The symbol ID that a header means.
    pub fn id_of(&self, header: SourceSymbol) -> u64 {
        self.recovering.complete(header)
    }

    /// The frames of a packet are over. Whether [`Self::next_recovered`] has anything to tell.
    #[inline]
    pub fn on_packet_end(&mut self) -> bool {
        self.of_packet = 0;
        self.recovering.has_next()
    }

    /// A REPAIR frame.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION for one beyond what we announced, or that the code does not have. One
    /// that contradicts other symbols is ignored, and so are more than a few of one packet.
    pub fn on_repair(&mut self, repair: &Repair<'_>) -> Result<(), TransportError> {
        self.stats.repairs_received += 1;
        self.of_packet += 1;
        if self.of_packet > MOST_OF_PACKET {
            self.stats.ignored += 1;
            return Ok(());
        }
        match self.recovering.on_repair(repair)? {
            Use::Useful => self.stats.useful += 1,
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
        if self.recovered.len() >= OLD.max(usize::from(self.limits.window_symbols())) {
            self.recovered.pop_front();
        }
        self.recovered.push_back(id);
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
        if self.feedback.has_news() {
            let told = packet.push_symbol_ack(self.feedback.ranges());
            self.feedback.on_told(told);
        }
    }

    /// Tells the peer to cover no more than so many source symbols by a repair symbol: 1 to what was
    /// announced in the handshake.
    pub fn set_window(&mut self, symbols: u16) {
        let symbols = symbols.clamp(1, self.limits.window_symbols());
        self.owes_window |= self.window != Some(symbols);
        self.window = Some(symbols);
    }

    /// Whether a FEC_WINDOW waits to be sent.
    pub fn owes_window(&self) -> bool {
        self.owes_window
    }

    /// Writes the FEC_WINDOW that is owed, if it fits.
    pub fn write_window(&mut self, packet: &mut PacketWriter<'_>) {
        let Some(symbols) = self.window.filter(|_| self.owes_window) else {
            return;
        };
        let frame = Frame::FecWindow {
            epoch: self.windows_sent,
            symbols: u64::from(symbols),
            bytes: u64::from(symbols) * self.limits.repair_bytes() as u64,
        };
        if packet.push(&frame) {
            self.windows_sent += 1;
            self.owes_window = false;
        }
    }

    /// The FEC_WINDOW of this epoch was lost; it is sent again, as a new one, if it is the newest.
    pub fn on_window_lost(&mut self, epoch: u64) {
        self.owes_window |= epoch + 1 == self.windows_sent;
    }

    /// Counters; those of sending are 0.
    pub fn stats(&self) -> FecStats {
        self.stats
    }
}
