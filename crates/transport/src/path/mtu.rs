//! Datagram packetization layer path MTU discovery. RFC 8899, RFC 9000 s14.3.
//!
//! Owns: the search state. Sizes are UDP payload bytes. Does not own: sending probes (the pump
//! builds them) or declaring them lost (recovery reports their fate).

use crate::{config::MtuConfig, time::Instant, units::PacketNumber};

/// Smallest datagram size QUIC may assume. RFC 9000 s14.
pub(crate) const BASE: u16 = 1200;
/// Probes of one size before it counts as too large. RFC 8899 s5.1.2 (MAX_PROBES).
const MAX_PROBES: u8 = 3;
/// The search ends when its bounds are this close.
const GRANULARITY: u16 = 16;
/// Large packets lost in a row, while only small later ones arrived, that look like a black hole.
const BLACK_HOLE_LOSSES: u8 = 6;

/// Finds the largest datagram that gets through.
#[derive(Clone, Debug)]
pub(crate) struct MtuDiscovery {
    config: MtuConfig,
    current: u16,
    /// The peer's max_udp_payload_size, and ours to send.
    limit: u16,
    phase: Phase,
    suspicious_losses: u8,
    /// The newest packet larger than the base size that arrived.
    largest_large_acked: Option<PacketNumber>,
    /// Packets below this went another way.
    first_number: PacketNumber,
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
        failures: u8,
        in_flight: bool,
    },
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
            largest_large_acked: None,
            first_number: 0,
            enabled: false,
        }
    }

    /// Datagram size in use.
    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    /// The peer takes no more than this (max_udp_payload_size). True if that shrinks datagrams.
    pub(crate) fn limit_to(&mut self, peer_limit: u64) -> bool {
        self.limit = u16::try_from(peer_limit).unwrap_or(u16::MAX).max(BASE);
        let shrinks = self.limit < self.current;
        self.current = self.current.min(self.limit);
        shrinks
    }

    /// The handshake is done and the peer's limit known: searching may begin.
    pub(crate) fn start(&mut self, peer_limit: u64) {
        self.limit_to(peer_limit);
        self.enabled = self.config.discovery;
        self.begin_search();
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
        self.suspicious_losses = 0;
        self.begin_search();
    }

    /// Packets below `number` were sent to another address, or before something else that lost
    /// them whatever their size: no suspicion follows from their fate.
    pub(crate) fn forget_before(&mut self, number: PacketNumber) {
        self.first_number = self.first_number.max(number);
        self.suspicious_losses = 0;
    }

    /// The size of the probe to send now, if one is wanted.
    pub(crate) fn probe_size(&mut self, now: Instant) -> Option<u16> {
        if let Phase::Idle { again_at: Some(at) } = self.phase
            && now >= at
        {
            self.begin_search();
        }
        match self.phase {
            Phase::Search {
                probe,
                in_flight: false,
                ..
            } => Some(probe),
            _ => None,
        }
    }

    pub(crate) fn on_probe_sent(&mut self) {
        if let Phase::Search { in_flight, .. } = &mut self.phase {
            *in_flight = true;
        }
    }

    /// A probe of `size` got through. Returns the new datagram size if it grew.
    pub(crate) fn on_probe_acked(&mut self, now: Instant, size: u16) -> Option<u16> {
        let Phase::Search { high, .. } = self.phase else {
            return None;
        };
        if size <= self.current {
            return None;
        }
        self.current = size;
        self.suspicious_losses = 0;
        self.continue_search(now, size, high);
        Some(size)
    }

    pub(crate) fn on_probe_lost(&mut self, now: Instant, size: u16) {
        let Phase::Search {
            low,
            high,
            probe,
            failures,
            ..
        } = self.phase
        else {
            return;
        };
        if size != probe {
            return;
        }
        if failures + 1 < MAX_PROBES {
            self.phase = Phase::Search {
                low,
                high,
                probe,
                failures: failures + 1,
                in_flight: false,
            };
        } else {
            self.continue_search(now, low, probe.saturating_sub(1).min(high));
        }
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
        if bytes > BASE {
            self.suspicious_losses = 0;
            self.largest_large_acked = self.largest_large_acked.max(Some(number));
        }
    }

    /// A packet was lost. Returns the smaller size to use when the path looks like a black hole
    /// for large datagrams. RFC 8899 s4.3.
    ///
    /// A full queue drops large packets in rows, too, but lets later ones through: only a loss
    /// that no later large packet survived is suspicious. An outage looks just like a black hole
    /// when the first packet through after it is small; so the size given up is probed at once,
    /// and after an outage it is back a round trip later.
    pub(crate) fn on_lost(&mut self, number: PacketNumber, bytes: u16) -> Option<u16> {
        let outlived = self.largest_large_acked.is_some_and(|acked| acked > number);
        if bytes <= BASE || self.current <= BASE || outlived || number < self.first_number {
            return None;
        }
        self.suspicious_losses += 1;
        if self.suspicious_losses < BLACK_HOLE_LOSSES {
            return None;
        }
        self.suspicious_losses = 0;
        let suspect = std::mem::replace(&mut self.current, BASE);
        self.phase = if self.enabled {
            Phase::Search {
                low: BASE,
                high: self.upper_bound().max(suspect),
                probe: suspect,
                failures: 0,
                in_flight: false,
            }
        } else {
            Phase::Idle { again_at: None }
        };
        Some(BASE)
    }

    /// When probing should be reconsidered.
    pub(crate) fn timer(&self) -> Option<Instant> {
        match self.phase {
            Phase::Idle { again_at } => again_at,
            Phase::Search { .. } => None,
        }
    }
}
