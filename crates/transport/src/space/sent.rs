//! The ring of sent packets, with what each carried in a second ring beside it.

use std::{collections::VecDeque, ops::Range};

use crate::{
    packet::Token,
    time::Instant,
    units::{Ecn, PacketNumber},
};

/// Rings of this many slots stay as they are; a path that is not idle soon needs them again.
const SMALL: usize = 16;
/// Above this many slots a ring shrinks even while something is in it.
const LARGE: usize = 64;
/// A gap in the numbering this wide can only be a mistake of ours.
const MAX_GAP: u64 = 1 << 12;
/// ACK-only packets at the front of the ring beyond this are forgotten: nobody waits for them.
const MAX_FRONT_ACK_ONLY: usize = 32;

/// Where a packet stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Neither acknowledged nor lost.
    Outstanding,
    /// Acknowledged; the slot remembers how long the acknowledged run below it is.
    Acked,
    /// Lost because later packets were acknowledged; kept to notice a late ACK.
    LostByThreshold,
    /// Lost because time passed; kept to notice a late ACK.
    LostByTime,
    /// Never sent under this number, or no longer of interest.
    Void,
}

/// The delivery-rate state of the path when a packet left. draft-ietf-ccwg-bbr-06 s4.1.2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendSnapshot {
    /// Bytes delivered so far.
    pub(crate) delivered: u64,
    /// When that count last grew.
    pub(crate) delivered_time: Instant,
    /// When the packet left that the last rate sample was taken from.
    pub(crate) first_sent: Instant,
    /// Bytes in flight, this packet included.
    pub(crate) tx_in_flight: u64,
    /// Bytes lost so far.
    pub(crate) lost: u64,
}

/// A packet that left.
#[derive(Clone, Copy, Debug)]
pub struct SentPacket {
    pub(crate) sent: Instant,
    pub(crate) bytes: u16,
    pub(crate) ack_eliciting: bool,
    pub(crate) in_flight: bool,
    pub(crate) mtu_probe: bool,
    pub(crate) filler: bool,
    pub(crate) off_path: bool,
    pub(crate) ecn: Ecn,
    pub(crate) app_limited: bool,
    pub(crate) fate: Fate,
    /// How many tokens it has; above them, [`REPEATED`], [`COPY`], [`TOLD`] and [`ASKS`].
    tokens: u16,
    /// Outstanding or lost: index of the first token. Acked: length of the acked run down from
    /// here, so that an ACK that repeats old ranges costs one step each.
    link: u32,
    /// After a loss, `first_sent` holds when the loss was declared.
    pub(crate) snapshot: SendSnapshot,
}

/// What the packet carried was handed over to be sent once more: its own loss calls for nothing. A bit
/// beside the number of tokens, which keeps the packet within a cache line.
const REPEATED: u16 = 1 << 15;

/// What the packet carries is under way on another path as well, and is not sent a third time to be early.
/// Unlike that of the packet whose copy it is, its loss counts.
const COPY: u16 = 1 << 14;

/// An echo has told what became of it: it arrived, or what it carried was sent once more because it did not. That is no
/// copy, which may be lost as well, but all that its loss calls for.
const TOLD: u16 = 1 << 13;

/// It asks for an acknowledgement at once, which tells of all that left before it.
const ASKS: u16 = 1 << 12;

impl SentPacket {
    fn token_count(&self) -> usize {
        usize::from(self.tokens & !(REPEATED | COPY | TOLD | ASKS))
    }

    /// Whether what it carried is sent once more whatever becomes of it.
    pub(crate) fn is_repeated(&self) -> bool {
        self.tokens & REPEATED != 0
    }

    pub(crate) fn set_repeated(&mut self) {
        self.tokens |= REPEATED;
    }

    /// Whether an echo has told what became of it.
    pub(crate) fn is_told(&self) -> bool {
        self.tokens & TOLD != 0
    }

    pub(crate) fn set_told(&mut self) {
        self.tokens |= TOLD | REPEATED;
    }

    /// Whether it was sent to be earlier than another packet with the same data, or in case that is lost.
    pub(crate) fn is_copy(&self) -> bool {
        self.tokens & COPY != 0
    }

    /// As [`OutgoingPacket::asks`](crate::recovery::OutgoingPacket::asks).
    pub(crate) fn asks(&self) -> bool {
        self.tokens & ASKS != 0
    }

    pub(crate) fn set_asks(&mut self) {
        self.tokens |= ASKS;
    }

