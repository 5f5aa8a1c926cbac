//! What feedback means to source and repair symbols.
//!
//! Owns: which lost symbols wait for repair symbols, and which go out again. Does not own: what is lost
//! (`recovery/`), the frames (`connection/`).

use std::time::Duration;

use tautline_codes::CodingWindow;

use super::{Departure, FecSender, PathState, plain::Plain};
use crate::{
    error::TransportError,
    fec::{
        Strength,
        loss_monitor::KNOWN_LOSSES,
        redundancy::Measured,
        repair::Group,
        source::SymbolFate,
        waiting::{Tokens, WaitingSymbols},
    },
    packet::Token,
    time::{Instant, earliest},
    units::{PacketNumber, PathId},
};

/// Lost symbols wait for repair symbols that rebuild them with at least this probability: waiting in vain
/// costs time, sending again what comes anyway a packet.
const LIKELY: f64 = 0.9;

/// What a lost symbol calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnLoss {
    /// Sending its frames again.
    Resend,
    /// Nothing: the peer has recovered it.
    Nothing,
    /// Waiting: repair symbols are under way. [`FecSender::wait`] takes its tokens.
    Wait,
}

/// Where the tokens of a symbol that the peer has recovered are to be found.
#[derive(Debug)]
pub(crate) enum Delivered {
    /// With this packet, behind the token of the symbol.
    InPacket(PathId, PacketNumber),
    /// Here: the packet was lost.
    Tokens(Tokens),
}

/// A SYMBOL_ACK names a symbol that was not sent.
pub(crate) fn symbol_not_sent() -> TransportError {
    TransportError::protocol_violation("SYMBOL_ACK of a symbol that was not sent")
}

impl FecSender {
    /// Feedback of a path is about to be processed.
    pub fn on_path(&mut self, path: PathId, state: PathState) {
        self.path = state;
        let monitor = self.monitors.of(path);
        monitor.on_path(state.min_rtt, state.calm_rtt, state.filled);
    }

    /// A packet came back, after so long without the peer's delay.
    pub fn on_round_trip(&mut self, now: Instant, packet: Departure, round_trip: Duration) {
        if let Some(after_repair) = self.departures.before(packet) {
            let measured = Measured {
                sent: packet.at,
                round_trip,
                after_repair,
                in_burst: self.bursts.of(packet),
            };
            self.scheduler.on_round_trip(now, measured);
        }
    }

    /// A packet was acknowledged.
    #[inline]
    pub fn on_packet_acked(&mut self, path: PathId, number: PacketNumber) {
        self.monitors.of(path).on_acked(number);
    }

    /// The same of one that was declared lost before.
    pub fn on_late_packet(&mut self, path: PathId, number: PacketNumber) {
        self.monitors.of(path).on_late(number);
    }

    /// A packet was declared lost.
    pub fn on_packet_lost(&mut self, path: PathId, number: PacketNumber) {
        self.monitors.of(path).on_lost(number);
        self.company.on_lost(path, number);
    }

    /// Acknowledgements and losses of a path were told.
    pub fn on_feedback(&mut self, path: PathId) {
        if self.outlook.several || self.scheduler.heeds_ends() {
            self.plain = Plain::default();
        } else {
            self.plain.doubt();
        }
        self.monitors.of(path).review();
        self.settle_doubts();
    }

    /// A symbol's packet was acknowledged. True if the peer had reported it before.
    pub(crate) fn on_symbol_acked(&mut self, id: u64) -> bool {
        let before = self.source.settle(id, SymbolFate::Acked);
        if before == Some(SymbolFate::Waiting) {
            self.waiting.take(id);
        }
        if before == Some(SymbolFate::InFlight)
            && let Some(entry) = self.source.get(id)
        {
            self.monitors.of(entry.path).on_symbol(false);
        }
        before == Some(SymbolFate::Recovered)
    }

    /// A symbol's packet was declared lost.
    pub(crate) fn on_symbol_lost(&mut self, now: Instant, id: u64) -> OnLoss {
        let Some(entry) = self.source.get(id) else {
            return OnLoss::Resend;
        };
        if entry.fate.is_settled() {
            return OnLoss::Nothing;
        }
        if entry.copied {
            // The copy's own loss would count.
            self.source.settle(id, SymbolFate::Resent);
            return OnLoss::Resend;
        }
        let patience = self.patience_for(now, id);
        if let Some(patience) = patience.filter(|_| !self.waiting.is_full()) {
            self.source.settle(id, SymbolFate::Waiting);
            self.stats.waited += 1;
            self.waiting.push(id, entry.path, now + patience);
            return OnLoss::Wait;
        }
        self.give_up(id, entry.path);
        OnLoss::Resend
    }

