//! One arm per frame, each calling one room.

use bytes::Bytes;

use super::{
    Connection,
    fates::frame_fates,
    rx::{Received, kind_of},
};
use crate::{
    ack::AckRequest,
    error::TransportError,
    fec::{Departure, Occasion, PathState},
    observe::Abuse,
    recovery::AckContext,
    space::SpaceKind,
    time::Instant,
    tls::{Level, OneRttKeys},
    units::PathId,
    wire::{Ack, Frame, MAX_VARINT},
};

/// Longest delay ACK_FREQUENCY may request. draft-ietf-quic-ack-frequency s4.
const MAX_REQUESTED_DELAY_US: u64 = (1 << 14) * 1_000;

impl Connection {
    /// Acts on one frame. `payload` is the packet it stands in.
    pub(crate) fn dispatch(
        &mut self,
        received: &Received,
        payload: &Bytes,
        frame: Frame<'_>,
    ) -> Result<(), TransportError> {
        let now = received.now;
        self.unreviewed = true;
        self.check_negotiated(&frame)?;
        if let Some(multipath) = &mut self.multipath
            && !matches!(frame, Frame::Stream(_) | Frame::Datagram { .. })
        {
            multipath.overdue.look_again();
        }
        match frame {
            Frame::Stream(stream) => {
                let data = payload.slice_ref(stream.data);
                let rtt = self.window_rtt(received.path);
                self.streams.on_stream(now, rtt, &stream, data)
            }
            Frame::Ack(ack) => self.on_ack(received, &ack),
            Frame::Padding { .. } | Frame::Ping | Frame::ImmediateAck => Ok(()),
            Frame::Crypto { offset, data } => self.on_crypto(received, offset, data),
            Frame::Datagram { data } => self.on_app_datagram(now, payload.slice_ref(data)),
            Frame::MaxData(max) => {
                self.streams.on_max_data(max);
                Ok(())
            }
            Frame::MaxStreamData { id, max } => self.streams.on_max_stream_data(id, max),
            Frame::MaxStreams { dir, max } => self.streams.on_max_streams(dir, max),
            Frame::ResetStream(reset) => self.streams.on_reset_stream(&reset),
            Frame::ResetStreamAt {
                id,
                code,
                final_size,
                reliable_size,
            } => self
                .streams
                .on_reset_stream_at(id, code, final_size, reliable_size),
            Frame::StopSending { id, code } => self.streams.on_stop_sending(id, code),
            Frame::DataBlocked(limit) => self.streams.on_data_blocked(limit),
            Frame::StreamDataBlocked { id, limit } => {
                self.streams.on_stream_data_blocked(id, limit)
            }
            Frame::StreamsBlocked { dir, limit } => self.streams.on_streams_blocked(dir, limit),
            Frame::NewConnectionId(new) => self.on_new_connection_id(&new),
            Frame::RetireConnectionId { path, sequence } => {
                self.on_retire_connection_id(received, path.unwrap_or(PathId::ZERO), sequence)
            }
            Frame::PathChallenge(data) => self.on_path_challenge(received, data),
            Frame::PathResponse(data) => self.on_path_response(now, received.path, &data),
            Frame::NewToken { token } => self.on_new_token(token),
            Frame::HandshakeDone => self.on_handshake_done(received),
            Frame::AckFrequency {
                sequence,
                threshold,
                max_ack_delay_us,
                reordering,
            } => {
                let request = AckRequest {
                    ack_eliciting_threshold: threshold,
                    max_ack_delay: std::time::Duration::from_micros(max_ack_delay_us),
                    reordering_threshold: reordering,
                };
                self.on_ack_frequency(received.path, sequence, request)
            }
            Frame::ConnectionClose(close) => {
                let error = Self::peer_close_error(&close);
                self.start_draining(now, error);
                Ok(())
            }
            // With what follows it, it was taken before.
            Frame::SourceSymbol(_) => Ok(()),
            Frame::Repair(repair) => self.on_repair(&repair),
            Frame::SymbolAck(ack) => self.on_symbol_ack(now, &ack),
            Frame::FecWindow {
                epoch,
                symbols,
                bytes,
            } => self.on_fec_window(epoch, symbols, bytes),
            Frame::PathAbandon { path, code } => self.on_path_abandon(now, path, code),
            Frame::PathStatus {
                path,
                available,
                sequence,
            } => self.on_path_status(received, path, available, sequence),
            Frame::MaxPathId(max) => self.on_max_path_id(max),
            Frame::PathsBlocked(at) => self.on_paths_blocked(at),
            Frame::PathCidsBlocked {
                path,
                next_sequence,
            } => self.on_path_cids_blocked(path, next_sequence),
            Frame::PathEcho { path, numbers } => self.on_path_echo(now, path, &numbers),
        }
    }

