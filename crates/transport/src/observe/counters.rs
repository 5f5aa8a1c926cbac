//! Counters that another thread may read while connections run.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::{Abuse, ConnectionInfo, Event, Sink, SinkFactory};
use crate::{time::Instant, units::Ecn, wire::codepoints::frame as ty};

/// Names of the frame counters, in the order of [`CounterSnapshot::frames_sent`].
pub const FRAME_NAMES: [&str; 40] = [
    "padding",
    "ping",
    "ack",
    "reset_stream",
    "stop_sending",
    "crypto",
    "new_token",
    "stream",
    "max_data",
    "max_stream_data",
    "max_streams_bidi",
    "max_streams_uni",
    "data_blocked",
    "stream_data_blocked",
    "streams_blocked_bidi",
    "streams_blocked_uni",
    "new_connection_id",
    "retire_connection_id",
    "path_challenge",
    "path_response",
    "connection_close",
    "handshake_done",
    "immediate_ack",
    "ack_frequency",
    "reset_stream_at",
    "datagram",
    "path_ack",
    "path_abandon",
    "path_status",
    "path_new_connection_id",
    "path_retire_connection_id",
    "max_path_id",
    "paths_blocked",
    "path_cids_blocked",
    "source_symbol",
    "repair",
    "symbol_ack",
    "fec_window",
    "path_echo",
    "other",
];
const FRAME_KINDS: usize = FRAME_NAMES.len();
const ABUSE_KINDS: usize = Abuse::ALL.len();

const STREAM_SLOT: usize = 7;
const CRYPTO_SLOT: usize = 5;
const ACK_SLOT: usize = 2;
const PATH_ACK_SLOT: usize = 26;
const PADDING_SLOT: usize = 0;

/// Which of [`FRAME_NAMES`] a frame type belongs to.
const fn slot_of(frame_type: u64) -> usize {
    match frame_type {
        0x00 => PADDING_SLOT,
        0x01 => 1,
        0x02 | 0x03 | ty::ACK_RECEIVE_TIMESTAMPS | ty::ACK_RECEIVE_TIMESTAMPS_ECN => ACK_SLOT,
        0x04 => 3,
        0x05 => 4,
        0x06 => CRYPTO_SLOT,
        0x07 => 6,
        0x08..=0x0f => STREAM_SLOT,
        // MAX_DATA to RETIRE_CONNECTION_ID stand in a row.
        0x10..=0x1b => (frame_type - 0x10) as usize + 8,
        0x1c | 0x1d => 20,
        0x1e => 21,
        ty::IMMEDIATE_ACK => 22,
        ty::ACK_FREQUENCY => 23,
        ty::RESET_STREAM_AT => 24,
        ty::DATAGRAM | ty::DATAGRAM_WITH_LENGTH => 25,
        ty::PATH_ACK
        | ty::PATH_ACK_ECN
        | ty::PATH_ACK_RECEIVE_TIMESTAMPS
        | ty::PATH_ACK_RECEIVE_TIMESTAMPS_ECN => PATH_ACK_SLOT,
        ty::PATH_ABANDON => 27,
        ty::PATH_STATUS_BACKUP | ty::PATH_STATUS_AVAILABLE => 28,
        ty::PATH_NEW_CONNECTION_ID => 29,
        ty::PATH_RETIRE_CONNECTION_ID => 30,
        ty::MAX_PATH_ID => 31,
        ty::PATHS_BLOCKED => 32,
        ty::PATH_CIDS_BLOCKED => 33,
        ty::SOURCE_SYMBOL..=ty::SOURCE_SYMBOL_LAST => 34,
        ty::REPAIR => 35,
        ty::SYMBOL_ACK => 36,
        ty::FEC_WINDOW => 37,
        ty::PATH_ECHO => 38,
        _ => FRAME_KINDS - 1,
    }
}

