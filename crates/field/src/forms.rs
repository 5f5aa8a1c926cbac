//! What an end has seen, as it is sent to the other.
//!
//! Times are nanoseconds of the run. Owns: [`SeenForm`] and its parts. Does not own: what they are forms
//! of (`live::Seen`).

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use tautline::{Rate, transport::fec::FecStats};
use tautline_lab::{
    outcome::{Item, Outcome},
    run::Sample,
    stack::WireStats,
    workload::columns,
};
use tautline_transport::time::Instant;

use crate::live::Seen;

/// [`Seen`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SeenForm {
    connected: Option<u64>,
    received_bytes: u64,
    /// Of the end that counts alone.
    items: Vec<ItemForm>,
    finished: Option<u64>,
    error: Option<String>,
    extra: BTreeMap<String, f64>,
    wire: Option<WireForm>,
    /// Time, bytes received, the transport.
    history: Vec<(u64, u64, WireForm)>,
}

/// An [`Item`]: bytes, wanted, began, done, deadline. A tuple, for there are many of them.
type ItemForm = (u64, u64, Option<u64>, Option<u64>, Option<u64>);

/// [`WireStats`].
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct WireForm {
    rtt: Option<u64>,
    min_rtt: Option<u64>,
    window: u64,
    pacing_rate: Option<u64>,
    in_flight: Option<u64>,
    datagrams_sent: u64,
    bytes_sent: u64,
    packets_sent: u64,
    packets_lost: u64,
    spurious_losses: Option<u64>,
    ptos: Option<u64>,
    acks_sent: u64,
    /// What figures are made of: repair symbols sent, recovered, wasted, nanoseconds expected to be saved.
    fec: Option<(u64, u64, u64, u64)>,
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn instant(nanos: Option<u64>) -> Option<Instant> {
    nanos.map(Instant::from_nanos)
}

impl SeenForm {
    /// Of an end; `counts`: it is the one that receives most.
    pub(crate) fn of(seen: &Seen, counts: bool) -> Self {
        let at = |instant: Instant| instant.as_nanos();
        let outcome = &seen.outcome;
        let items = outcome.items.iter().filter(|_| counts);
        let item = |item: &Item| {
            let deadline = item.deadline.map(nanos);
            let (began, done) = (item.began.map(at), item.done.map(at));
            (item.bytes, at(item.wanted), began, done, deadline)
        };
        let history = seen.history.iter();
        Self {
            connected: outcome.connected.map(at),
            received_bytes: outcome.received_bytes,
            items: items.map(item).collect(),
            finished: outcome.finished.map(at),
            error: outcome.error.clone(),
            extra: outcome
                .extra
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
            wire: seen.wire.map(|wire| WireForm::of(&wire)),
            history: history
                .map(|sample| (at(sample.at), sample.received, WireForm::of(&sample.wire)))
                .collect(),
        }
    }

    /// What the other end has seen. Measures that no workload has are left out.
    pub(crate) fn into_seen(self) -> Seen {
        let items = self.items.into_iter();
        let items = items.map(|(bytes, wanted, began, done, deadline)| Item {
            began: instant(began),
            done: instant(done),
            deadline: deadline.map(Duration::from_nanos),
            ..Item::wanted(bytes, Instant::from_nanos(wanted))
        });
        let extra = self.extra.into_iter();
        let extra = extra.filter_map(|(name, value)| Some((columns::by_name(&name)?.name, value)));
        let history = self.history.into_iter();
        Seen {
            outcome: Outcome {
                connected: instant(self.connected),
                received_bytes: self.received_bytes,
                items: items.collect(),
                finished: instant(self.finished),
                error: self.error,
                extra: extra.collect(),
            },
            wire: self.wire.map(WireForm::into_stats),
            history: history
                .map(|(at, received, wire)| Sample {
                    at: Instant::from_nanos(at),
                    received,
                    wire: wire.into_stats(),
                })
                .collect(),
        }
    }
}

impl WireForm {
    fn of(wire: &WireStats) -> Self {
        let fec = |fec: FecStats| {
            let saving = nanos(fec.expected_saving);
            (fec.repairs_sent, fec.recovered, fec.wasted, saving)
        };
        Self {
            rtt: wire.rtt.map(nanos),
            min_rtt: wire.min_rtt.map(nanos),
            window: wire.window,
            pacing_rate: wire.pacing_rate.map(Rate::bits_per_second),
            in_flight: wire.in_flight,
            datagrams_sent: wire.datagrams_sent,
            bytes_sent: wire.bytes_sent,
            packets_sent: wire.packets_sent,
            packets_lost: wire.packets_lost,
            spurious_losses: wire.spurious_losses,
            ptos: wire.ptos,
            acks_sent: wire.acks_sent,
            fec: wire.fec.map(fec),
        }
    }

    fn into_stats(self) -> WireStats {
        let fec = |(repairs_sent, recovered, wasted, saving)| {
            let mut fec = FecStats::default();
            fec.repairs_sent = repairs_sent;
            fec.recovered = recovered;
            fec.wasted = wasted;
            fec.expected_saving = Duration::from_nanos(saving);
            fec
        };
        WireStats {
            rtt: self.rtt.map(Duration::from_nanos),
            min_rtt: self.min_rtt.map(Duration::from_nanos),
            window: self.window,
            pacing_rate: self.pacing_rate.map(Rate::from_bits_per_second),
            in_flight: self.in_flight,
            datagrams_sent: self.datagrams_sent,
            bytes_sent: self.bytes_sent,
            packets_sent: self.packets_sent,
            packets_lost: self.packets_lost,
            spurious_losses: self.spurious_losses,
            ptos: self.ptos,
            acks_sent: self.acks_sent,
            fec: self.fec.map(fec),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_comes_over_as_it_was() {
        let at = Instant::from_nanos;
        let item = Item {
            began: Some(at(5)),
            done: Some(at(9)),
            deadline: Some(Duration::from_millis(3)),
            ..Item::wanted(1_000, at(2))
        };
        let mut fec = FecStats::default();
        fec.recovered = 7;
        let wire = WireStats {
            rtt: Some(Duration::from_micros(1_234)),
            packets_lost: 3,
            pacing_rate: Some(Rate::from_bits_per_second(8_000_000)),
            fec: Some(fec),
            ..WireStats::default()
        };
        let seen = Seen {
            outcome: Outcome {
                connected: Some(at(1)),
                received_bytes: 1_000,
                items: vec![item],
                finished: Some(at(9)),
                error: Some("why".to_owned()),
                extra: [("datagrams_lost", 0.1)].into(),
            },
            wire: Some(wire),
            history: vec![Sample {
                at: at(3),
                received: 10,
                wire,
            }],
        };
        let over = |counts| {
            let text = serde_json::to_string(&SeenForm::of(&seen, counts)).unwrap();
            serde_json::from_str::<SeenForm>(&text).unwrap().into_seen()
        };
        let there = over(true);
        assert_eq!(there.outcome, seen.outcome);
        assert_eq!(there.wire, seen.wire);
        assert_eq!(there.history[0].wire, wire);
        assert!(over(false).outcome.items.is_empty());
    }
}
