//! What erasure correction costs where nothing is lost: loopback, negotiated, beside plain.
//!
//! Arms of one round run side by side; only ratios within a round are told.

use anyhow::Result;

use super::{
    Options,
    arms::{self, Arm, cpu, goodput, ratios, spread, surely},
    compare::median,
    program::{Both, Programs},
    report::{Section, Table, verdict},
};

/// The environment variable that `bench-ours` takes its redundancy scheduler from.
const VARIABLE: &str = "BENCH_FEC";
/// What `auto` may do to goodput and to CPU per GB.
const WANTED_GOODPUT: f64 = 0.97;
const GOAL_GOODPUT: f64 = 0.99;
const WANTED_CPU: f64 = 1.03;
const ARMS: [Arm; 4] = [
    Arm {
        name: "plain",
        set: None,
    },
    // The same again: what ratios do by themselves here.
    Arm {
        name: "plain again",
        set: None,
    },
    Arm {
        name: "auto",
        set: Some((VARIABLE, "auto")),
    },
    // It protects whether that is worth something or not.
    Arm {
        name: "constant:25,20",
        set: Some((VARIABLE, "constant:25,20")),
    },
];
/// The arm that has bars.
const AUTO: &str = "auto";

pub(super) fn run(programs: &Programs, options: &Options) -> Result<Section> {
    println!("\nErasure correction");
    let load = ["bulk", "--mb", &options.mb.to_string()].map(str::to_owned);
    let rounds = arms::rounds(options);
    let done = arms::run(programs, &ARMS, &load, rounds)?;
    let mut text = format!(
        "Ours only: one stream of one connection, server to client, {} MB, nothing lost; erasure \
         correction negotiated at both ends against not negotiated. {rounds} rounds; a ratio is the \
         median over rounds of runs side by side, in brackets the quarters. *plain again* shows what the \
         machine does to such a ratio; `constant:25,20` protects everything, worth it or not, and is \
         no recommendation.\n\n",
        options.mb
    );
    text += &table(&done).markdown();
    text += &bars(&done);
    if options.instructions {
        text += &arms::counted(programs, &ARMS)?;
    }
    let mut command = "cargo xtask bench fec".to_owned();
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
        title: "Erasure correction: what it costs where nothing is lost".to_owned(),
        command,
        text,
    })
}

fn table(done: &[Vec<Both>]) -> Table {
    let head = [
        "",
        "goodput / plain",
        "CPU per GB / plain",
        "packets / plain",
        "protected",
        "repair symbols",
    ];
    let mut table = Table::new(head.map(str::to_owned).to_vec());
    for (index, arm) in ARMS.iter().enumerate() {
        let sum = |name: &str| {
            done[index]
                .iter()
                .map(|both| both.figure(name))
                .sum::<f64>()
        };
        let share = |name: &str| format!("{:.2} %", sum(name) / sum("packets_received") * 100.0);
        let mut row = vec![arm.name.to_owned()];
        if index == 0 {
            row.extend(["1", "1", "1"].map(str::to_owned));
        } else {
            row.push(spread(ratios(done, index, goodput)));
            row.push(spread(ratios(done, index, cpu)));
            let packets = ratios(done, index, |both| both.figure("packets_received"));
            row.push(format!("{:.3}", median(packets)));
        }
        row.push(share("sources_received"));
        row.push(share("repairs_received"));
        table.row(row);
    }
    table
}

fn bars(done: &[Vec<Both>]) -> String {
    let Some(auto) = ARMS.iter().position(|arm| arm.name == AUTO) else {
        return String::new();
    };
    // Both runs of plain: one alone is known to less.
    let beside = |figure: fn(&Both) -> f64| -> Vec<f64> {
        let plain = done[0].iter().zip(&done[1]);
        let plain = plain.map(|(one, again)| (figure(one) * figure(again)).sqrt());
        done[auto]
            .iter()
            .zip(plain)
            .map(|(it, plain)| figure(it) / plain)
            .collect()
    };
    let told = |values: Vec<f64>, bar: String, holds: fn(f64) -> bool| {
        let (from, to) = surely(values.clone());
        let middle = median(values);
        let doubt = if holds(middle) && !(holds(from) && holds(to)) {
            ", if not for certain"
        } else {
            ""
        };
        let verdict = verdict(holds(middle));
        format!("**{middle:.3}** ({from:.3} to {to:.3}; wanted {bar}: {verdict}{doubt})")
    };
    format!(
        "\n`auto` beside both runs of plain (in brackets where the median lies with a confidence of 95 %). \
         Goodput: {}. CPU per GB: {}.\n",
        told(
            beside(goodput),
            format!("at least {WANTED_GOODPUT}, goal {GOAL_GOODPUT}"),
            |ratio| ratio >= WANTED_GOODPUT
        ),
        told(beside(cpu), format!("at most {WANTED_CPU}"), |ratio| ratio
            <= WANTED_CPU),
    )
}
