//! What an application may ask of a connection.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use rustls::pki_types::CertificateDer;

use super::{Connection, ConnectionStats, EndpointEvent, Event};
use crate::{
    datagram::{DatagramStats, SendDatagramError},
    observe,
    path::{PathStats, Told},
    stream::{
        Protection, ReadError, ReadOutcome, ReceiveEnd, ResetError, StreamSet, StreamStats,
        UnorderedOutcome, WriteError, sched::Priority,
    },
    time::Instant,
    tls::ExportError,
    units::{Dir, PathId, Side, StreamId},
    wire::{MAX_VARINT, Version},
};

/// A key update cannot start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the keys cannot be updated now: the handshake or an earlier update is not confirmed yet")]
pub struct KeyUpdateError;

impl Connection {
    /// Which end this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// The QUIC version in use.
    pub fn version(&self) -> Version {
        self.handshake.version
    }

    /// The next thing the application should know.
    ///
    /// Nothing comes after [`Event::Lost`], whatever is still called.
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.outbox.is_over() {
            return None;
        }
        if let Some(event) = self.outbox.pop() {
            return Some(event);
        }
        if self.datagrams.take_unblocked() {
            return Some(Event::DatagramsUnblocked);
        }
        if let Some(event) = self.streams.poll_event() {
            return Some(Event::Stream(event));
        }
        if let Some(event) = self.messages.poll_event() {
            return Some(Event::Message(event));
        }
        self.outbox.pop_last()
    }

    /// The next thing the endpoint must do.
    pub fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        self.outbox.pop_endpoint()
    }

    /// Opens a stream, unless the peer's limit is reached.
    pub fn open_stream(&mut self, dir: Dir) -> Option<StreamId> {
        if self.is_closed() {
            return None;
        }
        self.streams.open(dir)
    }

    /// The next stream the peer opened.
    pub fn accept_stream(&mut self, dir: Dir) -> Option<StreamId> {
        self.streams.accept(dir)
    }

    /// The room of streams, for a stream that is the application's: one of a message is not.
    fn streams_for(&mut self, id: StreamId) -> Option<&mut StreamSet> {
        let theirs = !self.streams.is_of_message(id);
        theirs.then_some(&mut self.streams)
    }

    /// Queues bytes; returns how many were taken.
    ///
    /// # Errors
    /// [`WriteError`] when the stream does not exist, is finished, reset, stopped, or blocked.
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        let streams = self.streams_for(id).ok_or(WriteError::UnknownStream)?;
        streams.write(id, data)
    }

    /// Queues bytes without copying them and advances `data` past what was taken.
    ///
    /// # Errors
    /// As [`Connection::write`].
    pub fn write_bytes(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        let streams = self.streams_for(id).ok_or(WriteError::UnknownStream)?;
        streams.write_bytes(id, data)
    }

    /// No more data will follow on this stream.
    ///
    /// # Errors
    /// [`WriteError`] when the stream does not exist or was finished, reset or stopped.
    pub fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
        let streams = self.streams_for(id).ok_or(WriteError::UnknownStream)?;
        streams.finish(id)
    }

    /// Abandons sending, with a code below 2^62.
    ///
    /// # Errors
    /// [`ResetError`] when there is nothing to reset.
    pub fn reset(&mut self, id: StreamId, code: u64) -> Result<(), ResetError> {
        let streams = self.streams_for(id).ok_or(ResetError::UnknownStream)?;
        streams.reset(id, code.min(MAX_VARINT))
    }

    /// Abandons sending, but delivers the first `reliable_size` bytes still.
    ///
    /// # Errors
    /// [`ResetError`] when there is nothing to reset or the peer does not support it.
    pub fn reset_at(
        &mut self,
        id: StreamId,
        code: u64,
        reliable_size: u64,
    ) -> Result<(), ResetError> {
        let streams = self.streams_for(id).ok_or(ResetError::UnknownStream)?;
        streams.reset_at(id, code.min(MAX_VARINT), reliable_size)
    }

    /// Sets the stream's place among others. Unknown streams are ignored.
    pub fn set_priority(&mut self, id: StreamId, priority: Priority) {
        self.streams.set_priority(id, priority);
    }

    /// Says that the application means to write `bytes` on the stream in all, as soon as there is room; `None`: it no
    /// longer knows. The path scheduler then decides with what is still to come, and knows the last data before the stream
    /// is finished. It is a hint alone: less or more may be written. Unknown streams are ignored, and those of messages,
    /// whose size is known.
    pub fn set_size_hint(&mut self, id: StreamId, bytes: Option<u64>) {
        if let Some(streams) = self.streams_for(id) {
            streams.set_size_hint(id, bytes);
        }
    }

    /// Sets whether erasure correction protects what is sent of the stream from now on, sent again
    /// included. By default the redundancy scheduler says. Unknown streams are ignored, and those of
    /// messages, which have [`MessageOptions::protection`](crate::message::MessageOptions).
    pub fn set_protection(&mut self, id: StreamId, protection: Protection) {
        if let Some(streams) = self.streams_for(id) {
            streams.set_protection(id, protection);
        }
    }

    /// The code with which the peer refused the stream's data, if it did.
    pub fn stopped(&self, id: StreamId) -> Option<u64> {
        self.streams.stopped(id)
    }

    /// Takes up to `max_bytes` in-order bytes.
    ///
    /// # Errors
    /// [`ReadError`] when the stream was reset by the peer or does not exist (any more).
    pub fn read(&mut self, id: StreamId, max_bytes: usize) -> Result<ReadOutcome, ReadError> {
        let streams = self.streams_for(id).ok_or(ReadError::UnknownStream)?;
        streams.read(id, max_bytes)
    }

    /// Takes bytes in whatever order they arrived. Bytes behind a gap outlast the connection only
    /// on streams that were read like this before its end.
    ///
    /// # Errors
    /// As [`Connection::read`].
    pub fn read_unordered(
        &mut self,
        id: StreamId,
        max_bytes: usize,
    ) -> Result<UnorderedOutcome, ReadError> {
        let streams = self.streams_for(id).ok_or(ReadError::UnknownStream)?;
        streams.read_unordered(id, max_bytes)
    }

    /// How far the peer has come with a stream that we receive, without reading.
    ///
    /// # Errors
    /// [`ReadError::UnknownStream`].
    pub fn receive_end(&self, id: StreamId) -> Result<ReceiveEnd, ReadError> {
        self.streams.receive_end(id)
    }

    /// Whether flow-control or stream-state frames wait to be sent: after reading, tells whether a
    /// call of [`Connection::poll_transmit`] is worthwhile.
    pub fn has_stream_control(&self) -> bool {
        self.streams.has_control()
    }

    /// Asks the peer to stop sending.
    ///
    /// # Errors
    /// [`ReadError`] when there is nothing to stop.
    pub fn stop(&mut self, id: StreamId, code: u64) -> Result<(), ReadError> {
        let streams = self.streams_for(id).ok_or(ReadError::UnknownStream)?;
        streams.stop(id, code.min(MAX_VARINT))
    }

    /// Queues an application datagram. Returns its number on this connection, from 0.
    ///
    /// # Errors
    /// [`SendDatagramError`] when the peer does not take datagrams, this one is too large, or the
    /// queue is full.
    pub fn send_datagram(&mut self, data: Bytes) -> Result<u64, SendDatagramError> {
        let max = self.max_datagram_size();
        self.datagrams.send(data, max)
    }

    /// The oldest received application datagram.
    pub fn recv_datagram(&mut self) -> Option<Bytes> {
        self.datagrams.recv()
    }

    /// Counters of application datagrams.
    pub fn datagram_stats(&self) -> DatagramStats {
        self.datagrams.stats()
    }

    /// The longest application datagram that fits a packet now; `None` if the peer takes none.
    pub fn max_datagram_size(&self) -> Option<usize> {
        self.datagrams.max_payload(self.datagram_room())
    }

    /// Bytes of an application datagram that fit a packet on whichever path it takes.
    pub(crate) fn datagram_room(&self) -> usize {
        let live = self.paths.iter().filter(|path| !path.is_abandoned());
        let Some(path) = live.min_by_key(|path| path.mtu.current()) else {
            return 0;
        };
        // Header byte, connection ID, packet number, AEAD tag; below, frame type and length.
        let overhead = 1 + path.remote_cids.active().cid.len() + 4 + 16;
        let payload = usize::from(path.mtu.current()).saturating_sub(overhead);
        let sender = self.fec.sender.as_ref();
        let protector = sender.filter(|_| self.config.fec.protect_datagrams);
        let room = protector.map_or(payload, |sender| sender.symbol_room(payload));
        room.saturating_sub(3)
    }

    /// Sends a PING, which the peer must acknowledge.
    pub fn ping(&mut self) {
        if let Some(path) = self.main_path_mut() {
            path.pending.ping = true;
        }
    }

    /// Switches to the next packet protection keys. RFC 9001 s6.1.
    ///
    /// # Errors
    /// [`KeyUpdateError`] before the handshake is confirmed or while an update is under way.
    pub fn initiate_key_update(&mut self, now: Instant) -> Result<(), KeyUpdateError> {
        if !self.life.confirmed || self.is_closed() {
            return Err(KeyUpdateError);
        }
        self.refresh_key_retention();
        let keys = self.keys.one_rtt.as_mut().ok_or(KeyUpdateError)?;
        keys.initiate_update(now).map_err(|_| KeyUpdateError)?;
        self.ping();
        let phase = self.key_phase();
        self.observer.emit(now, || observe::Event::KeysUpdated {
            phase,
            by_peer: false,
        });
        Ok(())
    }

    /// Counters of the connection.
    pub fn stats(&self) -> ConnectionStats {
        self.stats
    }

    /// Counters of the streams.
    pub fn stream_stats(&self) -> StreamStats {
        self.streams.stats()
    }

    /// One path in numbers.
    pub fn path_stats(&self, id: PathId) -> Option<PathStats> {
        let path = self.paths.get(id)?;
        let rtt = path.recovery.rtt();
        Some(PathStats {
            id,
            four_tuple: path.network.four_tuple(),
            validated: path.network.is_validated() && path.has_opened,
            abandoned: path.is_abandoned(),
            status: path.status.effective(),
            cost: path.cost.cost,
            degraded: path.is_silent(),
            lost: path.told == Told::Lost && !path.is_abandoned(),
            rtt: rtt.smoothed(),
            acks_by: path.recovery.returned_by().unwrap_or(id),
            own_rtt: path.recovery.rtt_by(id).map(|rtt| rtt.smoothed()),
            min_rtt: rtt.min(),
            latest_rtt: rtt.latest(),
            rtt_variance: rtt.variance(),
            one_way_delay: path.recovery.one_way_delay().smoothed(),
            one_way_delay_variation: path.recovery.one_way_delay().variation(),
            mtu: path.mtu.current(),
            bytes_in_flight: path.recovery.bytes_in_flight(),
            bytes_received: path.bytes_received,
            congestion_controller: path.recovery.congestion().name(),
            congestion: path.recovery.congestion().metrics(),
            recovery: path.recovery.stats(),
            acks: path.ack_stats(),
        })
    }

    /// The identifiers of all paths.
    pub fn paths(&self) -> impl Iterator<Item = PathId> {
        self.paths.iter().map(|path| path.id)
    }

    /// Smoothed round-trip time of the fastest path.
    pub fn rtt(&self) -> Duration {
        let id = self.main_path().map_or(PathId::ZERO, |path| path.id);
        self.smoothed_rtt(id)
    }

    /// Where the peer is.
    pub fn remote_address(&self) -> SocketAddr {
        self.four_tuple().remote
    }

    /// Where we are; the IP may be unspecified when the socket does not tell.
    pub fn local_address(&self) -> SocketAddr {
        self.four_tuple().local
    }

    fn four_tuple(&self) -> crate::units::FourTuple {
        let first = self
            .paths
            .iter()
            .find(|path| !path.is_abandoned())
            .or_else(|| self.paths.iter().next())
            .map(|path| path.network.four_tuple());
        // A connection always has a path; the fallback only keeps this free of panics.
        first.unwrap_or(crate::units::FourTuple {
            local: SocketAddr::from(([0, 0, 0, 0], 0)),
            remote: SocketAddr::from(([0, 0, 0, 0], 0)),
        })
    }

    /// The application protocol chosen, once known.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.handshake
            .session
            .as_ref()
            .and_then(|session| session.alpn())
    }

    /// The server name the client asked for, once known.
    pub fn server_name(&self) -> Option<&str> {
        self.handshake
            .session
            .as_ref()
            .and_then(|session| session.server_name())
    }

    /// The peer's certificate chain, once known.
    pub fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.handshake
            .session
            .as_ref()
            .and_then(|session| session.peer_certificates())
    }

    /// Whether the session was resumed from an earlier connection.
    pub fn resumed(&self) -> bool {
        self.handshake
            .session
            .as_ref()
            .is_some_and(|session| session.resumed())
    }

    /// Whether data can be sent before the handshake is complete: a client with a ticket, or a
    /// server that has its 1-RTT keys already.
    pub fn has_0rtt(&self) -> bool {
        self.keys.zero_rtt.is_some() || self.side.is_server() && self.keys.one_rtt.is_some()
    }

    /// Whether the server took the client's early data; `None` until known.
    pub fn early_data_accepted(&self) -> Option<bool> {
        self.handshake
            .session
            .as_ref()
            .and_then(|session| session.early_data_accepted())
    }

    /// Keying material for the application's own use. RFC 8446 s7.5.
    ///
    /// # Errors
    /// [`ExportError`] before the handshake is complete, or if TLS refuses the length.
    pub fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportError> {
        let session = self.handshake.session.as_ref().ok_or(ExportError)?;
        session.export_keying_material(out, label, Some(context))
    }

    /// Changes how many streams the peer may have open at once.
    pub fn set_max_concurrent_streams(&mut self, dir: Dir, count: u64) {
        self.streams.set_max_concurrent(dir, count);
    }
}
