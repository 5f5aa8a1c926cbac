//! The sending half of a stream. RFC 9000 s3.1, RESET_STREAM_AT draft -10 s4.
//!
//! ```text
//! Ready --data--> Send --FIN sent--> DataSent --all acked--> DataRecvd
//!    \             |                   /  \
//!     +--reset-----+------------------+    RESET_STREAM_AT sent also leads here
//!                  v
//!              ResetSent --reset acked--> ResetRecvd
//! ```

use std::ops::Range;

use super::{flow::SendCredit, sched::Left, send_buffer::SendBuffer, types::WriteError};

/// Of what an application has announced and not written, so many times as much as waits is expected at once: who writes slower
/// than the paths send has nothing waiting.
const AT_ONCE: u64 = 4;

/// RFC 9000 figure 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendState {
    /// Nothing was sent.
    Ready,
    /// Data is being sent.
    Send,
    /// The end (FIN or RESET_STREAM_AT) was sent too.
    DataSent,
    /// The stream was given up.
    ResetSent,
    /// Everything is acknowledged. Terminal.
    DataRecvd,
    /// The reset is acknowledged. Terminal.
    ResetRecvd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fin {
    No,
    /// The application finished; FIN is not on its way.
    Due,
    Sent,
    Acked,
}

/// How the stream was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reset {
    pub(super) code: u64,
    /// Bytes delivered nevertheless; `None` for a plain RESET_STREAM.
    pub(super) reliable_size: Option<u64>,
    /// The frame was put into a packet at least once.
    sent: bool,
    acked: bool,
}

/// What the next STREAM frame may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) offset: u64,
    /// Bytes available from there; 0 for a lone FIN.
    pub(super) len: u64,
    /// Whether the bytes were never sent, so that they use flow-control credit.
    pub(super) is_new: bool,
}

/// Whether the stream has something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    Nothing,
    /// New bytes only, which need connection credit.
    NeedsCredit,
    /// Retransmissions or a lone FIN, or new bytes and credit.
    Now,
}

/// See the module's words.
#[derive(Debug)]
pub(super) struct SendHalf {
    state: SendState,
    buffer: SendBuffer,
    /// The peer's limit; `used` is the highest offset sent.
    pub(super) credit: SendCredit,
    fin: Fin,
    /// How much the application said it would write.
    size_hint: Option<u64>,
    reset: Option<Reset>,
    stop_code: Option<u64>,
    /// A write was cut short; [`super::StreamEvent::Writable`] is owed.
    pub(super) wants_write: bool,
}

impl SendHalf {
    pub(super) fn new(max_data: u64) -> Self {
        Self {
            state: SendState::Ready,
            buffer: SendBuffer::default(),
            credit: SendCredit::new(max_data),
            fin: Fin::No,
            size_hint: None,
            reset: None,
            stop_code: None,
            wants_write: false,
        }
    }

    #[cfg(test)]
    pub(super) fn state(&self) -> SendState {
        self.state
    }

