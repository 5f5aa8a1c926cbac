//! Messages of ours, from hand-over to fate.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use bytes::Bytes;
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{
    Expiry, MESSAGE_OVERHEAD, MessageConfig, MessageFate, MessageId, MessageOptions,
    MessageOutlook, MessageReport, MessageStats, SendMessageError,
};
use crate::{
    multipath::PathPin,
    stream::{IdHash, Notice, Protection, StreamSet, sched::Priority},
    time::{Instant, earliest},
    units::{Rate, StreamId},
};

/// Messages whose bytes are counted for how fast they have to leave.
const LOOKED_AT: usize = 64;
/// Time to a deadline with which hurrying is of use.
pub(super) const LEAST_TIME: Duration = Duration::from_millis(1);
/// How long before the last moment the end of a message should leave, so that repair symbols can follow:
/// a quarter of its time at most.
const SPARE: Duration = Duration::from_millis(8);
/// How much faster than they must messages leave: headers take of the time, and a way that is longer
/// than usual.
pub(super) const HASTE: f64 = 1.25;

/// For so long what a message asked of acknowledgements holds for the next.
const LATELY: Duration = Duration::from_secs(10);

/// A message whose fate is open.
#[derive(Debug)]
struct InFlight {
    stream: Option<StreamId>,
    /// What its stream has not taken yet.
    rest: Bytes,
    /// Its stream has taken all of it, and its end.
    ended: bool,
    bytes: u64,
    priority: Priority,
    protection: Protection,
    pin: Option<PathPin>,
    handed_over: Instant,
    deadline: Option<Instant>,
    /// It is too late to send any of it again; all of it was on its way when that began.
    overdue: bool,
    recovered: bool,
    depends_on: SmallVec<[MessageId; 2]>,
}

/// Its place among messages that wait for a stream: the nearest deadline first, then the smaller
/// urgency, then the older.
type Place = (Instant, u8, MessageId);

/// Messages of ours.
#[derive(Debug)]
pub(super) struct Outgoing {
    config: MessageConfig,
    next: MessageId,
    in_flight: BTreeMap<MessageId, InFlight>,
    by_stream: HashMap<StreamId, MessageId, IdHash>,
    /// A message that was open when another came that depends on it, and that other one, while it is open.
    dependents: BTreeSet<(MessageId, MessageId)>,
    /// Those without a stream.
    waiting: BTreeSet<Place>,
    /// Deadlines that have not come, of messages whose fate is open.
    deadlines: BTreeSet<(Instant, MessageId)>,
    /// Those of them, of messages given up when hopeless, for which it was not too late yet.
    hopes: BTreeSet<(Instant, MessageId)>,
    /// What a packet takes at least.
    shortest_way: Duration,
    /// The latest fates.
    settled: BTreeMap<MessageId, MessageReport>,
    /// Whose they are, in the order in which they came.
    order: VecDeque<MessageId>,
    /// Fates that the application was not told. Bounded as `settled` is.
    untold: VecDeque<MessageReport>,
    next_message_at: Option<Instant>,
    /// When the latest message with a deadline was handed over, and the time that it had then.
    latest: Option<(Instant, Duration)>,
    refused: bool,
    stats: MessageStats,
}

impl Outgoing {
    pub(super) fn new(config: MessageConfig) -> Self {
        Self {
            config,
            next: MessageId(0),
            in_flight: BTreeMap::new(),
            by_stream: HashMap::with_hasher(IdHash::default()),
            dependents: BTreeSet::new(),
            waiting: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            hopes: BTreeSet::new(),
            shortest_way: Duration::ZERO,
            settled: BTreeMap::new(),
            order: VecDeque::new(),
            untold: VecDeque::new(),
            next_message_at: None,
            latest: None,
            refused: false,
            stats: MessageStats::default(),
        }
    }

    // ---- The application ----

