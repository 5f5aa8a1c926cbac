//! What a connection takes from earlier ones about losses, and leaves to later ones.
//!
//! Owns: when that is looked up and kept. Does not own: what is kept and for how long
//! (`fec/memory.rs`).

use std::{net::IpAddr, time::Duration};

use super::Connection;
use crate::{fec::LossMemory, time::Instant, units::PathId};

/// How often a connection that lasts tells others what it knows.
const KEEP_EVERY: Duration = Duration::from_secs(1);

/// What concerns other connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shared {
    /// The peer's address when protection was agreed on: about another path others learn nothing.
    peer: Option<IpAddr>,
    /// When the peer was last heard of, and when that was last kept.
    heard: Option<Instant>,
    kept: Option<Instant>,
    /// What was known in the end, once the connection is over.
    past: Option<LossMemory>,
}

impl Connection {
    /// What this connection knows of losses on the way to its peer, for another connection's
    /// [`FecConfig::loss_memory`](crate::fec::FecConfig); also after its end. `None` where nothing is
    /// protected, or nothing was heard of yet.
    pub fn loss_memory(&self) -> Option<LossMemory> {
        let sender = self.fec.sender.as_ref();
        let now = sender.and_then(|sender| sender.loss_memory(PathId::ZERO));
        now.or(self.fec.shared.past)
    }

    /// Protection was just agreed on.
    pub(super) fn recall_losses(&mut self, now: Instant) {
        let peer = self.remote_address().ip();
        let Some(sender) = &mut self.fec.sender else {
            return;
        };
        let config = &self.config.fec;
        self.fec.shared.peer = Some(peer);
        let store = config.loss_store.as_ref();
        let kept = || store.and_then(|store| store.recall(peer, now));
        if let Some(memory) = config.loss_memory.or_else(kept) {
            sender.begin_with(PathId::ZERO, &memory);
        }
    }

    /// Acknowledgements and losses were told.
    pub(super) fn on_losses_heard(&mut self, now: Instant) {
        let shared = &mut self.fec.shared;
        shared.heard = Some(now);
        let due = shared.kept.is_none_or(|kept| now >= kept + KEEP_EVERY);
        if due && self.config.fec.loss_store.is_some() {
            shared.kept = Some(now);
            self.keep_losses();
        }
    }

    /// Leaves to others what is known now.
    fn keep_losses(&self) {
        let Some(store) = &self.config.fec.loss_store else {
            return;
        };
        let shared = self.fec.shared;
        let here = self.remote_address().ip();
        if let (Some(peer), Some(heard), Some(memory)) =
            (shared.peer, shared.heard, self.loss_memory())
            && peer == here
        {
            store.keep(peer, heard, memory);
        }
    }

    /// The connection is over.
    pub(super) fn release_fec(&mut self) {
        if self.fec.sender.is_some() {
            self.keep_losses();
        }
        let past = self.loss_memory();
        self.fec.release();
        self.fec.shared.past = past;
    }
}
