//! One cell: played, measured, and put into an entry of the journal.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tautline_transport::time::Instant;

use super::FieldNote;
use crate::{
    metric::{FLOW_METRICS, METRICS},
    plan::{Cell, Plan},
    run::{FlowRecord, Record, Stage, TraceError, Traces, Wanted},
    stack::{PathWire, Stacks},
    table::Value,
};

/// What is kept of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub cell: usize,
    /// `ok`; `limit`: not finished when the run's time was over; `error`: a measured connection
    /// failed; `refused`: it could not begin; `panic`: a fault of the laboratory or a stack.
    pub status: String,
    /// Why, unless `ok`.
    pub reason: Option<String>,
    /// Whether every stack in it repeats itself.
    pub deterministic: bool,
    /// The metrics of a cell, in their order.
    pub metrics: Vec<Value>,
    /// Measures that only the workload has.
    pub extra: BTreeMap<String, f64>,
    /// Connections.
    pub flows: Vec<FlowEntry>,
    /// Paths of connections that could have several.
    #[serde(default)]
    pub paths: Vec<PathEntry>,
    /// Time series, if wanted.
    pub series: Vec<Moment>,
    /// Items, if wanted.
    pub items: Vec<Kept>,
    /// What field data says beside; nothing of simulations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<FieldNote>,
}

/// A connection at a moment: which, time in s, bytes received, RTT in ms, window, bytes in flight,
/// packets sent, packets lost. A tuple, for there are many of them in a line of the journal.
pub type Moment = (usize, f64, u64, Option<f64>, u64, Option<u64>, u64, u64);

/// An item: its connection, bytes, when it was wanted in s, its delay in ms, whether on time.
pub type Kept = (usize, u64, f64, Option<f64>, bool);

/// What is kept of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowEntry {
    /// The flow's name.
    pub name: String,
    /// Its stack.
    pub stack: String,
    /// Its congestion controller, if one was named.
    pub congestion: Option<String>,
    /// Whether the cell's metrics count it.
    pub measured: bool,
    /// Why it ended, if by an error.
    pub error: Option<String>,
    /// The metrics of a connection, in their order.
    pub metrics: Vec<Value>,
    /// Measures that only the workload has.
    pub extra: BTreeMap<String, f64>,
}

/// What is kept of one of several paths. Times are since the connection's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathEntry {
    /// The number of its connection.
    pub flow: usize,
    /// The client's place at its near end.
    pub path: String,
    /// Its number in the protocol.
    pub id: u64,
    /// UDP payload bytes that the end sent which sends most.
    pub sent: u64,
    /// And the other end.
    pub back: u64,
    /// `sent` in that of all paths of the connection.
    pub share: Option<f64>,
    /// Packets of the sender that count as in flight.
    pub packets: u64,
    /// Of these, declared lost.
    pub lost: u64,
    /// The sender's probe timeouts.
    pub ptos: u64,
    /// The sender's smoothed RTT in ms.
    pub rtt: Option<f64>,
    /// Its smallest.
    pub min_rtt: Option<f64>,
    /// When the client knew it to be usable, in s.
    pub validated: Option<f64>,
    /// When the first data came over it, in s.
    pub first_data: Option<f64>,
}

impl Entry {
    pub(super) fn failed(cell: &Cell, status: &str, reason: String, deterministic: bool) -> Self {
        Self {
            cell: cell.index,
            status: status.to_owned(),
            reason: Some(reason),
            deterministic,
            metrics: vec![Value::NONE; METRICS.len()],
            extra: BTreeMap::new(),
            flows: Vec::new(),
            paths: Vec::new(),
            series: Vec::new(),
            items: Vec::new(),
            field: None,
        }
    }
}

/// Plays a cell. Whatever goes wrong is in the entry.
pub fn run_cell(plan: &Plan, cell: &Cell, stacks: &Stacks) -> Entry {
    run_watched(plan, cell, stacks, None)
}

/// As [`run_cell`], with its traces into a folder; the entry is the same.
///
/// # Errors
/// Beside the entry, when a trace could not be written.
pub(super) fn run_traced(
    plan: &Plan,
    cell: &Cell,
    stacks: &Stacks,
    (folder, wanted): (&Path, Wanted),
) -> (Entry, Result<(), TraceError>) {
    if !wanted.is_any() {
        return (run_cell(plan, cell, stacks), Ok(()));
    }
    match Traces::into_folder(folder, wanted) {
        Ok(traces) => {
            let entry = run_watched(plan, cell, stacks, Some(&traces));
            // Of a cell that failed, too: it is the one that somebody will look at.
            (entry, traces.finish().map(|_| ()))
        }
        Err(error) => (run_cell(plan, cell, stacks), Err(error)),
    }
}

fn run_watched(plan: &Plan, cell: &Cell, stacks: &Stacks, traces: Option<&Traces>) -> Entry {
    let scene = match plan.scene(cell, stacks) {
        Ok(scene) => scene,
        Err(error) => return Entry::failed(cell, "refused", error.to_string(), true),
    };
    let deterministic = scene.is_deterministic(stacks);
    let played = catch_unwind(AssertUnwindSafe(|| {
        let watch = traces.map(Traces::watch).unwrap_or_default();
        let mut stage = Stage::build(&scene, stacks, cell.seed, watch)?;
        if let Some(traces) = traces {
            traces.attach(&mut stage);
        }
        let record = stage.play(&scene);
        Ok::<Entry, crate::run::PlayError>(measure(plan, cell, &record))
    }));
    match played {
        Ok(Ok(entry)) => entry,
        Ok(Err(error)) => Entry::failed(cell, "refused", error.to_string(), deterministic),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Entry::failed(cell, "panic", text.unwrap_or_default(), deterministic)
        }
    }
}

