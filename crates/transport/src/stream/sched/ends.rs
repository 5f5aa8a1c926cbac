//! When the first of several streams ends.
//!
//! Owns: what a stream has left ([`Left`]), and how many bytes go before an end in each of the two ways to share. Does not own:
//! the order (the schedulers), who wants to know (`fec/redundancy/`).

use smallvec::SmallVec;

use super::behind::MOST_PASSED_OVER;
use crate::units::StreamId;

/// What a stream has left to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Bytes that wait, those to send again included.
    pub bytes: u64,
    /// Whether the stream ends with them: the application has finished it, and flow control lets all of it go.
    pub ends: bool,
}

/// One stream, or some that go one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    /// Bytes up to the first end, or all of them.
    bytes: u64,
    ends: bool,
}

impl Run {
    /// Bytes up to the first end.
    pub(super) fn first_end(self) -> Option<u64> {
        self.ends.then_some(self.bytes)
    }
}

impl From<Left> for Run {
    fn from(Left { bytes, ends }: Left) -> Self {
        Self { bytes, ends }
    }
}

/// Streams of which each has nothing left before the next one goes.
pub(super) fn one_after_the_other(
    streams: impl Iterator<Item = StreamId>,
    left: &dyn Fn(StreamId) -> Left,
) -> Run {
    let mut run = Run::default();
    for id in streams.take(MOST_PASSED_OVER) {
        let of_this = left(id);
        run.bytes = run.bytes.saturating_add(of_this.bytes);
        run.ends = of_this.ends;
        if run.ends {
            break;
        }
    }
    run
}

/// Bytes up to the first end where streams or runs of them take turns: whoever has least up to its end ends first, when
/// each of the others has sent as much. Off by no more than a turn of each.
pub(super) fn taking_turns(members: impl Iterator<Item = Run>) -> Option<u64> {
    let all: SmallVec<[Run; 8]> = members.take(MOST_PASSED_OVER).collect();
    let first = all.iter().filter_map(|run| run.first_end()).min()?;
    let gone = all.iter().map(|run| run.bytes.min(first));
    Some(gone.fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams 0, 1, 2... with so many bytes each, and whether they end.
    fn ids(streams: &[(u64, bool)]) -> impl Iterator<Item = StreamId> + use<> {
        (0..streams.len() as u64).map(StreamId)
    }

    fn left(streams: &[(u64, bool)]) -> impl Fn(StreamId) -> Left {
        |id| {
            let (bytes, ends) = streams[id.0 as usize];
            Left { bytes, ends }
        }
    }

    #[test]
    fn what_goes_before_counts() {
        let first =
            |streams: &[(u64, bool)]| one_after_the_other(ids(streams), &left(streams)).first_end();
        assert_eq!(first(&[]), None);
        assert_eq!(first(&[(10, false)]), None);
        assert_eq!(first(&[(10, true), (5, true)]), Some(10));
        assert_eq!(first(&[(10, false), (0, true), (9, true)]), Some(10));
        assert_eq!(first(&[(u64::MAX, false), (5, true)]), Some(u64::MAX));
        let many = [(1, false); 1_000];
        assert_eq!(first(&many), None, "and not all are looked at");
    }

    #[test]
    fn in_turns_the_least_ends_first() {
        let first = |streams: &[(u64, bool)]| {
            let left = left(streams);
            taking_turns(ids(streams).map(|id| left(id).into()))
        };
        assert_eq!(first(&[]), None);
        assert_eq!(first(&[(10, false), (5, false)]), None);
        assert_eq!(first(&[(10, true)]), Some(10));
        assert_eq!(first(&[(100, true), (10, true), (3, false)]), Some(23));
        let most = [(u64::MAX, false), (u64::MAX, true)];
        assert_eq!(first(&most), Some(u64::MAX));
    }
}