    /// How long a lost symbol should wait for repair symbols: while those under way are likely to rebuild
    /// all losses among the symbols they cover. Of more losses, only as many as there are too many cost
    /// anything: so many repair symbols are added, as long as these are no more than the others. Beyond that
    /// there is little to be gained (a queue has overflowed), and all would be late if one of them is lost.
    /// `None`: waiting would be in vain, for the others too.
    fn patience_for(&mut self, now: Instant, id: u64) -> Option<Duration> {
        let cover = self.repairs.cover(id)?;
        if self.path.has_queue() && !self.knows_losses(id) {
            // An overflowing queue has met the repair symbols too.
            self.waiting.stop(cover.group);
            return None;
        }
        let losses = self.losses(cover.group) + 1;
        let queued = self.queue.over(id);
        let repairs = cover.repairs + queued;
        if self.are_likely(losses, repairs) && (cover.in_flight > 0 || queued > 0) {
            return Some(self.patience(queued > 0));
        }
        let run = cover.group.run();
        let held = losses <= self.peer.equations();
        let added = cover.added + self.queue.added_over(id);
        let few = 2 * added < repairs;
        if losses == repairs + 1 && held && few && self.can_add(run) && self.queue.add(run) {
            let patience = self.patience(true);
            // The others now wait for it as well.
            self.waiting.prolong(cover.group, now + patience);
            return Some(patience);
        }
        self.waiting.stop(cover.group);
        None
    }

    /// Whether the path of a symbol loses packets that congestion does not account for.
    fn knows_losses(&mut self, id: u64) -> bool {
        let path = self.source.get(id).map(|entry| entry.path);
        path.is_some_and(|path| {
            let loss = self.monitors.of(path).estimate_once();
            !loss.tense && loss.now.0 >= KNOWN_LOSSES
        })
    }

    /// Whether it may be counted on that so many repair symbols rebuild so many losses of a group.
    pub(super) fn are_likely(&self, losses: u64, repairs: u64) -> bool {
        let strength = self.repairs.strength().within_group();
        losses <= self.peer.equations() && strength.chance(losses, repairs, 0.0) >= LIKELY
    }

    /// Whether a further repair symbol can be had that covers a run whole, and helps.
    pub(super) fn can_add(&self, run: CodingWindow) -> bool {
        let encoder = &self.source.encoder;
        let remembered = self.peer.remembered(self.source.next_id());
        let within = run.first >= encoder.window().first.max(remembered)
            && run.end() <= encoder.window().end();
        let fits = |len| u64::from(run.len) * len as u64 <= self.peer.bytes();
        within && self.repairs.is_rateless() && encoder.repair_len(run).is_ok_and(fits)
    }

    fn patience(&self, to_leave: bool) -> Duration {
        WaitingSymbols::patience(self.path.smoothed_rtt, to_leave)
    }

    fn give_up(&mut self, id: u64, path: PathId) {
        self.source.settle(id, SymbolFate::Resent);
        self.stats.retransmitted += 1;
        self.monitors.of(path).on_symbol(true);
    }

    /// Keeps a token of the symbol that [`Self::on_symbol_lost`] lets wait.
    pub(crate) fn wait(&mut self, token: Token) {
        self.waiting.keep(token);
    }

    /// When a symbol has waited long enough, or the scheduler wants to be asked.
    pub fn timer(&self) -> Option<Instant> {
        let waiting = if self.doubted.is_empty() {
            self.waiting.timer()
        } else {
            Some(Instant::ZERO)
        };
        earliest(waiting, self.scheduler_timer())
    }

