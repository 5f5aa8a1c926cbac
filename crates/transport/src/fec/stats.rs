//! Counters.

/// What erasure correction has done on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FecStats {
    /// Packets sent whose frames were protected.
    pub sources_sent: u64,
    /// Repair symbols sent.
    pub repairs_sent: u64,
    /// Bytes of packets with repair symbols sent, UDP payload.
    pub repair_bytes_sent: u64,
    /// Source symbols of ours that were lost and that the peer has recovered.
    pub reported_recovered: u64,
    /// Source symbols of ours that were lost and went out again as data.
    pub retransmitted: u64,
    /// Lost source symbols of ours that waited for a repair symbol under way.
    pub waited: u64,
    /// How much time the repair symbols sent were expected to save, by schedulers that say so.
    pub expected_saving: std::time::Duration,
    /// Packets received whose frames were protected.
    pub sources_received: u64,
    /// Repair symbols received.
    pub repairs_received: u64,
    /// Source symbols of the peer recovered here.
    pub recovered: u64,
    /// Repair symbols received that told something new: alone or with others they can stand for a lost symbol.
    pub useful: u64,
    /// Repair symbols received that told nothing new, or came too late.
    pub wasted: u64,
    /// Repair symbols received that contradict what is known, and recovered symbols that made no
    /// sense; ignored.
    pub ignored: u64,
}

impl FecStats {
    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            sources_sent: self.sources_sent + other.sources_sent,
            repairs_sent: self.repairs_sent + other.repairs_sent,
            repair_bytes_sent: self.repair_bytes_sent + other.repair_bytes_sent,
            reported_recovered: self.reported_recovered + other.reported_recovered,
            retransmitted: self.retransmitted + other.retransmitted,
            waited: self.waited + other.waited,
            expected_saving: self.expected_saving.saturating_add(other.expected_saving),
            sources_received: self.sources_received + other.sources_received,
            repairs_received: self.repairs_received + other.repairs_received,
            recovered: self.recovered + other.recovered,
            useful: self.useful + other.useful,
            wasted: self.wasted + other.wasted,
            ignored: self.ignored + other.ignored,
        }
    }
}
