//! Frames: what packets carry.
//!
//! Purpose: one value per frame, borrowed from the packet; one place for its bytes.
//! Owns: [`Frame`], decoding, encoding, [`FrameRow`] (a row per frame type with the properties
//! that rules depend on).
//! Does not own: the reaction to a frame (`connection/dispatch.rs` and the room behind it), which
//! frames are sent when, state-dependent limits.
//! Called by: `connection/` (rx), `packet/` (writer), rooms that build frames.
//! Spec: RFC 9000 s12.4, s19; RFC 9221; RFC 10069; docs/spec/; drafts in [`super::codepoints`].
//! To add a variant: codepoint, variant of [`Frame`], arms in `decode_rest`, `encoded_len`,
//! `encode`, `frame_type` and `row`, and a row in `table.rs`.

mod ack;
mod connection_id;
mod control;
mod fec;
mod numbers;
mod path;
mod stream;
mod table;
#[cfg(test)]
mod tests;
mod timestamps;
mod write_ack;

pub use ack::{Ack, AckRanges, EcnCounts};
pub use connection_id::NewConnectionId;
pub use control::Close;
pub use fec::{Repair, SourceSymbol, write_symbol_ack};
pub use numbers::NumberRanges;
pub use path::write_path_echo;
pub use stream::{MAX_STREAM_COUNT, ResetStream, Stream, encode_stream_header, stream_header_len};
pub use table::{FrameCarrier, FrameClass, FrameRow, PacketTypes, all_rows, row_of};
pub use timestamps::{Timestamps, TimestampsToWrite};
pub use write_ack::{AckToWrite, write_ack};

use super::{Reader, Writer, codepoints::frame as ty, varint_len};
use crate::{
    error::{DecodeError, DecodeErrorKind},
    units::{Dir, PathId, StreamId},
};

