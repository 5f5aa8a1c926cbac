//! The wire: what arrives, when, and what may be missing.
//!
//! Owns: [`Wire`], and what of a packet's fate its index or a cut decides. Does not own: when it
//! left the transmitter (`transmitter.rs`).

use std::{collections::BTreeMap, time::Duration};

use tautline_transport::time::Instant;

use super::{
    Blame, Era, nanos,
    transmitter::{outage_end, since_handover},
};
use crate::{
    DirectionConfig, DropCause, JitterOrder, LossModel, OutageMode, Outcome, PacketRecord, Service,
    Stage,
};

#[derive(Default)]
pub(super) struct Wire<'a> {
    /// What was in force when packets that wait in a managed queue came: it decides by their index.
    offered: BTreeMap<u64, &'a DirectionConfig>,
    /// The latest arrival that later packets cannot overtake.
    in_order: Instant,
    /// The latest arrival that later packets may have had to wait for.
    perhaps: Instant,
    /// What the current slot of hand-overs has shown its delay to be.
    slot: Option<(u64, Duration)>,
    /// What the loss model has picked last.
    run: Option<Run<'a>>,
}

impl<'a> Wire<'a> {
    pub(super) fn next_era(&mut self) {
        self.slot = None;
        self.run = None;
    }

    pub(super) fn check(&mut self, era: &Era<'a>, record: &PacketRecord, blame: &mut Blame<'_>) {
        let mut offered = era.config;
        if record.stage == Stage::Offered {
            entry(era, record, blame);
            if record.outcome == Outcome::Queued {
                self.offered.insert(record.index, era.config);
            }
        } else if let Some(config) = self.offered.remove(&record.index) {
            offered = config;
        }
        let dropped = |cause| record.outcome == Outcome::Dropped(cause);
        let Some(service) = record.service else {
            match record.outcome {
                Outcome::Arrives(_) => blame.packet(record, "arrived without having been sent"),
                Outcome::Dropped(DropCause::Loss) => {
                    blame.packet(record, "was lost without having been sent");
                }
                _ => {}
            }
            return;
        };
        let swallowed = era.config.outages.iter().any(|outage| {
            outage.mode == OutageMode::Drop && outage_end(outage, service.departure).is_some()
        });
        if swallowed != dropped(DropCause::Outage) {
            let what = if swallowed {
                "left during an outage and was not swallowed"
            } else {
                "swallowed while there was no outage"
            };
            blame.packet(record, what);
        }
        match record.outcome {
            Outcome::Arrives(at) => {
                if !record.ruled && record.corrupted && offered.corruption.is_none() {
                    blame.packet(record, "changed on a wire that changes nothing");
                }
                self.arrives(era.config, record, service, at, blame);
            }
            Outcome::Dropped(DropCause::Loss) => {
                if !loses_by_time(era.config, service.departure) {
                    self.lost(offered, record, blame);
                }
            }
            Outcome::Dropped(DropCause::Outage) => {}
            Outcome::Dropped(_) | Outcome::Queued => {
                blame.packet(record, "was sent and did not reach the wire");
            }
        }
    }

    fn arrives(
        &mut self,
        config: &DirectionConfig,
        record: &PacketRecord,
        service: Service,
        at: Instant,
        blame: &mut Blame<'_>,
    ) {
        let departure = service.departure;
        if loses_all(config, departure) {
            blame.packet(record, "came through a hand-over that loses everything");
        }
        let copies_by_itself = u8::from(config.duplication > 0.0);
        if !record.ruled && record.copies > copies_by_itself {
            blame.packet(record, format!("has {} copies", record.copies));
        }
        let jitter = config.jitter.map_or(Duration::ZERO, |jitter| jitter.spread);
        let spread = jitter + config.handover.map_or(Duration::ZERO, |h| h.delay_spread);
        let holds = config.gaps.iter().map(|gaps| gaps.hold).max();
        let hold = holds.unwrap_or_default();
        let least = departure + config.delay.saturating_sub(spread);
        let most = departure + config.delay + spread + hold;
        let took = at.saturating_since(departure);
        if at < least {
            let least = least.saturating_since(departure);
            blame.packet(
                record,
                format!("took {took:?} on the wire; the least is {least:?}"),
            );
        }
        let extra = config.reordering.filter(|r| r.probability > 0.0);
        let keeps_order = config
            .jitter
            .is_none_or(|jitter| jitter.order == JitterOrder::Fifo);
        let after = if keeps_order { self.perhaps } else { least };
        let latest = extra.map_or(most, |reordering| most + reordering.extra);
        if !record.ruled && at > latest.max(after) {
            let most = latest.saturating_since(departure);
            blame.packet(
                record,
                format!("took {took:?} on the wire; the most is {most:?}"),
            );
        }
        let exact = spread.is_zero() && hold.is_zero() && !record.ruled;
        if exact && at > most && at != latest && at > after {
            blame.packet(record, format!("took {took:?}, neither held back nor not"));
        }
        let certain = keeps_order && extra.is_none() && !record.ruled;
        if certain && at < self.in_order {
            blame.packet(record, "overtook the one ahead of it");
        }
        if certain && jitter.is_zero() && hold.is_zero() && at > self.perhaps {
            self.same_slot(config, record, departure, took, blame);
        }
        if certain {
            self.in_order = self.in_order.max(at);
        }
        if keeps_order {
            self.perhaps = self.perhaps.max(at);
        }
    }

