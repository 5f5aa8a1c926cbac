//! Messages with deadlines: when the last moment is, and what is uncertain then.
//!
//! Owns: [`Deadlines`], which remembers what left for which deadline, and when that calls for repair symbols.
//! Does not own: how many (`counts.rs`), how many of those left before (`early.rs`), what a message is worth (`price.rs`), what is weighed without deadlines (`../mod.rs`).

mod counts;
mod early;
mod price;

use std::{collections::VecDeque, ops::Range, time::Duration};

use early::Early;
use price::Price;

use super::{
    model::{Chain, Odds},
    slot,
};
use crate::{
    fec::{
        SymbolFate,
        redundancy::{RedundancyView, Repairs},
    },
    time::{Instant, earliest},
};

/// Share of messages that may come late.
const LATE: f64 = 1e-3;
/// The same over several paths: there it competes with sending everything twice.
const LATE_OF_SEVERAL: f64 = 1e-4;
/// Round-trip times from a packet to its retransmission where the time threshold tells.
/// RFC 9002 s6.1.2.
const RETRY: f64 = 9.0 / 8.0;
/// What timers may take of the time that is left to a message.
const MARGIN: Duration = Duration::from_millis(2);
/// The same over several paths, of which one may be just in time.
const MARGIN_OF_SEVERAL: Duration = Duration::from_millis(3);
/// How long repair symbols wait at a time for what is sent again.
const PATIENCE: Duration = Duration::from_millis(1);
/// Packets for which there is time for so many retransmissions need no repair symbol.
const ENOUGH: u32 = 3;
/// Packets of a message, about, any of which makes it late.
const OF_MESSAGE: f64 = 6.0;
/// Repair symbols to reckon with, by losses to be expected.
const AHEAD: f64 = 6.0;
/// Repair symbols that may be due at the last moment for what is told of by then. Others leave before.
const AT_LAST: f64 = 8.0;
/// Pieces that are remembered; older ones are left to retransmission.
const PIECES: usize = 64;

/// Source symbols in a row for one deadline.
#[derive(Clone, Debug, PartialEq)]
struct Piece {
    ids: Range<u64>,
    deadline: Instant,
    /// When a repair symbol has to leave.
    last: Instant,
    /// When it comes too late.
    until: Instant,
    /// It was due while data waited to be sent.
    held: bool,
    /// How often they were lost before, as far as time tells.
    before: u32,
    /// Nothing will be known of their fate until then.
    blind: bool,
    /// When their fate should be known.
    told: Instant,
    /// How many of them may be lost.
    open: u64,
    /// How many of those are, since a later packet has arrived.
    lost: u64,
}

impl Piece {
    /// Whether there is nothing to wait for any more.
    fn is_told_of(&self, now: Instant) -> bool {
        !self.blind && self.before == 0 && self.told <= now
    }

    /// Leaves the symbols up to the first that went out again, of these from the first to the last that the peer may lack, none if
    /// there is none; returns what follows.
    fn narrow(&mut self, known: Option<u64>, fate: &dyn Fn(u64) -> Option<SymbolFate>) -> Self {
        // What waits for a repair symbol has nothing else to wait for.
        let waits = |id: &u64| fate(*id) == Some(SymbolFate::Waiting);
        let is_open = |id: &u64| fate(*id) == Some(SymbolFate::InFlight) || waits(id);
        let is_resent = |id: &u64| fate(*id) == Some(SymbolFate::Resent);
        let end = self.ids.end;
        let start = self.ids.clone().find(is_open).unwrap_or(end);
        let until = (start..end).find(is_resent).unwrap_or(end);
        let open = (start..until).filter(is_open);
        let is_lost = |id: &u64| Some(*id) < known || waits(id);
        self.open = open.clone().count() as u64;
        self.lost = open.clone().filter(is_lost).count() as u64;
        self.ids = start..open.max().map_or(start, |last| last + 1);
        Self {
            ids: until..end,
            ..self.clone()
        }
    }
}

/// What repair symbols are due for.
#[derive(Debug)]
struct Due {
    ids: Range<u64>,
    open: u64,
    lost: u64,
    before: u32,
    blind: bool,
    messages: u64,
    /// Packets of the message, with those that have arrived.
    of_message: u64,
    /// What left behind them will be told in time.
    alone: bool,
}