/// One frame; byte fields borrow from the packet it stands in.
///
/// Numbers are as on the wire: offsets and sizes in bytes, error codes `0..2^62`. Where `path` is
/// optional, `None` is the frame of RFC 9000 (which means path 0) and `Some` its PATH variant of
/// RFC 10069.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields repeat the frames' fields")]
pub enum Frame<'a> {
    /// PADDING: a run of `len` of them. RFC 9000 s19.1.
    Padding { len: usize },
    /// PING. RFC 9000 s19.2.
    Ping,
    /// ACK, PATH_ACK and their variants with receive timestamps. RFC 9000 s19.3.
    Ack(Ack<'a>),
    /// RESET_STREAM. RFC 9000 s19.4.
    ResetStream(ResetStream),
    /// STOP_SENDING. RFC 9000 s19.5.
    StopSending { id: StreamId, code: u64 },
    /// CRYPTO; `offset + data.len()` is below 2^62. RFC 9000 s19.6.
    Crypto { offset: u64, data: &'a [u8] },
    /// NEW_TOKEN; never empty. RFC 9000 s19.7.
    NewToken { token: &'a [u8] },
    /// STREAM. RFC 9000 s19.8.
    Stream(Stream<'a>),
    /// MAX_DATA. RFC 9000 s19.9.
    MaxData(u64),
    /// MAX_STREAM_DATA. RFC 9000 s19.10.
    MaxStreamData { id: StreamId, max: u64 },
    /// MAX_STREAMS; at most 2^60. RFC 9000 s19.11.
    MaxStreams { dir: Dir, max: u64 },
    /// DATA_BLOCKED. RFC 9000 s19.12.
    DataBlocked(u64),
    /// STREAM_DATA_BLOCKED. RFC 9000 s19.13.
    StreamDataBlocked { id: StreamId, limit: u64 },
    /// STREAMS_BLOCKED; at most 2^60. RFC 9000 s19.14.
    StreamsBlocked { dir: Dir, limit: u64 },
    /// NEW_CONNECTION_ID, PATH_NEW_CONNECTION_ID. RFC 9000 s19.15.
    NewConnectionId(NewConnectionId),
    /// RETIRE_CONNECTION_ID, PATH_RETIRE_CONNECTION_ID. RFC 9000 s19.16.
    RetireConnectionId { path: Option<PathId>, sequence: u64 },
    /// PATH_CHALLENGE. RFC 9000 s19.17.
    PathChallenge([u8; 8]),
    /// PATH_RESPONSE. RFC 9000 s19.18.
    PathResponse([u8; 8]),
    /// CONNECTION_CLOSE, of both kinds. RFC 9000 s19.19.
    ConnectionClose(Close<'a>),
    /// HANDSHAKE_DONE. RFC 9000 s19.20.
    HandshakeDone,
    /// IMMEDIATE_ACK. draft-ietf-quic-ack-frequency.
    ImmediateAck,
    /// ACK_FREQUENCY. draft-ietf-quic-ack-frequency.
    AckFrequency {
        sequence: u64,
        threshold: u64,
        max_ack_delay_us: u64,
        reordering: u64,
    },
    /// RESET_STREAM_AT; `reliable_size <= final_size`. draft-ietf-quic-reliable-stream-reset.
    ResetStreamAt {
        id: StreamId,
        code: u64,
        final_size: u64,
        reliable_size: u64,
    },
    /// DATAGRAM. RFC 9221 s4.
    Datagram { data: &'a [u8] },
    /// PATH_ABANDON. RFC 10069.
    PathAbandon { path: PathId, code: u64 },
    /// PATH_STATUS_AVAILABLE, PATH_STATUS_BACKUP. RFC 10069.
    PathStatus {
        path: PathId,
        available: bool,
        sequence: u64,
    },
    /// MAX_PATH_ID; any value, since the limit is the room's to check. RFC 10069.
    MaxPathId(u64),
    /// PATHS_BLOCKED; any value. RFC 10069.
    PathsBlocked(u64),
    /// PATH_CIDS_BLOCKED. RFC 10069.
    PathCidsBlocked { path: PathId, next_sequence: u64 },
    /// SOURCE_SYMBOL. docs/spec/fec.md.
    SourceSymbol(SourceSymbol),
    /// REPAIR. docs/spec/fec.md.
    Repair(Repair<'a>),
    /// SYMBOL_ACK. docs/spec/fec.md.
    SymbolAck(NumberRanges<'a>),
    /// FEC_WINDOW. docs/spec/fec.md.
    FecWindow {
        epoch: u64,
        symbols: u64,
        bytes: u64,
    },
    /// PATH_ECHO. docs/spec/path-echo.md.
    PathEcho {
        path: PathId,
        numbers: NumberRanges<'a>,
    },
}

impl<'a> Frame<'a> {
    /// Reads the frame at the front of `r`.
    ///
    /// Fields named `data` end where the reader stands afterwards, so that `r.offset()` less
    /// their length is their place in the packet.
    ///
    /// # Errors
    ///
    /// Every violation that can be seen without state; converted to
    /// [`crate::error::TransportError`] it has the code that the RFC names. How far `r` has moved
    /// then is not defined.
    #[inline]
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let before = r.offset();
        let ty = r.varint()?;
        match ty {
            0x08..=0x0f if r.offset() - before == 1 => stream::decode(ty, r).map(Self::Stream),
            0x02 | 0x03 if r.offset() - before == 1 => {
                ack::decode(ack::AckKind::plain(ty == 0x03), r).map(Self::Ack)
            }
            _ if r.offset() - before != varint_len(ty) => {
                // RFC 9000 s12.4
                Err(DecodeError {
                    offset: before,
                    kind: DecodeErrorKind::FrameTypeNotMinimal,
                })
            }
            _ => Self::decode_rest(ty, before, r),
        }
    }

    fn decode_rest(ty: u64, start: usize, r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match ty {
            0x00 => Self::Padding {
                len: 1 + control::skip_zeros(r),
            },
            0x01 => Self::Ping,
            0x02 | 0x03 => Self::Ack(ack::decode(ack::AckKind::plain(ty == 0x03), r)?),
            0x04 => Self::ResetStream(ResetStream::decode(r)?),
            0x05 => Self::StopSending {
                id: StreamId(r.varint()?),
                code: r.varint()?,
            },
            0x06 => control::decode_crypto(r)?,
            0x07 => control::decode_new_token(r)?,
            0x08..=0x0f => Self::Stream(stream::decode(ty, r)?),
            0x10 => Self::MaxData(r.varint()?),
            0x11 => Self::MaxStreamData {
                id: StreamId(r.varint()?),
                max: r.varint()?,
            },
            0x12 | 0x13 => Self::MaxStreams {
                dir: dir(ty),
                max: stream::decode_count(r)?,
            },
            0x14 => Self::DataBlocked(r.varint()?),
            0x15 => Self::StreamDataBlocked {
                id: StreamId(r.varint()?),
                limit: r.varint()?,
            },
            0x16 | 0x17 => Self::StreamsBlocked {
                dir: dir(ty),
                limit: stream::decode_count(r)?,
            },
            0x18 => Self::NewConnectionId(NewConnectionId::decode(None, r)?),
            0x19 => Self::RetireConnectionId {
                path: None,
                sequence: r.varint()?,
            },
            0x1a => Self::PathChallenge(r.array()?),
            0x1b => Self::PathResponse(r.array()?),
            0x1c | 0x1d => Self::ConnectionClose(Close::decode(ty == 0x1d, r)?),
            0x1e => Self::HandshakeDone,
            ty::IMMEDIATE_ACK => Self::ImmediateAck,
            ty::RESET_STREAM_AT => stream::decode_reset_at(r)?,
            ty::DATAGRAM => Self::Datagram { data: r.rest() },
            ty::DATAGRAM_WITH_LENGTH => Self::Datagram {
                data: r.varint_prefixed()?,
            },
            ty::ACK_FREQUENCY => control::decode_ack_frequency(r)?,
            _ => match ack::AckKind::from_type(ty) {
                Some(kind) => Self::Ack(ack::decode(kind, r)?),
                None => match fec::decode(ty, r) {
                    Some(frame) => frame?,
                    None => path::decode(ty, start, r)?,
                },
            },
        })
    }

    /// The type as [`Frame::encode`] writes it.
    #[inline]
    pub fn frame_type(&self) -> u64 {
        match self {
            Self::Padding { .. } => 0x00,
            Self::Ping => 0x01,
            Self::Ack(ack) => ack.kind().to_type(),
            Self::ResetStream(_) => 0x04,
            Self::StopSending { .. } => 0x05,
            Self::Crypto { .. } => 0x06,
            Self::NewToken { .. } => 0x07,
            Self::Stream(stream) => stream.frame_type(),
            Self::MaxData(_) => 0x10,
            Self::MaxStreamData { .. } => 0x11,
            Self::MaxStreams { dir, .. } => 0x12 + dir_bit(*dir),
            Self::DataBlocked(_) => 0x14,
            Self::StreamDataBlocked { .. } => 0x15,
            Self::StreamsBlocked { dir, .. } => 0x16 + dir_bit(*dir),
            Self::NewConnectionId(new) => new.frame_type(),
            Self::RetireConnectionId { path: None, .. } => 0x19,
            Self::RetireConnectionId { path: Some(_), .. } => ty::PATH_RETIRE_CONNECTION_ID,
            Self::PathChallenge(_) => 0x1a,
            Self::PathResponse(_) => 0x1b,
            Self::ConnectionClose(close) => close.own_frame_type(),
            Self::HandshakeDone => 0x1e,
            Self::ImmediateAck => ty::IMMEDIATE_ACK,
            Self::AckFrequency { .. } => ty::ACK_FREQUENCY,
            Self::ResetStreamAt { .. } => ty::RESET_STREAM_AT,
            Self::Datagram { .. } => ty::DATAGRAM_WITH_LENGTH,
            Self::PathAbandon { .. } => ty::PATH_ABANDON,
            Self::PathStatus {
                available: false, ..
            } => ty::PATH_STATUS_BACKUP,
            Self::PathStatus {
                available: true, ..
            } => ty::PATH_STATUS_AVAILABLE,
            Self::MaxPathId(_) => ty::MAX_PATH_ID,
            Self::PathsBlocked(_) => ty::PATHS_BLOCKED,
            Self::PathCidsBlocked { .. } => ty::PATH_CIDS_BLOCKED,
            Self::SourceSymbol(header) => header.frame_type(),
            Self::Repair(_) => ty::REPAIR,
            Self::SymbolAck(_) => ty::SYMBOL_ACK,
            Self::FecWindow { .. } => ty::FEC_WINDOW,
            Self::PathEcho { .. } => ty::PATH_ECHO,
        }
    }

    /// Bytes that [`Frame::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        let fields: &[u64] = match self {
            Self::Padding { len } => return *len,
            Self::Ack(ack) => return ack.encoded_len(),
            Self::Stream(stream) => return stream.encoded_len(),
            Self::Crypto { offset, data } => {
                return 1 + varint_len(*offset) + prefixed_len(data);
            }
            Self::NewToken { token } => return 1 + prefixed_len(token),
            Self::NewConnectionId(new) => return new.encoded_len(),
            Self::ConnectionClose(close) => return close.encoded_len(),
            Self::PathChallenge(_) | Self::PathResponse(_) => return 1 + 8,
            Self::Datagram { data } => return 1 + prefixed_len(data),
            Self::SourceSymbol(header) => {
                return SourceSymbol::encoded_len(usize::from(header.bytes));
            }
            Self::Repair(repair) => return repair.encoded_len(),
            Self::SymbolAck(numbers) => {
                return varint_len(ty::SYMBOL_ACK) + numbers.encoded_len();
            }
            Self::PathEcho { path, numbers } => {
                let head = varint_len(ty::PATH_ECHO) + varint_len(u64::from(path.0));
                return head + numbers.encoded_len();
            }
            Self::FecWindow {
                epoch,
                symbols,
                bytes,
            } => &[*epoch, *symbols, *bytes],
            Self::Ping | Self::HandshakeDone | Self::ImmediateAck => &[],
            Self::ResetStream(ResetStream {
                id,
                code,
                final_size,
            }) => &[id.0, *code, *final_size],
            Self::StopSending { id, code } => &[id.0, *code],
            Self::MaxStreamData { id, max: value }
            | Self::StreamDataBlocked { id, limit: value } => &[id.0, *value],
            Self::MaxData(value)
            | Self::MaxStreams { max: value, .. }
            | Self::DataBlocked(value)
            | Self::StreamsBlocked { limit: value, .. }
            | Self::RetireConnectionId {
                path: None,
                sequence: value,
            }
            | Self::MaxPathId(value)
            | Self::PathsBlocked(value) => &[*value],
            Self::AckFrequency {
                sequence,
                threshold,
                max_ack_delay_us,
                reordering,
            } => &[*sequence, *threshold, *max_ack_delay_us, *reordering],
            Self::ResetStreamAt {
                id,
                code,
                final_size,
                reliable_size,
            } => &[id.0, *code, *final_size, *reliable_size],
            Self::RetireConnectionId {
                path: Some(path),
                sequence: value,
            }
            | Self::PathAbandon { path, code: value }
            | Self::PathStatus {
                path,
                sequence: value,
                ..
            }
            | Self::PathCidsBlocked {
                path,
                next_sequence: value,
            } => &[u64::from(path.0), *value],
        };
        varint_len(self.frame_type()) + fields.iter().map(|v| varint_len(*v)).sum::<usize>()
    }

    /// Writes the frame, with a Length field where that is optional.
    ///
    /// The caller makes sure that it fits ([`Frame::encoded_len`]); a part that does not is left
    /// out and `w` remembers the overflow.
    pub fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::Padding { len } => return w.zeros(*len),
            Self::Ack(ack) => return ack.encode(w),
            Self::Stream(stream) => return stream.encode(w),
            _ => w.varint(self.frame_type()),
        }
        match self {
            Self::Padding { .. } | Self::Ack(_) | Self::Stream(_) => {}
            Self::Ping | Self::HandshakeDone | Self::ImmediateAck => {}
            Self::Crypto { offset, data } => {
                w.varint(*offset);
                write_prefixed(w, data);
            }
            Self::NewToken { token: data } | Self::Datagram { data } => write_prefixed(w, data),
            Self::NewConnectionId(new) => new.encode_fields(w),
            Self::SourceSymbol(header) => header.encode_fields(w),
            Self::Repair(repair) => repair.encode_fields(w),
            Self::SymbolAck(numbers) => numbers.encode(w),
            Self::PathEcho { path, numbers } => {
                w.varint(u64::from(path.0));
                numbers.encode(w);
            }
            Self::FecWindow {
                epoch,
                symbols,
                bytes,
            } => write_varints(w, [*epoch, *symbols, *bytes]),
            Self::ConnectionClose(close) => close.encode_fields(w),
            Self::PathChallenge(data) | Self::PathResponse(data) => w.bytes(data),
            Self::ResetStream(ResetStream {
                id,
                code,
                final_size,
            }) => {
                write_varints(w, [id.0, *code, *final_size]);
            }
            Self::StopSending { id, code } => write_varints(w, [id.0, *code]),
            Self::MaxStreamData { id, max: value }
            | Self::StreamDataBlocked { id, limit: value } => {
                write_varints(w, [id.0, *value]);
            }
            Self::MaxData(value)
            | Self::MaxStreams { max: value, .. }
            | Self::DataBlocked(value)
            | Self::StreamsBlocked { limit: value, .. }
            | Self::RetireConnectionId {
                path: None,
                sequence: value,
            }
            | Self::MaxPathId(value)
            | Self::PathsBlocked(value) => w.varint(*value),
            Self::AckFrequency {
                sequence,
                threshold,
                max_ack_delay_us,
                reordering,
            } => {
                write_varints(w, [*sequence, *threshold, *max_ack_delay_us, *reordering]);
            }
            Self::ResetStreamAt {
                id,
                code,
                final_size,
                reliable_size,
            } => {
                write_varints(w, [id.0, *code, *final_size, *reliable_size]);
            }
            Self::RetireConnectionId {
                path: Some(path),
                sequence: value,
            }
            | Self::PathAbandon { path, code: value }
            | Self::PathStatus {
                path,
                sequence: value,
                ..
            }
            | Self::PathCidsBlocked {
                path,
                next_sequence: value,
            } => {
                write_varints(w, [u64::from(path.0), *value]);
            }
        }
    }

    /// The frame's properties.
    #[inline]
    pub fn row(&self) -> &'static FrameRow {
        match self {
            Self::Stream(_) => &table::STREAM,
            Self::Ack(ack) => table::ack_row(ack.kind()),
            _ => row_of(self.frame_type()).unwrap_or(&table::PADDING),
        }
    }
}

const fn dir(ty: u64) -> Dir {
    if ty & 1 == 0 { Dir::Bi } else { Dir::Uni }
}

const fn dir_bit(dir: Dir) -> u64 {
    match dir {
        Dir::Bi => 0,
        Dir::Uni => 1,
    }
}

fn prefixed_len(data: &[u8]) -> usize {
    varint_len(data.len() as u64) + data.len()
}

fn write_prefixed(w: &mut Writer<'_>, data: &[u8]) {
    w.varint(data.len() as u64);
    w.bytes(data);
}

fn write_varints<const N: usize>(w: &mut Writer<'_>, values: [u64; N]) {
    for value in values {
        w.varint(value);
    }
}
