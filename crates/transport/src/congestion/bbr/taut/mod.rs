//! `bbr3-taut`: what it does otherwise than `bbr3`.
//!
//! Purpose: the rules that make BBR tell random loss from congestion and share a queue that others
//! keep full. Reasoning, formulae and ablation: `docs/bbr3-taut.md`.
//! Owns: [`TautRules`], the loss account ([`ledger`]), what the RTT says about the queue
//! ([`queue`]), the window held beside others ([`share`]), the pace of short bursts ([`even`]).
//! Does not own: states, gains and the model, which are those of `bbr3`.

mod even;
mod ledger;
mod queue;
mod share;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub(super) use self::{even::Even, ledger::Ledger, queue::QueueView, share::Share};
use super::{
    super::{CongestionController, ControllerContext, ControllerFactory, LossEvent, SentEvent},
    Bbr,
    model::Sample,
    params::Params,
    state::State,
};
use crate::time::Instant;

/// Pacing in Startup under `wide-start`. 4 ln 2 doubles the rate every round trip; a little more
/// keeps that pace while round trips grow.
const WIDE_START_PACING: f64 = 3.4;
/// So many bytes delivered are no mouse any more.
const MOUSE_BYTES: u64 = 1_000_000;
/// The window's gain in Startup for what may be a mouse, as in `bbr1`...
const MOUSE_WINDOW: f64 = 2.885;
/// ...and beside others. The model counts with the smallest RTT, so this is to cover a queue of one
/// such RTT on top of the doubling.
const CROWDED_MOUSE_WINDOW: f64 = 4.0;

/// Packets by which the queue that a lost packet met may differ from what the next one tells.
const QUEUE_GRAIN: u64 = 2;

/// The deviations of `bbr3-taut` from `bbr3`, each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TautRules {
    /// Only loss beyond the path's own rate counts, and outside of probes only where the queue is
    /// long.
    pub excess_loss: bool,
    /// A sample close to the minimum RTT confirms it, so that ProbeRTT is not needed.
    pub confirm_min_rtt: bool,
    /// Beside others who keep the queue full the window is that of CUBIC.
    pub share: bool,
    /// When the queue vanishes while sharing, bandwidth is probed at once.
    pub take_freed: bool,
    /// ProbeBW_DOWN drains the probe's queue within few round trips.
    pub quick_drain: bool,
    /// A search for bandwidth ends when a round that did not deliver more met a queue throughout.
    pub brief_probe: bool,
    /// Pacing makes up for what the path loses on its own.
    pub pace_for_loss: bool,
    /// While sharing, the window grows slowly where the queue is all but full.
    pub gentle_top: bool,
    /// Startup's window does not hold a mouse back, least where somebody else's queue makes round
    /// trips longer.
    pub wide_start: bool,
    /// Where the application never lets Startup end, it paces slower if round after round loses too much.
    pub even_bursts: bool,
}

impl TautRules {
    /// Every rule: `bbr3-taut`.
    pub const ALL: Self = Self {
        excess_loss: true,
        confirm_min_rtt: true,
        share: true,
        take_freed: true,
        quick_drain: true,
        brief_probe: true,
        pace_for_loss: true,
        gentle_top: true,
        wide_start: true,
        even_bursts: true,
    };

    /// No rule: `bbr3` under another name.
    pub const NONE: Self = Self {
        excess_loss: false,
        confirm_min_rtt: false,
        share: false,
        take_freed: false,
        quick_drain: false,
        brief_probe: false,
        pace_for_loss: false,
        gentle_top: false,
        wide_start: false,
        even_bursts: false,
    };

    /// The names that [`Self::set`] knows.
    pub const NAMES: [&'static str; 10] = [
        "excess-loss",
        "confirm-min-rtt",
        "share",
        "take-freed",
        "quick-drain",
        "brief-probe",
        "pace-for-loss",
        "gentle-top",
        "wide-start",
        "even-bursts",
    ];

    /// Switches one rule by its name; returns whether there is such a rule.
    pub fn set(&mut self, name: &str, on: bool) -> bool {
        let rule = match name {
            "excess-loss" => &mut self.excess_loss,
            "confirm-min-rtt" => &mut self.confirm_min_rtt,
            "share" => &mut self.share,
            "take-freed" => &mut self.take_freed,
            "quick-drain" => &mut self.quick_drain,
            "brief-probe" => &mut self.brief_probe,
            "pace-for-loss" => &mut self.pace_for_loss,
            "gentle-top" => &mut self.gentle_top,
            "wide-start" => &mut self.wide_start,
            "even-bursts" => &mut self.even_bursts,
            _ => return false,
        };
        *rule = on;
        true
    }
}

/// Builds `bbr3-taut` controllers.
#[derive(Clone, Copy, Debug)]
pub struct Bbr3TautFactory {
    rules: TautRules,
}

impl Bbr3TautFactory {
    /// With these rules only; for ablations.
    pub const fn new(rules: TautRules) -> Self {
        Self { rules }
    }
}

impl Default for Bbr3TautFactory {
    fn default() -> Self {
        Self::new(TautRules::ALL)
    }
}

impl ControllerFactory for Bbr3TautFactory {
    fn name(&self) -> &'static str {
        Params::taut(self.rules).name
    }

    fn build(&self, context: ControllerContext) -> Box<dyn CongestionController> {
        Box::new(Bbr::new(Params::taut(self.rules), context))
    }
}

