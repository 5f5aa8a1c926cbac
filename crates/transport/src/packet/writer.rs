//! The frames of one packet under construction, and the record of what it carries.

use super::{FrameStats, Token};
use crate::{
    observe::{Event, Observer},
    time::Instant,
    units::{PathId, StreamId},
    wire::{
        AckToWrite, Frame, PacketTypes, Reader, Repair, SourceSymbol, Writer, codepoints,
        encode_stream_header, stream_header_len, varint_len, write_ack, write_path_echo,
        write_symbol_ack,
    },
};

/// What the frames of a packet make of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketFlags {
    /// Carries a frame that asks for an acknowledgement.
    pub ack_eliciting: bool,
    /// Counts towards bytes in flight.
    pub in_flight: bool,
    /// Carries an ACK or PATH_ACK frame.
    pub has_ack: bool,
    /// Carries stream or application-datagram data.
    pub has_data: bool,
    /// Carries a frame other than ACK, PATH_ACK, PING and PADDING.
    pub has_more: bool,
    /// Carries stream data that left before.
    pub repeats: bool,
    /// A symbol in it carries the last bytes that a stream had to send, up to the end that the application has told.
    pub ends_stream: bool,
    /// Carries IMMEDIATE_ACK, or what is acknowledged at once anyway.
    pub asks: bool,
}

/// Writes frames into the payload of one packet.
///
/// Every frame of every packet goes through here, so here tokens, flags, counters and events are
/// recorded. A frame that does not fit is refused whole.
#[derive(Debug)]
pub struct PacketWriter<'a> {
    writer: Writer<'a>,
    tokens: &'a mut Vec<Token>,
    stats: &'a mut FrameStats,
    observer: &'a mut Observer,
    now: Instant,
    packet_type: PacketTypes,
    flags: PacketFlags,
    symbol: Option<Symbol>,
    deferred: Option<Deferred>,
}

/// A source symbol that begins with the first data that is protected.
#[derive(Clone, Copy, Debug)]
struct Deferred {
    header: SourceSymbol,
    id: u64,
    /// What the payload may grow to then.
    limit: usize,
    by_default: bool,
}

/// A source symbol under construction.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    header: SourceSymbol,
    /// Where the header begins.
    start: usize,
    /// Tokens before it.
    tokens: usize,
    /// Whether the sink was told of the header: it is when something follows.
    announced: bool,
}

impl<'a> PacketWriter<'a> {
    /// A writer over `payload`, which is as long as the packet's payload may become.
    ///
    /// `tokens` is scratch space; what it holds afterwards belongs to this packet.
    pub fn new(
        payload: &'a mut [u8],
        packet_type: PacketTypes,
        tokens: &'a mut Vec<Token>,
        stats: &'a mut FrameStats,
        observer: &'a mut Observer,
        now: Instant,
    ) -> Self {
        let writer = Writer::new(payload);
        Self {
            writer,
            tokens,
            stats,
            observer,
            now,
            packet_type,
            flags: PacketFlags::default(),
            symbol: None,
            deferred: None,
        }
    }

