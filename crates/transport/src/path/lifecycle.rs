//! What the application hears of paths.

use std::time::Duration;

use super::AckStats;
use crate::{
    congestion::ControllerMetrics,
    multipath::{PathCost, PathStatus},
    recovery::RecoveryStats,
    units::{FourTuple, PathId},
};

/// Something happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathEvent {
    /// The path now runs over another network path (migration, NAT rebinding).
    Migrated {
        /// Which path.
        path: PathId,
        /// Where it goes now.
        to: FourTuple,
    },
    /// The path's current address answered a challenge, and full datagrams arrive there.
    Validated {
        /// Which path.
        path: PathId,
        /// The address.
        to: FourTuple,
    },
    /// A further path was opened by the client; it is being validated.
    Opened {
        /// Which path.
        path: PathId,
        /// Where it goes.
        to: FourTuple,
    },
    /// Packets on the path have gone unanswered for a probe timeout; data goes elsewhere.
    Degraded {
        /// Which path.
        path: PathId,
    },
    /// A degraded path has let two more probe timeouts pass, each twice as long as the one before, so that it
    /// has been silent for about seven of its probe timeouts: do not count on it. Told once; it is still probed,
    /// and what follows is [`Self::Recovered`] or [`Self::Abandoned`]. Not told of a path that may not even probe,
    /// because it has carried all it may.
    Lost {
        /// Which path.
        path: PathId,
    },
    /// A degraded or lost path answers again, or goes over another network path of which nothing is known yet.
    Recovered {
        /// Which path.
        path: PathId,
    },
    /// The path is closed: nothing is sent on it any more.
    Abandoned {
        /// Which path.
        path: PathId,
        /// Why, as RFC 10069 numbers reasons ([`crate::multipath::abandon`]).
        code: u64,
        /// Whether the peer closed it.
        by_peer: bool,
    },
    /// The peer wishes to have the path used like this.
    StatusChanged {
        /// Which path.
        path: PathId,
        /// The wish.
        status: PathStatus,
    },
    /// The path has carried nine tenths of what it may ([`PathCost::cap_bytes`]); the peer is asked to use
    /// other paths.
    CapNear {
        /// Which path.
        path: PathId,
        /// Bytes that may still leave.
        bytes_left: u64,
    },
    /// The path has carried all it may. It is abandoned as soon as another one works; until then nothing
    /// leaves on it but the end of the connection.
    CapReached {
        /// Which path.
        path: PathId,
    },
    /// No answer came, or full datagrams do not arrive; the path went back to its former address
    /// if there was one that may still be in use.
    ValidationFailed {
        /// Which path.
        path: PathId,
        /// The address that did not answer.
        to: FourTuple,
    },
}

/// Probe timeouts in a row after which a degraded path is lost, beside those it was degraded by.
const LOST_AFTER: u32 = 2;

/// What the application was told of a path's answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Told {
    #[default]
    Answers,
    /// `timeouts`: how many in a row there were then. More than one where a path opens whose first round trip
    /// was taken for much shorter than it is; those do not make it lost.
    Degraded {
        timeouts: u32,
    },
    Lost,
}

impl Told {
    /// What to tell of `path` after so many probe timeouts in a row, if it is news.
    pub(crate) fn news(&mut self, path: PathId, timeouts: u32) -> Option<PathEvent> {
        let (told, event) = match *self {
            Self::Answers if timeouts > 0 => {
                (Self::Degraded { timeouts }, PathEvent::Degraded { path })
            }
            Self::Degraded { .. } | Self::Lost if timeouts == 0 => {
                (Self::Answers, PathEvent::Recovered { path })
            }
            Self::Degraded { timeouts: before }
                if timeouts.saturating_sub(before) >= LOST_AFTER =>
            {
                (Self::Lost, PathEvent::Lost { path })
            }
            _ => return None,
        };
        *self = told;
        Some(event)
    }
}

/// A path in numbers.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PathStats {
    /// Which path.
    pub id: PathId,
    /// Its addresses.
    pub four_tuple: FourTuple,
    /// Whether its address is proven.
    pub validated: bool,
    /// Whether it was abandoned and only waits to be forgotten.
    pub abandoned: bool,
    /// How the ends want it to be used.
    pub status: PathStatus,
    /// Whether packets on it have gone unanswered for a probe timeout.
    pub degraded: bool,
    /// Whether it was told to be lost ([`PathEvent::Lost`]) and has not answered since.
    pub lost: bool,
    /// Smoothed round-trip time: there on this path, back on [`Self::acks_by`].
    pub rtt: Duration,
    /// The path by which the peer sends most acknowledgements of this one; itself until it does.
    pub acks_by: PathId,
    /// Smoothed round-trip time there and back on this path; `None` if nothing has measured it.
    pub own_rtt: Option<Duration>,
    /// Smallest round-trip time.
    pub min_rtt: Duration,
    /// Newest round-trip sample.
    pub latest_rtt: Duration,
    /// Round-trip variation.
    pub rtt_variance: Duration,
    /// Estimated delay towards the peer alone, smoothed; `None` unless the peer reports receive
    /// timestamps. The clocks of both ends differ by an unknown constant, which is taken to be such
    /// that the first sample is half a round trip: trust changes more than values.
    pub one_way_delay: Option<Duration>,
    /// How much longer than at best the newest packet took towards the peer: the queueing delay of
    /// that direction. No guess is in it.
    pub one_way_delay_variation: Option<Duration>,
    /// What using it costs.
    pub cost: PathCost,
    /// Datagram size in use, UDP payload bytes.
    pub mtu: u16,
    /// Bytes in flight.
    pub bytes_in_flight: u64,
    /// Bytes of authentic packets that arrived.
    pub bytes_received: u64,
    /// Name of the congestion controller.
    pub congestion_controller: &'static str,
    /// What the congestion controller shows of itself.
    pub congestion: ControllerMetrics,
    /// Packets and bytes sent, acknowledged, lost.
    pub recovery: RecoveryStats,
    /// What acknowledging costs.
    pub acks: AckStats,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of a path with so many probe timeouts in a row, one number after the other.
    fn told(timeouts: &[u32]) -> Vec<Option<PathEvent>> {
        let mut told = Told::default();
        let news = |timeouts: &u32| told.news(PathId(3), *timeouts);
        timeouts.iter().map(news).collect()
    }

    #[test]
    fn a_path_is_lost_once_and_recovers() {
        let path = PathId(3);
        let degraded = Some(PathEvent::Degraded { path });
        let lost = Some(PathEvent::Lost { path });
        let recovered = Some(PathEvent::Recovered { path });
        assert_eq!(
            told(&[0, 1, 1, 2, 3, 4, 200, u32::MAX, 0, 0]),
            [
                None, degraded, None, None, lost, None, None, None, recovered, None
            ]
        );
        assert_eq!(
            told(&[1, 2, 0, 1, 2, 3]),
            [degraded, None, recovered, degraded, None, lost]
        );
    }

    #[test]
    fn timeouts_before_it_was_open_do_not_make_it_lost() {
        let path = PathId(3);
        let degraded = Some(PathEvent::Degraded { path });
        assert_eq!(
            told(&[5, 6, 7]),
            [degraded, None, Some(PathEvent::Lost { path })]
        );
    }
}
