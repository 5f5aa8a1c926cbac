//! What arrived in a packet number space, and which acknowledgement is owed for it.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    TimestampConfig,
    echo::{Echoes, Place},
    ranges::Ranges,
    timestamps::{ArrivalTimes, MAX_PENDING},
};
use crate::{
    ack::{AckDecision, AckPolicy, ReceivedView},
    config::Limits,
    packet::PacketWriter,
    time::{Instant, earliest},
    units::{Ecn, PacketNumber, PathId},
    wire::{AckToWrite, EcnCounts, TimestampsToWrite},
};

/// An ACK is this much longer than what it answers at most, about.
const ACK_FACTOR: u64 = 3;
/// Most bytes that a range takes in an ACK frame in practice.
const RANGE_BYTES: u64 = 4;
/// Ranges that every ACK may have.
const MIN_RANGES: usize = 16;
/// Ranges that an ACK may have for as long as the packets that it answers pay for them.
const PAID_RANGES: u64 = 64;
/// ACKs in a row that tell of a range at least, about: so many may be lost together.
const TELLINGS: u64 = 8;
/// Ranges that an echo may have.
const ECHO_RANGES: usize = 8;

/// Received packet numbers, ECN counts and the state of the next ACK.
#[derive(Debug)]
pub struct ReceivedPackets {
    ranges: Ranges,
    /// Different packet numbers received, forgotten ones too.
    count: u64,
    /// When the largest packet number arrived; ACK Delay counts from here.
    largest_at: Instant,
    ecn: EcnCounts,
    /// The mark of the packet before.
    previous_ecn: Ecn,
    /// Largest packet number in the last ACK sent.
    largest_reported: Option<PacketNumber>,
    /// When that ACK left.
    last_ack_sent: Option<Instant>,
    /// Largest ack-eliciting packet number.
    largest_eliciting: Option<PacketNumber>,
    /// Ack-eliciting packets since the last ACK.
    unacked_eliciting: u64,
    /// Bytes of packets since the last ACK.
    unreported_bytes: u64,
    /// Ranges that had begun when the last ACK left.
    begun_before: u64,
    /// Ranges that ACKs before have told of too rarely: [`TELLINGS`] times what began between two
    /// ACKs, on average of the last few.
    retold: u64,
    /// An ACK must leave as soon as possible.
    immediate: bool,
    /// An ACK must leave by then.
    deadline: Option<Instant>,
    /// Kept only while the peer wants them.
    arrivals: Option<Box<ArrivalTimes>>,
    echoes: Echoes,
}

impl ReceivedPackets {
    /// Nothing received; allocates nothing.
    pub fn new(limits: &Limits) -> Self {
        Self {
            ranges: Ranges::new(limits.received_ranges),
            count: 0,
            largest_at: Instant::ZERO,
            ecn: EcnCounts {
                ect0: 0,
                ect1: 0,
                ce: 0,
            },
            previous_ecn: Ecn::NotEct,
            largest_reported: None,
            last_ack_sent: None,
            largest_eliciting: None,
            unacked_eliciting: 0,
            unreported_bytes: 0,
            begun_before: 0,
            retold: 0,
            immediate: false,
            deadline: None,
            arrivals: None,
            echoes: Echoes::default(),
        }
    }

    /// Nothing will be acknowledged any more: keeps only what tells packet numbers.
    pub(crate) fn release(&mut self) {
        self.ranges.keep_newest();
        self.arrivals = None;
        self.immediate = false;
        self.deadline = None;
    }

    /// Whether this number arrived before, or is so old that nobody remembers.
    pub fn is_duplicate(&self, number: PacketNumber) -> bool {
        self.ranges.contains(number)
    }

