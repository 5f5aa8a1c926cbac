//! What a receiver does with each packet: RFC 9000 s13.2 before the peer asked for anything,
//! draft-ietf-quic-ack-frequency s6 afterwards. Shared by the built-in policies.

use std::time::Duration;

use super::{AckDecision, AckRequest, ReceivedView};
use crate::units::Ecn;

/// The receiver's state: what is in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiverRules {
    current: AckRequest,
    /// Whether the peer asked for it.
    asked: bool,
}

impl ReceiverRules {
    /// RFC 9000 s13.2.1 and s13.2.2: every second ack-eliciting packet, any reordering.
    pub(super) const fn new(max_ack_delay: Duration) -> Self {
        Self {
            current: AckRequest {
                ack_eliciting_threshold: 1,
                max_ack_delay,
                reordering_threshold: 1,
            },
            asked: false,
        }
    }

    /// The peer's wish replaces what was in force, whole.
    pub(super) fn on_request(&mut self, request: AckRequest) {
        self.current = request;
        self.asked = true;
    }

    /// Goes by this ack-eliciting threshold as long as the peer has asked for nothing.
    pub(super) fn set_own_threshold(&mut self, threshold: u64) {
        if !self.asked {
            self.current.ack_eliciting_threshold = threshold;
        }
    }

    pub(super) const fn max_ack_delay(&self) -> Duration {
        self.current.max_ack_delay
    }

    pub(super) const fn reordering_threshold(&self) -> u64 {
        self.current.reordering_threshold
    }

    /// Now, by then, or hold.
    pub(super) fn on_packet(&self, view: &ReceivedView) -> AckDecision {
        // Never answer a packet that asks for nothing: RFC 9000 s13.2.1, two ends would
        // acknowledge each other's acknowledgements for ever.
        if !view.ack_eliciting {
            return AckDecision::Hold;
        }
        if view.immediate_requested
            || !view.handshake_confirmed
            || view.unacked_eliciting > self.current.ack_eliciting_threshold
            || self.repair_calls(view)
            || self.reordering_calls(view)
            || self.congestion_calls(view)
            || self.idle_calls(view)
        {
            return AckDecision::Now;
        }
        AckDecision::By(view.now + self.current.max_ack_delay)
    }

    /// A repair symbol beside packets of which each second is acknowledged must not change which these are: by their round
    /// trips the sender tells what it does to them. docs/spec/fec.md s5.4.
    fn repair_calls(&self, view: &ReceivedView) -> bool {
        view.repair && self.current.ack_eliciting_threshold <= 1
    }

    /// draft s6.2; with threshold 1 the rule of RFC 9000 s13.2.1.
    fn reordering_calls(&self, view: &ReceivedView) -> bool {
        let threshold = self.current.reordering_threshold;
        if threshold == 0 {
            return false;
        }
        if threshold == 1
            && view
                .largest_before
                .is_some_and(|largest| view.packet_number < largest)
        {
            return true;
        }
        // A packet this late may already count as lost: the peer wants to know of its mistake.
        if view
            .largest_reported
            .and_then(|largest| largest.checked_sub(threshold))
            .is_some_and(|limit| view.packet_number <= limit)
        {
            return true;
        }
        let largest = view
            .largest_before
            .map_or(view.packet_number, |l| l.max(view.packet_number));
        view.smallest_unreported_missing
            .is_some_and(|missing| largest.saturating_sub(missing) >= threshold)
    }

    /// RFC 9000 s13.2.1 at thresholds 0 and 1; above, only where marking begins (draft s6.4).
    fn congestion_calls(&self, view: &ReceivedView) -> bool {
        view.ecn == Ecn::Ce
            && (self.current.ack_eliciting_threshold <= 1 || view.previous_ecn != Ecn::Ce)
    }

    /// draft s6.1: after a pause the peer's view of the path is stale. Only where a request made
    /// ACKs rarer than RFC 9000 has them.
    fn idle_calls(&self, view: &ReceivedView) -> bool {
        self.current.ack_eliciting_threshold > 1
            && view
                .last_ack_sent
                .is_some_and(|at| view.now.saturating_since(at) > view.smoothed_rtt)
            && view.unacked_eliciting == 1
    }
}
