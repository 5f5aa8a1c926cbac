//! PADDING, CRYPTO, NEW_TOKEN, CONNECTION_CLOSE, ACK_FREQUENCY.

use super::{Frame, prefixed_len, write_prefixed};
use crate::{
    error::{DecodeError, DecodeErrorKind},
    wire::{MAX_VARINT, Reader, Writer, varint_len},
};

/// Skips zero bytes and tells how many.
pub(super) fn skip_zeros(r: &mut Reader<'_>) -> usize {
    let rest = r.peek_rest();
    let zeros = rest
        .iter()
        .position(|&byte| byte != 0)
        .unwrap_or(rest.len());
    r.skip(zeros);
    zeros
}

pub(super) fn decode_crypto<'a>(r: &mut Reader<'a>) -> Result<Frame<'a>, DecodeError> {
    let offset = r.varint()?;
    let data = r.varint_prefixed()?;
    if offset + data.len() as u64 > MAX_VARINT {
        return Err(r.error(DecodeErrorKind::Invalid("CRYPTO offset")));
    }
    Ok(Frame::Crypto { offset, data })
}

pub(super) fn decode_new_token<'a>(r: &mut Reader<'a>) -> Result<Frame<'a>, DecodeError> {
    let token = r.varint_prefixed()?;
    if token.is_empty() {
        return Err(r.error(DecodeErrorKind::Invalid("NEW_TOKEN length")));
    }
    Ok(Frame::NewToken { token })
}

pub(super) fn decode_ack_frequency<'a>(r: &mut Reader<'a>) -> Result<Frame<'a>, DecodeError> {
    Ok(Frame::AckFrequency {
        sequence: r.varint()?,
        threshold: r.varint()?,
        max_ack_delay_us: r.varint()?,
        reordering: r.varint()?,
    })
}

/// A CONNECTION_CLOSE frame. RFC 9000 s19.19.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// Type of the frame that broke a rule, 0 if none did; `None` when the application closes
    /// (type 0x1d).
    pub frame_type: Option<u64>,
    /// Transport or application error code.
    pub code: u64,
    /// Words for a person, UTF-8 by intention.
    pub reason: &'a [u8],
}

impl<'a> Close<'a> {
    pub(super) fn decode(by_application: bool, r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let code = r.varint()?;
        let frame_type = if by_application {
            None
        } else {
            Some(r.varint()?)
        };
        Ok(Self {
            frame_type,
            code,
            reason: r.varint_prefixed()?,
        })
    }

    pub(super) fn own_frame_type(&self) -> u64 {
        if self.frame_type.is_some() {
            0x1c
        } else {
            0x1d
        }
    }

    pub(super) fn encoded_len(&self) -> usize {
        let frame_type_len = self.frame_type.map_or(0, varint_len);
        1 + varint_len(self.code) + frame_type_len + prefixed_len(self.reason)
    }

    pub(super) fn encode_fields(&self, w: &mut Writer<'_>) {
        w.varint(self.code);
        if let Some(frame_type) = self.frame_type {
            w.varint(frame_type);
        }
        write_prefixed(w, self.reason);
    }
}
