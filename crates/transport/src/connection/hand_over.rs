//! What is under way on a path that falls silent, or is given up, leaves for the others.
//!
//! Owns: when how much of it does. Does not own: in which order (`path/hand_over.rs`), which path takes it
//! (`multipath_tx.rs`).

use super::{Connection, fates::frame_fates};
use crate::{path::HandOver, space::SpaceKind, time::Instant, units::PathId};

impl Connection {
    /// What is under way on a path that is given up is to be sent on others.
    pub(super) fn hand_over_all(&mut self, id: PathId) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        path.handing_over = None;
        let mut fates = frame_fates!(self, path, Instant::ZERO);
        let all = 0..path.space.sent.end();
        path.recovery
            .hand_over(&mut path.space, all, u64::MAX, &mut fates);
        self.apply_deferred(SpaceKind::Data, None);
        self.stop_protecting_on(id);
    }

    /// A path does not answer: what is under way on it goes to others as they have room.
    pub(super) fn begin_hand_over(&mut self, id: PathId) {
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        path.handing_over = Some(HandOver::begin(path));
        self.stop_protecting_on(id);
    }

    /// Nothing waits for what the path holds: the coding window goes on without it.
    fn stop_protecting_on(&mut self, id: PathId) {
        if let Some(sender) = self.fec.sender.as_deref_mut() {
            sender.on_path_copied(id);
        }
    }

    /// Hands over as much as a batch takes, once nothing that was handed over waits any more: the order in which
    /// streams repeat what they lost is their own.
    pub(super) fn go_on_handing_over(&mut self) {
        for index in 0..self.paths.len() {
            while let Some(path) = self.paths.at_mut(index)
                && path.handing_over.is_some()
            {
                if !path.is_silent() {
                    // It answers: what is lost there will be found out.
                    path.handing_over = None;
                    break;
                }
                let id = path.id;
                let waiting = self.streams.most_urgent();
                if waiting.is_some_and(|waiting| waiting.has_lost()) {
                    return;
                }
                self.hand_over_part(id);
            }
        }
    }

    fn hand_over_part(&mut self, id: PathId) {
        let others = self.paths.iter();
        let others = others.filter(|path| path.id != id && path.is_at_work());
        // Whole batches: what is left of one would be filled with new data, of no use before what is missing.
        let batch = others.map(|path| {
            path.recovery.send_quantum(Instant::ZERO) / u64::from(path.mtu.datagram_size()).max(1)
        });
        let packets = batch.max().unwrap_or(0);
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        let Some(mut hand_over) = path.handing_over.take() else {
            return;
        };
        let mut fates = frame_fates!(self, path, Instant::ZERO);
        let notices = fates.streams.notices_len();
        hand_over.go_on(&path.recovery, &mut path.space, packets, &mut fates);
        fates.streams.forget_losses(notices);
        path.handing_over = Some(hand_over).filter(|hand_over| !hand_over.is_done());
        self.apply_deferred(SpaceKind::Data, None);
    }
}
