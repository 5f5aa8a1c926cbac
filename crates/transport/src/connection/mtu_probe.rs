//! Datagrams that find out whether larger ones get through. RFC 9000 s14.4.

use super::{
    Connection,
    datagram_builder::{DatagramBuilder, SealContext},
    fates::frame_fates,
    rx::packet_type_of,
};
use crate::{
    endpoint::Transmit,
    packet::PacketWriter,
    path::{MIN_DATAGRAM, PathPhase},
    time::Instant,
    tls::Level,
    units::{Ecn, PathId, Side},
    wire::Frame,
};

impl Connection {
    /// Builds a probe of the size the search wants next, alone in its datagram.
    pub(super) fn transmit_mtu_probe(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut [u8],
        ecn: Ecn,
    ) -> Option<Transmit> {
        if !self.life.confirmed {
            return None;
        }
        let path = self.paths.get_mut(id)?;
        if !path.may_probe_mtu() || path.unnamed_until.is_some() {
            return None;
        }
        // The first window belongs to the application: the last packet of a short answer that
        // finds a probe in its place leaves a round trip later.
        if path.recovery.in_first_flight()
            && (self.streams.has_data() || self.datagrams.has_frames())
        {
            return None;
        }
        let size = path.mtu.probe_size(now)?;
        self.build_mtu_probe(now, id, buf, ecn, size)
    }

    /// Builds a probe while the handshake is under way, or a further path is being validated: whether full datagrams
    /// arrive is known a round trip sooner, and so for the first data. When there is nothing else to send (`idle`);
    /// a client's also among its first data, if that is more than two flights and leaves no such moment.
    ///
    /// A server has 1-RTT keys when its first flight leaves. What an address may get before it is proven
    /// must have room for the probe (RFC 9000 s8); certificates of some size leave none. A client, whose
    /// peer reads nothing before the end of the handshake, asks for something first.
    pub(super) fn transmit_early_mtu_probe(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut [u8],
        ecn: Ecn,
        idle: bool,
    ) -> Option<Transmit> {
        let path = self.paths.get(id)?;
        let asked = path.space.has_ack_eliciting_in_flight();
        let early = if id == PathId::ZERO {
            !self.life.confirmed
                && self.handshake.peer_params_seen
                && !path.network.is_validating()
                && match self.side {
                    Side::Server => idle,
                    Side::Client => {
                        let keys = !self.is_handshaking();
                        keys && asked && (idle || self.fills_flights(path, 2))
                    }
                }
        } else {
            idle && path.phase == PathPhase::Opening && asked && !path.network.wants_packet(now)
        };
        if !early {
            return None;
        }
        let path = self.paths.get_mut(id)?;
        let size = path.mtu.early_probe_size(now)?;
        // The rest lets timers run: they stop where nothing may be sent.
        if path.network.amplification.budget() < u64::from(size) + MIN_DATAGRAM {
            return None;
        }
        self.build_mtu_probe(now, id, buf, ecn, size)
    }

    /// The window is full, the handshake over, and the probe that left before its end unanswered: the peer
    /// may not have had the keys, or the path is too narrow. It must not take up room that data needs.
    pub(super) fn give_up_early_mtu_probe(&mut self, now: Instant, id: PathId) {
        if !self.life.confirmed {
            return;
        }
        let Some(path) = self.paths.get_mut(id) else {
            return;
        };
        if let Some(number) = path.mtu.early_probe() {
            let mut fates = frame_fates!(self, path, now);
            path.recovery
                .give_up_mtu_probe(&mut path.space, number, now, &mut fates);
        }
    }

    fn build_mtu_probe(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut [u8],
        ecn: Ecn,
        size: u16,
    ) -> Option<Transmit> {
        let path = self.paths.get_mut(id)?;
        if !path.recovery.can_send(u64::from(size)) || path.cap_room() < u64::from(size) {
            return None;
        }
        let room = buf.get_mut(..usize::from(size))?;
        let four_tuple = path.network.four_tuple();
        let dcid = path.remote_cids.active().cid;
        let keys = self.keys.one_rtt.as_mut()?;
        let mut builder = DatagramBuilder::new(room);
        let grease = self.config.grease && self.peer.grease_quic_bit;
        builder.fixed_bit = !(grease && self.rng.below(2) == 0);
        let mut open = builder.open_short(id, dcid, path.spin.value(), keys, &path.space)?;
        let mut writer = PacketWriter::new(
            builder.payload(&open)?,
            packet_type_of(Level::OneRtt),
            &mut self.scratch.tokens,
            &mut self.stats.frames_sent,
            &mut self.observer,
            now,
        );
        writer.push(&Frame::Ping);
        if self.peer.min_ack_delay_us.is_some() {
            writer.push(&Frame::ImmediateAck);
        }
        writer.pad(writer.remaining());
        open.finish(&writer);
        open.mtu_probe = true;
        let number = open.number();
        let mut tokens = std::mem::take(&mut self.scratch.tokens);
        let sealed = builder.seal_short(
            open,
            keys,
            &mut path.space,
            &mut path.recovery,
            &mut tokens,
            SealContext {
                now,
                rng: &mut self.rng,
                ecn,
            },
            &mut self.observer,
        );
        tokens.clear();
        self.scratch.tokens = tokens;
        let len = builder.len();
        let early = !self.life.confirmed || path.phase == PathPhase::Opening;
        path.mtu.on_probe_sent(number, early);
        path.network.amplification.on_sent(len);
        self.stats.packets_sent += 1;
        if let Err(error) = sealed {
            self.close_with(now, error);
            return None;
        }
        self.restart_idle_on_send(now, id);
        Some(Transmit {
            four_tuple,
            ecn,
            len,
            segment_size: None,
        })
    }
}
