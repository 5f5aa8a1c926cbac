//! The program that asks for the same small object again and again, on one connection: of attempts over all its ways to the
//! server, each begun a little later, the first one that succeeds, as `tautline get --paths` makes it.

use std::{
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
    connection::Event,
    endpoint::ConnectionHandle,
    stream::{ReadOutcome, StreamEvent},
    time::Instant,
    units::{Dir, FourTuple, StreamId},
};

use crate::{
    checksum::{Digest, Hasher},
    demo::apps::{REQUEST, connect_over},
};

/// From the end of an answer to the next request.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// From one attempt to connect to the next over another way. RFC 8305 s8.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// A request under way.
struct Asked {
    stream: StreamId,
    at: Instant,
    hasher: Hasher,
}

/// Asks, and measures each answer.
pub(super) struct RequestClient {
    config: ClientConfig,
    /// Where connections may begin; paths are opened over the others.
    ways: Vec<FourTuple>,
    /// An attempt over each of the first ways.
    attempts: Vec<ConnectionHandle>,
    next_attempt: Option<Instant>,
    /// The first attempt that succeeded.
    handle: Option<ConnectionHandle>,
    /// What every answer should hash to.
    expected: Digest,
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
        ways: Vec<FourTuple>,
        expected: Digest,
        count: usize,
        everything: Arc<AtomicU64>,
    ) -> Self {
        Self {
            config,
            ways,
            attempts: Vec::new(),
            next_attempt: None,
            handle: None,
            expected,
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

    /// Begins a connection over the next way, if none has succeeded and one is left.
    fn attempt(&mut self, cx: &mut Context<'_>) {
        self.next_attempt = None;
        let Some(way) = self.ways.get(self.attempts.len()).copied() else {
            return;
        };
        if self.handle.is_some() {
            return;
        }
        match connect_over(cx, self.config.clone(), way) {
            Ok(handle) => self.attempts.push(handle),
            Err(problem) => self.problem = Some(problem),
        }
        if self.attempts.len() < self.ways.len() {
            self.next_attempt = Some(cx.now + ATTEMPT_DELAY);
        }
    }

    /// The first one to succeed goes on, over all ways; the others are closed.
    fn settle_for(&mut self, cx: &mut Context<'_>, handle: ConnectionHandle) {
        let now = cx.now;
        self.handle = Some(handle);
        self.next_attempt = None;
        for other in self.attempts.iter().filter(|other| **other != handle) {
            if let Some(connection) = cx.connection(*other) {
                connection.close(now, 0, Bytes::from_static(b"another one was faster"));
            }
        }
        let Some(connection) = cx.connection(handle) else {
            return;
        };
        let first = connection.local_address();
        for way in self.ways.drain(..).filter(|way| way.local != first) {
            if let Err(error) = connection.open_path(now, way) {
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
        self.attempt(cx);
    }

    fn on_event(&mut self, cx: &mut Context<'_>, handle: ConnectionHandle, event: Event) {
        if self.handle.is_some_and(|chosen| chosen != handle) {
            // Closed by now.
            return;
        }
        match event {
            Event::Connected => {
                self.settle_for(cx, handle);
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
        if self.next_attempt.is_some_and(|at| at <= cx.now) {
            self.attempt(cx);
        }
        if self.ask_at.is_some_and(|at| at <= cx.now) {
            self.ask(cx);
        }
    }

    fn poll_timer(&self) -> Option<Instant> {
        [self.next_attempt, self.ask_at].into_iter().flatten().min()
    }
}
