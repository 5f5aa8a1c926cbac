//! Metrics of a whole cell: over the measured flows, and of the measured link in their direction.

use std::time::Duration;

use tautline_sim::{Direction, DirectionStats, PAYLOAD_SHARE};

use super::{CellMetric, bound::repair_bound, fec, jain, paths, quantile};
use crate::{
    outcome::Item,
    run::{FlowRecord, LinkRecord, Record},
    stack::WireStats,
};

macro_rules! metric {
    ($name:literal, $unit:literal, $better:expr, $formula:literal, $paper:literal, $compute:expr) => {
        CellMetric {
            name: $name,
            unit: $unit,
            formula: $formula,
            paper: $paper,
            more_is_better: $better,
            compute: $compute,
        }
    };
}

pub(super) use metric;

/// Every metric of a cell, in the order of the columns.
pub const METRICS: &[CellMetric] = &[
    metric!(
        "completion_s",
        "s",
        Some(false),
        "last byte of the last measured flow at the receiving application, less the start of the first; empty when a flow did not finish",
        "download completion time (DCT, 003); download time (002)",
        |r| completion(r, |flow| flow.start)
    ),
    metric!(
        "request_completion_s",
        "s",
        Some(false),
        "like completion_s, from when the client's workload could begin: the handshake complete and, with ready = \"paths\", its paths validated",
        "DCT without handshake (003 7.5.2)",
        |r| r
            .measured()
            .map(|flow| {
                let (from, to) = (flow.connected?, flow.receiver.finished?);
                Some(to.saturating_since(from).as_secs_f64())
            })
            .try_fold(0.0f64, |most, one| Some(most.max(one?)))
    ),
    metric!(
        "ready_s",
        "s",
        Some(false),
        "from a measured flow's start until its client's workload could begin; the longest",
        "",
        |r| r
            .measured()
            .map(|flow| Some(flow.connected?.saturating_since(flow.start).as_secs_f64()))
            .try_fold(0.0f64, |most, one| Some(most.max(one?)))
    ),
    metric!(
        "goodput_mbps",
        "Mb/s",
        Some(true),
        "application bytes received in order by the measured flows in the window x 8 / window; the window ends with the last measured flow; empty when it ended before the window",
        "goodput (002 eq. 6.1)",
        |r| Some(goodput(r)? / 1e6)
    ),
    metric!(
        "total_goodput_mbps",
        "Mb/s",
        Some(true),
        "like goodput_mbps, all flows that cross the measured link in the direction of the measured ones (of the first that crosses it, where they go both ways); where none crosses it, all that do not",
        "",
        |r| Some(total_goodput(r)? / 1e6)
    ),
    metric!(
        "other_goodput_mbps",
        "Mb/s",
        Some(true),
        "like goodput_mbps, the flows that are not measured, whichever their direction: what cross traffic gets; empty where all are measured",
        "",
        |r| Some(other_goodput(r)? / 1e6)
    ),
    metric!(
        "utilisation",
        "1",
        Some(true),
        "goodput of all flows towards the measured ones' receivers / capacity of the measured link in that direction and window (IP bytes, changes at set times counted, a trace with its mean); empty where the rate varies otherwise. Bytes that waited for a gap to be filled can put it above 1",
        "link utilisation (002 eq. 6.2)",
        |r| Some(total_goodput(r)? / capacity(r)?)
    ),
    metric!(
        "share_of_r",
        "1",
        Some(true),
        "goodput of the measured flows of the measured link and direction / R, R = 0.9588 x capacity x (1 - loss)",
        "",
        |r| {
            let loss = bottleneck(r)?.1.loss;
            let rate = capacity(r)? * PAYLOAD_SHARE * (1.0 - loss);
            Some(own_goodput(r)? / rate)
        }
    ),
    metric!(
        "jain",
        "1",
        Some(true),
        "Jain's index over the goodputs in the window of the flows in the measured direction that were there for the whole of it: begun by its start, neither finished nor stopped before its end; empty when fewer than two were",
        "Jain's fairness index (002 eq. 6.3)",
        |r| jain(&lasting_rates(r)?)
    ),
    metric!(
        "share",
        "1",
        None,
        "goodput of the measured flows of the measured link and direction / goodput of all flows there (total_goodput_mbps), in the window",
        "bandwidth share (002)",
        |r| {
            let (own, total) = (own_goodput(r)?, total_goodput(r)?);
            (total > 0.0).then(|| own / total)
        }
    ),
    metric!(
        "rtt_mean_ms",
        "ms",
        Some(false),
        "mean of the senders' smoothed RTT (less the acknowledgement delay that the receiver states, RFC 9002 s5.3, where the stack knows it) over the samples in the window",
        "RTT",
        |r| {
            let values = rtts(r);
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        }
    ),
    metric!(
        "rtt_p95_ms",
        "ms",
        Some(false),
        "95th percentile of the same samples",
        "",
        |r| {
            let mut values = rtts(r);
            values.sort_by(f64::total_cmp);
            quantile(&values, 0.95)
        }
    ),
    metric!(
        "queue_delay_ms",
        "ms",
        Some(false),
        "mean time from reaching the measured link's queue until the last byte has left it, measured direction, all flows, whole run",
        "queueing delay",
        |r| Some(bottleneck(r)?.0.mean_sojourn()?.as_secs_f64() * 1e3)
    ),
    metric!(
        "queue_max_bytes",
        "B",
        Some(false),
        "most IP bytes that waited at the measured link in the measured direction",
        "",
        |r| Some(bottleneck(r)?.0.queue_max_bytes as f64)
    ),
    metric!(
        "queue_drops",
        "packets",
        Some(false),
        "packets dropped by the measured link's queue in the measured direction: because it was full, or by its management",
        "",
        |r| bottleneck(r).map(|(stats, _)| (stats.dropped.queue + stats.dropped.aqm) as f64)
    ),
    metric!(
        "link_losses",
        "packets",
        None,
        "packets that the measured link lost in the measured direction otherwise: by its loss models, in outages, by scripted index, above its MTU",
        "",
        |r| {
            let drops = &bottleneck(r)?.0.dropped;
            Some((drops.total() - drops.queue - drops.aqm) as f64)
        }
    ),
    metric!(
        "ce_marks",
        "packets",
        None,
        "packets marked CE by the measured link in the measured direction",
        "",
        |r| Some(bottleneck(r)?.0.ce_marked as f64)
    ),
    metric!(
        "return_bytes",
        "B",
        Some(false),
        "IP bytes offered to the measured link against the measured direction",
        "",
        |r| Some(bottleneck(r)?.1.back.sent_bytes as f64)
    ),
    metric!(
        "packets_sent",
        "packets",
        None,
        "in-flight packets sent by the measured flows' senders",
        "",
        |r| sum(r, |wire| Some(wire.packets_sent))
    ),
    metric!(
        "packets_lost",
        "packets",
        Some(false),
        "of these, declared lost",
        "",
        |r| sum(r, |wire| Some(wire.packets_lost))
    ),
    metric!(
        "spurious_losses",
        "packets",
        Some(false),
        "of these, acknowledged after all; empty when a stack does not tell",
        "",
        |r| sum(r, |wire| wire.spurious_losses)
    ),
    metric!(
        "ptos",
        "1",
        Some(false),
        "probe timeouts of the measured flows' senders; empty when a stack does not tell",
        "",
        |r| sum(r, |wire| wire.ptos)
    ),
    metric!(
        "loss_rate",
        "1",
        Some(false),
        "packets_lost / packets_sent",
        "packet loss ratio",
        |r| ratio(
            sum(r, |wire| Some(wire.packets_lost))?,
            sum(r, |wire| Some(wire.packets_sent))?
        )
    ),
    metric!(
        "overhead",
        "1",
        Some(false),
        "UDP payload bytes sent by the measured flows' senders / application bytes received",
        "overhead (003 5.6.2)",
        |r| ratio(sum(r, |wire| Some(wire.bytes_sent))?, delivered(r))
    ),
    metric!(
        "acks_per_packet",
        "1",
        Some(false),
        "ACK frames sent by the receivers / packets sent by the senders, measured flows",
        "ACK ratio (002 6.4.3)",
        |r| {
            let acks: u64 = r
                .measured()
                .map(|flow| flow.receiver_wire.map(|wire| wire.acks_sent))
                .sum::<Option<u64>>()?;
            ratio(acks as f64, sum(r, |wire| Some(wire.packets_sent))?)
        }
    ),
    metric!(
        "return_bytes_per_packet",
        "B",
        Some(false),
        "UDP payload bytes sent by the receivers / packets sent by the senders, measured flows",
        "",
        |r| {
            let bytes: u64 = r
                .measured()
                .map(|flow| flow.receiver_wire.map(|wire| wire.bytes_sent))
                .sum::<Option<u64>>()?;
            ratio(bytes as f64, sum(r, |wire| Some(wire.packets_sent))?)
        }
    ),
    fec::REPAIR_SENT,
    fec::USEFUL,
    fec::WASTED,
    fec::RECOVERED,
    fec::RESIDUAL_LOSS,
    paths::FIRST_PATH_SHARE,
    paths::LEAST_PATH_SHARE,
    paths::PATHS_USED,
    paths::SECOND_PATH_S,
    paths::SHARE_OF_PATHS,
    paths::STALL_MAX_MS,
    paths::ITEM_EXCESS_MS,
    metric!(
        "items",
        "1",
        None,
        "objects, messages, datagrams or segments of the measured flows",
        "",
        |r| Some(items(r).count() as f64)
    ),
    metric!(
        "items_done",
        "1",
        Some(true),
        "of these, those that came whole",
        "",
        |r| Some(items(r).filter(|item| item.done.is_some()).count() as f64)
    ),
    metric!(
        "item_mean_ms",
        "ms",
        Some(false),
        "mean time from wanted to complete, of those that came",
        "message delay",
        |r| {
            let all = durations(r);
            (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
        }
    ),
    metric!(
        "item_p50_ms",
        "ms",
        Some(false),
        "median of the same",
        "",
        |r| quantile(&durations(r), 0.5)
    ),
    metric!(
        "item_p95_ms",
        "ms",
        Some(false),
        "95th percentile of the same",
        "",
        |r| quantile(&durations(r), 0.95)
    ),
    metric!(
        "item_p99_ms",
        "ms",
        Some(false),
        "99th percentile of the same",
        "",
        |r| quantile(&durations(r), 0.99)
    ),
    metric!(
        "item_max_ms",
        "ms",
        Some(false),
        "largest of the same",
        "",
        |r| quantile(&durations(r), 1.0)
    ),
    metric!(
        "on_time",
        "1",
        Some(true),
        "share of items that came within their deadline; of items without one, that came at all",
        "messages on time (003 5.7)",
        |r| ratio(
            items(r).filter(|item| item.on_time()).count() as f64,
            items(r).count() as f64
        )
    ),
    metric!(
        "bound_repair",
        "1",
        None,
        "repair packets by packets with data that would suffice for 99.9 % of messages on time, if they were sent at the last moment: per block of messages handed over within deadline - one way of the measured link, the fewest r of W + r packets with P(more than r lost) <= 0.001, by the link's loss model; 0 where retransmission suffices",
        "",
        |r| {
            let link = r.bottleneck()?;
            let (there, back) = match direction(r)? {
                Direction::Forward => (&link.config.forward, &link.config.backward),
                Direction::Backward => (&link.config.backward, &link.config.forward),
            };
            let items: Vec<_> = items(r).collect();
            repair_bound(&items, there.delay, back.delay, &there.loss)
        }
    ),
    metric!(
        "late_p50_ms",
        "ms",
        Some(false),
        "median of how long after its deadline an item came, 0 when in time; of items that have one and came (on_time counts the others); empty when none has one",
        "message lateness",
        |r| quantile(&lateness(r), 0.5)
    ),
    metric!(
        "late_p95_ms",
        "ms",
        Some(false),
        "95th percentile of the same",
        "",
        |r| quantile(&lateness(r), 0.95)
    ),
    metric!(
        "late_max_ms",
        "ms",
        Some(false),
        "largest of the same",
        "",
        |r| quantile(&lateness(r), 1.0)
    ),
    metric!("end_s", "s", None, "simulated time of the run", "", |r| {
        Some(r.end.as_secs_f64())
    }),
    metric!("events", "1", None, "events of the simulation", "", |r| {
        (r.events > 0).then_some(r.events as f64)
    }),
];

pub(super) fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

fn completion(
    record: &Record,
    from: fn(&FlowRecord) -> tautline_transport::time::Instant,
) -> Option<f64> {
    let first = record.measured().map(from).min()?;
    let last = record
        .measured()
        .map(|flow| flow.receiver.finished)
        .try_fold(first, |last, one| Some(last.max(one?)))?;
    Some(last.saturating_since(first).as_secs_f64())
}

/// The other direction and the mean loss of the bottleneck.
struct Other<'a> {
    back: &'a DirectionStats,
    loss: f64,
}

