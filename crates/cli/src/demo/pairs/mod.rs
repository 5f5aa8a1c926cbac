//! Two links at once: what a second path adds, and what erasure correction adds to that.
//!
//! Purpose: the same file and the same small requests over each of two links alone and over both, plain
//! and with erasure correction.
//! Owns: which pairs, what is run, the sums (here), the words and figures (`tell`).
//! Does not own: one connection's requests (`super::requests`), which path carries what
//! (`tautline-transport`).

mod tell;

use std::{
    str::FromStr,
    sync::{Arc, atomic::AtomicU64},
};

use tautline_sim::{LinkConfig, links};

pub(super) use self::tell::{Answers, answers, definitions, section, text};
use super::{
    payload::Payload,
    requests::{ANSWER_BYTES, Job, PER_CONNECTION, Tally},
};
use crate::failure::{Failure, Outcome};

/// What is shown when nothing is chosen.
pub(super) const PAIRS: [&str; 3] = ["wifi+lte", "leo+lte", "geo+lte"];

/// Two links, by name; the first is the one that the connection begins on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PairName([String; 2]);

impl FromStr for PairName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // `+` as pairs are called in what we print.
        let (first, second) = text
            .split_once([',', '+'])
            .ok_or_else(|| format!("{text}: name two links, as in wifi,lte"))?;
        for name in [first, second] {
            if links::by_name(name).is_none() {
                let known = links::names().join(", ");
                return Err(format!("no link is called {name:?}: there are {known}"));
            }
        }
        Ok(Self([first.to_owned(), second.to_owned()]))
    }
}

impl PairName {
    fn config(&self, index: usize) -> Outcome<LinkConfig> {
        let name = self.0.get(index).map_or("", String::as_str);
        links::by_name(name).ok_or_else(|| Failure::new(format!("no link is called {name}")))
    }
}

/// Which of two links a connection uses.
const WAYS: [&[usize]; 3] = [&[0], &[1], &[0, 1]];

/// What one connection setting gave: the file, once with each seed, and many small requests.
#[derive(Clone, Debug, Default)]
struct Figures {
    file: Tally,
    requests: Tally,
}

/// One way over a pair.
#[derive(Clone, Debug)]
struct Compared {
    name: String,
    plain: Figures,
    /// `None` if erasure correction was not asked for.
    coded: Option<Figures>,
}

/// A pair, over its first link, its second, and both.
#[derive(Clone, Debug)]
struct Pair {
    name: PairName,
    ways: Vec<Compared>,
}

/// All pairs.
#[derive(Debug)]
pub(super) struct Pairs {
    file: Payload,
    controller: String,
    fec: Option<String>,
    /// Runs of the file.
    seeds: usize,
    requests: usize,
    pairs: Vec<Pair>,
}

/// Something to be run: what it belongs to, and the run.
pub(super) struct Task {
    pair: usize,
    way: usize,
    coded: bool,
    is_file: bool,
    job: Job,
}

impl Task {
    pub(super) fn bytes(&self) -> u64 {
        self.job.bytes()
    }

    pub(super) fn run(&self) -> Tally {
        self.job.run()
    }
}

