//! Small programs for simulated hosts: a server of patterned bytes, clients that fetch and check
//! them, and [`Manual`], which leaves everything to the test.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::LazyLock,
};

use bytes::Bytes;
use tautline_sim::quic::{Admission, App, Context};
use tautline_transport::{
    config::ClientConfig,
    connection::Event,
    endpoint::{ConnectionHandle, Incoming},
    error::ConnectionError,
    path::PathEvent,
    stream::{ReadOutcome, StreamEvent},
    time::Instant,
    units::{Dir, FourTuple, StreamId},
};

/// Bytes of the pattern written per call.
const CHUNK: usize = 64 * 1024;

/// Bytes after which the pattern begins anew: a prime, so that no two packets, windows or chunks of a transfer meet the
/// same bytes at the same place.
const PERIOD: u64 = 1_048_583;

/// The pattern, and of the next one as much as is written or compared at a time. Whole connections move gigabytes of it:
/// made byte by byte it took half of all time.
static PATTERN: LazyLock<Bytes> = LazyLock::new(|| {
    let offsets = 0..PERIOD + CHUNK as u64;
    offsets.map(pattern_byte).collect()
});

/// The byte at `offset` of every pattern.
pub fn pattern_byte(offset: u64) -> u8 {
    ((offset % PERIOD).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// At most [`CHUNK`] bytes of the pattern, without a copy.
fn pattern(offset: u64, len: usize) -> Bytes {
    let start = (offset % PERIOD) as usize;
    PATTERN.slice(start..start + len.min(CHUNK))
}

/// Where `data` first differs from the pattern at `offset`.
fn differs_at(data: &[u8], mut offset: u64) -> Option<u64> {
    for part in data.chunks(CHUNK) {
        let expected = pattern(offset, part.len());
        if expected != part {
            let same = expected.iter().zip(part).take_while(|(a, b)| a == b);
            return Some(offset + same.count() as u64);
        }
        offset += part.len() as u64;
    }
    None
}

/// Answers a request, whose first 8 bytes are a big-endian length, by that many bytes of the
/// pattern.
#[derive(Debug, Default)]
pub struct PatternServer {
    requests: BTreeMap<(ConnectionHandle, StreamId), Vec<u8>>,
    replies: BTreeMap<(ConnectionHandle, StreamId), Reply>,
    /// Whether to answer every first Initial by a Retry.
    pub retry: bool,
    /// How connections ended.
    pub ended: Vec<ConnectionError>,
    /// Events other than of streams, in order.
    pub events: Vec<Event>,
    /// Connections accepted.
    pub accepted: Vec<ConnectionHandle>,
}

#[derive(Debug)]
struct Reply {
    offset: u64,
    len: u64,
}

impl PatternServer {
    fn read_request(&mut self, cx: &mut Context<'_>, handle: ConnectionHandle, id: StreamId) {
        let Some(connection) = cx.connection(handle) else {
            return;
        };
        loop {
            match connection.read(id, usize::MAX) {
                Ok(ReadOutcome::Chunk(data)) => {
                    self.requests
                        .entry((handle, id))
                        .or_default()
                        .extend_from_slice(&data);
                }
                Ok(ReadOutcome::Finished) => {
                    // The end may be seen twice: on arrival and by a later event.
                    let Some(request) = self.requests.remove(&(handle, id)) else {
                        break;
                    };
                    let len = request
                        .first_chunk()
                        .map_or(0, |len| u64::from_be_bytes(*len));
                    self.replies.insert((handle, id), Reply { offset: 0, len });
                    break;
                }
                _ => break,
            }
        }
        self.write_reply(cx, handle, id);
    }

    fn write_reply(&mut self, cx: &mut Context<'_>, handle: ConnectionHandle, id: StreamId) {
        let Some(reply) = self.replies.get_mut(&(handle, id)) else {
            return;
        };
        let Some(connection) = cx.connection(handle) else {
            return;
        };
        while reply.offset < reply.len {
            let left = usize::try_from(reply.len - reply.offset).unwrap_or(usize::MAX);
            let mut data = pattern(reply.offset, left);
            match connection.write_bytes(id, &mut data) {
                Ok(0) => return,
                Ok(taken) => reply.offset += taken as u64,
                Err(_) => break,
            }
        }
        let _ = connection.finish(id);
        self.replies.remove(&(handle, id));
    }
}

impl App for PatternServer {
    fn on_incoming(&mut self, _incoming: &Incoming) -> Admission {
        if self.retry {
            Admission::Retry
        } else {
            Admission::Accept
        }
    }

    fn on_accepted(&mut self, _cx: &mut Context<'_>, connection: ConnectionHandle) {
        self.accepted.push(connection);
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
            Event::Lost(error) => self.ended.push(error),
            Event::Stream(_) => {}
            event => self.events.push(event),
        }
    }
}

/// One fetch of a [`PatternClient`].
#[derive(Clone, Debug)]
pub struct Fetch {
    /// Bytes wanted.
    pub len: u64,
    /// Bytes received, all of them checked.
    pub received: u64,
    /// When the last byte came.
    pub done_at: Option<Instant>,
    stream: Option<StreamId>,
}

/// Connects and fetches objects of given lengths: all at once as far as stream limits allow, or one by one.
pub struct PatternClient {
    config: Option<ClientConfig>,
    remote: SocketAddr,
    /// The connection.
    pub handle: Option<ConnectionHandle>,
    /// What is fetched.
    pub fetches: Vec<Fetch>,
    /// Close when everything is there.
    pub close_when_done: bool,
    /// Ask for an object when the one before is there.
    pub one_by_one: bool,
    /// Send requests before the handshake is complete, if possible.
    pub early: bool,
    /// Bytes sent after the length in every request.
    pub request_padding: usize,
    /// Further paths to open once connected; with some, nothing is fetched before all of them work or
    /// failed.
    pub paths: Vec<FourTuple>,
    /// How the connection ended.
    pub ended: Option<ConnectionError>,
    /// Events other than of streams, in order.
    pub events: Vec<Event>,
    /// A byte that was not the pattern's, at this offset.
    pub corrupt_at: Option<u64>,
}

impl PatternClient {
    /// A client that will fetch objects of `lens` bytes from `remote`.
    pub fn new(config: ClientConfig, remote: SocketAddr, lens: &[u64]) -> Self {
        let fetches = lens
            .iter()
            .map(|&len| Fetch {
                len,
                received: 0,
                done_at: None,
                stream: None,
            })
            .collect();
        Self {
            config: Some(config),
            remote,
            handle: None,
            fetches,
            close_when_done: true,
            one_by_one: false,
            early: false,
            request_padding: 0,
            paths: Vec::new(),
            ended: None,
            events: Vec::new(),
            corrupt_at: None,
        }
    }

    /// Whether every fetch is complete.
    pub fn is_done(&self) -> bool {
        self.fetches.iter().all(|fetch| fetch.done_at.is_some())
    }

    /// When the last fetch was complete.
    pub fn finished_at(&self) -> Option<Instant> {
        if !self.is_done() {
            return None;
        }
        self.fetches.iter().filter_map(|fetch| fetch.done_at).max()
    }

    /// How many of the further paths are settled: validated, or given up.
    fn settled_paths(&self) -> usize {
        let settled = |event: &&Event| {
            matches!(
                event,
                Event::Path(PathEvent::Validated { .. } | PathEvent::Abandoned { .. })
            )
        };
        self.events.iter().filter(settled).count()
    }

    fn open_paths(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        let Some(connection) = self.handle.and_then(|handle| cx.connection(handle)) else {
            return;
        };
        for path in &self.paths {
            let opened = connection.open_path(now, *path);
            assert!(opened.is_ok(), "{path}: {opened:?}");
        }
    }

    fn open(&mut self, cx: &mut Context<'_>) {
        if self.settled_paths() < self.paths.len() {
            return;
        }
        let Some(connection) = self.handle.and_then(|handle| cx.connection(handle)) else {
            return;
        };
        for fetch in &mut self.fetches {
            if fetch.stream.is_some() {
                if self.one_by_one && fetch.done_at.is_none() {
                    return;
                }
                continue;
            }
            let Some(id) = connection.open_stream(Dir::Bi) else {
                return;
            };
            fetch.stream = Some(id);
            let mut request = fetch.len.to_be_bytes().to_vec();
            request.resize(request.len() + self.request_padding, b'/');
            let _ = connection.write(id, &request);
            let _ = connection.finish(id);
            if self.one_by_one {
                return;
            }
        }
    }

    fn read(&mut self, cx: &mut Context<'_>, id: StreamId) {
        let now = cx.now;
        let Some(connection) = self.handle.and_then(|handle| cx.connection(handle)) else {
            return;
        };
        let Some(fetch) = self
            .fetches
            .iter_mut()
            .find(|fetch| fetch.stream == Some(id))
        else {
            return;
        };
        loop {
            match connection.read(id, usize::MAX) {
                Ok(ReadOutcome::Chunk(data)) => {
                    if self.corrupt_at.is_none() {
                        self.corrupt_at = differs_at(&data, fetch.received);
                    }
                    fetch.received += data.len() as u64;
                }
                Ok(ReadOutcome::Finished) => {
                    if fetch.received == fetch.len {
                        fetch.done_at = Some(now);
                    }
                    break;
                }
                _ => break,
            }
        }
        if self.is_done() && self.close_when_done {
            connection.close(now, 0, Bytes::new());
        } else if self.one_by_one {
            self.open(cx);
        }
    }
}

impl App for PatternClient {
    fn on_start(&mut self, cx: &mut Context<'_>) {
        if let Some(config) = self.config.take() {
            match cx.connect(config, self.remote, "localhost") {
                Ok(handle) => self.handle = Some(handle),
                Err(error) => panic!("cannot connect: {error}"),
            }
        }
        if self.early {
            self.open(cx);
        }
    }

    fn on_event(&mut self, cx: &mut Context<'_>, _handle: ConnectionHandle, event: Event) {
        match event {
            Event::Stream(StreamEvent::Readable(id)) => self.read(cx, id),
            Event::Stream(StreamEvent::Available(_)) => self.open(cx),
            Event::Stream(_) => {}
            Event::Lost(error) => self.ended = Some(error),
            event => {
                let settles = matches!(event, Event::Path(_));
                let connected = event == Event::Connected;
                self.events.push(event);
                if connected {
                    self.open_paths(cx);
                }
                if connected || settles {
                    self.open(cx);
                }
            }
        }
    }
}

/// Fetches over one connection after the other; each begins when the one before has ended.
pub struct SequenceClient {
    config: ClientConfig,
    remote: SocketAddr,
    waiting: VecDeque<Job>,
    /// The connection under way.
    pub current: Option<PatternClient>,
    /// Connections that ended, in order.
    pub finished: Vec<PatternClient>,
    /// What each of them said of itself at its end: resumed, early data accepted.
    pub resumption: Vec<(bool, Option<bool>)>,
}

/// One connection of a [`SequenceClient`].
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Lengths of the objects.
    pub lens: Vec<u64>,
    /// Whether to send requests as early data.
    pub early: bool,
    /// Bytes sent after the length in every request.
    pub request_padding: usize,
}