/// Which way the measured flows cross the measured link.
fn direction(record: &Record) -> Option<Direction> {
    record.measured().find_map(|flow| flow.direction)
}

fn bottleneck(record: &Record) -> Option<(&DirectionStats, Other<'_>)> {
    let link: &LinkRecord = record.bottleneck()?;
    let direction = direction(record)?;
    let config = match direction {
        Direction::Forward => &link.config.forward,
        Direction::Backward => &link.config.backward,
    };
    let other = Other {
        back: link.stats(direction.opposite()),
        loss: config.loss.mean_rate(),
    };
    Some((link.stats(direction), other))
}

fn capacity(record: &Record) -> Option<f64> {
    let link = record.bottleneck()?;
    link.capacity(direction(record)?, record.window)
}

/// Flows that cross the measured link as the measured ones do; all, where none does.
fn beside(record: &Record) -> impl Iterator<Item = &FlowRecord> {
    let direction = direction(record);
    let mut flows = record.flows.iter();
    std::iter::from_fn(move || flows.find(|flow| flow.direction == direction))
}

/// Rates have a meaning when some of the window was played.
fn has_window(record: &Record) -> Option<()> {
    (record.window.0 < record.window.1).then_some(())
}

/// Bits per second.
pub(super) fn goodput(record: &Record) -> Option<f64> {
    has_window(record)?;
    Some(
        record
            .measured()
            .map(|flow| flow.goodput(record.window))
            .sum(),
    )
}