/// What left for deadlines, and is not known to have arrived.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Deadlines {
    pieces: VecDeque<Piece>,
    /// The latest deadline seen.
    newest: Option<Instant>,
    /// How long its message could have waited when it began to leave.
    usual: Duration,
    /// Packets with data of the latest deadlines.
    sizes: VecDeque<(Instant, u64)>,
    /// Repair symbols that left before the last moment.
    early: Early,
    /// What a message in time is worth.
    price: Price,
}

impl Deadlines {
    /// Whether packets of messages that have so much time are protected: not where retransmissions alone
    /// leave few enough late.
    pub(super) fn protects(view: &RedundancyView, lifetime: Duration, chain: Chain) -> bool {
        let Some(slack) = lifetime.checked_sub(view.one_way_delay + margin(view)) else {
            return true;
        };
        // The end of a message is told of by the next one, which puts off the probe timeout.
        let next = view
            .burst_interval
            .filter(|next| *next < view.probe_timeout);
        let told = next.map_or(view.probe_timeout, |next| {
            view.smoothed_rtt.saturating_add(next)
        });
        let retries = retries(view, slack).min(times(slack, told));
        // A retransmission follows what a round trip carries.
        let again_lost = chain.after_loss(view.in_flight + 1);
        retries < ENOUGH && late_after(chain, again_lost, retries) > aim(view)
    }

    /// Takes in the source symbol that has just left.
    pub(super) fn on_symbol(&mut self, view: &RedundancyView, retry: bool, chain: Chain) {
        let Some((deadline, slack)) = view
            .sent_deadline
            .and_then(|deadline| Some((deadline, slack(view, deadline)?)))
        else {
            return;
        };
        if self.newest.is_none_or(|newest| deadline > newest) {
            self.newest = Some(deadline);
            // A message begins: what it has now is what there is at first.
            self.usual = slack;
        }
        let new = u64::from(!view.repeats);
        let known = self.sizes.iter_mut().rev().find(|(of, _)| *of == deadline);
        if let Some((_, size)) = known {
            *size += new;
        } else {
            self.price.on_message();
            self.make_way(view);
            if self.sizes.len() >= PIECES {
                self.sizes.pop_front();
            }
            self.sizes.push_back((deadline, new));
        }
        let before = retries(view, self.usual).saturating_sub(retries(view, slack));
        // Of what is sent again, time tells how often.
        let before = if retry && view.repeats {
            before.max(1)
        } else {
            0
        };
        let id = view.sources.saturating_sub(1);
        let losses = chain.rate() / chain.q;
        // The pacer lets one repair symbol go after the other; over several paths another has room.
        let slots = |count: f64| {
            let count = if view.paths > 1 { 0.0 } else { count };
            let span = Duration::try_from_secs_f64(count * slot(view));
            span.unwrap_or_default().min(view.smoothed_rtt / 8)
        };
        let blind = before == 0 && (!retry || slack < view.probe_timeout);
        if let Some(newest) = self.pieces.back_mut()
            && newest.deadline == deadline
            && newest.ids.end == id
            && newest.before == before
            && newest.blind == blind
        {
            newest.ids.end = id + 1;
            newest.open += 1;
            newest.told = view.now + view.probe_timeout;
            if blind && self.usual >= view.probe_timeout {
                newest.last = newest.last - slots((AHEAD * losses).min(1.0));
            }
            return;
        }
        if self.pieces.len() >= PIECES {
            self.pieces.pop_front();
        }
        // More are due for what is told of.
        let ahead = if blind && (view.several || self.usual < view.probe_timeout) {
            0.0
        } else if !blind && (view.several || before == 0) {
            1.0
        } else {
            AT_LAST
        };
        self.pieces.push_back(Piece {
            ids: id..id + 1,
            deadline,
            last: view.now + slack.saturating_sub(slots(ahead)),
            until: deadline - view.one_way_delay,
            held: false,
            before,
            blind,
            told: view.now + view.probe_timeout,
            open: 1,
            lost: 0,
        });
    }

    /// A message begins to leave: what is due while it does goes before it, if there is nothing more to wait for.
    fn make_way(&mut self, view: &RedundancyView) {
        if view.several {
            return;
        }
        let packets = view.waiting_bytes as f64 / view.datagram_bytes.max(1) as f64;
        let takes = Duration::try_from_secs_f64(packets * slot(view)).unwrap_or_default();
        for piece in &mut self.pieces {
            if piece.is_told_of(view.now) && piece.last < view.now + takes {
                piece.last = piece.last.min(view.now);
            }
        }
    }