    /// A packet about to be pushed.
    pub(crate) fn new(sent: Instant, bytes: u16, snapshot: SendSnapshot) -> Self {
        Self {
            sent,
            bytes,
            ack_eliciting: false,
            in_flight: false,
            mtu_probe: false,
            filler: false,
            off_path: false,
            ecn: Ecn::NotEct,
            app_limited: false,
            fate: Fate::Outstanding,
            tokens: 0,
            link: 0,
            snapshot,
        }
    }

    fn void(now: Instant) -> Self {
        let snapshot = SendSnapshot {
            delivered: 0,
            delivered_time: now,
            first_sent: now,
            tx_in_flight: 0,
            lost: 0,
        };
        Self {
            fate: Fate::Void,
            ..Self::new(now, 0, snapshot)
        }
    }

    /// When it left.
    pub fn sent(&self) -> Instant {
        self.sent
    }

    /// Its size in bytes of UDP payload.
    pub fn bytes(&self) -> u16 {
        self.bytes
    }

    /// Whether the peer must acknowledge it.
    pub fn is_ack_eliciting(&self) -> bool {
        self.ack_eliciting
    }

    /// Whether it counts towards bytes in flight until it is acknowledged or lost.
    pub fn is_in_flight(&self) -> bool {
        self.in_flight
    }

    /// Whether it probes for a larger MTU; its loss says nothing about congestion.
    pub fn is_mtu_probe(&self) -> bool {
        self.mtu_probe
    }

    /// Whether it filled room that the application had left: the window is none the larger for it.
    pub fn is_filler(&self) -> bool {
        self.filler
    }

    /// Whether it left for another address than the path's: it says nothing about the path.
    pub fn is_off_path(&self) -> bool {
        self.off_path
    }

    /// The mark it left with.
    pub fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Whether it was declared lost before.
    pub fn is_lost(&self) -> bool {
        matches!(self.fate, Fate::LostByThreshold | Fate::LostByTime)
    }

    /// When this packet was declared lost; meaningless before.
    pub(crate) fn lost_at(&self) -> Instant {
        self.snapshot.first_sent
    }
}

/// Sent packets by number: `push` and lookup in constant time, nothing allocated per packet.
#[derive(Debug)]
pub(crate) struct SentPackets {
    /// Number of the first slot.
    base: PacketNumber,
    ring: VecDeque<SentPacket>,
    tokens: VecDeque<Token>,
    /// Index of the first token; wraps.
    token_base: u32,
    limit: usize,
    outstanding: Outstanding,
    /// No packet below this number is waited for.
    waiting_from: PacketNumber,
    /// Of the packets with these numbers none waits to be repeated by another path.
    repeated: Range<PacketNumber>,
    /// Tokens of packets that had to make room; reported lost with the next ACK or timeout.
    orphans: Vec<Token>,
}

/// Ack-eliciting packets under way.
#[derive(Clone, Copy, Debug, Default)]
struct Outstanding {
    eliciting: usize,
    /// Probes of the path's MTU among them.
    mtu_probes: usize,
}

impl Outstanding {
    fn add(&mut self, packet: &SentPacket) {
        self.eliciting += usize::from(packet.ack_eliciting);
        self.mtu_probes += usize::from(packet.ack_eliciting && packet.mtu_probe);
    }

    fn remove(&mut self, packet: &SentPacket) {
        self.eliciting -= usize::from(packet.ack_eliciting);
        self.mtu_probes -= usize::from(packet.ack_eliciting && packet.mtu_probe);
    }
}