    /// Frames of extensions stand only where both sides agreed on them, or we offered them.
    fn check_negotiated(&self, frame: &Frame<'_>) -> Result<(), TransportError> {
        let path = match frame {
            Frame::Ack(ack) if ack.timestamps.is_some() && !self.config.receive_timestamps => {
                let error = "receive timestamps were not offered";
                return Err(TransportError::protocol_violation(error));
            }
            Frame::Ack(ack) => ack.path,
            Frame::PathEcho { .. } if !self.offers_echoes() => {
                let error = "PATH_ECHO was not offered";
                return Err(TransportError::protocol_violation(error));
            }
            Frame::PathEcho { path, .. } => Some(*path),
            Frame::NewConnectionId(new) => new.path,
            Frame::RetireConnectionId { path, .. } => *path,
            Frame::PathAbandon { path, .. }
            | Frame::PathStatus { path, .. }
            | Frame::PathCidsBlocked { path, .. } => Some(*path),
            // About no path in particular.
            Frame::MaxPathId(_) | Frame::PathsBlocked(_) => Some(PathId::ZERO),
            Frame::ImmediateAck if !self.config.ack_frequency => {
                let error = "IMMEDIATE_ACK was not offered";
                return Err(TransportError::protocol_violation(error));
            }
            _ => None,
        };
        match (path, &self.multipath) {
            (None, _) => Ok(()),
            (Some(path), Some(multipath)) => multipath.ids.check(path),
            (Some(_), None) => {
                let error = "multipath was not negotiated";
                Err(TransportError::protocol_violation(error))
            }
        }
    }

    fn on_ack(&mut self, received: &Received, ack: &Ack<'_>) -> Result<(), TransportError> {
        let now = received.now;
        let kind = kind_of(received.level);
        // ACK means path 0, wherever it arrives. RFC 10069 s4.1.
        let id = ack.path.unwrap_or(PathId::ZERO);
        let announced = self.peer_max_ack_delay();
        let peer_max_ack_delay = self.paths.get(id).map_or(announced, |path| {
            path.ack_frequency.max_ack_delay(announced)
        });
        let exponent = if kind == SpaceKind::Data {
            self.peer.ack_delay_exponent
        } else {
            3
        };
        let micros = ack.delay.saturating_mul(1 << exponent.min(20));
        let context = AckContext {
            now,
            ack_delay: std::time::Duration::from_micros(micros.min(MAX_VARINT)),
            peer_max_ack_delay,
            handshake_confirmed: self.life.confirmed,
            peer_completed_address_validation: self.peer_validated_us(),
            timestamps_exponent: super::TIMESTAMPS_EXPONENT,
            returned_by: received.path,
            elsewhere: received.path != id,
        };
        let idle = self.repeats_what_was_copied();
        let Some(path) = self.paths.get_mut(id) else {
            return Ok(());
        };
        if let Some(sender) = &mut self.fec.sender {
            let rtt = path.recovery.rtt();
            let state = PathState {
                smoothed_rtt: rtt.smoothed(),
                min_rtt: rtt.min(),
                calm_rtt: rtt.calm(),
                probe_timeout: path.recovery.pto_base() + peer_max_ack_delay,
                capacity: path.recovery.capacity(),
                filled: path.recovery.used_window(),
            };
            sender.on_path(id, state);
        }
        let space = match kind {
            SpaceKind::Initial => self.spaces.initial.as_mut(),
            SpaceKind::Handshake => self.spaces.handshake.as_mut(),
            SpaceKind::Data => Some(&mut path.space),
        };
        let Some(space) = space else {
            return Ok(());
        };
        let mut fates =
            frame_fates!(self, path, now, fec: self.fec.sender.as_deref_mut(), idle: idle);
        let ecn_before = path.recovery.ecn_phase();
        let returned_by = path.recovery.returned_by();
        let summary = path
            .recovery
            .on_ack(space, kind, ack, &context, &mut fates)?;
        fates.settle_acked();
        fates.settle_observed();
        let new_mtu = fates.new_mtu;
        let acked_acks = std::mem::take(&mut fates.acked_acks);
        if let Some(sequence) = fates.acked_request {
            path.ack_frequency.on_acked(sequence);
        }
        if let Some(mtu) = new_mtu {
            path.recovery.on_mtu(mtu);
        }
        if returned_by.is_some() && path.recovery.returned_by() != returned_by {
            path.ack.on_new_return_path();
        }
        let packet = summary
            .largest_newly_acked
            .zip(summary.largest_newly_acked_sent);
        let packet = packet.map(|(number, at)| Departure {
            path: id,
            number,
            at,
        });
        let round_trip = summary.rtt_sample.map(|_| path.recovery.rtt().newest());
        let measured = packet.zip(round_trip);
        if kind == SpaceKind::Data
            && let Some(largest) = summary.largest_newly_acked
            && let Some(keys) = self.keys.one_rtt.as_mut()
        {
            keys.on_acked(now, id, largest, received.key_phase)?;
        }
        self.apply_deferred(kind, acked_acks);
        if kind == SpaceKind::Data
            && let Some(sender) = &mut self.fec.sender
        {
            if let Some((packet, round_trip)) = measured {
                sender.on_round_trip(now, packet, round_trip);
            }
            sender.on_feedback(id);
            self.on_losses_heard(now);
            // A packet may be full of ACK frames that tell nothing.
            if summary.newly_acked {
                self.ask_for_redundancy(now, Occasion::Feedback);
            }
        }
        if let Some(phase) = summary.ecn_changed {
            self.emit_ecn(now, id, ecn_before, phase);
        }
        if summary.newly_acked {
            self.emit_recovery_metrics(now, id);
            if kind == SpaceKind::Handshake {
                self.handshake.peer_validated_us = true;
            }
            // An acknowledged 1-RTT packet shows that the server completed the handshake.
            // RFC 9001 s4.1.2 lets the client take it as confirmation.
            if kind == SpaceKind::Data
                && self.side().is_client()
                && received.level == Level::OneRtt
                && !self.is_handshaking()
                // Not one of 0-RTT packets, which share the packet number space.
                && self.keys.one_rtt.as_ref().is_some_and(OneRttKeys::is_acknowledged)
            {
                self.on_handshake_confirmed(now);
            }
        }
        Ok(())
    }