    /// What became of source symbols: of what is due at `now` only those are of interest that may be lost. Those between
    /// them that are, and go out again, would have to be rebuilt too: repair symbols go over what is on one side of these.
    pub(super) fn look(
        &mut self,
        now: Instant,
        known: Option<u64>,
        fate: &dyn Fn(u64) -> Option<SymbolFate>,
    ) {
        let mut index = 0;
        loop {
            let full = self.pieces.len() >= PIECES;
            let Some(piece) = self.pieces.get_mut(index) else {
                break;
            };
            index += 1;
            // What is told of may be due at once: where it makes way.
            let may_be_due = piece.last <= now || piece.is_told_of(now);
            if piece.blind || !may_be_due {
                continue;
            }
            let whole = piece.ids.clone();
            let rest = piece.narrow(known, fate);
            if rest.ids.is_empty() {
                continue;
            }
            if full {
                piece.ids = whole;
            } else {
                self.pieces.insert(index, rest);
            }
        }
        self.pieces.retain(|piece| !piece.ids.is_empty());
    }

    /// So many repair symbols leave before they are due, over all that left.
    pub(super) fn on_early(&mut self, view: &RedundancyView, count: u16) {
        if count > 0 && !self.pieces.is_empty() {
            self.early.note(view.sources, count);
        }
    }

    /// Whether repair symbols for this source symbol are to leave at the last moment.
    pub(super) fn plans(&self, id: u64) -> bool {
        self.pieces.iter().any(|piece| piece.ids.contains(&id))
    }

    /// Whether nothing is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// When repair symbols are due.
    pub(super) fn timer(&self) -> Option<Instant> {
        let lasts = self.pieces.iter().map(|piece| Some(piece.last));
        lasts.fold(None, earliest)
    }

    /// The repair symbols that are due now.
    pub(super) fn ask(&mut self, view: &RedundancyView, odds: Odds) -> Repairs {
        let open = view.sources.saturating_sub(view.span.into());
        while self
            .pieces
            .front()
            .is_some_and(|piece| piece.ids.end <= open)
        {
            self.pieces.pop_front();
        }
        self.early.forget(open);
        while let Some(due) = self.take(view) {
            let price = self.price.of(view, odds.chain);
            let (mut repairs, late) = counts::called_for(view, &due, open, odds, price);
            self.price.on_late(late);
            if due.blind {
                let end = if due.alone { due.ids.end } else { view.sources };
                let ids = due.ids.start.max(open)..end;
                repairs.count = self.early.left_of(repairs.count, &ids);
            }
            if repairs.count > 0 {
                return repairs;
            }
        }
        Repairs::NONE
    }

    fn size_of(&self, deadline: Instant) -> u64 {
        let size = self.sizes.iter().rev().find(|(of, _)| *of == deadline);
        size.map_or(1, |(_, size)| *size)
    }

    fn take(&mut self, view: &RedundancyView) -> Option<Due> {
        let waits = view.waiting_bytes > 0;
        for piece in &mut self.pieces {
            // Other retransmissions would be later for the repair symbols of the first.
            if waits && piece.before > 0 && piece.last <= view.now && view.now < piece.until {
                piece.last = (view.now + PATIENCE).min(piece.until);
                piece.held = true;
            } else if piece.held && !waits {
                piece.last = view.now;
            }
        }
        let is_due = |piece: &Piece| piece.last <= view.now;
        let index = self.pieces.iter().position(is_due)?;
        let piece = self.pieces.remove(index)?;
        let mut due = Due {
            ids: piece.ids,
            open: piece.open,
            lost: piece.lost,
            before: piece.before,
            blind: piece.blind,
            messages: 1,
            of_message: self.size_of(piece.deadline),
            alone: false,
        };
        if due.blind {
            // Those behind it share its repair symbols: theirs would have to leave blindly too.
            let mut deadline = piece.deadline;
            while let Some(next) = self.pieces.get(index).filter(|next| next.blind) {
                due.messages += u64::from(next.deadline != deadline);
                (due.ids.end, deadline) = (next.ids.end, next.deadline);
                self.pieces.remove(index);
            }
            due.alone = self.pieces.get(index).is_some();
        }
        Some(due)
    }
}

