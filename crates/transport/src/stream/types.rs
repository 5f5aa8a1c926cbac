//! What the application and the connection exchange with the stream room.

use bytes::Bytes;

use crate::units::{Dir, StreamId};

/// The peer's flow-control and stream-count limits: the `initial_*` transport parameters.
/// RFC 9000 s18.2. "Local" and "remote" are as the peer sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerLimits {
    /// Stream bytes we may send on the whole connection.
    pub max_data: u64,
    /// Bytes we may send on each bidirectional stream that the peer opens.
    pub max_stream_data_bidi_local: u64,
    /// Bytes we may send on each bidirectional stream that we open.
    pub max_stream_data_bidi_remote: u64,
    /// Bytes we may send on each unidirectional stream that we open.
    pub max_stream_data_uni: u64,
    /// Bidirectional streams we may open, counted from the start.
    pub max_streams_bidi: u64,
    /// Unidirectional streams we may open, counted from the start.
    pub max_streams_uni: u64,
}

/// Something the application may want to know about its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The peer opened one or more streams of this direction: accept until `None`.
    Opened(Dir),
    /// Reading gives something else than [`ReadOutcome::Blocked`]: data, the end, or a reset.
    Readable(StreamId),
    /// A write that was cut short by flow control or the send buffer may go on.
    Writable(StreamId),
    /// Everything up to the end of the stream is acknowledged.
    Finished(StreamId),
    /// The peer asked us to stop sending; the stream is reset. RFC 9000 s3.5.
    Stopped {
        /// The stream.
        id: StreamId,
        /// The peer's application error code.
        code: u64,
    },
    /// Opening a stream of this direction, refused before, would work now.
    Available(Dir),
}

/// What an ordered read gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// The next bytes, never empty.
    Chunk(Bytes),
    /// Nothing for now; [`StreamEvent::Readable`] will tell.
    Blocked,
    /// The peer ended the stream and everything was read.
    Finished,
}

/// What an unordered read gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnorderedOutcome {
    /// Bytes not given before, never empty.
    Chunk {
        /// Where in the stream `data` begins.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Nothing for now; [`StreamEvent::Readable`] will tell.
    Blocked,
    /// The peer ended the stream and everything was read.
    Finished,
}

/// How far the peer has come with a stream that we receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveEnd {
    /// It may send more.
    Open,
    /// Everything has arrived, read or not.
    Complete,
    /// It gave up, with this application error code.
    Reset(u64),
}

/// Why a read gave nothing and never will.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer gave up sending, with this application error code.
    #[error("stream reset by the peer (code {0})")]
    Reset(u64),
    /// We asked the peer to stop, so nothing is kept.
    #[error("reading was stopped by us")]
    Stopped,
    /// Bytes were already given out of order.
    #[error("ordered read after an unordered one")]
    Unordered,
    /// No such stream, one that is over in both directions, or one that we only send on.
    #[error("no such stream to read from")]
    UnknownStream,
}

/// Why a write or a finish cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer wants no more of this stream, with this application error code.
    #[error("stopped by the peer (code {0})")]
    Stopped(u64),
    /// The stream was already finished or reset by us.
    #[error("stream already finished or reset")]
    Finished,
    /// No such stream, one that is over in both directions, or one that we only receive on.
    #[error("no such stream to write to")]
    UnknownStream,
}

/// Why a reset cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResetError {
    /// The stream was already reset (by us, or in answer to the peer's STOP_SENDING).
    #[error("stream already reset")]
    AlreadyReset,
    /// The peer does not know RESET_STREAM_AT.
    #[error("the peer did not negotiate RESET_STREAM_AT")]
    NotNegotiated,
    /// No such stream, one whose data is all acknowledged, or one that we only receive on.
    #[error("no such stream to reset")]
    UnknownStream,
}

/// What the stream room holds and has done. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamStats {
    /// Streams whose state is held.
    pub open_streams: usize,
    /// Bytes written by the application and not yet acknowledged in order.
    pub send_buffered_bytes: u64,
    /// Stream bytes that left the send buffers: acknowledged in order, or given up by a reset.
    pub released_bytes: u64,
    /// Stream bytes received and not yet read (gaps not counted).
    pub receive_buffered_bytes: u64,
    /// New stream bytes put into packets.
    pub sent_bytes: u64,
    /// Stream bytes put into packets again after a loss.
    pub retransmitted_bytes: u64,
    /// Stream bytes the application read.
    pub read_bytes: u64,
    /// Whether the peer's MAX_DATA keeps new data from being sent.
    pub connection_blocked: bool,
    /// Streams that wait for MAX_STREAM_DATA or room in the send buffer.
    pub blocked_streams: usize,
    /// Receive window of the connection as tuned so far.
    pub receive_window: u64,
}