impl SentPackets {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            base: 0,
            ring: VecDeque::new(),
            tokens: VecDeque::new(),
            token_base: 0,
            limit: limit.max(16),
            outstanding: Outstanding::default(),
            waiting_from: 0,
            repeated: 0..0,
            orphans: Vec::new(),
        }
    }

    /// Number of the first slot: nothing below is remembered.
    pub(crate) fn base(&self) -> PacketNumber {
        self.base
    }

    /// One more than the number of the last slot.
    pub(crate) fn end(&self) -> PacketNumber {
        self.base + self.ring.len() as u64
    }

    pub(crate) fn eliciting_outstanding(&self) -> usize {
        self.outstanding.eliciting
    }

    /// Whether so many ack-eliciting packets are under way, a probe of the path's MTU left out: it may not arrive.
    pub(crate) fn has_outstanding(&self, count: usize) -> bool {
        self.outstanding.eliciting - self.outstanding.mtu_probes >= count
    }

    pub(crate) fn is_full(&self) -> bool {
        self.ring.len() >= self.limit
    }

    fn index(&self, number: PacketNumber) -> Option<usize> {
        usize::try_from(number.checked_sub(self.base)?).ok()
    }

    pub(crate) fn get(&self, number: PacketNumber) -> Option<&SentPacket> {
        self.ring.get(self.index(number)?)
    }

    /// Records a packet; `tokens` are drained. Returns the packet that had to make room for it,
    /// with its number, if its bytes were still counted as in flight.
    pub(crate) fn push(
        &mut self,
        number: PacketNumber,
        mut packet: SentPacket,
        tokens: &mut Vec<Token>,
    ) -> Option<(PacketNumber, SentPacket)> {
        if number < self.end() || (!self.ring.is_empty() && number - self.end() > MAX_GAP) {
            debug_assert!(false, "packet numbers ascend by small steps");
            tokens.clear();
            return None;
        }
        if self.ring.is_empty() {
            self.base = number;
        }
        self.forget_front_ack_only();
        let evicted = if self.is_full() { self.evict() } else { None };
        while self.end() < number {
            self.ring.push_back(SentPacket::void(packet.sent));
        }
        let most = usize::from(ASKS - 1);
        packet.tokens = packet.tokens & ASKS | tokens.len().min(most) as u16;
        packet.link = self.token_base.wrapping_add(self.tokens.len() as u32);
        self.tokens.extend(tokens.drain(..).take(most));
        self.outstanding.add(&packet);
        self.ring.push_back(packet);
        self.skip_settled();
        evicted
    }

    /// Drops the oldest packet, whatever its state.
    fn evict(&mut self) -> Option<(PacketNumber, SentPacket)> {
        let (number, front) = (self.base, *self.ring.front()?);
        let outstanding = front.fate == Fate::Outstanding;
        if outstanding {
            self.outstanding.remove(&front);
            self.orphans
                .extend(self.tokens.iter().take(front.token_count()));
        }
        self.pop_front();
        outstanding.then_some((number, front))
    }

    /// ACK-only packets are not acknowledged unless something else is; a receiver of a long
    /// download would pile them up.
    fn forget_front_ack_only(&mut self) {
        let is_ack_only = |packet: &SentPacket| {
            packet.fate == Fate::Outstanding
                && !packet.in_flight
                && !packet.ack_eliciting
                && !packet.off_path
        };
        while self.ring.front().is_some_and(is_ack_only)
            && self.ring.get(MAX_FRONT_ACK_ONLY).is_some_and(is_ack_only)
        {
            self.pop_front();
        }
    }

    /// Tokens nobody tracks any more; to be reported lost.
    pub(crate) fn take_orphans(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.orphans)
    }

    fn pop_front(&mut self) {
        if let Some(packet) = self.ring.pop_front() {
            self.base += 1;
            let count = packet.token_count().min(self.tokens.len());
            self.tokens.drain(..count);
            self.token_base = self.token_base.wrapping_add(count as u32);
        }
    }

    /// Visits packets `first..=last` that an ACK newly acknowledges, newest first, and marks them.
    /// `visit` sees each with its fate so far and its tokens.
    pub(crate) fn ack_range(
        &mut self,
        first: PacketNumber,
        last: PacketNumber,
        mut visit: impl FnMut(PacketNumber, &SentPacket, &mut dyn Iterator<Item = Token>),
    ) {
        let first = first.max(self.base);
        let Some(last) = self.end().checked_sub(1).map(|end| last.min(end)) else {
            return;
        };
        if first > last || self.ring.is_empty() {
            return;
        }
        let base = self.base;
        let mut number = last;
        let bottom = loop {
            let Some(packet) = self.ring.get_mut((number - base) as usize) else {
                return;
            };
            let run = if packet.fate == Fate::Acked {
                u64::from(packet.link.max(1))
            } else {
                if packet.fate != Fate::Void {
                    let mut tokens = tokens_in(&self.tokens, self.token_base, packet);
                    visit(number, packet, &mut tokens);
                    if packet.fate == Fate::Outstanding {
                        self.outstanding.remove(packet);
                    }
                }
                packet.fate = Fate::Acked;
                packet.link = 1;
                1
            };
            // A run may reach below this range, or below what is still remembered.
            match number.checked_sub(run) {
                Some(below) if below >= first && below >= base => number = below,
                Some(below) => break (below + 1).max(base),
                None => break base,
            }
        };
        if let Some(top) = self.ring.get_mut((last - base) as usize) {
            top.link = u32::try_from(last - bottom + 1).unwrap_or(u32::MAX);
        }
    }

    /// Declares an outstanding packet lost; `visit` sees it as it was, with its tokens.
    pub(crate) fn lose(
        &mut self,
        number: PacketNumber,
        fate: Fate,
        now: Instant,
        visit: impl FnOnce(&SentPacket, &mut dyn Iterator<Item = Token>),
    ) {
        let Some(packet) = self
            .index(number)
            .and_then(|index| self.ring.get_mut(index))
        else {
            return;
        };
        if packet.fate != Fate::Outstanding {
            return;
        }
        let mut tokens = tokens_in(&self.tokens, self.token_base, packet);
        visit(packet, &mut tokens);
        self.outstanding.remove(packet);
        packet.fate = fate;
        packet.snapshot.first_sent = now;
    }

    /// Tokens of an outstanding packet.
    pub(crate) fn tokens_of(&self, packet: &SentPacket) -> impl Iterator<Item = Token> + '_ {
        tokens_in(&self.tokens, self.token_base, packet)
    }

    /// Tokens of a packet that is outstanding or lost and not forgotten; of any other none.
    pub(crate) fn live_tokens(&self, number: PacketNumber) -> impl Iterator<Item = Token> + '_ {
        let packet = self.get(number).filter(|packet| {
            matches!(
                packet.fate,
                Fate::Outstanding | Fate::LostByThreshold | Fate::LostByTime
            )
        });
        packet.into_iter().flat_map(|packet| self.tokens_of(packet))
    }

    /// Outstanding packets, oldest first, with their numbers.
    pub(crate) fn outstanding(&self) -> impl Iterator<Item = (PacketNumber, &SentPacket)> + '_ {
        self.ring
            .iter()
            .enumerate()
            .filter(|(_, packet)| packet.fate == Fate::Outstanding)
            .map(|(index, packet)| (self.base + index as u64, packet))
    }

    /// Outstanding packets from number `first` on, oldest first, with what each carried.
    pub(crate) fn outstanding_mut(
        &mut self,
        first: PacketNumber,
    ) -> impl Iterator<
        Item = (
            PacketNumber,
            &mut SentPacket,
            impl Iterator<Item = Token> + Clone + '_,
        ),
    > + '_ {
        self.outstanding_in(first..PacketNumber::MAX)
    }

    /// The same of the packets with these numbers; others are not walked over.
    pub(crate) fn outstanding_in(
        &mut self,
        numbers: Range<PacketNumber>,
    ) -> impl Iterator<
        Item = (
            PacketNumber,
            &mut SentPacket,
            impl Iterator<Item = Token> + Clone + '_,
        ),
    > + '_ {
        let (tokens, token_base, base) = (&self.tokens, self.token_base, self.base);
        let to = self.index(numbers.end.min(self.end())).unwrap_or(0);
        let from = self.index(numbers.start).unwrap_or(0).min(to);
        self.ring
            .range_mut(from..to)
            .enumerate()
            .filter(|(_, packet)| packet.fate == Fate::Outstanding)
            .map(move |(index, packet)| {
                let carried = tokens_in(tokens, token_base, packet);
                (base + (from + index) as u64, packet, carried)
            })
    }

    /// The first packet that may have to be repeated among those after the last of which `early` is true.
    /// Packets leave in order, so that `early` is true of the first ones or of none.
    pub(crate) fn first_to_repeat(&self, early: impl FnMut(&SentPacket) -> bool) -> PacketNumber {
        let first = self.base + self.ring.partition_point(early) as u64;
        if self.repeated.contains(&first) {
            self.repeated.end
        } else {
            first
        }
    }

    /// The oldest packet that waits for an acknowledgement and is neither repeated nor a copy, of those with something that
    /// `leaves` the path, and from it on the one that calls for one at once: the last of `together` that wait, or the first
    /// that asks for it.
    pub(crate) fn oldest_to_repeat(
        &self,
        together: usize,
        leaves: impl Fn(Token) -> bool,
    ) -> Option<(&SentPacket, Option<&SentPacket>)> {
        let first = self.first_to_repeat(|_| false);
        let from = self.index(first).unwrap_or(0).min(self.ring.len());
        // A probe of the path's MTU that is lost says nothing.
        let waits = |packet: &&SentPacket| {
            packet.fate == Fate::Outstanding && packet.ack_eliciting && !packet.mtu_probe
        };
        let mut newer = self.ring.range(from..).filter(waits);
        // Where the walk begins depends on what was looked at before, and what it finds must not.
        let leaves = |packet: &SentPacket| self.tokens_of(packet).any(&leaves);
        let oldest =
            newer.find(|packet| !packet.is_repeated() && !packet.is_copy() && leaves(packet))?;
        if together <= 1 || oldest.asks() {
            return Some((oldest, Some(oldest)));
        }
        let calls = |(between, packet): &(usize, &SentPacket)| {
            between.saturating_add(2) >= together || packet.asks()
        };
        Some((oldest, newer.enumerate().find(calls).map(|(_, last)| last)))
    }

    /// The first packet that left after `sent`; as that of [`Self::end`] if none did.
    pub(crate) fn first_after(&self, sent: Instant) -> PacketNumber {
        self.base + self.ring.partition_point(|packet| packet.sent() <= sent) as u64
    }

    /// None of the packets `numbers` needs to be repeated any more. What follows on former ones makes one
    /// range with them: this is asked for over and over.
    pub(crate) fn note_repeated(&mut self, numbers: Range<PacketNumber>) {
        let follows = (self.repeated.start..=self.repeated.end).contains(&numbers.start);
        if follows {
            self.repeated.end = self.repeated.end.max(numbers.end);
        } else {
            self.repeated = numbers;
        }
    }

    /// The packets from `first` on are copies.
    pub(crate) fn mark_copies(&mut self, first: PacketNumber) {
        let from = self.index(first).unwrap_or(0);
        for packet in self.ring.iter_mut().skip(from) {
            packet.tokens |= COPY;
        }
    }

    /// Forgets settled packets at the front: acknowledged ones, and lost ones declared so at
    /// `lost_before` or earlier. Gives memory back when little is left.
    pub(crate) fn prune(&mut self, lost_before: Instant) {
        while let Some(front) = self.ring.front() {
            let settled = match front.fate {
                Fate::Acked | Fate::Void => true,
                Fate::LostByThreshold | Fate::LostByTime => front.lost_at() <= lost_before,
                Fate::Outstanding => false,
            };
            if !settled {
                break;
            }
            self.pop_front();
        }
        self.skip_settled();
        shrink(&mut self.ring);
        shrink(&mut self.tokens);
    }

    /// Moves `waiting_from` up to the next packet that is waited for. Settled packets never go back, so that each
    /// is passed over once.
    fn skip_settled(&mut self) {
        let from = self.index(self.waiting_from).unwrap_or(0);
        let settled = self
            .ring
            .range(from.min(self.ring.len())..)
            .take_while(|packet| !is_waited_for(packet))
            .count();
        self.waiting_from = self.waiting_from.max(self.base) + settled as u64;
    }

    /// The oldest ack-eliciting packet that is outstanding.
    pub(crate) fn oldest_waiting(&self) -> Option<&SentPacket> {
        let from = self.index(self.waiting_from).unwrap_or(0);
        let mut newer = self.ring.range(from.min(self.ring.len())..);
        newer.find(|packet| is_waited_for(packet))
    }

    /// Forgets everything, tokens included.
    pub(crate) fn clear(&mut self) {
        self.base = self.end();
        self.ring = VecDeque::new();
        self.tokens = VecDeque::new();
        self.orphans = Vec::new();
        self.token_base = 0;
        self.outstanding = Outstanding::default();
    }

    /// Slots held, in bytes, for tests of memory bounds.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.ring.capacity()
    }
}

fn is_waited_for(packet: &SentPacket) -> bool {
    packet.fate == Fate::Outstanding && packet.ack_eliciting
}

/// The tokens of a packet that is not acknowledged yet.
fn tokens_in<'a>(
    tokens: &'a VecDeque<Token>,
    base: u32,
    packet: &SentPacket,
) -> impl Iterator<Item = Token> + Clone + use<'a> {
    let start = (packet.link.wrapping_sub(base) as usize).min(tokens.len());
    let end = (start + packet.token_count()).min(tokens.len());
    tokens.range(start..end).copied()
}

/// Gives memory back once seven eighths are unused (paid for by as many pops), or all is.
fn shrink<T>(ring: &mut VecDeque<T>) {
    let capacity = ring.capacity();
    if capacity > SMALL && ring.is_empty() {
        ring.shrink_to(SMALL);
    } else if capacity > LARGE && ring.len() < capacity / 8 {
        ring.shrink_to(capacity / 4);
    }
}
