//! What a sent packet carried, as far as its loss or acknowledgement matters.

use crate::units::{Dir, PacketNumber, PathId, StreamId};

/// One reaction that the fate of a packet calls for. Copied into the sent-packet ring; small.
///
/// Frames whose fate matters to nobody (PADDING, PING, PATH_CHALLENGE, PATH_RESPONSE,
/// CONNECTION_CLOSE, IMMEDIATE_ACK) leave no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields repeat the frames' fields")]
pub enum Token {
    /// Bytes `offset..offset + len` of the CRYPTO stream of the packet's own space.
    Crypto {
        offset: u64,
        len: u32,
    },
    /// Bytes of a stream, with or without its end.
    Stream {
        id: StreamId,
        offset: u64,
        len: u32,
        fin: bool,
    },
    /// An ACK or PATH_ACK for `path` whose largest packet number was `largest`.
    Ack {
        path: PathId,
        largest: PacketNumber,
    },
    ResetStream(StreamId),
    ResetStreamAt(StreamId),
    StopSending(StreamId),
    MaxData,
    MaxStreamData(StreamId),
    MaxStreams(Dir),
    DataBlocked,
    StreamDataBlocked(StreamId),
    StreamsBlocked(Dir),
    NewConnectionId {
        path: PathId,
        sequence: u64,
    },
    RetireConnectionId {
        path: PathId,
        sequence: u64,
    },
    NewToken {
        index: u64,
    },
    HandshakeDone,
    AckFrequency {
        sequence: u64,
    },
    /// The tokens behind this one stand for frames of this source symbol; those before it for
    /// frames outside of it.
    Symbol {
        id: u64,
    },
    /// A repair symbol; they are counted from 0.
    Repair {
        number: u64,
    },
    /// The FEC_WINDOW of this epoch.
    FecWindow {
        epoch: u64,
    },
    /// The latest MAX_PATH_ID.
    MaxPathId,
    /// The latest PATHS_BLOCKED.
    PathsBlocked,
    /// PATH_CIDS_BLOCKED of a path.
    PathCidsBlocked {
        path: PathId,
    },
    /// PATH_ABANDON of a path.
    PathAbandon {
        path: PathId,
    },
    /// PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP.
    PathStatus {
        path: PathId,
        sequence: u64,
    },
    /// An application datagram; `id` counts datagrams queued on the connection, from 0.
    Datagram {
        id: u64,
    },
}
