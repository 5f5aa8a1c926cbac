//! Packets whose fate is open, or waits for that of an older one.
//!
//! Owns: [`Pending`]: which packets left, which arrived and which were lost, in order of sending. Does not own: what follows of
//! that (`loss_monitor.rs`).
//!
//! Three bits for each, since every packet passes through here and most arrive: those are taken 64 at a time.

use std::{collections::VecDeque, ops::Range};

use crate::units::PacketNumber;

/// Numbers in a block.
const OF_BLOCK: u64 = 64;
/// Numbers from the oldest to the newest, at most.
const MOST: u64 = 1 << 16;
/// Blocks for which memory is kept while nothing is under way.
const KEPT: usize = 32;

/// A packet at the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Front {
    pub(super) number: PacketNumber,
    /// As it was said when it left.
    pub(super) tense: bool,
    pub(super) lost: bool,
}

/// 64 numbers, one bit each.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// Packets whose fate is known, and gaps.
    settled: u64,
    lost: u64,
    /// Numbers that no packet had.
    gap: u64,
}

/// Packets by number.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Number of the first bit of the first block.
    base: PacketNumber,
    /// From `base` on, as far as anything is known.
    blocks: VecDeque<Block>,
    /// Everything below was taken.
    first: PacketNumber,
    /// One more than the newest number.
    end: PacketNumber,
    /// As it is said of the newest,
    tense: bool,
    /// and until which number the other was said before, in turns.
    changes: VecDeque<PacketNumber>,
}

/// Bits from this one on; none from the 64th.
fn from(bit: u64) -> u64 {
    let bit = u32::try_from(bit).unwrap_or(u32::MAX);
    u64::MAX.checked_shl(bit).unwrap_or(0)
}

/// Bits of the block that begins at `base`, as far as their numbers are below this one.
fn below(base: PacketNumber, number: PacketNumber) -> u64 {
    let bits = number.saturating_sub(base);
    if bits < OF_BLOCK {
        !from(bits)
    } else {
        u64::MAX
    }
}

