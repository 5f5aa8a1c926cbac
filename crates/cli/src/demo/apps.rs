//! The programs on the two simulated hosts: one serves the payload on every stream it is asked on,
//! the other asks once and hashes what comes. Both look at themselves at fixed intervals of
//! simulated time.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tautline_sim::quic::{App, Context};
use tautline_transport::{
    config::ClientConfig,
    connection::{Connection, ConnectionStats, Event},
    endpoint::ConnectionHandle,
    fec::FecStats,
    path::PathStats,
    stream::{ReadOutcome, StreamEvent, StreamStats},
    time::Instant,
    units::{Dir, FourTuple, PathId, StreamId},
};

use crate::checksum::{Digest, Hasher};

/// The name in the server's certificate.
const SERVER_NAME: &str = "localhost";
/// What the client asks; the server has only one thing to give.
pub(super) const REQUEST: &[u8] = b"the file, please";

/// Counts off intervals of simulated time from its beginning.
#[derive(Debug)]
struct Ticker {
    interval: Duration,
    next: Instant,
}

impl Ticker {
    fn new(interval: Duration) -> Self {
        Self {
            interval,
            next: Instant::ZERO,
        }
    }

    fn advance(&mut self) {
        self.next += self.interval;
    }
}

/// The sender in numbers, at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SenderView {
    pub(super) connection: ConnectionStats,
    pub(super) streams: StreamStats,
    pub(super) path: PathStats,
    pub(super) fec: FecStats,
}

impl SenderView {
    fn of(connection: &Connection) -> Option<Self> {
        Some(Self {
            connection: connection.stats(),
            streams: connection.stream_stats(),
            path: connection.path_stats(PathId::ZERO)?,
            fec: connection.fec_stats(),
        })
    }
}

/// Serves the payload.
#[derive(Debug)]
pub(super) struct FileServer {
    file: Bytes,
    /// What is still to be written, by stream.
    replies: BTreeMap<(ConnectionHandle, StreamId), Bytes>,
    /// Streams whose request was read.
    answered: BTreeMap<(ConnectionHandle, StreamId), ()>,
    connection: Option<ConnectionHandle>,
    ticker: Ticker,
    /// The sender at each tick; `None` before it had a connection.
    pub(super) views: Vec<Option<SenderView>>,
}

impl FileServer {
    pub(super) fn new(file: Bytes, interval: Duration) -> Self {
        Self {
            file,
            replies: BTreeMap::new(),
            answered: BTreeMap::new(),
            connection: None,
            ticker: Ticker::new(interval),
            views: Vec::new(),
        }
    }

    /// The connection that was accepted; of several the one that asks for something.
    pub(super) fn connection(&self) -> Option<ConnectionHandle> {
        self.connection
    }

    fn read_request(&mut self, cx: &mut Context<'_>, handle: ConnectionHandle, id: StreamId) {
        let Some(connection) = cx.connection(handle) else {
            return;
        };
        loop {
            match connection.read(id, usize::MAX) {
                Ok(ReadOutcome::Chunk(_)) => {}
                Ok(ReadOutcome::Finished) => break,
                _ => return,
            }
        }
        // The end of a stream may be seen twice.
        if self.answered.insert((handle, id), ()).is_none() {
            self.connection = Some(handle);
            self.replies.insert((handle, id), self.file.clone());
            self.write_reply(cx, handle, id);
        }
    }

