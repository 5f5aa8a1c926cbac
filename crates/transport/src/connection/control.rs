//! Small control frames that belong to the connection and to no other room.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;

use super::Connection;
use crate::{
    endpoint::TokenSealer,
    packet::{PacketWriter, Token},
    time::Instant,
    wire::Frame,
};

/// What waits to be sent.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// HANDSHAKE_DONE. RFC 9000 s19.20.
    pub(crate) handshake_done: bool,
    /// NEW_TOKEN frames to send, with the index that tokens of sent packets name.
    tokens: VecDeque<(u64, Bytes)>,
    /// Sent and perhaps lost.
    sent_tokens: Vec<(u64, Bytes)>,
    /// The newest NEW_TOKEN of the peer.
    pub(crate) received_token: Option<Bytes>,
    sealer: Option<(Arc<TokenSealer>, u8)>,
}

impl Control {
    pub(crate) fn new(sealer: Option<(Arc<TokenSealer>, u8)>) -> Self {
        Self {
            sealer,
            ..Self::default()
        }
    }

    /// Nothing will be sent any more. A token of the peer's can still be taken.
    pub(crate) fn stop_sending(&mut self) {
        self.handshake_done = false;
        self.tokens = VecDeque::new();
        self.sent_tokens = Vec::new();
        self.sealer = None;
    }

    pub(crate) fn has_frames(&self) -> bool {
        self.handshake_done || !self.tokens.is_empty()
    }

    pub(crate) fn write(&mut self, packet: &mut PacketWriter<'_>) {
        if self.handshake_done && packet.push(&Frame::HandshakeDone) {
            self.handshake_done = false;
        }
        while let Some((index, token)) = self.tokens.front() {
            let frame = Frame::NewToken { token };
            if !packet.push_with_token(&frame, Token::NewToken { index: *index }) {
                break;
            }
            if let Some(sent) = self.tokens.pop_front() {
                self.sent_tokens.push(sent);
            }
        }
    }

    pub(crate) fn resend_token(&mut self, index: u64) {
        if let Some(at) = self.sent_tokens.iter().position(|(sent, _)| *sent == index) {
            self.tokens.push_back(self.sent_tokens.swap_remove(at));
        }
    }
}

impl Connection {
    /// A server gives its client tokens for later connections. RFC 9000 s8.1.3.
    pub(crate) fn queue_validation_tokens(&mut self, now: Instant) {
        let remote = self.remote_address();
        let version = self.handshake.version;
        let Some((sealer, count)) = &self.control.sealer else {
            return;
        };
        for index in 0..u64::from(*count) {
            let token = sealer.seal_validation(now, remote.ip(), version, &mut self.rng);
            self.control.tokens.push_back((index, Bytes::from(token)));
        }
    }

    /// The newest token the server gave for a later connection that starts in this one's
    /// [`version`](Self::version); taken once.
    pub fn take_validation_token(&mut self) -> Option<Bytes> {
        self.control.received_token.take()
    }
}