impl Job {
    /// Fetches objects of these lengths.
    pub fn new(lens: &[u64]) -> Self {
        Self {
            lens: lens.to_vec(),
            ..Self::default()
        }
    }

    /// The same, asking before the handshake is complete.
    #[must_use]
    pub fn early(self) -> Self {
        Self {
            early: true,
            ..self
        }
    }
}

impl SequenceClient {
    /// A client that does these jobs against `remote`.
    pub fn new(
        config: ClientConfig,
        remote: SocketAddr,
        jobs: impl IntoIterator<Item = Job>,
    ) -> Self {
        Self {
            config,
            remote,
            waiting: jobs.into_iter().collect(),
            current: None,
            finished: Vec::new(),
            resumption: Vec::new(),
        }
    }

    /// Whether every job is over, well or not.
    pub fn is_over(&self) -> bool {
        self.current.is_none() && self.waiting.is_empty()
    }

    /// Whether every job is over and everything was fetched unharmed.
    pub fn is_done(&self) -> bool {
        self.is_over()
            && self
                .finished
                .iter()
                .all(|client| client.is_done() && client.corrupt_at.is_none())
    }

    fn start_next(&mut self, cx: &mut Context<'_>) {
        self.current = self.waiting.pop_front().map(|job| {
            let mut client = PatternClient::new(self.config.clone(), self.remote, &job.lens);
            client.early = job.early;
            client.request_padding = job.request_padding;
            client.on_start(cx);
            client
        });
    }
}

