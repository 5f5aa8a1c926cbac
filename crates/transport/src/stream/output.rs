//! What [`StreamSet`] puts into packets, and what becomes of it.

use std::ops::Range;

use super::{
    Note, Protection, Stream, StreamEvent, StreamSet,
    sched::Left,
    send::{Demand, SendHalf},
    table::due,
};
use crate::{
    multipath::Takes,
    observe::{DataPosition, Event, FlowScope, HalfStream},
    packet::{PacketWriter, Token},
    units::{Dir, StreamId},
    wire::{Frame, ResetStream},
};

/// A shorter piece of a longer run is not worth a frame's header; it waits for the next packet.
const SHORTEST_PIECE_BYTES: usize = 32;
/// Once there were more streams than these, none is asked what waits in it: that is work for
/// every packet.
const MOST_ASKED: usize = 256;

/// Bytes that wait to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    lost: u64,
    new: u64,
    /// Whether more may follow: data beyond a limit of the peer's, or of an application that has neither
    /// finished nor said how much it would write.
    pub more_follows: bool,
}

impl Waiting {
    /// What is sent again included.
    pub fn bytes(&self) -> u64 {
        self.lost.saturating_add(self.new)
    }

    /// Whether there is both, what is sent again and what is new.
    pub(crate) fn is_mixed(&self) -> bool {
        self.has_lost() && self.new > 0
    }

    /// Whether something is to be sent again.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// What is sent again, as if nothing else waited.
    pub(crate) fn lost_alone(&self) -> Self {
        Self {
            lost: self.lost,
            ..Self::default()
        }
    }

    fn add(&mut self, other: Self) {
        self.lost = self.lost.saturating_add(other.lost);
        self.new = self.new.saturating_add(other.new);
        self.more_follows |= other.more_follows;
    }
}

impl StreamSet {
    /// Whether flow-control, reset or stop frames wait.
    pub fn has_control(&self) -> bool {
        let owes = !self.control.is_empty()
            || self.resend_max_data
            || self.window.wants_grant()
            || self.owes_data_blocked()
            || [Dir::Bi, Dir::Uni].into_iter().any(|dir| {
                self.limits.remote(dir).wants_grant() || self.limits.local(dir).should_report()
            });
        owes && !self.over
    }

    /// Writes waiting flow-control, reset and stop frames as far as they fit.
    pub fn write_control(&mut self, packet: &mut PacketWriter<'_>) {
        if self.resend_max_data || self.window.wants_grant() {
            let max = self.window.grant();
            self.resend_max_data = !packet.push(&Frame::MaxData(max));
        }
        if self.owes_data_blocked() && packet.push(&Frame::DataBlocked(self.credit.max)) {
            self.credit.on_reported();
            self.times_held_back += 1;
            self.told_blocked = true;
            self.note_blocked(FlowScope::Connection, self.credit.max, true);
        }
        for dir in [Dir::Bi, Dir::Uni] {
            let remote = self.limits.remote_mut(dir);
            // Also before it is due, when the packet goes out anyway.
            let wanted = remote.wants_grant() || (remote.can_grant() && !packet.is_empty());
            if wanted
                && packet.push(&Frame::MaxStreams {
                    dir,
                    max: remote.next_grant(),
                })
            {
                remote.on_granted();
            }
            let local = self.limits.local_mut(dir);
            if local.should_report()
                && packet.push(&Frame::StreamsBlocked {
                    dir,
                    limit: local.max,
                })
            {
                local.on_reported();
                let limit = local.max;
                self.note_blocked(FlowScope::Streams(dir), limit, true);
            }
        }
        while let Some(id) = self.control.front().copied() {
            if !self.write_stream_control(id, packet) {
                return;
            }
            self.control.pop_front();
        }
        if std::mem::take(&mut self.control_overflowed) {
            for id in self.table.ids() {
                if self
                    .table
                    .get(id)
                    .is_some_and(|stream| stream.due != 0 && !stream.in_control)
                {
                    self.owe(id, 0);
                }
            }
        }
    }

    /// Whether some stream has data that may be sent.
    pub fn has_data(&self) -> bool {
        self.ready > 0
    }

