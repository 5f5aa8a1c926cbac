//! How many streams each end may open. RFC 9000 s4.6.

#![allow(
    clippy::indexing_slicing,
    reason = "arrays of two, indexed by direction"
)]

use crate::{
    config::TransportConfig,
    error::TransportError,
    units::{Dir, Side, StreamId},
};

use super::range_set::RangeSet;

/// The largest stream count. RFC 9000 s19.11.
pub(super) const MAX_STREAM_COUNT: u64 = 1 << 60;

/// Streams of one direction that we open.
#[derive(Clone, Debug, Default)]
pub(super) struct LocalStreams {
    /// How many were opened.
    pub(super) opened: u64,
    /// How many the peer lets us open.
    pub(super) max: u64,
    /// The application was refused one since the last raise.
    pub(super) refused: bool,
    /// The limit that the last STREAMS_BLOCKED frame named, plus one; 0: none yet.
    reported: u64,
}

impl LocalStreams {
    /// The index of a new stream, if the peer lets us.
    pub(super) fn open(&mut self) -> Option<u64> {
        if self.opened >= self.max {
            self.refused = true;
            return None;
        }
        self.opened += 1;
        Some(self.opened - 1)
    }

    /// Takes a new limit; whether it is higher.
    pub(super) fn raise(&mut self, max: u64) -> bool {
        let max = max.min(MAX_STREAM_COUNT);
        let higher = max > self.max;
        self.max = self.max.max(max);
        higher
    }

    /// Whether STREAMS_BLOCKED is due: once per limit.
    pub(super) fn should_report(&self) -> bool {
        self.refused && self.opened >= self.max && self.reported <= self.max
    }

    pub(super) fn on_reported(&mut self) {
        self.reported = self.max + 1;
    }

    /// Whether the peer was told that the present limit holds us back.
    pub(super) fn is_reported(&self) -> bool {
        self.reported > self.max
    }

    pub(super) fn on_report_lost(&mut self) {
        self.reported = 0;
    }
}

/// What a frame's stream ID means to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touched {
    /// First sight: make its state.
    New,
    /// Its state exists, or it is over.
    Known,
}

/// Streams of one direction that the peer opens.
///
/// A frame opens all lower streams too, without any state being made for them: they are kept as
/// ranges until touched. Every untouched stream is open, so ranges are at most as many as streams
/// may be open at once; past `max_gaps`, no further streams are granted until gaps close.
#[derive(Clone, Debug)]
pub(super) struct RemoteStreams {
    concurrent: u64,
    max_gaps: usize,
    /// How many the peer may open, as announced.
    granted: u64,
    /// How many it opened.
    pub(super) opened: u64,
    /// How many the application accepted.
    accepted: u64,
    /// How many are over.
    closed: u64,
    /// Opened, but never named by a frame nor accepted.
    untouched: RangeSet,
    /// The peer says that it would open more.
    blocked: bool,
    /// MAX_STREAMS was lost.
    resend: bool,
}

impl RemoteStreams {
    fn new(concurrent: u64, max_gaps: usize) -> Self {
        let concurrent = concurrent.min(MAX_STREAM_COUNT);
        Self {
            concurrent,
            max_gaps,
            granted: concurrent,
            opened: 0,
            accepted: 0,
            closed: 0,
            untouched: RangeSet::default(),
            blocked: false,
            resend: false,
        }
    }

    /// A frame names stream `index`.
    pub(super) fn touch(&mut self, index: u64) -> Result<Touched, TransportError> {
        if index >= self.granted {
            return Err(TransportError::stream_limit(
                "stream ID above the stream limit",
            ));
        }
        if index >= self.opened {
            self.untouched.insert(self.opened..index);
            self.opened = index + 1;
            return Ok(Touched::New);
        }
        if self.untouched.contains(index) {
            self.untouched.remove(index..index + 1);
            return Ok(Touched::New);
        }
        Ok(Touched::Known)
    }

    /// The next stream for the application, and whether its state must be made.
    pub(super) fn accept(&mut self) -> Option<(u64, Touched)> {
        if self.accepted >= self.opened {
            return None;
        }
        let index = self.accepted;
        self.accepted += 1;
        // Cannot fail: the index is below `opened`.
        Some((index, self.touch(index).unwrap_or(Touched::Known)))
    }

    /// Changes how many may be open at once; what was granted stays granted.
    pub(super) fn set_concurrent(&mut self, count: u64) {
        self.concurrent = count.min(MAX_STREAM_COUNT);
    }

    /// A stream is over in both directions.
    pub(super) fn on_closed(&mut self) {
        self.closed += 1;
    }

    /// The peer cannot open as many as it would like.
    pub(super) fn on_blocked(&mut self) {
        self.blocked = true;
    }

    pub(super) fn on_grant_lost(&mut self) {
        self.resend = true;
    }

    /// Whether a MAX_STREAMS frame is worth a packet.
    pub(super) fn wants_grant(&self) -> bool {
        let more = self.next_grant() - self.granted;
        self.resend || more >= (self.concurrent / 8).max(1) || (self.blocked && more > 0)
    }

    /// Whether a MAX_STREAMS frame would say something new.
    pub(super) fn can_grant(&self) -> bool {
        self.resend || self.next_grant() > self.granted
    }