impl App for SequenceClient {
    fn on_start(&mut self, cx: &mut Context<'_>) {
        self.start_next(cx);
    }

    fn on_event(&mut self, cx: &mut Context<'_>, handle: ConnectionHandle, event: Event) {
        let Some(current) = self
            .current
            .as_mut()
            .filter(|current| current.handle == Some(handle))
        else {
            return;
        };
        let over = matches!(event, Event::Lost(_));
        current.on_event(cx, handle, event);
        if !over {
            return;
        }
        if let Some(connection) = cx.connection(handle) {
            self.resumption
                .push((connection.resumed(), connection.early_data_accepted()));
            if let (Some(store), Some(token)) =
                (&self.config.token_store, connection.take_validation_token())
            {
                store.insert("localhost", connection.version(), token);
            }
        }
        self.finished.extend(self.current.take());
        self.start_next(cx);
    }
}

/// Records events and does nothing else: the test acts through
/// [`tautline_sim::quic::QuicHost::with_app`].
#[derive(Default)]
pub struct Manual {
    connect: Option<(ClientConfig, SocketAddr)>,
    /// What to do with clients that knock.
    pub admission: Option<Admission>,
    /// The connection started, or the newest one accepted.
    pub handle: Option<ConnectionHandle>,
    /// Every connection accepted.
    pub accepted: Vec<ConnectionHandle>,
    /// Everything that happened.
    pub events: Vec<(ConnectionHandle, Event)>,
    /// Clients that knocked, and whether their address was proven.
    pub knocks: Vec<bool>,
}

