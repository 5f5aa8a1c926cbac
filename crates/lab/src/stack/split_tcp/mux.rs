//! Streams on one byte stream, as HTTP/2 over TLS 1.3 has them: in order, hence one loss holds up
//! all of them.
//!
//! Bytes travel in records (`record.rs`). A receiver cannot decrypt half a one, so they are handed on
//! whole. The first 64 kB of a
//! connection go in records of a segment each, what follows in records as large as they may be.
//! Frames are made when they can be sent, by urgency, then in the order of the streams, or in turns
//! where they are incremental (RFC 9218).
//!
//! Owns: [`Mux`]. Does not own: sequence numbers, windows (`send.rs`, `receive.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{BufMut, Bytes, BytesMut};

use super::{
    record::{Header, Kind, LARGEST, RECORD_BYTES},
    send::Source,
};
use crate::session::{Happening, Read, StreamKey, Way};

/// Records are small up to here.
const EAGER: u64 = 64 * 1024;

#[derive(Debug, Default)]
struct Outgoing {
    pending: VecDeque<Bytes>,
    bytes: u64,
    finished: bool,
}

#[derive(Debug, Default)]
struct Incoming {
    chunks: VecDeque<Bytes>,
    ended: bool,
    gone: bool,
    /// Whether the program was told and has not read since.
    told: bool,
}

/// Urgency, whether in turns, the turn, the stream.
type Place = (u8, bool, u64, u32);

#[derive(Debug, Default)]
struct Stream {
    out: Option<Outgoing>,
    incoming: Option<Incoming>,
    urgency: u8,
    incremental: bool,
    place: Option<Place>,
}

#[derive(Debug)]
pub(super) struct Mux {
    client: bool,
    streams: BTreeMap<u32, Stream>,
    /// Streams opened so far, both ways and out only.
    opened: [u32; 2],
    /// Streams of the peer seen so far.
    seen: [u32; 2],
    own: u32,
    most_own: u32,
    waits_to_open: bool,
    ready: BTreeSet<Place>,
    turn: u64,
    blocked: BTreeSet<u32>,
    /// Bytes of a small record.
    small: usize,
    framed: u64,
    pending_bytes: u64,
    out: VecDeque<Bytes>,
    out_bytes: usize,
    inbox: VecDeque<Bytes>,
    inbox_bytes: usize,
    header: Option<Header>,
    /// Bytes of handshake that are still to come before the other side's part is complete.
    handshake_left: usize,
    unread: u64,
    events: VecDeque<Happening>,
}

const fn way_index(way: Way) -> usize {
    match way {
        Way::Both => 0,
        Way::Out => 1,
    }
}

impl Mux {
    /// `segment` is how many bytes one segment carries; `handshake` how many bytes of handshake
    /// the peer will send.
    pub(super) fn new(client: bool, segment: usize, most_streams: u32, handshake: usize) -> Self {
        Self {
            client,
            streams: BTreeMap::new(),
            opened: [0; 2],
            seen: [0; 2],
            own: 0,
            most_own: most_streams,
            waits_to_open: false,
            ready: BTreeSet::new(),
            turn: 0,
            blocked: BTreeSet::new(),
            small: segment.saturating_sub(RECORD_BYTES).max(1),
            framed: 0,
            pending_bytes: 0,
            out: VecDeque::new(),
            out_bytes: 0,
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            header: None,
            handshake_left: handshake,
            unread: 0,
            events: VecDeque::new(),
        }
    }

    /// What the program is to be told next.
    pub(super) fn event(&mut self) -> Option<Happening> {
        self.events.pop_front()
    }

    /// Forgets all streams.
    pub(super) fn end(&mut self) {
        self.streams.clear();
        self.ready.clear();
        self.blocked.clear();
        self.events.clear();
        self.out.clear();
        self.inbox.clear();
        (self.out_bytes, self.inbox_bytes) = (0, 0);
        (self.pending_bytes, self.unread) = (0, 0);
    }