impl Pending {
    /// Whether nothing is here.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first >= self.end
    }

    /// The oldest number that may be here; `None` if nothing is.
    pub(super) fn first(&self) -> Option<PacketNumber> {
        (!self.is_empty()).then_some(self.first)
    }

    /// One more than the newest number; `None` if nothing is here.
    pub(super) fn end(&self) -> Option<PacketNumber> {
        (!self.is_empty()).then_some(self.end)
    }

    /// Whether the oldest has to go before packet `number` can come: see [`Self::settle_oldest`].
    #[inline]
    pub(super) fn is_full(&self, number: PacketNumber) -> bool {
        number.saturating_sub(self.first) >= MOST && !self.is_empty()
    }

    /// A packet leaves. Its number is higher than all before, else it is left out; see [`Self::is_full`].
    #[inline]
    pub(super) fn push(&mut self, number: PacketNumber, tense: bool) {
        if number == self.end && self.tense == tense && !self.is_empty() {
            self.end += 1;
        } else {
            self.push_another(number, tense);
        }
    }

    #[cold]
    fn push_another(&mut self, number: PacketNumber, tense: bool) {
        if self.is_empty() {
            self.blocks.clear();
            self.changes.clear();
            self.base = number - number % OF_BLOCK;
            (self.first, self.end, self.tense) = (number, number, tense);
        }
        if number < self.end || number - self.first >= MOST {
            return;
        }
        for gap in self.end..number {
            if let Some((block, bit)) = self.block(gap) {
                block.settled |= bit;
                block.gap |= bit;
            }
        }
        if self.tense != tense {
            self.changes.push_back(number);
            self.tense = tense;
        }
        self.end = number + 1;
    }

    /// The block of a number that is here, and its bit.
    #[inline]
    fn block(&mut self, number: PacketNumber) -> Option<(&mut Block, u64)> {
        let index = (number.checked_sub(self.base)? / OF_BLOCK) as usize;
        while self.blocks.len() <= index {
            self.blocks.push_back(Block::default());
        }
        let block = self.blocks.get_mut(index)?;
        Some((block, 1 << (number % OF_BLOCK)))
    }

    /// What became of a packet; nothing happens if it is not here.
    #[inline]
    pub(super) fn settle(&mut self, number: PacketNumber, lost: bool) {
        if number < self.first || number >= self.end {
            return;
        }
        if let Some((block, bit)) = self.block(number) {
            block.settled |= bit;
            if lost {
                block.lost |= bit;
            } else {
                block.lost &= !bit;
            }
        }
    }

    /// The oldest counts as arrived.
    pub(super) fn settle_oldest(&mut self) {
        self.skip_gaps();
        self.settle(self.first, false);
    }

    /// Leaves out numbers that no packet had.
    fn skip_gaps(&mut self) {
        while let Some(block) = self.blocks.front()
            && !self.is_empty()
        {
            let bit = self.first % OF_BLOCK;
            let packets = !block.gap & from(bit);
            if packets != 0 {
                let packet = self.first - bit + u64::from(packets.trailing_zeros());
                self.move_to(packet);
                return;
            }
            self.move_to(self.first - bit + OF_BLOCK);
        }
    }

    fn move_to(&mut self, first: PacketNumber) {
        self.first = first;
        while self.first >= self.base + OF_BLOCK && self.blocks.pop_front().is_some() {
            self.base += OF_BLOCK;
        }
        while self.changes.front().is_some_and(|at| *at <= first) {
            self.changes.pop_front();
        }
        if self.is_empty() {
            self.blocks.clear();
            self.blocks.shrink_to(KEPT);
            self.changes.shrink_to(KEPT);
        }
    }

    /// The oldest packet, if its fate is known.
    pub(super) fn front(&mut self) -> Option<Front> {
        self.skip_gaps();
        if self.is_empty() {
            return None;
        }
        let block = self.blocks.front()?;
        let is = |bits: u64| bits >> (self.first % OF_BLOCK) & 1 != 0;
        is(block.settled).then_some(Front {
            number: self.first,
            tense: self.tense != (self.changes.len() % 2 == 1),
            lost: is(block.lost),
        })
    }

    /// Takes the oldest packet away.
    pub(super) fn pop(&mut self) {
        self.move_to(self.first + 1);
    }

    /// Takes the oldest ones away that arrived, as long as they were as tense and none is of `but`; returns how many.
    pub(super) fn take_arrivals(&mut self, but: &Range<PacketNumber>) -> usize {
        let end = self.changes.front().copied().unwrap_or(self.end);
        let mut taken = 0;
        while self.first < end
            && let Some(block) = self.blocks.front()
        {
            let ahead = from(self.first % OF_BLOCK) & below(self.base, end);
            let left_out = below(self.base, but.end) & !below(self.base, but.start);
            let others = ahead & !block.gap & (!block.settled | block.lost | left_out);
            let run = ahead & !block.gap & !from(others.trailing_zeros().into());
            taken += run.count_ones() as usize;
            if others != 0 {
                self.first = self.base + u64::from(others.trailing_zeros());
                break;
            }
            self.move_to(end.min(self.base + OF_BLOCK));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Packet by packet.
    #[derive(Debug, Default)]
    struct Naive(VecDeque<(Front, bool)>);

    impl Naive {
        fn settle(&mut self, number: PacketNumber, lost: bool) {
            for (front, settled) in self.0.iter_mut().filter(|(it, _)| it.number == number) {
                (front.lost, *settled) = (lost, true);
            }
        }

        fn front(&self) -> Option<Front> {
            let (front, settled) = self.0.front()?;
            settled.then_some(*front)
        }

        fn take_arrivals(&mut self, but: &Range<PacketNumber>) -> usize {
            let tense = self.0.front().is_some_and(|(front, _)| front.tense);
            let alike = |(front, settled): &&(Front, bool)| {
                *settled && !front.lost && front.tense == tense && !but.contains(&front.number)
            };
            let run = self.0.iter().take_while(alike).count();
            self.0.drain(..run);
            run
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Send { gap: u64, tense: bool, run: u64 },
        Settle { back: u64, run: u64, lost: bool },
        Take { but: u64, len: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (
                prop_oneof![Just(0), 0_u64..3, 0_u64..200],
                any::<bool>(),
                1_u64..100
            )
                .prop_map(|(gap, tense, run)| Step::Send { gap, tense, run }),
            (0_u64..300, 1_u64..200, prop::bool::weighted(0.2))
                .prop_map(|(back, run, lost)| Step::Settle { back, run, lost }),
            (0_u64..300, 0_u64..80).prop_map(|(but, len)| Step::Take { but, len }),
        ]
    }

    proptest! {
        #[test]
        fn as_packet_by_packet(begin in 0_u64..200, steps in prop::collection::vec(step(), 1..60)) {
            let (mut pending, mut naive) = (Pending::default(), Naive::default());
            let mut next = begin;
            for step in steps {
                match step {
                    Step::Send { gap, tense, run } => {
                        next += gap;
                        for number in next..next + run {
                            pending.push(number, tense);
                            naive.0.push_back((Front { number, tense, lost: false }, false));
                        }
                        next += run;
                    }
                    Step::Settle { back, run, lost } => {
                        let from = next.saturating_sub(back);
                        for number in from..from + run {
                            pending.settle(number, lost);
                            naive.settle(number, lost);
                        }
                    }
                    Step::Take { but, len } => {
                        let from = next.saturating_sub(but);
                        let but = from..from + len;
                        while let Some(front) = naive.front() {
                            prop_assert_eq!(pending.front(), Some(front));
                            let run = naive.take_arrivals(&but);
                            prop_assert_eq!(pending.take_arrivals(&but), run);
                            if run == 0 {
                                naive.0.pop_front();
                                pending.pop();
                            }
                        }
                        prop_assert_eq!(pending.front(), None);
                    }
                }
                prop_assert_eq!(pending.is_empty(), naive.0.is_empty());
                let newest = naive.0.back().map(|(front, _)| front.number + 1);
                prop_assert_eq!(pending.end(), newest);
                let oldest = naive.0.front().map(|(front, _)| front.number);
                prop_assert!(pending.first() <= oldest);
            }
        }
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut pending = Pending::default();
        for number in (0..2 * MOST).chain([10 * MOST]) {
            while pending.is_full(number) {
                pending.settle_oldest();
                assert!(pending.front().is_some());
                pending.pop();
            }
            pending.push(number, false);
            assert!(pending.blocks.len() <= (MOST / OF_BLOCK) as usize + 1);
        }
        assert_eq!(pending.end(), Some(10 * MOST + 1));
        pending.settle(10 * MOST, true);
        assert!(pending.front().is_some_and(|front| front.lost));
        pending.pop();
        assert!(pending.is_empty() && pending.blocks.capacity() <= KEPT);
    }
}
