//! What is printed of several paths: speeds beside the kernel's, and whether that is enough.

use std::fmt::Write as _;

use tautline_lab::stats::{median, quantiles};

use super::{LEAST, MEDIAN};
use crate::measure::{Group, World};

/// A point of the plan with one solution over both paths.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    point: Vec<String>,
    solution: String,
    bytes: u64,
    /// Medians in s.
    ours: Option<f64>,
    kernel: Option<f64>,
    https: Option<f64>,
    simulated: Option<f64>,
    /// Our speed by the kernel's, of runs with the same seed: quartiles.
    pairs: Option<[f64; 3]>,
    /// Medians of the second path's share of the packets to the client.
    shares: [Option<f64>; 2],
    /// The kernel's TCP over the better path alone.
    best_tcp: Option<f64>,
    /// Runs without an end, or late to the last.
    missing: usize,
}

impl Row {
    /// Our speed by that of the kernel's MPTCP, from medians.
    fn speed(&self) -> Option<f64> {
        Some(self.kernel? / self.ours?)
    }
}

/// Whether ours is fast enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Verdict {
    least: f64,
    median: f64,
    below: usize,
    rows: usize,
    missing: usize,
    /// By MPTCP with HTTP/2 over TLS: least and median.
    https: Option<(f64, f64)>,
}

impl Verdict {
    /// `None` when no row has both times.
    pub(super) fn of(rows: &[Row]) -> Option<Self> {
        let speeds: Vec<f64> = rows.iter().filter_map(Row::speed).collect();
        let (least, median) = least_and_median(speeds.iter().copied())?;
        Some(Self {
            least,
            median,
            below: speeds.iter().filter(|speed| **speed < LEAST).count(),
            rows: rows.len(),
            missing: rows.iter().map(|row| row.missing).sum(),
            https: least_and_median(rows.iter().filter_map(|row| Some(row.https? / row.ours?))),
        })
    }

    pub(super) fn holds(self) -> bool {
        self.least >= LEAST && self.median >= MEDIAN && self.missing == 0
    }

    pub(super) fn sentence(self) -> String {
        let missing = match self.missing {
            0 => String::new(),
            count => format!("; {count} runs have no time"),
        };
        let https = self.https.map_or(String::new(), |(least, median)| {
            format!(" By MPTCP with HTTP/2 over TLS: {least:.3} and {median:.3}.")
        });
        format!(
            "Speed of `auto` by that of the kernel's MPTCP: {:.3} in the worst of {} cells (asked: {LEAST}; \
             {} are below), {:.3} in the median (asked: {MEDIAN:.1}){missing}.{https}",
            self.least, self.rows, self.below, self.median
        )
    }
}

fn least_and_median(speeds: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let speeds: Vec<f64> = speeds.collect();
    Some((speeds.iter().copied().reduce(f64::min)?, median(&speeds)?))
}

fn times(group: &Group, world: World) -> Vec<f64> {
    group.times(world).into_iter().map(|(_, t)| t).collect()
}

fn share(group: &Group, world: World) -> Option<f64> {
    let of_it = group.runs.iter().filter(|run| run.world == world);
    let ended = of_it.filter(|run| run.took.is_ok());
    median(&ended.map(|run| run.further_share()).collect::<Vec<_>>())
}

/// Of every group that takes several paths.
pub(super) fn rows(groups: &[Group]) -> Vec<Row> {
    let several = groups.iter().filter(|group| group.wires > 1);
    several.map(|group| row(group, groups)).collect()
}

fn row(group: &Group, groups: &[Group]) -> Row {
    let kernel = group.times(World::Kernel);
    let pairs: Vec<f64> = group
        .times(World::Sockets)
        .iter()
        .filter_map(|(repetition, time)| {
            let other = kernel.iter().find(|(other, _)| other == repetition)?;
            Some(other.1 / time)
        })
        .collect();
    let alone = groups.iter().filter(|other| other.point == group.point);
    let alone = alone.filter(|other| other.wires == 1);
    let best_tcp = alone.filter_map(|other| median(&times(other, World::Kernel)));
    let on_sockets = |world| world != World::Simulated;
    let runs = group.runs.iter();
    Row {
        point: group.point.clone(),
        solution: group.solution.clone(),
        bytes: group.bytes,
        ours: median(&times(group, World::Sockets)),
        kernel: median(&times(group, World::Kernel)),
        https: median(&times(group, World::Https)),
        simulated: median(&times(group, World::Simulated)),
        pairs: quantiles(&pairs, [0.25, 0.5, 0.75]),
        shares: [World::Sockets, World::Kernel].map(|world| share(group, world)),
        best_tcp: best_tcp.reduce(f64::min),
        missing: runs
            .filter(|run| on_sockets(run.world) && run.took.is_err())
            .count(),
    }
}

fn seconds(time: Option<f64>) -> String {
    time.map_or("-".to_owned(), |time| format!("{time:.3} s"))
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"))
}