    /// The limit that a MAX_STREAMS frame would announce.
    pub(super) fn next_grant(&self) -> u64 {
        if self.untouched.len() > self.max_gaps {
            return self.granted;
        }
        (self.closed + self.concurrent)
            .min(MAX_STREAM_COUNT)
            .max(self.granted)
    }

    /// The MAX_STREAMS frame is on its way.
    pub(super) fn on_granted(&mut self) {
        self.granted = self.next_grant();
        self.blocked = false;
        self.resend = false;
    }
}

/// Stream counts of both ends and directions.
#[derive(Clone, Debug)]
pub(super) struct StreamLimits {
    side: Side,
    local: [LocalStreams; 2],
    remote: [RemoteStreams; 2],
}

const fn slot(dir: Dir) -> usize {
    match dir {
        Dir::Bi => 0,
        Dir::Uni => 1,
    }
}

impl StreamLimits {
    pub(super) fn new(side: Side, config: &TransportConfig) -> Self {
        let gaps = config.limits.out_of_order_stream_closures;
        Self {
            side,
            local: Default::default(),
            remote: [
                RemoteStreams::new(config.max_concurrent_bidi_streams, gaps),
                RemoteStreams::new(config.max_concurrent_uni_streams, gaps),
            ],
        }
    }

    pub(super) fn side(&self) -> Side {
        self.side
    }

    pub(super) fn is_local(&self, id: StreamId) -> bool {
        id.initiator() == self.side
    }

    pub(super) fn local(&self, dir: Dir) -> &LocalStreams {
        &self.local[slot(dir)]
    }

    pub(super) fn local_mut(&mut self, dir: Dir) -> &mut LocalStreams {
        &mut self.local[slot(dir)]
    }

    pub(super) fn remote(&self, dir: Dir) -> &RemoteStreams {
        &self.remote[slot(dir)]
    }

    pub(super) fn remote_mut(&mut self, dir: Dir) -> &mut RemoteStreams {
        &mut self.remote[slot(dir)]
    }

    /// A stream ID in a frame: does it exist, must it be made, or may it not be named?
    ///
    /// `receiving` says which half of a stream the frame is about, from our side.
    pub(super) fn touch(
        &mut self,
        id: StreamId,
        receiving: bool,
    ) -> Result<Touched, TransportError> {
        let local = self.is_local(id);
        if id.dir() == Dir::Uni && local == receiving {
            let what = if receiving {
                "frame for a send-only stream"
            } else {
                "frame for a receive-only stream"
            };
            return Err(TransportError::stream_state(what));
        }
        if !local {
            return self.remote_mut(id.dir()).touch(id.index());
        }
        // RFC 9000 s19.8: a stream of ours that we have not opened.
        if id.index() >= self.local(id.dir()).opened {
            return Err(TransportError::stream_state(
                "locally initiated stream not yet created",
            ));
        }
        Ok(Touched::Known)
    }

    /// Whether the peer lets us use this stream (after a 0-RTT rejection it may not yet).
    pub(super) fn is_allowed(&self, id: StreamId) -> bool {
        !self.is_local(id) || id.index() < self.local(id.dir()).max
    }

    /// The peer's limits are unknown again.
    pub(super) fn rewind(&mut self) {
        for local in &mut self.local {
            local.max = 0;
            local.reported = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_stay_open_and_reopen_nothing() {
        let mut remote = RemoteStreams::new(100, 1000);
        assert_eq!(remote.touch(5), Ok(Touched::New));
        assert_eq!(remote.touch(5), Ok(Touched::Known));
        assert_eq!(remote.touch(2), Ok(Touched::New));
        assert_eq!(remote.touch(2), Ok(Touched::Known));
        assert_eq!(remote.accept(), Some((0, Touched::New)));
        assert_eq!(remote.touch(0), Ok(Touched::Known));
        assert!(remote.touch(100).is_err());
    }

    #[test]
    fn grants_follow_closures() {
        let mut remote = RemoteStreams::new(16, 1000);
        for index in 0..16 {
            assert_eq!(remote.touch(index), Ok(Touched::New));
        }
        remote.on_closed();
        assert!(!remote.wants_grant() && remote.can_grant());
        remote.on_blocked();
        assert!(remote.wants_grant());
        assert_eq!(remote.next_grant(), 17);
        remote.on_granted();
        assert!(!remote.wants_grant());
        remote.on_closed();
        remote.on_closed();
        assert!(remote.wants_grant());
        remote.on_granted();
        assert_eq!(remote.touch(18), Ok(Touched::New));
        assert!(remote.touch(19).is_err());
        remote.on_grant_lost();
        assert!(remote.wants_grant());
        assert_eq!(remote.next_grant(), 19);
    }

    #[test]
    fn too_many_gaps_hold_back_grants() {
        let mut remote = RemoteStreams::new(100, 3);
        for index in [1, 3, 5, 7, 9] {
            assert_eq!(remote.touch(index), Ok(Touched::New));
            for _ in 0..3 {
                remote.on_closed();
            }
        }
        assert_eq!(remote.next_grant(), 100);
        for index in [0, 2, 4] {
            assert_eq!(remote.touch(index), Ok(Touched::New));
        }
        assert_eq!(remote.next_grant(), 115);
    }
}
