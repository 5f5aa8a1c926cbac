//! A connection in numbers.

use crate::packet::FrameStats;

/// Counters since the connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// UDP datagrams sent.
    pub datagrams_sent: u64,
    /// UDP datagrams received.
    pub datagrams_received: u64,
    /// UDP payload bytes sent.
    pub bytes_sent: u64,
    /// UDP payload bytes received.
    pub bytes_received: u64,
    /// QUIC packets sent.
    pub packets_sent: u64,
    /// QUIC packets received and opened.
    pub packets_received: u64,
    /// Bytes of packets whose contents were handed to another path while they were under way.
    pub bytes_repeated: u64,
    /// QUIC packets that could not be opened or were not wanted.
    pub packets_dropped: u64,
    /// Frames sent, by type.
    pub frames_sent: FrameStats,
    /// Frames received, by type.
    pub frames_received: FrameStats,
}
