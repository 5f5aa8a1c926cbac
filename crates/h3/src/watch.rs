//! What the transport looks at while HTTP/3 bytes pass by.
//!
//! `h3` buffers every frame but DATA whole, whatever length its header announces, and looks at all
//! of it again whenever a byte more arrives; it skips PRIORITY_UPDATE, and does not notice some
//! frames that break the rules. This watch follows the frame boundaries of a stream without
//! copying, refuses what is too long or out of place, tells which bytes make whole frames, and
//! picks PRIORITY_UPDATE out.
//!
//! Owns: [`Watch`], one per receiving stream with frames. Does not own: the meaning of any other
//! frame, streams of QPACK (`qpack.rs`).
//! Spec: RFC 9114 s5.2, s7.1, s7.2.3, s7.2.7; RFC 9218 s7.2.

use h3::error::Code;
use tautline::Side;

use crate::{MAX_FIELD_SECTION_BYTES, varint::PartialVarint};

const FRAME_DATA: u64 = 0x00;
const FRAME_CANCEL_PUSH: u64 = 0x03;
const FRAME_GOAWAY: u64 = 0x07;
const FRAME_MAX_PUSH_ID: u64 = 0x0d;
/// WebTransport's signal on a bidirectional stream: no frames follow.
const FRAME_WEBTRANSPORT_STREAM: u64 = 0x41;
const FRAME_PRIORITY_UPDATE_REQUEST: u64 = 0xf_0700;
const FRAME_PRIORITY_UPDATE_PUSH: u64 = 0xf_0701;
/// A stream ID and a priority need some tens of bytes; longer updates are ignored.
const MAX_PRIORITY_UPDATE_BYTES: u64 = 1024;
/// Of a frame that holds one number.
const MAX_NUMBER_BYTES: u64 = 8;

/// Follows the frames of one receiving stream. About 80 bytes.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Which end we are.
    side: Side,
    on_control_stream: bool,
    state: State,
    number: PartialVarint,
    /// Payload of a frame that we read, as far as it has arrived.
    payload: Vec<u8>,
    /// The largest MAX_PUSH_ID so far.
    max_push_id: Option<u64>,
}

#[derive(Debug)]
enum State {
    FrameType,
    FrameLength {
        kind: u64,
    },
    Payload {
        kind: u64,
        left: u64,
        /// Whether we read it.
        ours: bool,
    },
    /// Not our business any more.
    Unwatched,
}

/// What was noticed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Noticed {
    /// The peer broke a rule: the connection is to be closed.
    Violation(Violation),
    /// PRIORITY_UPDATE of a request: its stream and the field value.
    PriorityUpdate { stream: u64, value: Vec<u8> },
}

/// What a connection is closed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) code: Code,
    pub(crate) reason: &'static str,
}

impl Violation {
    pub(crate) const fn new(code: Code, reason: &'static str) -> Self {
        Self { code, reason }
    }
}

impl Watch {
    /// Of a bidirectional stream at this end.
    pub(crate) fn request(side: Side) -> Self {
        Self::new(side, false)
    }

    /// Of the peer's control stream, after its type.
    pub(crate) fn control(side: Side) -> Self {
        Self::new(side, true)
    }

    fn new(side: Side, on_control_stream: bool) -> Self {
        Self {
            side,
            on_control_stream,
            state: State::FrameType,
            number: PartialVarint::default(),
            payload: Vec::new(),
            max_push_id: None,
        }
    }

    /// Of a stream whose bytes mean nothing to us.
    pub(crate) fn nothing(side: Side) -> Self {
        Self {
            state: State::Unwatched,
            ..Self::new(side, false)
        }
    }

