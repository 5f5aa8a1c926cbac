//! Datagram packetization layer path MTU discovery. RFC 8899, RFC 9000 s14.3.
//!
//! Owns: the search state, and whether the size in use is in doubt. Sizes are UDP payload bytes.
//! Does not own: sending probes (the pump builds them) or declaring them lost (recovery reports
//! their fate).
//!
//! Large packets lost in a row do not prove that the path shrank: an outage, a rebinding of a NAT
//! or a full queue loses them as well. So they only raise a suspicion. While it lasts, data goes
//! out in datagrams that every path takes, and probes of the size in use ask the path itself: one
//! that arrives clears it; when smaller packets overtake every probe, the path is believed to have
//! shrunk. RFC 8899 s4.3, s5.2.
//!
//! The first probe may leave before the peer has the keys to read it. Its acknowledgement is as good
//! as any, its loss tells nothing.

use std::time::Duration;

use crate::{config::MtuConfig, time::Instant, units::PacketNumber};

/// Smallest datagram size QUIC may assume. RFC 9000 s14.
pub(crate) const BASE: u16 = 1200;
/// Probes of one size before it counts as too large. RFC 8899 s5.1.2 (MAX_PROBES).
const MAX_PROBES: u8 = 3;
/// A probe lost by itself weighs this much against its size, one lost among others a unit: a full
/// queue says nothing about sizes, yet a path that always loses something must not be probed for
/// ever.
const LONELY: u8 = 4;
/// What ends the search for a size.
const TOO_LARGE: u8 = MAX_PROBES * LONELY;
/// The search ends when its bounds are this close.
const GRANULARITY: u16 = 16;
/// Large packets lost in a row, while only small later ones arrived, that put the size in doubt.
const SUSPICIOUS_LOSSES: u8 = 6;

/// Finds the largest datagram that gets through.
#[derive(Clone, Debug)]
pub(crate) struct MtuDiscovery {
    config: MtuConfig,
    current: u16,
    /// The peer's max_udp_payload_size, and ours to send.
    limit: u16,
    phase: Phase,
    suspicious_losses: u8,
    doubt: Option<Doubt>,
    /// The first packet sent on the present network path: what became of earlier ones says nothing
    /// about it.
    first_number: PacketNumber,
    /// The newest packet larger than the base size that arrived.
    largest_large_acked: Option<PacketNumber>,
    /// Whether a packet that is no probe was lost since the newest probe left.
    others_lost: bool,
    /// A probe that left before the handshake was confirmed, until its fate is known.
    early: Option<PacketNumber>,
    /// Whether there ever was one.
    had_early: bool,
    enabled: bool,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Nothing to find out, or not allowed to.
    Idle { again_at: Option<Instant> },
    /// `low` is known to pass; `high` is not known to fail.
    Search {
        low: u16,
        high: u16,
        probe: u16,
        /// In units of which a lonely loss has [`LONELY`].
        failures: u8,
        in_flight: bool,
    },
}

/// The size in use may be too large by now.
#[derive(Clone, Copy, Debug, Default)]
struct Doubt {
    /// Probes of that size which smaller packets overtook.
    failures: u8,
    in_flight: bool,
}

impl MtuDiscovery {
    pub(crate) fn new(config: MtuConfig) -> Self {
        let current = config.initial.max(BASE);
        Self {
            config,
            current,
            limit: u16::MAX,
            phase: Phase::Idle { again_at: None },
            suspicious_losses: 0,
            doubt: None,
            first_number: 0,
            largest_large_acked: None,
            others_lost: false,
            early: None,
            had_early: false,
            enabled: false,
        }
    }

    /// Datagram size in use.
    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    /// The size of the next datagram: smaller than the one in use while that is in doubt.
    pub(crate) fn datagram_size(&self) -> u16 {
        if self.doubt.is_some() {
            self.current.min(BASE)
        } else {
            self.current
        }
    }