    /// Payload bytes still free.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.writer.remaining()
    }

    /// Payload bytes written.
    #[inline]
    pub fn len(&self) -> usize {
        self.writer.len()
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells the sink of something beside the frames, if there is one.
    #[inline]
    pub fn observe<'e>(&mut self, event: impl FnOnce() -> Event<'e>) {
        self.observer.emit(self.now, event);
    }

    /// What the frames so far make of the packet.
    pub fn flags(&self) -> PacketFlags {
        self.flags
    }

    /// Whether frames of this kind may stand in this packet. RFC 9000 s12.4 table 3.
    pub fn allows(&self, frame: &Frame<'_>) -> bool {
        frame.row().allowed.contains(self.packet_type)
    }

    /// Writes `frame`; false, and nothing happens, when it does not fit or may not stand here.
    pub fn push(&mut self, frame: &Frame<'_>) -> bool {
        if frame.encoded_len() > self.remaining() || !self.allows(frame) {
            return false;
        }
        frame.encode(&mut self.writer);
        if let Some(token) = token_of(frame) {
            self.tokens.push(token);
        }
        let row = frame.row();
        self.flags.ack_eliciting |= row.ack_eliciting;
        self.flags.in_flight |= row.in_flight;
        self.flags.has_more |= !matches!(frame, Frame::Ping | Frame::Padding { .. });
        self.flags.asks |= matches!(frame, Frame::ImmediateAck);
        self.stats.count(frame.frame_type());
        self.announce_symbol();
        self.observer.emit(self.now, || Event::FrameSent(frame));
        true
    }

    /// Writes `frame` and remembers `token` for it instead of the frame's own.
    pub fn push_with_token(&mut self, frame: &Frame<'_>, token: Token) -> bool {
        let before = self.tokens.len();
        if !self.push(frame) {
            return false;
        }
        self.tokens.truncate(before);
        self.tokens.push(token);
        true
    }

    /// How many bytes of stream data fit; 0 when not even one does.
    #[inline]
    pub fn stream_room(&self, id: StreamId, offset: u64) -> usize {
        self.remaining()
            .saturating_sub(stream_header_len(id, offset, None))
    }

    /// Writes a STREAM frame of `len <= stream_room(id, offset)` bytes, which `fill` provides.
    ///
    /// The frame's Length field is left out when the frame ends the packet; a gap too small for
    /// that field is closed by PADDING in front.
    pub fn push_stream(
        &mut self,
        id: StreamId,
        offset: u64,
        len: usize,
        fin: bool,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        let bare = stream_header_len(id, offset, None);
        if bare + len > self.remaining() {
            return false;
        }
        let with_length = stream_header_len(id, offset, Some(len));
        let length = if with_length + len <= self.remaining() {
            Some(len)
        } else {
            let gap = self.remaining() - bare - len;
            self.writer.zeros(gap);
            None
        };
        encode_stream_header(&mut self.writer, id, offset, length, fin);
        let Some(data) = self.writer.reserve_slice(len) else {
            return false;
        };
        fill(data);
        let token_len = u32::try_from(len).unwrap_or(u32::MAX);
        self.tokens.push(Token::Stream {
            id,
            offset,
            len: token_len,
            fin,
        });
        self.flags.ack_eliciting = true;
        self.flags.in_flight = true;
        self.flags.has_data = true;
        self.flags.has_more = true;
        self.stats.count_stream(len);
        self.announce_symbol();
        self.observer.emit(self.now, || Event::StreamFrameSent {
            id,
            offset,
            len,
            fin,
        });
        true
    }

    /// The stream data written last left before.
    pub fn note_repeat(&mut self) {
        self.flags.repeats = true;
    }

    /// The stream data written last is the last that its stream has to send. Counts where a symbol has begun: repair symbols
    /// are of no use to other data.
    pub fn note_stream_end(&mut self) {
        self.flags.ends_stream |= self.symbol.is_some();
    }

    /// How many bytes of CRYPTO data fit; 0 when not even one does.
    pub fn crypto_room(&self, offset: u64) -> usize {
        // Type, offset, and a length of up to 2^14 - 1.
        self.remaining()
            .saturating_sub(1 + varint_len(offset) + 2)
            .min((1 << 14) - 1)
    }

    /// Writes a CRYPTO frame of `len <= crypto_room(offset)` bytes, which `fill` provides.
    pub fn push_crypto(&mut self, offset: u64, len: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        if len == 0 || len > self.crypto_room(offset) {
            return false;
        }
        self.writer.varint(0x06);
        self.writer.varint(offset);
        self.writer.varint(len as u64);
        let Some(data) = self.writer.reserve_slice(len) else {
            return false;
        };
        fill(data);
        self.tokens.push(Token::Crypto {
            offset,
            len: u32::try_from(len).unwrap_or(u32::MAX),
        });
        self.flags.ack_eliciting = true;
        self.flags.in_flight = true;
        self.flags.has_more = true;
        self.stats.count(0x06);
        self.announce_symbol();
        self.observer
            .emit(self.now, || Event::CryptoFrameSent { offset, len });
        true
    }

    /// Writes an ACK or PATH_ACK; ranges that do not fit are left out, oldest first.
    pub fn push_ack<I>(&mut self, ack: AckToWrite<'_, I>) -> bool
    where
        I: Iterator<Item = std::ops::RangeInclusive<u64>> + Clone,
    {
        let (path, largest, delay) = (ack.path, ack.largest, ack.delay);
        let before = self.writer.len();
        if !write_ack(&mut self.writer, ack) {
            return false;
        }
        self.tokens.push(Token::Ack {
            path: path.unwrap_or(PathId::ZERO),
            largest,
        });
        self.flags.has_ack = true;
        self.stats.count(if path.is_some() { 0x3e } else { 0x02 });
        let writer = &self.writer;
        self.observer.emit(self.now, || {
            let encoded = writer.written().get(before..).unwrap_or(&[]);
            Event::AckFrameSent {
                path,
                largest,
                delay,
                encoded,
            }
        });
        true
    }

    /// Writes a SYMBOL_ACK of symbol IDs, ranges that descend; those that do not fit are left out,
    /// oldest first. How many are in the frame; 0 if nothing was written.
    pub fn push_symbol_ack<I>(&mut self, ranges: I) -> usize
    where
        I: Iterator<Item = std::ops::RangeInclusive<u64>> + Clone,
    {
        let before = self.writer.len();
        let written = write_symbol_ack(&mut self.writer, ranges);
        if written > 0 {
            self.flags.has_ack = true;
            self.count_written(before);
        }
        written
    }

    /// Writes a PATH_ECHO of packet numbers of `path`, ranges that descend; those that do not fit are left out,
    /// oldest first. Whether anything was written.
    pub fn push_path_echo<I>(&mut self, path: PathId, ranges: I) -> bool
    where
        I: Iterator<Item = std::ops::RangeInclusive<u64>> + Clone,
    {
        let before = self.writer.len();
        let written = write_path_echo(&mut self.writer, path, ranges) > 0;
        if written {
            self.count_written(before);
        }
        written
    }

    /// Writes a REPAIR frame of `first`, `count` and `key` with a symbol of `len` bytes, which
    /// `fill` makes; false, and nothing is written, if it does not fit or `fill` fails.
    pub fn push_repair(
        &mut self,
        (first, count, key): (u64, u64, u64),
        len: usize,
        number: u64,
        fill: impl FnOnce(&mut [u8]) -> bool,
    ) -> bool {
        if len == 0 || Repair::header_len(first, count, key, len) + len > self.remaining() {
            return false;
        }
        let before = self.writer.len();
        for field in [codepoints::frame::REPAIR, first, count, key, len as u64] {
            self.writer.varint(field);
        }
        if !self.writer.reserve_slice(len).is_some_and(fill) {
            self.writer.truncate(before);
            return false;
        }
        self.tokens.push(Token::Repair { number });
        self.flags.ack_eliciting = true;
        self.flags.in_flight = true;
        self.flags.has_more = true;
        self.count_written(before);
        true
    }

    /// Counts and reports a frame that was written in pieces from `before` on.
    fn count_written(&mut self, before: usize) {
        let written = self.writer.written().get(before..).unwrap_or(&[]);
        let mut reader = Reader::new(written);
        self.stats.count(reader.peek_varint().unwrap_or(0));
        if self.observer.is_active()
            && let Ok(frame) = Frame::decode(&mut reader)
        {
            self.observer.emit(self.now, || Event::FrameSent(&frame));
        }
    }

    /// Lets the payload grow to `bytes` at most.
    pub fn limit(&mut self, bytes: usize) {
        self.writer.limit(bytes.saturating_sub(self.writer.len()));
    }

    /// Begins source symbol `id`: what follows is protected. False, and nothing happens, when
    /// nothing would fit behind the header.
    pub fn begin_symbol(&mut self, header: SourceSymbol, id: u64) -> bool {
        let header_len = SourceSymbol::encoded_len(usize::from(header.bytes));
        if self.symbol.is_some() || header_len >= self.remaining() {
            return false;
        }
        let began = Symbol {
            header,
            start: self.writer.len(),
            tokens: self.tokens.len(),
            announced: false,
        };
        self.tokens.push(Token::Symbol { id });
        Frame::SourceSymbol(header).encode(&mut self.writer);
        self.symbol = Some(began);
        true
    }

    /// Lets source symbol `id` begin later, with the first data that is protected; the payload may
    /// then have `limit` bytes. `by_default`: whether data is whose stream does not say.
    pub fn defer_symbol(&mut self, header: SourceSymbol, id: u64, limit: usize, by_default: bool) {
        self.deferred = Some(Deferred {
            header,
            id,
            limit,
            by_default,
        });
    }

    /// Whether a source symbol waits to begin: as [`Self::defer_symbol`] was told of the default.
    #[inline]
    pub fn deferred_symbol(&self) -> Option<bool> {
        self.deferred.map(|deferred| deferred.by_default)
    }

    /// Begins it: false if it does not fit, so that no protected data may follow.
    pub fn begin_deferred_symbol(&mut self) -> bool {
        let Some(deferred) = self.deferred.take() else {
            return false;
        };
        self.limit(deferred.limit);
        self.begin_symbol(deferred.header, deferred.id)
    }

    #[inline]
    fn announce_symbol(&mut self) {
        if let Some(symbol) = &mut self.symbol
            && !std::mem::replace(&mut symbol.announced, true)
        {
            let frame = Frame::SourceSymbol(symbol.header);
            self.observer.emit(self.now, || Event::FrameSent(&frame));
        }
    }

    /// Fills the packet with PADDING that is no part of the source symbol: before its header. Without
    /// effect where no symbol was begun, or nothing stands in it.
    pub fn pad_before_symbol(&mut self) {
        let Some(symbol) = &mut self.symbol else {
            return;
        };
        let header_len = SourceSymbol::encoded_len(usize::from(symbol.header.bytes));
        if self.writer.len() <= symbol.start + header_len {
            return;
        }
        let len = self.writer.fill_before(symbol.start);
        if len > 0 {
            symbol.start += len;
            self.observer.emit(self.now, || Event::PaddingSent { len });
        }
    }

    /// Ends the source symbol and returns its bytes; `None` if nothing was written, so that there
    /// is none.
    pub fn end_symbol(&mut self) -> Option<&[u8]> {
        let Symbol {
            header,
            start,
            tokens,
            ..
        } = self.symbol.take()?;
        let from = start + SourceSymbol::encoded_len(usize::from(header.bytes));
        if self.writer.len() <= from {
            self.writer.truncate(start);
            self.tokens.truncate(tokens);
            return None;
        }
        self.stats.count(Frame::SourceSymbol(header).frame_type());
        self.flags.ack_eliciting = true;
        self.flags.in_flight = true;
        self.flags.has_more = true;
        self.writer.written().get(from..)
    }

    /// Writes an application datagram; `id` names it in acknowledgements.
    pub fn push_datagram(&mut self, id: u64, data: &[u8]) -> bool {
        if !self.push_with_token(&Frame::Datagram { data }, Token::Datagram { id }) {
            return false;
        }
        self.flags.has_data = true;
        true
    }

    /// Appends PADDING; a padded packet counts as in flight. RFC 9002 s2.
    pub fn pad(&mut self, bytes: usize) {
        let bytes = bytes.min(self.remaining());
        if bytes > 0 {
            self.writer.zeros(bytes);
            self.flags.in_flight = true;
            self.observer
                .emit(self.now, || Event::PaddingSent { len: bytes });
        }
    }
}