    /// Bytes that wait in the streams that may send, as far as flow control lets them go: at least
    /// `enough` is as good as any more. What cannot be told with little work is taken for none.
    pub fn waiting_bytes(&self, enough: u64) -> u64 {
        if self.table.slots_len() > MOST_ASKED {
            return 0;
        }
        let credit = self.credit.available();
        let (mut lost, mut new) = (0u64, 0u64);
        for (_, send) in self.ready_streams() {
            if lost.saturating_add(new.min(credit)) >= enough {
                break;
            }
            let (of_lost, of_new) = send.waiting_bytes();
            lost = lost.saturating_add(of_lost);
            new = new.saturating_add(of_new);
        }
        lost.saturating_add(new.min(credit))
    }

    /// The streams that may send. No more are looked at once all have been found.
    fn ready_streams(&self) -> impl Iterator<Item = (&Stream, &SendHalf)> {
        let ready = self.table.iter().filter(|stream| stream.ready);
        let sending = ready.filter_map(|stream| Some((stream, stream.send.as_ref()?)));
        sending.take(self.ready)
    }

    /// Whether packets of so many bytes of stream data take all that waits, to the ends of the streams. Where that cannot be told
    /// with little work it is taken for not.
    pub fn ends_within(&self, bytes: u64) -> bool {
        if self.ready == 0 || self.table.slots_len() > MOST_ASKED {
            return false;
        }
        let (mut lost, mut new) = (0u64, 0u64);
        for (_, send) in self.ready_streams() {
            lost = lost.saturating_add(send.lost_bytes());
            new = new.saturating_add(send.waiting_bytes().1);
            if lost.saturating_add(new) > bytes || !send.finishes_within_credit() {
                return false;
            }
        }
        new <= self.credit.available()
    }

    /// What waits in the most urgent of the streams that may send and are for the path scheduler to
    /// place, as far as flow control lets it go. Of more streams than can be looked at with little work nothing is known.
    pub fn most_urgent(&self) -> Option<Waiting> {
        if self.table.slots_len() > MOST_ASKED {
            return None;
        }
        let credit = self.credit.available();
        let mut most: Option<(u8, Waiting)> = None;
        for (stream, send) in self.ready_streams() {
            if self.is_placed_by_pin(stream.pin) {
                continue;
            }
            let urgency = stream.priority.urgency;
            let (new, more_follows) = send.outlook();
            let of_this = Waiting {
                lost: send.lost_bytes(),
                new,
                more_follows,
            };
            match &mut most {
                Some((least, waiting)) if *least == urgency => waiting.add(of_this),
                Some((least, _)) if *least < urgency => {}
                _ => most = Some((urgency, of_this)),
            }
        }
        most.map(|(_, mut waiting)| {
            waiting.more_follows |= waiting.new > credit;
            waiting.new = waiting.new.min(credit);
            waiting
        })
    }

    /// Bytes that leave in such packets before a stream ends, as things stand: the first of those whose end is known, by the
    /// order of their scheduler. Of more streams than can be looked at with little work nothing is known.
    pub(crate) fn ends_in(&mut self, takes: Takes) -> Option<u64> {
        if self.ready == 0 || self.table.slots_len() > MOST_ASKED {
            return None;
        }
        // Those of a pin share with others by what each was sent: whose turn it is tells enough.
        let next = if self.has_pins() {
            Some(self.next_for(takes)?)
        } else {
            None
        };
        let (table, credit) = (&self.table, self.credit.available());
        let left = |id| {
            let send = table.get(id).and_then(|stream| stream.send.as_ref());
            send.map_or(Left::default(), |send| send.left(credit))
        };
        match next.map(left) {
            Some(next) => next.ends.then_some(next.bytes),
            None if takes.free => self.scheduler.first_end(&left),
            None => None,
        }
    }

    /// Whether what [`Self::ends_in`] says may have become less, otherwise than by what was sent, since this was asked last: a
    /// stream was finished, came in between, or goes earlier now. Of one stream alone what waits in it tells.
    pub(crate) fn take_new_end(&mut self) -> bool {
        std::mem::take(&mut self.new_end)
    }

    /// For [`Self::take_new_end`].
    pub(super) fn note_new_end(&mut self) {
        self.new_end |= self.ready > 1;
    }

    /// Whether some stream has data that only flow control keeps from leaving, or an application that
    /// waits for it. What cannot be told with little work is taken for no.
    pub fn is_held_back(&self) -> bool {
        let by_connection = self.credit.available() == 0 && !self.parked.is_empty();
        let held_back = |send: &SendHalf| {
            let waits = send.wants_write || send.buffer().unsent() < send.buffer().end();
            waits && send.credit.available() == 0
        };
        by_connection
            || (self.table.slots_len() <= MOST_ASKED
                && self
                    .table
                    .iter()
                    .any(|stream| stream.send.as_ref().is_some_and(held_back)))
    }

