//! What the application hears of paths.

use std::time::Duration;

use super::AckStats;
use crate::{
    congestion::ControllerMetrics,
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
    /// No answer came, or full datagrams do not arrive; the path went back to its former address
    /// if there was one that may still be in use.
    ValidationFailed {
        /// Which path.
        path: PathId,
        /// The address that did not answer.
        to: FourTuple,
    },
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
    /// Smoothed round-trip time.
    pub rtt: Duration,
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
    /// Datagram size in use, UDP payload bytes.
    pub mtu: u16,
    /// Bytes in flight.
    pub bytes_in_flight: u64,
    /// Name of the congestion controller.
    pub congestion_controller: &'static str,
    /// What the congestion controller shows of itself.
    pub congestion: ControllerMetrics,
    /// Packets and bytes sent, acknowledged, lost.
    pub recovery: RecoveryStats,
    /// What acknowledging costs.
    pub acks: AckStats,
}
