//! `asymmetric`: acknowledges like `standard`, and asks the peer for fewer acknowledgements while
//! the return path shows that it cannot carry them. In the spirit of RFC 5690.

use std::time::Duration;

use super::{
    AckDecision, AckPolicy, AckPolicyFactory, AckRequest, ReceivedView, SendView,
    budget::AckBudget, rules::ReceiverRules,
};

/// The longest delay ever asked for: it adds to every tail loss.
const MAX_DELAY: Duration = Duration::from_millis(100);
/// A gap hastens an ACK as long as lost packets are no more than this part of the ACKs wanted.
const HASTENED_SHARE: u64 = 4;

/// Builds `asymmetric` policies.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsymmetricFactory {
    _private: (),
}

impl AckPolicyFactory for AsymmetricFactory {
    fn name(&self) -> &'static str {
        Asymmetric::NAME
    }

    fn build(&self, max_ack_delay: Duration) -> Box<dyn AckPolicy> {
        Box::new(Asymmetric {
            rules: ReceiverRules::new(max_ack_delay),
            budget: AckBudget::default(),
            asked: None,
            seen: Seen::default(),
        })
    }
}

/// Asks for as many ACKs per round trip as the return path has shown to carry.
///
/// The sender of the data counts the peer's packet numbers that do not come. While none are
/// missing it asks for nothing, and the peer acknowledges as RFC 9000 says. Else, with
/// `budget` ACKs per round trip ([`AckBudget`]):
///
/// - threshold = packets acknowledged per round trip / budget;
/// - delay = 1.5 x smoothed RTT / budget, at least the peer's max_ack_delay, at most 100 ms;
/// - reordering threshold = the packet threshold of our own loss detection; 0 while more packets
///   are lost per round trip than a quarter of the budget, whose gaps would call for an ACK each;
/// - after a probe timeout, for a round trip, as RFC 9000 has it.
#[derive(Debug)]
struct Asymmetric {
    rules: ReceiverRules,
    budget: AckBudget,
    asked: Option<AckRequest>,
    seen: Seen,
}

/// Counters at the last review.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    acked: u64,
    lost: u64,
    ptos: u64,
}

impl Asymmetric {
    const NAME: &'static str = "asymmetric";

    /// What RFC 9000 has, in the words of a request.
    fn usual(view: &SendView) -> AckRequest {
        AckRequest {
            ack_eliciting_threshold: 1,
            max_ack_delay: view.peer_max_ack_delay.max(view.peer_min_ack_delay),
            reordering_threshold: 1,
        }
    }

    fn wish(&mut self, view: &SendView) -> AckRequest {
        let usual = Self::usual(view);
        let before = std::mem::replace(
            &mut self.seen,
            Seen {
                acked: view.packets_acked,
                lost: view.packets_lost,
                ptos: view.ptos,
            },
        );
        let Some(budget) = self.budget.per_round() else {
            return usual;
        };
        let acked = view.packets_acked.saturating_sub(before.acked);
        // The window bounds what a stretched round may have counted.
        let per_round = acked.min(view.window / view.mtu.max(1));
        let threshold = per_round / budget.max(1);
        if threshold <= 2 && acked > 0 {
            if budget > per_round {
                self.budget.lift();
            }
            return usual;
        }
        if view.ptos > before.ptos {
            return usual;
        }
        let spacing = view.smoothed_rtt.saturating_mul(3)
            / u32::try_from(budget.saturating_mul(2)).unwrap_or(u32::MAX);
        let lost = view.packets_lost.saturating_sub(before.lost);
        let hasten = lost <= budget / HASTENED_SHARE;
        AckRequest {
            // "More than this many": one less than what each ACK answers.
            ack_eliciting_threshold: threshold.saturating_sub(1).max(1),
            max_ack_delay: spacing.min(MAX_DELAY).max(usual.max_ack_delay),
            reordering_threshold: if hasten {
                view.packet_threshold.max(1)
            } else {
                0
            },
        }
    }
}

/// Whether the two differ by more than a fifth.
fn moved(a: u64, b: u64) -> bool {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    high.saturating_mul(5) > low.saturating_mul(6)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl AckPolicy for Asymmetric {
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
        self.budget.on_round(view);
        let wish = self.wish(view);
        let before = self.asked.unwrap_or_else(|| Self::usual(view));
        let changed = moved(wish.ack_eliciting_threshold, before.ack_eliciting_threshold)
            || moved(micros(wish.max_ack_delay), micros(before.max_ack_delay))
            || wish.reordering_threshold != before.reordering_threshold;
        if !changed {
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
