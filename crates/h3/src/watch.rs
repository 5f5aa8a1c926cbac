//! What the transport looks at while HTTP/3 bytes pass by.
//!
//! `h3` buffers every frame but DATA whole, whatever length its header announces, and looks at all
//! of it again whenever a byte more arrives; it skips PRIORITY_UPDATE, and does not notice some
//! frames and messages that break the rules. This watch follows the frame boundaries of a stream
//! without copying bodies, refuses what is too long, out of place or malformed, compares bodies
//! with their content-length, tells which bytes make whole frames, and picks PRIORITY_UPDATE out.
//!
//! Owns: [`Watch`], one per receiving stream with frames. Does not own: the meaning of any other
//! frame, the rules for fields (`message.rs`), streams of QPACK (`qpack.rs`).
//! Spec: RFC 9114 s4.1, s5.2, s7.1, s7.2; RFC 9218 s7.2.

use std::mem;

use h3::error::Code;
use tautline::Side;

use crate::{
    MAX_FIELD_SECTION_BYTES,
    message::{self, Head, Method, Refused},
    varint::PartialVarint,
};

const FRAME_DATA: u64 = 0x00;
pub(crate) const FRAME_HEADERS: u64 = 0x01;
const FRAME_CANCEL_PUSH: u64 = 0x03;
const FRAME_SETTINGS: u64 = 0x04;
const FRAME_PUSH_PROMISE: u64 = 0x05;
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

/// Follows the frames of one receiving stream. About 170 bytes.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Which end we are.
    side: Side,
    on_control_stream: bool,
    state: State,
    number: PartialVarint,
    message: Message,
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

/// How far the request or response has come. RFC 9114 s4.1.
#[derive(Debug, Default)]
struct Message {
    stage: Stage,
    head: Head,
    /// Of the request that a response answers.
    asked: Method,
    /// Bytes that DATA frames have announced.
    body: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Up to the header section, which may have interim responses before it.
    #[default]
    Header,
    Body,
    /// Behind the trailer section.
    Over,
}