    pub(super) fn send(
        &mut self,
        now: Instant,
        data: Bytes,
        options: &MessageOptions,
        streams: &mut StreamSet,
    ) -> Result<MessageId, SendMessageError> {
        let bytes = data.len() as u64;
        self.check(&options.depends_on, bytes)?;
        if !self.has_room(bytes) {
            self.refused = true;
            return Err(SendMessageError::Blocked(data));
        }
        let id = self.next;
        self.next = MessageId(id.0 + 1);
        self.next_message_at = None;
        self.stats.handed_over += 1;
        if let Some(deadline) = options.deadline {
            self.latest = Some((now, deadline.saturating_since(now)));
        }
        self.stats.in_flight_bytes += bytes;
        let message = InFlight {
            stream: None,
            rest: data,
            ended: false,
            bytes,
            priority: options.priority,
            protection: options.protection,
            pin: options.pin,
            handed_over: now,
            deadline: options.deadline,
            overdue: false,
            recovered: false,
            depends_on: options.depends_on.iter().copied().collect(),
        };
        let useless = self.is_useless(&message) || options.deadline.is_some_and(|at| at <= now);
        self.waiting.insert(place(id, &message));
        for on in &message.depends_on {
            if self.in_flight.contains_key(on) {
                self.dependents.insert((*on, id));
            }
        }
        self.in_flight.insert(id, message);
        if useless {
            self.settle(id, MessageFate::Expired, None);
            return Ok(id);
        }
        if let Some(deadline) = options.deadline {
            self.deadlines.insert((deadline, id));
            if options.expiry == Expiry::WhenHopeless {
                self.hopes.insert((deadline, id));
            }
        }
        self.open_streams(streams);
        Ok(id)
    }

    fn check(&self, depends_on: &[MessageId], bytes: u64) -> Result<(), SendMessageError> {
        let max = self.config.message_bytes;
        if bytes > max {
            return Err(SendMessageError::TooLarge { max });
        }
        let max = self.config.dependencies;
        if depends_on.len() > max {
            return Err(SendMessageError::TooManyDependencies { max });
        }
        for id in depends_on {
            if *id >= self.next {
                return Err(SendMessageError::UnknownDependency(*id));
            }
            if !self.in_flight.contains_key(id) && !self.settled.contains_key(id) {
                return Err(SendMessageError::ForgottenDependency(*id));
            }
        }
        Ok(())
    }

    fn has_room(&self, bytes: u64) -> bool {
        let count = self.in_flight.len();
        let held = self.stats.in_flight_bytes + (count as u64 + 1) * MESSAGE_OVERHEAD;
        let by_bytes = held.saturating_add(bytes) <= self.config.send_bytes || count == 0;
        count < self.config.in_flight.max(1) && by_bytes
    }

    pub(super) fn set_next_message_at(&mut self, at: Option<Instant>) {
        self.next_message_at = at;
    }

    pub(super) fn fate(&self, id: MessageId) -> Option<MessageReport> {
        self.settled.get(&id).copied()
    }

    /// Whether a fate is still to come.
    pub(super) fn is_open(&self, id: MessageId) -> bool {
        self.in_flight.contains_key(&id)
    }

    /// Whether this is the stream of a message whose deadline has come.
    pub(super) fn is_overdue(&self, now: Instant, stream: StreamId) -> bool {
        let message = self.by_stream.get(&stream);
        let message = message.and_then(|id| self.in_flight.get(id));
        message
            .is_some_and(|message| message.overdue || message.deadline.is_some_and(|at| at <= now))
    }

    pub(super) fn poll_fate(&mut self) -> Option<MessageReport> {
        let report = self.untold.pop_front();
        if self.untold.is_empty() && self.untold.capacity() > 64 {
            self.untold = VecDeque::new();
        }
        report
    }

    /// Whether a refused message would be taken now; true once per refusal.
    pub(super) fn take_unblocked(&mut self) -> bool {
        let unblocked = self.refused
            && self.in_flight.len() <= self.config.in_flight / 2
            && self.stats.in_flight_bytes <= self.config.send_bytes / 2;
        if unblocked {
            self.refused = false;
        }
        unblocked
    }

    pub(super) fn stats(&self) -> MessageStats {
        MessageStats {
            in_flight: self.in_flight.len(),
            ..self.stats
        }
    }

    pub(super) fn time_lately(&self, now: Instant) -> Option<Duration> {
        let (at, time) = self.latest?;
        (now.saturating_since(at) < LATELY).then_some(time)
    }

    pub(super) fn outlook(&self, arrival: Instant, streams: &StreamSet) -> MessageOutlook {
        let can_be_met = self.deadlines.range((arrival, MessageId(0))..);
        // Repair symbols are of no use to messages that they do not cover.
        let protected = |(deadline, id): &(Instant, MessageId)| {
            let message = self.in_flight.get(id)?;
            let lifetime = deadline.saturating_since(message.handed_over);
            (message.protection != Protection::Never).then_some((*deadline, lifetime))
        };
        let can_be_met = can_be_met.take(LOOKED_AT).filter_map(protected);
        let nearest = can_be_met.reduce(|nearest, next| (nearest.0, nearest.1.min(next.1)));
        MessageOutlook {
            deadline: nearest.map(|(deadline, _)| deadline),
            lifetime: nearest.map(|(_, lifetime)| lifetime),
            sent_deadline: streams.sent_deadline(),
            next_message_at: self.next_message_at,
        }
    }