impl Manual {
    /// Connects to `remote` at the start.
    pub fn client(config: ClientConfig, remote: SocketAddr) -> Self {
        Self {
            connect: Some((config, remote)),
            ..Self::default()
        }
    }

    /// Accepts every client.
    pub fn server() -> Self {
        Self::default()
    }

    /// How the connection ended.
    pub fn ended(&self) -> Option<&ConnectionError> {
        self.events.iter().find_map(|(_, event)| match event {
            Event::Lost(error) => Some(error),
            _ => None,
        })
    }

    /// Whether this event came.
    pub fn saw(&self, wanted: &Event) -> bool {
        self.events.iter().any(|(_, event)| event == wanted)
    }
}

impl App for Manual {
    fn on_start(&mut self, cx: &mut Context<'_>) {
        if let Some((config, remote)) = self.connect.take() {
            match cx.connect(config, remote, "localhost") {
                Ok(handle) => self.handle = Some(handle),
                Err(error) => panic!("cannot connect: {error}"),
            }
        }
    }

    fn on_incoming(&mut self, incoming: &Incoming) -> Admission {
        self.knocks.push(incoming.is_validated());
        self.admission.unwrap_or(Admission::Accept)
    }

    fn on_accepted(&mut self, _cx: &mut Context<'_>, connection: ConnectionHandle) {
        self.handle = Some(connection);
        self.accepted.push(connection);
    }

    fn on_event(&mut self, _cx: &mut Context<'_>, handle: ConnectionHandle, event: Event) {
        self.events.push((handle, event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wrong_byte_of_a_pattern_is_told() {
        for offset in [0, 1, PERIOD - 3, 7 * PERIOD + 12_345] {
            let of = |range: std::ops::Range<u64>| range.map(pattern_byte).collect::<Vec<u8>>();
            let mut data = of(offset..offset + 3 * CHUNK as u64 / 2);
            assert_eq!(differs_at(&data, offset), None);
            assert_eq!(pattern(offset, 100), data[..100]);
            assert!(differs_at(&data, offset + 1).is_some());
            for wrong in [0, 1, CHUNK - 1, CHUNK, data.len() - 1] {
                data[wrong] ^= 1;
                assert_eq!(differs_at(&data, offset), Some(offset + wrong as u64));
                data[wrong] ^= 1;
            }
        }
        assert_eq!(differs_at(&[], 5), None);
    }
}
