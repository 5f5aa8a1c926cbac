//! Whether and when packets may leave, and the record that they did. RFC 9002 A.5, B.4, s7.7.

use super::{OutgoingPacket, Recovery, pto_base};
use crate::{
    congestion::{SentEvent, fallback_rate, initial_window},
    observe::EcnPhase,
    packet::Token,
    space::{PacketNumberSpace, SentPacket, SpaceKind},
    time::Instant,
    units::{Ecn, Rate},
};

/// The initial window may leave at once without knowing anything (RFC 9002 s7.7). Spread over a
/// round trip, at a rate that nobody measured, it would cost a short answer on a long path a third
/// of a round trip. At this rate it takes some 25 ms, and a slow path still sees no burst.
const FIRST_FLIGHT: Rate = Rate::from_bits_per_second(4_000_000);

impl Recovery {
    /// Whether the window has room for `bytes` more.
    pub fn can_send(&self, bytes: u64) -> bool {
        self.bytes_in_flight.saturating_add(bytes) <= self.window()
    }

    /// Bytes that the window has room for.
    pub fn room(&self) -> u64 {
        self.window().saturating_sub(self.bytes_in_flight)
    }

    /// Whether `bytes` more may leave for another address than the path's. Of that way nothing is
    /// known: an initial window may be under way there at any time.
    pub fn can_send_off_path(&self, bytes: u64) -> bool {
        self.off_path_in_flight.saturating_add(bytes) <= self.initial_window()
    }

    /// Whether less than an initial window was delivered on this network path and nothing lost:
    /// all that is known of it is how long it is.
    pub fn in_first_flight(&self) -> bool {
        self.rate.lost() == 0 && self.rate.delivered() < self.initial_window()
    }

    /// Lets the pacer go no slower than this from now on, whatever the controller says; the window
    /// holds as ever.
    pub fn set_least_rate(&mut self, rate: Rate) {
        self.least_rate = rate;
    }

    /// From now on, or no longer, nothing leaves faster than the path delivers, where that is known: whatever the
    /// controller says, bursts are not to stand in a queue.
    pub fn set_evenly(&mut self, evenly: bool) {
        self.evenly = evenly;
    }

    /// When the pacer lets `bytes` leave; `None` means now.
    pub fn next_send_time(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        if !self.paces() {
            return None;
        }
        let rate = self.pacing_rate();
        self.pacer.next_send_time(now, bytes, rate)
    }

    /// Bytes that should leave in one batch.
    pub fn send_quantum(&self, _now: Instant) -> u64 {
        let mtu = u64::from(self.mtu);
        if !self.paces() {
            return self.initial_window().max(mtu);
        }
        self.pacer
            .batch_bytes(self.pacing_rate(), self.controller.send_quantum(), mtu)
    }

    /// Before the first RTT sample there is nothing to pace by; the initial window bounds the
    /// burst. RFC 9002 s7.7.
    pub(super) fn paces(&self) -> bool {
        self.pacing && (self.rtt.has_sample() || self.controller.pacing_rate().is_some())
    }

    pub(super) fn initial_window(&self) -> u64 {
        initial_window(self.initial_window_packets, u64::from(self.mtu))
    }

    /// The pacer's speed; [`Rate::MAX`] where nothing is paced, or deadlines hurry the pacer as they need it.
    pub fn pacing(&self) -> Rate {
        if self.paces() && self.least_rate == Rate::ZERO {
            self.pacing_rate()
        } else {
            Rate::MAX
        }
    }

    pub(super) fn pacing_rate(&self) -> Rate {
        let rate = self.controller.pacing_rate().unwrap_or_else(|| {
            fallback_rate(self.window(), self.rtt.paced_over(), self.slow_start)
        });
        let even = self.evenly.then(|| self.capacity.evenly());
        let rate = even.flatten().map_or(rate, |even| rate.min(even));
        let rate = rate.max(self.least_rate);
        if self.in_first_flight() && self.bytes_in_flight <= self.initial_window() {
            rate.max(FIRST_FLIGHT)
        } else {
            rate
        }
    }

    /// The mark for the next packet. RFC 9000 s13.4.
    pub fn ecn_mark(&self) -> Ecn {
        self.ecn.mark()
    }