    /// A packet that is no duplicate was opened and its frames were processed.
    ///
    /// `policy` `None` (Initial and Handshake): acknowledge at once, RFC 9000 s13.2.1.
    /// `immediate`: it held IMMEDIATE_ACK; `repair`: it held a repair symbol.
    #[expect(
        clippy::too_many_arguments,
        reason = "one call site; a struct would name them twice"
    )]
    pub fn on_received(
        &mut self,
        number: PacketNumber,
        now: Instant,
        ack_eliciting: bool,
        ecn: Ecn,
        immediate: bool,
        repair: bool,
        policy: Option<&mut (dyn AckPolicy + 'static)>,
        handshake_confirmed: bool,
        smoothed_rtt: Duration,
    ) {
        let largest_before = self.ranges.largest();
        if !self.ranges.insert(number) {
            return;
        }
        self.count += 1;
        let place = match largest_before {
            Some(largest) if number < largest => Place::Late,
            Some(largest) if number > largest.saturating_add(1) => Place::BehindGap,
            _ => Place::Next,
        };
        self.echoes.on_packet(now, ack_eliciting, place);
        if largest_before.is_none_or(|largest| number > largest) {
            self.largest_at = now;
        }
        match ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => self.ecn.ect0 += 1,
            Ecn::Ect1 => self.ecn.ect1 += 1,
            Ecn::Ce => self.ecn.ce += 1,
        }
        let previous_ecn = std::mem::replace(&mut self.previous_ecn, ecn);
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.record(number, now);
        }
        let eliciting_before = self.largest_eliciting;
        if ack_eliciting {
            self.unacked_eliciting += 1;
            self.largest_eliciting = self.largest_eliciting.max(Some(number));
        }
        let Some(policy) = policy else {
            self.immediate |= ack_eliciting;
            return;
        };
        let decision = policy.on_packet(&ReceivedView {
            now,
            packet_number: number,
            ack_eliciting,
            ecn,
            previous_ecn,
            largest_before: eliciting_before,
            largest_reported: self.largest_reported,
            smallest_unreported_missing: self.unreported_missing(policy.reordering_threshold()),
            unacked_eliciting: self.unacked_eliciting,
            immediate_requested: immediate,
            repair,
            handshake_confirmed,
            smoothed_rtt,
            last_ack_sent: self.last_ack_sent,
        });
        match decision {
            AckDecision::Now => self.immediate = true,
            AckDecision::By(at) => self.deadline = earliest(self.deadline, Some(at)),
            AckDecision::Hold => {}
        }
        // Whatever the policy says, an ack-eliciting packet is acknowledged within the delay we
        // told the peer. RFC 9000 s13.2.1.
        if ack_eliciting && !self.immediate {
            let latest = now + policy.max_ack_delay();
            self.deadline = earliest(self.deadline, Some(latest));
        }
    }

    /// Beside [`Self::on_received`]: how long the packet was.
    pub fn note_bytes(&mut self, bytes: usize) {
        self.unreported_bytes = self.unreported_bytes.saturating_add(bytes as u64);
        self.echoes.on_bytes(bytes as u64);
    }

    /// Ranges in the next ACK at most: [`MIN_RANGES`], and as far as the bytes that it answers pay
    /// for them [`PAID_RANGES`] and what began of late. ACKs are not congestion controlled: small
    /// packets with gaps between them must not draw large ones, nor one burst of losses a round
    /// trip of large ones. What is left out was in ACKs before, each of which is tried again by
    /// the next [`MIN_RANGES`].
    fn most_ranges(&self) -> usize {
        let paid = self.unreported_bytes.saturating_mul(ACK_FACTOR) / RANGE_BYTES;
        let told = self.fresh_ranges().saturating_add(self.retold);
        let most = paid.min(told.saturating_add(PAID_RANGES));
        usize::try_from(most).unwrap_or(usize::MAX).max(MIN_RANGES)
    }

    /// Ranges that began since the last ACK.
    fn fresh_ranges(&self) -> u64 {
        self.ranges.begun().saturating_sub(self.begun_before)
    }

    /// The smallest missing number that no ACK so far lets the peer declare lost:
    /// above largest reported - threshold. draft-ietf-quic-ack-frequency s6.2.
    fn unreported_missing(&self, threshold: u64) -> Option<PacketNumber> {
        let bound = self
            .largest_reported
            .and_then(|largest| largest.checked_sub(threshold));
        self.ranges.smallest_missing_above(bound)
    }

    /// The largest packet number received.
    pub fn largest(&self) -> Option<PacketNumber> {
        self.ranges.largest()
    }

    /// Different packet numbers received.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Numbers below the largest received that have not come. Goes down when a late packet comes;
    /// what comes so late that its number is forgotten stays missing.
    pub fn missing(&self) -> u64 {
        let numbers = self
            .largest()
            .map_or(0, |largest| largest.saturating_add(1));
        numbers.saturating_sub(self.count)
    }

    /// When an ACK that may wait must leave; `None` while none is owed or one is due at once
    /// ([`Self::ack_due`]), for which no timer is needed.
    pub fn ack_deadline(&self) -> Option<Instant> {
        if self.immediate { None } else { self.deadline }
    }

    /// Time passed: an ACK past its deadline is due at once, and asks for no timer again if it
    /// cannot leave (the amplification limit, missing keys).
    pub fn on_timeout(&mut self, now: Instant) {
        self.immediate |= self.ack_due(now);
    }

    /// Whether an ACK must leave now.
    pub fn ack_due(&self, now: Instant) -> bool {
        self.immediate || self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Whether an ack-eliciting packet was not reported yet: an ACK should ride along with
    /// whatever is sent.
    pub fn has_unreported(&self) -> bool {
        self.unacked_eliciting > 0
    }

    /// Marks seen on the packets received here. RFC 9000 s13.4.1.
    pub fn ecn_counts(&self) -> EcnCounts {
        self.ecn
    }

    /// Received numbers as ranges, newest first; at most `Limits::received_ranges`.
    pub fn ranges(&self) -> impl Iterator<Item = RangeInclusive<PacketNumber>> + Clone + '_ {
        self.ranges.iter()
    }

    /// What was acknowledged may not have been heard of: the same is acknowledged again at once.
    pub(crate) fn report_again(&mut self) {
        self.immediate |= self.last_ack_sent.is_some();
    }

    /// Writes an ACK of everything remembered; false if nothing was received or nothing fits.
    ///
    /// `ack_delay_exponent`: ours, as announced. `timestamps`: the peer's wishes, if it has any;
    /// arrival times are kept (at most 64) from the first such call on.
    pub fn write_ack(
        &mut self,
        now: Instant,
        path: Option<PathId>,
        ack_delay_exponent: u8,
        timestamps: Option<TimestampConfig>,
        packet: &mut PacketWriter<'_>,
    ) -> bool {
        let written = self.push_ack(now, path, ack_delay_exponent, timestamps, packet);
        if let Some(largest) = written {
            self.on_ack_sent(now, largest);
        }
        written.is_some()
    }

    /// The same on another path than the one that carries acknowledgements: what is owed there stays owed.
    pub(crate) fn write_ack_copy(
        &mut self,
        now: Instant,
        path: Option<PathId>,
        ack_delay_exponent: u8,
        timestamps: Option<TimestampConfig>,
        packet: &mut PacketWriter<'_>,
    ) -> bool {
        self.push_ack(now, path, ack_delay_exponent, timestamps, packet)
            .is_some()
    }

    /// Whether another path is to tell what arrived here, if a packet leaves there anyway.
    pub(crate) fn echo_due(&self, now: Instant, smoothed_rtt: Duration) -> bool {
        self.echoes.is_due(now, smoothed_rtt)
    }

    /// Writes an echo of the newest ranges, if it fits. What is owed stays owed.
    pub(crate) fn write_echo(&mut self, path: PathId, packet: &mut PacketWriter<'_>) {
        if packet.push_path_echo(path, self.ranges.iter().take(ECHO_RANGES)) {
            self.echoes.on_written();
        }
    }

    fn push_ack(
        &mut self,
        now: Instant,
        path: Option<PathId>,
        ack_delay_exponent: u8,
        timestamps: Option<TimestampConfig>,
        packet: &mut PacketWriter<'_>,
    ) -> Option<PacketNumber> {
        let largest = self.ranges.largest()?;
        let delay = now.saturating_since(self.largest_at).as_micros();
        let delay = u64::try_from(delay).unwrap_or(u64::MAX) >> ack_delay_exponent.min(20);
        let marked = self.ecn.ect0 > 0 || self.ecn.ect1 > 0 || self.ecn.ce > 0;
        // Not cleared unless it is used.
        let mut newest;
        let to_report = match timestamps {
            Some(config) => {
                newest = [(0, 0); MAX_PENDING];
                let arrivals = self.arrivals.get_or_insert_default();
                let received = arrivals.newest(&config, &mut newest);
                (!received.is_empty()).then_some(TimestampsToWrite {
                    received,
                    exponent: config.exponent,
                    max: config.max_per_ack,
                })
            }
            None => None,
        };
        let ack = AckToWrite {
            path,
            largest,
            delay,
            ranges: self.ranges.iter().take(self.most_ranges()),
            ecn: marked.then_some(self.ecn),
            timestamps: to_report,
        };
        packet.push_ack(ack).then_some(largest)
    }

    /// As if [`Self::write_ack`] had succeeded.
    #[cfg(test)]
    pub(crate) fn ack_was_sent(&mut self, now: Instant) {
        if let Some(largest) = self.ranges.largest() {
            self.on_ack_sent(now, largest);
        }
    }

    fn on_ack_sent(&mut self, now: Instant, largest: PacketNumber) {
        let told = self.retold.saturating_add(self.fresh_ranges());
        self.retold = told - told.div_ceil(TELLINGS);
        self.begun_before = self.ranges.begun();
        self.largest_reported = Some(largest);
        self.last_ack_sent = Some(now);
        self.unacked_eliciting = 0;
        self.unreported_bytes = 0;
        self.immediate = false;
        self.deadline = None;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.clear();
        }
    }

    /// The peer acknowledged a packet with an ACK of ours whose largest number was `largest`:
    /// what that ACK told needs no telling again. RFC 9000 s13.2.4.
    pub fn on_ack_acked(&mut self, largest: PacketNumber) {
        self.ranges.forget_up_to(largest);
    }
}
