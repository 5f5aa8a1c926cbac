//! Loads that every stack can carry, side by side.

use anyhow::Result;

use super::{
    Options, What,
    program::{Both, OURS, Program, Programs},
    report::{Section, Table},
};

/// A load and how its figures are read.
pub(super) struct Load {
    pub(super) what: What,
    title: &'static str,
    /// How it is shown which command made the figures.
    name: &'static str,
    arguments: fn(&Options) -> Vec<String>,
    figures: &'static [Figure],
}

/// One column.
struct Figure {
    name: &'static str,
    value: fn(&Both) -> f64,
    decimals: usize,
    more_is_better: bool,
    /// What the first stage of the project asks of ours/best.
    wanted: Option<f64>,
}

const GOODPUT: Figure = Figure {
    name: "Gb/s",
    value: |both| both.figure("bytes") * 8e-9 / both.figure("seconds"),
    decimals: 2,
    more_is_better: true,
    wanted: Some(1.0),
};
const CPU_PER_GB: Figure = Figure {
    name: "CPU-s per GB",
    value: |both| both.cpu() * 1e9 / both.figure("bytes"),
    decimals: 3,
    more_is_better: false,
    wanted: Some(1.0),
};
const PER_SECOND: Figure = Figure {
    name: "per second",
    value: |both| both.figure("count") / both.figure("seconds"),
    decimals: 0,
    more_is_better: true,
    wanted: Some(0.9),
};
const CPU_EACH: Figure = Figure {
    name: "CPU-us each",
    value: |both| both.cpu() * 1e6 / both.figure("count"),
    decimals: 1,
    more_is_better: false,
    wanted: None,
};

/// All of them.
pub(super) const LOADS: &[Load] = &[
    Load {
        what: What::Bulk,
        title: "Bulk: one stream of one connection, server to client",
        name: "bulk",
        arguments: |options| words(&["bulk", "--mb", &options.mb.to_string()]),
        figures: &[GOODPUT, CPU_PER_GB],
    },
    Load {
        what: What::Streams,
        title: "Streams: the same bytes over 100 parallel streams",
        name: "streams",
        arguments: |options| words(&["bulk", "--at-once", "100", "--mb", &options.mb.to_string()]),
        figures: &[GOODPUT, CPU_PER_GB],
    },
    Load {
        what: What::Handshakes,
        title: "Handshakes: full ones, 8 at a time",
        name: "handshakes",
        arguments: |options| {
            words(&[
                "handshakes",
                "--at-once",
                "8",
                "--seconds",
                &options.seconds.to_string(),
            ])
        },
        figures: &[PER_SECOND, CPU_EACH],
    },
    Load {
        what: What::Requests,
        title: "Requests: 1 byte asks for 32, 100 at a time on one connection",
        name: "requests",
        arguments: |options| {
            words(&[
                "requests",
                "--at-once",
                "100",
                "--seconds",
                &options.seconds.to_string(),
            ])
        },
        figures: &[
            PER_SECOND,
            CPU_EACH,
            Figure {
                name: "p50 us",
                value: |both| both.figure("p50_us"),
                decimals: 0,
                more_is_better: false,
                wanted: None,
            },
            Figure {
                name: "p99 us",
                value: |both| both.figure("p99_us"),
                decimals: 0,
                more_is_better: false,
                wanted: Some(1.1),
            },
        ],
    },
];

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// What one stack did.
struct Runs<'a> {
    program: &'a Program,
    /// One entry per round; `None` where it failed.
    done: Vec<Option<Both>>,
    /// The last failure.
    failure: Option<String>,
}

impl Runs<'_> {
    fn values(&self, figure: &Figure) -> Vec<Option<f64>> {
        self.done
            .iter()
            .map(|both| both.as_ref().map(figure.value))
            .collect()
    }
}