/// How long a packet for `deadline` can wait; `None` if it cannot be in time.
fn slack(view: &RedundancyView, deadline: Instant) -> Option<Duration> {
    let left = deadline.saturating_since(view.now);
    let left = left.checked_sub(view.one_way_delay)?;
    let slack = left.checked_sub(margin(view));
    // What is sent again at the last moment may still be in time, and so may what follows at once.
    slack.or(view.repeats.then_some(Duration::ZERO))
}

/// Retransmissions, one after the other, that would be in time.
fn retries(view: &RedundancyView, slack: Duration) -> u32 {
    times(slack, view.smoothed_rtt.mul_f64(RETRY))
}

fn times(slack: Duration, each: Duration) -> u32 {
    (slack.as_secs_f64() / each.as_secs_f64().max(1e-3)) as u32
}

/// The share of messages that miss a packet which was lost, and as many retransmissions after it.
fn late_after(chain: Chain, again_lost: f64, retries: u32) -> f64 {
    let lost = chain.rate() * again_lost.powf(f64::from(retries));
    (lost * OF_MESSAGE).min(1.0)
}

/// What of the time that is left goes into timers, into the pacer, and into the way being longer than it
/// was.
fn margin(view: &RedundancyView) -> Duration {
    let slot = Duration::try_from_secs_f64(slot(view)).unwrap_or(Duration::MAX);
    // Four deviations and the peer's delay, of which the way there has half.
    let spread = view.probe_timeout.saturating_sub(view.smoothed_rtt) / 8;
    let margin = if view.several {
        MARGIN_OF_SEVERAL
    } else {
        MARGIN
    };
    margin
        .saturating_add(slot.min(view.smoothed_rtt / 8))
        .saturating_add(spread)
}