/// Over both paths, ours and the kernel's, as Markdown.
pub(super) fn both(rows: &[Row]) -> String {
    let mut out = String::from(
        "| paths | object | | MPTCP | Tautline | speed by MPTCP | of pairs (quartiles) | by MPTCP with HTTP/2 over TLS | by the best TCP | second path's share, MPTCP / Tautline | Tautline simulated |\n\
         |---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        let mut point = row.point.iter();
        let pair = point.next().map_or("", String::as_str);
        let rest: Vec<&str> = point.map(String::as_str).collect();
        let speed = match row.speed() {
            Some(speed) if speed < LEAST => format!("**{speed:.3}**"),
            speed => ratio(speed),
        };
        let pairs = row.pairs.map_or("-".to_owned(), |[low, middle, high]| {
            format!("{middle:.3} ({low:.3} to {high:.3})")
        });
        let percent = |share: Option<f64>| {
            share.map_or("-".to_owned(), |share| format!("{:.0} %", 100.0 * share))
        };
        let by = |other: Option<f64>| ratio(other.zip(row.ours).map(|(other, ours)| other / ours));
        let missing = match row.missing {
            0 => String::new(),
            count => format!(", {count} missing"),
        };
        let [ours, kernel] = row.shares;
        let _ = writeln!(
            out,
            "| {pair} | {} | {} | {} | {} | {speed}{missing} | {pairs} | {} | {} | {} / {} | {} |",
            rest.join(", "),
            row.solution,
            seconds(row.kernel),
            seconds(row.ours),
            by(row.https),
            by(row.best_tcp),
            percent(kernel),
            percent(ours),
            seconds(row.simulated),
        );
    }
    out
}

/// Over each path alone, as Markdown.
pub(super) fn single(rows: &[Row], groups: &[Group]) -> String {
    let mut out = String::from(
        "| paths | object | TCP on a | Tautline on a | TCP on b | Tautline on b |\n\
         |---|---|--:|--:|--:|--:|\n",
    );
    let mut points: Vec<&[String]> = Vec::new();
    for row in rows {
        if !points.contains(&row.point.as_slice()) {
            points.push(&row.point);
        }
    }
    for point in points {
        let alone = groups.iter().filter(|group| group.point == point);
        let alone = alone.filter(|group| group.wires == 1);
        let cells = alone.flat_map(|group| {
            [World::Kernel, World::Sockets].map(|world| seconds(median(&times(group, world))))
        });
        let cells: Vec<String> = cells.collect();
        let (pair, rest) = point.split_first().map_or(("", &[][..]), |(a, b)| (a, b));
        let _ = writeln!(
            out,
            "| {pair} | {} | {} |",
            rest.join(", "),
            cells.join(" | ")
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Measured, Packets};

    fn group(solution: &str, wires: usize, ours: &[f64], kernel: &[f64]) -> Group {
        let runs = |world, times: &[f64]| {
            let runs = times.iter().zip(0..).map(move |(time, repetition)| {
                let down = |down| Packets {
                    down,
                    ..Packets::default()
                };
                Measured {
                    world,
                    repetition,
                    seed: repetition,
                    took: if *time > 0.0 {
                        Ok(*time)
                    } else {
                        Err("late".to_owned())
                    },
                    links: [75, 25].into_iter().take(wires).map(down).collect(),
                }
            });
            runs.collect::<Vec<_>>()
        };
        Group {
            plan: "p".to_owned(),
            point: vec!["wifi + lte".to_owned(), "1 MB".to_owned()],
            solution: solution.to_owned(),
            is_cubic: true,
            bytes: 1_000_000,
            wires,
            runs: [
                runs(World::Sockets, ours),
                runs(World::Kernel, kernel),
                runs(World::Https, &[1.3]),
            ]
            .concat(),
        }
    }

    #[test]
    fn speeds_are_beside_mptcp_and_the_best_tcp() {
        let groups = [
            group("single a", 1, &[3.0], &[2.0, 2.2, 2.4]),
            group("single b", 1, &[1.5], &[1.2, 1.1, 1.3]),
            group("auto", 2, &[1.0, 1.0, 1.1], &[1.1, 0.9, 1.2]),
        ];
        let rows = rows(&groups);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].best_tcp, Some(1.2));
        assert_eq!(rows[0].shares, [Some(0.25), Some(0.25)]);
        let verdict = Verdict::of(&rows).unwrap();
        assert!(verdict.holds() && verdict.below == 0, "{verdict:?}");
        assert!(verdict.sentence().contains("TLS: 1.300 and 1.300"));
        let table = both(&rows);
        assert!(table.contains("| 1.100 s | 1.000 s | 1.100 |"), "{table}");
        assert!(table.contains("| 1.300 | 1.200 | 25 % / 25 % |"), "{table}");
        let table = single(&rows, &groups);
        assert!(
            table.contains("| 1 MB | 2.200 s | 3.000 s | 1.200 s | 1.500 s |"),
            "{table}"
        );
    }

    #[test]
    fn slow_and_missing_runs_fail() {
        let slow = [group("auto", 2, &[1.0], &[0.9])];
        let verdict = Verdict::of(&rows(&slow)).unwrap();
        assert!(!verdict.holds() && verdict.below == 1);
        assert!(both(&rows(&slow)).contains("**0.900**"));
        let missing = [group("auto", 2, &[1.0, 0.0], &[1.0, 1.0])];
        let verdict = Verdict::of(&rows(&missing)).unwrap();
        assert!(!verdict.holds() && verdict.missing == 1);
        assert!(verdict.sentence().contains("1 runs have no time"));
        assert_eq!(Verdict::of(&rows(&[group("auto", 2, &[], &[1.0])])), None);
    }
}
