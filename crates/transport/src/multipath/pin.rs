//! A wish that something goes by one path.
//!
//! Owns: [`PathPin`], and what may become of it ([`Hold`]). Does not own: what waits for the path
//! (`stream/`, `datagram/`), whether the path may be used (`connection/pins.rs`).

use crate::units::PathId;

/// The path by which a stream, a message or an application datagram goes, sent again included.
///
/// A pin is about the data alone: flow control, resets and repair symbols go where all such frames go.
/// When the path is abandoned, every pin to it ends, and what waited goes as if there had been none:
/// nothing is lost. A pin holds on a path in reserve ([`super::PathStatus::Backup`]) if the wish is our
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathPin {
    /// This path, as long as it works: while it is not validated yet, does not answer, has used up what it
    /// may carry, or the peer wishes to keep it in reserve, the data goes wherever the path scheduler
    /// sends it.
    Prefer(PathId),
    /// This path and no other, as long as it is not abandoned: the data waits for it.
    Only(PathId),
}

impl PathPin {
    /// The path.
    pub const fn path(self) -> PathId {
        match self {
            Self::Prefer(path) | Self::Only(path) => path,
        }
    }
}

/// What a pin amounts to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Its path alone.
    Holds,
    /// Any path, for now.
    Yields,
    /// Any path, for good.
    Gone,
}

/// Whose data a packet takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Takes {
    /// What is pinned to this path.
    pub(crate) pinned_to: PathId,
    /// And what is not pinned.
    pub(crate) free: bool,
    /// Of what is not pinned, also what was sent before and lost: else that waits for another path.
    pub(crate) again: bool,
    /// Of several streams that go one after the other, those that wait behind so many bytes.
    pub(crate) ahead: u64,
}

impl Takes {
    /// Whether it takes what has this pin.
    pub(crate) fn takes(self, pin: PathPin, holds: bool) -> bool {
        if holds {
            pin.path() == self.pinned_to
        } else {
            self.free
        }
    }
}

/// A stream cannot be pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// There is no such path, or it was abandoned. What was to be pinned has no pin now.
    #[error("there is no such path, or it was abandoned")]
    UnknownPath,
}