/// Share of messages that may come late.
fn aim(view: &RedundancyView) -> f64 {
    if view.paths > 1 {
        LATE_OF_SEVERAL
    } else {
        LATE
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{at, auto, view},
        *,
    };
    use crate::fec::{Occasion, RedundancyScheduler, redundancy::ByCompany};

    /// At `now`, a packet of the message due at `deadline` has just left, the `sources`th, and the
    /// `open` latest are not known to have arrived.
    fn packet(now: u64, sources: u64, open: u16, deadline: u64, rate: f64) -> RedundancyView {
        let mut known = ByCompany::default();
        known.beside_repairs.packets = 1_000;
        RedundancyView {
            by_company: known,
            now: at(now),
            sources,
            in_flight: open.into(),
            span: open,
            probe_timeout: Duration::from_millis(130),
            deadline: Some(at(deadline)),
            lifetime: Some(Duration::from_millis(deadline - now)),
            sent_deadline: Some(at(deadline)),
            ..view(1, rate)
        }
    }

    #[test]
    fn messages_share_what_leaves_at_the_last_moment() {
        let mut auto = auto("");
        // 110 ms for messages that take 50: nothing is known before. Every 10 ms one of two packets.
        for sources in 1..=10_u16 {
            let sent = 10 * u64::from((sources - 1) / 2);
            let view = packet(sent, sources.into(), sources, 110 + sent, 0.02);
            assert!(auto.protects(&view));
            for occasion in [Occasion::SlotFree, Occasion::BurstEnd] {
                assert_eq!(auto.ask(occasion, &view), Repairs::NONE, "{sources}");
            }
        }
        // By the first.
        let due = auto.timer().unwrap();
        assert!(at(45) < due && due < at(58), "{due:?}");
        let repairs = auto.ask(Occasion::Timer, &packet(58, 10, 10, 150, 0.02));
        assert_eq!((repairs.count, repairs.window, repairs.behind), (2, 10, 0));
        assert_eq!(auto.timer(), None, "the others have them too");
        // What follows has not.
        auto.ask(Occasion::SlotFree, &packet(60, 11, 11, 170, 0.02));
        let due = auto.timer().unwrap();
        assert!(at(105) < due && due < at(118), "{due:?}");
        let repairs = auto.ask(Occasion::Timer, &packet(118, 11, 11, 170, 0.02));
        assert_eq!((repairs.count, repairs.window), (1, 1));
        // Too late for anything.
        auto.ask(Occasion::SlotFree, &packet(300, 13, 2, 340, 0.02));
        assert_eq!(auto.timer(), None);
    }

    #[test]
    fn what_has_arrived_needs_none() {
        let mut auto = auto("");
        auto.ask(Occasion::SlotFree, &packet(0, 1, 1, 300, 0.02));
        assert!(auto.timer().is_some());
        auto.ask(Occasion::Feedback, &packet(101, 1, 0, 300, 0.02));
        assert_eq!(auto.timer(), None);
    }

    #[test]
    fn what_may_be_lost_is_repaired_alone() {
        let mut auto = auto("");
        // Time for one retransmission, of which nothing has come when the last moment has.
        auto.ask(Occasion::SlotFree, &packet(0, 1, 1, 250, 0.02));
        auto.ask(Occasion::SlotFree, &packet(33, 2, 2, 283, 0.02));
        let due = auto.timer().unwrap();
        assert!(at(180) < due && due < at(200), "{due:?}");
        auto.ask(Occasion::SlotFree, &packet(166, 3, 3, 416, 0.02));
        let repairs = auto.ask(Occasion::Timer, &packet(200, 3, 3, 416, 0.02));
        assert_eq!((repairs.window, repairs.behind), (1, 2));
        assert!((1..=2).contains(&repairs.count));
    }

    #[test]
    fn a_packet_lost_before_is_not_left_to_chance() {
        let mut auto = auto("");
        for sources in 1..=6 {
            auto.ask(
                Occasion::SlotFree,
                &packet(0, sources, sources as u16, 250, 0.08),
            );
        }
        // One goes out again at 133.
        let again = RedundancyView {
            repeats: true,
            ..packet(133, 7, 1, 250, 0.08)
        };
        assert!(auto.protects(&again));
        assert_eq!(auto.ask(Occasion::SlotFree, &again), Repairs::NONE);
        let due = auto.timer().unwrap();
        assert!(at(180) < due && due < at(200), "{due:?}");
        let repairs = auto.ask(Occasion::Timer, &packet(200, 7, 1, 250, 0.08));
        assert_eq!((repairs.count, repairs.window, repairs.behind), (2, 1, 0));
    }

    /// The retransmission left little before: in a run of losses both are lost, and what follows.
    #[test]
    fn runs_of_losses_outlast_what_left_since() {
        let asked = |since: u64, arrival_after_loss: f64| {
            let mut auto = auto("");
            let losses = |mut view: RedundancyView| {
                view.loss.arrival_after_loss = arrival_after_loss;
                view
            };
            auto.ask(Occasion::SlotFree, &losses(packet(0, 1, 1, 250, 0.02)));
            let mut again = losses(packet(133, 2, 1, 250, 0.02));
            again.repeats = true;
            auto.ask(Occasion::SlotFree, &again);
            let last = losses(packet(200, 2 + since, 1 + since as u16, 416, 0.02));
            auto.ask(Occasion::Timer, &last).count
        };
        assert_eq!(asked(1, 0.98), 1);
        assert!((3..=4).contains(&asked(1, 1.0 / 3.0)));
        assert_eq!(asked(50, 1.0 / 3.0), 1);
    }

    /// One message of so many packets at 0, due at 250, of which `fates` tell when its last moment has come.
    fn asked_about(fates: &[SymbolFate], rate: f64) -> Vec<Repairs> {
        let packets = fates.len() as u64;
        let mut auto = auto("");
        for sources in 1..=packets {
            auto.ask(
                Occasion::SlotFree,
                &packet(0, sources, sources as u16, 250, rate),
            );
        }
        let last = packet(198, packets, packets as u16, 250, rate);
        let of = |id: u64| fates.get(usize::try_from(id).unwrap()).copied();
        let known = fates.iter().rposition(|fate| fate.is_settled());
        let known = known.map(|id| id as u64);
        let mut asked = Vec::new();
        for _ in 0..=packets {
            auto.look(last.now, known, &of);
            asked.push(auto.ask(Occasion::Timer, &last));
        }
        assert_eq!(asked.pop(), Some(Repairs::NONE));
        asked.retain(|repairs| repairs.count > 0);
        asked
    }

    #[test]
    fn only_what_may_be_lost_is_covered() {
        use SymbolFate::{Acked, InFlight, Recovered};
        // The oldest open symbol of all is another message's.
        assert_eq!(asked_about(&[Acked, Recovered, Acked], 0.02), []);
        let asked = asked_about(&[Acked, InFlight, Acked, InFlight, Acked], 0.02);
        let ids: Vec<_> = asked.iter().map(|r| (r.window, r.behind)).collect();
        assert_eq!(ids, [(3, 1)]);
        let one = asked_about(&[Acked, Acked, Acked, InFlight, Acked], 0.02)[0];
        assert!(one.count < asked[0].count, "{one:?} {asked:?}");
    }

    /// A repair symbol over a lost packet that went out again would have to rebuild it too.
    #[test]
    fn what_went_out_again_is_not_covered() {
        use SymbolFate::{Acked, InFlight, Resent, Waiting};
        let asked = asked_about(
            &[Resent, InFlight, Acked, Resent, Acked, Waiting, InFlight],
            0.02,
        );
        let ids: Vec<_> = asked.iter().map(|r| (r.window, r.behind)).collect();
        assert_eq!(ids, [(1, 5), (2, 0)], "what waits for one is");
    }

    #[test]
    fn what_makes_way_is_narrowed_too() {
        let fates = [SymbolFate::Resent, SymbolFate::Acked, SymbolFate::InFlight];
        let mut auto = auto("");
        for sources in 1..=3_u16 {
            auto.ask(
                Occasion::SlotFree,
                &packet(0, sources.into(), sources, 250, 0.02),
            );
        }
        let next = RedundancyView {
            waiting_bytes: 100_000,
            ..packet(185, 4, 4, 435, 0.02)
        };
        let of = |id: u64| fates.get(usize::try_from(id).unwrap()).copied();
        auto.look(next.now, Some(1), &of);
        let due = auto.ask(Occasion::SlotFree, &next);
        assert_eq!((due.window, due.behind), (1, 1));
    }

    #[test]
    fn what_no_repair_symbols_rebuild_gets_none() {
        assert_eq!(asked_about(&[SymbolFate::Waiting; 30], 0.02), []);
    }

    /// Repair symbols of one message would wait behind the next, which is long.
    #[test]
    fn what_is_due_while_a_message_leaves_goes_before_it() {
        let due = |waiting_bytes: u64, now: u64| {
            let mut auto = auto("");
            auto.ask(Occasion::SlotFree, &packet(0, 1, 1, 250, 0.02));
            let next = RedundancyView {
                waiting_bytes,
                ..packet(now, 2, 2, 250 + now, 0.02)
            };
            auto.ask(Occasion::SlotFree, &next).count > 0
        };
        assert!(due(100_000, 185));
        assert!(!due(0, 185), "a short one is no reason");
        assert!(!due(100_000, 125), "its acknowledgement may still come");
    }

    #[test]
    fn where_several_retransmissions_are_in_time_nothing_is_protected() {
        let ample = packet(0, 1, 1, 900, 0.02);
        assert!(!auto("").protects(&ample));
        assert!(auto("retry=off").protects(&ample));
        assert!(auto("").protects(&packet(0, 1, 1, 200, 0.02)));
        // One retransmission is enough where losses are few and single, and where there are next to none
        // not even that is needed.
        let few = packet(0, 1, 20, 200, 0.005);
        assert!(!auto("").protects(&few));
        let runs = |mut view: RedundancyView| {
            view.loss.arrival_after_loss = 0.02;
            view
        };
        assert!(auto("").protects(&runs(few)));
        assert!(auto("").protects(&packet(0, 1, 20, 150, 0.005)));
        assert!(!auto("").protects(&packet(0, 1, 20, 150, 1e-4)));
        // Without counting on them they leave blindly.
        let mut blind = auto("retry=off");
        blind.ask(Occasion::SlotFree, &ample);
        blind.ask(Occasion::SlotFree, &packet(10, 2, 2, 910, 0.02));
        let repairs = blind.ask(Occasion::Timer, &packet(850, 2, 2, 910, 0.02));
        assert_eq!((repairs.count, repairs.window), (1, 2));
    }

    /// Over several paths some leave early, for some of what the others are for.
    #[test]
    fn no_more_leave_than_each_packet_twice() {
        let several = |now, sources, deadline| RedundancyView {
            paths: 2,
            several: true,
            ..packet(now, sources, sources as u16, deadline, 0.3)
        };
        let late = |early: u16| {
            let mut deadlines = Deadlines::default();
            for sources in 1..=6 {
                let now = 10 * (sources / 3);
                let view = several(now, sources, 110 + now);
                deadlines.on_symbol(&view, true, Chain { p: 0.2, q: 0.4 });
                if sources == 3 {
                    deadlines.on_early(&view, early);
                }
            }
            let view = several(60, 6, 130);
            deadlines.ask(&view, auto("").odds(&view)).count
        };
        assert_eq!([0, 1, 2, 7].map(late), [6, 5, 4, 3]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut deadlines = Deadlines::default();
        for id in 1..10_000 {
            let view = packet(id, id, u16::MAX, 250 + id, 0.02);
            deadlines.on_symbol(&view, true, Chain { p: 0.02, q: 0.98 });
            assert!(deadlines.pieces.len() <= PIECES);
        }
    }

    /// What of a message leaves so late that nothing tells of it gets repair symbols of its own.
    #[test]
    fn the_end_of_a_long_message_is_protected_blindly() {
        let mut auto = auto("");
        // 250 ms: to be told of takes 130, so the last moment of a packet that leaves after 60 comes too soon.
        for sources in 1..=20_u16 {
            let sent = 4 * u64::from(sources);
            auto.ask(
                Occasion::SlotFree,
                &packet(sent, sources.into(), sources, 250, 0.08),
            );
        }
        auto.ask(Occasion::SlotFree, &packet(100, 21, 21, 350, 0.08));
        let due = auto.timer().unwrap();
        assert!(
            at(170) < due && due < at(194),
            "the pacer lets them go one by one: {due:?}"
        );
        // All but two of those that left before 60 have arrived.
        let last = RedundancyView {
            in_flight: 8,
            ..packet(198, 21, 12, 350, 0.08)
        };
        let mut asked = [(); 3].map(|()| auto.ask(Occasion::Timer, &last));
        asked.sort_by_key(|repairs| repairs.behind);
        let [none, blind, told] = asked;
        assert_eq!(none, Repairs::NONE, "what follows is not due");
        assert!((3..=5).contains(&blind.count), "{blind:?}");
        assert_eq!(
            blind.behind, 1,
            "what will be told of is not covered: {blind:?}"
        );
        assert!(
            told.count > 0 && told.behind == blind.window + 1,
            "{told:?}"
        );
    }

    #[test]
    fn long_messages_call_for_more_of_what_may_be_lost() {
        let asked = |packets: u64| {
            let mut auto = auto("");
            for sources in 1..=packets {
                auto.ask(
                    Occasion::SlotFree,
                    &packet(0, sources, sources as u16, 250, 0.08),
                );
            }
            auto.ask(Occasion::Timer, &packet(198, packets, 1, 250, 0.08))
                .count
        };
        let counts = [1, 4, 30].map(asked);
        assert!(counts.is_sorted() && counts[0] < counts[2], "{counts:?}");
        assert!(counts[0] >= 2 && counts[2] <= 5, "{counts:?}");
    }

    /// Repair symbols of the first would make the others later.
    #[test]
    fn what_is_sent_again_late_goes_before_repair_symbols() {
        let mut auto = auto("");
        let again = |now, sources, open, waiting| RedundancyView {
            repeats: true,
            waiting_bytes: waiting,
            ..packet(now, sources, open, 250, 0.08)
        };
        auto.ask(Occasion::SlotFree, &packet(0, 1, 1, 250, 0.08));
        auto.ask(Occasion::SlotFree, &packet(0, 2, 2, 250, 0.08));
        // A packet that leaves now is there at 249.
        let first = auto.ask(Occasion::SlotFree, &again(199, 3, 1, 1_200));
        assert_eq!(first, Repairs::NONE);
        let due = auto.timer().unwrap();
        assert!(
            due > at(199) && due <= at(200),
            "not the same moment again: {due:?}"
        );
        let both = auto.ask(Occasion::SlotFree, &again(199, 4, 2, 0));
        assert!(both.count >= 2 && both.window == 2, "{both:?}");
        assert_eq!(auto.timer(), None);
        // Too late for the others: no more waiting.
        auto.ask(Occasion::SlotFree, &again(199, 5, 1, 1_200));
        let one = auto.ask(Occasion::Timer, &again(200, 5, 1, 1_200));
        assert!(one.count > 0, "{one:?}");
    }
}
