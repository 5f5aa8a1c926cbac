//! Metrics of erasure correction, over the measured flows. Empty where a stack has none.

use tautline_transport::fec::FecStats;

use super::{
    CellMetric,
    cell::{metric, ratio, sum},
};
use crate::run::Record;

pub(super) const REPAIR_SENT: CellMetric = metric!(
    "repair_sent",
    "1",
    None,
    "repair symbols sent by the measured flows' senders; empty when a stack has no erasure correction",
    "redundancy (003 5.4)",
    |r| sum(r, |wire| Some(wire.fec?.repairs_sent))
);

pub(super) const USEFUL: CellMetric = metric!(
    "useful",
    "1",
    None,
    "of these, those that told a receiver something new, so that with them it could rebuild a packet, or could with one more; empty likewise",
    "",
    |r| received(r, |fec| fec.useful)
);

pub(super) const WASTED: CellMetric = metric!(
    "wasted",
    "1",
    Some(false),
    "of these, those that came and told nothing new; what is neither useful nor wasted was lost or contradicted what was known; empty likewise",
    "",
    |r| received(r, |fec| fec.wasted)
);

pub(super) const RECOVERED: CellMetric = metric!(
    "recovered",
    "1",
    None,
    "lost packets that the measured flows' receivers rebuilt; empty likewise",
    "",
    |r| received(r, |fec| fec.recovered)
);

pub(super) const RESIDUAL_LOSS: CellMetric = metric!(
    "residual_loss",
    "1",
    Some(false),
    "packets lost that neither came late nor were rebuilt / packets_sent: packets_lost - spurious_losses - recovered, at least 0; empty likewise",
    "residual loss (001 section III)",
    |r| {
        let lost = sum(r, |wire| {
            Some(wire.packets_lost.saturating_sub(wire.spurious_losses?))
        })?;
        let left = (lost - received(r, |fec| fec.recovered)?).max(0.0);
        ratio(left, sum(r, |wire| Some(wire.packets_sent))?)
    }
);

/// The sum of a counter of the measured flows' receivers.
fn received(record: &Record, of: fn(&FecStats) -> u64) -> Option<f64> {
    let total: u64 = record
        .measured()
        .map(|flow| Some(of(flow.receiver_wire?.fec.as_ref()?)))
        .sum::<Option<u64>>()?;
    Some(total as f64)
}
