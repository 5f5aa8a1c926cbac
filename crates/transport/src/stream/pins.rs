//! Streams that go by one path: which path carries which stream next.
//!
//! Owns: each stream's [`PathPin`], a stream scheduler per pin, the choice between their streams and those
//! without a pin. Does not own: what a pin amounts to (the connection tells), the order of the streams
//! that share a pin (`sched/`).
//!
//! Without pins nothing of this runs. Between the streams of a pin and others the more urgent one goes
//! first; of the same urgency they share.

use super::{Stream, StreamSet, sched::StreamScheduler, send::SendHalf};
use crate::{
    multipath::{Hold, PathPin, Takes},
    time::Instant,
    units::{PathId, StreamId},
};

/// The streams of one pin.
#[derive(Debug)]
pub(super) struct Lane {
    pin: PathPin,
    /// Whether only the pin's path carries them.
    holds: bool,
    /// Streams that exist and have the pin.
    streams: usize,
    /// Those of them that the scheduler knows as ready.
    ready: usize,
    scheduler: Box<dyn StreamScheduler>,
    /// Bytes sent, counted from where those had come that were ready before.
    served: u64,
}

impl Lane {
    /// Whether such a packet takes whatever its streams have. Without what is sent again, streams that go
    /// by any path are looked at one by one.
    fn is_for(&self, takes: Takes) -> bool {
        takes.takes(self.pin, self.holds) && (self.holds || takes.again)
    }
}

/// All pins of a connection's streams. Allocates nothing until there is one.
#[derive(Debug, Default)]
pub(super) struct Pins {
    lanes: Vec<Lane>,
    /// As [`Lane::served`], of streams without a pin.
    free_served: u64,
}

impl Pins {
    fn at(&self, pin: PathPin) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.pin == pin)
    }

    /// Streams that are ready and wait for their path.
    fn held(&self) -> usize {
        let held = self.lanes.iter().filter(|lane| lane.holds);
        held.map(|lane| lane.ready).sum()
    }

    /// Tells every scheduler of a pin the time.
    pub(super) fn set_time(&mut self, now: Instant, one_way_delay: std::time::Duration) {
        for lane in &mut self.lanes {
            lane.scheduler.on_time(now, one_way_delay);
        }
    }
}

impl StreamSet {
    /// Whether some stream has a pin.
    pub(crate) fn has_pins(&self) -> bool {
        !self.pins.lanes.is_empty()
    }

    /// Pins a stream, or lets it go. Unknown streams are ignored. What the pin amounts to is asked for
    /// before anything is sent ([`Self::review_pins`]); until then it holds.
    pub(crate) fn set_pin(&mut self, id: StreamId, pin: Option<PathPin>) {
        let Some(stream) = self.table.get(id) else {
            return;
        };
        if stream.pin == pin || self.over {
            return;
        }
        let ready = stream.ready;
        self.leave_scheduler(id);
        self.leave_lane(id);
        if let Some(pin) = pin {
            match self.pins.at(pin).and_then(|at| self.pins.lanes.get_mut(at)) {
                Some(lane) => lane.streams += 1,
                None => self.pins.lanes.push(Lane {
                    pin,
                    holds: true,
                    streams: 1,
                    ready: 0,
                    scheduler: self.scheduler_factory.build(),
                    served: 0,
                }),
            }
        }
        if let Some(stream) = self.table.get_mut(id) {
            stream.pin = pin;
        }
        if ready {
            self.enter_scheduler(id);
        }
    }

    /// Asks what each pin amounts to now.
    pub(crate) fn review_pins(&mut self, hold: impl Fn(PathPin) -> Hold) {
        let mut gone = false;
        for lane in &mut self.pins.lanes {
            let now = hold(lane.pin);
            lane.holds = now == Hold::Holds;
            gone |= now == Hold::Gone;
        }
        if !gone {
            return;
        }
        for id in self.table.ids() {
            let pin = self.table.get(id).and_then(|stream| stream.pin);
            if pin.is_some_and(|pin| hold(pin) == Hold::Gone) {
                self.set_pin(id, None);
            }
        }
    }

