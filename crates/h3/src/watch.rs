//! What the transport looks at while HTTP/3 bytes pass by.
//!
//! `h3` buffers every frame but DATA whole, whatever length its header announces, so that a peer
//! could make it hold any amount of memory; and it skips PRIORITY_UPDATE. This watch follows the
//! frame boundaries of a stream without copying, refuses frames that are too long, and picks
//! PRIORITY_UPDATE out.
//!
//! Owns: [`Watch`], one per receiving stream. Does not own: the meaning of any other frame.
//! Spec: RFC 9114 s6.2, s7.1; RFC 9218 s7.2.

use crate::MAX_FIELD_SECTION_BYTES;

const STREAM_TYPE_CONTROL: u64 = 0x00;
const FRAME_DATA: u64 = 0x00;
/// WebTransport's signal on a bidirectional stream: no frames follow.
const FRAME_WEBTRANSPORT_STREAM: u64 = 0x41;
const FRAME_PRIORITY_UPDATE_REQUEST: u64 = 0xf_0700;
/// A stream ID and a priority need some tens of bytes; longer updates are ignored.
const MAX_PRIORITY_UPDATE_BYTES: usize = 1024;

/// Follows the frames of one receiving stream. About 64 bytes.
#[derive(Debug)]
pub(crate) struct Watch {
    state: State,
    number: PartialVarint,
    /// PRIORITY_UPDATE under way.
    update: Vec<u8>,
    on_control_stream: bool,
}

#[derive(Debug)]
enum State {
    StreamType,
    FrameType,
    FrameLength {
        kind: u64,
    },
    Payload {
        left: u64,
        update: bool,
    },
    /// Not our business any more.
    Unwatched,
}

/// What was noticed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Noticed {
    /// A frame that `h3` would buffer is longer than we bear: H3_EXCESSIVE_LOAD.
    TooLong { kind: u64, len: u64 },
    /// PRIORITY_UPDATE of a request: its stream and the field value.
    PriorityUpdate { stream: u64, value: Vec<u8> },
}

#[derive(Debug, Default)]
struct PartialVarint {
    value: u64,
    /// Bytes still to come; 0 between numbers.
    missing: u8,
}

impl PartialVarint {
    /// RFC 9000 s16.
    fn push(&mut self, byte: u8) -> Option<u64> {
        if self.missing == 0 {
            self.value = u64::from(byte & 0x3f);
            self.missing = (1 << (byte >> 6)) - 1;
        } else {
            self.value = self.value << 8 | u64::from(byte);
            self.missing -= 1;
        }
        (self.missing == 0).then_some(self.value)
    }
}

impl Watch {
    /// Of a bidirectional stream, which carries frames from its first byte.
    pub(crate) fn request() -> Self {
        Self::new(State::FrameType)
    }

    /// Of a unidirectional stream, whose type comes first.
    pub(crate) fn unidirectional() -> Self {
        Self::new(State::StreamType)
    }

    fn new(state: State) -> Self {
        Self {
            state,
            number: PartialVarint::default(),
            update: Vec::new(),
            on_control_stream: false,
        }
    }

    /// Looks at the next bytes of the stream. Payloads are skipped in one step.
    pub(crate) fn look(&mut self, mut bytes: &[u8], mut notice: impl FnMut(Noticed)) {
        loop {
            if let State::Payload { left, update } = &mut self.state {
                let here = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                let (payload, rest) = bytes.split_at(here);
                bytes = rest;
                *left -= here as u64;
                if *update {
                    self.update.extend_from_slice(payload);
                }
                if *left > 0 {
                    return;
                }
                if *update && let Some(noticed) = parse_update(&self.update) {
                    notice(noticed);
                }
                self.update.clear();
                self.state = State::FrameType;
            }
            if matches!(self.state, State::Unwatched) {
                return;
            }
            let Some((&byte, rest)) = bytes.split_first() else {
                return;
            };
            bytes = rest;
            if let Some(number) = self.number.push(byte) {
                self.step(number, &mut notice);
            }
        }
    }

