//! `tautline lab show`.

use std::{fmt::Write, path::PathBuf};

use tautline_lab::{
    campaign::{cell_folder, cell_of},
    metric::METRICS,
    run::{Stage, Traces, Wanted, packets},
};

use super::Laboratory;
use crate::{
    failure::{Failure, Outcome},
    output::print,
};

/// Which cell to play again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of `tautline lab run`
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The number of the cell (column `cell`)
    #[arg(value_name = "CELL")]
    cell: usize,

    /// Where the qlog traces go [default: DIR/cell-CELL]
    #[arg(long, value_name = "DIR")]
    qlog_dir: Option<PathBuf>,

    /// Capture the first link's packets, as they reach it, with the clients' keys beside:
    /// packets.pcap and keys.log
    #[arg(long)]
    pcap: bool,

    /// Check from the packet log that no link did what it cannot do, and name what
    /// that cannot tell (100 bytes a packet)
    #[arg(long)]
    audit: bool,
}

/// Packets that an audit keeps: 5 GB of them.
const AUDITED_PACKETS: usize = 50_000_000;

pub(super) fn run(args: &Args, laboratory: &Laboratory) -> Outcome {
    let stacks = &laboratory.stacks;
    let (plan, results) = super::results(&args.folder, laboratory)?;
    if plan.is_of_field() {
        return Err(Failure::new(format!(
            "{} holds field data, which no simulation plays again; `{} field` runs the plan anew",
            args.folder.display(),
            laboratory.program
        )));
    }
    let words = |error: &dyn std::fmt::Display| Failure::new(error.to_string());
    let cell = cell_of(&plan, args.cell).map_err(|e| words(&e))?;
    let own = args.qlog_dir.clone();
    let into = own.unwrap_or_else(|| cell_folder(&args.folder, args.cell));
    let scene = plan.scene(&cell, stacks).map_err(|e| words(&e))?;
    let wanted = Wanted {
        qlog: true,
        packets: args.pcap,
    };
    let traces = Traces::into_folder(&into, wanted).map_err(|e| words(&e))?;
    let watch = traces.watch();
    let mut stage = Stage::build(&scene, stacks, cell.seed, watch).map_err(|e| words(&e))?;
    if args.audit {
        stage.audit(AUDITED_PACKETS);
    }
    traces.attach(&mut stage);
    let record = stage.play(&scene);
    let qlogs = traces.finish().map_err(|e| words(&e))?;
    let mut text = String::new();
    if !results.made_by.is_of_this_version() {
        let _ = writeln!(
            text,
            "its row was made by {}; played by this version it may come out otherwise",
            results.made_by
        );
    }
    let point = plan.points.get(cell.point);
    for (name, level) in plan
        .factors
        .iter()
        .zip(point.iter().flat_map(|p| &p.levels))
    {
        let _ = writeln!(text, "{name:>26}  {}", level.label);
    }
    let solution = plan.solutions.get(cell.solution);
    let _ = writeln!(
        text,
        "{:>26}  {}",
        "solution",
        solution.map_or("", |(name, _)| name)
    );
    let _ = writeln!(text, "{:>26}  {}", "seed", cell.seed);
    for metric in METRICS {
        if let Some(value) = (metric.compute)(&record) {
            let _ = writeln!(text, "{:>26}  {value:.6} {}", metric.name, metric.unit);
        }
    }
    for flow in &record.flows {
        if let Some(error) = &flow.error {
            let _ = writeln!(text, "flow {}: {error}", flow.name);
        }
    }
    for violation in &record.violations {
        let _ = writeln!(text, "impossible: {violation}");
    }
    if args.audit && record.violations.is_empty() {
        let checked = match record.unchecked.is_empty() {
            true => "",
            false => " as far as was checked",
        };
        let _ = writeln!(text, "audit: no link did what it cannot do{checked}");
    }
    for unchecked in &record.unchecked {
        let _ = writeln!(text, "not checked: {unchecked}");
    }
    let _ = match qlogs {
        0 => writeln!(text, "no qlog: the stacks of this cell write none"),
        _ => writeln!(text, "qlog traces in {}", into.display()),
    };
    if args.pcap {
        let _ = writeln!(
            text,
            "packets in {} (keys.log beside)",
            packets(&into).display()
        );
    }
    print(&text)?;
    if record.violations.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(
            "the audit found violations; the simulator is at fault",
        ))
    }
}
