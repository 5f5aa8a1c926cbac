//! A `tautline` connection as a half sees it.
//!
//! A half's calls do not wait. So every future of the connection is polled once, with a waker that puts a
//! signal into the mailbox; what is not ready then is told by a happening.
//!
//! Owns: [`Live`]. Does not own: when signals are delivered (`mod.rs`).

use std::{
    collections::BTreeMap,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use tautline::{
    Connection, ConnectionError, Dir, Expiry, MessageId, MessageOptions, MessageReport, Priority,
    ReadError, RecvStream, SendMessageError, SendStream, StreamId, UnknownMessage,
};
use tautline_lab::{
    session::{Fate, Half, HandOver, Happening, Read, Session, StreamKey, Way},
    stack::{WireStats, wire_of},
};
use tautline_transport::time::Instant;

use super::{
    Allowance,
    mailbox::{Mailbox, Signal},
    meter::take,
};
use crate::clock::RunClock;

/// The application's code of a connection that is closed because an allowance is used up.
const USED_UP: u64 = 1;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Ends = (Option<SendStream>, Option<RecvStream>);

struct Stream {
    send: Option<SendStream>,
    recv: Option<RecvStream>,
    readable: Waker,
    writable: Waker,
}

/// A connection, and what of it is under way.
pub(super) struct Live {
    connection: Connection,
    clock: RunClock,
    mailbox: Arc<Mailbox>,
    streams: BTreeMap<u64, Stream>,
    /// Streams that wait for the peer's limit, bidirectional first.
    opening: [Option<Boxed<Result<Ends, ConnectionError>>>; 2],
    /// The peer's next ones, likewise.
    accepting: [Boxed<Result<Ends, ConnectionError>>; 2],
    datagram: Option<Boxed<Result<Bytes, ConnectionError>>>,
    fates: BTreeMap<MessageId, Boxed<Result<MessageReport, UnknownMessage>>>,
    /// A message found no room.
    full: bool,
    closed: Boxed<ConnectionError>,
    is_closed: bool,
    left: Allowance,
    /// The transport when this end closed.
    last: Option<WireStats>,
}

const DIRS: [Dir; 2] = [Dir::Bi, Dir::Uni];

fn place(dir: Dir) -> usize {
    usize::from(dir == Dir::Uni)
}

fn accept(connection: &Connection, dir: Dir) -> Boxed<Result<Ends, ConnectionError>> {
    let connection = connection.clone();
    Box::pin(async move {
        Ok(match dir {
            Dir::Bi => {
                let (send, recv) = connection.accept_bi().await?;
                (Some(send), Some(recv))
            }
            Dir::Uni => (None, Some(connection.accept_uni().await?)),
        })
    })
}

fn open(connection: &Connection, dir: Dir) -> Boxed<Result<Ends, ConnectionError>> {
    let connection = connection.clone();
    Box::pin(async move {
        Ok(match dir {
            Dir::Bi => {
                let (send, recv) = connection.open_bi().await?;
                (Some(send), Some(recv))
            }
            Dir::Uni => (Some(connection.open_uni().await?), None),
        })
    })
}

impl Live {
    pub(super) fn new(connection: Connection, clock: RunClock, left: Allowance) -> Self {
        let mailbox = Arc::<Mailbox>::default();
        // Each is polled for the first time when its signal is delivered.
        for signal in DIRS
            .map(Signal::Accept)
            .into_iter()
            .chain([Signal::Datagram, Signal::Closed])
        {
            mailbox.put(signal);
        }
        Self {
            accepting: DIRS.map(|dir| accept(&connection, dir)),
            opening: [None, None],
            closed: Box::pin(connection.closed()),
            connection,
            clock,
            mailbox,
            streams: BTreeMap::new(),
            datagram: None,
            fates: BTreeMap::new(),
            full: false,
            is_closed: false,
            left,
            last: None,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Waits for something to deliver. Cancel safe.
    pub(super) fn filled(&self) -> impl Future<Output = ()> + Send + use<> {
        let mailbox = Arc::clone(&self.mailbox);
        async move { mailbox.filled().await }
    }

    /// The transport now.
    pub(super) fn wire(&self) -> Option<WireStats> {
        let (stats, fec) = (self.connection.stats(), self.connection.fec_stats());
        wire_of(&stats, self.connection.paths().into_iter(), fec)
    }

    /// Ends the connection, if it is not over. The transport at its end.
    pub(super) fn end(mut self) -> Option<WireStats> {
        self.close();
        self.last
    }

    /// Tells the half everything that has come up; the end of the connection last.
    pub(super) fn deliver(&mut self, half: &mut dyn Half) {
        let mut closed = false;
        loop {
            match self.mailbox.take() {
                Some(Signal::Closed) => closed = true,
                Some(signal) if !self.is_closed => self.on(half, signal),
                Some(_) => {}
                None => break,
            }
        }
        if closed && !self.is_closed {
            let waker = self.mailbox.waker(Signal::Closed);
            let mut cx = Context::from_waker(&waker);
            if let Poll::Ready(error) = self.closed.as_mut().poll(&mut cx) {
                self.is_closed = true;
                self.last = self.last.or_else(|| self.wire());
                let reason = match error {
                    ConnectionError::LocallyClosed => None,
                    ConnectionError::PeerApplication { code: 0, .. } => None,
                    error => Some(error.to_string()),
                };
                half.on(self, Happening::Closed(reason));
            }
        }
    }

    fn on(&mut self, half: &mut dyn Half, signal: Signal) {
        match signal {
            Signal::Accept(dir) => self.accept(half, dir),
            Signal::Readable(stream) => half.on(self, Happening::Readable(StreamKey(stream))),
            Signal::Writable(stream) => half.on(self, Happening::Writable(StreamKey(stream))),
            Signal::MayOpen => half.on(self, Happening::MayOpen),
            Signal::Datagram => half.on(self, Happening::Datagram),
            Signal::Fate(message) => self.fate(half, message),
            Signal::Closed => {}
        }
    }

    fn accept(&mut self, half: &mut dyn Half, dir: Dir) {
        let waker = self.mailbox.waker(Signal::Accept(dir));
        let mut cx = Context::from_waker(&waker);
        while let Poll::Ready(accepted) = self.accepting[place(dir)].as_mut().poll(&mut cx) {
            // Another one, which after the end of the connection says no more than this one did.
            self.accepting[place(dir)] = accept(&self.connection, dir);
            let Ok(ends) = accepted else { return };
            if take(&mut self.left.streams, 1) == 0 {
                self.use_up("streams");
                return;
            }
            let key = self.keep(ends);
            if let Some(key) = key {
                half.on(self, Happening::Opened(key));
            }
        }
    }

    fn keep(&mut self, (send, recv): Ends) -> Option<StreamKey> {
        let number = send.as_ref().map(SendStream::id);
        let StreamId(number) = number.or(recv.as_ref().map(RecvStream::id))?;
        let stream = Stream {
            send,
            recv,
            readable: self.mailbox.waker(Signal::Readable(number)),
            writable: self.mailbox.waker(Signal::Writable(number)),
        };
        self.streams.insert(number, stream);
        Some(StreamKey(number))
    }

    fn fate(&mut self, half: &mut dyn Half, message: MessageId) {
        let Some(fate) = self.fates.get_mut(&message) else {
            return;
        };
        let waker = self.mailbox.waker(Signal::Fate(message));
        let Poll::Ready(known) = fate.as_mut().poll(&mut Context::from_waker(&waker)) else {
            return;
        };
        self.fates.remove(&message);
        if let Ok(report) = known {
            let (fate, recovered) = (report.fate, report.recovered);
            half.on(self, Happening::Fate(Fate { fate, recovered }));
        }
        // One message fewer is under way.
        if std::mem::take(&mut self.full) {
            self.mailbox.put(Signal::MayOpen);
        }
    }

    /// The peer wanted more than it may have.
    fn use_up(&mut self, what: &str) {
        self.last = self.last.or_else(|| self.wire());
        let reason = format!("more {what} than the run may have here");
        self.connection.close(USED_UP, reason.as_bytes());
    }

    /// Forgets a stream of which nothing is left.
    fn tidy(&mut self, stream: StreamKey) {
        let over = |stream: &Stream| stream.send.is_none() && stream.recv.is_none();
        if self.streams.get(&stream.0).is_some_and(over) {
            self.streams.remove(&stream.0);
        }
    }
}

impl Session for Live {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn open(&mut self, way: Way) -> Option<StreamKey> {
        let dir = match way {
            Way::Both => Dir::Bi,
            Way::Out => Dir::Uni,
        };
        let waker = self.mailbox.waker(Signal::MayOpen);
        let slot = self.opening[place(dir)].take();
        let mut opening = slot.unwrap_or_else(|| open(&self.connection, dir));
        match opening.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(Ok(ends)) => {
                let key = self.keep(ends);
                if let (Some(StreamKey(number)), Way::Both) = (key, way) {
                    // A half reads when it is told to; that it did registers the waker.
                    self.mailbox.put(Signal::Readable(number));
                }
                key
            }
            Poll::Ready(Err(_)) => None,
            Poll::Pending => {
                self.opening[place(dir)] = Some(opening);
                None
            }
        }
    }

    fn write(&mut self, stream: StreamKey, data: &mut Bytes) -> usize {
        let Some(Stream {
            send: Some(send),
            writable,
            ..
        }) = self.streams.get_mut(&stream.0)
        else {
            return 0;
        };
        let mut cx = Context::from_waker(writable);
        let (mut written, mut is_used_up) = (0, false);
        // To the end, or until nothing is taken and the waker is registered.
        while !data.is_empty() {
            let most = usize::try_from(self.left.sent_bytes).unwrap_or(usize::MAX);
            if most == 0 {
                is_used_up = true;
                break;
            }
            let mut part = data.slice(..data.len().min(most));
            let Poll::Ready(Ok(taken)) = pin!(send.write_bytes(&mut part)).poll(&mut cx) else {
                break;
            };
            take(&mut self.left.sent_bytes, taken as u64);
            let _ = data.split_to(taken.min(data.len()));
            written += taken;
        }
        if is_used_up {
            self.use_up("bytes");
        }
        written
    }

    fn finish(&mut self, stream: StreamKey) {
        if let Some(mut send) = self
            .streams
            .get_mut(&stream.0)
            .and_then(|it| it.send.take())
        {
            // A stream that the peer stopped or that is over needs no end.
            let _ = send.finish();
        }
        self.tidy(stream);
    }

    fn reset(&mut self, stream: StreamKey) {
        if let Some(mut send) = self
            .streams
            .get_mut(&stream.0)
            .and_then(|it| it.send.take())
        {
            let _ = send.reset(0);
        }
        self.tidy(stream);
    }

    fn read(&mut self, stream: StreamKey) -> Read {
        let Some(Stream {
            recv: Some(recv),
            readable,
            ..
        }) = self.streams.get_mut(&stream.0)
        else {
            return Read::Gone;
        };
        let mut cx = Context::from_waker(readable);
        let read = match recv.poll_read_chunk(&mut cx, usize::MAX) {
            Poll::Pending => return Read::Blocked,
            Poll::Ready(Ok(Some(chunk))) => {
                let bytes = chunk.len() as u64;
                if take(&mut self.left.received_bytes, bytes) < bytes {
                    self.use_up("bytes");
                    return Read::Blocked;
                }
                return Read::Chunk(chunk);
            }
            // The end of the connection is told by itself, and is none of the stream.
            Poll::Ready(Err(ReadError::ConnectionLost(_))) => return Read::Blocked,
            Poll::Ready(Ok(None)) => Read::Finished,
            Poll::Ready(Err(_)) => Read::Gone,
        };
        if let Some(stream) = self.streams.get_mut(&stream.0) {
            stream.recv = None;
        }
        self.tidy(stream);
        read
    }

    fn stop(&mut self, stream: StreamKey) {
        if let Some(mut recv) = self
            .streams
            .get_mut(&stream.0)
            .and_then(|it| it.recv.take())
        {
            let _ = recv.stop(0);
        }
        self.tidy(stream);
    }

    fn prioritise(&mut self, stream: StreamKey, urgency: u8, incremental: bool) {
        let priority = Priority {
            urgency,
            incremental,
        };
        self.connection
            .set_stream_priority(StreamId(stream.0), priority);
    }

    fn send_datagram(&mut self, data: Bytes) -> bool {
        let bytes = data.len() as u64;
        if self.left.sent_bytes < bytes {
            self.use_up("bytes");
            return false;
        }
        let sent = self.connection.send_datagram(data).is_ok();
        if sent {
            take(&mut self.left.sent_bytes, bytes);
        }
        sent
    }

    fn receive_datagram(&mut self) -> Option<Bytes> {
        let connection = &self.connection;
        let next = self.datagram.get_or_insert_with(|| {
            let connection = connection.clone();
            Box::pin(async move { connection.read_datagram().await })
        });
        let waker = self.mailbox.waker(Signal::Datagram);
        let Poll::Ready(read) = next.as_mut().poll(&mut Context::from_waker(&waker)) else {
            return None;
        };
        self.datagram = None;
        let data = read.ok()?;
        let bytes = data.len() as u64;
        if take(&mut self.left.received_bytes, bytes) < bytes {
            self.use_up("bytes");
            return None;
        }
        Some(data)
    }

    fn send_message(
        &mut self,
        data: &Bytes,
        deadline: Option<Instant>,
        expiry: Expiry,
    ) -> HandOver {
        let bytes = data.len() as u64;
        if self.left.sent_bytes < bytes {
            self.use_up("bytes");
            return HandOver::Refused;
        }
        let options = match deadline {
            Some(deadline) => MessageOptions::by(self.clock.at(deadline)),
            None => MessageOptions::default(),
        };
        match self
            .connection
            .send_message(data.clone(), &options.expiry(expiry))
        {
            Ok(message) => {
                take(&mut self.left.sent_bytes, bytes);
                let fate = self.connection.message_fate(message);
                self.fates.insert(message, Box::pin(fate));
                // To be looked at once, and from then on when it is known.
                self.mailbox.put(Signal::Fate(message));
                HandOver::Taken
            }
            Err(SendMessageError::Blocked(_)) => {
                self.full = true;
                HandOver::Full
            }
            Err(_) => HandOver::Refused,
        }
    }

    fn next_message_at(&mut self, at: Instant) {
        self.connection.next_message_at(self.clock.at(at));
    }

    fn close(&mut self) {
        self.last = self.last.or_else(|| self.wire());
        self.connection.close(0, b"");
    }
}
