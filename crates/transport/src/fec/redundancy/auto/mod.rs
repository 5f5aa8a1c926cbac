//! `auto`: a repair symbol leaves when what it may save is worth more than what it costs.
//!
//! Owns: [`Auto`], when repair symbols leave.
//! Does not own: what one saves and costs (`worth.rs`), the chances (`model.rs`), deadlines (`deadlines.rs`), for whom there
//! is room (`spare.rs`, `effect.rs`, `strain.rs`, `start_up.rs`), who else waits (`waits.rs`), how fast the link is
//! (`trains.rs`), headers for nothing (`vain.rs`), what is lost for repair symbols (`toll.rs`), how long harm is remembered (`shy.rs`), what
//! is known of losses (`fec/loss_monitor.rs`).
//! The reasoning, with the figures that led to it: docs/erasure-correction.md.

mod deadlines;
mod effect;
mod lately;
mod model;
mod shy;
mod spare;
mod start_up;
mod strain;
mod terms;
mod toll;
mod trains;
mod vain;
mod waits;
mod worth;

use std::time::Duration;

use deadlines::Deadlines;
use effect::{Bursts, Effect, Room};
use spare::Spare;
use start_up::StartUp;
use strain::Strain;
use terms::Terms;
use toll::Toll;
use vain::Vain;
use waits::Waits;
use worth::{flow_window, has_queue, slot};

use super::{
    Measured, Occasion, RedundancyFactory, RedundancyScheduler, RedundancyView, Repairs,
    options::Options, quirl::Quirl,
};
use crate::{
    fec::{SymbolFate, loss_monitor::KNOWN_LOSSES},
    time::Instant,
};

/// Losses that packets spared by congestion would have had, were they lost at random, from which that none was
/// says that none is: by chance that would be so once in a hundred times or less.
const SPARED: f64 = 5.0;
/// Whether a flight would be worth a repair symbol is asked once a round trip, but not more often than that.
const LEAST_REVIEW: Duration = Duration::from_millis(5);
/// Parts of the flow control window that get repair symbols of their own, at most; the losses expected in
/// such a part, and the packets that it has.
const PARTS: u64 = 8;
const PART_LOSSES: f64 = 0.25;
const LEAST_PART: u64 = 8;
const MOST_PART: u64 = 64;

/// `auto`: weighs at the end of every burst, and as late as a message's deadline allows.
///
/// *Without a deadline*, at the end of a burst (the application pauses, or flow control blocks), with `n`
/// packets in flight: `r` repair symbols save `P(r) D` and cost `r t`. `P(r)` is the chance that
/// something of the `n` is lost and all of it rebuilt by the code in use ([`Odds::rescued`]); `D` how much later it
/// would otherwise be complete, see [`Self::delay`]; `t` how long a repair symbol holds up what may
/// follow. The `r` with the largest difference is taken, at most 0.3 `n`; those under way count.
/// In the middle of a transfer nothing is sent, since retransmission goes on beside new data, and only a
/// repair symbol would hold that up; unless flow control holds data back, where each part of its
/// window is weighed so.
///
/// *With a deadline* repair symbols leave at the last moment, for packets that are not known by then to
/// have arrived. Where nothing can be known by then, because a round trip is longer, they cover all that
/// left until then, so that messages share them, and are so many that less than one message in 1,000
/// misses something for good. Else they are for the few packets that may have been lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Auto {
    terms: Terms,
    /// What left with messages that have a deadline.
    deadlines: Deadlines,
    /// What those suffer for being protected.
    strain: Strain,
    /// What the link has left beside what the application sends.
    spare: Spare,
    /// What repair symbols do to what follows.
    effect: Effect,
    /// What packets wait for, be it others.
    waits: Waits,
    /// Bursts that were protected for nothing.
    vain: Vain,
    /// What is lost for repair symbols.
    toll: Toll,
    /// When deadlines called for repair symbols last that did not leave for want of a trial.
    wanted: Option<Instant>,
    /// Source symbols seen so far.
    sources: u64,
    /// When flow control held data back last.
    held_back: Option<Instant>,
    /// Start-up as it was last.
    start_up: StartUp,
    /// Whether a flight of the size that the window allows would be worth a repair symbol.
    worth: bool,
    /// When to ask that again.
    review: Option<Instant>,
    /// What the latest answer may save.
    saving: Duration,
}