    /// Whether the peer was told that it holds us back, and may do so still.
    pub(crate) fn told_blocked(&self) -> bool {
        self.told_blocked
    }

    /// Owes once more what says that the peer holds us back, of one stream at most. Work: a step for each stream.
    pub(crate) fn repeat_blocked(&mut self) {
        self.told_blocked = false;
        self.credit.on_report_lost();
        for id in self.table.ids() {
            let stream = self.table.get_mut(id);
            let Some(send) = stream.and_then(|stream| stream.send.as_mut()) else {
                continue;
            };
            if !send.credit.is_reported() {
                continue;
            }
            send.credit.on_report_lost();
            if is_held_back(send) {
                self.owe(id, due::STREAM_DATA_BLOCKED);
                return;
            }
        }
    }

    /// How often data had to wait for a limit of the peer's.
    pub fn times_held_back(&self) -> u64 {
        self.times_held_back
    }

    /// Writes STREAM frames until the packet is full or nothing may be sent that it takes.
    pub(crate) fn write_data(&mut self, takes: Takes, packet: &mut PacketWriter<'_>) {
        // A scheduler that names streams which cannot send must not hold us here.
        let mut fruitless = 2 * self.ready + 2;
        while let Some(id) = self.next_for(takes) {
            if let Some(by_default) = packet.deferred_symbol()
                && self.protection_of(id).applies(by_default)
                && !packet.begin_deferred_symbol()
            {
                return;
            }
            let before = packet.remaining();
            if fruitless == 0 || !self.write_one(id, takes, packet) {
                return;
            }
            match packet.remaining() {
                0 => return,
                same if same == before => fruitless -= 1,
                _ => {}
            }
        }
        debug_assert!(
            !self.has_data_for(takes),
            "the scheduler forgot a ready stream"
        );
    }

    /// A frame's packet was acknowledged.
    pub fn on_acked(&mut self, token: Token) {
        match token {
            Token::Stream {
                id,
                offset,
                len,
                fin,
            } => self.on_stream_acked(id, offset..offset.saturating_add(len.into()), fin),
            Token::ResetStream(id) => self.on_reset_acked(id, false),
            Token::ResetStreamAt(id) => self.on_reset_acked(id, true),
            _ => {}
        }
    }

