//! The program that asks for the same small object again and again, on one connection.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tautline_sim::quic::{App, Context};
use tautline_transport::{
    config::ClientConfig,
    connection::Event,
    endpoint::ConnectionHandle,
    stream::{ReadOutcome, StreamEvent},
    time::Instant,
    units::{Dir, FourTuple, StreamId},
};

use crate::{
    checksum::{Digest, Hasher},
    demo::apps::{REQUEST, connect},
};

/// From the end of an answer to the next request.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// A request under way.
struct Asked {
    stream: StreamId,
    at: Instant,
    hasher: Hasher,
}

/// Asks, and measures each answer.
pub(super) struct RequestClient {
    config: Option<ClientConfig>,
    server: SocketAddr,
    handle: Option<ConnectionHandle>,
    /// What every answer should hash to.
    expected: Digest,
    /// Paths to open, beside that of the handshake.
    paths: Vec<FourTuple>,
    /// Requests still to be made.
    left: usize,
    asked: Option<Asked>,
    ask_at: Option<Instant>,
    /// Bytes received so far by all clients of this program, for the progress bar.
    everything: Arc<AtomicU64>,
    /// From each request to the last byte of its answer.
    pub(super) times: Vec<Duration>,
    /// Why it went wrong.
    pub(super) problem: Option<String>,
}

impl RequestClient {
    pub(super) fn new(
        config: ClientConfig,
        server: SocketAddr,
        expected: Digest,
        count: usize,
        paths: Vec<FourTuple>,
        everything: Arc<AtomicU64>,
    ) -> Self {
        Self {
            config: Some(config),
            server,
            handle: None,
            expected,
            paths,
            left: count,
            asked: None,
            ask_at: None,
            everything,
            times: Vec::with_capacity(count),
            problem: None,
        }
    }

    /// The connection that was opened.
    pub(super) fn connection(&self) -> Option<ConnectionHandle> {
        self.handle
    }

    /// Whether nothing more is to be expected.
    pub(super) fn is_over(&self) -> bool {
        self.problem.is_some() || self.left == 0
    }

    fn ask(&mut self, cx: &mut Context<'_>) {
        self.ask_at = None;
        if self.asked.is_some() || self.is_over() {
            return;
        }
        let now = cx.now;
        let Some(connection) = self.handle.and_then(|handle| cx.connection(handle)) else {
            return;
        };
        // If there is no room, `Available` will say when there is.
        let Some(stream) = connection.open_stream(Dir::Bi) else {
            return;
        };
        let sent = connection
            .write(stream, REQUEST)
            .and_then(|_| connection.finish(stream));
        if let Err(error) = sent {
            self.problem = Some(format!("a request could not be sent: {error}"));
            return;
        }
        self.asked = Some(Asked {
            stream,
            at: now,
            hasher: Hasher::new(),
        });
    }

    /// They wait by themselves for the end of the handshake.
    fn open_paths(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        let Some(connection) = self.handle.and_then(|handle| cx.connection(handle)) else {
            return;
        };
        for path in self.paths.drain(..) {
            if let Err(error) = connection.open_path(now, path) {
                self.problem = Some(format!("a path could not be opened: {error}"));
            }
        }
    }

    fn read(&mut self, cx: &mut Context<'_>, stream: StreamId) {
        let now = cx.now;
        let Some(asked) = self.asked.as_mut().filter(|asked| asked.stream == stream) else {
            return;
        };
        let Some(connection) = self.handle.and_then(|handle| cx.connection(handle)) else {
            return;
        };
        loop {
            match connection.read(stream, usize::MAX) {
                Ok(ReadOutcome::Chunk(data)) => {
                    asked.hasher.update(&data);
                    self.everything
                        .fetch_add(data.len() as u64, Ordering::Relaxed);
                }
                Ok(ReadOutcome::Finished) => break,
                Ok(ReadOutcome::Blocked) => return,
                Err(error) => {
                    self.problem = Some(error.to_string());
                    return;
                }
            }
        }
        let Some(asked) = self.asked.take() else {
            return;
        };
        if asked.hasher.finish() != self.expected {
            self.problem = Some("the bytes that arrived are not those that were sent".to_owned());
            return;
        }
        self.times.push(now.saturating_since(asked.at));
        self.left -= 1;
        self.ask_at = Some(now + PAUSE);
    }
}

impl App for RequestClient {
    fn on_start(&mut self, cx: &mut Context<'_>) {
        if let Some(config) = self.config.take() {
            match connect(cx, config, self.server) {
                Ok(handle) => self.handle = Some(handle),
                Err(problem) => self.problem = Some(problem),
            }
        }
    }

    fn on_event(&mut self, cx: &mut Context<'_>, _handle: ConnectionHandle, event: Event) {
        match event {
            Event::Connected => {
                self.open_paths(cx);
                self.ask(cx);
            }
            // While the next one waits for its time, it is not asked earlier.
            Event::Stream(StreamEvent::Available(Dir::Bi)) if self.ask_at.is_none() => {
                self.ask(cx);
            }
            Event::Stream(StreamEvent::Readable(stream)) => self.read(cx, stream),
            Event::Lost(error) => {
                self.problem.get_or_insert(error.to_string());
            }
            _ => {}
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_>) {
        self.ask(cx);
    }

    fn poll_timer(&self) -> Option<Instant> {
        self.ask_at
    }
}