    /// The state's name in events.
    pub(super) fn state_name(&self) -> &'static str {
        match self.state {
            SendState::Ready => "ready",
            SendState::Send => "send",
            SendState::DataSent => "data_sent",
            SendState::ResetSent => "reset_sent",
            SendState::DataRecvd => "data_received",
            SendState::ResetRecvd => "reset_received",
        }
    }

    pub(super) fn is_terminal(&self) -> bool {
        matches!(self.state, SendState::DataRecvd | SendState::ResetRecvd)
    }

    pub(super) fn buffer(&self) -> &SendBuffer {
        &self.buffer
    }

    pub(super) fn stop_code(&self) -> Option<u64> {
        self.stop_code
    }

    /// The reset to be told the peer, with its final size; `None` when there is none, it is
    /// acknowledged, or bytes that it promises were not sent yet (so that the final size is within
    /// the peer's limits).
    pub(super) fn reset_to_send(&self) -> Option<(Reset, u64)> {
        let reset = self.reset.filter(|reset| !reset.acked)?;
        let promised = reset.reliable_size.unwrap_or(0);
        (promised <= self.credit.used && !self.is_terminal()).then_some((reset, self.credit.used))
    }

    /// Whether a reset waited for the bytes it promises, which have now been sent.
    pub(super) fn owes_first_reset(&self) -> bool {
        self.reset_to_send().is_some_and(|(reset, _)| !reset.sent)
    }

    pub(super) fn on_reset_sent(&mut self) {
        if let Some(reset) = &mut self.reset {
            reset.sent = true;
        }
    }

    /// Whether we gave the stream up.
    pub(super) fn is_reset(&self) -> bool {
        self.reset.is_some()
    }

    /// Whether the stream takes bytes, or why not.
    pub(super) fn check_writable(&self) -> Result<(), WriteError> {
        if let Some(code) = self.stop_code {
            return Err(WriteError::Stopped(code));
        }
        if self.reset.is_some() || self.fin != Fin::No || self.is_terminal() {
            return Err(WriteError::Finished);
        }
        Ok(())
    }

    /// Bytes that the peer's limit for this stream still takes.
    pub(super) fn writable(&self) -> u64 {
        self.credit.max.saturating_sub(self.buffer.end())
    }

    pub(super) fn buffer_mut(&mut self) -> &mut SendBuffer {
        &mut self.buffer
    }

    /// No more bytes follow.
    pub(super) fn finish(&mut self) -> Result<(), WriteError> {
        self.check_writable()?;
        self.fin = Fin::Due;
        Ok(())
    }

    /// Gives the stream up but for its first `reliable_size` bytes. Returns how many bytes were
    /// let go; `None`, and nothing changes, when the stream is over or given up that far already.
    pub(super) fn reset(&mut self, code: u64, reliable_size: Option<u64>) -> Option<u64> {
        if self.is_terminal() || self.reset.is_some_and(|old| old.reliable_size.is_none()) {
            return None;
        }
        if self.reset.is_some() && reliable_size.is_some() {
            return None;
        }
        // The code must not change once it may have been sent.
        let code = self.reset.map_or(code, |old| old.code);
        let reliable_size = reliable_size.map(|size| size.min(self.buffer.end()));
        self.reset = Some(Reset {
            code,
            reliable_size,
            sent: false,
            acked: false,
        });
        self.wants_write = false;
        match reliable_size {
            None => {
                self.state = SendState::ResetSent;
                Some(std::mem::take(&mut self.buffer).buffered())
            }
            Some(size) => {
                self.state = SendState::DataSent;
                Some(self.buffer.truncate(size))
            }
        }
    }

    /// STOP_SENDING arrived. Returns how many bytes were let go, `None` if it changes nothing.
    pub(super) fn on_stop_sending(&mut self, code: u64) -> Option<u64> {
        if self.is_terminal() || self.stop_code.is_some() {
            return None;
        }
        let released = self.reset(code, None)?;
        self.stop_code = Some(code);
        Some(released)
    }

    /// What there is to send, given whether the connection has credit for new bytes.
    pub(super) fn demand(&self, has_credit: bool) -> Demand {
        match self.next_segment(true) {
            None => Demand::Nothing,
            Some(segment) if segment.is_new && segment.len > 0 && !has_credit => {
                Demand::NeedsCredit
            }
            Some(_) => Demand::Now,
        }
    }

    /// Bytes that wait and that the stream's limit lets go: the lowest lost range, and new ones.
    pub(super) fn waiting_bytes(&self) -> (u64, u64) {
        let lost = self
            .buffer
            .first_lost()
            .map_or(0, |lost| lost.end - lost.start);
        let end = self.buffer.end().min(self.credit.max);
        (lost, end.saturating_sub(self.buffer.unsent()))
    }

    /// Bytes to send again, those beyond the first gap included.
    pub(super) fn lost_bytes(&self) -> u64 {
        self.buffer.lost_bytes()
    }

    pub(super) fn set_size_hint(&mut self, bytes: Option<u64>) {
        self.size_hint = bytes;
    }

    /// Whether the application has told where the stream ends: it writes no more.
    pub(super) fn has_end(&self) -> bool {
        let writes_on = matches!(self.state, SendState::Ready | SendState::Send);
        self.fin != Fin::No || !writes_on
    }

    /// What is left to send, where the connection takes so many new bytes.
    pub(super) fn left(&self, credit: u64) -> Left {
        let (_, new) = self.waiting_bytes();
        let ends = self.has_end() && self.buffer.end() <= self.credit.max && new <= credit;
        Left {
            bytes: self.lost_bytes().saturating_add(new),
            ends,
        }
    }

    /// Where the stream ends, as far as is known: the application has finished, or said how much it would write.
    fn expected_end(&self) -> Option<u64> {
        let end = self.buffer.end();
        if self.has_end() {
            return Some(end);
        }
        self.size_hint.map(|bytes| bytes.max(end))
    }

    /// Whether all that the application will ever write, as far as is known, is there and may be sent now.
    pub(super) fn finishes_within_credit(&self) -> bool {
        let last = self.buffer.end().min(self.credit.max);
        self.expected_end().is_some_and(|end| end <= last)
    }

    /// New bytes that may be sent, and those that are expected to follow at once if any may; and whether still more may
    /// follow: beyond the stream's limit, or of an application that has told of no end.
    pub(super) fn outlook(&self) -> (u64, bool) {
        let (_, written) = self.waiting_bytes();
        let end = self.expected_end();
        let more = end.is_none_or(|end| end > self.credit.max);
        let with_hint = |end: u64| {
            end.min(self.credit.max)
                .saturating_sub(self.buffer.unsent())
        };
        let new = end
            .map_or(written, with_hint)
            .min(written.saturating_mul(AT_ONCE));
        (new, more)
    }

    /// The next bytes to send: lost ones first, if what is sent `again` may go, then new ones within the
    /// stream's limit.
    #[inline]
    pub(super) fn next_segment(&self, again: bool) -> Option<Segment> {
        if !matches!(
            self.state,
            SendState::Ready | SendState::Send | SendState::DataSent
        ) {
            return None;
        }
        if again && let Some(lost) = self.buffer.first_lost() {
            let len = lost.end - lost.start;
            return Some(Segment {
                offset: lost.start,
                len,
                is_new: false,
            });
        }
        let offset = self.buffer.unsent();
        let len = self
            .buffer
            .end()
            .min(self.credit.max)
            .saturating_sub(offset);
        if len > 0 {
            return Some(Segment {
                offset,
                len,
                is_new: true,
            });
        }
        let lone_fin = self.fin == Fin::Due && self.reset.is_none() && offset == self.buffer.end();
        lone_fin.then_some(Segment {
            offset,
            len: 0,
            is_new: true,
        })
    }

    /// Whether a frame that ends at `end` carries FIN.
    #[inline]
    pub(super) fn fin_at(&self, end: u64) -> bool {
        self.fin != Fin::No && end == self.buffer.end() && self.reset.is_none()
    }

    /// A frame was put into a packet. Returns the connection credit it used.
    #[inline]
    pub(super) fn on_sent(&mut self, segment: Segment, len: u64, fin: bool) -> u64 {
        if self.state == SendState::Ready {
            self.state = SendState::Send;
        }
        if fin {
            if self.fin == Fin::Due {
                self.fin = Fin::Sent;
            }
            self.state = SendState::DataSent;
        }
        if !segment.is_new {
            self.buffer
                .on_sent_again(segment.offset..segment.offset + len);
            return 0;
        }
        self.buffer.on_sent(len);
        let sent = self.buffer.unsent();
        let fresh = sent.saturating_sub(self.credit.used);
        self.credit.used += fresh;
        fresh
    }

    /// Whether everything up to the end was sent, and none of it is known to be lost.
    pub(super) fn is_on_its_way(&self) -> bool {
        matches!(self.state, SendState::DataSent | SendState::DataRecvd)
            && self.reset.is_none()
            && matches!(self.fin, Fin::Sent | Fin::Acked)
            && self.buffer.first_lost().is_none()
            && self.buffer.unsent() == self.buffer.end()
    }

    /// A STREAM frame was acknowledged. Returns how many bytes were released.
    pub(super) fn on_acked(&mut self, range: Range<u64>, fin: bool) -> u64 {
        if !matches!(self.state, SendState::Send | SendState::DataSent) {
            return 0;
        }
        if fin && self.fin != Fin::No {
            self.fin = Fin::Acked;
        }
        let released = self.buffer.on_acked(range);
        self.complete();
        released
    }

    /// A STREAM frame was lost.
    pub(super) fn on_lost(&mut self, range: Range<u64>, fin: bool) {
        if !matches!(self.state, SendState::Send | SendState::DataSent) {
            return;
        }
        if fin && self.fin == Fin::Sent {
            self.fin = Fin::Due;
        }
        self.buffer.on_lost(range);
    }

    /// RESET_STREAM (`at` false) or RESET_STREAM_AT was acknowledged.
    pub(super) fn on_reset_acked(&mut self, at: bool) {
        let Some(reset) = &mut self.reset else { return };
        if reset.reliable_size.is_some() == at {
            reset.acked = true;
            self.complete();
        }
    }

    /// RESET_STREAM_AT promises bytes that are all acknowledged, or a FIN is.
    fn complete(&mut self) {
        let all_acked = self.buffer.is_all_acked();
        self.state = match (self.state, self.reset) {
            (SendState::ResetSent, Some(reset)) if reset.acked => SendState::ResetRecvd,
            (SendState::DataSent, Some(reset)) if reset.acked && all_acked => SendState::DataRecvd,
            (SendState::DataSent, None) if self.fin == Fin::Acked && all_acked => {
                SendState::DataRecvd
            }
            (state, _) => state,
        };
    }

    /// Whether the end of the stream was reached by FIN and all of it is acknowledged.
    pub(super) fn is_delivered(&self) -> bool {
        self.state == SendState::DataRecvd && self.reset.is_none()
    }

    /// The server forgot everything that was sent in 0-RTT. RFC 9001 s4.6.2.
    pub(super) fn rewind(&mut self) {
        self.buffer.rewind();
        self.credit.used = 0;
        self.credit.on_report_lost();
        match &mut self.reset {
            Some(reset) => (reset.sent, reset.acked) = (false, false),
            None if self.fin != Fin::No => self.fin = Fin::Due,
            None => {}
        }
        if self.state != SendState::ResetSent {
            self.state = if self.reset.is_some() {
                SendState::DataSent
            } else {
                SendState::Ready
            };
        }
    }
}

#[cfg(test)]
mod tests;
