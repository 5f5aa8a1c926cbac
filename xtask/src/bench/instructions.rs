//! Instructions per packet, counted by callgrind: the figure that noise does not move.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};

use super::{
    program::{Program, Programs, number},
    report::{Section, Table},
};
use crate::tools;

/// Two sizes: the difference leaves start-up, handshake and slow start out.
const FEW_MB: u64 = 10;
const MANY_MB: u64 = 60;
/// Functions in the table.
const TOP: usize = 25;

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Client,
    Server,
}

/// What one profiled run gave.
struct Profile {
    instructions: f64,
    packets: f64,
    /// Instructions by function.
    functions: Vec<(String, f64)>,
}

pub(super) fn run(programs: &Programs) -> Result<Section> {
    if !tools::has("valgrind") {
        bail!("no `valgrind` on the PATH (Debian: apt-get install valgrind)");
    }
    println!("\nInstructions");
    let program = programs.ours();
    let mut text = String::from(
        "Ours only, by `valgrind --tool=callgrind`: user space, without the kernel; the CPU that \
         valgrind shows has AES-NI and AVX2 but no AVX-512, so that AES-GCM takes more \
         instructions than outside. Per packet received by the client, between a download of \
         10 MB and one of 60 MB.\n",
    );
    for end in [End::Server, End::Client] {
        let few = profile(program, programs, end, FEW_MB)?;
        let many = profile(program, programs, end, MANY_MB)?;
        let packets = many.packets - few.packets;
        let each = (many.instructions - few.instructions) / packets;
        let name = if end == End::Server {
            "sending"
        } else {
            "receiving"
        };
        let mut table = Table::new(
            ["function", "per packet", "share"]
                .map(str::to_owned)
                .to_vec(),
        );
        let mut crypto = 0.0;
        let mut rows: Vec<_> = many
            .functions
            .iter()
            .map(|(function, count)| {
                let before = few.functions.iter().find(|(it, _)| it == function);
                (
                    function,
                    (count - before.map_or(0.0, |(_, count)| *count)) / packets,
                )
            })
            .collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (function, count) in &rows {
            if is_cipher(function) {
                crypto += count;
            }
        }
        for (function, count) in rows.iter().take(TOP) {
            table.row(vec![
                (*function).clone(),
                format!("{count:.0}"),
                format!("{:.1} %", count / each * 100.0),
            ]);
        }
        text += &format!(
            "\n**{name}: {each:.0} instructions per packet**, {crypto:.0} of them ciphers, {:.0} \
             everything else.\n\n{}",
            each - crypto,
            table.markdown()
        );
    }
    Ok(Section {
        title: "Instructions: where they go in bulk".to_owned(),
        command: "cargo xtask bench callgrind".to_owned(),
        text,
    })
}

/// Whether a function is AES-GCM's or header protection's inner part.
fn is_cipher(function: &str) -> bool {
    let name = function.to_ascii_lowercase();
    ["aes", "gcm", "ghash"]
        .iter()
        .any(|part| name.contains(part))
}

fn profile(program: &Program, programs: &Programs, end: End, mb: u64) -> Result<Profile> {
    let out = programs.folder.join("callgrind.out");
    let plain = || program.command(&programs.identity);
    let mut watched = Command::new("valgrind");
    watched.args(["--tool=callgrind", "--quiet", "--log-file=/dev/null"]);
    watched.arg(format!("--callgrind-out-file={}", out.display()));
    let inner = plain();
    watched.arg(inner.get_program()).args(inner.get_args());
    let (mut server, mut client) = match end {
        End::Server => (watched, plain()),
        End::Client => (plain(), watched),
    };
    let load = ["bulk".to_owned(), "--mb".to_owned(), mb.to_string()];
    let both = program.measure_with(&mut server, &mut client, &load)?;
    let functions = annotate(&out)?;
    Ok(Profile {
        instructions: functions.iter().map(|(_, count)| count).sum(),
        packets: number(&both.client, "packets_received"),
        functions,
    })
}

/// Instructions by function, as `callgrind_annotate` counts them.
fn annotate(file: &Path) -> Result<Vec<(String, f64)>> {
    let output = Command::new("callgrind_annotate")
        .args(["--threshold=100", "--auto=no", "--show-percs=no"])
        .arg(file)
        .output()
        .context("cannot run callgrind_annotate")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut functions: Vec<(String, f64)> = Vec::new();
    for line in text.lines() {
        let Some((count, place)) = line.trim_start().split_once("  ") else {
            continue;
        };
        let Ok(count) = count.replace(',', "").parse::<f64>() else {
            continue;
        };
        let Some((_, function)) = place.split_once(':') else {
            continue;
        };
        let function = readable(function);
        match functions.iter_mut().find(|(it, _)| *it == function) {
            Some((_, sum)) => *sum += count,
            None => functions.push((function, count)),
        }
    }
    Ok(functions)
}

/// Without the object's path, hashes and the crates' own prefix.
fn readable(function: &str) -> String {
    let name = function.split(" [").next().unwrap_or(function).trim();
    let name = match name.rfind("::h") {
        Some(at) if name.len() - at == 19 => &name[..at],
        _ => name,
    };
    let name = name
        .replace("tautline_transport::", "")
        .replace("aws_lc_0_", "");
    name.replace('|', "\\|")
}
