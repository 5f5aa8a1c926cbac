//! What stands around bytes of streams on the wire.
//!
//! A record is a TLS record with one HTTP/2 frame in it: 5 + 1 + 16 bytes of TLS and 9 of HTTP/2,
//! of which these are used:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | kind |
//! | 4 | stream |
//! | 3 | bytes that follow the 31 |
//! | 1 | 1 when the stream ends with them |
//!
//! Owns: [`Header`], its encoding. Does not own: what is done with records (`mux.rs`).

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// TLS and HTTP/2 around the bytes of a stream.
pub(super) const RECORD_BYTES: usize = 31;
/// What fits into 2^14 bytes of plain text behind an HTTP/2 frame header.
pub(super) const LARGEST: usize = (1 << 14) - 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Reset,
    Stop,
    Handshake,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) stream: u32,
    pub(super) length: usize,
    pub(super) ends: bool,
}

impl Header {
    pub(super) fn encode(self) -> Bytes {
        let mut out = BytesMut::with_capacity(RECORD_BYTES);
        out.put_u8(match self.kind {
            Kind::Data => 0,
            Kind::Reset => 1,
            Kind::Stop => 2,
            Kind::Handshake => 3,
        });
        out.put_u32(self.stream);
        out.put_uint(self.length as u64, 3);
        out.put_u8(u8::from(self.ends));
        out.resize(RECORD_BYTES, 0);
        out.freeze()
    }

    /// `None` for a record of no known kind. `bytes` are [`RECORD_BYTES`].
    pub(super) fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let mut bytes = bytes.as_slice();
        let kind = match bytes.get_u8() {
            0 => Kind::Data,
            1 => Kind::Reset,
            2 => Kind::Stop,
            3 => Kind::Handshake,
            _ => return None,
        };
        Some(Self {
            kind,
            stream: bytes.get_u32(),
            length: bytes.get_uint(3) as usize,
            ends: bytes.get_u8() == 1,
        })
    }
}
