//! The peer's unidirectional streams, until their type is known.
//!
//! Owns: [`Arriving`], what becomes of each type. Does not own: what `h3` makes of a control
//! stream, QPACK's streams (`qpack.rs`).
//! Spec: RFC 9114 s6.2.

use std::{
    mem,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use h3::error::Code;
use tautline::{RecvStream as QuicStream, Side};

use crate::{
    connection::Priorities,
    qpack::{Guard, Kind},
    stream::RecvStream,
    varint::PartialVarint,
    watch::{Violation, Watch},
};

const CONTROL: u64 = 0x00;
const PUSH: u64 = 0x01;
const QPACK_ENCODER: u64 = 0x02;
const QPACK_DECODER: u64 = 0x03;

/// The streams that arrive, and those that we keep.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    untyped: Vec<Untyped>,
    encoder: Option<Guard>,
    decoder: Option<Guard>,
}

/// A stream without its type. The number of these is bounded by the stream limit.
#[derive(Debug)]
struct Untyped {
    stream: QuicStream,
    bytes: BytesMut,
}

impl Untyped {
    /// The type, once it is there; `None` if the stream ends without.
    fn poll_type(&mut self, cx: &mut Context<'_>) -> Poll<Option<u64>> {
        loop {
            if let Some((kind, _)) = PartialVarint::first(&self.bytes) {
                return Poll::Ready(Some(kind));
            }
            match self.stream.poll_read_chunk(cx, usize::MAX) {
                Poll::Ready(Ok(Some(chunk))) => self.bytes.extend_from_slice(&chunk),
                Poll::Ready(_) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Arriving {
    pub(crate) fn push(&mut self, stream: QuicStream) {
        self.untyped.push(Untyped {
            stream,
            bytes: BytesMut::new(),
        });
    }

    /// The next stream that is for `h3`.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        priorities: &Priorities,
    ) -> Poll<Result<RecvStream, Violation>> {
        for guard in [&mut self.encoder, &mut self.decoder].into_iter().flatten() {
            if let Poll::Ready(violation) = guard.poll(cx) {
                return Poll::Ready(Err(violation));
            }
        }
        let mut untyped = mem::take(&mut self.untyped).into_iter();
        while let Some(mut one) = untyped.next() {
            let found = match one.poll_type(cx) {
                Poll::Pending => {
                    self.untyped.push(one);
                    continue;
                }
                // A stream may end before it begins.
                Poll::Ready(None) => continue,
                Poll::Ready(Some(kind)) => self.sort(kind, one, cx, priorities),
            };
            if let Some(found) = found.transpose() {
                self.untyped.extend(untyped);
                return Poll::Ready(found);
            }
        }
        Poll::Pending
    }

    fn sort(
        &mut self,
        kind: u64,
        one: Untyped,
        cx: &mut Context<'_>,
        priorities: &Priorities,
    ) -> Result<Option<RecvStream>, Violation> {
        let side = priorities.quic().side();
        let bytes = one.bytes.freeze();
        let watch = match kind {
            CONTROL => Watch::control(side),
            PUSH => {
                return Err(match side {
                    Side::Server => {
                        let reason = "clients cannot push";
                        Violation::new(Code::H3_STREAM_CREATION_ERROR, reason)
                    }
                    Side::Client => Violation::new(Code::H3_ID_ERROR, "no push was allowed"),
                });
            }
            QPACK_ENCODER => {
                self.guard(Kind::Encoder, one.stream, &bytes, cx)?;
                return Ok(None);
            }
            QPACK_DECODER => {
                self.guard(Kind::Decoder, one.stream, &bytes, cx)?;
                return Ok(None);
            }
            _ => Watch::nothing(side),
        };
        let rest = behind_type(&bytes);
        let of_type = bytes.slice(..bytes.len() - rest.len());
        let stream = RecvStream::unidirectional(one.stream, watch, of_type, rest, priorities);
        Ok(Some(stream))
    }

    /// Takes a QPACK stream, of which there may be one of each kind.
    fn guard(
        &mut self,
        kind: Kind,
        stream: QuicStream,
        bytes: &Bytes,
        cx: &mut Context<'_>,
    ) -> Result<(), Violation> {
        let place = match kind {
            Kind::Encoder => &mut self.encoder,
            Kind::Decoder => &mut self.decoder,
        };
        if place.is_some() {
            let reason = "a second QPACK stream of one kind";
            return Err(Violation::new(Code::H3_STREAM_CREATION_ERROR, reason));
        }
        let guard = place.insert(Guard::new(kind, stream, &behind_type(bytes))?);
        match guard.poll(cx) {
            Poll::Ready(violation) => Err(violation),
            Poll::Pending => Ok(()),
        }
    }
}

/// What follows the stream's type.
fn behind_type(bytes: &Bytes) -> Bytes {
    match PartialVarint::first(bytes) {
        Some((_, rest)) => bytes.slice_ref(rest),
        None => Bytes::new(),
    }
}
