//! What streams and application datagrams did, for whoever observes the connection.
//!
//! API calls have no clock and rooms no observer, so both only note what happened; the connection
//! turns the notes into events at its next call with a time. Nothing is kept without an observer.

use crate::{
    observe::{DataPosition, FlowScope, HalfStream},
    units::StreamId,
};

/// Notes kept between two calls of the connection; what exceeds them is left out.
const MAX_NOTES: usize = 4096;

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// Half a stream changed its state.
    State {
        id: StreamId,
        half: HalfStream,
        state: &'static str,
    },
    /// Stream data moved.
    Moved {
        id: StreamId,
        offset: u64,
        len: usize,
        from: DataPosition,
        to: DataPosition,
    },
    /// An application datagram moved.
    Datagram {
        len: usize,
        from: DataPosition,
        to: DataPosition,
    },
    /// A limit of the peer's began, or ceased, to hold us back.
    Blocked {
        scope: FlowScope,
        limit: u64,
        blocked: bool,
    },
}

/// See the module's words.
#[derive(Debug, Default)]
pub(crate) struct Journal(Option<Vec<Note>>);

impl Journal {
    /// From now on notes are kept.
    pub(crate) fn open(&mut self) {
        self.0.get_or_insert_default();
    }

    /// Whether notes are kept.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Keeps a note; it is not even made while nobody observes.
    #[inline]
    pub(crate) fn note(&mut self, note: impl FnOnce() -> Note) {
        if let Some(notes) = &mut self.0
            && notes.len() < MAX_NOTES
        {
            notes.push(note());
        }
    }

    /// The notes since the last call, oldest first.
    pub(crate) fn take(&mut self) -> Vec<Note> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
