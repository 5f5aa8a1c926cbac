//! Which packets are lost. RFC 9002 s6.1, s7.6, A.10, B.8.

use std::time::Duration;

use super::{LossHandler, LossTrigger, Recovery, SCRATCH, timer::may_leave};
use crate::{
    congestion::{LossEvent, LostPacket},
    space::{Fate, LostRun, PacketNumberSpace, SentPacket, SpaceKind},
    time::{Instant, earliest},
    units::PacketNumber,
};

/// What loss detection found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    pub(super) packets: u64,
    pub(super) persistent: bool,
}

impl Recovery {
    /// Declares packets lost that were overtaken by enough packets or for long enough, and sets
    /// the time when the next one will be. RFC 9002 A.10.
    pub(super) fn detect_losses(
        &mut self,
        space: &mut PacketNumberSpace,
        kind: SpaceKind,
        now: Instant,
        max_ack_delay: Duration,
        handler: &mut impl LossHandler,
    ) -> Losses {
        space.loss_time = None;
        let Some(largest_acked) = space.largest_acked else {
            return Losses::default();
        };
        let delay = self.tolerance.loss_delay(self.overtaking_rtt());
        let threshold = u64::from(self.tolerance.packets());
        let prior_in_flight = self.bytes_in_flight;
        let mut lost = std::mem::take(&mut self.lost_scratch);
        lost.clear();
        let mut losses = Losses::default();
        let mut cursor = None;
        let start = space.loss_cursor.max(space.sent.base());
        for number in start..largest_acked.saturating_add(1).min(space.sent.end()) {
            let Some(packet) = space.sent.get(number) else {
                break;
            };
            if packet.fate != Fate::Outstanding {
                continue;
            }
            let deadline = packet.sent + delay;
            let fate = if largest_acked - number >= threshold {
                Fate::LostByThreshold
            } else if deadline <= now {
                Fate::LostByTime
            } else {
                cursor.get_or_insert(number);
                space.loss_time = earliest(space.loss_time, Some(deadline));
                continue;
            };
            losses.packets += 1;
            losses.persistent |= self.extends_run(space, kind, number, max_ack_delay);
            let again = handler.repeats_what_was_copied();
            space.sent.lose(number, fate, now, |packet, tokens| {
                for token in tokens {
                    let settled = packet.is_repeated() && may_leave(token);
                    if !settled || again && !packet.is_told() {
                        handler.token_lost(kind, token);
                    }
                }
                if !packet.mtu_probe {
                    let in_flight = packet.snapshot.tx_in_flight;
                    let bytes = u64::from(packet.bytes);
                    self.capacity.on_lost(now, bytes, in_flight, self.rtt.min());
                }
                self.on_packet_lost(kind, number, packet, fate, &mut lost, handler);
            });
        }
        space.loss_cursor = cursor.unwrap_or(largest_acked + 1);
        if losses.persistent {
            space.lost_run = None;
            self.stats.persistent_congestions += 1;
            self.rtt.restart_min();
        }
        self.report_losses(&lost, losses.persistent, prior_in_flight, now);
        if lost.capacity() > SCRATCH {
            lost = Vec::new();
        }
        self.lost_scratch = lost;
        losses
    }

    pub(super) fn on_packet_lost(
        &mut self,
        kind: SpaceKind,
        number: PacketNumber,
        packet: &SentPacket,
        fate: Fate,
        lost: &mut Vec<LostPacket>,
        handler: &mut impl LossHandler,
    ) {
        let trigger = match fate {
            Fate::LostByThreshold => LossTrigger::ReorderingThreshold,
            _ => LossTrigger::TimeThreshold,
        };
        handler.packet_lost(kind, number, packet, trigger);
        let bytes = self.take_off(kind, number, packet);
        if packet.mtu_probe {
            // Too large for the path, most likely: no sign of congestion. RFC 9000 s14.4.
            self.stats.mtu_probes_lost += 1;
            handler.mtu_probe_lost(number, packet.bytes);
            return;
        }
        self.stats.packets_lost += 1;
        let in_flight = packet.snapshot.tx_in_flight;
        let queued = self.capacity.signs().tell_of_queue(self.round_trips())
            || self.capacity.is_exceeded_by(in_flight, self.rtt.min());
        self.lost_without_queue += u64::from(!queued);
        self.stats.bytes_lost += u64::from(packet.bytes);
        if !self.is_current(kind, number) || packet.off_path {
            return;
        }
        self.ecn.on_lost(packet.ecn);
        if !packet.in_flight {
            return;
        }
        self.rate.on_lost(bytes);
        lost.push(LostPacket::new(
            number,
            bytes,
            packet.sent,
            packet.snapshot.tx_in_flight,
            packet.snapshot.delivered,
            packet.snapshot.lost,
            packet.app_limited,
        ));
    }

    fn report_losses(
        &mut self,
        lost: &[LostPacket],
        persistent: bool,
        prior_in_flight: u64,
        now: Instant,
    ) {
        let Some(last_sent) = lost.iter().map(|packet| packet.sent).max() else {
            return;
        };
        self.tolerance.on_lost(now, last_sent, lost.len() as u64);
        self.stats.loss_events += 1;
        let event = LossEvent::new(
            now,
            lost,
            lost.iter().map(|packet| packet.bytes).sum(),
            self.rate.lost(),
            self.rate.delivered(),
            persistent,
            prior_in_flight,
            self.bytes_in_flight,
            self.rtt_view(),
        );
        self.controller.on_loss(&event);
        self.note_controller_state();
    }

    /// Follows the run of consecutive losses; true once it is as long as persistent congestion.
    ///
    /// RFC 9002 s7.6.2: from one lost ack-eliciting packet to another, all lost in between, both
    /// sent after the first RTT sample.
    fn extends_run(
        &self,
        space: &mut PacketNumberSpace,
        kind: SpaceKind,
        number: PacketNumber,
        max_ack_delay: Duration,
    ) -> bool {
        let Some(packet) = space.sent.get(number) else {
            return false;
        };
        let after_sample = self
            .first_rtt_sample
            .is_some_and(|first| packet.sent > first);
        if !after_sample || !self.is_current(kind, number) || packet.mtu_probe || packet.off_path {
            return false;
        }
        let continues = space.lost_run.filter(|run| {
            run.last_number < number
                && run.last_number + 1 >= space.sent.base()
                && (run.last_number + 1..number).all(|between| {
                    space
                        .sent
                        .get(between)
                        .is_none_or(|p| p.fate != Fate::Acked)
                })
        });
        let run = match continues {
            Some(run) => LostRun {
                last_number: number,
                last_sent: if packet.ack_eliciting {
                    packet.sent
                } else {
                    run.last_sent
                },
                ..run
            },
            None if packet.ack_eliciting => LostRun {
                first_sent: packet.sent,
                last_sent: packet.sent,
                last_number: number,
            },
            None => {
                space.lost_run = None;
                return false;
            }
        };
        space.lost_run = Some(run);
        let duration =
            (self.pto_base() + max_ack_delay).saturating_mul(self.persistent_threshold.max(1));
        run.last_sent.saturating_since(run.first_sent) > duration
            && !self.acked_elsewhere_between(kind, run.first_sent, run.last_sent)
    }

    /// Whether another space saw an acknowledgement of a packet that left in between.
    fn acked_elsewhere_between(&self, kind: SpaceKind, from: Instant, to: Instant) -> bool {
        self.newest_acked_sent
            .iter()
            .enumerate()
            .filter(|&(other, _)| other != kind as usize)
            .filter_map(|(_, newest)| *newest)
            .any(|sent| from < sent && sent < to)
    }
}
