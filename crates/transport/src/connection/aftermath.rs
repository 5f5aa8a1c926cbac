//! What is kept of a connection that is over. RFC 9000 s10.2.
//!
//! Owns: giving memory back. A connection that closed must go on to answer with its close, one
//! whose peer closed must go on to be silent, and both stay in the endpoint's tables for three
//! PTOs: under many short connections that is most of them. They keep what they need for it:
//!
//! | | application's side | close, keys, packet numbers | path facts, routes, counters |
//! |---|---|---|---|
//! | closing | what is unread | kept | kept |
//! | draining, drained | what is unread | dropped | kept |
//! | abandoned besides | dropped | as before | kept |
//!
//! Does not own: when a connection is over (`lifecycle.rs`); what of its streams can still be read
//! (`stream/aftermath.rs`).

use super::{Connection, Scratch, handshake::CryptoStreams, lifecycle::State};
use crate::{
    path::Path,
    space::{PacketNumberSpace, SpaceKind},
    units::PathId,
};

impl Connection {
    /// Nothing but a close will be sent, and nothing but a close heeded.
    pub(super) fn release(&mut self) {
        self.streams.on_connection_over(&self.config);
        self.messages.on_connection_over(&mut self.streams);
        self.datagrams.stop_sending();
        self.control.stop_sending();
        self.release_fec();
        self.crypto = CryptoStreams::default();
        self.handshake.release();
        self.undecryptable = Vec::new();
        self.scratch = Scratch::default();
        self.handshake_probes = [0; 2];
        self.keys.zero_rtt = None;
        if let Some(path) = self.paths.get_mut(PathId::ZERO) {
            for (space, kind) in [
                (&mut self.spaces.initial, SpaceKind::Initial),
                (&mut self.spaces.handshake, SpaceKind::Handshake),
            ] {
                if let Some(space) = space {
                    release_space(space, kind, path);
                }
            }
        }
        for path in self.paths.iter_mut() {
            path.release();
        }
        if !matches!(self.life.state, State::Closing(_)) {
            self.release_keys();
        }
    }

    /// Not even a close will be sent or heeded any more.
    pub(super) fn release_keys(&mut self) {
        self.keys.initial = None;
        self.keys.former_initial = None;
        self.keys.handshake = None;
        self.keys.one_rtt = None;
        self.spaces.initial = None;
        self.spaces.handshake = None;
        self.handshake.token = bytes::Bytes::new();
    }

    /// The application has let go of a connection that is over: nobody will read what is unread,
    /// poll for events, or ask what TLS agreed on (protocol, names, certificates, keying material).
    ///
    /// Without effect while the connection lives; [close](Self::close) it first. A driver must
    /// keep it, and drive it, until it [is drained](Self::is_drained).
    pub fn abandon(&mut self) {
        if !self.is_closed() {
            return;
        }
        self.streams.discard_unread();
        self.datagrams.discard_unread();
        self.messages.abandon();
        self.control.received_token = None;
        self.outbox.abandon();
        self.handshake.session = None;
    }
}

fn release_space(space: &mut PacketNumberSpace, kind: SpaceKind, path: &mut Path) {
    path.recovery.forget_in_flight(space, kind);
    space.received.release();
}
