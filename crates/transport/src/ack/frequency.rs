//! `frequency`: acknowledges like `standard`, and asks the peer for fewer acknowledgements as
//! window and round-trip time grow. draft-ietf-quic-ack-frequency s8.

use std::time::Duration;

use super::{
    AckDecision, AckPolicy, AckPolicyFactory, AckRequest, ReceivedView, SendView,
    rules::ReceiverRules,
};

/// Acknowledgements wanted per window and per round trip.
const ACKS_PER_WINDOW: u64 = 8;
/// Delay asked for, as a divisor of the smoothed round-trip time.
const RTT_DIVISOR: u32 = 4;
/// Never fewer than one ACK for this many packets: bursts stay small and losses show soon.
const MAX_THRESHOLD: u64 = 128;
/// Never a longer delay than this: it adds to every tail loss.
const MAX_DELAY: Duration = Duration::from_millis(100);
/// What draft s4 allows: below 2^14 milliseconds.
const DELAY_LIMIT: Duration = Duration::from_millis((1 << 14) - 1);

/// Builds `frequency` policies.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrequencyFactory {
    _private: (),
}

impl AckPolicyFactory for FrequencyFactory {
    fn name(&self) -> &'static str {
        Frequency::NAME
    }

    fn build(&self, max_ack_delay: Duration) -> Box<dyn AckPolicy> {
        Box::new(Frequency {
            rules: ReceiverRules::new(max_ack_delay),
            asked: None,
        })
    }
}

/// Asks for an ACK every eighth of a window, after at most a quarter of a round trip.
///
/// - threshold = window / datagram size / 8, in 1..=128 packets;
/// - delay = smoothed RTT / 4, at least the peer's min_ack_delay, at most 100 ms;
/// - reordering threshold = the packet threshold of our own loss detection.
///
/// It asks again only when the threshold or the delay moved by a factor of 1.5 or the
/// reordering threshold changed.
#[derive(Debug)]
struct Frequency {
    rules: ReceiverRules,
    asked: Option<AckRequest>,
}

impl Frequency {
    const NAME: &'static str = "frequency";

    fn wish(view: &SendView) -> AckRequest {
        let packets = view.window / view.mtu.max(1);
        let delay = (view.smoothed_rtt / RTT_DIVISOR).min(MAX_DELAY);
        AckRequest {
            ack_eliciting_threshold: (packets / ACKS_PER_WINDOW).clamp(1, MAX_THRESHOLD),
            max_ack_delay: delay.max(view.peer_min_ack_delay).min(DELAY_LIMIT),
            reordering_threshold: view.packet_threshold.max(1),
        }
    }
}

/// Whether the two differ by a factor of 1.5 or more.
fn moved(a: u64, b: u64) -> bool {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    high.saturating_mul(2) >= low.saturating_mul(3) && high != low
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl AckPolicy for Frequency {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_packet(&mut self, view: &ReceivedView) -> AckDecision {
        self.rules.on_packet(view)
    }

    fn on_request(&mut self, request: AckRequest) {
        self.rules.on_request(request);
    }

    fn request(&mut self, view: &SendView) -> Option<AckRequest> {
        let wish = Self::wish(view);
        // Before anything was asked the peer does as RFC 9000 says.
        let before = self.asked.unwrap_or(AckRequest {
            ack_eliciting_threshold: 1,
            max_ack_delay: view.peer_max_ack_delay,
            reordering_threshold: 1,
        });
        let threshold_moved = moved(wish.ack_eliciting_threshold, before.ack_eliciting_threshold);
        let delay_moved = moved(micros(wish.max_ack_delay), micros(before.max_ack_delay));
        let reordering_moved =
            self.asked.is_some() && wish.reordering_threshold != before.reordering_threshold;
        if !(threshold_moved || delay_moved || reordering_moved) {
            return None;
        }
        self.asked = Some(wish);
        Some(wish)
    }

    fn max_ack_delay(&self) -> Duration {
        self.rules.max_ack_delay()
    }

    fn reordering_threshold(&self) -> u64 {
        self.rules.reordering_threshold()
    }
}