    /// Bytes of a stream are acknowledged, and its FIN if `fin`: one or several STREAM frames side
    /// by side.
    pub(crate) fn on_stream_acked(&mut self, id: StreamId, range: Range<u64>, fin: bool) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        let ready = stream.ready;
        let Some(send) = &mut stream.send else { return };
        if send.is_terminal() {
            return;
        }
        let released = send.on_acked(range, fin);
        let (delivered, terminal) = (send.is_delivered(), send.is_terminal());
        if terminal {
            let (half, state) = (HalfStream::Sending, send.state_name());
            self.journal.note(|| Note::State { id, half, state });
        }
        if released > 0 {
            self.on_released(released);
        }
        if ready {
            self.refresh(id);
        }
        if delivered {
            self.emit(StreamEvent::Finished(id));
        }
        if terminal {
            self.free_if_over(id);
        }
    }

    /// A frame's packet is lost: what still matters of it is sent again.
    pub fn on_lost(&mut self, token: Token) {
        match token {
            Token::Stream {
                id,
                offset,
                len,
                fin,
            } => {
                let Some(stream) = self.table.get_mut(id) else {
                    return;
                };
                let Some(send) = &mut stream.send else { return };
                send.on_lost(offset..offset.saturating_add(len.into()), fin);
                if stream.deadline.is_some() {
                    self.messages.on_lost(id);
                }
                self.refresh(id);
            }
            Token::ResetStream(id) | Token::ResetStreamAt(id) => self.owe(id, due::RESET),
            Token::StopSending(id) => self.owe(id, due::STOP_SENDING),
            Token::MaxStreamData(id) => self.owe(id, due::MAX_STREAM_DATA),
            Token::StreamDataBlocked(id) => {
                let send = self
                    .table
                    .get_mut(id)
                    .and_then(|stream| stream.send.as_mut());
                if let Some(send) = send {
                    send.credit.on_report_lost();
                    self.report_blocked_stream(id);
                }
            }
            Token::MaxData => self.resend_max_data = true,
            Token::DataBlocked => self.credit.on_report_lost(),
            Token::MaxStreams(dir) => self.limits.remote_mut(dir).on_grant_lost(),
            Token::StreamsBlocked(dir) => self.limits.local_mut(dir).on_report_lost(),
            _ => {}
        }
    }

    /// The server did not take what was sent in 0-RTT (or a Retry made it start afresh): all of it
    /// is new again, from offset 0 on, within the limits of the next
    /// [`StreamSet::set_peer_limits`]; until then the old limits hold. RFC 9001 s4.6.2.
    pub fn on_zero_rtt_rejected(&mut self) {
        self.replace_peer_limits = true;
        self.credit.used = 0;
        self.credit.on_report_lost();
        for dir in [Dir::Bi, Dir::Uni] {
            self.limits.local_mut(dir).on_report_lost();
        }
        for id in self.table.ids() {
            let Some(stream) = self.table.get_mut(id) else {
                continue;
            };
            let mut owed = 0;
            if stream.deadline.is_some() {
                self.messages.on_lost(id);
            }
            if let Some(send) = &mut stream.send {
                send.rewind();
                if send.reset_to_send().is_some() {
                    owed |= due::RESET;
                }
            }
            if stream
                .recv
                .as_ref()
                .is_some_and(|recv| recv.stop_to_send().is_some())
            {
                owed |= due::STOP_SENDING;
            }
            self.refresh(id);
            if owed != 0 {
                self.owe(id, owed);
            }
        }
    }

    /// Owes STREAM_DATA_BLOCKED if the application would write, all it wrote is sent, and the
    /// peer's limit is what holds it back.
    pub(super) fn report_blocked_stream(&mut self, id: StreamId) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        if stream.send.as_ref().is_some_and(is_held_back) {
            self.owe(id, due::STREAM_DATA_BLOCKED);
        }
    }

    fn owes_data_blocked(&self) -> bool {
        !self.parked.is_empty() && self.credit.should_report()
    }

    /// Writes the frames that one stream owes. False when one did not fit.
    fn write_stream_control(&mut self, id: StreamId, packet: &mut PacketWriter<'_>) -> bool {
        let allowed = self.limits.is_allowed(id);
        let Some(stream) = self.table.get_mut(id) else {
            return true;
        };
        if !allowed {
            // Keeps its bits; comes back when the peer lets us use the stream.
            stream.in_control = false;
            return true;
        }
        for bit in [
            due::STOP_SENDING,
            due::RESET,
            due::MAX_STREAM_DATA,
            due::STREAM_DATA_BLOCKED,
        ] {
            if stream.due & bit == 0 {
                continue;
            }
            let frame = match bit {
                due::STOP_SENDING => stream
                    .recv
                    .as_ref()
                    .and_then(|recv| recv.stop_to_send())
                    .map(|code| Frame::StopSending { id, code }),
                due::RESET => stream.send.as_ref().and_then(|send| reset_frame(id, send)),
                due::MAX_STREAM_DATA => {
                    stream
                        .recv
                        .as_mut()
                        .filter(|recv| recv.is_open())
                        .map(|recv| Frame::MaxStreamData {
                            id,
                            max: recv.window.grant(),
                        })
                }
                _ => stream
                    .send
                    .as_ref()
                    .filter(|send| is_held_back(send))
                    .map(|send| Frame::StreamDataBlocked {
                        id,
                        limit: send.credit.max,
                    }),
            };
            if let Some(frame) = frame {
                if !packet.push(&frame) {
                    return false;
                }
                match (bit, &mut stream.send) {
                    (due::STREAM_DATA_BLOCKED, Some(send)) => {
                        send.credit.on_reported();
                        self.times_held_back += 1;
                        self.told_blocked = true;
                        let limit = send.credit.max;
                        self.journal.note(|| Note::Blocked {
                            scope: FlowScope::Stream(id),
                            limit,
                            blocked: true,
                        });
                    }
                    (due::RESET, Some(send)) => send.on_reset_sent(),
                    _ => {}
                }
            }
            stream.due &= !bit;
        }
        stream.in_control = false;
        true
    }

    /// Writes one STREAM frame. False when the packet is full.
    fn write_one(&mut self, id: StreamId, takes: Takes, packet: &mut PacketWriter<'_>) -> bool {
        let credit = self.credit.available();
        let again = takes.again || self.is_held_to_path(id);
        let stream = self.table.get_mut(id);
        let deadline = stream.as_ref().and_then(|stream| stream.deadline);
        let protection = stream.as_ref().map(|stream| stream.protection);
        let protection = protection.unwrap_or_default();
        let next = stream
            .and_then(|stream| stream.send.as_mut())
            .and_then(|send| send.next_segment(again).map(|segment| (send, segment)));
        let Some((send, segment)) = next else {
            self.drop_from_scheduler(id);
            return true;
        };
        let sendable = if segment.is_new {
            segment.len.min(credit)
        } else {
            segment.len
        };
        if sendable == 0 && segment.len > 0 {
            // It waits for MAX_DATA; retransmissions of other streams need no credit.
            self.refresh(id);
            return true;
        }
        let room = packet.stream_room(id, segment.offset);
        let wanted = usize::try_from(sendable).unwrap_or(usize::MAX);
        if room == 0 || (room < SHORTEST_PIECE_BYTES && room < wanted) {
            return false;
        }
        let len = room.min(wanted);
        let fin = send.fin_at(segment.offset + len as u64);
        let buffer = send.buffer();
        let fill = |out: &mut [u8]| buffer.copy_to(segment.offset, out);
        if !packet.push_stream(id, segment.offset, len, fin, fill) {
            return false;
        }
        let name = self.scheduler.name();
        packet.observe(|| Event::PolicyDecision {
            policy: "stream_scheduler",
            name,
            path: None,
            decision: "next",
            values: [Some(id.0 as f64), Some(len as f64)],
        });
        packet.observe(|| Event::StreamDataMoved {
            id,
            offset: segment.offset,
            len,
            from: DataPosition::Transport,
            to: DataPosition::Network,
        });
        let len = len as u64;
        let before = send.state_name();
        let used = send.on_sent(segment, len, fin);
        let state = send.state_name();
        if before != state {
            let half = HalfStream::Sending;
            packet.observe(|| Event::StreamState { id, half, state });
        }
        let held_back = is_held_back(send);
        let demand = send.demand(credit > used);
        if demand == Demand::Nothing && send.has_end() && protection != Protection::Never {
            packet.note_stream_end();
        }
        self.credit.used += used;
        if deadline.is_some() && protection != Protection::Never {
            self.messages.sent_deadline = deadline;
        }
        if segment.is_new {
            self.stats.sent_bytes += len;
        } else {
            self.stats.retransmitted_bytes += len;
            packet.note_repeat();
        }
        self.on_stream_sent(id, len);
        if demand != Demand::Now {
            self.on_run_sent(id, held_back);
        }
        true
    }

    /// A stream has nothing more to send for now.
    fn on_run_sent(&mut self, id: StreamId, held_back: bool) {
        self.refresh(id);
        if held_back {
            self.owe(id, due::STREAM_DATA_BLOCKED);
        }
        // RESET_STREAM_AT waits until what it promises was sent.
        let send = self.table.get(id).and_then(|stream| stream.send.as_ref());
        if send.is_some_and(SendHalf::owes_first_reset) {
            self.owe(id, due::RESET);
        }
    }

    /// The scheduler names a stream that has nothing to send.
    fn drop_from_scheduler(&mut self, id: StreamId) {
        match self.table.get(id) {
            Some(stream) if stream.ready => self.refresh(id),
            _ => {
                debug_assert!(false, "the scheduler named {id}, which is not ready");
                self.scheduler_of(id).on_quiet(id);
            }
        }
    }

    fn on_reset_acked(&mut self, id: StreamId, at: bool) {
        let Some(send) = self
            .table
            .get_mut(id)
            .and_then(|stream| stream.send.as_mut())
        else {
            return;
        };
        send.on_reset_acked(at);
        if send.is_terminal() {
            let (half, state) = (HalfStream::Sending, send.state_name());
            self.journal.note(|| Note::State { id, half, state });
            self.refresh(id);
            self.free_if_over(id);
        }
    }
}

/// Whether the peer's limit for the stream holds the application back, and the peer was not told.
fn is_held_back(send: &SendHalf) -> bool {
    send.wants_write && send.buffer().unsent() == send.buffer().end() && send.credit.should_report()
}

fn reset_frame(id: StreamId, send: &SendHalf) -> Option<Frame<'static>> {
    let (reset, final_size) = send.reset_to_send()?;
    let code = reset.code;
    Some(match reset.reliable_size {
        None => Frame::ResetStream(ResetStream {
            id,
            code,
            final_size,
        }),
        Some(reliable_size) => Frame::ResetStreamAt {
            id,
            code,
            final_size,
            reliable_size,
        },
    })
}
