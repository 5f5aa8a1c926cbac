//! Streams: the application's bytes between its calls and STREAM frames.
//!
//! Purpose: ordered byte streams with flow control, stream counts and priorities.
//! Owns: [`StreamSet`], every stream's send and receive half, both directions of flow control,
//! stream limits, what is retransmitted of a stream, the order of streams ([`sched`]).
//! Does not own: encoding (`wire/`), loss detection (`recovery/`), when a packet is built
//! (`connection/`), messages and deadlines.
//! Called by: `connection/` for API calls, dispatch, the pump, and the fate of tokens.
//! Spec: RFC 9000 s2, s3, s4, s19.4-19.14; RESET_STREAM_AT (draft -10); RFC 9218 for priorities.
//! To add a variant: a scheduler is a file in `sched/`; a frame is a flag in [`table`] and an arm
//! in [`output`].

pub mod sched;
mod table;
mod types;

use std::time::Duration;

use bytes::Bytes;

use crate::{
    config::TransportConfig,
    error::TransportError,
    packet::{PacketWriter, Token},
    time::Instant,
    units::{Dir, Side, StreamId},
    wire,
};

pub use types::{
    PeerLimits, ReadError, ReadOutcome, ResetError, StreamEvent, StreamStats, UnknownStream,
    UnorderedOutcome, WriteError,
};

/// stub
#[derive(Debug)]
#[allow(missing_docs, unused)]
pub struct StreamSet {}

#[allow(missing_docs, unused)]
impl StreamSet {
    pub fn new(side: Side, config: &TransportConfig) -> Self {
        Self {}
    }
    pub fn set_peer_limits(&mut self, limits: &PeerLimits) {}
    pub fn set_peer_knows_reset_at(&mut self, known: bool) {}
    pub fn open(&mut self, dir: Dir) -> Option<StreamId> {
        None
    }
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        None
    }
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        Ok(0)
    }
    pub fn write_bytes(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        Ok(0)
    }
    pub fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
        Ok(())
    }
    pub fn reset(&mut self, id: StreamId, code: u64) -> Result<(), ResetError> {
        Ok(())
    }
    pub fn reset_at(&mut self, id: StreamId, code: u64, reliable: u64) -> Result<(), ResetError> {
        Ok(())
    }
    pub fn set_priority(&mut self, id: StreamId, p: sched::Priority) -> Result<(), UnknownStream> {
        Ok(())
    }
    pub fn stopped(&self, id: StreamId) -> Option<u64> {
        None
    }
    pub fn read(&mut self, id: StreamId, max_bytes: usize) -> Result<ReadOutcome, ReadError> {
        Ok(ReadOutcome::Blocked)
    }
    pub fn read_unordered(
        &mut self,
        id: StreamId,
        max_bytes: usize,
    ) -> Result<UnorderedOutcome, ReadError> {
        Ok(UnorderedOutcome::Blocked)
    }
    pub fn stop(&mut self, id: StreamId, code: u64) -> Result<(), UnknownStream> {
        Ok(())
    }
    pub fn on_stream(
        &mut self,
        now: Instant,
        rtt: Duration,
        frame: &wire::Stream<'_>,
        data: Bytes,
    ) -> Result<(), TransportError> {
        Ok(())
    }
    pub fn on_reset_stream(
        &mut self,
        id: StreamId,
        code: u64,
        final_size: u64,
    ) -> Result<(), TransportError> {
        Ok(())
    }
    pub fn on_reset_stream_at(
        &mut self,
        id: StreamId,
        code: u64,
        final_size: u64,
        reliable_size: u64,
    ) -> Result<(), TransportError> {
        Ok(())
    }
    pub fn on_stop_sending(&mut self, id: StreamId, code: u64) -> Result<(), TransportError> {
        Ok(())
    }
    pub fn on_max_data(&mut self, max: u64) -> Result<(), TransportError> {
        Ok(())
    }
    pub fn on_max_stream_data(&mut self, id: StreamId, max: u64) -> Result<(), TransportError> {
        Ok(())
    }
    pub fn on_max_streams(&mut self, dir: Dir, max: u64) -> Result<(), TransportError> {
        Ok(())
    }
    pub fn on_data_blocked(&mut self, limit: u64) -> Result<(), TransportError> {
        Ok(())
    }
    pub fn on_stream_data_blocked(
        &mut self,
        id: StreamId,
        limit: u64,
    ) -> Result<(), TransportError> {
        Ok(())
    }
    pub fn on_streams_blocked(&mut self, dir: Dir, limit: u64) -> Result<(), TransportError> {
        Ok(())
    }
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        None
    }
    pub fn has_control(&self) -> bool {
        false
    }
    pub fn write_control(&mut self, packet: &mut PacketWriter<'_>) {}
    pub fn has_data(&self) -> bool {
        false
    }
    pub fn write_data(&mut self, packet: &mut PacketWriter<'_>) {}
    pub fn on_acked(&mut self, token: Token) {}
    pub fn on_lost(&mut self, token: Token) {}
    pub fn on_zero_rtt_rejected(&mut self) {}
    pub fn stats(&self) -> StreamStats {
        StreamStats::default()
    }
}