/// Interleaved runs of all stacks.
pub(super) fn run(programs: &Programs, options: &Options, load: &Load) -> Result<Section> {
    println!("\n{}", load.title);
    let arguments = (load.arguments)(options);
    let start = |program| Runs {
        program,
        done: Vec::new(),
        failure: None,
    };
    let mut runs: Vec<_> = programs.all.iter().map(start).collect();
    for round in 0..options.runs.max(1) {
        // A neighbour's noise shall not always meet the same stack.
        let stacks = runs.len();
        for index in (0..stacks).map(|index| (round + index) % stacks) {
            let runs = &mut runs[index];
            let name = runs.program.stack;
            match runs.program.measure(&programs.identity, &arguments) {
                Ok(both) => {
                    let show =
                        |it: &Figure| format!("{:.*} {}", it.decimals, (it.value)(&both), it.name);
                    let shown: Vec<_> = load.figures.iter().map(show).collect();
                    println!("  run {} {name:9} {}", round + 1, shown.join(", "));
                    runs.done.push(Some(both));
                }
                // Ours may not fail.
                Err(error) if name == OURS => return Err(error),
                Err(error) => {
                    println!("  run {} {name:9} failed: {error:#}", round + 1);
                    runs.done.push(None);
                    runs.failure = Some(format!("{error:#}"));
                }
            }
        }
    }
    Ok(section(options, load, &runs))
}

fn section(options: &Options, load: &Load, runs: &[Runs<'_>]) -> Section {
    let ours: Vec<_> = load
        .figures
        .iter()
        .map(|figure| runs[0].values(figure))
        .collect();
    let mut head = vec!["stack".to_owned()];
    for figure in load.figures {
        head.push(figure.name.to_owned());
        head.push("ours / it".to_owned());
    }
    let mut table = Table::new(head);
    // Ours against the peer that is best at it.
    let mut worst: Vec<Option<(f64, &str)>> = vec![None; load.figures.len()];
    for it in runs {
        let mut row = vec![it.program.stack.to_owned()];
        for (index, figure) in load.figures.iter().enumerate() {
            let its = it.values(figure);
            let middle = median(its.iter().flatten().copied().collect());
            row.push(if middle.is_nan() {
                "failed".into()
            } else {
                format!("{middle:.*}", figure.decimals)
            });
            let pairs = ours[index].iter().zip(&its);
            let ratio = median(
                pairs
                    .filter_map(|(ours, its)| Some((*ours)? / (*its)?))
                    .collect(),
            );
            if it.program.stack == OURS || ratio.is_nan() {
                row.push(String::new());
                continue;
            }
            row.push(format!("{ratio:.2}"));
            let worse = |old: f64| {
                if figure.more_is_better {
                    ratio < old
                } else {
                    ratio > old
                }
            };
            if worst[index].is_none_or(|(old, _)| worse(old)) {
                worst[index] = Some((ratio, it.program.stack));
            }
        }
        table.row(row);
    }
    let mut text = table.markdown();
    for (figure, worst) in load.figures.iter().zip(worst) {
        let Some((ratio, peer)) = worst else { continue };
        let wanted = figure.wanted.map_or_else(String::new, |wanted| {
            let relation = if figure.more_is_better {
                "at least"
            } else {
                "at most"
            };
            format!("; wanted {relation} {wanted:.1}")
        });
        text += &format!(
            "\nOurs / best peer, {}: **{ratio:.2}** ({peer}{wanted}).\n",
            figure.name
        );
    }
    for it in runs {
        let Some(failure) = &it.failure else { continue };
        let failed = it.done.iter().filter(|both| both.is_none()).count();
        let all = it.done.len();
        text += &format!(
            "\n{} failed in {failed} of {all} runs: {failure}\n",
            it.program.stack
        );
    }
    let command = format!("cargo xtask bench {}{}", load.name, changed(options, load));
    Section {
        title: load.title.to_owned(),
        command,
        text,
    }
}

/// Options that differ from the defaults.
fn changed(options: &Options, load: &Load) -> String {
    let mut text = String::new();
    if matches!(load.what, What::Bulk | What::Streams) && options.mb != 1_000 {
        text += &format!(" --mb {}", options.mb);
    }
    if options.runs != 5 {
        text += &format!(" --runs {}", options.runs);
    }
    if matches!(load.what, What::Handshakes | What::Requests) && options.seconds != 5.0 {
        text += &format!(" --seconds {}", options.seconds);
    }
    if let Some(threads) = options.threads {
        text += &format!(" --threads {threads}");
    }
    text
}

/// The middle; the mean of the two middle ones of an even number.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle), values.len() % 2) {
        (None, _) => f64::NAN,
        (Some(upper), 0) => (values[middle - 1] + upper) / 2.0,
        (Some(middle), _) => *middle,
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }
}