/// Whether losses are known of a state like the present one, whatever they came of: a path that loses packets at
/// random looks tense too.
fn knows_losses(view: &RedundancyView) -> bool {
    view.loss.now.0 >= KNOWN_LOSSES
}

/// Whether losses are known at all, whatever the state that they came in.
fn has_lost(view: &RedundancyView) -> bool {
    view.loss.now.0.max(view.loss.calm.0) >= KNOWN_LOSSES
}

/// Whether losses are known that congestion does not account for. Over one path what is assumed of a new
/// one does; several paths must not be slower with codes than without where nothing is lost.
fn is_lossy(view: &RedundancyView) -> bool {
    !view.several || view.loss.now.0 >= KNOWN_LOSSES
}

impl Auto {
    pub(super) const NAME: &'static str = "auto";
    pub(super) const USAGE: &'static str = Terms::USAGE;
    pub(super) const KEYS: &'static [&'static str] = Terms::KEYS;

    pub(super) fn parse(options: &Options<'_>) -> Option<Self> {
        let terms = Terms::parse(options)?;
        options.are_by_key().then(|| Self {
            terms,
            deadlines: Deadlines::default(),
            strain: Strain::default(),
            spare: Spare::default(),
            effect: Effect::default(),
            waits: Waits::default(),
            vain: Vain::default(),
            toll: Toll::default(),
            wanted: None,
            sources: 0,
            held_back: None,
            start_up: StartUp::default(),
            worth: true,
            review: None,
            saving: Duration::ZERO,
        })
    }

    /// Whether what flow control lets be under way leaves a third of the congestion window unused: then
    /// a loss holds up everything, a round trip later, and repair symbols take the place of nothing,
    /// even if one is lost and the window becomes smaller for it.
    fn is_held_back(&self, view: &RedundancyView) -> bool {
        // On the way what is merely assumed of a new path is not worth a fixed share of the link.
        self.terms.way && self.was_held_back(view) && knows_losses(view) && Self::is_left_idle(view)
    }

    /// Whether flow control leaves a third of the congestion window unused.
    fn is_left_idle(view: &RedundancyView) -> bool {
        flow_window(view).is_some_and(|flow| flow.saturating_add(flow / 2) < view.congestion_window)
    }

    /// Where flow control is what limits, it is too late for repair symbols once it does: those for a
    /// part of its window leave behind that.
    fn on_the_way(&mut self, view: &RedundancyView) -> Repairs {
        let window = view.flow_window.unwrap_or(0) / view.datagram_bytes.max(1);
        let losses = self.chain(view).rate().max(1e-6);
        let part = (window / PARTS).max((PART_LOSSES / losses) as u64);
        if view.uncovered < part.min(window / 2).clamp(LEAST_PART, MOST_PART) {
            return Repairs::NONE;
        }
        let (repairs, saving) = self.best(view, view.uncovered.min(view.in_flight), 0, 0);
        self.over_all(view, repairs, saving)
    }

    /// Whether start-up is about to overflow the queue, or has and the losses are being found: what is open left
    /// while the window doubled each round trip, a queue stands, and more is in flight than the path delivered
    /// in a round trip. What is lost then is more than repair symbols make good for, and these would be lost with
    /// the rest and add to it. The first time nothing was lost before that would tell. Where losses are known that
    /// congestion does not account for, those are weighed as ever.
    fn overshoots(&mut self, view: &RedundancyView) -> bool {
        let overflows = if view.slow_start {
            view.bytes_in_flight > view.congestion_window / 2 && !StartUp::is_lossy(view)
        } else {
            self.start_up.has_overflowed(view)
        };
        self.terms.start && has_queue(view) && overflows
    }

    /// Whether all that is known to be lost here is lost of congestion, which is about to cost packets again: what
    /// left while none was forecast would have lost several otherwise. A repair symbol would take the place of
    /// another flow's packet, and make the queue that it is for longer.
    fn is_crowded(&self, view: &RedundancyView) -> bool {
        let (lost, of) = view.loss.calm;
        let spared = lost < KNOWN_LOSSES && of * view.loss.rate > SPARED;
        self.terms.crowd && spared && view.loss.tense && has_queue(view)
    }

    /// Whether a repair symbol would meet a queue that overflows, our own or one that others fill.
    fn lacks_room(&mut self, view: &RedundancyView) -> bool {
        let toll = self.terms.toll && self.toll.forbids(view.now);
        toll || self.overshoots(view) || self.is_crowded(view)
    }

    /// What deadlines call for, as far as there is room; where that is not known, nothing before a trial.
    fn for_deadlines(&mut self, view: &RedundancyView, due: Repairs) -> Repairs {
        if self.terms.trial && self.effect.room(view) != Room::Enough {
            // What is tried leaves right behind a message: then it takes of the link what that leaves.
            self.wanted = Some(view.now);
            return Repairs::NONE;
        }
        self.if_affordable(view, due)
    }

    /// At the end of a message: a repair symbol to see whether there is room for those that deadlines call for.
    fn on_trial(&mut self, view: &RedundancyView) -> Repairs {
        let lifetime = view.lifetime.unwrap_or_default().max(view.smoothed_rtt);
        let wanted = self
            .wanted
            .is_some_and(|at| view.now.saturating_since(at) < lifetime);
        if !wanted || self.effect.room(view) != Room::Trial {
            return Repairs::NONE;
        }
        let one = Repairs {
            count: 1,
            window: view.span,
            behind: 0,
        };
        self.if_affordable(view, one)
    }

    /// As many as leave without making messages late.
    fn if_affordable(&mut self, view: &RedundancyView, due: Repairs) -> Repairs {
        if due == Repairs::NONE {
            return due;
        }
        let others_wait = self.terms.waits && !self.waits.is_short(view);
        let mut count = due.count;
        if self.terms.cost && (self.lacks_room(view) || others_wait) {
            count = 0;
        } else {
            if self.terms.toll {
                count = count.min(self.toll.most(view));
            }
            if self.terms.strain {
                count = self.strain.allows(view, count);
            }
        }
        let affordable = self.within_spare(view, Repairs { count, ..due });
        if affordable != Repairs::NONE {
            self.strain.on_repairs(view.now, affordable.count);
        }
        affordable
    }

    /// As many of them as the link has room for beside what the application sends.
    fn within_spare(&mut self, view: &RedundancyView, due: Repairs) -> Repairs {
        let mut count = due.count;
        // What flow control lets go in a round trip is no burst that leaves the rest of the link's time.
        if !self.was_held_back(view) {
            if self.terms.trial {
                count = match self.effect.room(view) {
                    Room::Enough => count,
                    Room::Trial => count.min(1),
                    Room::None => 0,
                };
            }
            if self.terms.spare {
                count = self.spare.allows(view, count);
            }
        }
        if count == 0 {
            self.saving = Duration::ZERO;
            return Repairs::NONE;
        }
        self.spare.on_repairs(view, count);
        let each = self.saving.as_secs_f64() / f64::from(due.count);
        self.effect.on_repairs(view.now, count, each);
        Repairs { count, ..due }
    }

    fn at_the_end(&mut self, view: &RedundancyView) -> Repairs {
        // Where flow control holds data back, repair symbols leave every round trip, or take the place of data that it
        // lets go in a moment: what is merely assumed of a new path is not worth that.
        // The same where burst follows burst: in start-up the next ones wait for the window, which does not grow by repair
        // symbols, and what leaves of the first ten packets is a tenth of all windows to come.
        let follows = view.held_back || self.spare.follows(view);
        if self.lacks_room(view) || follows && !knows_losses(view) {
            return Repairs::NONE;
        }
        let sent = view.repairs_in_flight.saturating_add(view.queued.into());
        let (repairs, saving) = self.best(view, view.in_flight, view.missing, sent);
        let due = self.over_all(view, repairs.saturating_sub(sent), saving);
        self.within_spare(view, due)
    }

    /// So many repair symbols over all that is open, with what they may save in seconds.
    fn over_all(&mut self, view: &RedundancyView, repairs: u64, saving: f64) -> Repairs {
        if repairs == 0 {
            return Repairs::NONE;
        }
        self.saving = Duration::try_from_secs_f64(saving).unwrap_or_default();
        Repairs {
            count: u16::try_from(repairs).unwrap_or(u16::MAX),
            window: view.span,
            behind: 0,
        }
    }
}

