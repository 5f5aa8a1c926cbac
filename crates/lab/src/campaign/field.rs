//! Field data: runs between two real machines, as rows of a campaign.
//!
//! Owns: [`Turn`] and the order of runs, [`FieldNote`] (what a row says beside figures), [`entry`] and its
//! columns. Does not own: machines, sockets, clocks (they are handed in).

use serde::{Deserialize, Serialize};
use tautline_transport::rng::Rng;

use super::{
    cell::{Entry, measure},
    columns::plain,
};
use crate::{
    plan::{Cell, Plan},
    run::Record,
    table::{Column, Kind, Value},
};

/// What tells the draw of orders from that of seeds.
const ORDERS: u64 = 0x6f72_6465_7273;

/// A run and its place among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// What is run.
    pub cell: Cell,
    /// Its place among all runs, from 0.
    pub order: u64,
    /// Its block, from 0: one repetition of one point with every solution.
    pub block: u64,
}

/// Every run of a plan in the order in which it is made: repetition by repetition, in each the points, and
/// at each point the solutions, in an order that the plan's draw decides. So slow drifts of a real network
/// favour no solution, and runs of a block, close to each other in time, can be compared as pairs. The
/// order is that of the whole plan, whatever has been run already.
pub fn turns(plan: &Plan) -> Vec<Turn> {
    let mut turns = Vec::new();
    let (points, solutions) = (plan.points.len(), plan.solutions.len());
    let mut rng = Rng::from_u64(plan.options.draw ^ ORDERS);
    for repetition in 0..plan.repetitions {
        for point in shuffled(points, &mut rng) {
            let block = (turns.len() / solutions.max(1)) as u64;
            for solution in shuffled(solutions, &mut rng) {
                let before = (point * solutions + solution) * plan.repetitions as usize;
                let cell = plan.cell(before + repetition as usize);
                let order = turns.len() as u64;
                turns.extend(cell.map(|cell| Turn { cell, order, block }));
            }
        }
    }
    turns
}

fn shuffled(count: usize, rng: &mut Rng) -> Vec<usize> {
    let mut all: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        all.swap(last, rng.below(last as u64 + 1) as usize);
    }
    all
}

/// What a row of field data says beside its figures. It holds a clock, for it is a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FieldNote {
    /// When the run began, as the machine that connects has it: UTC, RFC 3339.
    pub started: String,
    /// [`Turn::block`].
    pub block: u64,
    /// [`Turn::order`].
    pub order: u64,
    /// The other machine, as it was named.
    pub far: String,
    /// The shortest round trip to it right before the run, in ms.
    pub rtt_ms: Option<f64>,
    /// How far both machines' clocks may be apart in the run's figures at most, in ms.
    pub clock_error_ms: Option<f64>,
}

/// The row of a run that was made.
pub fn entry(plan: &Plan, cell: &Cell, record: &Record, note: FieldNote) -> Entry {
    Entry {
        // No network is the same twice.
        deterministic: false,
        field: Some(note),
        ..measure(plan, cell, record)
    }
}

/// The row of a run that could not be made: `refused` if it could not begin, else `error`.
pub fn failed(cell: &Cell, status: &str, reason: String, note: FieldNote) -> Entry {
    Entry {
        field: Some(note),
        ..Entry::failed(cell, status, reason, false)
    }
}

/// What rows of field data have beside those of simulations.
pub(super) fn columns() -> Vec<Column> {
    let measured = "field data, measured and not repeatable: ";
    let column = |name, kind, unit, meaning: &str| plain(name, kind, unit, meaning);
    vec![
        column(
            "started",
            Kind::Text,
            "",
            &format!(
                "{measured}when the run began, by the clock of the machine that connects, UTC"
            ),
        ),
        column(
            "block",
            Kind::Integer,
            "",
            "number of the block, from 0: the runs of one point and repetition, made one after the \
             other in an order drawn by the plan's draw; they are compared as pairs",
        ),
        column(
            "order",
            Kind::Integer,
            "",
            "place of the run among all, from 0",
        ),
        column(
            "network",
            Kind::Text,
            "",
            "`real`: between two machines; the simulated network of the plan was left aside, and its \
             metrics are empty",
        ),
        column(
            "far",
            Kind::Text,
            "",
            "the machine that accepts, as it was named",
        ),
        column(
            "control_rtt_ms",
            Kind::Number,
            "ms",
            &format!(
                "{measured}shortest round trip of the control connection right before the run"
            ),
        ),
        column(
            "clock_error_ms",
            Kind::Number,
            "ms",
            &format!(
                "{measured}half of control_rtt_ms: how far times that need both machines' clocks \
                 (uploads, delays of messages and datagrams) may be off, all alike"
            ),
        ),
    ]
}

/// The values of [`columns`].
pub(super) fn values(note: &FieldNote) -> [Value; 7] {
    [
        Value::text(&note.started),
        Value::integer(note.block),
        Value::integer(note.order),
        Value::text("real"),
        Value::text(&note.far),
        Value::number(note.rtt_ms),
        Value::number(note.clock_error_ms),
    ]
}
