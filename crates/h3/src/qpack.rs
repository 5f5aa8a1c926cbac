//! The peer's QPACK streams, which `h3` does not read.
//!
//! We announce a dynamic table of 0 bytes and never refer to one, so that hardly anything may come
//! here; what else comes, and the streams' end, closes the connection.
//! Owns: [`Guard`]. Does not own: field sections (`h3`).
//! Spec: RFC 9204 s3.2.3, s4.2, s4.3.1, s4.4; RFC 9114 s6.2.1.

use std::task::{Context, Poll};

use h3::error::Code;
use tautline::{ReadError, RecvStream};

use crate::watch::Violation;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Instructions of the peer's encoder.
    Encoder,
    /// Instructions of the peer's decoder.
    Decoder,
}

/// Reads one of them.
#[derive(Debug)]
pub(crate) struct Guard {
    stream: RecvStream,
    instructions: Instructions,
}

impl Guard {
    /// `rest` came with the stream's type.
    pub(crate) fn new(kind: Kind, stream: RecvStream, rest: &[u8]) -> Result<Self, Violation> {
        let mut instructions = Instructions { kind, continued: 0 };
        instructions.check(rest)?;
        Ok(Self {
            stream,
            instructions,
        })
    }

    /// Ready only when the peer breaks a rule.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Violation> {
        loop {
            match self.stream.poll_read_chunk(cx, usize::MAX) {
                Poll::Ready(Ok(Some(chunk))) => {
                    if let Err(violation) = self.instructions.check(&chunk) {
                        return Poll::Ready(violation);
                    }
                }
                Poll::Ready(Ok(None) | Err(ReadError::Reset(_))) => {
                    let reason = "a QPACK stream was closed";
                    let code = Code::H3_CLOSED_CRITICAL_STREAM;
                    return Poll::Ready(Violation::new(code, reason));
                }
                // The connection is over, which others notice.
                Poll::Ready(Err(_)) | Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// What has been read of the instruction under way.
#[derive(Debug)]
struct Instructions {
    kind: Kind,
    /// Bytes of a long integer so far, its first included; 0 between instructions.
    continued: u8,
}

/// A stream ID takes no more. RFC 7541 s5.1.
const MAX_INTEGER_BYTES: u8 = 10;

impl Instructions {
    fn check(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        for &byte in bytes {
            match self.kind {
                // Set Dynamic Table Capacity, to 0.
                Kind::Encoder if byte == 0b0010_0000 => {}
                Kind::Encoder => {
                    let reason = "the dynamic table has no room";
                    return Err(Violation::new(Code::QPACK_ENCODER_STREAM_ERROR, reason));
                }
                Kind::Decoder => self.decoder_byte(byte)?,
            }
        }
        Ok(())
    }

    fn decoder_byte(&mut self, byte: u8) -> Result<(), Violation> {
        let error = |reason| Err(Violation::new(Code::QPACK_DECODER_STREAM_ERROR, reason));
        if self.continued > 0 {
            self.continued += 1;
            if self.continued > MAX_INTEGER_BYTES {
                return error("an integer that does not end");
            }
            if byte & 0x80 == 0 {
                self.continued = 0;
            }
            return Ok(());
        }
        match byte >> 6 {
            // Stream Cancellation: allowed with any table.
            0b01 => {
                self.continued = u8::from(byte & 0x3f == 0x3f);
                Ok(())
            }
            0b00 => error("nothing was inserted"),
            _ => error("no field section referred to the dynamic table"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(kind: Kind, bytes: &[u8]) -> Option<Code> {
        let check = |pieces: usize| {
            let mut instructions = Instructions { kind, continued: 0 };
            let mut pieces = bytes.chunks(pieces);
            pieces
                .find_map(|piece| instructions.check(piece).err())
                .map(|violation| violation.code)
        };
        assert_eq!(check(1), check(bytes.len().max(1)));
        check(1)
    }

    #[test]
    fn only_an_empty_table_may_be_set() {
        assert_eq!(code(Kind::Encoder, &[0x20, 0x20]), None);
        let error = Some(Code::QPACK_ENCODER_STREAM_ERROR);
        for bytes in [
            &[0xc0, 0x01, b'x'][..],
            &[0x3f, 0xff, 0x7f],
            &[0x21],
            &[0x00],
        ] {
            assert_eq!(code(Kind::Encoder, bytes), error);
        }
    }

    #[test]
    fn only_streams_may_be_cancelled() {
        // Streams 4, 62, 63 and 1,000.
        let good = [0x44, 0x7e, 0x7f, 0x00, 0x7f, 0xa9, 0x07, 0x40];
        assert_eq!(code(Kind::Decoder, &good), None);
        let error = Some(Code::QPACK_DECODER_STREAM_ERROR);
        assert_eq!(code(Kind::Decoder, &[0x00]), error);
        assert_eq!(code(Kind::Decoder, &[0x01]), error);
        assert_eq!(code(Kind::Decoder, &[0x84]), error);
        let mut endless = vec![0x7f];
        endless.extend([0xff; 20]);
        assert_eq!(code(Kind::Decoder, &endless), error);
    }
}
