//! STREAM, RESET_STREAM, RESET_STREAM_AT and what they share.

use super::Frame;
use crate::{
    error::{DecodeError, DecodeErrorKind},
    units::StreamId,
    wire::{MAX_VARINT, Reader, Writer, varint_len},
};

/// Most streams of one kind that stream IDs can name, `2^60`. RFC 9000 s4.6.
pub const MAX_STREAM_COUNT: u64 = 1 << 60;

const FIN: u64 = 0x01;
const LEN: u64 = 0x02;
const OFF: u64 = 0x04;
const BASE: u64 = 0x08;

/// A STREAM frame. RFC 9000 s19.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream<'a> {
    /// Which stream.
    pub id: StreamId,
    /// Place of the first byte of `data` in the stream; `offset + data.len()` is below 2^62.
    pub offset: u64,
    /// The bytes.
    pub data: &'a [u8],
    /// Whether the stream ends after `data`.
    pub fin: bool,
}

impl Stream<'_> {
    pub(super) fn frame_type(&self) -> u64 {
        header_type(self.offset, true, self.fin)
    }

    pub(super) fn encoded_len(&self) -> usize {
        stream_header_len(self.id, self.offset, Some(self.data.len())) + self.data.len()
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) {
        encode_stream_header(w, self.id, self.offset, Some(self.data.len()), self.fin);
        w.bytes(self.data);
    }
}

/// Reads what follows the type `ty`, 0x08 to 0x0f.
#[inline]
pub(super) fn decode<'a>(ty: u64, r: &mut Reader<'a>) -> Result<Stream<'a>, DecodeError> {
    let id = StreamId(r.varint()?);
    let offset = if ty & OFF != 0 { r.varint()? } else { 0 };
    let data = if ty & LEN != 0 {
        r.varint_prefixed()?
    } else {
        r.rest()
    };
    // Both are below 2^62, so the sum does not wrap.
    if offset + data.len() as u64 > MAX_VARINT {
        return Err(r.error(DecodeErrorKind::Invalid("STREAM offset")));
    }
    Ok(Stream {
        id,
        offset,
        data,
        fin: ty & FIN != 0,
    })
}

#[inline]
const fn header_type(offset: u64, with_length: bool, fin: bool) -> u64 {
    let off = if offset > 0 { OFF } else { 0 };
    let len = if with_length { LEN } else { 0 };
    let fin = if fin { FIN } else { 0 };
    BASE | off | len | fin
}

/// Bytes in front of the data of a STREAM frame. `len` is the length to announce, or `None` when
/// the data runs to the end of the packet.
#[inline]
pub fn stream_header_len(id: StreamId, offset: u64, len: Option<usize>) -> usize {
    let offset_len = if offset > 0 { varint_len(offset) } else { 0 };
    let length_len = len.map_or(0, |len| varint_len(len as u64));
    1 + varint_len(id.0) + offset_len + length_len
}

/// Writes what stands in front of the data of a STREAM frame; `len` as in [`stream_header_len`].
#[inline]
pub fn encode_stream_header(
    w: &mut Writer<'_>,
    id: StreamId,
    offset: u64,
    len: Option<usize>,
    fin: bool,
) {
    // Types are below 64, so the cast is lossless.
    w.u8(header_type(offset, len.is_some(), fin) as u8);
    w.varint(id.0);
    if offset > 0 {
        w.varint(offset);
    }
    if let Some(len) = len {
        w.varint(len as u64);
    }
}

/// A RESET_STREAM frame. RFC 9000 s19.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetStream {
    /// Which stream.
    pub id: StreamId,
    /// The application's error code.
    pub code: u64,
    /// Bytes sent on the stream, all in all.
    pub final_size: u64,
}

impl ResetStream {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            id: StreamId(r.varint()?),
            code: r.varint()?,
            final_size: r.varint()?,
        })
    }
}

pub(super) fn decode_reset_at<'a>(r: &mut Reader<'a>) -> Result<Frame<'a>, DecodeError> {
    let ResetStream {
        id,
        code,
        final_size,
    } = ResetStream::decode(r)?;
    let reliable_size = r.varint()?;
    if reliable_size > final_size {
        return Err(r.error(DecodeErrorKind::Invalid("RESET_STREAM_AT Reliable Size")));
    }
    Ok(Frame::ResetStreamAt {
        id,
        code,
        final_size,
        reliable_size,
    })
}

/// A number of streams. RFC 9000 s19.11, s19.14.
pub(super) fn decode_count(r: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let count = r.varint()?;
    if count > MAX_STREAM_COUNT {
        return Err(r.error(DecodeErrorKind::Invalid("Maximum Streams")));
    }
    Ok(count)
}
