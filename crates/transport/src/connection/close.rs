//! The last packets: CONNECTION_CLOSE. RFC 9000 s10.2, s19.19.
//!
//! Owns: what a close says at each encryption level, and at which levels it is said.
//! Does not own: when to close and how often to repeat it (`lifecycle.rs`).

use super::{
    Connection,
    datagram_builder::{DatagramBuilder, OpenPacket},
    lifecycle::{CloseReason, State},
    rx::packet_type_of,
    tx::{MIN_INITIAL_DATAGRAM, MIN_PACKET_ROOM},
};
use crate::{
    endpoint::Transmit,
    error::Code,
    packet::PacketWriter,
    space::SpaceKind,
    time::Instant,
    tls::Level,
    units::{Ecn, PathId},
    wire::{Close, Frame},
};

impl Connection {
    /// CONNECTION_CLOSE on the next path that is to carry one. Any will do that is not abandoned. RFC 10069 s3.5.
    pub(super) fn transmit_close(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        loop {
            let State::Closing(closing) = &mut self.life.state else {
                return None;
            };
            let id = closing.due.pop()?;
            let reason = closing.reason.clone();
            if let Some(transmit) = self.transmit_close_on(now, id, &reason, buf) {
                return Some(transmit);
            }
        }
    }

    /// CONNECTION_CLOSE at every level the peer may be able to read.
    fn transmit_close_on(
        &mut self,
        now: Instant,
        id: PathId,
        reason: &CloseReason,
        buf: &mut [u8],
    ) -> Option<Transmit> {
        let path = self.paths.get(id)?;
        let four_tuple = path.network.four_tuple();
        let ecn = if self.config.ecn {
            path.recovery.ecn_mark()
        } else {
            Ecn::NotEct
        };
        let budget = usize::try_from(path.network.amplification.budget()).unwrap_or(usize::MAX);
        let size = buf
            .len()
            .min(usize::from(path.mtu.datagram_size()))
            .min(budget);
        let mut builder = DatagramBuilder::new(buf.get_mut(..size)?);
        // Sealing a client's Handshake packet ends its Initial keys: decide about padding before.
        let with_initial = self.keys.initial.is_some();
        let readable = self.life.confirmed || self.handshake.peer_params_seen;
        // Other paths than the first carry 1-RTT packets alone.
        let first = id == PathId::ZERO;
        let levels = [
            (Level::Initial, first && with_initial),
            (Level::Handshake, first && self.keys.handshake.is_some()),
            (Level::OneRtt, self.keys.one_rtt.is_some() && readable),
        ];
        let useful = levels.iter().filter(|(_, useful)| *useful);
        let last = useful.clone().next_back().map(|(level, _)| *level);
        for &(level, _) in useful {
            if builder.remaining() < MIN_PACKET_ROOM {
                break;
            }
            if let Some(mut open) = self.fill_close(now, id, &mut builder, level, reason) {
                if Some(level) == last && self.side.is_client() && with_initial {
                    builder.pad_to(&mut open, MIN_INITIAL_DATAGRAM.min(size));
                }
                self.seal_close(now, id, &mut builder, open, ecn);
            }
        }
        let len = builder.len();
        if len == 0 {
            return None;
        }
        if let Some(path) = self.paths.get_mut(id) {
            path.network.amplification.on_sent(len);
        }
        Some(Transmit {
            four_tuple,
            ecn,
            len,
            segment_size: None,
        })
    }

    fn fill_close(
        &mut self,
        now: Instant,
        id: PathId,
        builder: &mut DatagramBuilder<'_>,
        level: Level,
        reason: &CloseReason,
    ) -> Option<OpenPacket> {
        let (version, scid) = (self.handshake.version, self.handshake.local_cid);
        let path = self.paths.get_mut(id)?;
        let dcid = path.remote_cids.active().cid;
        let mut open = match level {
            Level::OneRtt => {
                let keys = self.keys.one_rtt.as_mut()?;
                builder.open_short(id, dcid, path.spin.value(), keys, &path.space)?
            }
            _ => {
                let space = match level {
                    Level::Initial => self.spaces.initial.as_ref()?,
                    _ => self.spaces.handshake.as_ref()?,
                };
                let token: &[u8] = if level == Level::Initial {
                    &self.handshake.token
                } else {
                    &[]
                };
                builder.open_long(level, version, dcid, scid, token, space)?
            }
        };
        let mut writer = PacketWriter::new(
            builder.payload(&open)?,
            packet_type_of(level),
            &mut self.scratch.tokens,
            &mut self.stats.frames_sent,
            &mut self.observer,
            now,
        );
        let room = writer.remaining().saturating_sub(24);
        let pushed = match reason {
            CloseReason::Application { code, reason } if level == Level::OneRtt => {
                let reason = reason.get(..reason.len().min(room)).unwrap_or_default();
                let close = Close {
                    frame_type: None,
                    code: *code,
                    reason,
                };
                writer.push(&Frame::ConnectionClose(close))
            }
            // Application codes must not show before the handshake is protected.
            // RFC 9000 s10.2.3.
            CloseReason::Application { .. } => {
                let code = Code::APPLICATION_ERROR.0;
                let close = Close {
                    frame_type: Some(0),
                    code,
                    reason: &[],
                };
                writer.push(&Frame::ConnectionClose(close))
            }
            CloseReason::Transport(error) => {
                let text = error.reason.as_bytes();
                let reason = text.get(..text.len().min(room)).unwrap_or_default();
                let frame_type = Some(error.frame_type);
                let close = Close {
                    frame_type,
                    code: error.code.0,
                    reason,
                };
                writer.push(&Frame::ConnectionClose(close))
            }
        };
        if !pushed {
            builder.abort(open);
            return None;
        }
        open.finish(&writer);
        Some(open)
    }

    fn seal_close(
        &mut self,
        now: Instant,
        id: PathId,
        builder: &mut DatagramBuilder<'_>,
        open: OpenPacket,
        ecn: Ecn,
    ) {
        // Failure to protect the last packet changes nothing any more.
        let before = self.life.state.clone();
        self.seal(now, id, builder, open, ecn);
        self.life.state = before;
        // Nor does what becomes of it.
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        path.forget_sent();
        for (space, kind) in [
            (&mut self.spaces.initial, SpaceKind::Initial),
            (&mut self.spaces.handshake, SpaceKind::Handshake),
        ] {
            if let Some(space) = space
                && id == PathId::ZERO
            {
                path.recovery.forget_in_flight(space, kind);
            }
        }
    }
}
