//! The receiving half of a stream. RFC 9000 s3.2, RESET_STREAM_AT draft -10 s4.
//!
//! ```text
//! Recv --FIN--> SizeKnown --all data--> DataRecvd --all read--> DataRead
//!   \           /   ^ RESET_STREAM_AT too
//!    +-RESET---+----> ResetRecvd --told the application--> ResetRead
//! ```

use bytes::Bytes;

use super::{
    assembler::Assembler,
    flow::ReceiveWindow,
    types::{ReadError, ReadOutcome, ReceiveEnd, UnorderedOutcome},
};
use crate::{config::WindowConfig, error::TransportError};

/// RFC 9000 figure 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecvState {
    /// Data arrives; the end is unknown.
    Recv,
    /// FIN or RESET_STREAM_AT told the final size.
    SizeKnown,
    /// Everything arrived.
    DataRecvd,
    /// The application has everything and knows the end. Terminal.
    DataRead,
    /// The peer gave up.
    ResetRecvd,
    /// The application knows that. Terminal.
    ResetRead,
    /// We want nothing of it and know how much it was. Terminal.
    Discarded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reset {
    code: u64,
    reliable_size: u64,
    /// Whether RESET_STREAM_AT took part: then the code must not change.
    at: bool,
}

/// A RESET_STREAM or RESET_STREAM_AT frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResetFrame {
    pub(super) code: u64,
    pub(super) final_size: u64,
    /// `None` in RESET_STREAM.
    pub(super) reliable_size: Option<u64>,
}

/// A STREAM frame's place in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) fin: bool,
}

/// See the module's words.
#[derive(Debug)]
pub(super) struct RecvHalf {
    state: RecvState,
    assembler: Assembler,
    pub(super) window: ReceiveWindow,
    /// The highest offset the peer used.
    highest: u64,
    final_size: Option<u64>,
    reset: Option<Reset>,
    /// Our error code of STOP_SENDING.
    stopped: Option<u64>,
    /// Bytes of connection credit given back for this stream.
    credited: u64,
}