    pub(super) fn needed_rate(&self, now: Instant, way: Duration, streams: &StreamSet) -> Rate {
        let arrival = now + way;
        let mut bytes = 0;
        let mut needed = Rate::ZERO;
        let open = self.deadlines.range((arrival, MessageId(0))..);
        for (deadline, id) in open.take(LOOKED_AT) {
            let Some(message) = self.in_flight.get(id) else {
                continue;
            };
            let written = message.stream.map_or(0, |id| streams.unsent_bytes(id));
            let left = written + message.rest.len() as u64;
            bytes += left;
            let in_all = deadline.saturating_since(message.handed_over + way);
            let spare = SPARE.min(in_all / 4);
            let time = deadline.saturating_since(arrival).saturating_sub(spare);
            // With less it is late in any case.
            if left > 0 && time >= LEAST_TIME {
                needed = needed.max(Rate::from_bytes_over(bytes, time));
            }
        }
        needed.mul_f64(HASTE)
    }

    // ---- Streams ----

    /// Gives messages streams as far as the peer allows.
    pub(super) fn open_streams(&mut self, streams: &mut StreamSet) {
        while let Some(&(_, _, id)) = self.waiting.first() {
            let Some(message) = self.in_flight.get_mut(&id) else {
                self.waiting.pop_first();
                continue;
            };
            let (priority, deadline) = (message.priority, message.deadline);
            let Some(stream) =
                streams.open_message(priority, deadline, message.protection, message.pin)
            else {
                return;
            };
            self.waiting.pop_first();
            message.stream = Some(stream);
            self.by_stream.insert(stream, id);
            self.write(id, streams);
        }
    }

    /// Hands bytes to the message's stream, and the end behind the last.
    fn write(&mut self, id: MessageId, streams: &mut StreamSet) {
        let Some(message) = self.in_flight.get_mut(&id) else {
            return;
        };
        let Some(stream) = message.stream else { return };
        // What the stream refuses for good is told by a notice.
        let _ = streams.write_bytes(stream, &mut message.rest);
        if message.rest.is_empty() && streams.finish(stream).is_ok() {
            // Not an empty slice of what the application handed over.
            message.rest = Bytes::new();
            message.ended = true;
        }
    }

    pub(super) fn on_notice(
        &mut self,
        now: Instant,
        one_way_delay: Duration,
        notice: Notice,
        streams: &mut StreamSet,
    ) {
        let (Notice::Writable(stream)
        | Notice::Delivered(stream)
        | Notice::Stopped { id: stream, .. }
        | Notice::Lost(stream)
        | Notice::Readable(stream)) = notice;
        let Some(&id) = self.by_stream.get(&stream) else {
            return;
        };
        match notice {
            Notice::Writable(_) => self.write(id, streams),
            Notice::Delivered(_) => {
                let arrived = now - one_way_delay;
                let message = self.in_flight.get(&id);
                let handed_over = message.map_or(arrived, |message| message.handed_over);
                let arrived = arrived.max(handed_over);
                let deadline = message.and_then(|message| message.deadline);
                let fate = if deadline.is_some_and(|deadline| arrived > deadline) {
                    MessageFate::Late
                } else {
                    MessageFate::OnTime
                };
                self.settle(id, fate, Some(arrived));
            }
            Notice::Stopped { code, .. } => {
                self.settle(id, MessageFate::Refused(code), None);
                self.expire_dependents(&[id], streams);
            }
            Notice::Lost(_) => {
                let message = self.in_flight.get(&id);
                let overdue = message.is_some_and(|message| message.overdue);
                // Sent again it would come too late. Another copy may have arrived since.
                if overdue && streams.needs_sending(stream) {
                    self.expire(id, streams);
                    self.expire_dependents(&[id], streams);
                }
            }
            Notice::Readable(_) => {}
        }
    }

    /// Some of a stream came by repair symbols.
    pub(super) fn on_recovered(&mut self, stream: StreamId) {
        let id = self.by_stream.get(&stream);
        if let Some(message) = id.and_then(|id| self.in_flight.get_mut(id)) {
            message.recovered = true;
        }
    }

    // ---- Time ----

    pub(super) fn timer(&self) -> Option<Instant> {
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        let hope = self.hopes.first().map(|(deadline, _)| *deadline);
        earliest(deadline, hope.map(|deadline| deadline - self.shortest_way))
    }

