//! A fixed share of repair symbols, whatever the network does.

use super::{Occasion, RedundancyFactory, RedundancyScheduler, RedundancyView, Repairs};

/// `constant`: after every `k` source symbols, `n - k` repair symbols over the latest `k`, or over
/// the latest `c` where a longer coding window is given (windows then overlap).
///
/// When the application pauses in the middle of a block of `k`, as many repair symbols as its part
/// calls for, rounded up, cover that part: the last packets before a pause are those for which
/// retransmission takes longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    sources: u16,
    repairs: u16,
    window: u16,
}

impl Constant {
    pub(super) const NAME: &'static str = "constant";

    /// `n` symbols, `k` of them source symbols, coding windows of `c` source symbols (`k` if not
    /// given). `None` unless `0 < k < n` and `k <= c`.
    pub fn new(n: u16, k: u16, c: Option<u16>) -> Option<Self> {
        let (repairs, window) = (n.checked_sub(k)?, c.unwrap_or(k));
        (k > 0 && repairs > 0 && k <= window).then_some(Self {
            sources: k,
            repairs,
            window,
        })
    }
}

impl RedundancyScheduler for Constant {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn ask(&mut self, occasion: Occasion, view: &RedundancyView) -> Repairs {
        let part = u16::try_from(view.uncovered).unwrap_or(u16::MAX);
        let overlapping = self.window > self.sources;
        if part >= self.sources {
            return Repairs {
                count: self.repairs,
                window: self.window,
                behind: 0,
            };
        }
        if occasion != Occasion::BurstEnd || part == 0 {
            return Repairs::NONE;
        }
        let share = u32::from(part) * u32::from(self.repairs);
        let count = share.div_ceil(u32::from(self.sources));
        Repairs {
            count: u16::try_from(count).unwrap_or(u16::MAX),
            window: if overlapping { self.window } else { part },
            behind: 0,
        }
    }
}

impl RedundancyFactory for Constant {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn build(&self) -> Box<dyn RedundancyScheduler> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(uncovered: u64) -> RedundancyView {
        RedundancyView {
            held: 100,
            sources: 100,
            uncovered,
            ..RedundancyView::default()
        }
    }

    #[test]
    fn a_block_is_followed_by_its_repair_symbols() {
        let mut constant = Constant::new(25, 20, None).unwrap();
        let repairs = Repairs {
            count: 5,
            window: 20,
            behind: 0,
        };
        for uncovered in 0..20 {
            let none = constant.ask(Occasion::SlotFree, &view(uncovered));
            assert_eq!(none, Repairs::NONE);
        }
        assert_eq!(constant.ask(Occasion::SlotFree, &view(20)), repairs);
    }

    #[test]
    fn a_pause_closes_a_block_with_its_share() {
        let mut constant = Constant::new(25, 20, None).unwrap();
        let shares = [(0, 0, 0), (1, 1, 1), (4, 1, 4), (5, 2, 5), (19, 5, 19)];
        for (part, count, window) in shares {
            let asked = constant.ask(Occasion::BurstEnd, &view(part));
            assert_eq!(
                asked,
                Repairs {
                    count,
                    window,
                    behind: 0
                }
            );
        }
    }

    #[test]
    fn a_longer_window_overlaps() {
        let mut constant = Constant::new(3, 2, Some(20)).unwrap();
        let repairs = Repairs {
            count: 1,
            window: 20,
            behind: 0,
        };
        assert_eq!(constant.ask(Occasion::SlotFree, &view(2)), repairs);
        assert_eq!(constant.ask(Occasion::BurstEnd, &view(1)), repairs);
    }

    #[test]
    fn what_makes_no_sense() {
        for (n, k, c) in [
            (20, 0, None),
            (20, 20, None),
            (5, 20, None),
            (6, 5, Some(4)),
        ] {
            assert_eq!(Constant::new(n, k, c), None);
        }
    }
}
