//! The application's view of a connection.
//!
//! Owns: [`Connection`]. Does not own: the state behind it ([`crate::conn`]).

use std::{future::Future, net::SocketAddr, pin::pin};

use bytes::Bytes;
use rustls::pki_types::CertificateDer;
use tautline_transport::{
    datagram::SendDatagramError as QueueError,
    fec::{FecStats, LossEstimate, LossMemory},
    multipath::{PathPin, PinError},
    stream::{Protection, StreamStats, sched::Priority},
    units::{Dir, PathId, Side, StreamId},
    wire::Version,
};

pub use tautline_transport::{connection::ConnectionStats, path::PathStats};

use crate::{
    RecvStream, SendStream,
    conn::{Conn, ConnState, Queue, WaitFor},
    error::{ConnectionError, ExportError, HandshakeError, KeyUpdateError, SendDatagramError},
};

/// A QUIC connection.
///
/// Cheap to clone; clones name the same connection. **Drop:** when the last clone and the last
/// stream of it are dropped, the connection is closed with application code 0, at once: what was
/// not acknowledged by then is lost, and so is what was not read. Keep a clone until the work is
/// done; see [`SendStream::stopped`] for how to know.
///
/// **Cancel safety:** every `async` method may be dropped at any time (a `select!` branch that
/// lost, a timeout) and loses nothing: a stream or datagram is either returned by the call or
/// still there for the next one. [`Self::send_datagram_wait`] queues its datagram when it returns
/// and not before.
///
/// **Back-pressure:** whatever the peer sends is bounded by windows and limits in
/// [`TransportConfig`](crate::TransportConfig) until the application takes it: unread streams stop
/// the peer by flow control, streams that are not accepted by the stream limit; of datagrams that
/// are not read, the oldest are dropped; messages that are not taken stop the peer. What the application sends waits in
/// [`SendStream::write`] and friends when windows or the send buffer are full.
#[derive(Clone, Debug)]
pub struct Connection {
    conn: Conn,
}

impl Connection {
    pub(crate) fn new(conn: Conn) -> Self {
        Self { conn }
    }

    pub(crate) fn conn(&self) -> &Conn {
        &self.conn
    }

    fn get<R>(&self, read: impl FnOnce(&ConnState) -> R) -> R {
        read(&self.conn.state.lock())
    }

    pub(crate) fn wait<T, F>(&self, queue: Queue, attempt: F) -> WaitFor<&Conn, F>
    where
        F: FnMut(&mut ConnState) -> Option<T> + Unpin,
    {
        WaitFor::new(&self.conn, queue, attempt)
    }

    // ---- streams ----

    async fn open(&self, dir: Dir) -> Result<tautline_transport::units::StreamId, ConnectionError> {
        let open = move |state: &mut ConnState| {
            if let Err(error) = state.alive() {
                return Some(Err(error));
            }
            // Opening sends nothing; where the peer's limit stands in the way, it is told.
            let opened = state.quic.open_stream(dir);
            state.touched |= opened.is_none();
            opened.map(Ok)
        };
        self.wait(Queue::Open(dir), open).await
    }

    async fn accept(
        &self,
        dir: Dir,
    ) -> Result<tautline_transport::units::StreamId, ConnectionError> {
        let accept = move |state: &mut ConnState| {
            // What arrived before the end may still be taken.
            state
                .quic
                .accept_stream(dir)
                .map(Ok)
                .or_else(|| state.alive().err().map(Err))
        };
        self.wait(Queue::Accept(dir), accept).await
    }