/// What was noticed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Noticed {
    /// The peer broke a rule: the connection is to be closed.
    Violation(Violation),
    /// The request or response is to be given up: H3_MESSAGE_ERROR.
    Malformed(&'static str),
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
            message: Message::default(),
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

    /// Tells the method of the request to which a response is being watched.
    pub(crate) fn answers(&mut self, asked: Method) {
        self.message.asked = asked;
    }

    /// Looks at the stream's end.
    pub(crate) fn end(&self) -> Option<Noticed> {
        if self.on_control_stream || matches!(self.state, State::Unwatched) {
            // `h3` knows what the end of a control stream means.
            return None;
        }
        if !matches!(self.state, State::FrameType) || self.number.is_partial() {
            // RFC 9114 s7.1.
            let reason = "the stream ends within a frame";
            let violation = Violation::new(Code::H3_FRAME_ERROR, reason);
            return Some(Noticed::Violation(violation));
        }
        match self.message.stage {
            Stage::Header if self.side == Side::Client => {
                Some(Noticed::Malformed("the stream ends without a response"))
            }
            // `h3` says H3_REQUEST_INCOMPLETE.
            Stage::Header => None,
            Stage::Body => self.message.end_of_body().err().map(Noticed::Malformed),
            Stage::Over => None,
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
                let in_pieces = !done || !self.payload.is_empty();
                if ours && in_pieces {
                    self.payload.extend_from_slice(payload);
                }
                if done || kind == FRAME_DATA {
                    incomplete = bytes.len();
                }
                if !done {
                    return incomplete;
                }
                self.state = State::FrameType;
                if ours {
                    let collected = mem::take(&mut self.payload);
                    let payload = if in_pieces { &collected } else { payload };
                    if let Some(noticed) = self.read_frame(kind, payload) {
                        self.give_up_after(&noticed);
                        notice(noticed);
                    }
                }
            }
            if matches!(self.state, State::Unwatched) {
                return 0;
            }
            let Some((&byte, rest)) = bytes.split_first() else {
                return incomplete;
            };
            bytes = rest;
            if let Some(number) = self.number.push(byte)
                && let Some(noticed) = self.step(number)
            {
                self.give_up_after(&noticed);
                notice(noticed);
            }
        }
    }

    /// One broken rule is enough.
    fn give_up_after(&mut self, noticed: &Noticed) {
        if !matches!(noticed, Noticed::PriorityUpdate { .. }) {
            self.state = State::Unwatched;
        }
    }

    /// A type or a length is complete.
    fn step(&mut self, number: u64) -> Option<Noticed> {
        let violation = |code, reason| Some(Noticed::Violation(Violation::new(code, reason)));
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
                    return violation(Code::H3_FRAME_UNEXPECTED, reason);
                }
                if !self.on_control_stream
                    && let Err(broken) = self.message.may_follow(number, self.side)
                {
                    return Some(Noticed::Violation(broken));
                }
                self.state = State::FrameLength { kind: number };
            }
            State::FrameLength { kind } => {
                if kind != FRAME_DATA && number > MAX_FIELD_SECTION_BYTES {
                    return violation(Code::H3_EXCESSIVE_LOAD, "frame too long");
                }
                let ours = match kind {
                    FRAME_DATA if !self.on_control_stream => {
                        if let Err(reason) = self.message.data(number) {
                            return Some(Noticed::Malformed(reason));
                        }
                        false
                    }
                    FRAME_HEADERS => !self.on_control_stream,
                    _ if !self.on_control_stream => false,
                    FRAME_CANCEL_PUSH | FRAME_GOAWAY | FRAME_MAX_PUSH_ID => {
                        if number > MAX_NUMBER_BYTES {
                            return Some(Noticed::Violation(BAD_NUMBER));
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
    fn read_frame(&mut self, kind: u64, payload: &[u8]) -> Option<Noticed> {
        if kind == FRAME_HEADERS {
            return match self.message.section(payload, self.side).err()? {
                Refused::Malformed(reason) => Some(Noticed::Malformed(reason)),
                Refused::Undecodable => {
                    let reason = "a field section that cannot be decoded";
                    let code = Code::QPACK_DECOMPRESSION_FAILED;
                    Some(Noticed::Violation(Violation::new(code, reason)))
                }
            };
        }
        let id_error = |reason| Some(Violation::new(Code::H3_ID_ERROR, reason));
        let Some((number, rest)) = PartialVarint::first(payload) else {
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

impl Message {
    /// Whether a frame of this kind may come now.
    fn may_follow(&self, kind: u64, side: Side) -> Result<(), Violation> {
        let unexpected = |reason| Err(Violation::new(Code::H3_FRAME_UNEXPECTED, reason));
        match (kind, self.stage) {
            (FRAME_DATA, Stage::Header) => unexpected("DATA before HEADERS"),
            (FRAME_DATA | FRAME_HEADERS, Stage::Over) => unexpected("a frame behind trailers"),
            (FRAME_PUSH_PROMISE, _) => match side {
                Side::Server => unexpected("clients cannot push"),
                Side::Client => Err(Violation::new(Code::H3_ID_ERROR, "no push was allowed")),
            },
            (FRAME_CANCEL_PUSH | FRAME_SETTINGS | FRAME_GOAWAY | FRAME_MAX_PUSH_ID, _) => {
                unexpected("a frame of the control stream")
            }
            // PRIORITY, PING, WINDOW_UPDATE, CONTINUATION. RFC 9114 s7.2.8.
            (0x02 | 0x06 | 0x08 | 0x09, _) => unexpected("a frame of HTTP/2"),
            _ => Ok(()),
        }
    }

    /// The header section or the trailers.
    fn section(&mut self, section: &[u8], side: Side) -> Result<(), Refused> {
        match (self.stage, side) {
            (Stage::Header, Side::Server) => {
                self.head = message::request(section)?;
                self.stage = Stage::Body;
            }
            (Stage::Header, Side::Client) => {
                let head = message::response(section)?;
                if !head.is_interim() {
                    self.head = head;
                    self.stage = Stage::Body;
                }
            }
            (Stage::Body | Stage::Over, _) => {
                message::trailers(section)?;
                self.end_of_body().map_err(Refused::Malformed)?;
                self.stage = Stage::Over;
            }
        }
        Ok(())
    }

    /// A DATA frame of so many bytes begins.
    fn data(&mut self, bytes: u64) -> Result<(), &'static str> {
        self.body = self.body.saturating_add(bytes);
        match self.head.content_length {
            Some(length) if self.body > length && !self.is_tunnel() => {
                Err("more DATA than content-length says")
            }
            _ => Ok(()),
        }
    }

    fn end_of_body(&self) -> Result<(), &'static str> {
        match self.head.content_length {
            Some(length) if self.body < length && !self.is_tunnel() => {
                let nothing = self.body == 0 && self.head.may_lack_body(self.asked);
                if nothing {
                    Ok(())
                } else {
                    Err("less DATA than content-length says")
                }
            }
            _ => Ok(()),
        }
    }

    /// Bytes of a tunnel are no body. RFC 9110 s9.3.6.
    fn is_tunnel(&self) -> bool {
        let connect = [self.head.method, self.asked].contains(&Method::Connect);
        connect && matches!(self.head.status, 0 | 200..300)
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

    /// HEADERS of `GET https://a/`.
    const GET: &[u8] = &[0x01, 0x08, 0x00, 0x00, 0xd1, 0xd7, 0xc1, 0x50, 0x01, b'a'];

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
        let misplaced = noticed(request(), &[&CONTROL[2..]]);
        assert_eq!(violation(&misplaced), Some(Code::H3_FRAME_UNEXPECTED));
    }

    #[test]
    fn refuses_frames_that_would_be_buffered_without_bound() {
        // HEADERS of 2^30 - 1 bytes.
        let headers = [0x01, 0xbf, 0xff, 0xff, 0xff];
        let told = noticed(request(), &[&headers]);
        assert_eq!(violation(&told), Some(Code::H3_EXCESSIVE_LOAD));
        // DATA may be of any length, and what follows is still watched.
        let mut body = GET.to_vec();
        body.extend([0x00, 0x44, 0x00]);
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
        // HEADERS of eight bytes, in pieces.
        assert_eq!(look(&GET[..1]), 1);
        assert_eq!(look(&GET[1..4]), 3);
        assert_eq!(look(&GET[4..]), 0);
        // DATA of four bytes: held only until its length is known.
        assert_eq!(look(&[0x00]), 1);
        assert_eq!(look(&[0x04]), 0);
        assert_eq!(look(&[1, 2]), 0);
        // Trailers, of which there are none.
        assert_eq!(look(&[3, 4, 0x01, 0x02, 0x00]), 3);
        assert_eq!(look(&[0x00]), 0);
        assert_eq!(Watch::nothing(Side::Client).look(&[1, 2, 3], |_| {}), 0);
    }

    /// What a server makes of a request with such fields of length and such frames behind, and of
    /// its end.
    fn message(side: Side, asked: Method, frames: &[u8]) -> Option<Noticed> {
        let mut watch = Watch::request(side);
        watch.answers(asked);
        let mut all = Vec::new();
        watch.look(frames, |one| all.push(one));
        assert!(all.len() <= 1);
        all.pop().or_else(|| watch.end())
    }

    #[test]
    fn bodies_are_as_long_as_they_say() {
        // POST with content-length 3.
        const POST: &[u8] = &[
            0x01, 0x0b, 0x00, 0x00, 0xd4, 0xd7, 0xc1, 0x50, 0x01, b'a', 0x54, 0x01, b'3',
        ];
        let post = |behind: &[u8]| {
            let frames = [POST, behind].concat();
            match message(Side::Server, Method::Other, &frames) {
                Some(Noticed::Malformed(_)) => Some(Code::H3_MESSAGE_ERROR),
                Some(Noticed::Violation(violation)) => Some(violation.code),
                _ => None,
            }
        };
        let malformed = Some(Code::H3_MESSAGE_ERROR);
        let unexpected = Some(Code::H3_FRAME_UNEXPECTED);
        assert_eq!(post(&[0x00, 0x03, 1, 2, 3]), None);
        assert_eq!(post(&[0x00, 0x01, 1, 0x21, 0x00, 0x00, 0x02, 2, 3]), None);
        assert_eq!(
            post(&[0x00, 0x03, 1, 2, 3, 0x01, 0x02, 0, 0, 0x21, 0]),
            None
        );
        assert_eq!(post(&[]), malformed);
        assert_eq!(post(&[0x00, 0x02, 1, 2]), malformed);
        assert_eq!(post(&[0x00, 0x04]), malformed);
        assert_eq!(post(&[0x00, 0x03, 1, 2, 3, 0x00, 0x01]), malformed);
        // Trailers too early, with a pseudo-header, twice, and with DATA behind.
        assert_eq!(post(&[0x01, 0x02, 0, 0]), malformed);
        let whole = |behind: &[u8]| post(&[&[0x00, 0x03, 1, 2, 3], behind].concat());
        assert_eq!(whole(&[0x01, 0x03, 0, 0, 0xd1]), malformed);
        assert_eq!(whole(&[0x01, 0x02, 0, 0, 0x01, 0x02, 0, 0]), unexpected);
        assert_eq!(whole(&[0x01, 0x02, 0, 0, 0x00, 0x00]), unexpected);
        // The end within a frame, its header included.
        let cut_off = Some(Code::H3_FRAME_ERROR);
        assert_eq!(post(&[0x00, 0x03, 1, 2]), cut_off);
        assert_eq!(post(&[0x00]), cut_off);
        assert_eq!(post(&[0x40]), cut_off);
    }

    #[test]
    fn responses_without_a_body_may_announce_one() {
        // 200 and 304 with content-length 3, and 103 without.
        const OK: &[u8] = &[0x01, 0x06, 0x00, 0x00, 0xd9, 0x54, 0x01, b'3'];
        const NOT_MODIFIED: &[u8] = &[0x01, 0x06, 0x00, 0x00, 0xda, 0x54, 0x01, b'3'];
        const EARLY: &[u8] = &[0x01, 0x03, 0x00, 0x00, 0xd8];
        let of = |asked, frames: &[u8]| message(Side::Client, asked, frames);
        assert_eq!(of(Method::Head, OK), None);
        assert_eq!(of(Method::Other, NOT_MODIFIED), None);
        let malformed = |told| matches!(told, Some(Noticed::Malformed(_)));
        assert!(malformed(of(Method::Other, OK)));
        assert!(malformed(of(Method::Head, &[OK, &[0, 1, 1]].concat())));
        // Interim responses come first, and are not enough.
        let body = &[0x00, 0x03, 1, 2, 3][..];
        assert_eq!(of(Method::Other, &[EARLY, EARLY, OK, body].concat()), None);
        assert!(malformed(of(Method::Other, EARLY)));
        assert!(malformed(of(Method::Other, &[])));
        assert!(matches!(
            of(Method::Other, &[EARLY, body].concat()),
            Some(Noticed::Violation(_))
        ));
        // A tunnel goes on as long as it likes.
        assert_eq!(of(Method::Connect, OK), None);
        assert_eq!(of(Method::Connect, &[OK, body, body].concat()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_are_the_same_message(
            bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1_usize..40,
        ) {
            for start in [&[][..], GET] {
                let bytes = [start, &bytes].concat();
                let whole = noticed(request(), &[&bytes]);
                let pieces: Vec<_> = bytes.chunks(piece).collect();
                prop_assert_eq!(noticed(request(), &pieces), whole);
            }
        }

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
