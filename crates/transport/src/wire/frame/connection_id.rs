//! NEW_CONNECTION_ID and PATH_NEW_CONNECTION_ID.

use crate::{
    error::{DecodeError, DecodeErrorKind},
    units::PathId,
    wire::{ConnectionId, Reader, ResetToken, Writer, codepoints, varint_len},
};

/// A NEW_CONNECTION_ID frame (`path` is `None`) or a PATH_NEW_CONNECTION_ID frame.
/// RFC 9000 s19.15, RFC 10069.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewConnectionId {
    /// The path it is for.
    pub path: Option<PathId>,
    /// Its number on that path.
    pub sequence: u64,
    /// IDs of that path with lower numbers must be retired; at most `sequence`.
    pub retire_prior_to: u64,
    /// The connection ID, 1 to 20 bytes.
    pub cid: ConnectionId,
    /// The stateless reset token that goes with it.
    pub token: ResetToken,
}

impl NewConnectionId {
    pub(super) fn decode(path: Option<PathId>, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let sequence = r.varint()?;
        let retire_prior_to = r.varint()?;
        if retire_prior_to > sequence {
            return Err(r.error(DecodeErrorKind::Invalid("Retire Prior To")));
        }
        let wrong_length = r.error(DecodeErrorKind::Invalid("connection ID length"));
        let len = usize::from(r.u8()?);
        if len == 0 || len > super::super::MAX_CONNECTION_ID_LEN {
            return Err(wrong_length);
        }
        let cid = ConnectionId::new(r.bytes(len)?).ok_or(wrong_length)?;
        let token = ResetToken(r.array()?);
        Ok(Self {
            path,
            sequence,
            retire_prior_to,
            cid,
            token,
        })
    }

    pub(super) fn frame_type(&self) -> u64 {
        match self.path {
            None => 0x18,
            Some(_) => codepoints::frame::PATH_NEW_CONNECTION_ID,
        }
    }

    pub(super) fn encoded_len(&self) -> usize {
        let path_len = self.path.map_or(0, |path| varint_len(u64::from(path.0)));
        varint_len(self.frame_type())
            + path_len
            + varint_len(self.sequence)
            + varint_len(self.retire_prior_to)
            + 1
            + self.cid.len()
            + 16
    }

    pub(super) fn encode_fields(&self, w: &mut Writer<'_>) {
        if let Some(path) = self.path {
            w.varint(u64::from(path.0));
        }
        w.varint(self.sequence);
        w.varint(self.retire_prior_to);
        // At most 20.
        w.u8(self.cid.len() as u8);
        w.bytes(self.cid.as_slice());
        w.bytes(&self.token.0);
    }
}
