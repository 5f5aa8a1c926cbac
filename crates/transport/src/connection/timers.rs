//! One timeout for everything that waits for time.

use std::time::Duration;

use super::{Connection, fates::frame_fates};
use crate::{
    multipath::PathStatus,
    observe,
    path::Path,
    recovery::{Spaces, TimerAction, TimerContext},
    space::{PacketNumberSpace, SpaceKind},
    time::{Instant, earliest},
    units::PathId,
};

/// How often a silent path is probed at least beside others that work.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
/// One that costs more than these.
const DEAR_PROBE_INTERVAL: Duration = Duration::from_secs(60);
/// A silent path on which the peer is heard is probed this often at most.
const PROBE_AGAIN: Duration = Duration::from_secs(1);

impl Connection {
    /// When [`Connection::handle_timeout`] must be called next, if nothing else happens.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let mut next = self.lifecycle_timer();
        if self.is_closed() {
            return next;
        }
        for index in 0..self.paths.len() {
            let Some(id) = self.paths.id_at(index) else {
                continue;
            };
            next = earliest(next, self.loss_timer(id));
            let Some(path) = self.paths.get(id) else {
                continue;
            };
            next = earliest(next, path.timer());
            next = earliest(next, path.pacing_until);
            next = earliest(next, path.space.received.ack_deadline());
        }
        next = earliest(
            next,
            self.keys.one_rtt.as_ref().and_then(|keys| keys.timer()),
        );
        next = earliest(next, self.messages.timer());
        next = earliest(
            next,
            self.multipath
                .as_ref()
                .and_then(|multipath| multipath.timer()),
        );
        earliest(next, self.fec.timer())
    }

    fn timer_context(&self, id: PathId) -> TimerContext {
        let path = self.paths.get(id);
        // A path at its cap cannot probe either, nor one that waits for a connection ID.
        let blocked = path.is_some_and(|path| {
            path.network.amplification.budget() < crate::path::MIN_DATAGRAM
                || path.is_spent()
                || path.unnamed_until.is_some()
        });
        let announced = self.peer_max_ack_delay();
        let delay = |path: &Path| path.ack_frequency.max_ack_delay(announced);
        // Who knows nothing of ACK_FREQUENCY may have a rule of its own.
        let min_ack_delay = self.peer.min_ack_delay_us.map(Duration::from_micros);
        let known = path.filter(|_| min_ack_delay.is_some());
        TimerContext {
            handshake_confirmed: self.life.confirmed,
            peer_completed_address_validation: self.peer_validated_us(),
            amplification_blocked: blocked,
            max_ack_delay: path.map_or(announced, delay),
            min_ack_delay: min_ack_delay.unwrap_or_default(),
            together: known.map_or(usize::MAX, |path| path.ack_frequency.together()),
            has_handshake_keys: self.keys.handshake.is_some(),
            may_leave: self.has_choice_of_paths() && self.another_works(id),
            probe_every: self.probe_interval(id),
        }
    }

    /// Whether a path that costs no more than this one, and is not in reserve, would take over its data.
    fn another_works(&self, id: PathId) -> bool {
        let Some(this) = self.paths.get(id) else {
            return false;
        };
        let class = |path: &Path| path.cost.cost.class;
        let mut others = self.paths.iter().filter(|path| path.id != id);
        others.any(|path| {
            let wanted = path.status.effective() == PathStatus::Available;
            path.is_at_work() && wanted && class(path) <= class(this)
        })
    }

    /// How often this path is probed at least while others work: see [`TimerContext::probe_every`].
    fn probe_interval(&self, id: PathId) -> Option<Duration> {
        let class = |path: &Path| path.cost.cost.class;
        let this = class(self.paths.get(id).filter(|_| self.has_choice_of_paths())?);
        let others = self.paths.iter().filter(|path| path.id != id);
        let cheapest = others.filter(|path| path.is_at_work()).map(class).min()?;
        Some(if this > cheapest {
            DEAR_PROBE_INTERVAL
        } else {
            PROBE_INTERVAL
        })
    }

    /// The peer was heard on a path that is silent: the peer probes it, or has found out that it works. Whether our way
    /// there does is asked at once, not when the next probe is due, if none has just left.
    pub(super) fn probe_if_silent(&mut self, now: Instant, id: PathId) {
        if !self.has_choice_of_paths() {
            return;
        }
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let last = path.space.last_eliciting_sent;
        let rests = last.is_none_or(|last| now >= last + PROBE_AGAIN);
        if path.is_usable() && path.is_silent() && !path.is_spent() && rests {
            path.recovery.on_early_probe(now, last);
            path.pending.probes = path.pending.probes.max(1);
            path.pending.immediate_ack = true;
        }
    }

    pub(crate) fn loss_timer(&mut self, id: PathId) -> Option<Instant> {
        let context = self.timer_context(id);
        let first = id == PathId::ZERO;
        let path = self.paths.get_mut(id).filter(|path| !path.is_abandoned())?;
        let spaces = Spaces {
            initial: self.spaces.initial.as_mut().filter(|_| first),
            handshake: self.spaces.handshake.as_mut().filter(|_| first),
            data: &mut path.space,
        };
        path.recovery.timer(&spaces, &context)
    }

    /// Time passed: call it when [`Connection::poll_timeout`] is reached, or any time.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.unreviewed = true;
        if !self.on_lifecycle_timeout(now) {
            self.emit_changes(now);
            return;
        }
        for index in 0..self.paths.len() {
            let Some(id) = self.paths.id_at(index) else {
                continue;
            };
            self.on_path_timeout(now, id);
            if let Some(path) = self.paths.get_mut(id) {
                path.space.received.on_timeout(now);
            }
            if self.loss_timer(id).is_some_and(|at| now >= at) {
                self.on_loss_timeout(now, id);
            }
        }
        self.on_fec_timeout(now);
        if let Some(multipath) = &mut self.multipath {
            multipath.overdue.on_timeout(now);
        }
        if let Some(keys) = self.keys.one_rtt.as_mut() {
            keys.on_timeout(now);
        }
        self.after_input(now);
    }

    fn on_loss_timeout(&mut self, now: Instant, id: PathId) {
        let context = self.timer_context(id);
        let first = id == PathId::ZERO;
        let idle = self.repeats_what_was_copied();
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let mut spaces = Spaces {
            initial: self.spaces.initial.as_mut().filter(|_| first),
            handshake: self.spaces.handshake.as_mut().filter(|_| first),
            data: &mut path.space,
        };
        let mut fates =
            frame_fates!(self, path, now, fec: self.fec.sender.as_deref_mut(), idle: idle);
        let action = path
            .recovery
            .on_timeout(now, &mut spaces, &context, &mut fates);
        let new_mtu = fates.new_mtu;
        if let Some(mtu) = new_mtu {
            path.recovery.on_mtu(mtu);
        }
        match action {
            TimerAction::Probe { kind, packets } => {
                self.emit_loss_timer(now, id, observe::TimerKind::Pto);
                self.arm_probes(id, kind, packets);
            }
            TimerAction::LossDetected => {
                self.emit_loss_timer(now, id, observe::TimerKind::LossDetection);
            }
            TimerAction::Nothing => {}
        }
        // Tokens of the handshake spaces have no deferred kinds; Data is right for all of them.
        self.apply_deferred(SpaceKind::Data, None);
        self.emit_recovery_metrics(now, id);
    }

    /// Probes in the space whose timeout expired, and beside them one in every other space with
    /// something under way: the peer may have the keys of one only, or need the other to learn
    /// where we are. RFC 9002 s6.2.4.
    fn arm_probes(&mut self, id: PathId, kind: SpaceKind, packets: u8) {
        self.arm_probe(id, kind, packets);
        if self.life.confirmed || id != PathId::ZERO {
            return;
        }
        let under_way = |space: Option<&PacketNumberSpace>| {
            space.is_some_and(PacketNumberSpace::has_ack_eliciting_in_flight)
        };
        let data = self.paths.get(id).map(|path| &path.space);
        let others = [
            (SpaceKind::Initial, under_way(self.spaces.initial.as_ref())),
            (
                SpaceKind::Handshake,
                under_way(self.spaces.handshake.as_ref()),
            ),
            (
                SpaceKind::Data,
                under_way(data) && self.keys.one_rtt.is_some() && !self.is_handshaking(),
            ),
        ];
        for (other, under_way) in others {
            if under_way && other != kind {
                self.arm_probe(id, other, 1);
            }
        }
    }

    /// The path does not answer. Others may: what is under way here goes there at once, and a PING
    /// finds out whether the path is alive. RFC 10069 s5.8.
    fn probe_among_others(&mut self, id: PathId) {
        self.begin_hand_over(id);
        for path in self.paths.iter_mut() {
            if path.id != id && path.is_usable() {
                path.recovery.on_more_traffic();
            }
        }
        if let Some(path) = self.paths.get_mut(id) {
            path.pending.probes = 1;
            path.pending.immediate_ack = true;
        }
    }

    fn arm_probe(&mut self, id: PathId, kind: SpaceKind, packets: u8) {
        match kind {
            SpaceKind::Initial | SpaceKind::Handshake => {
                let slot = usize::from(kind == SpaceKind::Handshake);
                if let Some(owed) = self.handshake_probes.get_mut(slot) {
                    *owed = packets;
                }
                self.crypto.get(kind).resend_unacked();
            }
            SpaceKind::Data => {
                if self.has_choice_of_paths() {
                    self.probe_among_others(id);
                    return;
                }
                let Some(path) = self.paths.get_mut(id) else {
                    return;
                };
                path.pending.probes = packets;
                path.pending.immediate_ack = true;
                // Once: whoever hears nothing of repair symbols may be unable to use them.
                let coded = path.recovery.pto_count() <= 1 && !self.streams.has_data();
                let oldest = path
                    .space
                    .sent
                    .outstanding()
                    .find(|(_, p)| p.is_ack_eliciting());
                let sender = self.fec.sender.as_deref_mut().filter(|_| coded);
                path.pending.coded_probes = oldest
                    .zip(sender)
                    .is_some_and(|((number, _), sender)| sender.probe(id, number, packets.into()));
                if !self.streams.has_data() && !path.pending.coded_probes {
                    // Nothing new to send: data that may be lost serves as the probe.
                    let mut fates = frame_fates!(self, path, Instant::ZERO);
                    let notices = fates.streams.notices_len();
                    path.recovery
                        .resend_oldest(&mut path.space, usize::from(packets), &mut fates);
                    fates.streams.forget_losses(notices);
                }
            }
        }
    }
}
