//! Beside others who keep the queue full: a window as CUBIC has it.

use std::time::Duration;

use super::{
    super::{
        super::{
            AckEvent, CongestionController, EcnEvent, LossEvent, SentEvent, SpuriousLossEvent,
            cubic::Cubic,
        },
        Bbr,
        model::Sample,
        state::{AckPhase, State},
        undo::Returns,
    },
    queue,
};
use crate::{time::Instant, units::Rate};

/// Rounds without a queue after which the others have gone.
const GONE_ROUNDS: usize = 3;
/// Rounds that a bandwidth sample is believed, once or twice over.
const BANDWIDTH_ROUNDS: u64 = 8;
/// Packets leave this much faster than window per RTT, so that the window is the limit.
const PACING_GAIN: f64 = 1.25;
/// Where the queue is all but full the window grows this many times slower...
const GENTLE: u64 = 4;
/// ...from this many datagrams on. Small windows grow by about a datagram per round anyway, and
/// many flows with small windows become equal by that growth.
const GENTLE_FROM: u64 = 100;
/// ProbeRTT that found a queue of others doubles the time to the next, so many times.
const MAX_FRUITLESS: u32 = 2;

/// The window while others keep the queue full.
#[derive(Debug)]
pub(in super::super) struct Share {
    cubic: Cubic,
    /// Minimum RTT as it was believed before the present ProbeRTT.
    believed: Duration,
    /// Lowest RTT in the present ProbeRTT.
    probed: Option<Duration>,
    rounds: u64,
    /// Visits to ProbeRTT that did not empty the queue.
    fruitless: u32,
}

impl Bbr {
    /// How many times longer than usual the minimum RTT is believed without a probe.
    pub(in super::super) fn probe_rtt_patience(&self) -> u32 {
        self.share.as_ref().map_or(1, |share| 1 << share.fruitless)
    }

    /// Whether the window is CUBIC's, be it that ProbeRTT holds it down for now.
    pub(in super::super) const fn is_sharing(&self) -> bool {
        self.share.is_some()
    }

    /// Once per ACK, after the model: begins and ends sharing.
    pub(in super::super) fn update_share(&mut self, sample: &Sample) {
        let Some(min) = self.min_rtt.value.filter(|_| self.params.rules.share) else {
            return;
        };
        if self.share.is_none() {
            if self.should_share(sample, min) {
                self.start_share(min, sample);
            }
            return;
        }
        if self.state != State::Share {
            // ProbeRTT: was the queue ours?
            if let (Some(share), Some(rtt)) = (&mut self.share, sample.adjusted_rtt) {
                share.probed = Some(share.probed.map_or(rtt, |low| low.min(rtt)));
            }
            return;
        }
        if !self.rounds.started {
            return;
        }
        if let Some(share) = &mut self.share {
            share.rounds += 1;
            if share.rounds % BANDWIDTH_ROUNDS == 0 && !sample.app_limited {
                self.max_bw.advance();
            }
        }
        if self.params.rules.take_freed && self.queue.is_gone(min, GONE_ROUNDS) {
            self.stop_share(sample.now);
            self.start_probe_refill();
        }
    }

    /// Whether a queue that is not ours has stood for six rounds.
    fn should_share(&self, sample: &Sample, min: Duration) -> bool {
        self.state.is_probe_bw()
            && self.rounds.started
            && !sample.app_limited
            && self.queue.stands(min)
    }

    fn start_share(&mut self, min: Duration, sample: &Sample) {
        // What keeps the present rate in the present queue.
        let kept = sample.rtt.map_or(0, |rtt| self.bw.bytes_in(rtt));
        let window = kept
            .max(sample.in_flight)
            .max(self.initial_window.bytes())
            .min(self.window)
            .max(self.min_pipe());
        self.share = Some(Share {
            cubic: Cubic::resuming(window, self.mtu),
            believed: min,
            probed: None,
            rounds: 0,
            fruitless: 0,
        });
        self.reset_short_term_model();
        // No probe is under way any more, and a spurious loss returns to none.
        self.cycle.probe_sample = false;
        self.cycle.ack_phase = AckPhase::Init;
        self.undo.returns = Returns::Nowhere;
        self.state = State::Share;
    }

    fn stop_share(&mut self, now: Instant) {
        self.share = None;
        self.queue.restart();
        self.start_probe_down(now);
    }

    /// ProbeRTT is over; returns whether sharing goes on.
    pub(in super::super) fn resume_share(&mut self, now: Instant) -> bool {
        let Some(share) = &mut self.share else {
            return false;
        };
        let low = share.probed.take();
        let min = share.believed;
        // As low as ever: nobody else has packets in the queue. Lower than believed: somebody
        // always had.
        let ours = low.is_some_and(|low| queue::is_empty(low, min) && queue::is_empty(min, low));
        if let Some(low) = low {
            share.believed = min.min(low);
        }
        if ours {
            self.stop_share(now);
            self.start_probe_cruise();
            return true;
        }
        share.fruitless = (share.fruitless + 1).min(MAX_FRUITLESS);
        self.state = State::Share;
        true
    }

    pub(in super::super) fn share_on_sent(&mut self, event: &SentEvent) {
        if self.state == State::Share
            && let Some(share) = &mut self.share
        {
            share.cubic.on_sent(event);
        }
    }

    pub(in super::super) fn share_on_ack(&mut self, event: &AckEvent) {
        let full = self.is_queue_full(event.rtt.adjusted);
        let Some(share) = &mut self.share else { return };
        if self.state != State::Share {
            // While ProbeRTT holds the window down it does not grow, and its time stands still.
            share.cubic.on_restart_from_idle(event.now);
            return;
        }
        let mut event = *event;
        let large = self.window >= self.mtu.saturating_mul(GENTLE_FROM);
        if self.params.rules.gentle_top && full && large {
            event.acked_bytes /= GENTLE;
        }
        share.cubic.on_ack(&event);
        self.window = share.cubic.window().max(self.min_pipe());
        let rate = Rate::from_bytes_over(self.window, event.rtt.smoothed);
        if rate > Rate::ZERO {
            self.pacing_rate = rate.mul_f64(PACING_GAIN);
        }
        self.set_quantum();
    }

    pub(in super::super) fn share_on_loss(&mut self, event: &LossEvent<'_>) {
        let window = self.window / self.mtu;
        let congested = self.ledger.is_congested(0.0, window as f64);
        let Some(share) = &mut self.share else { return };
        if event.persistent {
            self.share = None;
            self.queue.restart();
            if self.state == State::Share {
                self.start_probe_down(event.now);
            }
        } else if congested || !self.params.rules.excess_loss {
            share.cubic.on_loss(event);
        }
    }

    pub(in super::super) fn share_on_ecn(&mut self, event: &EcnEvent) {
        if let Some(share) = &mut self.share {
            share.cubic.on_ecn(event);
        }
    }

    pub(in super::super) fn share_on_spurious(&mut self, event: &SpuriousLossEvent) {
        if let Some(share) = &mut self.share {
            share.cubic.on_spurious_loss(event);
        }
    }

    pub(in super::super) fn share_on_idle(&mut self, now: Instant) {
        if let Some(share) = &mut self.share {
            share.cubic.on_restart_from_idle(now);
        }
    }

    pub(in super::super) fn share_on_mtu(&mut self) {
        if let Some(share) = &mut self.share {
            share.cubic.on_mtu(self.mtu);
        }
    }
}