impl Pairs {
    /// Nothing is done yet; the file with `seeds` seeds, and `requests` small ones, each.
    pub(super) fn new(
        names: &[PairName],
        payload: &Payload,
        controller: &str,
        fec: Option<&str>,
        seeds: usize,
        requests: usize,
    ) -> Self {
        let pair = |name: &PairName| Pair {
            name: name.clone(),
            ways: WAYS
                .iter()
                .map(|way| Compared {
                    name: way
                        .iter()
                        .filter_map(|index| name.0.get(*index).map(String::as_str))
                        .collect::<Vec<_>>()
                        .join("+"),
                    plain: Figures::default(),
                    coded: fec.map(|_| Figures::default()),
                })
                .collect(),
        };
        Self {
            file: payload.clone(),
            controller: controller.to_owned(),
            fec: fec.map(str::to_owned),
            seeds,
            requests,
            pairs: names.iter().map(pair).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Everything to be done.
    pub(super) fn tasks(&self, seed: u64, everything: &Arc<AtomicU64>) -> Outcome<Vec<Task>> {
        let answer = self.file.beginning(ANSWER_BYTES);
        let mut tasks = Vec::new();
        for (pair, it) in self.pairs.iter().enumerate() {
            for (way, indices) in WAYS.iter().enumerate() {
                let configs = indices.iter().map(|index| it.name.config(*index));
                let configs = configs.collect::<Outcome<Vec<_>>>()?;
                for coded in [false, true] {
                    if coded && self.fec.is_none() {
                        continue;
                    }
                    let fec = self.fec.clone().filter(|_| coded);
                    let mut task = |payload: &Payload, seed, count, is_file| {
                        let (controller, fec) = (self.controller.clone(), fec.clone());
                        let policies = (controller, fec);
                        let job = Job::new(&configs, policies, seed, payload, count, everything);
                        tasks.push(Task {
                            pair,
                            way,
                            coded,
                            is_file,
                            job,
                        });
                    };
                    for index in 0..self.seeds {
                        let seed = seed.wrapping_add(index as u64);
                        task(&self.file, seed, 1, true);
                    }
                    for first in (0..self.requests).step_by(PER_CONNECTION) {
                        let seed = seed.wrapping_add((first / PER_CONNECTION) as u64);
                        let count = PER_CONNECTION.min(self.requests - first);
                        task(&answer, seed, count, false);
                    }
                }
            }
        }
        Ok(tasks)
    }

    /// Takes in what the tasks gave, in their order.
    pub(super) fn take(&mut self, tasks: &[Task], tallies: Vec<Tally>) {
        for (task, tally) in tasks.iter().zip(tallies) {
            let pair = self.pairs.get_mut(task.pair);
            let Some(way) = pair.and_then(|pair| pair.ways.get_mut(task.way)) else {
                continue;
            };
            let figures = match &mut way.coded {
                Some(coded) if task.coded => coded,
                _ => &mut way.plain,
            };
            match task.is_file {
                true => figures.file.add(tally),
                false => figures.requests.add(tally),
            }
        }
    }

    /// Transfers and requests that were to be made, and those of them without a right answer.
    pub(super) fn failed(&self) -> (usize, usize) {
        let ways = self.pairs.iter().flat_map(|pair| &pair.ways);
        let all = ways.flat_map(|way| std::iter::once(&way.plain).chain(&way.coded));
        let tallies = all.flat_map(|it| [&it.file, &it.requests]);
        tallies.fold((0, 0), |(wanted, failed), tally| {
            let missing = tally.wanted.saturating_sub(tally.answered());
            (wanted + tally.wanted, failed + missing)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_named_by_links() {
        for name in PAIRS {
            let pair: PairName = name.parse().unwrap();
            assert_eq!(pair.0.join("+"), name);
        }
        for bad in ["wifi", "wifi+", "wifi+nothing", "+", "wifi+lte+geo"] {
            assert!(bad.parse::<PairName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn two_links_carry_more_than_either() {
        let payload = Payload::load(None, Some(1_000_000)).unwrap();
        let names = ["wifi+lte".parse().unwrap()];
        let mut pairs = Pairs::new(&names, &payload, "cubic", Some("auto"), 3, 10);
        let tasks = pairs.tasks(1, &Arc::default()).unwrap();
        // Three ways, two arms: the file three times, and ten requests on one connection.
        assert_eq!(tasks.len(), 24);
        let tallies = tasks.iter().map(Task::run).collect();
        pairs.take(&tasks, tallies);
        assert_eq!(pairs.failed(), (3 * 2 * 13, 0), "{pairs:?}");
        let time = |way: usize| pairs.pairs[0].ways[way].plain.seconds().unwrap();
        assert!(time(2) < time(0).min(time(1)), "{pairs:?}");
    }
}
