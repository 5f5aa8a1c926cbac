//! Erasure codes of several makers at the same tasks, on the same bytes, in one process.
//!
//! `bench-codes cpu` says what the processor offers and which kernels ours can use; `bench-codes
//! measure` times everybody in interleaved rounds; `bench-codes repeat` does one thing so many
//! times, for a profiler. All print one line of JSON.
//!
//! Before anything is timed, what each subject makes is taken apart by the decoder of the same
//! maker and compared with the source symbols.

mod erasure;
mod measure;
mod ours;
mod raptor;
mod rlnc;
mod simd;
mod subject;
mod task;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use serde_json::{Value, json};
use tautline_codes::gf256::{InstructionSet, Kernel};

use crate::{subject::Subject, task::Task};

#[derive(Parser)]
#[command(about = "Erasure codes of several makers at the same tasks")]
struct Options {
    #[command(subcommand)]
    command: Command,
    /// The kernel ours uses: a name that `cpu` prints. The fastest, if not given. Others choose
    /// theirs themselves.
    #[arg(long, global = true)]
    kernel: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    /// What the processor offers, and the kernels of ours that run here.
    Cpu,
    /// Times everybody at every task.
    Measure {
        /// Rounds of each task.
        #[arg(long, default_value_t = 200)]
        rounds: usize,
    },
    /// The names of those who take part in a task.
    Subjects {
        #[arg(value_enum)]
        task: Task,
    },
    /// One subject at one task, so many times.
    Repeat {
        #[arg(value_enum)]
        task: Task,
        /// A name that `subjects` prints.
        subject: String,
        times: u64,
    },
}

fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(name) = &options.kernel {
        let kernel = Kernel::available()
            .find(|kernel| kernel.instructions().name() == name)
            .with_context(|| format!("no kernel {name} here: {}", kernels().join(", ")))?;
        if !kernel.make_best() {
            bail!("the kernel was chosen before");
        }
    }
    let said = match options.command {
        Command::Cpu => json!({ "cpu": features(), "kernels": kernels() }),
        Command::Measure { rounds } => measured(rounds)?,
        Command::Subjects { task } => {
            let names: Vec<_> = task.entries().iter().map(|entry| entry.name).collect();
            json!({ "subjects": names })
        }
        Command::Repeat {
            task,
            subject,
            times,
        } => {
            let mut subject = task.entry(&subject)?.verified()?;
            for _ in 0..times {
                subject.prepare()?;
                counted(subject.as_mut())?;
            }
            json!({ "times": times })
        }
    };
    println!("{said}");
    Ok(())
}

/// What a profiler is to look at: `cargo xtask bench codes` knows its name.
#[inline(never)]
fn counted(subject: &mut dyn Subject) -> Result<()> {
    subject.work()
}

fn measured(rounds: usize) -> Result<Value> {
    let kernel = Kernel::best().instructions().name();
    let mut tasks = serde_json::Map::new();
    for task in Task::ALL {
        let mut subjects = Vec::new();
        for entry in task.entries() {
            subjects.push((entry.name, entry.verified()?));
        }
        let figures = measure::interleaved(&mut subjects, rounds)?;
        tasks.insert(task.name().to_owned(), Value::Array(figures));
    }
    Ok(json!({ "kernel": kernel, "tasks": tasks }))
}

/// Names of the kernels of ours that run here, slowest first.
fn kernels() -> Vec<&'static str> {
    Kernel::available()
        .map(Kernel::instructions)
        .map(InstructionSet::name)
        .collect()
}

/// What of interest to codes the processor has, whether anybody uses it or not.
fn features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let features = [
        ("ssse3", std::is_x86_feature_detected!("ssse3")),
        ("avx2", std::is_x86_feature_detected!("avx2")),
        ("avx512f", std::is_x86_feature_detected!("avx512f")),
        ("avx512bw", std::is_x86_feature_detected!("avx512bw")),
        ("avx512vbmi", std::is_x86_feature_detected!("avx512vbmi")),
        ("gfni", std::is_x86_feature_detected!("gfni")),
    ];
    #[cfg(target_arch = "aarch64")]
    let features = [("neon", std::arch::is_aarch64_feature_detected!("neon"))];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let features = [("", false)];
    let there = features.into_iter().filter(|(_, there)| *there);
    there.map(|(name, _)| name).collect()
}