impl RedundancyScheduler for Auto {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn protects(&self, view: &RedundancyView) -> bool {
        // Source headers take of the link too.
        let tried = self.terms.trial && self.effect.is_silent(view);
        if tried || self.terms.vain && self.vain.is_silent(view) {
            return false;
        }
        match view.lifetime {
            Some(_) if !self.terms.retry => true,
            // What is merely assumed of a new path is not worth a share of all that ever leaves on it.
            Some(lifetime) => {
                has_lost(view) && Deadlines::protects(view, lifetime, self.chain(view))
            }
            None => self.worth && is_lossy(view) && Quirl::is_of_last_flight(view),
        }
    }

    fn plain_for(&self, view: &RedundancyView) -> u64 {
        match (view.deadline, self.worth) {
            (Some(_), _) => 0,
            (None, true) if is_lossy(view) => Quirl::before_last_flight(view),
            (None, _) => u64::MAX,
        }
    }

    fn heeds_feedback(&self, now: Instant) -> bool {
        !self.deadlines.is_empty() || self.review.is_none_or(|at| at <= now)
    }

    fn on_round_trip(&mut self, now: Instant, packet: Measured) {
        self.waits.on_round_trip(now, packet);
        self.effect
            .on_round_trip(now, packet.round_trip, packet.after_repair);
    }

