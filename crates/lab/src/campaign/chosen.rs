//! Cells that somebody chose by their numbers, and what is traced of them.
//!
//! Owns: [`Cells`], [`Chosen`]. Does not own: what traces are (`run::Traces`).

use std::{ops::RangeInclusive, str::FromStr};

use super::{CampaignError, cell_of};
use crate::{plan::Plan, run::Wanted};

/// Numbers of cells and ranges of them, as people write them: `0,5,10-12`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cells(Vec<RangeInclusive<usize>>);

impl FromStr for Cells {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = |part: &str| {
            let wrong = || {
                format!("{part:?} is not a cell's number or a range of them, as in \"0,5,10-12\"")
            };
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!("{part:?} ends before it begins"));
            }
            Ok(first..=last)
        };
        text.split(',')
            .map(range)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl Cells {
    /// Whether a cell is among them.
    pub fn contains(&self, cell: usize) -> bool {
        self.0.iter().any(|range| range.contains(&cell))
    }

    fn check(&self, plan: &Plan) -> Result<(), CampaignError> {
        let mut lasts = self.0.iter().map(|range| *range.end());
        lasts.try_for_each(|last| cell_of(plan, last).map(|_| ()))
    }
}

/// The cells of which more than rows is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Those with qlog.
    pub qlog: Cells,
    /// Those with packets and keys.
    pub packets: Cells,
}

impl Chosen {
    /// What is wanted of a cell.
    pub fn wanted(&self, cell: usize) -> Wanted {
        Wanted {
            qlog: self.qlog.contains(cell),
            packets: self.packets.contains(cell),
        }
    }

    /// How many cells of a plan are chosen.
    pub fn count(&self, plan: &Plan) -> usize {
        (0..plan.len())
            .filter(|cell| self.wanted(*cell).is_any())
            .count()
    }

    /// Whether the plan has them.
    pub(super) fn check(&self, plan: &Plan) -> Result<(), CampaignError> {
        self.qlog.check(plan)?;
        self.packets.check(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_numbers_and_ranges() {
        let cells: Cells = "0, 5,10-12".parse().unwrap();
        let all: Vec<usize> = (0..20).filter(|cell| cells.contains(*cell)).collect();
        assert_eq!(all, [0, 5, 10, 11, 12]);
        assert!(!Cells::default().contains(0));
        for (text, words) in [
            ("", "is not a cell's number"),
            ("1,", "is not a cell's number"),
            ("-3", "\"-3\" is not a cell's number"),
            ("1-2-3", "is not a cell's number"),
            ("x", "as in \"0,5,10-12\""),
            ("5-4", "\"5-4\" ends before it begins"),
        ] {
            let told = text.parse::<Cells>().unwrap_err();
            assert!(told.contains(words), "{text}: {told}");
        }
    }
}