/// What the fate of a frame's packet will call for.
fn token_of(frame: &Frame<'_>) -> Option<Token> {
    Some(match frame {
        Frame::ResetStream(reset) => Token::ResetStream(reset.id),
        Frame::ResetStreamAt { id, .. } => Token::ResetStreamAt(*id),
        Frame::StopSending { id, .. } => Token::StopSending(*id),
        Frame::MaxData(_) => Token::MaxData,
        Frame::MaxStreamData { id, .. } => Token::MaxStreamData(*id),
        Frame::MaxStreams { dir, .. } => Token::MaxStreams(*dir),
        Frame::DataBlocked(_) => Token::DataBlocked,
        Frame::StreamDataBlocked { id, .. } => Token::StreamDataBlocked(*id),
        Frame::StreamsBlocked { dir, .. } => Token::StreamsBlocked(*dir),
        Frame::NewConnectionId(new) => Token::NewConnectionId {
            path: new.path.unwrap_or(PathId::ZERO),
            sequence: new.sequence,
        },
        Frame::RetireConnectionId { path, sequence } => Token::RetireConnectionId {
            path: path.unwrap_or(PathId::ZERO),
            sequence: *sequence,
        },
        Frame::HandshakeDone => Token::HandshakeDone,
        Frame::MaxPathId(_) => Token::MaxPathId,
        Frame::PathsBlocked(_) => Token::PathsBlocked,
        Frame::PathCidsBlocked { path, .. } => Token::PathCidsBlocked { path: *path },
        Frame::PathAbandon { path, .. } => Token::PathAbandon { path: *path },
        Frame::PathStatus { path, sequence, .. } => Token::PathStatus {
            path: *path,
            sequence: *sequence,
        },
        Frame::FecWindow { epoch, .. } => Token::FecWindow { epoch: *epoch },
        Frame::AckFrequency { sequence, .. } => Token::AckFrequency {
            sequence: *sequence,
        },
        _ => return None,
    })
}
