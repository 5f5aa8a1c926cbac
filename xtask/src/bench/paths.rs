//! What several paths cost where one would do: two paths on loopback beside one.

use anyhow::Result;

use super::{
    Options,
    arms::{self, Arm, cpu, goodput, ratios, spread},
    compare::median,
    program::Programs,
    report::{Section, Table, verdict},
};

/// The environment variable that `bench-ours` takes its number of paths from.
const VARIABLE: &str = "BENCH_PATHS";
/// Goodput of two paths by that of one.
const WANTED: f64 = 0.9;
const GOAL: f64 = 0.95;
const TWO: usize = 3;

const ARMS: [Arm; 4] = [
    Arm {
        name: "one path",
        set: None,
    },
    // The same again: what ratios do by themselves here.
    Arm {
        name: "one path again",
        set: None,
    },
    // The extension at both ends, and no use made of it.
    Arm {
        name: "negotiated",
        set: Some((VARIABLE, "1")),
    },
    Arm {
        name: "two paths",
        set: Some((VARIABLE, "2")),
    },
];

pub(super) fn run(programs: &Programs, options: &Options) -> Result<Section> {
    println!("\nTwo paths");
    let load = ["bulk", "--mb", &options.mb.to_string()].map(str::to_owned);
    let rounds = arms::rounds(options);
    let done = arms::run(programs, &ARMS, &load, rounds)?;
    let head = [
        "",
        "goodput / one path",
        "CPU per GB / one path",
        "smaller path's share",
    ];
    let mut table = Table::new(head.map(str::to_owned).to_vec());
    for (index, arm) in ARMS.iter().enumerate() {
        let mut row = vec![arm.name.to_owned()];
        if index == 0 {
            row.extend(["1", "1"].map(str::to_owned));
        } else {
            row.push(spread(ratios(&done, index, goodput)));
            row.push(spread(ratios(&done, index, cpu)));
        }
        let shares = done[index].iter().map(|both| both.figure("smaller_share"));
        row.push(match index {
            TWO => format!("{:.1} %", 100.0 * median(shares.collect())),
            _ => String::new(),
        });
        table.row(row);
    }
    let ratio = median(ratios(&done, TWO, goodput));
    let passed = verdict(ratio >= WANTED);
    let mut text = format!(
        "Ours only: one stream of one connection, server to client, {} MB; both paths lead over \
         loopback, from 127.0.0.1 and 127.0.0.2, and share what CPU there is: what a second path \
         costs, not what it brings. {rounds} rounds; a ratio is the median over rounds of runs side by \
         side, in brackets the quarters. *one path again* shows what the machine does to such a \
         ratio; *negotiated* has the extension and one path.\n\n",
        options.mb
    );
    text += &table.markdown();
    text += &format!(
        "\nTwo paths / one, goodput: **{ratio:.3}** (wanted at least {WANTED}, goal {GOAL}: {passed}).\n"
    );
    if options.instructions {
        text += &arms::counted(programs, &ARMS)?;
    }
    let mut command = "cargo xtask bench paths".to_owned();
    if options.mb != 1_000 {
        command += &format!(" --mb {}", options.mb);
    }
    if options.runs > arms::LEAST_ROUNDS {
        command += &format!(" --runs {}", options.runs);
    }
    if options.instructions {
        command += " --instructions";
    }
    Ok(Section {
        title: "Two paths: what the second costs on one machine".to_owned(),
        command,
        text,
    })
}
