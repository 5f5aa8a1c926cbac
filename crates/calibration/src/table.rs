//! What is printed: verdicts, the kernel's TCP beside ours, and every run as CSV.

use std::fmt::Write as _;

use tautline_lab::stats::{median, quantiles};

use crate::measure::{Group, World};

/// How far medians may lie apart.
pub(crate) const TOLERANCE: f64 = 0.10;

/// A group's times in both worlds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) simulated: f64,
    pub(crate) sockets: f64,
    /// Of the medians.
    pub(crate) ratio: f64,
    /// Of runs with the same seed: lower quartile, median, upper quartile.
    pub(crate) pairs: [f64; 3],
    /// Runs that did not finish, in both worlds together.
    pub(crate) failures: usize,
}

impl Verdict {
    /// `None` when a world has no time at all.
    pub(crate) fn of(group: &Group) -> Option<Self> {
        let (simulated, sockets) = (group.times(World::Simulated), group.times(World::Sockets));
        let values = |times: &[(u64, f64)]| times.iter().map(|(_, t)| *t).collect::<Vec<_>>();
        let medians = (median(&values(&simulated))?, median(&values(&sockets))?);
        let failures = group.runs.iter().filter(|run| {
            let counts = matches!(run.world, World::Simulated | World::Sockets);
            counts && run.took.is_err()
        });
        let pairs: Vec<f64> = simulated
            .iter()
            .filter_map(|(repetition, time)| {
                let other = sockets.iter().find(|(other, _)| other == repetition)?;
                Some(other.1 / time)
            })
            .collect();
        Some(Self {
            simulated: medians.0,
            sockets: medians.1,
            ratio: medians.1 / medians.0,
            pairs: quantiles(&pairs, [0.25, 0.5, 0.75])?,
            failures: failures.count(),
        })
    }

    /// Whether simulation and sockets agree.
    pub(crate) fn holds(&self) -> bool {
        self.failures == 0 && (self.ratio - 1.0).abs() <= TOLERANCE
    }
}

/// The medians of both worlds, as Markdown.
pub(crate) fn verdicts(groups: &[Group]) -> String {
    let mut out = String::from(
        "| plan | point | controller | simulated | sockets | ratio | of pairs (quartiles) | within 10 % |\n\
         |---|---|---|--:|--:|--:|--:|---|\n",
    );
    for group in groups {
        let (plan, point) = (&group.plan, group.point.join(", "));
        let _ = match Verdict::of(group) {
            Some(verdict) => writeln!(
                out,
                "| {plan} | {point} | {} | {:.3} s | {:.3} s | {:.3} | {:.3} ({:.3} to {:.3}) | {}{} |",
                group.solution,
                verdict.simulated,
                verdict.sockets,
                verdict.ratio,
                verdict.pairs[1],
                verdict.pairs[0],
                verdict.pairs[2],
                if verdict.holds() { "yes" } else { "**no**" },
                match verdict.failures {
                    0 => String::new(),
                    count => format!(", {count} runs not finished"),
                },
            ),
            None => writeln!(
                out,
                "| {plan} | {point} | {} | - | - | - | - | **no**, nothing finished |",
                group.solution
            ),
        };
    }
    out
}

/// The kernel's CUBIC beside ours, as Markdown.
pub(crate) fn kernel(groups: &[Group]) -> String {
    let mut out = String::from(
        "| plan | point | kernel TCP CUBIC | our `cubic`, sockets | our `cubic`, simulated | ours / kernel |\n\
         |---|---|--:|--:|--:|--:|\n",
    );
    for group in groups.iter().filter(|group| group.is_cubic) {
        let of = |world| {
            let times: Vec<f64> = group.times(world).into_iter().map(|(_, t)| t).collect();
            median(&times)
        };
        let shown = |time: Option<f64>| {
            time.map_or("-".to_owned(), |time| {
                let rate = group.bytes as f64 * 8.0 / time / 1e6;
                format!("{time:.3} s ({rate:.2} Mb/s)")
            })
        };
        let (theirs, ours) = (of(World::Kernel), of(World::Sockets));
        let ratio = ours.zip(theirs).map(|(ours, theirs)| ours / theirs);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            group.plan,
            group.point.join(", "),
            shown(theirs),
            shown(ours),
            shown(of(World::Simulated)),
            ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
        );
    }
    out
}

