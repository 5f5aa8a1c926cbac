//! Metrics of one connection.

use super::{FlowMetric, quantile};
use crate::{outcome::Item, run::FlowRecord};

macro_rules! metric {
    ($name:literal, $unit:literal, $better:expr, $formula:literal, $compute:expr) => {
        FlowMetric {
            name: $name,
            unit: $unit,
            formula: $formula,
            paper: "",
            more_is_better: $better,
            compute: $compute,
        }
    };
}

/// Every metric of a connection, in the order of the columns.
pub const FLOW_METRICS: &[FlowMetric] = &[
    metric!("start_s", "s", None, "when the client connected", |f| {
        Some(f.start.since_origin().as_secs_f64())
    }),
    metric!(
        "completion_s",
        "s",
        Some(false),
        "last byte at the receiving application, less start_s; empty when it did not finish",
        |f| Some(f.receiver.finished?.saturating_since(f.start).as_secs_f64())
    ),
    metric!(
        "goodput_mbps",
        "Mb/s",
        Some(true),
        "application bytes received in order in the window x 8 / window",
        |f| Some(f.goodput(f.window) / 1e6)
    ),
    metric!(
        "received_bytes",
        "B",
        None,
        "application bytes received in order in all",
        |f| Some(f.receiver.received_bytes as f64)
    ),
    metric!("min_rtt_ms", "ms", None, "the sender's smallest RTT", |f| {
        Some(f.sender_wire?.min_rtt?.as_secs_f64() * 1e3)
    }),
    metric!(
        "packets_sent",
        "packets",
        None,
        "in-flight packets sent by the sender",
        |f| Some(f.sender_wire?.packets_sent as f64)
    ),
    metric!(
        "packets_lost",
        "packets",
        Some(false),
        "of these, declared lost",
        |f| Some(f.sender_wire?.packets_lost as f64)
    ),
    metric!(
        "spurious_losses",
        "packets",
        Some(false),
        "of these, acknowledged after all; empty when the stack does not tell",
        |f| Some(f.sender_wire?.spurious_losses? as f64)
    ),
    metric!(
        "bytes_sent",
        "B",
        None,
        "UDP payload bytes sent by the sender",
        |f| Some(f.sender_wire?.bytes_sent as f64)
    ),
    metric!(
        "acks_sent",
        "1",
        None,
        "ACK frames sent by the receiver",
        |f| Some(f.receiver_wire?.acks_sent as f64)
    ),
    metric!(
        "repair_sent",
        "1",
        None,
        "repair symbols sent by the sender; empty when the stack has no erasure correction",
        |f| Some(f.sender_wire?.fec?.repairs_sent as f64)
    ),
    metric!(
        "recovered",
        "1",
        None,
        "lost packets that the receiver rebuilt; empty likewise",
        |f| Some(f.receiver_wire?.fec?.recovered as f64)
    ),
    metric!(
        "useful",
        "1",
        None,
        "repair symbols that told the receiver something new: of each either a packet was rebuilt, or not yet; empty likewise",
        |f| Some(f.receiver_wire?.fec?.useful as f64)
    ),
    metric!(
        "wasted",
        "1",
        Some(false),
        "repair symbols that told the receiver nothing new; empty likewise",
        |f| Some(f.receiver_wire?.fec?.wasted as f64)
    ),
    metric!(
        "expected_saving_ms",
        "ms",
        None,
        "what the sender expected its repair symbols to save; 0 for schedulers that expect nothing",
        |f| Some(f.sender_wire?.fec?.expected_saving.as_secs_f64() * 1e3)
    ),
    metric!(
        "items",
        "1",
        None,
        "objects, messages, datagrams or segments",
        |f| Some(f.receiver.items.len() as f64)
    ),
    metric!(
        "item_p50_ms",
        "ms",
        Some(false),
        "median time from wanted to complete",
        |f| quantile(&durations(f), 0.5)
    ),
    metric!(
        "item_p99_ms",
        "ms",
        Some(false),
        "99th percentile of the same",
        |f| quantile(&durations(f), 0.99)
    ),
];

fn durations(flow: &FlowRecord) -> Vec<f64> {
    let mut all: Vec<f64> = flow
        .receiver
        .items
        .iter()
        .filter_map(Item::duration)
        .map(|duration| duration.as_secs_f64() * 1e3)
        .collect();
    all.sort_by(f64::total_cmp);
    all
}