    /// Bytes that are not handed to the sender yet.
    pub(super) fn unsent(&self) -> u64 {
        self.pending_bytes + self.out_bytes as u64
    }

    /// Bytes of streams that came and were not read. What is left of a record is not among them: it
    /// has to come whole, however small the window.
    pub(super) fn unread(&self) -> u64 {
        self.unread
    }

    /// There is room again: streams that found none may write.
    pub(super) fn unblock(&mut self) {
        for id in std::mem::take(&mut self.blocked) {
            self.events
                .push_back(Happening::Writable(StreamKey(id.into())));
        }
    }

    pub(super) fn has_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Sends so many bytes of handshake, in one record.
    pub(super) fn send_handshake(&mut self, bytes: usize) {
        self.control(Kind::Handshake, 0, bytes);
    }

    /// Bytes of handshake that the peer still has to send.
    pub(super) fn handshake_left(&self) -> usize {
        self.handshake_left
    }

    pub(super) fn open(&mut self, way: Way) -> Option<StreamKey> {
        let index = self.opened.get_mut(way_index(way))?;
        if self.own >= self.most_own || *index >= u32::MAX / 4 {
            self.waits_to_open = true;
            return None;
        }
        let id = *index * 4 + 2 * way_index(way) as u32 + u32::from(!self.client);
        *index += 1;
        self.own += 1;
        let stream = Stream {
            out: Some(Outgoing::default()),
            incoming: (way == Way::Both).then(Incoming::default),
            urgency: 3,
            ..Stream::default()
        };
        self.streams.insert(id, stream);
        Some(StreamKey(id.into()))
    }

    /// Takes up to `room` bytes.
    pub(super) fn write(&mut self, key: StreamKey, data: &mut Bytes, room: u64) -> usize {
        let id = key.0 as u32;
        let Some(out) = self.streams.get_mut(&id).and_then(|it| it.out.as_mut()) else {
            return 0;
        };
        if out.finished {
            return 0;
        }
        let taken = data.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if taken < data.len() {
            self.blocked.insert(id);
        }
        if taken > 0 {
            out.bytes += taken as u64;
            out.pending.push_back(data.split_to(taken));
            self.pending_bytes += taken as u64;
            self.enqueue(id);
        }
        taken
    }

    pub(super) fn finish(&mut self, key: StreamKey) {
        let id = key.0 as u32;
        if let Some(out) = self.streams.get_mut(&id).and_then(|it| it.out.as_mut()) {
            out.finished = true;
            self.enqueue(id);
        }
    }

    pub(super) fn reset(&mut self, key: StreamKey) {
        let id = key.0 as u32;
        if self.drop_out(id) {
            self.control(Kind::Reset, id, 0);
            self.tidy(id);
        }
    }

    pub(super) fn read(&mut self, key: StreamKey) -> Read {
        let id = key.0 as u32;
        let Some(stream) = self.streams.get_mut(&id) else {
            return Read::Gone;
        };
        let Some(incoming) = &mut stream.incoming else {
            return Read::Gone;
        };
        incoming.told = false;
        if let Some(chunk) = incoming.chunks.pop_front() {
            self.unread -= chunk.len() as u64;
            return Read::Chunk(chunk);
        }
        let end = match (incoming.gone, incoming.ended) {
            (true, _) => Read::Gone,
            (false, true) => Read::Finished,
            (false, false) => return Read::Blocked,
        };
        stream.incoming = None;
        self.tidy(id);
        end
    }

    pub(super) fn stop(&mut self, key: StreamKey) {
        let id = key.0 as u32;
        if self.drop_incoming(id) {
            self.control(Kind::Stop, id, 0);
            self.tidy(id);
        }
    }

    pub(super) fn prioritise(&mut self, key: StreamKey, urgency: u8, incremental: bool) {
        let id = key.0 as u32;
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        (stream.urgency, stream.incremental) = (urgency, incremental);
        if let Some(place) = stream.place.take() {
            self.ready.remove(&place);
            self.enqueue(id);
        }
    }