    fn write_reply(&mut self, cx: &mut Context<'_>, handle: ConnectionHandle, id: StreamId) {
        let Some(rest) = self.replies.get_mut(&(handle, id)) else {
            return;
        };
        let Some(connection) = cx.connection(handle) else {
            return;
        };
        while !rest.is_empty() {
            match connection.write_bytes(id, rest) {
                Ok(0) => return,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        // Fails only when the client wants no more.
        let _ = connection.finish(id);
        self.replies.remove(&(handle, id));
    }
}

impl App for FileServer {
    fn on_accepted(&mut self, _cx: &mut Context<'_>, connection: ConnectionHandle) {
        self.connection = Some(connection);
    }

    fn on_event(&mut self, cx: &mut Context<'_>, handle: ConnectionHandle, event: Event) {
        match event {
            Event::Stream(StreamEvent::Opened(dir)) => {
                while let Some(id) = cx
                    .connection(handle)
                    .and_then(|connection| connection.accept_stream(dir))
                {
                    self.read_request(cx, handle, id);
                }
            }
            Event::Stream(StreamEvent::Readable(id)) => self.read_request(cx, handle, id),
            Event::Stream(StreamEvent::Writable(id)) => self.write_reply(cx, handle, id),
            _ => {}
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_>) {
        self.ticker.advance();
        let connection = self.connection.and_then(|handle| cx.connection(handle));
        self.views
            .push(connection.and_then(|connection| SenderView::of(connection)));
    }

    fn poll_timer(&self) -> Option<Instant> {
        Some(self.ticker.next)
    }
}

/// What the server's connection looks like now, or looked like when last seen.
pub(super) fn sender_now(host: &tautline_sim::quic::QuicHost<FileServer>) -> Option<SenderView> {
    let app = host.app();
    let now = app
        .connection()
        .and_then(|handle| host.connection(handle))
        .and_then(SenderView::of);
    now.or_else(|| app.views.iter().rev().find_map(|view| *view))
}

/// Fetches the payload and hashes it.
pub(super) struct FileClient {
    config: Option<ClientConfig>,
    server: SocketAddr,
    handle: Option<ConnectionHandle>,
    stream: Option<StreamId>,
    hasher: Option<Hasher>,
    ticker: Ticker,
    /// Bytes received so far by all clients of this program, for the progress bar.
    everything: Arc<AtomicU64>,
    /// Bytes received in order.
    pub(super) received: u64,
    /// Bytes received at each tick.
    pub(super) views: Vec<u64>,
    /// When the handshake was done.
    pub(super) connected_at: Option<Instant>,
    /// When the last byte came, and the SHA-256 of all.
    pub(super) finished: Option<(Instant, Digest)>,
    /// Why it went wrong.
    pub(super) problem: Option<String>,
}

impl FileClient {
    pub(super) fn new(
        config: ClientConfig,
        server: SocketAddr,
        interval: Duration,
        everything: Arc<AtomicU64>,
    ) -> Self {
        Self {
            config: Some(config),
            server,
            handle: None,
            stream: None,
            hasher: Some(Hasher::new()),
            ticker: Ticker::new(interval),
            everything,
            received: 0,
            views: Vec::new(),
            connected_at: None,
            finished: None,
            problem: None,
        }
    }

    /// The connection that was opened.
    pub(super) fn connection(&self) -> Option<ConnectionHandle> {
        self.handle
    }

    /// Whether nothing more is to be expected.
    pub(super) fn is_over(&self) -> bool {
        self.finished.is_some() || self.problem.is_some()
    }

    fn ask(&mut self, cx: &mut Context<'_>) {
        if self.stream.is_some() {
            return;
        }
        let Some(connection) = self.handle.and_then(|handle| cx.connection(handle)) else {
            return;
        };
        let Some(id) = connection.open_stream(Dir::Bi) else {
            return;
        };
        self.stream = Some(id);
        let sent = connection
            .write(id, REQUEST)
            .and_then(|_| connection.finish(id));
        if let Err(error) = sent {
            self.problem = Some(format!("the request could not be sent: {error}"));
        }
    }

    fn read(&mut self, cx: &mut Context<'_>, id: StreamId) {
        let now = cx.now;
        let Some(connection) = self.handle.and_then(|handle| cx.connection(handle)) else {
            return;
        };
        loop {
            match connection.read(id, usize::MAX) {
                Ok(ReadOutcome::Chunk(data)) => {
                    if let Some(hasher) = &mut self.hasher {
                        hasher.update(&data);
                    }
                    self.received += data.len() as u64;
                    self.everything
                        .fetch_add(data.len() as u64, Ordering::Relaxed);
                }
                Ok(ReadOutcome::Finished) => {
                    if let Some(hasher) = self.hasher.take() {
                        self.finished = Some((now, hasher.finish()));
                    }
                    return;
                }
                Ok(ReadOutcome::Blocked) => return,
                Err(error) => {
                    self.problem = Some(error.to_string());
                    return;
                }
            }
        }
    }
}

/// Opens a connection of a program over one of its ways to the server; the problem in words if it cannot.
pub(super) fn connect_over(
    cx: &mut Context<'_>,
    config: ClientConfig,
    way: FourTuple,
) -> Result<ConnectionHandle, String> {
    let opened = cx.connect_from(way.local, config, way.remote, SERVER_NAME);
    opened.map_err(|error| error.to_string())
}

impl App for FileClient {
    fn on_start(&mut self, cx: &mut Context<'_>) {
        if let Some(config) = self.config.take() {
            let opened = cx.connect(config, self.server, SERVER_NAME);
            match opened.map_err(|error| error.to_string()) {
                Ok(handle) => self.handle = Some(handle),
                Err(problem) => self.problem = Some(problem),
            }
        }
    }

    fn on_event(&mut self, cx: &mut Context<'_>, _handle: ConnectionHandle, event: Event) {
        match event {
            Event::Connected => {
                self.connected_at = Some(cx.now);
                self.ask(cx);
            }
            Event::Stream(StreamEvent::Available(Dir::Bi)) => self.ask(cx),
            Event::Stream(StreamEvent::Readable(id)) if self.finished.is_none() => {
                self.read(cx, id);
            }
            Event::Lost(error) => {
                self.problem.get_or_insert(error.to_string());
            }
            _ => {}
        }
    }

    fn on_timer(&mut self, _cx: &mut Context<'_>) {
        self.ticker.advance();
        self.views.push(self.received);
    }

    fn poll_timer(&self) -> Option<Instant> {
        Some(self.ticker.next)
    }
}