    /// How far ECN validation got.
    pub fn ecn_phase(&self) -> EcnPhase {
        self.ecn.phase()
    }

    /// A packet leaves. `tokens`, what it carries, are drained.
    pub fn on_packet_sent(
        &mut self,
        space: &mut PacketNumberSpace,
        kind: SpaceKind,
        now: Instant,
        packet: OutgoingPacket,
        tokens: &mut Vec<Token>,
    ) {
        let bytes = u64::from(packet.bytes);
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += bytes;
        if packet.in_flight {
            if self.bytes_in_flight == 0 && self.started {
                self.controller.on_restart_from_idle(now);
            }
            self.rate.on_send(now, self.bytes_in_flight == 0);
            self.bytes_in_flight += bytes;
            self.started = true;
        }
        let snapshot = self.rate.snapshot(self.bytes_in_flight);
        let mut sent = SentPacket::new(now, packet.bytes, snapshot);
        sent.ack_eliciting = packet.ack_eliciting;
        if packet.asks {
            sent.set_asks();
        }
        sent.in_flight = packet.in_flight;
        sent.mtu_probe = packet.mtu_probe;
        sent.filler = packet.filler;
        sent.off_path = packet.off_path;
        if packet.off_path {
            self.off_path_in_flight += bytes;
        }
        sent.ecn = packet.ecn;
        sent.app_limited = self.rate.is_app_limited();
        if let Some((number, evicted)) = space.sent.push(packet.number, sent, tokens) {
            self.take_off(kind, number, &evicted);
        }
        if let Some(next) = self.next_number.get_mut(kind as usize) {
            *next = packet.number.saturating_add(1);
        }
        if packet.off_path {
            // No timer here waits for it; a validation has its own.
        } else if packet.ack_eliciting {
            space.last_eliciting_sent = Some(now);
            space.last_asks = packet.asks && !packet.mtu_probe;
            space.last_in_flight = snapshot.tx_in_flight;
            space.sent_without_eliciting = 0;
            self.timer_anchor = now;
        } else {
            space.sent_without_eliciting = space.sent_without_eliciting.saturating_add(1);
        }
        let (rtt, returns) = (&self.rtt, &self.returns);
        let pto = || pto_base(rtt, returns);
        self.ecn.on_sent(&mut space.peer_ecn, packet.ecn, now, pto);
        if !packet.in_flight {
            return;
        }
        if !packet.filler {
            if self.bytes_in_flight.saturating_add(u64::from(self.mtu)) > self.window() {
                self.app_limited = false;
            }
            self.controller.on_sent(&SentEvent::new(
                now,
                packet.number,
                bytes,
                self.bytes_in_flight,
                self.app_limited,
            ));
        }
        if self.paces() && !self.pacer.on_sent_at_once(now, bytes) {
            let rate = self.pacing_rate();
            self.pacer.on_sent(now, bytes, rate);
        }
    }

    /// The pump ran dry although window and pacer allow more.
    pub fn set_app_limited(&mut self, _now: Instant) {
        if self.can_send(u64::from(self.mtu)) {
            self.app_limited = true;
            self.rate.set_app_limited(self.bytes_in_flight);
        }
    }

    /// The pacer holds data back. Where it goes evenly, because flow control lets go less than the window, that is
    /// not what limits: it would grow without bound, and leave at once when the pacer is let go.
    pub fn note_even_pace(&mut self) {
        let bound = self.evenly && self.capacity.evenly().is_some();
        if bound && self.can_send(u64::from(self.mtu)) {
            self.app_limited = true;
        }
    }

    /// What another path held comes here, too. Where more is in flight than the path holds, a slow start has nothing
    /// left to find out: what its window allows beyond that would be dropped, and hold up the rest.
    pub fn on_more_traffic(&mut self) {
        let (smoothed, min) = (self.rtt.smoothed(), self.rtt.min());
        let overfull = self.capacity.is_exceeded_by(self.bytes_in_flight, min);
        if overfull && smoothed > min + min / 4 {
            self.controller.on_path_full(self.bytes_in_flight);
        }
    }
}
