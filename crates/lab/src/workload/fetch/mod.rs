//! Ask for bytes, get them: the request protocol that most workloads use.
//!
//! A request is a bidirectional stream that begins with a head of 25 bytes, all numbers big-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | length of the answer |
//! | 8 | nanoseconds that the server thinks before it answers |
//! | 8 | when the request was wanted, in nanoseconds of the clock that both ends share |
//! | 1 | urgency 0 to 7, plus 128 when streams of this urgency take turns (RFC 9218) |
//!
//! What follows to the end of the stream is a body that is counted and thrown away; the answer is
//! filler. Bodies and answers are application bytes, heads are not.
//!
//! Owns: [`Request`], [`Source`] (writes so many bytes), [`Sink`] (reads a stream to its end),
//! [`Asker`] (the client), [`Responder`] (the server).

mod answer;
mod ask;

use std::time::Duration;

pub(crate) use answer::Responder;
pub(crate) use ask::{Answered, Ask, Asker};
use bytes::Bytes;
use tautline_transport::time::Instant;

use crate::session::{Read, Session, StreamKey};

/// What is sent when it does not matter what.
static FILLER: [u8; 64 * 1024] = [0x74; 64 * 1024];

/// Bytes of a request before its body.
const HEAD_BYTES: usize = 25;
/// No server thinks longer than an hour, whatever it is asked.
const MAX_THINK: Duration = Duration::from_secs(3600);
const INCREMENTAL: u8 = 0x80;

/// How streams share a connection (RFC 9218).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Priority {
    /// 0 first, 7 last.
    pub(crate) urgency: u8,
    /// Whether streams of this urgency take turns.
    pub(crate) incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self {
            urgency: 3,
            incremental: false,
        }
    }
}

impl Priority {
    /// The default urgency.
    pub(crate) fn in_turns(incremental: bool) -> Self {
        Self {
            incremental,
            ..Self::default()
        }
    }

    fn apply(self, session: &mut dyn Session, stream: StreamKey) {
        if self != Self::default() {
            session.prioritise(stream, self.urgency, self.incremental);
        }
    }
}

/// A request before its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) answer_bytes: u64,
    pub(crate) think: Duration,
    pub(crate) wanted: Instant,
    pub(crate) priority: Priority,
}

impl Request {
    pub(crate) fn head(self) -> Bytes {
        let think = u64::try_from(self.think.as_nanos()).unwrap_or(u64::MAX);
        let turns = if self.priority.incremental {
            INCREMENTAL
        } else {
            0
        };
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend_from_slice(&self.answer_bytes.to_be_bytes());
        head.extend_from_slice(&think.to_be_bytes());
        head.extend_from_slice(&self.wanted.as_nanos().to_be_bytes());
        head.push(self.priority.urgency.min(7) | turns);
        head.into()
    }

    fn parse(head: &[u8]) -> Option<Self> {
        let (answer, rest) = head.split_first_chunk::<8>()?;
        let (think, rest) = rest.split_first_chunk::<8>()?;
        let (wanted, rest) = rest.split_first_chunk::<8>()?;
        let priority = *rest.first()?;
        Some(Self {
            answer_bytes: u64::from_be_bytes(*answer),
            think: Duration::from_nanos(u64::from_be_bytes(*think)).min(MAX_THINK),
            wanted: Instant::from_nanos(u64::from_be_bytes(*wanted)),
            priority: Priority {
                urgency: priority & 7,
                incremental: priority & INCREMENTAL != 0,
            },
        })
    }
}

/// Bytes still to be written to a stream.
#[derive(Debug, Default)]
pub(crate) struct Source {
    head: Bytes,
    left: u64,
    over: bool,
}

impl Source {
    /// `head`, then `filler_bytes` of filler, then the end of the stream.
    pub(crate) fn new(head: Bytes, filler_bytes: u64) -> Self {
        Self {
            head,
            left: filler_bytes,
            over: false,
        }
    }

    /// Writes what the stream takes; `true` once everything is handed over.
    pub(crate) fn write(&mut self, session: &mut dyn Session, stream: StreamKey) -> bool {
        while !self.over {
            if !self.head.is_empty() {
                if session.write(stream, &mut self.head) == 0 {
                    return false;
                }
                continue;
            }
            if self.left == 0 {
                session.finish(stream);
                self.over = true;
                break;
            }
            let take = usize::try_from(self.left).map_or(FILLER.len(), |n| n.min(FILLER.len()));
            let mut data = Bytes::from_static(FILLER.get(..take).unwrap_or(&FILLER));
            match session.write(stream, &mut data) {
                0 => return false,
                taken => self.left -= taken as u64,
            }
        }
        true
    }
}

/// Bytes read from a stream.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) bytes: u64,
    pub(crate) finished: bool,
    pub(crate) gone: bool,
}

impl Sink {
    /// Reads what is there; `each` is shown every chunk. Returns how many bytes came.
    pub(crate) fn read(
        &mut self,
        session: &mut dyn Session,
        stream: StreamKey,
        mut each: impl FnMut(&[u8]),
    ) -> u64 {
        let before = self.bytes;
        loop {
            match session.read(stream) {
                Read::Chunk(chunk) => {
                    self.bytes += chunk.len() as u64;
                    each(&chunk);
                }
                Read::Blocked => break,
                Read::Finished => {
                    self.finished = true;
                    break;
                }
                Read::Gone => {
                    self.gone = true;
                    break;
                }
            }
        }
        self.bytes - before
    }

    /// Whether nothing more will come.
    pub(crate) fn is_over(&self) -> bool {
        self.finished || self.gone
    }
}

/// The first bytes of a stream, gathered from its chunks.
#[derive(Debug, Default)]
pub(crate) struct Head<const BYTES: usize>(Vec<u8>);

impl<const BYTES: usize> Head<BYTES> {
    /// Takes from a chunk what is still missing.
    pub(crate) fn take(&mut self, chunk: &[u8]) {
        let missing = BYTES - self.0.len().min(BYTES);
        self.0
            .extend_from_slice(chunk.get(..missing).unwrap_or(chunk));
    }

    /// All of it, once it is there.
    pub(crate) fn bytes(&self) -> Option<&[u8; BYTES]> {
        self.0.as_slice().try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn heads_parse_back(answer: u64, think in 0u64..=3600, wanted: u64, urgency in 0u8..8, incremental: bool) {
            let request = Request {
                answer_bytes: answer,
                think: Duration::from_secs(think),
                wanted: Instant::from_nanos(wanted),
                priority: Priority { urgency, incremental },
            };
            let head = request.head();
            prop_assert_eq!(head.len(), HEAD_BYTES);
            prop_assert_eq!(Request::parse(&head), Some(request));
            for cut in 0..HEAD_BYTES {
                prop_assert_eq!(Request::parse(&head[..cut]), None);
            }
        }

        #[test]
        fn a_head_comes_in_any_pieces(bytes in proptest::collection::vec(any::<u8>(), 0..40), cuts in proptest::collection::vec(1usize..9, 40)) {
            let mut head = Head::<12>::default();
            let mut rest = bytes.as_slice();
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                head.take(piece);
                rest = after;
            }
            prop_assert_eq!(head.bytes().map(<[u8; 12]>::as_slice), bytes.get(..12));
        }
    }
}