    fn drop_out(&mut self, id: u32) -> bool {
        self.blocked.remove(&id);
        let Some(stream) = self.streams.get_mut(&id) else {
            return false;
        };
        if let Some(place) = stream.place.take() {
            self.ready.remove(&place);
        }
        let out = stream.out.take();
        self.pending_bytes -= out.as_ref().map_or(0, |out| out.bytes);
        out.is_some()
    }

    fn drop_incoming(&mut self, id: u32) -> bool {
        let Some(incoming) = self
            .streams
            .get_mut(&id)
            .and_then(|stream| stream.incoming.take())
        else {
            return false;
        };
        let bytes: usize = incoming.chunks.iter().map(Bytes::len).sum();
        self.unread -= bytes as u64;
        true
    }

    /// Forgets a stream that is over both ways.
    fn tidy(&mut self, id: u32) {
        let over = |stream: &Stream| stream.out.is_none() && stream.incoming.is_none();
        if !self.streams.get(&id).is_some_and(over) {
            return;
        }
        self.streams.remove(&id);
        if self.is_own(id) {
            self.own -= 1;
            if std::mem::take(&mut self.waits_to_open) {
                self.events.push_back(Happening::MayOpen);
            }
        }
    }

    const fn is_own(&self, id: u32) -> bool {
        (id & 1 == 0) == self.client
    }

    fn enqueue(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.place.is_some() {
            return;
        }
        let turn = if stream.incremental {
            self.turn += 1;
            self.turn
        } else {
            0
        };
        let place = (stream.urgency, stream.incremental, turn, id);
        stream.place = Some(place);
        self.ready.insert(place);
    }

    fn put(&mut self, data: Bytes) {
        if !data.is_empty() {
            self.out_bytes += data.len();
            self.framed += data.len() as u64;
            self.out.push_back(data);
        }
    }

    fn control(&mut self, kind: Kind, stream: u32, length: usize) {
        let header = Header {
            kind,
            stream,
            length,
            ends: false,
        };
        self.put(header.encode());
        self.put(vec![0; length].into());
    }

    /// Makes a record of the stream whose turn it is.
    fn frame(&mut self) -> bool {
        let Some((_, _, _, id)) = self.ready.pop_first() else {
            return false;
        };
        let limit = if self.framed < EAGER {
            self.small
        } else {
            LARGEST
        };
        let Some(stream) = self.streams.get_mut(&id) else {
            return true;
        };
        stream.place = None;
        let Some(out) = &mut stream.out else {
            return true;
        };
        let mut pieces = Vec::new();
        let mut length = 0;
        while length < limit
            && let Some(front) = out.pending.front_mut()
        {
            let piece = front.split_to(front.len().min(limit - length));
            length += piece.len();
            pieces.push(piece);
            if front.is_empty() {
                out.pending.pop_front();
            }
        }
        out.bytes -= length as u64;
        self.pending_bytes -= length as u64;
        let ends = out.finished && out.bytes == 0;
        let more = out.bytes > 0;
        if ends {
            stream.out = None;
        }
        let header = Header {
            kind: Kind::Data,
            stream: id,
            length,
            ends,
        };
        self.put(header.encode());
        for piece in pieces {
            self.put(piece);
        }
        if ends {
            self.tidy(id);
        } else if more {
            self.enqueue(id);
        }
        true
    }