/// Every run.
pub(crate) fn csv(groups: &[Group]) -> String {
    let mut out = String::from(
        "plan,point,solution,world,repetition,seed,completion_s,up_packets,\
         down_packets,down_lost,down_queue_drops,reason\n",
    );
    for group in groups {
        for run in &group.runs {
            let packets = run.packets();
            let (took, reason) = match &run.took {
                Ok(took) => (format!("{took:.6}"), String::new()),
                Err(reason) => (String::new(), reason.replace(['"', '\n'], " ")),
            };
            let _ = writeln!(
                out,
                "{},\"{}\",{},{},{},{},{took},{},{},{},{},\"{reason}\"",
                group.plan,
                // Labels have commas of their own.
                group.point.join(" "),
                group.solution,
                run.world.name(),
                run.repetition,
                run.seed,
                packets.up,
                packets.down,
                packets.down_lost,
                packets.down_queue_drops,
            );
        }
    }
    out
}

const BEGIN: &str = "<!-- measured -->\n";
const END: &str = "<!-- end of measured -->\n";

/// `document` with `measured` between its marks; `None` when it has none.
pub(crate) fn spliced(document: &str, measured: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{measured}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Measured;

    fn group(simulated: &[f64], sockets: &[f64]) -> Group {
        let runs = |world, times: &[f64]| {
            let runs = times
                .iter()
                .zip(0..)
                .map(move |(time, repetition)| Measured {
                    world,
                    repetition,
                    seed: repetition,
                    took: if *time > 0.0 {
                        Ok(*time)
                    } else {
                        Err("it \"failed\"".to_owned())
                    },
                    links: Vec::new(),
                });
            runs.collect::<Vec<_>>()
        };
        Group {
            plan: "p".to_owned(),
            point: vec!["25 ms".to_owned(), "0 %".to_owned()],
            solution: "cubic".to_owned(),
            is_cubic: true,
            bytes: 1_000_000,
            wires: 1,
            runs: [
                runs(World::Simulated, simulated),
                runs(World::Sockets, sockets),
                runs(World::Kernel, &[2.0, 2.0, 2.0]),
            ]
            .concat(),
        }
    }

    #[test]
    fn verdicts_compare_medians() {
        let close = group(&[1.0, 2.0, 3.0], &[1.1, 2.1, 3.1]);
        let verdict = Verdict::of(&close).unwrap();
        assert_eq!((verdict.simulated, verdict.sockets), (2.0, 2.1));
        assert!(verdict.holds() && verdict.failures == 0);
        let [low, middle, high] = verdict.pairs;
        assert!(low < middle && middle < high, "{:?}", verdict.pairs);
        assert!((middle - 1.05).abs() < 1e-9);
        let far = group(&[1.0, 2.0, 3.0], &[1.3, 2.3, 3.3]);
        assert!(!Verdict::of(&far).unwrap().holds());
        let failed = group(&[1.0, 2.0, 3.0], &[1.0, 2.0, 0.0]);
        let verdict = Verdict::of(&failed).unwrap();
        assert!(!verdict.holds() && verdict.failures == 1);
        assert_eq!(Verdict::of(&group(&[1.0], &[0.0])), None);
    }

    #[test]
    fn tables_say_what_happened() {
        let groups = [
            group(&[1.0, 2.0, 3.0], &[1.1, 2.1, 3.1]),
            group(&[1.0], &[0.0]),
        ];
        let table = verdicts(&groups);
        assert!(
            table.contains("| 2.000 s | 2.100 s | 1.050 | 1.050 (1.042 to 1.075) |"),
            "{table}"
        );
        assert!(table.contains("nothing finished"), "{table}");
        let table = kernel(&groups);
        assert!(table.contains("2.000 s (4.00 Mb/s)"), "{table}");
        assert!(table.contains("| 1.05 |"), "{table}");
        let csv = csv(&groups);
        assert_eq!(csv.lines().count(), 1 + 9 + 5);
        assert!(csv.contains("\"it  failed \""), "{csv}");
        assert!(csv.contains("p,\"25 ms 0 %\",cubic,"), "{csv}");
    }

    #[test]
    fn measured_goes_between_the_marks() {
        let document = format!("above\n{BEGIN}old\n{END}below\n");
        let new = spliced(&document, "new").unwrap();
        assert_eq!(new, format!("above\n{BEGIN}\nnew\n{END}below\n"));
        assert_eq!(spliced(&new, "new").as_deref(), Some(new.as_str()));
        assert_eq!(spliced("nothing", "new"), None);
    }
}