    /// Looks at the next bytes of the stream. Payloads are skipped in one step.
    ///
    /// Returns how many bytes at the end of `bytes` belong to a frame, other than DATA, that is not
    /// complete: `h3` need not see them yet. What is incomplete never exceeds
    /// [`MAX_FIELD_SECTION_BYTES`] and a frame header.
    pub(crate) fn look(&mut self, mut bytes: &[u8], mut notice: impl FnMut(Noticed)) -> usize {
        let mut incomplete = bytes.len();
        loop {
            if let State::Payload { kind, left, ours } = &mut self.state {
                let (kind, ours) = (*kind, *ours);
                let here = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                let (payload, rest) = bytes.split_at(here);
                bytes = rest;
                *left -= here as u64;
                let done = *left == 0;
                if ours {
                    self.payload.extend_from_slice(payload);
                }
                if done || kind == FRAME_DATA {
                    incomplete = bytes.len();
                }
                if !done {
                    return incomplete;
                }
                if ours {
                    if let Some(noticed) = self.read_frame(kind) {
                        notice(noticed);
                    }
                    self.payload.clear();
                }
                self.state = State::FrameType;
            }
            if matches!(self.state, State::Unwatched) {
                return 0;
            }
            let Some((&byte, rest)) = bytes.split_first() else {
                return incomplete;
            };
            bytes = rest;
            if let Some(number) = self.number.push(byte)
                && let Some(violation) = self.step(number)
            {
                notice(Noticed::Violation(violation));
                self.state = State::Unwatched;
            }
        }
    }

    /// A type or a length is complete.
    fn step(&mut self, number: u64) -> Option<Violation> {
        match self.state {
            State::FrameType if number == FRAME_WEBTRANSPORT_STREAM && !self.on_control_stream => {
                self.state = State::Unwatched;
            }
            State::FrameType => {
                let update = matches!(
                    number,
                    FRAME_PRIORITY_UPDATE_REQUEST | FRAME_PRIORITY_UPDATE_PUSH
                );
                if update && !self.on_control_stream {
                    let reason = "PRIORITY_UPDATE outside of the control stream";
                    return Some(Violation::new(Code::H3_FRAME_UNEXPECTED, reason));
                }
                self.state = State::FrameLength { kind: number };
            }
            State::FrameLength { kind } => {
                if kind != FRAME_DATA && number > MAX_FIELD_SECTION_BYTES {
                    return Some(Violation::new(Code::H3_EXCESSIVE_LOAD, "frame too long"));
                }
                let ours = self.on_control_stream
                    && match kind {
                        FRAME_CANCEL_PUSH | FRAME_GOAWAY | FRAME_MAX_PUSH_ID => {
                            if number > MAX_NUMBER_BYTES {
                                return Some(BAD_NUMBER);
                            }
                            true
                        }
                        FRAME_PRIORITY_UPDATE_REQUEST | FRAME_PRIORITY_UPDATE_PUSH => {
                            number <= MAX_PRIORITY_UPDATE_BYTES
                        }
                        _ => false,
                    };
                self.state = State::Payload {
                    kind,
                    left: number,
                    ours,
                };
            }
            State::Payload { .. } | State::Unwatched => self.state = State::Unwatched,
        }
        None
    }

    /// A frame that we read is complete.
    fn read_frame(&mut self, kind: u64) -> Option<Noticed> {
        let id_error = |reason| Some(Violation::new(Code::H3_ID_ERROR, reason));
        let Some((number, rest)) = PartialVarint::first(&self.payload) else {
            return Some(Noticed::Violation(BAD_NUMBER));
        };
        let update = match kind {
            FRAME_PRIORITY_UPDATE_REQUEST => {
                return Some(Noticed::PriorityUpdate {
                    stream: number,
                    value: rest.to_vec(),
                });
            }
            FRAME_PRIORITY_UPDATE_PUSH => true,
            _ => false,
        };
        let violation = if update {
            // Neither end promises pushes.
            id_error("PRIORITY_UPDATE of a push that was never promised")
        } else if !rest.is_empty() {
            Some(BAD_NUMBER)
        } else if kind == FRAME_CANCEL_PUSH {
            id_error("CANCEL_PUSH of a push that was never promised")
        } else if kind == FRAME_MAX_PUSH_ID && self.side == Side::Server {
            let shrinks = self.max_push_id.is_some_and(|before| number < before);
            self.max_push_id = Some(number);
            shrinks.then(|| id_error("MAX_PUSH_ID shrinks")).flatten()
        } else {
            // `h3` judges GOAWAY, and MAX_PUSH_ID from a server.
            None
        };
        violation.map(Noticed::Violation)
    }
}

