//! `asymmetric`: asks the peer for as many acknowledgements as its return path can carry, and
//! spares our own return path where the peer cannot ask. In the spirit of RFC 5690.

use std::time::Duration;

use super::{
    AckDecision, AckPolicy, AckPolicyFactory, AckRequest, ReceivedView, SendView,
    return_path::{ReturnPath, Verdict},
    rules::ReceiverRules,
    sparing::Sparing,
};

/// No window needs more ACKs than this per round trip: steps of a sixty-fourth are smooth.
const CEILING: u64 = 64;
/// No window gets fewer: it moves in steps of an eighth, and losses show within an eighth of a
/// round trip. RFC 5690 s4.5 rule 2 has two.
const FLOOR: u64 = 8;
/// The longest delay ever asked for: it adds to every tail loss.
const MAX_DELAY: Duration = Duration::from_millis(100);
/// The same by RFC 5690 s4.6.
const RFC5690_MAX_DELAY: Duration = Duration::from_millis(500);
/// A gap hastens an ACK as long as lost packets are no more than this part of the ACKs wanted.
const HASTENED_SHARE: u64 = 4;

/// How a verdict over the return path becomes a number of ACKs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AsymmetricRule {
    /// At most 64 and at least 8 ACKs per round trip. Packets of the peer's missing: half of the
    /// ACKs that came. None missing: one more per round trip.
    #[default]
    Budget,
    /// RFC 5690 s4.5: one ACK for R packets, R = 2 at first. Missing packets double R, which never
    /// exceeds half a window; after W / (R^2 - R) windows of W packets without, it falls by 1.
    Rfc5690,
}

/// Builds `asymmetric` policies.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsymmetricFactory {
    rule: AsymmetricRule,
}

impl AsymmetricFactory {
    /// Policies of this rule. Their name is `asymmetric`, or `asymmetric-rfc5690`.
    pub fn new(rule: AsymmetricRule) -> Self {
        Self { rule }
    }
}

impl AckPolicyFactory for AsymmetricFactory {
    fn name(&self) -> &'static str {
        name_of(self.rule)
    }

    fn build(&self, max_ack_delay: Duration) -> Box<dyn AckPolicy> {
        Box::new(Asymmetric {
            rule: self.rule,
            rules: ReceiverRules::new(max_ack_delay),
            sparing: Sparing::new(),
            return_path: ReturnPath::default(),
            budget: CEILING,
            ratio: 2,
            calm: 0,
            asked: None,
            seen: Seen::default(),
        })
    }
}

const fn name_of(rule: AsymmetricRule) -> &'static str {
    match rule {
        AsymmetricRule::Budget => "asymmetric",
        AsymmetricRule::Rfc5690 => "asymmetric-rfc5690",
    }
}

/// The sender of data counts the peer's packets that do not come, and asks by ACK_FREQUENCY for
///
/// - threshold: as [`AsymmetricRule`] has it, in packets acknowledged per round trip;
/// - delay: 1.5 x what the threshold takes to fill, at least the peer's max_ack_delay, at most
///   100 ms (500 ms with RFC 5690);
/// - reordering threshold: the packet threshold of our own loss detection; 0 while more packets
///   are lost per round trip than a quarter of the ACKs wanted, whose gaps would call for an ACK
///   each;
/// - after a probe timeout, for a round trip: what RFC 9000 has.
///
/// Where one ACK for two packets is few enough it asks for nothing.
///
/// The receiver of data does as it is asked. Before it is asked for anything, which many peers
/// never do, it goes by [`Sparing`] and its own max_ack_delay.
#[derive(Debug)]
struct Asymmetric {
    rule: AsymmetricRule,
    rules: ReceiverRules,
    /// What we do for our own return path.
    sparing: Sparing,
    return_path: ReturnPath,
    /// ACKs per round trip.
    budget: u64,
    /// Packets per ACK, by RFC 5690.
    ratio: u64,
    /// Round trips without a missing packet since `ratio` changed.
    calm: u64,
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
    /// What RFC 9000 has, in the words of a request.
    fn usual(view: &SendView) -> AckRequest {
        AckRequest {
            ack_eliciting_threshold: 1,
            max_ack_delay: view.peer_max_ack_delay.max(view.peer_min_ack_delay),
            reordering_threshold: 1,
        }
    }

    fn is_thinned(&self) -> bool {
        self.asked
            .is_some_and(|asked| asked.ack_eliciting_threshold > 1)
    }

    /// Packets per ACK, of `per_round` packets that a round trip sees acknowledged.
    fn packets_per_ack(&mut self, verdict: Verdict, per_round: u64) -> u64 {
        match self.rule {
            AsymmetricRule::Budget => {
                match verdict {
                    Verdict::Congested { acks } => {
                        self.budget = (self.budget.min(acks) / 2).max(FLOOR);
                    }
                    Verdict::Calm { rounds } => {
                        let more = self.budget.saturating_add(u64::from(rounds));
                        self.budget = more.min(CEILING);
                    }
                    Verdict::Unknown => {}
                }
                per_round / self.budget.max(1)
            }
            AsymmetricRule::Rfc5690 => {
                match verdict {
                    Verdict::Congested { .. } => {
                        self.ratio = self.ratio.saturating_mul(2);
                        self.calm = 0;
                    }
                    Verdict::Calm { rounds } if self.ratio > 2 => {
                        self.calm += u64::from(rounds);
                        let steps = self.ratio.saturating_mul(self.ratio - 1);
                        if self.calm >= per_round / steps.max(1) {
                            self.ratio -= 1;
                            self.calm = 0;
                        }
                    }
                    _ => {}
                }
                self.ratio = self.ratio.min((per_round / 2).max(2));
                self.ratio
            }
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
        let verdict = self.return_path.on_round(view, self.is_thinned());
        let acked = view.packets_acked.saturating_sub(before.acked);
        // A round that took longer than a round trip has counted more than a window.
        let per_round = acked.min(view.window / view.mtu.max(1));
        let packets = self.packets_per_ack(verdict, per_round);
        if packets <= 2 || view.ptos > before.ptos {
            return usual;
        }
        let acks = (per_round / packets).max(1);
        let filling = view.smoothed_rtt / u32::try_from(acks).unwrap_or(u32::MAX);
        let delay = filling.saturating_mul(3) / 2;
        let lost = view.packets_lost.saturating_sub(before.lost);
        let (longest, hasten) = match self.rule {
            AsymmetricRule::Budget => (MAX_DELAY, lost <= acks / HASTENED_SHARE),
            AsymmetricRule::Rfc5690 => (RFC5690_MAX_DELAY, true),
        };
        AckRequest {
            // "More than this many": one less than what an ACK answers.
            ack_eliciting_threshold: packets - 1,
            max_ack_delay: delay.min(longest).max(usual.max_ack_delay),
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
        name_of(self.rule)
    }

    fn on_packet(&mut self, view: &ReceivedView) -> AckDecision {
        self.rules.on_packet(view)
    }

    fn on_request(&mut self, request: AckRequest) {
        self.rules.on_request(request);
    }

    fn on_round(&mut self, view: &SendView) {
        self.rules.set_own_threshold(self.sparing.on_round(view));
    }

    fn request(&mut self, view: &SendView) -> Option<AckRequest> {
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

    fn on_new_network_path(&mut self) {
        (self.budget, self.ratio, self.calm) = (CEILING, 2, 0);
        self.return_path.forget();
        self.sparing.forget();
    }

    fn max_ack_delay(&self) -> Duration {
        self.rules.max_ack_delay()
    }

    fn reordering_threshold(&self) -> u64 {
        self.rules.reordering_threshold()
    }
}