/// The part of [`total_goodput`] that measured flows have: all of [`goodput`], unless they go both ways
/// or over several links.
fn own_goodput(record: &Record) -> Option<f64> {
    has_window(record)?;
    let own = beside(record).filter(|flow| flow.measured);
    Some(own.map(|flow| flow.goodput(record.window)).sum())
}

fn total_goodput(record: &Record) -> Option<f64> {
    has_window(record)?;
    Some(beside(record).map(|flow| flow.goodput(record.window)).sum())
}

fn other_goodput(record: &Record) -> Option<f64> {
    has_window(record)?;
    let others = record.flows.iter().filter(|flow| !flow.measured);
    let rates = others.map(|flow| flow.goodput(record.window));
    rates.reduce(|sum, rate| sum + rate)
}

/// Of the flows that were there for the whole window: a short one beside them shares nothing.
fn lasting_rates(record: &Record) -> Option<Vec<f64>> {
    has_window(record)?;
    let lasting = beside(record).filter(|flow| flow.lasts(record.window));
    let rates: Vec<f64> = lasting.map(|flow| flow.goodput(record.window)).collect();
    (rates.len() > 1).then_some(rates)
}

fn rtts(record: &Record) -> Vec<f64> {
    let (from, to) = record.window;
    record
        .measured()
        .flat_map(|flow| &flow.history)
        .filter(|sample| (from..=to).contains(&sample.at.since_origin()))
        .filter_map(|sample| sample.wire.rtt)
        .map(|rtt| rtt.as_secs_f64() * 1e3)
        .collect()
}

/// `None` when one of the senders cannot tell.
pub(super) fn sum(record: &Record, of: fn(&WireStats) -> Option<u64>) -> Option<f64> {
    let total: u64 = record
        .measured()
        .map(|flow| flow.sender_wire.as_ref().and_then(of))
        .sum::<Option<u64>>()?;
    Some(total as f64)
}

fn delivered(record: &Record) -> f64 {
    record
        .measured()
        .map(|flow| flow.receiver.received_bytes as f64)
        .sum()
}

fn items(record: &Record) -> impl Iterator<Item = &Item> {
    record.measured().flat_map(|flow| &flow.receiver.items)
}

fn durations(record: &Record) -> Vec<f64> {
    sorted_millis(items(record).filter_map(Item::duration))
}

fn lateness(record: &Record) -> Vec<f64> {
    sorted_millis(items(record).filter_map(Item::lateness))
}

fn sorted_millis(durations: impl Iterator<Item = Duration>) -> Vec<f64> {
    let mut all: Vec<f64> = durations.map(|one| one.as_secs_f64() * 1e3).collect();
    all.sort_by(f64::total_cmp);
    all
}