pub(super) fn measure(plan: &Plan, cell: &Cell, record: &Record) -> Entry {
    let (status, reason) = verdict(record);
    let metrics = METRICS
        .iter()
        .map(|metric| Value::number((metric.compute)(record)))
        .collect();
    let extra = record.measured().next().map(extra).unwrap_or_default();
    let series = match plan.keep.series {
        Some(step) => series(record, step),
        None => Vec::new(),
    };
    let items = if plan.keep.items {
        items(record)
    } else {
        Vec::new()
    };
    let deterministic = record.flows.iter().all(|flow| flow.deterministic);
    let flows = record.flows.iter().map(flow_entry).collect();
    Entry {
        cell: cell.index,
        status: status.to_owned(),
        reason,
        deterministic,
        metrics,
        extra,
        flows,
        paths: paths(record),
        series,
        items,
        field: None,
    }
}

fn paths(record: &Record) -> Vec<PathEntry> {
    let mut rows = Vec::new();
    for (index, flow) in record.flows.iter().enumerate() {
        let all: u64 = flow.path_bytes().sum();
        for path in &flow.paths {
            let millis = |of: fn(&PathWire) -> Duration| {
                path.sender.map(|wire| of(&wire).as_secs_f64() * 1e3)
            };
            let since =
                |at: Option<Instant>| at.map(|at| at.saturating_since(flow.start).as_secs_f64());
            let sent = |wire: Option<PathWire>| wire.map_or(0, |wire| wire.bytes_sent);
            let share = sent(path.sender) as f64 / all as f64;
            rows.push(PathEntry {
                flow: index,
                path: path.home.clone(),
                id: path.id,
                sent: sent(path.sender),
                back: sent(path.receiver),
                share: Some(share).filter(|share| share.is_finite()),
                packets: path.sender.map_or(0, |wire| wire.packets_sent),
                lost: path.sender.map_or(0, |wire| wire.packets_lost),
                ptos: path.sender.map_or(0, |wire| wire.ptos),
                rtt: millis(|wire| wire.rtt),
                min_rtt: millis(|wire| wire.min_rtt),
                validated: since(path.validated),
                first_data: since(path.receiver.and_then(|wire| wire.first_data)),
            });
        }
    }
    rows
}

fn flow_entry(flow: &FlowRecord) -> FlowEntry {
    FlowEntry {
        name: flow.name.clone(),
        stack: flow.stack.clone(),
        congestion: flow.congestion.clone(),
        measured: flow.measured,
        error: flow.error.clone(),
        metrics: FLOW_METRICS
            .iter()
            .map(|metric| Value::number((metric.compute)(flow)))
            .collect(),
        extra: extra(flow),
    }
}

fn extra(flow: &FlowRecord) -> BTreeMap<String, f64> {
    let of = flow.receiver.extra.iter();
    of.map(|(name, value)| ((*name).to_owned(), *value))
        .collect()
}

fn verdict(record: &Record) -> (&'static str, Option<String>) {
    if record.stuck {
        let seconds = record.end.as_secs_f64();
        let reason = format!(
            "at {seconds} s a program asked for time or sent without end, or packets circled: a fault of \
             the stack or of the network"
        );
        return ("error", Some(reason));
    }
    for flow in record.measured() {
        if flow.receiver.finished.is_some() || flow.endless {
            if let Some(error) = flow
                .error
                .as_ref()
                .filter(|_| flow.receiver.finished.is_none())
            {
                return ("error", Some(format!("flow {}: {error}", flow.name)));
            }
            let began = flow.start.since_origin() < record.end;
            if flow.connected.is_none() && flow.receiver.finished.is_none() && began {
                let seconds = record.end.as_secs_f64();
                let reason = format!("flow {} had not connected after {seconds} s", flow.name);
                return ("limit", Some(reason));
            }
            continue;
        }
        return match &flow.error {
            Some(error) => ("error", Some(format!("flow {}: {error}", flow.name))),
            None => {
                let seconds = record.end.as_secs_f64();
                let reason = format!("flow {} has not finished after {seconds} s", flow.name);
                ("limit", Some(reason))
            }
        };
    }
    ("ok", None)
}

fn series(record: &Record, step: Duration) -> Vec<Moment> {
    let mut rows = Vec::new();
    for (index, flow) in record.flows.iter().enumerate() {
        let mut next = Duration::ZERO;
        for sample in &flow.history {
            let at = sample.at.since_origin();
            if at < next {
                continue;
            }
            next = at + step;
            let wire = &sample.wire;
            rows.push((
                index,
                at.as_secs_f64(),
                sample.received,
                wire.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
                wire.window,
                wire.in_flight,
                wire.packets_sent,
                wire.packets_lost,
            ));
        }
    }
    rows
}

fn items(record: &Record) -> Vec<Kept> {
    let mut rows = Vec::new();
    for (index, flow) in record
        .flows
        .iter()
        .enumerate()
        .filter(|(_, flow)| flow.measured)
    {
        for item in &flow.receiver.items {
            let delay = item.duration().map(|delay| delay.as_secs_f64() * 1e3);
            let wanted = item.wanted.since_origin().as_secs_f64();
            rows.push((index, item.bytes, wanted, delay, item.on_time()));
        }
    }
    rows
}