impl RecvHalf {
    pub(super) fn new(window: WindowConfig) -> Self {
        Self {
            state: RecvState::Recv,
            assembler: Assembler::default(),
            window: ReceiveWindow::new(window),
            highest: 0,
            final_size: None,
            reset: None,
            stopped: None,
            credited: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn state(&self) -> RecvState {
        self.state
    }

    /// The state's name in events.
    pub(super) fn state_name(&self) -> &'static str {
        match self.state {
            RecvState::Recv => "receive",
            RecvState::SizeKnown => "size_known",
            RecvState::DataRecvd => "data_received",
            RecvState::ResetRecvd => "reset_received",
            RecvState::DataRead => "data_read",
            RecvState::ResetRead => "reset_read",
            RecvState::Discarded => "closed",
        }
    }

    pub(super) fn is_terminal(&self) -> bool {
        matches!(
            self.state,
            RecvState::DataRead | RecvState::ResetRead | RecvState::Discarded
        )
    }

    pub(super) fn assembler(&self) -> &Assembler {
        &self.assembler
    }

    /// Whether the peer may still need flow-control credit.
    pub(super) fn is_open(&self) -> bool {
        self.state == RecvState::Recv && self.stopped.is_none()
    }

    /// Whether either side gave it up, so that bytes count as consumed that nobody reads.
    pub(super) fn is_given_up(&self) -> bool {
        self.stopped.is_some() || self.reset.is_some()
    }

    /// The code of a STOP_SENDING that still makes sense.
    pub(super) fn stop_to_send(&self) -> Option<u64> {
        self.stopped.filter(|_| self.state == RecvState::Recv)
    }

    /// Checks a STREAM frame against the final size and this stream's limit. Returns by how much
    /// it raises the highest offset. RFC 9000 s4.1, s4.5.
    pub(super) fn check(&self, extent: Extent) -> Result<u64, TransportError> {
        let end = extent
            .offset
            .checked_add(extent.len)
            .filter(|end| *end < 1 << 62);
        let Some(end) = end else {
            return Err(TransportError::frame_encoding(
                "stream offset above 2^62 - 1",
            ));
        };
        if let Some(final_size) = self.final_size {
            if end > final_size {
                return Err(TransportError::final_size(
                    "stream data beyond the final size",
                ));
            }
            if extent.fin && end != final_size {
                return Err(TransportError::final_size("final size changed"));
            }
        }
        if extent.fin && end < self.highest {
            return Err(TransportError::final_size(
                "final size below data already received",
            ));
        }
        if end > self.window.granted() {
            return Err(TransportError::flow_control(
                "stream data beyond MAX_STREAM_DATA",
            ));
        }
        Ok(end.saturating_sub(self.highest))
    }

    /// Takes a checked STREAM frame. At most `may_borrow` slices of receive buffers may be added.
    /// True when there is more to read than before.
    pub(super) fn on_data(&mut self, extent: Extent, mut data: Bytes, may_borrow: usize) -> bool {
        self.highest = self.highest.max(extent.offset + extent.len);
        let was_open = self.final_size.is_none();
        if extent.fin {
            self.final_size = Some(self.highest);
            if self.state == RecvState::Recv {
                self.state = RecvState::SizeKnown;
            }
        }
        if self.stopped.is_some() {
            if self.final_size.is_some() {
                self.state = RecvState::Discarded;
            }
            return false;
        }
        if !matches!(self.state, RecvState::Recv | RecvState::SizeKnown) {
            return false;
        }
        if let Some(reset) = self.reset {
            // Credit for what lies beyond was given back: it must not be kept.
            let wanted = reset.reliable_size.saturating_sub(extent.offset);
            data.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
        }
        let grew = if extent.fin && may_borrow == 0 {
            self.assembler.insert_end(extent.offset, data)
        } else {
            self.assembler.insert(extent.offset, data, may_borrow)
        };
        if self.reset.is_none() && Some(self.assembler.contiguous()) == self.final_size {
            self.state = RecvState::DataRecvd;
        }
        grew || (was_open && self.state == RecvState::DataRecvd)
    }

    /// Checks a reset against the final size and this stream's limit. Returns by how much it
    /// raises the highest offset.
    pub(super) fn check_reset(&self, frame: ResetFrame) -> Result<u64, TransportError> {
        if frame
            .reliable_size
            .is_some_and(|size| size > frame.final_size)
        {
            return Err(TransportError::frame_encoding(
                "reliable size above the final size",
            ));
        }
        if self.final_size.is_some_and(|size| size != frame.final_size) {
            return Err(TransportError::final_size("final size changed"));
        }
        if frame.final_size < self.highest {
            return Err(TransportError::final_size(
                "final size below data already received",
            ));
        }
        if frame.final_size > self.window.granted() {
            return Err(TransportError::flow_control(
                "final size beyond MAX_STREAM_DATA",
            ));
        }
        let at = frame.reliable_size.is_some();
        if self
            .reset
            .is_some_and(|old| (old.at || at) && old.code != frame.code)
        {
            return Err(TransportError::stream_state(
                "reset with another error code",
            ));
        }
        Ok(frame.final_size - self.highest)
    }

    /// Takes a checked reset. True when the application can now learn of it.
    pub(super) fn on_reset(&mut self, frame: ResetFrame) -> bool {
        self.highest = frame.final_size;
        self.final_size = Some(frame.final_size);
        if self.stopped.is_some() {
            self.state = RecvState::Discarded;
            return false;
        }
        if !matches!(self.state, RecvState::Recv | RecvState::SizeKnown) {
            // RFC 9000 s3.2: with all data here, a reset may be ignored.
            return false;
        }
        self.state = RecvState::SizeKnown;
        let at = frame.reliable_size.is_some() || self.reset.is_some_and(|old| old.at);
        let mut reliable_size = frame.reliable_size.unwrap_or(0);
        if let Some(old) = self.reset {
            // Only ever lowered; a raise comes from reordering.
            reliable_size = reliable_size.min(old.reliable_size);
        }
        self.reset = Some(Reset {
            code: frame.code,
            reliable_size,
            at,
        });
        self.assembler.truncate(reliable_size);
        self.settle_reset();
        self.state == RecvState::ResetRecvd
    }

    /// Nothing will arrive any more: what lies behind a gap is of no use to whoever reads in
    /// order, and dropped.
    pub(super) fn on_connection_over(&mut self) {
        if !self.assembler.is_unordered() {
            self.assembler.truncate(self.assembler.contiguous());
        }
    }

    /// Whether there is something to read or to learn: bytes, the end, a reset.
    pub(super) fn has_news(&self) -> bool {
        self.assembler.buffered() > 0
            || self.reset.is_some()
            || matches!(self.state, RecvState::DataRecvd | RecvState::ResetRecvd)
    }

    /// What the peer has made of its half so far; nothing is read.
    pub(super) fn end(&self) -> ReceiveEnd {
        match (self.state, self.reset) {
            (RecvState::DataRecvd | RecvState::DataRead, _) => ReceiveEnd::Complete,
            (_, Some(reset)) => ReceiveEnd::Reset(reset.code),
            _ => ReceiveEnd::Open,
        }
    }

    /// Reads in order.
    pub(super) fn read(&mut self, max: usize) -> Result<ReadOutcome, ReadError> {
        self.check_readable()?;
        if self.assembler.is_unordered() {
            return Err(ReadError::Unordered);
        }
        let limit = self.reset.map_or(u64::MAX, |reset| reset.reliable_size);
        if let Some(chunk) = self.assembler.read(max, limit) {
            self.settle_reset();
            return Ok(ReadOutcome::Chunk(chunk));
        }
        Ok(if self.reach_end() {
            ReadOutcome::Finished
        } else {
            ReadOutcome::Blocked
        })
    }

    /// Reads whatever is there.
    pub(super) fn read_unordered(&mut self, max: usize) -> Result<UnorderedOutcome, ReadError> {
        self.check_readable()?;
        if let Some((offset, data)) = self.assembler.read_unordered(max) {
            self.settle_reset();
            return Ok(UnorderedOutcome::Chunk { offset, data });
        }
        Ok(if self.reach_end() {
            UnorderedOutcome::Finished
        } else {
            UnorderedOutcome::Blocked
        })
    }

    /// The application wants no more. False when it was so already.
    pub(super) fn stop(&mut self, code: u64) -> bool {
        if self.stopped.is_some() || self.is_terminal() {
            return false;
        }
        self.stopped = Some(code);
        self.assembler.discard();
        if self.state != RecvState::Recv {
            // The final size is known and nothing of it matters any more.
            self.state = RecvState::Discarded;
        }
        true
    }

    /// Connection credit to give back since the last call: bytes read, and bytes nobody will read.
    pub(super) fn take_credit(&mut self) -> u64 {
        let delivered = self.assembler.delivered();
        let due = if self.stopped.is_some() {
            self.highest
        } else if let Some(reset) = self.reset {
            delivered
                + self
                    .highest
                    .saturating_sub(reset.reliable_size.max(delivered))
        } else {
            delivered
        };
        let credit = due.saturating_sub(self.credited);
        self.credited += credit;
        credit
    }

    fn check_readable(&mut self) -> Result<(), ReadError> {
        match (self.state, self.reset) {
            (RecvState::ResetRecvd | RecvState::ResetRead, Some(reset)) => {
                self.state = RecvState::ResetRead;
                Err(ReadError::Reset(reset.code))
            }
            _ if self.stopped.is_some() => Err(ReadError::Stopped),
            _ => Ok(()),
        }
    }

    /// Turns to `ResetRecvd` once everything that was promised has been read.
    fn settle_reset(&mut self) {
        if self.state == RecvState::SizeKnown && self.is_at_reset() {
            self.state = RecvState::ResetRecvd;
            self.assembler.discard();
        }
    }

    fn is_at_reset(&self) -> bool {
        let assembler = &self.assembler;
        self.reset.is_some_and(|reset| {
            reset.reliable_size == 0
                || if assembler.is_unordered() {
                    assembler.contiguous() >= reset.reliable_size && assembler.buffered() == 0
                } else {
                    assembler.delivered() >= reset.reliable_size
                }
        })
    }

    fn is_at_end(&self) -> bool {
        self.reset.is_none() && self.final_size == Some(self.assembler.delivered())
    }

    fn reach_end(&mut self) -> bool {
        if self.state == RecvState::DataRecvd && self.is_at_end() {
            self.state = RecvState::DataRead;
        }
        self.state == RecvState::DataRead
    }
}

#[cfg(test)]
mod tests;