    fn on_crypto(
        &mut self,
        received: &Received,
        offset: u64,
        data: &[u8],
    ) -> Result<(), TransportError> {
        let kind = kind_of(received.level);
        if kind == SpaceKind::Initial && self.side().is_client() {
            // Until it has read the ClientHello a server acknowledges in the client's version;
            // its own CRYPTO bytes show which one it chose. RFC 9369 s4.1.
            self.handshake.version_settled = true;
        }
        let limit = self.config.limits.crypto_buffer_bytes;
        let stream = self.crypto.get(kind);
        stream.on_frame(offset, data, limit)?;
        self.may_release = true;
        self.on_crypto_readable(received.now, kind)
    }

    fn on_app_datagram(&mut self, now: Instant, data: Bytes) -> Result<(), TransportError> {
        if self.config.datagram_receive_buffer_bytes == 0 {
            // RFC 9221 s3: we announced that we take none.
            return Err(TransportError::protocol_violation(
                "DATAGRAM was not negotiated",
            ));
        }
        let dropped = self.datagrams.stats().dropped_unread;
        if self.datagrams.on_datagram(data) {
            self.outbox.datagram_received();
        }
        if self.datagrams.stats().dropped_unread > dropped {
            self.emit_abuse(now, Abuse::DatagramFlood);
        }
        Ok(())
    }

    fn on_new_token(&mut self, token: &[u8]) -> Result<(), TransportError> {
        if self.side().is_server() {
            return Err(TransportError::protocol_violation(
                "NEW_TOKEN from a client",
            ));
        }
        self.control.received_token = Some(Bytes::copy_from_slice(token));
        Ok(())
    }

    fn on_handshake_done(&mut self, received: &Received) -> Result<(), TransportError> {
        if self.side().is_server() {
            return Err(TransportError::protocol_violation(
                "HANDSHAKE_DONE from a client",
            ));
        }
        if !self.is_handshaking() {
            self.on_handshake_confirmed(received.now);
        }
        Ok(())
    }

    fn on_ack_frequency(
        &mut self,
        path: PathId,
        sequence: u64,
        request: AckRequest,
    ) -> Result<(), TransportError> {
        let micros = request.max_ack_delay.as_micros();
        if !self.config.ack_frequency {
            return Err(TransportError::protocol_violation(
                "ACK_FREQUENCY was not offered",
            ));
        }
        let too_short = request.max_ack_delay < self.min_ack_delay();
        if too_short || micros >= u128::from(MAX_REQUESTED_DELAY_US) {
            return Err(TransportError::protocol_violation(
                "ACK_FREQUENCY delay out of range",
            ));
        }
        let Some(path) = self.paths.get_mut(path) else {
            return Ok(());
        };
        if path
            .ack_frequency
            .largest_received
            .is_none_or(|largest| sequence > largest)
        {
            path.ack_frequency.largest_received = Some(sequence);
            path.ack.on_request(request);
        }
        Ok(())
    }
}