    /// A number is complete.
    fn step(&mut self, number: u64, notice: &mut impl FnMut(Noticed)) {
        self.state = match self.state {
            State::StreamType if number == STREAM_TYPE_CONTROL => {
                self.on_control_stream = true;
                State::FrameType
            }
            State::FrameType if number == FRAME_WEBTRANSPORT_STREAM && !self.on_control_stream => {
                State::Unwatched
            }
            State::FrameType => State::FrameLength { kind: number },
            State::FrameLength { kind } => {
                if kind != FRAME_DATA && number > MAX_FIELD_SECTION_BYTES {
                    notice(Noticed::TooLong { kind, len: number });
                    State::Unwatched
                } else {
                    let update = self.on_control_stream
                        && kind == FRAME_PRIORITY_UPDATE_REQUEST
                        && number <= MAX_PRIORITY_UPDATE_BYTES as u64;
                    State::Payload {
                        left: number,
                        update,
                    }
                }
            }
            State::StreamType | State::Payload { .. } | State::Unwatched => State::Unwatched,
        };
    }
}

/// RFC 9218 s7.2: the stream's ID, then the field value to the end of the frame.
fn parse_update(payload: &[u8]) -> Option<Noticed> {
    let mut number = PartialVarint::default();
    for (index, &byte) in payload.iter().enumerate() {
        if let Some(stream) = number.push(byte) {
            let value = payload.get(index + 1..).unwrap_or_default().to_vec();
            return Some(Noticed::PriorityUpdate { stream, value });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn noticed(mut watch: Watch, pieces: &[&[u8]]) -> Vec<Noticed> {
        let mut all = Vec::new();
        for piece in pieces {
            watch.look(piece, |one| all.push(one));
        }
        all
    }

    /// SETTINGS (empty), then PRIORITY_UPDATE for stream 4: `u=1`.
    const CONTROL: &[u8] = &[
        0x00, 0x04, 0x00, 0x80, 0x0f, 0x07, 0x00, 0x04, 0x04, b'u', b'=', b'1', 0x07, 0x01, 0x00,
    ];

    #[test]
    fn picks_priority_updates_from_the_control_stream() {
        let expected = vec![Noticed::PriorityUpdate {
            stream: 4,
            value: b"u=1".to_vec(),
        }];
        assert_eq!(noticed(Watch::unidirectional(), &[CONTROL]), expected);
        for cut in 0..CONTROL.len() {
            let (front, back) = CONTROL.split_at(cut);
            assert_eq!(noticed(Watch::unidirectional(), &[front, back]), expected);
        }
        // The same bytes on a request stream or on a QPACK stream mean nothing.
        assert!(noticed(Watch::request(), &[&CONTROL[1..]]).is_empty());
        let mut qpack = CONTROL.to_vec();
        qpack[0] = 0x02;
        assert!(noticed(Watch::unidirectional(), &[&qpack]).is_empty());
    }

    #[test]
    fn refuses_frames_that_would_be_buffered_without_bound() {
        // HEADERS of 2^30 - 1 bytes.
        let headers = [0x01, 0xbf, 0xff, 0xff, 0xff];
        let len = (1 << 30) - 1;
        assert_eq!(
            noticed(Watch::request(), &[&headers]),
            [Noticed::TooLong { kind: 1, len }]
        );
        // DATA may be of any length, and what follows is still watched.
        let mut body = vec![0x00, 0x44, 0x00];
        body.extend(vec![0xff; 1024]);
        body.extend(headers);
        let pieces: Vec<_> = body.chunks(7).collect();
        assert_eq!(
            noticed(Watch::request(), &pieces),
            [Noticed::TooLong { kind: 1, len }]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_give_the_same(
            bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1_usize..40,
        ) {
            let whole = noticed(Watch::unidirectional(), &[&bytes]);
            let pieces: Vec<_> = bytes.chunks(piece).collect();
            prop_assert_eq!(noticed(Watch::unidirectional(), &pieces), whole);
        }
    }
}