impl Params {
    /// `bbr3` with the gains and times that go with these rules.
    pub(super) const fn taut(rules: TautRules) -> Self {
        let mut params = Self {
            name: "bbr3-taut",
            rules,
            ..Self::BBR3
        };
        if rules.confirm_min_rtt {
            params.probe_rtt_interval = Duration::from_secs(10);
            params.min_rtt_window = Duration::from_secs(30);
            params.probe_rtt_cwnd_gain = 0.75;
        }
        if rules.quick_drain {
            params.probe_down_pacing_gain = 0.75;
        }
        if rules.brief_probe {
            params.probe_up_cwnd_gain = 1.25;
        }
        if rules.wide_start {
            params.startup_pacing_gain = WIDE_START_PACING;
        }
        params
    }
}

impl Bbr {
    /// Enters losses into the account: what is lost now left a little before the newest RTT
    /// sample, and met the same queue. What Startup lost has had its answer, the end of Startup; if it
    /// counted again, one packet lost by chance while the queue drains would pass for congestion and hold
    /// the rate down until the next probe.
    pub(super) fn note_lost(&mut self, event: &LossEvent<'_>) {
        let high = self.is_queue_high(event.rtt.adjusted);
        let sent = event.packets.iter().map(|packet| packet.sent);
        let lost = sent.filter(|sent| !self.is_of_startup(*sent)).count();
        let learn = !self.cycle.probe_sample;
        self.ledger.count(0.0, lost as f64, high, learn);
        if self.is_in_search() {
            for packet in event.packets {
                self.even.on_lost(packet.packet_number);
            }
        }
    }

    /// Enters deliveries into the account, and the RTT into the view of the queue.
    pub(super) fn note_acked(&mut self, sample: &Sample) {
        if self.rounds.started {
            self.ledger.end_round();
        }
        self.queue.on_ack(
            sample.now,
            sample.newest_sent,
            sample.adjusted_rtt,
            self.rounds.started,
        );
        if let Some(min) = self.min_rtt.value {
            self.ledger.set_hidden(self.queue.is_hidden(min));
        }
        let high = sample
            .adjusted_rtt
            .is_some_and(|rtt| self.is_queue_high(rtt));
        let learn = !self.cycle.probe_sample && !self.is_of_startup(sample.newest_sent);
        let acked = sample.newly_acked as f64 / self.mtu as f64;
        self.ledger.count(acked, 0.0, high, learn);
        self.even_bursts(sample);
    }

    /// Looks in an application-limited Startup for bursts that leave too fast.
    fn even_bursts(&mut self, sample: &Sample) {
        if !self.is_in_search() {
            self.even.clear();
            return;
        }
        self.even.on_sample(sample.app_limited);
        if self.rounds.started {
            self.even.on_round(sample.now, self.pacing_rate);
        }
    }

    pub(super) fn even_on_sent(&mut self, event: &SentEvent) {
        if self.is_in_search() {
            self.even.on_sent(event, self.bw);
        }
    }

    /// Whether the rule `even-bursts` is in force.
    fn is_in_search(&self) -> bool {
        self.params.rules.even_bursts && self.state == State::Startup && !self.full_pipe.reached
    }

    /// Looks for a queue that was there before us. After the growth of the last round is known.
    pub(super) fn look_for_others(&mut self) {
        let grew = self.rounds.started && self.full_pipe.count == 0;
        if let Some(min) = self.min_rtt.value
            && self.state == State::Startup
            && grew
        {
            self.queue.note_before_us(min);
        }
    }

    /// Ends a search for bandwidth that only made a queue.
    pub(super) fn check_brief_probe(&mut self, sample: &Sample) {
        let rules = &self.params.rules;
        let grew = self.full_pipe.count == 0;
        if !rules.brief_probe || !self.rounds.started || sample.app_limited || grew {
            return;
        }
        let Some(min) = self.min_rtt.value else {
            return;
        };
        let startup = self.state == State::Startup;
        let overflowed = startup && self.ledger.has_overflowed();
        let part = if startup {
            queue::LONG_IN_STARTUP
        } else {
            queue::LONG_IN_PROBE
        };
        if overflowed {
            self.ledger.forget_base();
        }
        // Startup tries more in every round; but what jitter acknowledges late lets as little leave.
        let tried = !startup || self.full_pipe.was_tried(sample, &self.params);
        if overflowed || tried && self.queue.was_long(min, part) {
            self.full_pipe.now = true;
            self.full_pipe.reached = true;
        }
    }

    /// The window's gain; in Startup more for what may be a mouse, and most where there was a queue
    /// before us.
    pub(super) fn cwnd_gain(&self) -> f64 {
        let may_be_mouse = self.state == State::Startup && self.delivered < MOUSE_BYTES;
        if !(self.params.rules.wide_start && may_be_mouse) {
            self.state.cwnd_gain(&self.params)
        } else if self.queue.was_before_us() {
            CROWDED_MOUSE_WINDOW
        } else {
            MOUSE_WINDOW
        }
    }

    /// What pacing must exceed the wanted rate by for the path's own loss.
    pub(super) fn loss_compensation(&self) -> f64 {
        if self.params.rules.pace_for_loss {
            1.0 / (1.0 - self.ledger.base())
        } else {
            1.0
        }
    }

    /// Whether a packet that left then belongs to a Startup that is over: it may have been lost to
    /// the queue that ended it, and that is found out while the queue drains.
    fn is_of_startup(&self, sent: Instant) -> bool {
        self.startup_ended.is_some_and(|ended| sent <= ended)
    }

    fn is_queue_full(&self, rtt: Duration) -> bool {
        self.min_rtt
            .value
            .is_some_and(|min| self.queue.is_full(rtt, min))
    }

    fn is_queue_high(&self, rtt: Duration) -> bool {
        let grain = self.max_bw.get().time_for(QUEUE_GRAIN * self.mtu);
        self.min_rtt
            .value
            .is_some_and(|min| self.queue.is_high(rtt, min, grain))
    }
}