/// RFC 9114 s7.1: a frame ends where its fields end.
const BAD_NUMBER: Violation =
    Violation::new(Code::H3_FRAME_ERROR, "a frame is not exactly its fields");

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

    fn control() -> Watch {
        Watch::control(Side::Server)
    }

    fn request() -> Watch {
        Watch::request(Side::Server)
    }

    fn violation(noticed: &[Noticed]) -> Option<Code> {
        match noticed {
            [Noticed::Violation(violation)] => Some(violation.code),
            _ => None,
        }
    }

    /// SETTINGS (empty), then PRIORITY_UPDATE for stream 4: `u=1`, then GOAWAY.
    const CONTROL: &[u8] = &[
        0x04, 0x00, 0x80, 0x0f, 0x07, 0x00, 0x04, 0x04, b'u', b'=', b'1', 0x07, 0x01, 0x00,
    ];

    #[test]
    fn picks_priority_updates_from_the_control_stream() {
        let expected = vec![Noticed::PriorityUpdate {
            stream: 4,
            value: b"u=1".to_vec(),
        }];
        assert_eq!(noticed(control(), &[CONTROL]), expected);
        for cut in 0..CONTROL.len() {
            let (front, back) = CONTROL.split_at(cut);
            assert_eq!(noticed(control(), &[front, back]), expected);
        }
        // Elsewhere it must not be.
        let misplaced = noticed(request(), &[CONTROL]);
        assert_eq!(violation(&misplaced), Some(Code::H3_FRAME_UNEXPECTED));
    }

    #[test]
    fn refuses_frames_that_would_be_buffered_without_bound() {
        // HEADERS of 2^30 - 1 bytes.
        let headers = [0x01, 0xbf, 0xff, 0xff, 0xff];
        let told = noticed(request(), &[&headers]);
        assert_eq!(violation(&told), Some(Code::H3_EXCESSIVE_LOAD));
        // DATA may be of any length, and what follows is still watched.
        let mut body = vec![0x00, 0x44, 0x00];
        body.extend(vec![0xff; 1024]);
        body.extend(headers);
        let pieces: Vec<_> = body.chunks(7).collect();
        let told = noticed(request(), &pieces);
        assert_eq!(violation(&told), Some(Code::H3_EXCESSIVE_LOAD));
    }

    #[test]
    fn frames_of_one_number_hold_one_number() {
        let code = |bytes: &[u8]| violation(&noticed(control(), &[bytes]));
        assert_eq!(code(&[0x07, 0x02, 0x04, 0x07]), Some(Code::H3_FRAME_ERROR));
        assert_eq!(code(&[0x07, 0x00]), Some(Code::H3_FRAME_ERROR));
        assert_eq!(code(&[0x0d, 0x09]), Some(Code::H3_FRAME_ERROR));
        assert_eq!(code(&[0x07, 0x01, 0x04]), None);
        assert_eq!(code(&[0x03, 0x01, 0x05]), Some(Code::H3_ID_ERROR));
        let shrinks = [0x0d, 0x01, 0x05, 0x0d, 0x01, 0x05, 0x0d, 0x01, 0x04];
        assert_eq!(code(&shrinks[..6]), None);
        assert_eq!(code(&shrinks), Some(Code::H3_ID_ERROR));
        let push = [0x80, 0x0f, 0x07, 0x01, 0x01, 0x05];
        assert_eq!(code(&push), Some(Code::H3_ID_ERROR));
        let empty = [0x80, 0x0f, 0x07, 0x00, 0x00];
        assert_eq!(code(&empty), Some(Code::H3_FRAME_ERROR));
    }

    #[test]
    fn incomplete_frames_are_held_and_data_is_not() {
        let mut watch = request();
        let mut look = |bytes: &[u8]| watch.look(bytes, |noticed| panic!("{noticed:?}"));
        // HEADERS of three bytes, in pieces.
        assert_eq!(look(&[0x01]), 1);
        assert_eq!(look(&[0x03, 0xaa]), 2);
        assert_eq!(look(&[0xaa, 0xaa]), 0);
        // DATA of four bytes: held only until its length is known.
        assert_eq!(look(&[0x00]), 1);
        assert_eq!(look(&[0x04]), 0);
        assert_eq!(look(&[1, 2]), 0);
        assert_eq!(look(&[3, 4, 0x01, 0x02, 0xaa]), 3);
        assert_eq!(look(&[0xaa]), 0);
        assert_eq!(Watch::nothing(Side::Client).look(&[1, 2, 3], |_| {}), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_give_the_same(
            bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1_usize..40,
        ) {
            let whole = noticed(control(), &[&bytes]);
            let pieces: Vec<_> = bytes.chunks(piece).collect();
            prop_assert_eq!(noticed(control(), &pieces), whole);
        }
    }
}
