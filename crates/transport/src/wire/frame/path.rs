//! Frames of RFC 10069 but PATH_ACK, and PATH_ECHO.

use super::{Frame, NewConnectionId, NumberRanges, numbers::write_numbers};
use crate::{
    error::{DecodeError, DecodeErrorKind},
    units::PathId,
    wire::{Reader, Writer, codepoints::frame as ty},
};

/// A Path ID field. Numbers of 2^32 and more are above every limit that can be announced.
pub(super) fn decode_path_id(r: &mut Reader<'_>) -> Result<PathId, DecodeError> {
    let too_large = r.error(DecodeErrorKind::PathIdTooLarge);
    u32::try_from(r.varint()?)
        .map(PathId)
        .map_err(|_| too_large)
}

/// Writes a PATH_ECHO of `ranges` of packet numbers of `path`, which descend. Ranges that do not fit are left
/// out, oldest first. How many are in the frame: 0, and nothing is written, when not even the first one fits or
/// there is none. docs/spec/path-echo.md s3.
pub fn write_path_echo<I>(w: &mut Writer<'_>, path: PathId, ranges: I) -> usize
where
    I: Iterator<Item = std::ops::RangeInclusive<u64>> + Clone,
{
    write_numbers(w, &[ty::PATH_ECHO, path.0.into()], ranges)
}

/// Reads what follows the type `ty`, which stood at `start`.
pub(super) fn decode<'a>(
    ty: u64,
    start: usize,
    r: &mut Reader<'a>,
) -> Result<Frame<'a>, DecodeError> {
    Ok(match ty {
        ty::PATH_ABANDON => Frame::PathAbandon {
            path: decode_path_id(r)?,
            code: r.varint()?,
        },
        ty::PATH_STATUS_BACKUP | ty::PATH_STATUS_AVAILABLE => Frame::PathStatus {
            path: decode_path_id(r)?,
            available: ty == ty::PATH_STATUS_AVAILABLE,
            sequence: r.varint()?,
        },
        ty::PATH_NEW_CONNECTION_ID => {
            let path = decode_path_id(r)?;
            Frame::NewConnectionId(NewConnectionId::decode(Some(path), r)?)
        }
        ty::PATH_RETIRE_CONNECTION_ID => Frame::RetireConnectionId {
            path: Some(decode_path_id(r)?),
            sequence: r.varint()?,
        },
        ty::MAX_PATH_ID => Frame::MaxPathId(r.varint()?),
        ty::PATHS_BLOCKED => Frame::PathsBlocked(r.varint()?),
        ty::PATH_CIDS_BLOCKED => Frame::PathCidsBlocked {
            path: decode_path_id(r)?,
            next_sequence: r.varint()?,
        },
        ty::PATH_ECHO => Frame::PathEcho {
            path: decode_path_id(r)?,
            numbers: NumberRanges::decode(r)?,
        },
        _ => {
            return Err(DecodeError {
                offset: start,
                kind: DecodeErrorKind::UnknownFrame,
            });
        }
    })
}
