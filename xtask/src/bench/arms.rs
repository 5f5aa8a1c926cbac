//! Ours in several ways side by side: only ratios within a round are told.
//!
//! Arms of one round run one after the other, each as often behind each other one.

use std::process::Command;

use anyhow::{Result, bail};

use super::{
    Options,
    compare::median,
    instructions,
    program::{Both, Program, Programs},
    report::Table,
};

/// Fewer rounds than that say little of single per cents.
pub(super) const LEAST_ROUNDS: usize = 15;

/// One way to run; the first is what the others are compared with.
pub(super) struct Arm {
    pub(super) name: &'static str,
    /// An environment variable that `bench-ours` reads, at both ends.
    pub(super) set: Option<(&'static str, &'static str)>,
}

impl Arm {
    pub(super) fn command(&self, program: &Program, programs: &Programs) -> Command {
        let mut command = program.command(&programs.identity);
        for variable in ["BENCH_FEC", "BENCH_PATHS"] {
            command.env_remove(variable);
        }
        command.envs(self.set);
        command
    }

    fn measure(&self, programs: &Programs, load: &[String]) -> Result<Both> {
        let program = programs.ours();
        let mut server = self.command(program, programs);
        let mut client = self.command(program, programs);
        program.measure_with(&mut server, &mut client, load)
    }
}

/// How often to run, as the options say.
pub(super) fn rounds(options: &Options) -> usize {
    options.runs.max(LEAST_ROUNDS)
}

/// Every arm so often; by arm.
pub(super) fn run(
    programs: &Programs,
    arms: &[Arm],
    load: &[String],
    rounds: usize,
) -> Result<Vec<Vec<Both>>> {
    let mut done: Vec<Vec<Both>> = arms.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for index in order(round, arms.len()) {
            let both = arms[index].measure(programs, load)?;
            println!(
                "  run {} {:15} {:.2} Gb/s, {:.3} CPU-s per GB",
                round + 1,
                arms[index].name,
                goodput(&both) * 8e-9,
                cpu(&both) * 1e9
            );
            done[index].push(both);
        }
    }
    Ok(done)
}

/// The order of so many arms in a round. In as many rounds as arms each is at each place once, and of an even number each
/// comes once behind each other one (Williams, 1949): what ran before leaves its traces.
fn order(round: usize, arms: usize) -> Vec<usize> {
    let zigzag = (0..arms).map(|place| {
        let step = place.div_ceil(2);
        if place % 2 == 1 { step } else { arms - step }
    });
    zigzag.map(|arm| (arm + round) % arms).collect()
}

pub(super) fn goodput(both: &Both) -> f64 {
    both.figure("bytes") / both.figure("seconds")
}

pub(super) fn cpu(both: &Both) -> f64 {
    both.cpu() / both.figure("bytes")
}

/// The ratios of an arm to the first one, round by round.
pub(super) fn ratios(done: &[Vec<Both>], arm: usize, figure: fn(&Both) -> f64) -> Vec<f64> {
    let pairs = done[arm].iter().zip(&done[0]);
    pairs
        .map(|(it, first)| figure(it) / figure(first))
        .collect()
}

/// Median and quarters.
pub(super) fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let lower = median(values[..half].to_vec());
    let upper = median(values[values.len() - half..].to_vec());
    format!("{:.3} ({lower:.3}-{upper:.3})", median(values))
}

/// Where the true median lies, with a confidence of at least 95 %: by the ranks of what was measured, from, to.
pub(super) fn surely(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let half = values.len() as f64 / 2.0;
    let aside = 0.98 * (values.len() as f64).sqrt();
    let at = |rank: f64| {
        let rank = (rank.max(0.0) as usize).min(values.len().saturating_sub(1));
        values.get(rank).copied().unwrap_or(f64::NAN)
    };
    (at((half - aside).floor() - 1.0), at((half + aside).ceil()))
}

/// Instructions per packet of each arm, which noise does not move; arms that are the first again are left out.
pub(super) fn counted(programs: &Programs, arms: &[Arm]) -> Result<String> {
    let mut head = vec![String::new()];
    let mut rows: Vec<Vec<String>> = vec![
        vec!["instructions per packet, sending".to_owned()],
        vec!["instructions per packet, receiving".to_owned()],
    ];
    let mut first: Vec<f64> = Vec::new();
    for (index, arm) in arms
        .iter()
        .enumerate()
        .filter(|(_, arm)| !arm.name.ends_with(" again"))
    {
        println!("  counting {}", arm.name);
        let command = || arm.command(programs.ours(), programs);
        let each = instructions::bulk_per_packet(programs, &command)?;
        if each.iter().any(|count| !count.is_finite()) {
            bail!("callgrind counted nothing");
        }
        head.push(arm.name.to_owned());
        if index > 0 {
            head.push(format!("/ {}", arms[0].name));
        }
        for (end, (row, count)) in rows.iter_mut().zip(each).enumerate() {
            row.push(format!("{count:.0}"));
            match first.get(end).copied() {
                Some(first) => row.push(format!("{:.3}", count / first)),
                None => first.push(count),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arm_comes_once_behind_each_other() {
        for arms in [2, 4, 6] {
            let rounds: Vec<_> = (0..arms).map(|round| order(round, arms)).collect();
            let mut pairs: Vec<_> = rounds
                .iter()
                .flat_map(|order| order.windows(2).map(|pair| (pair[0], pair[1])))
                .collect();
            pairs.sort_unstable();
            pairs.dedup();
            assert_eq!(pairs.len(), arms * (arms - 1), "{rounds:?}");
        }
        for arms in 1..7 {
            for place in 0..arms {
                let mut there: Vec<_> = (0..arms).map(|round| order(round, arms)[place]).collect();
                there.sort_unstable();
                assert!(there.iter().copied().eq(0..arms), "{arms}: {there:?}");
            }
        }
    }

    #[test]
    fn more_rounds_tell_more() {
        let rounds = |count: u32| {
            (0..count)
                .map(|at| f64::from(at) / f64::from(count))
                .collect()
        };
        let (low, high) = surely(rounds(100));
        assert_eq!((low, high), (0.39, 0.6));
        let (low, high) = surely(rounds(400));
        assert!(low > 0.44 && high < 0.56, "{low} {high}");
        assert!(surely(Vec::new()).0.is_nan());
        assert_eq!(surely(vec![1.0]), (1.0, 1.0));
    }
}
