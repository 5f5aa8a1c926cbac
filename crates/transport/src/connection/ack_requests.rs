//! What is asked of the peer's acknowledgements, path by path: ACK_FREQUENCY, and IMMEDIATE_ACK at the end of a flight or of all data.
//!
//! Owns: which paths are asked, what the policy is shown, how requests are numbered. Does not own: what is
//! wished for (`ack/`), what is in force (`path/ack_frequency.rs`), when a flight ends (`recovery/flight.rs`).
//!
//! The rule: a request concerns the path that carries it. Paths for data are asked: none that is silent, unproven
//! or abandoned, and none in reserve while another works. What the policy counts as the return path is the
//! path that brings its acknowledgements, and it starts over when that changes. Requests are numbered over
//! the connection, so that a peer which keeps one number for all paths heeds the newest.

use std::time::Duration;

use super::{Connection, permit::PACKET_OVERHEAD};
use crate::{
    ack::SendView, multipath::PathStatus, observe, path::Path, time::Instant, units::PathId,
};

/// What ends all data asks if so many packets are under way: of few it would be one acknowledgement more for each.
const LEAST_BEFORE: usize = 4;

impl Connection {
    /// Whether a datagram of `bytes` is the last of its flight, or of all data, and its acknowledgement is worth being asked
    /// for. Who wants few acknowledgements asks for none.
    pub(super) fn asks_at_the_end(&self, now: Instant, id: PathId, bytes: usize) -> bool {
        let Some(path) = self.paths.get(id) else {
            return false;
        };
        if self.peer.min_ack_delay_us.is_none() || !path.ack_frequency.asks_as_usual() {
            return false;
        }
        // Where one answer follows the other within a round trip, the next ones tell of the loss of this one, and each
        // would be acknowledged by itself.
        let round_trip = path.recovery.rtt().smoothed();
        let asked = path.ack_frequency.asked_at;
        let may_ask = || {
            path.space.sent.eliciting_outstanding() >= LEAST_BEFORE
                && asked.is_none_or(|at| now.saturating_since(at) >= round_trip)
        };
        let room = (bytes as u64).saturating_sub(PACKET_OVERHEAD);
        let ends_all =
            || may_ask() && !self.datagrams.has_frames() && self.streams.ends_within(room);
        let ends_flight = || path.recovery.ends_flight(now, &path.space, bytes as u64);
        ends_flight() && self.fills_flights(path, 1) || ends_all()
    }

    /// Tells the ACK policy, about once a round trip, how the path does, and asks what it wants of
    /// the peer.
    pub(super) fn review_ack_frequency(&mut self, now: Instant, id: PathId) {
        if !self.life.confirmed {
            return;
        }
        let next_review = self
            .paths
            .get(id)
            .map(|path| path.ack_frequency.next_review);
        if next_review.is_none_or(|next| now < next) {
            return;
        }
        let peer_max = Duration::from_millis(self.peer.max_ack_delay_ms);
        let spares = self
            .paths
            .iter()
            .any(|path| works(path) && is_available(path));
        let several = self.has_choice_of_paths();
        let message_time = self.messages.time_lately(now);
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let rtt = path.recovery.rtt();
        if !rtt.has_sample() {
            // Nothing is known of a new network path yet.
            return;
        }
        let (smoothed, min) = (rtt.smoothed(), rtt.min());
        path.ack_frequency.next_review = now + smoothed;
        let mut view = SendView::new(
            now,
            smoothed,
            min,
            path.recovery.window(),
            u64::from(path.mtu.current()),
            Duration::from_micros(self.peer.min_ack_delay_us.unwrap_or(0)),
            peer_max,
            path.recovery.packet_threshold(),
        );
        let stats = path.recovery.stats();
        view.packets_acked = stats.packets_acked;
        view.packets_lost = stats.packets_lost;
        view.ptos = stats.ptos;
        view.message_time = message_time;
        view.packets_received = path.space.received.count();
        let back = path.recovery.returned_by().filter(|by| *by != id);
        let back = back.and_then(|by| self.paths.get(by));
        if let Some(back) = back.or_else(|| self.paths.get(id)) {
            let acks = back.ack_stats();
            view.packets_returned = back.space.received.count();
            view.acks_received = acks.acks_received;
            view.packets_missing = acks.packets_missing;
            view.packets_marked = back.space.received.ecn_counts().ce;
        }
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        path.ack.on_round(&view);
        let is_used = works(path) && (is_available(path) || !spares);
        if self.peer.min_ack_delay_us.is_none() || several && !is_used {
            return;
        }
        let wish = path.ack.request(&view);
        if let Some(request) = path.ack_frequency.on_review(wish) {
            if let Some(multipath) = &mut self.multipath {
                path.ack_frequency.next_sequence = multipath.next_ack_request();
            }
            let name = path.ack.name();
            self.observer.emit(now, || observe::Event::PolicyDecision {
                policy: "ack",
                name,
                path: Some(id),
                decision: "request",
                values: [
                    Some(request.ack_eliciting_threshold as f64),
                    Some(request.max_ack_delay.as_secs_f64()),
                ],
            });
        }
    }

    /// A lost ACK_FREQUENCY is replaced by the newest request, with a new sequence number.
    pub(super) fn resend_ack_frequency(&mut self, sequence: u64) {
        for path in self.paths.iter_mut() {
            if path.ack_frequency.next_sequence == sequence + 1 {
                path.ack_frequency.to_send = path.ack_frequency.last;
                if let Some(multipath) = &mut self.multipath {
                    path.ack_frequency.next_sequence = multipath.next_ack_request();
                }
            }
        }
    }
}

/// Whether a path answers and its address is proven.
fn works(path: &Path) -> bool {
    path.is_usable() && !path.is_silent()
}

fn is_available(path: &Path) -> bool {
    path.status.effective() == PathStatus::Available
}