#[cfg(test)]
pub(super) fn name_of(frame_type: u64) -> &'static str {
    FRAME_NAMES[slot_of(frame_type)]
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Debug)]
        struct Cells {
            $($name: AtomicU64,)*
            frames_sent: [AtomicU64; FRAME_KINDS],
            frames_received: [AtomicU64; FRAME_KINDS],
            abuse: [AtomicU64; ABUSE_KINDS],
        }

        impl Default for Cells {
            fn default() -> Self {
                Self {
                    $($name: AtomicU64::new(0),)*
                    frames_sent: [const { AtomicU64::new(0) }; FRAME_KINDS],
                    frames_received: [const { AtomicU64::new(0) }; FRAME_KINDS],
                    abuse: [const { AtomicU64::new(0) }; ABUSE_KINDS],
                }
            }
        }

        /// All counters at one moment.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct CounterSnapshot {
            $($(#[$doc])* pub $name: u64,)*
            /// Frames sent, in the order of [`FRAME_NAMES`].
            pub frames_sent: [u64; FRAME_KINDS],
            /// Frames received, in the order of [`FRAME_NAMES`].
            pub frames_received: [u64; FRAME_KINDS],
            abuse: [u64; ABUSE_KINDS],
        }

        impl Counters {
            /// What the counters say now. Not one atomic moment: counters that belong together
            /// may differ by events under way.
            pub fn snapshot(&self) -> CounterSnapshot {
                let all = |cells: &[AtomicU64; FRAME_KINDS]| {
                    std::array::from_fn(|i| cells.get(i).map_or(0, |cell| cell.load(Relaxed)))
                };
                let cells = &*self.0;
                CounterSnapshot {
                    $($name: cells.$name.load(Relaxed),)*
                    frames_sent: all(&cells.frames_sent),
                    frames_received: all(&cells.frames_received),
                    abuse: std::array::from_fn(|i| {
                        cells.abuse.get(i).map_or(0, |cell| cell.load(Relaxed))
                    }),
                }
            }
        }

        impl CounterSnapshot {
            /// Every plain counter with its name.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

counters! {
    /// Connections begun.
    connections_started,
    /// Connections ended.
    connections_closed,
    /// Handshakes that became complete.
    handshakes_completed,
    /// Packets sealed.
    packets_sent,
    /// Packets opened.
    packets_received,
    /// Bytes of packets sealed, headers and AEAD tags included.
    bytes_sent,
    /// Bytes of packets opened, headers and AEAD tags included.
    bytes_received,
    /// Bytes of stream data written into packets, retransmissions included.
    stream_bytes_sent,
    /// Packets opened in datagrams marked CE.
    packets_received_ce,
    /// Packets ignored by a connection.
    packets_dropped,
    /// Packets that waited for keys.
    packets_buffered,
    /// Packets declared lost.
    packets_lost,
    /// Bytes of those.
    bytes_lost,
    /// Packets declared lost wrongly.
    packets_spuriously_lost,
    /// Probe timeouts.
    probe_timeouts,
    /// 1-RTT key updates.
    key_updates,
    /// Moves to another network path.
    migrations,
    /// Datagrams the endpoint did not hand to any connection.
    datagrams_dropped,
    /// Answers given without a connection.
    stateless_responses,
    /// Clients that knocked.
    incoming_connections,
    /// Decisions of policies.
    policy_decisions,
}

impl CounterSnapshot {
    /// How often peers did this.
    pub fn abuse(&self, kind: Abuse) -> u64 {
        let place = Abuse::ALL.iter().position(|known| *known == kind);
        place
            .and_then(|place| self.abuse.get(place))
            .copied()
            .unwrap_or(0)
    }
}

/// Counters shared by all their sinks; clones count into the same cells.
///
/// As a [`SinkFactory`] it sums over connections; use one per connection to keep them apart.
/// [`Counters::sink`] makes a sink for an endpoint's own events.
#[derive(Clone, Default)]
pub struct Counters(Arc<Cells>);

impl Counters {
    /// All zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// A sink that counts here.
    pub fn sink(&self) -> Box<dyn Sink> {
        Box::new(self.clone())
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.snapshot(), f)
    }
}

impl SinkFactory for Counters {
    fn build(&self, _info: &ConnectionInfo) -> Option<Box<dyn Sink>> {
        Some(self.sink())
    }
}

fn add(cell: &AtomicU64, value: u64) {
    cell.fetch_add(value, Relaxed);
}

fn count(cells: &[AtomicU64], index: usize) {
    if let Some(cell) = cells.get(index) {
        add(cell, 1);
    }
}

impl Sink for Counters {
    fn on_event(&mut self, _now: Instant, event: &Event<'_>) {
        let cells = &*self.0;
        match *event {
            Event::ConnectionStarted { .. } => add(&cells.connections_started, 1),
            Event::ConnectionClosed { .. } => add(&cells.connections_closed, 1),
            Event::ConnectionState {
                new: super::ConnectionState::HandshakeComplete,
                ..
            } => add(&cells.handshakes_completed, 1),
            Event::PacketSent { bytes, .. } => {
                add(&cells.packets_sent, 1);
                add(&cells.bytes_sent, bytes as u64);
            }
            Event::PacketReceived { bytes, ecn, .. } => {
                add(&cells.packets_received, 1);
                add(&cells.bytes_received, bytes as u64);
                add(&cells.packets_received_ce, u64::from(ecn == Ecn::Ce));
            }
            Event::PacketDropped { .. } => add(&cells.packets_dropped, 1),
            Event::PacketBuffered { .. } => add(&cells.packets_buffered, 1),
            Event::PacketLost { bytes, .. } => {
                add(&cells.packets_lost, 1);
                add(&cells.bytes_lost, bytes);
            }
            Event::PacketSpuriouslyLost { .. } => add(&cells.packets_spuriously_lost, 1),
            Event::TimerExpired {
                timer: super::TimerKind::Pto,
                ..
            } => {
                add(&cells.probe_timeouts, 1);
            }
            Event::KeysUpdated { .. } => add(&cells.key_updates, 1),
            Event::PathMigrated { .. } => add(&cells.migrations, 1),
            Event::DatagramDropped { .. } => add(&cells.datagrams_dropped, 1),
            Event::StatelessResponse { .. } => add(&cells.stateless_responses, 1),
            Event::IncomingConnection { .. } => add(&cells.incoming_connections, 1),
            Event::PolicyDecision { .. } => add(&cells.policy_decisions, 1),
            Event::FrameSent(frame) => count(&cells.frames_sent, slot_of(frame.frame_type())),
            Event::StreamFrameSent { len, .. } => {
                count(&cells.frames_sent, STREAM_SLOT);
                add(&cells.stream_bytes_sent, len as u64);
            }
            Event::CryptoFrameSent { .. } => count(&cells.frames_sent, CRYPTO_SLOT),
            Event::AckFrameSent { path, .. } => {
                count(
                    &cells.frames_sent,
                    if path.is_some() {
                        PATH_ACK_SLOT
                    } else {
                        ACK_SLOT
                    },
                );
            }
            Event::PaddingSent { .. } => count(&cells.frames_sent, PADDING_SLOT),
            Event::FrameReceived(frame) => {
                count(&cells.frames_received, slot_of(frame.frame_type()))
            }
            Event::Abuse { kind } => {
                let place = Abuse::ALL.iter().position(|known| *known == kind);
                count(&cells.abuse, place.unwrap_or(usize::MAX));
            }
            _ => {}
        }
    }
}