    /// Whether some stream that has no pin, or whose pin yields, has data that may be sent.
    pub(crate) fn has_free_data(&self) -> bool {
        self.ready > 0 && (self.pins.lanes.is_empty() || self.ready > self.pins.held())
    }

    /// Whether some stream has data that such a packet may carry.
    pub(crate) fn has_data_for(&self, takes: Takes) -> bool {
        let free = takes.free
            && match takes.again {
                true => self.has_free_data(),
                false => self.oldest_with_new_data().is_some(),
            };
        let mut lanes = self.pins.lanes.iter();
        free || lanes.any(|lane| lane.ready > 0 && lane.is_for(takes))
    }

    /// Paths for which streams wait that go by no other.
    pub(crate) fn paths_waited_for(&self) -> impl Iterator<Item = PathId> + '_ {
        let lanes = self.pins.lanes.iter();
        let waiting = lanes.filter(|lane| lane.holds && lane.ready > 0);
        waiting.map(|lane| lane.pin.path())
    }

    /// Whether only its path may carry the stream now.
    pub(crate) fn is_held_to_path(&self, id: StreamId) -> bool {
        if self.pins.lanes.is_empty() {
            return false;
        }
        let pin = self.table.get(id).and_then(|stream| stream.pin);
        pin.is_some_and(|pin| self.holds(pin))
    }

    /// Bytes that send buffers take of a stream: those that may use no other path have half of the room, so
    /// that others can write while that path is dead.
    pub(super) fn room_for(&self, id: StreamId) -> u64 {
        let room = self.send_room();
        if self.pins.lanes.is_empty() {
            return room;
        }
        let strict = |stream: &&Stream| matches!(stream.pin, Some(PathPin::Only(_)));
        if self.table.get(id).filter(strict).is_none() {
            return room;
        }
        let bound = self.table.iter().filter(strict);
        let buffered = |stream: &Stream| Some(stream.send.as_ref()?.buffer().buffered());
        let taken: u64 = bound.filter_map(buffered).sum();
        room.min((self.send_buffer_bytes / 2).saturating_sub(taken))
    }

    /// Whether a stream with this pin is not for the path scheduler to place.
    pub(super) fn holds(&self, pin: PathPin) -> bool {
        let lane = self.pins.at(pin).and_then(|at| self.pins.lanes.get(at));
        lane.is_some_and(|lane| lane.holds)
    }

    /// The stream that is written next into such a packet.
    #[inline]
    pub(super) fn next_for(&mut self, takes: Takes) -> Option<StreamId> {
        if self.pins.lanes.is_empty() {
            return self.next_free(takes);
        }
        self.next_of_several(takes)
    }

    /// The next one of those that go wherever packets go.
    #[inline]
    fn next_free(&mut self, takes: Takes) -> Option<StreamId> {
        if !takes.free {
            return None;
        }
        let next = match takes.ahead {
            ahead if ahead > 0 && self.ready > 1 => self.next_behind(ahead),
            _ => self.scheduler.next(),
        };
        if takes.again {
            return next;
        }
        let turn = next.and_then(|id| self.table.get(id));
        match turn.filter(|stream| self.has_new_data(stream)) {
            Some(stream) => Some(stream.id),
            None => self.oldest_with_new_data(),
        }
    }

    /// The next one that other paths will not have finished once they have delivered `ahead` bytes.
    #[cold]
    fn next_behind(&mut self, ahead: u64) -> Option<StreamId> {
        let table = &self.table;
        let waiting = |id| {
            let send = table.get(id).and_then(|stream| stream.send.as_ref());
            let all = |send: &SendHalf| send.lost_bytes().saturating_add(send.outlook().0);
            send.map_or(0, all)
        };
        self.scheduler.next_behind(ahead, &waiting)
    }

    /// The most urgent stream, and of those the one opened first, that has data that was not sent before:
    /// for the short while in which whoever's turn it is waits with lost data for another path.
    #[cold]
    fn oldest_with_new_data(&self) -> Option<StreamId> {
        let ready = self.table.iter().filter(|stream| stream.ready);
        let free = ready.filter(|stream| !self.is_placed_by_pin(stream.pin));
        let with_new = free.filter(|stream| self.has_new_data(stream));
        let first = with_new.min_by_key(|stream| (stream.priority.urgency, stream.id));
        first.map(|stream| stream.id)
    }

    /// Whether a stream has data that was not sent before, and may send it.
    fn has_new_data(&self, stream: &Stream) -> bool {
        let segment = stream
            .send
            .as_ref()
            .and_then(|send| send.next_segment(false));
        segment.is_some_and(|segment| segment.len == 0 || self.credit.available() > 0)
    }

    #[cold]
    fn next_of_several(&mut self, takes: Takes) -> Option<StreamId> {
        let mut best: Option<(u8, u64, StreamId)> = None;
        let free = self.next_free(takes);
        let free = free.map(|id| (self.pins.free_served, id));
        let table = &self.table;
        let lanes = self.pins.lanes.iter_mut();
        let may = lanes.filter(|lane| lane.ready > 0 && lane.is_for(takes));
        let pinned = may.filter_map(|lane| Some((lane.served, lane.scheduler.next()?)));
        for (served, id) in free.into_iter().chain(pinned) {
            let urgency = table.get(id).map_or(u8::MAX, |it| it.priority.urgency);
            if best.is_none_or(|(least, fewest, _)| (urgency, served) < (least, fewest)) {
                best = Some((urgency, served, id));
            }
        }
        best.map(|(_, _, id)| id)
    }

    /// The scheduler that knows a stream.
    #[inline]
    pub(super) fn scheduler_of(&mut self, id: StreamId) -> &mut dyn StreamScheduler {
        if !self.pins.lanes.is_empty()
            && let Some(pin) = self.table.get(id).and_then(|stream| stream.pin)
            && let Some(at) = self.pins.at(pin)
            && let Some(lane) = self.pins.lanes.get_mut(at)
        {
            return lane.scheduler.as_mut();
        }
        self.scheduler.as_mut()
    }

    /// `bytes` of a stream were put into a packet.
    #[inline]
    pub(super) fn on_stream_sent(&mut self, id: StreamId, bytes: u64) {
        self.scheduler_of(id).on_sent(id, bytes);
        if self.pins.lanes.is_empty() {
            return;
        }
        let pin = self.table.get(id).and_then(|stream| stream.pin);
        match pin.and_then(|pin| self.pins.at(pin)) {
            Some(at) => {
                if let Some(lane) = self.pins.lanes.get_mut(at) {
                    lane.served += bytes;
                }
            }
            None => self.pins.free_served += bytes,
        }
    }

    /// A stream has data: its scheduler is told.
    pub(super) fn enter_scheduler(&mut self, id: StreamId) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        stream.ready = true;
        let (priority, deadline, pin) = (stream.priority, stream.deadline, stream.pin);
        self.ready += 1;
        if !self.pins.lanes.is_empty() {
            self.count_ready(pin);
        }
        self.scheduler_of(id).on_ready(id, priority, deadline);
        self.note_new_end();
    }

    /// Who was quiet makes no claim to what others were sent meanwhile.
    fn count_ready(&mut self, pin: Option<PathPin>) {
        let lanes = &self.pins.lanes;
        let pinned: usize = lanes.iter().map(|lane| lane.ready).sum();
        let others_ready = self.ready > pinned + 1;
        let of_lanes = lanes.iter().filter(|lane| lane.ready > 0);
        let of_lanes = of_lanes.map(|lane| lane.served);
        let of_free = others_ready.then_some(self.pins.free_served);
        let floor = of_lanes.chain(of_free).min();
        match pin.and_then(|pin| self.pins.at(pin)) {
            Some(at) => {
                if let Some(lane) = self.pins.lanes.get_mut(at) {
                    if lane.ready == 0 {
                        lane.served = lane.served.max(floor.unwrap_or(0));
                    }
                    lane.ready += 1;
                }
            }
            None if !others_ready => {
                self.pins.free_served = self.pins.free_served.max(floor.unwrap_or(0));
            }
            None => {}
        }
    }

    /// A stream has nothing to send, or is about to go.
    pub(super) fn leave_scheduler(&mut self, id: StreamId) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        if !std::mem::take(&mut stream.ready) {
            return;
        }
        let pin = stream.pin;
        self.ready -= 1;
        if let Some(at) = pin.and_then(|pin| self.pins.at(pin))
            && let Some(lane) = self.pins.lanes.get_mut(at)
        {
            lane.ready -= 1;
        }
        self.scheduler_of(id).on_quiet(id);
    }

    /// The stream has no pin any more, or is no more; it is in no scheduler.
    pub(super) fn leave_lane(&mut self, id: StreamId) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        let Some(at) = stream.pin.take().and_then(|pin| self.pins.at(pin)) else {
            return;
        };
        if let Some(lane) = self.pins.lanes.get_mut(at) {
            lane.streams -= 1;
            if lane.streams == 0 {
                self.pins.lanes.swap_remove(at);
            }
        }
    }

    /// Whether a stream with this pin, if it has one, is not for the path scheduler to place.
    pub(super) fn is_placed_by_pin(&self, pin: Option<PathPin>) -> bool {
        !self.pins.lanes.is_empty() && pin.is_some_and(|pin| self.holds(pin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::TransportConfig,
        packet::Token,
        stream::{PeerLimits, sched::Priority},
        units::{Dir, Side},
    };

    const HERE: PathId = PathId(1);
    const THERE: PathId = PathId(2);

    fn streams(count: usize) -> (StreamSet, Vec<StreamId>) {
        let mut streams = StreamSet::new(Side::Client, &TransportConfig::default());
        streams.set_peer_limits(&PeerLimits {
            max_data: 1 << 20,
            max_stream_data_uni: 1 << 20,
            max_streams_uni: 64,
            ..PeerLimits::default()
        });
        let ids = (0..count)
            .map(|_| {
                let id = streams.open(Dir::Uni).unwrap();
                streams.write(id, &[0; 1000]).unwrap();
                id
            })
            .collect();
        (streams, ids)
    }

    fn on(path: PathId, free: bool) -> Takes {
        Takes {
            pinned_to: path,
            free,
            again: true,
            ahead: 0,
        }
    }

    #[test]
    fn pinned_streams_are_for_their_path_alone() {
        let (mut set, ids) = streams(2);
        set.set_pin(ids[0], Some(PathPin::Prefer(HERE)));
        assert_eq!(set.next_for(on(HERE, false)), Some(ids[0]));
        assert_eq!(set.next_for(on(THERE, false)), None);
        assert_eq!(set.next_for(on(THERE, true)), Some(ids[1]), "not blocked");
        assert!(set.has_data_for(on(HERE, false)) && !set.has_data_for(on(THERE, false)));
        assert_eq!(set.paths_waited_for().collect::<Vec<_>>(), [HERE]);
        assert_eq!(set.most_urgent().unwrap().bytes(), 1000, "the other one");

        // It yields: any packet may carry it.
        set.review_pins(|_| Hold::Yields);
        assert_eq!(set.paths_waited_for().count(), 0);
        assert_eq!(set.most_urgent().unwrap().bytes(), 2000);
        set.reset(ids[1], 0).unwrap();
        assert_eq!(set.next_for(on(THERE, true)), Some(ids[0]));
        set.review_pins(|_| Hold::Holds);
        assert_eq!(set.next_for(on(THERE, true)), None);
        assert!(!set.has_free_data() && set.has_data());

        // It ends.
        set.review_pins(|_| Hold::Gone);
        assert!(!set.has_pins());
        assert_eq!(set.next_for(on(THERE, true)), Some(ids[0]));
    }

    #[test]
    fn what_is_sent_again_can_wait_while_new_data_goes() {
        let (mut set, ids) = streams(3);
        let new = Takes {
            again: false,
            ..on(HERE, true)
        };
        let sent = |set: &mut StreamSet, id| {
            let send = set.table.get_mut(id).unwrap().send.as_mut().unwrap();
            let segment = send.next_segment(true).unwrap();
            send.on_sent(segment, segment.len, false);
            set.refresh(id);
        };
        // The first has lost data alone, the second nothing, the third new data alone.
        for id in &ids[..2] {
            sent(&mut set, *id);
        }
        assert!(!set.most_urgent().unwrap().is_mixed());
        set.on_lost(Token::Stream {
            id: ids[0],
            offset: 0,
            len: 500,
            fin: false,
        });
        assert_eq!(set.next_for(on(HERE, true)), Some(ids[0]));
        assert_eq!(set.next_for(new), Some(ids[2]));
        let waiting = set.most_urgent().unwrap();
        assert!(waiting.is_mixed());
        assert_eq!(waiting.bytes(), 1500);
        assert_eq!(waiting.lost_alone().bytes(), 500);

        // Whoever has both gives what is new.
        set.write(ids[0], &[0; 100]).unwrap();
        assert_eq!(set.next_for(new), Some(ids[0]));
        let first = set.table.get(ids[0]).unwrap().send.as_ref().unwrap();
        assert_eq!(first.next_segment(false).unwrap().offset, 1000);
        assert_eq!(first.next_segment(true).unwrap().offset, 0);

        // A pin that holds is for its path, whatever is sent again; one that yields is not.
        set.set_pin(ids[0], Some(PathPin::Prefer(HERE)));
        sent(&mut set, ids[2]);
        assert!(set.has_data_for(new), "on its own path");
        assert_eq!(set.next_for(new), Some(ids[0]));
        set.review_pins(|_| Hold::Yields);
        assert_eq!(set.next_for(new), Some(ids[0]));
        let again = set.table.get_mut(ids[0]).unwrap().send.as_mut().unwrap();
        let segment = again.next_segment(false).unwrap();
        again.on_sent(segment, segment.len, false);
        assert_eq!(set.next_for(new), None);
        assert!(!set.has_data_for(new) && set.has_data_for(on(HERE, true)));
    }

    #[test]
    fn a_slower_path_carries_who_waits_behind_what_others_deliver() {
        let (mut set, ids) = streams(3);
        let behind = |ahead| Takes {
            ahead,
            ..on(HERE, true)
        };
        assert_eq!(set.next_for(behind(999)), Some(ids[0]));
        assert_eq!(set.next_for(behind(1_000)), Some(ids[1]));
        assert_eq!(set.next_for(behind(9_000)), Some(ids[2]), "the last one");
        // Whose turn it is on the faster path is not changed by it.
        assert_eq!(set.next_for(on(HERE, true)), Some(ids[0]));
        let new = Takes {
            again: false,
            ..behind(1_000)
        };
        assert_eq!(set.next_for(new), Some(ids[1]));
    }

    #[test]
    fn urgency_decides_between_pins_then_they_share() {
        let (mut set, ids) = streams(3);
        set.set_pin(ids[1], Some(PathPin::Only(HERE)));
        set.set_pin(ids[2], Some(PathPin::Prefer(HERE)));
        let mut sent = [0; 3];
        for _ in 0..9 {
            let id = set.next_for(on(HERE, true)).unwrap();
            sent[ids.iter().position(|it| *it == id).unwrap()] += 1;
            set.on_stream_sent(id, 100);
        }
        assert_eq!(sent, [3, 3, 3]);
        set.set_priority(
            ids[2],
            Priority {
                urgency: 1,
                incremental: false,
            },
        );
        assert_eq!(set.next_for(on(HERE, true)), Some(ids[2]));
        assert_eq!(set.next_for(on(THERE, true)), Some(ids[0]));
    }

    #[test]
    fn a_lane_lives_as_long_as_its_streams() {
        let (mut set, ids) = streams(2);
        for id in &ids {
            set.set_pin(*id, Some(PathPin::Prefer(HERE)));
        }
        set.set_pin(ids[0], None);
        assert!(set.has_pins());
        set.reset(ids[1], 0).unwrap();
        set.on_acked(crate::packet::Token::ResetStream(ids[1]));
        assert!(!set.has_pins());
        assert_eq!(set.next_for(on(THERE, true)), Some(ids[0]));
        set.set_pin(StreamId(1 << 40), Some(PathPin::Prefer(HERE)));
        assert!(!set.has_pins());
    }

    #[test]
    fn who_was_quiet_has_nothing_to_catch_up_with() {
        let (mut set, ids) = streams(1);
        let late = set.open(Dir::Uni).unwrap();
        set.set_pin(late, Some(PathPin::Prefer(HERE)));
        set.on_stream_sent(ids[0], 100_000);
        set.write(late, &[0; 1000]).unwrap();
        set.on_stream_sent(late, 1);
        assert_eq!(set.next_for(on(HERE, true)), Some(ids[0]));
    }
}
