//! What erasure correction costs where nothing is lost: loopback, negotiated, beside plain.
//!
//! Arms of one round run side by side, in turning order; only ratios within a round are told.

use std::process::Command;

use anyhow::{Result, bail};

use super::{
    Options,
    compare::median,
    instructions,
    program::{Both, Program, Programs},
    report::{Section, Table},
};

/// The environment variable that `bench-ours` takes its redundancy scheduler from.
const VARIABLE: &str = "BENCH_FEC";
/// What `auto` may do to goodput and to CPU per GB.
const WANTED_GOODPUT: f64 = 0.97;
const GOAL_GOODPUT: f64 = 0.99;
const WANTED_CPU: f64 = 1.03;
/// Fewer rounds than that say little of single per cents.
const LEAST_ROUNDS: usize = 15;

/// One way to run; the first is what the others are compared with.
struct Arm {
    name: &'static str,
    scheduler: Option<&'static str>,
}

const ARMS: [Arm; 4] = [
    Arm {
        name: "plain",
        scheduler: None,
    },
    // The same again: what ratios do by themselves here.
    Arm {
        name: "plain again",
        scheduler: None,
    },
    Arm {
        name: "auto",
        scheduler: Some("auto"),
    },
    // It protects whether that is worth something or not.
    Arm {
        name: "constant:25,20",
        scheduler: Some("constant:25,20"),
    },
];
/// The arm that has bars.
const AUTO: &str = "auto";

impl Arm {
    fn command(&self, program: &Program, programs: &Programs) -> Command {
        let mut command = program.command(&programs.identity);
        command.env_remove(VARIABLE);
        if let Some(scheduler) = self.scheduler {
            command.env(VARIABLE, scheduler);
        }
        command
    }

    fn measure(&self, programs: &Programs, load: &[String]) -> Result<Both> {
        let program = programs.ours();
        let mut server = self.command(program, programs);
        let mut client = self.command(program, programs);
        program.measure_with(&mut server, &mut client, load)
    }
}

fn goodput(both: &Both) -> f64 {
    both.figure("bytes") / both.figure("seconds")
}

fn cpu(both: &Both) -> f64 {
    both.cpu() / both.figure("bytes")
}

pub(super) fn run(programs: &Programs, options: &Options) -> Result<Section> {
    println!("\nErasure correction");
    let load = ["bulk", "--mb", &options.mb.to_string()].map(str::to_owned);
    let rounds = options.runs.max(LEAST_ROUNDS);
    let mut done: Vec<Vec<Both>> = ARMS.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for index in (0..ARMS.len()).map(|index| (round + index) % ARMS.len()) {
            let both = ARMS[index].measure(programs, &load)?;
            println!(
                "  run {} {:15} {:.2} Gb/s, {:.3} CPU-s per GB",
                round + 1,
                ARMS[index].name,
                goodput(&both) * 8e-9,
                cpu(&both) * 1e9
            );
            done[index].push(both);
        }
    }
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
        text += &counted(programs)?;
    }
    let mut command = "cargo xtask bench fec".to_owned();
    if options.mb != 1_000 {
        command += &format!(" --mb {}", options.mb);
    }
    if options.runs > LEAST_ROUNDS {
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

/// The ratios of an arm to the first one, round by round.
fn ratios(done: &[Vec<Both>], arm: usize, figure: fn(&Both) -> f64) -> Vec<f64> {
    let pairs = done[arm].iter().zip(&done[0]);
    pairs
        .map(|(it, plain)| figure(it) / figure(plain))
        .collect()
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

/// Median and quarters.
fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let lower = median(values[..half].to_vec());
    let upper = median(values[values.len() - half..].to_vec());
    format!("{:.3} ({lower:.3}-{upper:.3})", median(values))
}

fn bars(done: &[Vec<Both>]) -> String {
    let Some(auto) = ARMS.iter().position(|arm| arm.name == AUTO) else {
        return String::new();
    };
    let goodput = median(ratios(done, auto, goodput));
    let cpu = median(ratios(done, auto, cpu));
    let passed = |good: bool| if good { "pass" } else { "FAIL" };
    format!(
        "\n`auto` / plain, goodput: **{goodput:.3}** (wanted at least {WANTED_GOODPUT}, goal \
         {GOAL_GOODPUT}: {}).\n\n`auto` / plain, CPU per GB: **{cpu:.3}** (wanted at most {WANTED_CPU}: \
         {}).\n",
        passed(goodput >= WANTED_GOODPUT),
        passed(cpu <= WANTED_CPU),
    )
}

/// Instructions per packet, which noise does not move.
fn counted(programs: &Programs) -> Result<String> {
    let mut head = vec![String::new()];
    let mut rows: Vec<Vec<String>> = vec![
        vec!["instructions per packet, sending".to_owned()],
        vec!["instructions per packet, receiving".to_owned()],
    ];
    let mut plain: Vec<f64> = Vec::new();
    for (index, arm) in ARMS
        .iter()
        .enumerate()
        .filter(|(_, arm)| arm.name != "plain again")
    {
        println!("  counting {}", arm.name);
        let command = || arm.command(programs.ours(), programs);
        let each = instructions::bulk_per_packet(programs, &command)?;
        if each.iter().any(|count| !count.is_finite()) {
            bail!("callgrind counted nothing");
        }
        head.push(arm.name.to_owned());
        if index > 0 {
            head.push("/ plain".to_owned());
        }
        for (end, (row, count)) in rows.iter_mut().zip(each).enumerate() {
            row.push(format!("{count:.0}"));
            match plain.get(end).copied() {
                Some(plain) => row.push(format!("{:.3}", count / plain)),
                None => plain.push(count),
            }
        }
    }
    let mut table = Table::new(head);
    rows.into_iter().for_each(|row| table.row(row));
    Ok(format!(
        "\nInstructions between a download of 10 MB and one of 60 MB, by `valgrind --tool=callgrind`, \
         user space only:\n\n{}",
        table.markdown()
    ))
}