    /// Deadlines that have come: what is not on its way yet would come too late. What is, may have
    /// arrived: acknowledgement or loss will tell. The same for deadlines that are too near.
    pub(super) fn on_timeout(
        &mut self,
        now: Instant,
        shortest_way: Duration,
        streams: &mut StreamSet,
    ) {
        self.shortest_way = shortest_way;
        let mut expired = SmallVec::<[MessageId; 8]>::new();
        loop {
            let id = match (self.deadlines.first(), self.hopes.first()) {
                (_, Some(&(deadline, id))) if deadline - shortest_way <= now => {
                    self.hopes.pop_first();
                    id
                }
                (Some(&(deadline, id)), _) if deadline <= now => {
                    self.deadlines.pop_first();
                    id
                }
                _ => break,
            };
            let Some(message) = self.in_flight.get_mut(&id) else {
                continue;
            };
            let ended = message.stream.filter(|_| message.ended);
            if ended.is_some_and(|stream| !streams.needs_sending(stream)) {
                message.overdue = true;
            } else {
                self.expire(id, streams);
                expired.push(id);
            }
        }
        self.expire_dependents(&expired, streams);
    }

    fn expire(&mut self, id: MessageId, streams: &mut StreamSet) {
        let stream = self.in_flight.get(&id).and_then(|message| message.stream);
        if let Some(stream) = stream {
            // One that is over needs none.
            let _ = streams.reset(
                stream,
                self.config.expired_code.min(crate::wire::MAX_VARINT),
            );
        }
        self.settle(id, MessageFate::Expired, None);
    }

    /// Messages of no use without these, which were not delivered, and those of no use without them. They depend on earlier
    /// ones only.
    fn expire_dependents(&mut self, undelivered: &[MessageId], streams: &mut StreamSet) {
        let mut useless = BTreeSet::new();
        for of in undelivered {
            useless.extend(self.dependents_of(*of));
        }
        while let Some(id) = useless.pop_first() {
            self.expire(id, streams);
            useless.extend(self.dependents_of(id));
        }
    }

    fn dependents_of(&self, of: MessageId) -> impl Iterator<Item = MessageId> {
        let all = (of, MessageId(0))..=(of, MessageId(u64::MAX));
        self.dependents.range(all).map(|(_, dependent)| *dependent)
    }

    fn is_useless(&self, message: &InFlight) -> bool {
        message.depends_on.iter().any(|id| {
            let report = self.settled.get(id);
            report.is_some_and(|report| !report.fate.is_delivered())
        })
    }

    // ---- Fates ----

    fn settle(&mut self, id: MessageId, fate: MessageFate, arrived: Option<Instant>) {
        let Some(message) = self.in_flight.remove(&id) else {
            return;
        };
        match message.stream {
            Some(stream) => {
                self.by_stream.remove(&stream);
            }
            None => {
                self.waiting.remove(&place(id, &message));
            }
        }
        for on in &message.depends_on {
            self.dependents.remove(&(*on, id));
        }
        if let Some(deadline) = message.deadline {
            self.deadlines.remove(&(deadline, id));
            self.hopes.remove(&(deadline, id));
        }
        let stats = &mut self.stats;
        stats.in_flight_bytes = stats.in_flight_bytes.saturating_sub(message.bytes);
        let counter = match fate {
            MessageFate::OnTime => &mut stats.on_time,
            MessageFate::Late => &mut stats.late,
            MessageFate::Expired => &mut stats.expired,
            MessageFate::Refused(_) => &mut stats.refused,
            MessageFate::Unknown => &mut stats.unknown,
        };
        *counter += 1;
        stats.recovered += u64::from(message.recovered && fate.is_delivered());
        let report = MessageReport {
            id,
            fate,
            recovered: message.recovered,
            bytes: message.bytes,
            handed_over: message.handed_over,
            deadline: message.deadline,
            arrived,
            stream: message.stream,
        };
        self.settled.insert(id, report);
        self.order.push_back(id);
        self.untold.push_back(report);
        // All that can end at once are remembered: others may depend on them.
        let most = self.config.remembered.max(self.config.in_flight);
        while self.order.len() > most {
            if let Some(oldest) = self.order.pop_front() {
                self.settled.remove(&oldest);
            }
        }
        while self.untold.len() > most {
            self.untold.pop_front();
        }
    }

    /// The connection is over: nothing more will be known of what is open.
    pub(super) fn on_connection_over(&mut self) {
        while let Some((&id, _)) = self.in_flight.first_key_value() {
            self.settle(id, MessageFate::Unknown, None);
        }
        self.by_stream = HashMap::with_hasher(IdHash::default());
        self.next_message_at = None;
        self.refused = false;
    }
}

fn place(id: MessageId, message: &InFlight) -> Place {
    let deadline = message.deadline.unwrap_or(Instant::FAR_FUTURE);
    (deadline, message.priority.urgency, id)
}