    fn look(&mut self, now: Instant, known: Option<u64>, fate: &dyn Fn(u64) -> Option<SymbolFate>) {
        self.deadlines.look(now, known, fate);
    }

    fn ask(&mut self, occasion: Occasion, view: &RedundancyView) -> Repairs {
        self.saving = Duration::ZERO;
        // What feedback tells is news of the path; of the window it knows what held when a packet left last.
        if view.slow_start && occasion != Occasion::Feedback {
            self.start_up = StartUp::now(view);
        }
        if self.sources < view.sources {
            self.sources = view.sources;
            let chain = self.chain(view);
            self.deadlines.on_symbol(view, self.terms.retry, chain);
        }
        self.toll.note(view);
        let full = view.datagram_bytes as f64;
        self.spare.on_link(
            self.waits.least_time_of(full),
            self.waits.most_time_of(full),
        );
        self.strain
            .on_link(self.waits.packet_time_if_delays_vary(view));
        if self.spare.note(occasion, view) {
            let bursts = Bursts {
                interval: self.spare.interval(view),
                bytes: self.spare.bytes(),
                least_packet_time: self.waits.least_packet_time(view),
                most_time: self.waits.most_time_of(self.spare.bytes()),
            };
            self.effect.on_burst(view, bursts);
        }
        if view.lifetime.is_some() && self.strain.note(view) {
            self.effect.try_again();
        }
        if !self.deadlines.is_empty() {
            let due = self.deadlines.ask(view, self.odds(view));
            if due != Repairs::NONE {
                return self.for_deadlines(view, due);
            }
        }
        if view.held_back {
            self.held_back = Some(view.now);
        }
        match occasion {
            Occasion::BurstEnd if view.deadline.is_none() => {
                let repairs = self.at_the_end(view);
                self.vain.on_burst_end(view, repairs.count);
                return repairs;
            }
            // What is due at the last moment may as well leave at once, on a path that has room.
            Occasion::BurstEnd if view.paths > 1 => {
                if self.lacks_room(view) {
                    return Repairs::NONE;
                }
                let open = view.uncovered.min(view.in_flight);
                let (repairs, saving) = self.best(view, open, 0, 0);
                let early = self.over_all(view, repairs, saving);
                let early = self.if_affordable(view, early);
                self.deadlines.on_early(view, early.count);
                return early;
            }
            Occasion::BurstEnd => return self.on_trial(view),
            Occasion::SlotFree if view.deadline.is_none() && self.is_held_back(view) => {
                if self.lacks_room(view) {
                    return Repairs::NONE;
                }
                let due = self.on_the_way(view);
                return self.within_spare(view, due);
            }
            Occasion::Feedback if self.review.is_none_or(|at| at <= view.now) => {
                self.review = Some(view.now + view.smoothed_rtt.max(LEAST_REVIEW));
                self.worth = self.is_worth_protecting(view);
            }
            _ => {}
        }
        Repairs::NONE
    }

    fn plans(&self, id: u64) -> bool {
        self.deadlines.plans(id)
    }

    fn saving(&self) -> Duration {
        self.saving
    }

    fn timer(&self) -> Option<Instant> {
        self.deadlines.timer()
    }
}