    /// The tokens of a symbol that has waited long enough: they are lost. Call again until `None`. What is `useless` to send
    /// again waits as long as a repair symbol that covers it is under way: it may still have come in time.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        useless: impl Fn(&Token) -> bool,
    ) -> Option<Tokens> {
        self.settle_doubts();
        let again = now + self.patience(false);
        let until_when = |id, tokens: &Tokens| {
            let useless = !tokens.is_empty() && tokens.iter().all(&useless);
            let is_under_way = |id| {
                let cover = self.repairs.cover(id);
                cover.is_some_and(|cover| cover.in_flight > 0)
            };
            (useless && is_under_way(id)).then_some(again)
        };
        let (id, path, tokens) = self.waiting.expire(now, until_when)?;
        self.give_up(id, path);
        Some(tokens)
    }

    /// The peer reports these symbols recovered. `each` gets what is newly delivered. Work: a step for each
    /// symbol that is, and a few for each range, so that what is told again and again costs next to nothing.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION for a symbol that was not sent.
    pub(crate) fn on_symbol_ack(
        &mut self,
        largest: u64,
        ranges: impl Iterator<Item = std::ops::RangeInclusive<u64>>,
        mut each: impl FnMut(u64, Delivered),
    ) -> Result<(), TransportError> {
        if largest >= self.source.next_id() {
            return Err(symbol_not_sent());
        }
        let remembered = self.source.remembered();
        for range in ranges {
            if *range.end() < remembered.start {
                break;
            }
            let mut id = (*range.start()).max(remembered.start);
            loop {
                id = self.source.unsettled_from(id);
                if id > *range.end() {
                    break;
                }
                self.on_reported(id, &mut each);
                id += 1;
            }
        }
        Ok(())
    }

    fn on_reported(&mut self, id: u64, each: &mut impl FnMut(u64, Delivered)) {
        let Some(entry) = self.source.get(id).filter(|entry| !entry.fate.is_settled()) else {
            return;
        };
        self.source.settle(id, SymbolFate::Recovered);
        self.stats.reported_recovered += 1;
        let monitor = self.monitors.of(entry.path);
        if entry.fate == SymbolFate::Resent {
            monitor.on_symbol_after_all();
        } else {
            monitor.on_symbol(false);
        }
        let delivered = match entry.fate {
            SymbolFate::Waiting => Delivered::Tokens(self.waiting.take(id)),
            _ => Delivered::InPacket(entry.path, entry.number),
        };
        each(id, delivered);
    }

    /// A repair symbol was acknowledged, or lost.
    pub(crate) fn on_repair_settled(&mut self, number: u64, arrived: bool) {
        let group = self.repairs.on_settled(number, arrived);
        let Some(group) = group.filter(|_| !self.waiting.is_empty()) else {
            return;
        };
        if !arrived {
            // It was counted on. Of many that are lost together only what is left of them matters.
            if self.doubted.last() != Some(&group) {
                self.doubted.push(group);
            }
        } else if !self.waiting.ids(group).any(|id| self.may_still_come(id)) {
            // What it would rebuild was reported before it was acknowledged.
            self.waiting.stop(group);
        }
    }

    /// Where repair symbols were lost, what waits for them and has too few others waits in vain. Work: for each symbol
    /// that waits, a step for each repair symbol that is remembered and each source symbol that these cover.
    fn settle_doubts(&mut self) {
        if self.doubted.is_empty() {
            return;
        }
        let doubted = std::mem::take(&mut self.doubted);
        let of_them = |id: &u64| doubted.iter().any(|group| group.contains(*id));
        let waiting = self.waiting.all().filter(of_them);
        let in_vain: Vec<u64> = waiting.filter(|id| !self.suffices(*id)).collect();
        for group in doubted {
            if in_vain.iter().any(|id| group.contains(*id)) {
                self.waiting.stop(group);
            }
        }
    }

    /// Whether as many repair symbols cover symbol `id` as losses.
    fn suffices(&self, id: u64) -> bool {
        self.repairs.cover(id).is_some_and(|cover| {
            let repairs = cover.repairs + self.queue.over(id);
            self.are_likely(self.losses(cover.group), repairs)
        })
    }

    /// Whether a repair symbol over symbol `id` is under way, or any of those that came must have
    /// sufficed.
    fn may_still_come(&self, id: u64) -> bool {
        self.repairs.strength().within_group() == Strength::Any
            || self.queue.over(id) > 0
            || self
                .repairs
                .cover(id)
                .is_some_and(|cover| cover.in_flight > 0)
    }

    /// Source symbols of a group that the peer lacks, as far as known.
    pub(super) fn losses(&self, group: Group) -> u64 {
        let fates = group.ids().filter_map(|id| Some(self.source.get(id)?.fate));
        let lost = fates.filter(|fate| matches!(fate, SymbolFate::Waiting | SymbolFate::Resent));
        lost.count() as u64
    }
}