    /// All packets of a slot have the same delay, whatever was drawn for it.
    fn same_slot(
        &mut self,
        config: &DirectionConfig,
        record: &PacketRecord,
        departure: Instant,
        took: Duration,
        blame: &mut Blame<'_>,
    ) {
        let Some(handover) = &config.handover else {
            return;
        };
        let began = since_handover(handover, departure).unwrap_or(departure.as_nanos());
        let slot = departure.as_nanos() - began;
        match self.slot {
            Some((known, delay)) if known == slot => {
                if delay != took {
                    blame.packet(
                        record,
                        format!("took {took:?} on the wire, others of its slot {delay:?}"),
                    );
                }
            }
            _ => self.slot = Some((slot, took)),
        }
    }

    /// Lost, and not for the time at which it left.
    fn lost(&mut self, offered: &'a DirectionConfig, record: &PacketRecord, blame: &mut Blame<'_>) {
        if offered.loss.mean_rate() <= 0.0 {
            blame.packet(record, "lost where nothing is");
            return;
        }
        let goes_on = self.run.is_some_and(|run| {
            std::ptr::eq(run.model, &offered.loss) && run.last + 1 == record.index
        });
        let before = self.run.filter(|_| goes_on).map_or(0, |run| run.length);
        let length = before + 1;
        self.run = Some(Run {
            length,
            last: record.index,
            model: &offered.loss,
        });
        let most = match offered.loss {
            LossModel::Uniform { max_burst, .. } | LossModel::Gilbert { max_burst, .. } => {
                max_burst
            }
            _ => None,
        };
        if most.is_some_and(|most| length > most) {
            blame.packet(record, format!("lost as number {length} in a row"));
        }
    }
}

/// Packets in a row that a loss model has picked.
#[derive(Clone, Copy)]
struct Run<'a> {
    length: u32,
    last: u64,
    model: &'a LossModel,
}

/// Whether something else than the loss model may lose what leaves at a moment.
fn loses_by_time(config: &DirectionConfig, at: Instant) -> bool {
    let coded = config.coding.as_ref().is_some_and(|coding| {
        coding.lag_loss > 0.0 || coding.states.iter().any(|state| state.loss > 0.0)
    });
    let gaps = config.gaps.iter().any(|gaps| gaps.probability > 0.0);
    coded || gaps || handover_loss(config, at) > 0.0
}

/// The share of the packets that a hand-over loses at a moment.
fn handover_loss(config: &DirectionConfig, at: Instant) -> f64 {
    config.handover.map_or(0.0, |handover| {
        let into = since_handover(&handover, at);
        let within = into.is_some_and(|into| into < nanos(handover.loss_duration));
        if within {
            handover.loss_probability
        } else {
            0.0
        }
    })
}

fn loses_all(config: &DirectionConfig, at: Instant) -> bool {
    handover_loss(config, at) >= 1.0
}

/// What is decided before the queue: scripted drops, cuts, MTU.
fn entry(era: &Era<'_>, record: &PacketRecord, blame: &mut Blame<'_>) {
    let dropped = |cause| record.outcome == Outcome::Dropped(cause);
    let scripts = &era.config.drop_packets;
    let scripted = scripts.iter().any(|range| range.contains(&record.index));
    if (scripted || !record.ruled) && scripted != dropped(DropCause::Rule) {
        let what = if scripted {
            "passed although it was to be dropped"
        } else {
            "dropped by a rule that there is not"
        };
        blame.packet(record, what);
    }
    if dropped(DropCause::Rule) {
        return;
    }
    let cut = dropped(DropCause::Outage) && record.service.is_none();
    if cut == era.up {
        let what = if cut {
            "dropped by a cut while the link was up"
        } else {
            "passed a link that was cut"
        };
        blame.packet(record, what);
    }
    if cut {
        return;
    }
    let mtu = u32::from(era.config.mtu);
    if (record.ip_bytes > mtu) != dropped(DropCause::Mtu) {
        let bytes = record.ip_bytes;
        let fate = if bytes > mtu { "passed" } else { "dropped" };
        blame.packet(record, format!("{bytes} bytes {fate} at an MTU of {mtu}"));
    }
    if dropped(DropCause::Aqm) {
        blame.packet(record, "given up by a queue that it did not reach");
    }
}