    /// Opens a bidirectional stream; waits while the peer's limit is reached.
    ///
    /// The peer hears of the stream with the first byte (or the end) sent on it. Cancel safe.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.open(Dir::Bi).await?;
        Ok((
            SendStream::new(self.conn.clone(), id),
            RecvStream::new(self.conn.clone(), id),
        ))
    }

    /// Opens a unidirectional stream; waits while the peer's limit is reached. Cancel safe.
    ///
    /// # Errors
    /// When the connection has ended.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        Ok(SendStream::new(
            self.conn.clone(),
            self.open(Dir::Uni).await?,
        ))
    }

    /// The next bidirectional stream that the peer opens. Cancel safe.
    ///
    /// # Errors
    /// When the connection has ended and no stream is left.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.accept(Dir::Bi).await?;
        Ok((
            SendStream::new(self.conn.clone(), id),
            RecvStream::new(self.conn.clone(), id),
        ))
    }

    /// The next unidirectional stream that the peer opens. Cancel safe.
    ///
    /// # Errors
    /// When the connection has ended and no stream is left.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        Ok(RecvStream::new(
            self.conn.clone(),
            self.accept(Dir::Uni).await?,
        ))
    }

    /// Lets the peer have `count` bidirectional streams open at once from now on. Lowering it
    /// takes nothing back that was granted.
    pub fn set_max_concurrent_bi_streams(&self, count: u64) {
        self.set_max_streams(Dir::Bi, count);
    }

    /// Lets the peer have `count` unidirectional streams open at once from now on. Lowering it
    /// takes nothing back that was granted.
    pub fn set_max_concurrent_uni_streams(&self, count: u64) {
        self.set_max_streams(Dir::Uni, count);
    }

    /// [`SendStream::set_priority`] by number, for layers above that hand the stream away.
    /// Without effect on streams that are not open.
    pub fn set_stream_priority(&self, id: StreamId, priority: Priority) {
        self.conn
            .with(|state| state.quic.set_priority(id, priority));
    }

    /// [`SendStream::set_protection`] by number, for layers above that hand the stream away.
    /// Without effect on streams that are not open.
    pub fn set_stream_protection(&self, id: StreamId, protection: Protection) {
        self.conn
            .with(|state| state.quic.set_protection(id, protection));
    }

    /// [`SendStream::pin`] by number, for layers above that hand the stream away. Without effect on
    /// streams that are not open.
    ///
    /// # Errors
    /// As [`SendStream::pin`].
    pub fn pin_stream(&self, id: StreamId, pin: Option<PathPin>) -> Result<(), PinError> {
        self.conn.with(|state| {
            state.touched = true;
            state.quic.pin_stream(id, pin)
        })
    }

    fn set_max_streams(&self, dir: Dir, count: u64) {
        self.conn.with(|state| {
            state.quic.set_max_concurrent_streams(dir, count);
            state.touched = true;
        });
    }

    // ---- datagrams ----

    /// Queues an unreliable datagram (RFC 9221) without waiting.
    ///
    /// It is sent once, under congestion control, and never again if lost.
    ///
    /// # Errors
    /// See [`SendDatagramError`]; when the queue is full the datagram comes back.
    pub fn send_datagram(&self, data: Bytes) -> Result<(), SendDatagramError> {
        self.conn.with(|state| queue_datagram(state, data, None))
    }

    /// As [`Self::send_datagram`], by one path; one that is not there has no effect.
    ///
    /// # Errors
    /// See [`SendDatagramError`]; when the queue is full the datagram comes back.
    pub fn send_datagram_on(&self, data: Bytes, pin: PathPin) -> Result<(), SendDatagramError> {
        self.conn
            .with(|state| queue_datagram(state, data, Some(pin)))
    }

    /// Queues an unreliable datagram; waits while the queue is full.
    ///
    /// Cancel safe: unless it returned, nothing was queued.
    ///
    /// # Errors
    /// See [`SendDatagramError`].
    pub async fn send_datagram_wait(&self, data: Bytes) -> Result<(), SendDatagramError> {
        let mut data = Some(data);
        let attempt = |state: &mut ConnState| match queue_datagram(state, data.take()?, None) {
            Err(SendDatagramError::QueueFull(back)) => {
                data = Some(back);
                None
            }
            outcome => Some(outcome),
        };
        self.wait(Queue::DatagramOut, attempt).await
    }

    /// The next datagram that arrived.
    ///
    /// When more arrive than are read, the oldest are dropped. Cancel safe.
    ///
    /// # Errors
    /// When the connection has ended and no datagram is left.
    pub async fn read_datagram(&self) -> Result<Bytes, ConnectionError> {
        self.wait(Queue::DatagramIn, |state: &mut ConnState| {
            state
                .quic
                .recv_datagram()
                .map(Ok)
                .or_else(|| state.alive().err().map(Err))
        })
        .await
    }

    /// The longest datagram that fits a packet now, in bytes; `None` if the peer takes none.
    ///
    /// Changes with the path's MTU.
    pub fn max_datagram_size(&self) -> Option<usize> {
        self.get(|state| state.quic.max_datagram_size())
    }

    // ---- life and death ----

    /// Closes at once with an application error code (below 2^62) and words for the peer.
    ///
    /// Streams are abandoned as they stand: what was not delivered is dropped at once, what arrived
    /// in order can still be read. To be sure that the peer has everything, finish streams and
    /// await [`SendStream::stopped`] first. Before the program ends, await
    /// [`Endpoint::wait_idle`](crate::Endpoint::wait_idle), so that the peer hears of it.
    pub fn close(&self, code: u64, reason: &[u8]) {
        self.conn.close(code, Bytes::copy_from_slice(reason));
    }

    /// Waits for the end of the connection and tells why. Cancel safe.
    ///
    /// The future does not keep the connection open.
    pub fn closed(&self) -> impl Future<Output = ConnectionError> + Send + 'static + use<> {
        let conn = std::sync::Arc::clone(&self.conn);
        WaitFor::new(conn, Queue::Closed, |state: &mut ConnState| {
            state.error.clone()
        })
    }

    /// Why the connection ended, if it has.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.get(|state| state.usable().err())
    }

    /// Waits until the peer has finished the handshake too (RFC 9001 s4.1.2). Cancel safe.
    ///
    /// # Errors
    /// When the connection ended first.
    pub async fn handshake_confirmed(&self) -> Result<(), ConnectionError> {
        self.wait(Queue::Handshake, |state: &mut ConnState| {
            if state.confirmed {
                Some(Ok(()))
            } else {
                state.alive().err().map(Err)
            }
        })
        .await
    }

    /// Waits until the handshake is complete. Of use after
    /// [`Connecting::into_0rtt`](crate::Connecting::into_0rtt). Cancel safe.
    ///
    /// # Errors
    /// When the connection ended first.
    pub async fn handshake_complete(&self) -> Result<(), HandshakeError> {
        let remote = self.remote_address();
        let complete = |state: &mut ConnState| {
            if state.connected {
                Some(Ok(()))
            } else {
                state.alive().err().map(Err)
            }
        };
        let outcome = pin!(self.wait(Queue::Handshake, complete)).await;
        outcome.map_err(|error| HandshakeError::new(error, remote))
    }

    // ---- facts ----

    /// Which end this is.
    pub fn side(&self) -> Side {
        self.get(|state| state.quic.side())
    }

    /// The QUIC version in use.
    pub fn version(&self) -> Version {
        self.get(|state| state.quic.version())
    }

    /// Where the peer is now.
    pub fn remote_address(&self) -> SocketAddr {
        self.get(|state| state.quic.remote_address())
    }

    /// Where we are now; the IP is unspecified when the socket does not tell.
    pub fn local_address(&self) -> SocketAddr {
        self.get(|state| state.quic.local_address())
    }

    /// The application protocol agreed on.
    pub fn alpn(&self) -> Option<Vec<u8>> {
        self.get(|state| state.quic.alpn().map(<[u8]>::to_vec))
    }

    /// The name the client asked for.
    pub fn server_name(&self) -> Option<String> {
        self.get(|state| state.quic.server_name().map(str::to_owned))
    }

    /// The peer's certificate chain, end entity first, if it showed one.
    pub fn peer_identity(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.get(|state| state.quic.peer_certificates())
    }

    /// Whether this connection resumed an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.get(|state| state.quic.resumed())
    }

    /// Fills `out` with a secret that both ends can derive and nobody else (RFC 8446 s7.5).
    ///
    /// # Errors
    /// Before the handshake is complete, or for an impossible length.
    pub fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportError> {
        self.get(|state| state.quic.export_keying_material(out, label, context))
            .map_err(|_| ExportError)
    }

    /// Switches to the next packet protection keys. The connection does so by itself in time;
    /// this is for tests and very careful applications.
    ///
    /// # Errors
    /// Before the handshake is confirmed, or while an earlier update is under way.
    pub fn force_key_update(&self) -> Result<(), KeyUpdateError> {
        let now = self.conn.shard.now();
        self.conn.with(|state| {
            state.touched = true;
            state
                .quic
                .initiate_key_update(now)
                .map_err(|_| KeyUpdateError)
        })
    }

    /// Counters of the connection.
    pub fn stats(&self) -> ConnectionStats {
        self.get(|state| state.quic.stats())
    }

    /// Counters and buffers of the streams together.
    pub fn stream_stats(&self) -> StreamStats {
        self.get(|state| state.quic.stream_stats())
    }

    /// What forward erasure correction has done; all zero where it is not in use.
    pub fn fec_stats(&self) -> FecStats {
        self.get(|state| state.quic.fec_stats())
    }

    /// Whether the handshake agreed that packets from here may be protected by repair symbols: the peer
    /// decodes, this end encodes, and they have a code in common. Known once connected; `false` again
    /// after the end.
    pub fn is_fec_sender(&self) -> bool {
        self.get(|state| state.quic.is_fec_sender())
    }

    /// Whether the handshake agreed that packets of the peer may be protected by repair symbols. Known
    /// once connected; `false` again after the end.
    pub fn is_fec_receiver(&self) -> bool {
        self.get(|state| state.quic.is_fec_receiver())
    }

    /// Tells the peer to cover no more than the latest `symbols` packets by a repair symbol, from 1 to what the
    /// handshake offered ([`FecConfig::decoder_symbols`](tautline_transport::fec::FecConfig)); what is out of these
    /// bounds is set to the nearest. For who has to save work for a while: what the handshake offered may still be
    /// under way, so the memory for it stays. Without effect unless [`Self::is_fec_receiver`].
    pub fn set_fec_window(&self, symbols: u16) {
        self.conn.with(|state| {
            state.quic.set_fec_window(symbols);
            state.touched = true;
        });
    }

    /// How packets sent from here get lost on a path, as far as erasure correction follows it: shares from 0 to 1,
    /// and [`LossEstimate::packets`] 0 where nothing was heard of the path yet. `None` unless
    /// [`Self::is_fec_sender`].
    pub fn loss_estimate(&self, path: PathId) -> Option<LossEstimate> {
        self.get(|state| state.quic.loss_estimate(path))
    }

    /// The same for the connection as a whole, as the redundancy scheduler sees it: over several paths
    /// (RFC 10069) as if all went over one, each counting by the protected packets in flight on it; paths too slow
    /// to be protected together with the others are left out.
    pub fn connection_loss_estimate(&self) -> Option<LossEstimate> {
        self.get(|state| state.quic.connection_loss_estimate())
    }

    /// What this connection knows of losses on the way to its peer, for the
    /// [`FecConfig::loss_memory`](tautline_transport::fec::FecConfig) of another; also after its end.
    /// `None` where nothing is protected, or nothing was heard of yet. With
    /// [`FecConfig::loss_store`](tautline_transport::fec::FecConfig) connections share it by themselves.
    pub fn loss_memory(&self) -> Option<LossMemory> {
        self.get(|state| state.quic.loss_memory())
    }

    /// Each path in numbers: addresses, RTT, MTU, congestion, losses.
    pub fn paths(&self) -> Vec<PathStats> {
        self.get(|state| {
            state
                .quic
                .paths()
                .filter_map(|id| state.quic.path_stats(id))
                .collect()
        })
    }

    /// One path in numbers. A connection without multipath has path 0 only.
    pub fn path_stats(&self, path: PathId) -> Option<PathStats> {
        self.get(|state| state.quic.path_stats(path))
    }

    /// Smoothed round-trip time of path 0.
    pub fn rtt(&self) -> std::time::Duration {
        self.get(|state| state.quic.rtt())
    }

    /// A number that no other connection of this process bears while this one lives.
    pub fn stable_id(&self) -> usize {
        std::sync::Arc::as_ptr(&self.conn) as usize
    }
}

fn queue_datagram(
    state: &mut ConnState,
    data: Bytes,
    pin: Option<PathPin>,
) -> Result<(), SendDatagramError> {
    state.usable()?;
    let queued = match pin {
        None => state.quic.send_datagram(data),
        Some(pin) => state.quic.send_datagram_on(data, pin),
    };
    queued.map_err(|error| match error {
        QueueError::Blocked(back) => SendDatagramError::QueueFull(back),
        QueueError::TooLarge { max } => SendDatagramError::TooLarge { max },
        _ => SendDatagramError::UnsupportedByPeer,
    })?;
    state.touched = true;
    Ok(())
}