impl RedundancyFactory for Auto {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn build(&self) -> Box<dyn RedundancyScheduler> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fec::LossEstimate, fec::redundancy::registry};

    pub(super) fn auto(options: &str) -> Auto {
        Auto::parse(&Options::parse(options).unwrap()).unwrap()
    }

    pub(super) fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// 20 Mb/s, 100 ms, so many packets under way.
    pub(super) fn view(in_flight: u64, rate: f64) -> RedundancyView {
        RedundancyView {
            now: at(1_000),
            in_flight,
            span: u16::try_from(in_flight).unwrap(),
            window_bytes: 300_000,
            congestion_window: 250_000,
            datagram_bytes: 1_250,
            smoothed_rtt: Duration::from_millis(100),
            probe_timeout: Duration::from_millis(150),
            one_way_delay: Duration::from_millis(50),
            loss: LossEstimate {
                packets: 10_000.0,
                rate,
                now: (10_000.0 * rate, 10_000.0),
                arrival_after_loss: 1.0 - rate,
                after_loss: 10_000.0 * rate,
                ..LossEstimate::default()
            },
            ..RedundancyView::default()
        }
    }

    #[test]
    fn a_trial_sends_nothing_where_nothing_is_due() {
        let mut auto = auto("");
        let view = view(4, 0.02);
        let bursts = Bursts {
            interval: view.smoothed_rtt.as_secs_f64() / 2.0,
            bytes: 1_000.0,
            ..Bursts::default()
        };
        auto.effect.on_burst(&view, bursts);
        assert_eq!(auto.effect.room(&view), Room::Trial);
        assert_eq!(auto.within_spare(&view, Repairs::NONE), Repairs::NONE);
        let due = Repairs {
            count: 3,
            window: 4,
            behind: 0,
        };
        assert_eq!(auto.within_spare(&view, due).count, 1);
    }

    #[test]
    fn as_many_as_losses_call_for() {
        let ask = |in_flight, rate| {
            let repairs = auto("").ask(Occasion::BurstEnd, &view(in_flight, rate));
            assert!(repairs.count == 0 || u64::from(repairs.window) == in_flight);
            repairs.count
        };
        assert_eq!(ask(0, 0.02), 0);
        assert_eq!(ask(30, 0.0), 0, "a path that loses nothing needs nothing");
        assert_eq!(ask(30, 1e-6), 0, "or next to nothing");
        assert_eq!(ask(1, 0.02), 1);
        let mut unknown = view(1, 0.0);
        unknown.loss = LossEstimate::default();
        assert_eq!(
            auto("").ask(Occasion::BurstEnd, &unknown),
            Repairs::NONE,
            "not as many bytes again for what is merely assumed"
        );
        assert_eq!(ask(4, 0.2), 1, "no more than a share");
        let counts = [0.001, 0.01, 0.05, 0.1].map(|rate| ask(30, rate));
        assert!(counts.is_sorted() && counts[3] > counts[1], "{counts:?}");
        assert!(counts[1] > 0 && counts[3] <= 9, "{counts:?}");
    }

    #[test]
    fn what_is_under_way_counts() {
        let mut view = view(30, 0.05);
        let all = auto("").ask(Occasion::BurstEnd, &view).count;
        (view.repairs_in_flight, view.queued) = (1, 1);
        assert_eq!(auto("").ask(Occasion::BurstEnd, &view).count, all - 2);
        view.repairs_in_flight = 1_000;
        assert_eq!(auto("").ask(Occasion::BurstEnd, &view), Repairs::NONE);
    }

    #[test]
    fn what_is_saved_is_told() {
        let mut auto = auto("");
        auto.ask(Occasion::BurstEnd, &view(30, 0.05));
        let saving = auto.saving();
        assert!(saving > Duration::from_millis(20) && saving < Duration::from_millis(150));
        auto.ask(Occasion::SlotFree, &view(30, 0.05));
        assert_eq!(auto.saving(), Duration::ZERO);
    }

    #[test]
    fn the_middle_of_a_transfer_gets_nothing() {
        let mut auto = auto("");
        let mut view = view(200, 0.05);
        view.waiting_bytes = 1_000_000;
        assert!(!auto.protects(&view));
        for occasion in [Occasion::SlotFree, Occasion::Feedback, Occasion::Timer] {
            assert_eq!(auto.ask(occasion, &view), Repairs::NONE);
        }
        view.waiting_bytes = 100_000;
        assert!(auto.protects(&view));
    }

    #[test]
    fn a_window_below_the_path_gets_some_on_the_way() {
        let mut auto = auto("");
        // 60 packets at a time, of a congestion window of 200.
        let at_work = |now, uncovered| RedundancyView {
            now: at(now),
            uncovered,
            flow_window: Some(75_000),
            min_rtt: Duration::from_millis(100),
            calm_rtt: Duration::from_millis(100),
            ..view(50, 0.02)
        };
        let ask = |auto: &mut Auto, view: &RedundancyView| auto.ask(Occasion::SlotFree, view);
        assert_eq!(
            ask(&mut auto, &at_work(1_000, 40)),
            Repairs::NONE,
            "not held back yet"
        );
        let held = RedundancyView {
            held_back: true,
            ..at_work(1_000, 40)
        };
        assert!(auto.ask(Occasion::BurstEnd, &held).count > 0);
        assert_eq!(ask(&mut auto, &at_work(1_100, 11)), Repairs::NONE);
        let repairs = ask(&mut auto, &at_work(1_100, 12));
        assert!(repairs.count > 0 && repairs.window == 50, "{repairs:?}");
        // Not where the congestion window is what limits, nor for ever.
        let full = RedundancyView {
            congestion_window: 100_000,
            ..at_work(1_100, 40)
        };
        assert_eq!(ask(&mut auto, &full), Repairs::NONE);
        // Nor where flow control has given way since.
        let more = RedundancyView {
            bytes_in_flight: 240_000,
            ..at_work(1_100, 40)
        };
        assert_eq!(ask(&mut auto, &more), Repairs::NONE);
        assert_eq!(ask(&mut auto, &at_work(1_300, 40)), Repairs::NONE);
    }

    #[test]
    fn a_queue_about_to_overflow_gets_none() {
        let mut start = RedundancyView {
            slow_start: true,
            min_rtt: Duration::from_millis(100),
            calm_rtt: Duration::from_millis(130),
            bytes_in_flight: 200_000,
            loss: LossEstimate {
                packets: 100.0,
                now: (0.0, 100.0),
                ..LossEstimate::default()
            },
            ..view(60, 0.0)
        };
        let ask = |options, view| auto(options).ask(Occasion::BurstEnd, &view).count;
        assert_eq!(ask("", start), 0);
        assert!(ask("forecast=off", start) > 0, "not for want of losses");
        let mut other = start;
        other.slow_start = false;
        assert!(ask("", other) > 0);
        other = start;
        other.calm_rtt = Duration::from_millis(105);
        assert!(ask("", other) > 0);
        other = start;
        other.bytes_in_flight = 100_000;
        assert!(ask("", other) > 0);
        // Losses without a queue are known, until it is as full as when it overflowed.
        other = start;
        other.loss.now.0 = 2.0;
        assert!(ask("", other) > 0);
        other.loss.tense = true;
        assert_eq!(ask("", other), 0);
        // Out of start-up: nothing for losses that all came of congestion, when it is near again.
        other.slow_start = false;
        other.loss.rate = 0.02;
        other.loss.calm = (0.0, 1_000.0);
        assert_eq!(ask("", other), 0);
        assert!(ask("forecast=off", other) > 0, "not for want of losses");
        // Losses at random would have spared so few by chance.
        other.loss.calm = (0.0, 100.0);
        assert!(ask("", other) > 0);
        other.loss.calm = (1.0, 1_000.0);
        assert!(ask("", other) > 0);
        other.loss.calm.0 = 0.0;
        other.calm_rtt = Duration::from_millis(105);
        assert!(ask("", other) > 0);
        // The first losses of the overflow are known, and more to come: until what left then is settled.
        let mut auto = auto("");
        (start.sources, start.span) = (60, 60);
        assert_eq!(auto.ask(Occasion::BurstEnd, &start).count, 0);
        let mut found = start;
        (found.slow_start, found.bytes_in_flight) = (false, 60_000);
        (found.loss.now.0, found.missing) = (2.0, 2);
        found.sources = 62;
        assert_eq!(auto.ask(Occasion::BurstEnd, &found).count, 0);
        // What is sent again meets the same queue.
        found.sources = 121;
        assert_eq!(auto.ask(Occasion::BurstEnd, &found).count, 0);
        let mut next = found;
        (next.sources, next.now) = (181, found.now + 2 * found.smoothed_rtt);
        assert!(auto.ask(Occasion::BurstEnd, &next).count > 0);
        // Feedback tells losses before it is known that they ended start-up.
        let mut auto = self::auto("");
        auto.ask(Occasion::BurstEnd, &start);
        (found.slow_start, found.sources) = (true, 62);
        auto.ask(Occasion::Feedback, &found);
        found.slow_start = false;
        assert_eq!(auto.ask(Occasion::BurstEnd, &found).count, 0);
    }

    #[test]
    fn what_is_assumed_gets_nothing_where_burst_follows_burst() {
        let ask = |losses: f64, interval: u64| {
            let mut auto = auto("");
            let mut counts = Vec::new();
            for burst in 0..3 {
                let mut view = RedundancyView {
                    now: at(1_000 + burst * interval),
                    burst_bytes: 12_500,
                    burst_interval: Some(Duration::from_millis(interval)),
                    ..view(10, 0.0)
                };
                view.loss = LossEstimate {
                    packets: 20.0,
                    now: (losses, 20.0),
                    ..LossEstimate::default()
                };
                auto.ask(Occasion::SlotFree, &view);
                counts.push(auto.ask(Occasion::BurstEnd, &view).count);
            }
            counts
        };
        let soon = ask(0.0, 30);
        assert!(soon[0] > 0, "the first may be all there is");
        assert_eq!(soon[1..], [0, 0]);
        assert!(ask(0.0, 100).iter().all(|count| *count > 0));
        assert!(ask(2.0, 30).iter().all(|count| *count > 0));
    }

    #[test]
    fn off_where_nothing_is_lost() {
        let mut auto = auto("");
        let clean = view(30, 0.0);
        assert!(auto.protects(&clean), "nothing is known at first");
        auto.ask(Occasion::Feedback, &clean);
        assert!(!auto.protects(&clean));
        let mut lossy = view(30, 0.02);
        lossy.now = at(1_050);
        auto.ask(Occasion::Feedback, &lossy);
        assert!(
            !auto.protects(&lossy),
            "asked again after a round trip only"
        );
        lossy.now = at(1_100);
        auto.ask(Occasion::Feedback, &lossy);
        assert!(auto.protects(&lossy));
    }

    /// Loopback and wires: a loss in a million packets costs a round trip of microseconds.
    #[test]
    fn off_where_the_work_is_worth_more() {
        let mut auto = auto("");
        let mut view = view(30, 0.0);
        (view.smoothed_rtt, view.probe_timeout) =
            (Duration::from_micros(200), Duration::from_millis(2));
        view.loss.packets = 100.0;
        view.loss.now = (0.0, 100.0);
        auto.ask(Occasion::Feedback, &view);
        assert!(!auto.protects(&view));
        // As few losses known half a second away.
        view.now = at(2_000);
        (view.smoothed_rtt, view.probe_timeout) =
            (Duration::from_millis(500), Duration::from_secs(1));
        auto.ask(Occasion::Feedback, &view);
        assert!(auto.protects(&view));
    }

    /// More losses in a full window than chances are computed for say nothing of a short flight.
    #[test]
    fn on_where_losses_are_heavy_and_the_window_large() {
        for rate in [0.08, 0.14, 0.2, 0.4] {
            let mut auto = auto("");
            let mut heavy = view(20, rate);
            heavy.congestion_window = 1_000_000;
            auto.ask(Occasion::Feedback, &heavy);
            assert!(auto.protects(&heavy), "{rate}");
        }
    }

    #[test]
    fn odd_views_are_harmless() {
        let mut auto = auto("");
        for rate in [0.0, 1.0, f64::NAN, f64::INFINITY, -1.0] {
            for in_flight in [0, 1, 60_000] {
                let mut view = view(in_flight, rate);
                for smoothed_rtt in [Duration::ZERO, Duration::MAX] {
                    view.smoothed_rtt = smoothed_rtt;
                    (view.deadline, view.sent_deadline) = (Some(at(1_000)), Some(at(1_000)));
                    view.sources += 1;
                    auto.ask(Occasion::SlotFree, &view);
                    auto.ask(Occasion::BurstEnd, &view);
                    view.deadline = None;
                    view.now = at(1_000);
                    auto.ask(Occasion::BurstEnd, &view);
                    auto.ask(Occasion::Feedback, &view);
                }
                (view.congestion_window, view.datagram_bytes) = (0, 0);
                auto.ask(Occasion::BurstEnd, &view);
            }
        }
    }

    #[test]
    fn options() {
        assert!(registry::parse("auto:tail=off,bursts=off").is_ok());
        let error = registry::parse("auto:tial=off").unwrap_err().to_string();
        assert!(error.contains("tail"), "{error}");
        assert!(registry::parse("auto:3").is_err());
    }
}