    /// Whether the search has ended for now.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Idle { .. })
    }

    fn clear_doubt(&mut self) {
        self.suspicious_losses = 0;
        self.doubt = None;
    }

    /// The peer takes no more than this (max_udp_payload_size). True if that shrinks datagrams.
    fn limit_to(&mut self, peer_limit: u64) -> bool {
        self.limit = u16::try_from(peer_limit).unwrap_or(u16::MAX).max(BASE);
        let shrinks = self.limit < self.current;
        self.current = self.current.min(self.limit);
        if shrinks {
            self.clear_doubt();
        }
        shrinks
    }

    /// The peer's limit is known: searching may begin, if it has not yet.
    pub(crate) fn start(&mut self, peer_limit: u64) {
        self.limit_to(peer_limit);
        if self.config.discovery && !self.enabled {
            self.enabled = true;
            self.begin_search();
        }
    }

    /// The size of a probe that leaves although the peer may lack the keys to read it: one at most.
    pub(crate) fn early_probe_size(&mut self, now: Instant) -> Option<u16> {
        self.probe_size(now).filter(|_| !self.had_early)
    }

    /// The probe that left before the handshake was confirmed, if nothing is known of it.
    pub(crate) fn early_probe(&self) -> Option<PacketNumber> {
        self.early
    }

    fn upper_bound(&self) -> u16 {
        self.config.upper_bound.min(self.limit)
    }

    fn begin_search(&mut self) {
        let high = self.upper_bound();
        self.phase = if self.enabled && high > self.current {
            // The likeliest answer first: most networks carry the configured bound.
            Phase::Search {
                low: self.current,
                high,
                probe: high,
                failures: 0,
                in_flight: false,
            }
        } else {
            Phase::Idle { again_at: None }
        };
    }

    /// A new network path may have another MTU.
    pub(crate) fn reset(&mut self) {
        self.current = self.config.initial.clamp(BASE, self.limit.max(BASE));
        self.clear_doubt();
        self.begin_search();
    }

    /// Packets below `number` went to another address, or through a mapping that a NAT forgot: they
    /// are lost or not whatever their size, so no suspicion follows from their fate.
    pub(crate) fn forget_before(&mut self, number: PacketNumber) {
        self.first_number = self.first_number.max(number);
        self.clear_doubt();
        if let Phase::Search { in_flight, .. } = &mut self.phase {
            *in_flight = false;
        }
    }

    /// The size of the probe to send now, if one is wanted.
    pub(crate) fn probe_size(&mut self, now: Instant) -> Option<u16> {
        if let Some(doubt) = self.doubt {
            return (!doubt.in_flight).then_some(self.current);
        }
        self.on_timeout(now);
        match self.phase {
            Phase::Search {
                probe,
                in_flight: false,
                ..
            } => Some(probe),
            _ => None,
        }
    }

    /// The probe that [`Self::probe_size`] asked for is on its way; `early` where the peer may lack the
    /// keys to read it.
    pub(crate) fn on_probe_sent(&mut self, number: PacketNumber, early: bool) {
        self.others_lost = false;
        if early {
            self.early = Some(number);
            self.had_early = true;
        }
        if let Some(doubt) = &mut self.doubt {
            doubt.in_flight = true;
        } else if let Phase::Search { in_flight, .. } = &mut self.phase {
            *in_flight = true;
        }
    }

    /// A probe of `size` got through. Returns the new datagram size if it grew.
    pub(crate) fn on_probe_acked(
        &mut self,
        now: Instant,
        number: PacketNumber,
        size: u16,
    ) -> Option<u16> {
        self.early = self.early.filter(|early| *early != number);
        if number < self.first_number {
            return None;
        }
        if size >= self.current {
            self.clear_doubt();
        }
        let Phase::Search { high, .. } = self.phase else {
            return None;
        };
        if size <= self.current {
            return None;
        }
        self.current = size;
        self.continue_search(now, size, high);
        Some(size)
    }

    /// Smaller or later packets got through, a probe of `size` did not. Returns the smaller size to
    /// use when that settles a doubt.
    pub(crate) fn on_probe_lost(
        &mut self,
        now: Instant,
        number: PacketNumber,
        size: u16,
    ) -> Option<u16> {
        let early = self.early.take_if(|early| *early == number).is_some();
        if number < self.first_number {
            return None;
        }
        if early {
            if let Phase::Search { in_flight, .. } = &mut self.phase {
                *in_flight = false;
            }
            return None;
        }
        if size == self.current
            && let Some(doubt) = &mut self.doubt
        {
            doubt.in_flight = false;
            doubt.failures += 1;
            return (doubt.failures >= MAX_PROBES).then(|| self.shrink(now));
        }
        let Phase::Search {
            low,
            high,
            probe,
            failures,
            ..
        } = self.phase
        else {
            return None;
        };
        if size != probe {
            return None;
        }
        let failures = failures + if self.others_lost { 1 } else { LONELY };
        if failures < TOO_LARGE {
            self.phase = Phase::Search {
                low,
                high,
                probe,
                failures,
                in_flight: false,
            };
        } else {
            self.continue_search(now, low, probe.saturating_sub(1).min(high));
        }
        None
    }

    /// The path takes no more than the base size any more.
    fn shrink(&mut self, now: Instant) -> u16 {
        self.clear_doubt();
        self.current = BASE;
        // Give the path a minute before trusting larger sizes again.
        let pause = self.config.raise_interval.min(Duration::from_secs(60));
        self.phase = Phase::Idle {
            again_at: self.enabled.then_some(now + pause),
        };
        BASE
    }

    fn continue_search(&mut self, now: Instant, low: u16, high: u16) {
        self.phase = if high.saturating_sub(low) < GRANULARITY {
            Phase::Idle {
                again_at: Some(now + self.config.raise_interval),
            }
        } else {
            let probe = low + (high - low).div_ceil(2);
            Phase::Search {
                low,
                high,
                probe,
                failures: 0,
                in_flight: false,
            }
        };
    }

    /// A packet was acknowledged.
    pub(crate) fn on_acked(&mut self, number: PacketNumber, bytes: u16) {
        if bytes > BASE && number >= self.first_number {
            self.suspicious_losses = 0;
            self.largest_large_acked = self.largest_large_acked.max(Some(number));
            if bytes >= self.current {
                self.doubt = None;
            }
        }
    }

    /// A packet that is no probe was lost.
    ///
    /// A full queue drops large packets in rows, too, but lets later ones through: only a loss
    /// that no later large packet survived is suspicious.
    pub(crate) fn on_lost(&mut self, number: PacketNumber, bytes: u16) {
        self.others_lost = true;
        let outlived = self.largest_large_acked.is_some_and(|acked| acked > number);
        let elsewhere = number < self.first_number;
        if bytes <= BASE || self.current <= BASE || outlived || elsewhere || self.doubt.is_some() {
            return;
        }
        self.suspicious_losses += 1;
        if self.suspicious_losses >= SUSPICIOUS_LOSSES {
            self.doubt = Some(Doubt::default());
        }
    }

    /// When probing should be reconsidered. While the current size is in doubt there is nothing to wait for but
    /// the answer.
    pub(crate) fn timer(&self) -> Option<Instant> {
        match self.phase {
            Phase::Idle { again_at } if self.doubt.is_none() => again_at,
            _ => None,
        }
    }

    /// Time passed: a search that is due begins, whether its probe may leave now or not, so that the timer
    /// has done its work.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        if self.timer().is_some_and(|at| now >= at) {
            self.begin_search();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    /// 1,400 bytes pass, the search is over.
    fn settled() -> MtuDiscovery {
        let mut mtu = MtuDiscovery::new(MtuConfig {
            upper_bound: 1400,
            ..MtuConfig::default()
        });
        mtu.start(65_527);
        assert_eq!(mtu.probe_size(NOW), Some(1400));
        mtu.on_probe_sent(0, false);
        assert_eq!(mtu.on_probe_acked(NOW, 10, 1400), Some(1400));
        assert!(mtu.is_settled());
        mtu.on_acked(10, 1400);
        mtu
    }

    fn lose_a_flight(mtu: &mut MtuDiscovery, from: PacketNumber) {
        for number in from..from + 20 {
            mtu.on_lost(number, 1400);
        }
    }

    #[test]
    fn a_lost_flight_is_doubted_and_a_probe_clears_it() {
        let mut mtu = settled();
        lose_a_flight(&mut mtu, 20);
        assert_eq!((mtu.current(), mtu.datagram_size()), (1400, BASE));
        assert_eq!(mtu.probe_size(NOW), Some(1400));
        mtu.on_probe_sent(0, false);
        assert_eq!(mtu.probe_size(NOW), None);
        assert_eq!(mtu.on_probe_acked(NOW, 41, 1400), None);
        assert_eq!((mtu.current(), mtu.datagram_size()), (1400, 1400));
        // Late news of the same flight raise no new doubt.
        mtu.on_acked(41, 1400);
        lose_a_flight(&mut mtu, 20);
        assert_eq!(mtu.datagram_size(), 1400);
    }

    #[test]
    fn probes_that_smaller_packets_overtake_shrink_the_size() {
        let mut mtu = settled();
        lose_a_flight(&mut mtu, 20);
        for round in 0..MAX_PROBES {
            assert_eq!(mtu.probe_size(NOW), Some(1400));
            mtu.on_probe_sent(0, false);
            let number = 50 + 2 * u64::from(round);
            mtu.on_acked(number + 1, BASE);
            let shrunk = mtu.on_probe_lost(NOW, number, 1400);
            assert_eq!(shrunk, (round + 1 == MAX_PROBES).then_some(BASE));
        }
        assert_eq!((mtu.current(), mtu.datagram_size()), (BASE, BASE));
        assert_eq!(mtu.probe_size(NOW), None);
        assert_eq!(mtu.timer(), Some(NOW + Duration::from_secs(60)));
    }

    /// A timer that stays due wakes its driver without end.
    #[test]
    fn a_search_that_is_due_waits_for_the_end_of_a_doubt() {
        let mut mtu = settled();
        lose_a_flight(&mut mtu, 20);
        mtu.phase = Phase::Idle {
            again_at: Some(NOW),
        };
        assert_eq!(mtu.probe_size(NOW), Some(1400));
        mtu.on_probe_sent(0, false);
        mtu.on_timeout(NOW);
        assert_eq!((mtu.timer(), mtu.probe_size(NOW)), (None, None));
        assert_eq!(mtu.on_probe_acked(NOW, 41, 1400), None);
        assert_eq!(mtu.timer(), Some(NOW));
        mtu.on_timeout(NOW);
        assert_eq!(mtu.timer(), None);
    }

    #[test]
    fn what_went_into_a_former_mapping_says_nothing() {
        let mut mtu = settled();
        lose_a_flight(&mut mtu, 20);
        mtu.on_probe_sent(0, false);
        mtu.forget_before(60);
        assert_eq!(mtu.datagram_size(), 1400);
        lose_a_flight(&mut mtu, 40);
        assert_eq!(mtu.on_probe_lost(NOW, 59, 1400), None);
        assert_eq!((mtu.probe_size(NOW), mtu.datagram_size()), (None, 1400));
        // What is lost on the present one does.
        lose_a_flight(&mut mtu, 60);
        assert_eq!(mtu.datagram_size(), BASE);
    }

    #[test]
    fn probes_lost_among_others_are_repeated_more_often() {
        for (others, probes) in [(false, MAX_PROBES), (true, TOO_LARGE)] {
            let mut mtu = MtuDiscovery::new(MtuConfig::default());
            mtu.start(65_527);
            let size = mtu.probe_size(NOW).unwrap();
            for number in 0..u64::from(probes) {
                assert_eq!(mtu.probe_size(NOW), Some(size), "{number}");
                mtu.on_probe_sent(0, false);
                if others {
                    mtu.on_lost(100 + number, BASE);
                }
                assert_eq!(mtu.on_probe_lost(NOW, number, size), None);
            }
            assert!(mtu.probe_size(NOW).unwrap() < size);
        }
    }

    /// A peer that lacks the keys makes no size too large; what arrives counts whenever it left.
    #[test]
    fn an_early_probe_may_be_lost_for_nothing() {
        let mut mtu = MtuDiscovery::new(MtuConfig::default());
        assert_eq!(
            mtu.early_probe_size(NOW),
            None,
            "the peer's limit is unknown"
        );
        mtu.start(65_527);
        let size = mtu.early_probe_size(NOW).unwrap();
        mtu.on_probe_sent(3, true);
        assert_eq!((mtu.early_probe(), mtu.probe_size(NOW)), (Some(3), None));
        mtu.start(65_527);
        assert_eq!(mtu.probe_size(NOW), None, "still under way");
        assert_eq!(mtu.on_probe_lost(NOW, 3, size), None);
        assert_eq!((mtu.early_probe(), mtu.early_probe_size(NOW)), (None, None));
        for number in 4..u64::from(MAX_PROBES) + 4 {
            assert_eq!(mtu.probe_size(NOW), Some(size), "{number}");
            mtu.on_probe_sent(number, false);
            mtu.on_probe_lost(NOW, number, size);
        }
        assert!(mtu.probe_size(NOW).unwrap() < size);
        assert_eq!(mtu.on_probe_acked(NOW, 3, size), Some(size));
        assert_eq!(mtu.current(), size);
    }

    #[test]
    fn a_probe_under_way_at_a_rebinding_is_repeated() {
        let mut mtu = MtuDiscovery::new(MtuConfig::default());
        mtu.start(65_527);
        let size = mtu.probe_size(NOW);
        mtu.on_probe_sent(0, false);
        mtu.forget_before(7);
        for number in 0..5 {
            assert_eq!(mtu.on_probe_lost(NOW, number, size.unwrap()), None);
        }
        assert_eq!(mtu.probe_size(NOW), size);
    }
}