    /// Bytes of the stream came, in order.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn on_bytes(&mut self, data: Bytes) -> Result<(), String> {
        self.inbox_bytes += data.len();
        self.inbox.push_back(data);
        loop {
            let header = match self.header {
                Some(header) => header,
                None if self.inbox_bytes < RECORD_BYTES => return Ok(()),
                None => {
                    let mut bytes = [0; RECORD_BYTES];
                    let mut left = bytes.as_mut_slice();
                    self.take_inbox(RECORD_BYTES, |piece| left.put_slice(&piece));
                    let header = Header::decode(&bytes).ok_or("a record of no known kind")?;
                    if header.length > LARGEST {
                        return Err(format!("a record of {} bytes", header.length));
                    }
                    self.header = Some(header);
                    header
                }
            };
            if self.inbox_bytes < header.length {
                return Ok(());
            }
            self.header = None;
            self.on_record(header)?;
        }
    }

    fn take_inbox(&mut self, mut bytes: usize, mut each: impl FnMut(Bytes)) {
        self.inbox_bytes = self.inbox_bytes.saturating_sub(bytes);
        while bytes > 0
            && let Some(front) = self.inbox.front_mut()
        {
            let piece = front.split_to(front.len().min(bytes));
            bytes -= piece.len();
            if front.is_empty() {
                self.inbox.pop_front();
            }
            each(piece);
        }
    }

    fn on_record(&mut self, header: Header) -> Result<(), String> {
        let id = header.stream;
        let mut pieces = Vec::new();
        self.take_inbox(header.length, |piece| pieces.push(piece));
        if header.kind == Kind::Handshake {
            self.handshake_left = self.handshake_left.saturating_sub(header.length);
            return Ok(());
        }
        self.meet(id)?;
        match header.kind {
            Kind::Data => {
                let stream = self.streams.get_mut(&id);
                let Some(incoming) = stream.and_then(|it| it.incoming.as_mut()) else {
                    return Ok(());
                };
                self.unread += header.length as u64;
                incoming.chunks.extend(pieces);
                incoming.ended |= header.ends;
                self.tell_readable(id);
            }
            Kind::Reset => {
                let stream = self.streams.get_mut(&id);
                if let Some(incoming) = stream.and_then(|it| it.incoming.as_mut()) {
                    let dropped: usize = incoming.chunks.drain(..).map(|it| it.len()).sum();
                    self.unread -= dropped as u64;
                    incoming.gone = true;
                    self.tell_readable(id);
                }
            }
            Kind::Stop => {
                self.drop_out(id);
                self.tidy(id);
            }
            Kind::Handshake => {}
        }
        Ok(())
    }

    fn tell_readable(&mut self, id: u32) {
        let stream = self.streams.get_mut(&id);
        if let Some(incoming) = stream.and_then(|it| it.incoming.as_mut())
            && !std::mem::replace(&mut incoming.told, true)
        {
            self.events
                .push_back(Happening::Readable(StreamKey(id.into())));
        }
    }

    /// A record speaks of a stream, which may be new.
    fn meet(&mut self, id: u32) -> Result<(), String> {
        if self.is_own(id) {
            return Ok(());
        }
        let out_only = id & 2 != 0;
        let Some(seen) = self.seen.get_mut(usize::from(out_only)) else {
            return Ok(());
        };
        // Streams are opened in order; more urgent ones only speak first.
        while *seen <= id / 4 {
            let live = self.streams.len() - self.own as usize;
            // An end counts a stream of its own as over before the other end has read all of it.
            if live > 100 + 4 * self.most_own as usize {
                return Err(format!("{live} streams open at once"));
            }
            let next = *seen * 4 + (id & 3);
            *seen += 1;
            let stream = Stream {
                out: (!out_only).then(Outgoing::default),
                incoming: Some(Incoming::default()),
                urgency: 3,
                ..Stream::default()
            };
            self.streams.insert(next, stream);
            self.events
                .push_back(Happening::Opened(StreamKey(next.into())));
        }
        Ok(())
    }
}

impl Source for Mux {
    fn available(&mut self, most: usize) -> usize {
        while self.out_bytes < most && self.frame() {}
        self.out_bytes.min(most)
    }

    fn take(&mut self, most: usize) -> Bytes {
        let mut left = most.min(self.out_bytes);
        self.out_bytes -= left;
        let mut taken = BytesMut::with_capacity(left);
        while left > 0
            && let Some(front) = self.out.front_mut()
        {
            let piece = front.split_to(front.len().min(left));
            left -= piece.len();
            taken.extend_from_slice(&piece);
            if front.is_empty() {
                self.out.pop_front();
            }
        }
        taken.freeze()
    }
}

#[cfg(test)]
mod tests;
