use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::{
    config::{TransportConfig, WindowConfig},
    stream::PeerLimits,
    units::Side,
};

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

/// A room and the streams below it; the peer allows `streams` of `window` bytes each.
struct Room {
    messages: Messages,
    streams: StreamSet,
    config: MessageConfig,
}

impl Room {
    fn new(streams: u64, window: u64) -> Self {
        let config = TransportConfig::default();
        let mut set = StreamSet::new(Side::Client, &config);
        set.set_peer_limits(&PeerLimits {
            max_data: 1 << 30,
            max_stream_data_uni: window,
            max_streams_uni: streams,
            ..PeerLimits::default()
        });
        Self {
            messages: Messages::default(),
            streams: set,
            config: MessageConfig::default(),
        }
    }

    fn send(
        &mut self,
        now: u64,
        bytes: usize,
        options: &MessageOptions,
    ) -> Result<MessageId, SendMessageError> {
        let data = Bytes::from(vec![7; bytes]);
        self.messages
            .send(at(now), &self.config, data, options, &mut self.streams)
    }

    fn catch_up(&mut self, now: u64) {
        let way = OneWay {
            smoothed: Duration::from_millis(50),
            shortest: Duration::from_millis(40),
        };
        self.messages.catch_up(at(now), way, &mut self.streams);
    }

    /// Fates that were not told yet.
    fn fates(&mut self) -> Vec<(u64, MessageFate)> {
        let events = std::iter::from_fn(|| self.messages.poll_event());
        let fate = |event| match event {
            MessageEvent::Fate(report) => Some((report.id.0, report.fate)),
            _ => None,
        };
        events.filter_map(fate).collect()
    }
}

fn by(deadline: u64) -> MessageOptions {
    MessageOptions {
        deadline: Some(at(deadline)),
        ..MessageOptions::default()
    }
}

fn behind(ids: &[u64]) -> MessageOptions {
    MessageOptions {
        depends_on: ids.iter().copied().map(MessageId).collect(),
        ..MessageOptions::default()
    }
}

#[test]
fn nothing_is_held_before_the_first_message() {
    let mut room = Room::new(10, 1000);
    room.catch_up(1);
    assert!(!room.messages.in_use());
    assert_eq!(room.messages.stats(), MessageStats::default());
    assert_eq!(room.messages.timer(), None);
    let outlook = room.messages.outlook(at(0), &room.streams);
    assert_eq!(outlook, MessageOutlook::default());
}

#[test]
fn a_deadline_that_has_come_expires_at_once() {
    let mut room = Room::new(10, 1000);
    for deadline in [0, 5, 10] {
        room.send(10, 100, &by(deadline)).unwrap();
    }
    let expired = MessageFate::Expired;
    assert_eq!(room.fates(), [(0, expired), (1, expired), (2, expired)]);
    assert_eq!(room.fates(), []);
    // No stream was opened for them.
    assert_eq!(room.streams.stats().open_streams, 0);
    assert_eq!(room.messages.timer(), None);
    let report = room.messages.fate(MessageId(1)).unwrap();
    assert_eq!((report.stream, report.arrived), (None, None));
}

#[test]
fn what_was_not_sent_expires_at_its_deadline() {
    let mut room = Room::new(1, 1000);
    room.send(0, 100, &by(200)).unwrap();
    room.send(0, 100, &by(100)).unwrap();
    assert_eq!(room.messages.timer(), Some(at(100)));
    room.catch_up(99);
    assert_eq!(room.fates(), []);
    // The second had no stream, the first one that was never sent.
    room.catch_up(100);
    assert_eq!(room.fates(), [(1, MessageFate::Expired)]);
    room.catch_up(200);
    assert_eq!(room.fates(), [(0, MessageFate::Expired)]);
    assert!(room.streams.has_control(), "RESET_STREAM is due");
    assert_eq!(room.messages.timer(), None);
    assert_eq!(room.messages.stats().in_flight_bytes, 0);
}

#[test]
fn what_is_hopeless_expires_before_its_deadline_where_wanted() {
    let mut room = Room::new(10, 1000);
    let early = MessageOptions {
        expiry: Expiry::WhenHopeless,
        ..by(200)
    };
    room.send(0, 100, &early).unwrap();
    room.send(0, 100, &by(200)).unwrap();
    room.catch_up(1);
    assert_eq!(room.messages.timer(), Some(at(160)));
    room.catch_up(159);
    assert_eq!(room.fates(), []);
    room.catch_up(160);
    assert_eq!(room.fates(), [(0, MessageFate::Expired)]);
    assert_eq!(room.messages.timer(), Some(at(200)));
    // What is hopeless from the start.
    let early = MessageOptions {
        expiry: Expiry::WhenHopeless,
        ..by(190)
    };
    room.send(170, 100, &early).unwrap();
    room.catch_up(170);
    assert_eq!(room.fates(), [(2, MessageFate::Expired)]);
    room.catch_up(200);
    assert_eq!(room.fates(), [(1, MessageFate::Expired)]);
    assert_eq!(room.messages.timer(), None);
}

#[test]
fn what_depends_on_an_expired_message_expires() {
    let mut room = Room::new(10, 1000);
    room.send(0, 10, &by(100)).unwrap();
    room.send(0, 10, &behind(&[0])).unwrap();
    room.send(0, 10, &behind(&[])).unwrap();
    room.send(0, 10, &behind(&[2, 1])).unwrap();
    room.catch_up(100);
    let expired = MessageFate::Expired;
    assert_eq!(room.fates(), [(0, expired), (1, expired), (3, expired)]);
    // Also later, and without a stream.
    let streams = room.streams.stats().open_streams;
    room.send(101, 10, &behind(&[3])).unwrap();
    assert_eq!(room.fates(), [(4, expired)]);
    assert_eq!(room.streams.stats().open_streams, streams);
    assert_eq!(room.messages.stats().in_flight, 1);
}

#[test]
fn misuse_has_its_errors() {
    let mut room = Room::new(10, 1000);
    room.config.message_bytes = 500;
    room.config.in_flight = 3;
    room.config.remembered = 3;
    room.config.dependencies = 2;
    let plain = MessageOptions::default();
    let error = room.send(0, 501, &plain).unwrap_err();
    assert_eq!(error, SendMessageError::TooLarge { max: 500 });
    let error = room.send(0, 1, &behind(&[0])).unwrap_err();
    assert_eq!(error, SendMessageError::UnknownDependency(MessageId(0)));
    room.send(0, 1, &plain).unwrap();
    let error = room.send(0, 1, &behind(&[0, 0, 0])).unwrap_err();
    assert_eq!(error, SendMessageError::TooManyDependencies { max: 2 });
    for _ in 0..2 {
        room.send(0, 1, &plain).unwrap();
    }
    let error = room.send(0, 1, &plain).unwrap_err();
    assert_eq!(error, SendMessageError::Blocked(vec![7].into()));
    assert_eq!(room.messages.poll_event(), None);
    room.messages.on_connection_over(&mut room.streams);
    assert_eq!(room.fates().len(), 3);
}

#[test]
fn fates_are_forgotten_in_the_order_in_which_they_came() {
    let mut room = Room::new(100, 1000);
    room.config.in_flight = 4;
    room.config.remembered = 4;
    room.send(0, 1, &MessageOptions::default()).unwrap();
    for _ in 0..6 {
        room.send(5, 1, &by(5)).unwrap();
    }
    let forgotten = SendMessageError::ForgottenDependency(MessageId(2));
    assert_eq!(room.send(5, 1, &behind(&[2])).unwrap_err(), forgotten);
    assert_eq!(room.messages.fate(MessageId(2)), None);
    assert!(room.messages.fate(MessageId(3)).is_some());
    assert!(room.messages.is_open(MessageId(0)));
    // Nobody polled.
    assert_eq!(room.fates().len(), 4);
}

#[test]
fn bytes_are_bounded_and_one_message_alone_always_fits() {
    let mut room = Room::new(100, 1 << 20);
    room.config.send_bytes = 1000;
    let plain = MessageOptions::default();
    room.send(0, 5000, &plain).unwrap();
    let blocked = room.send(0, 0, &plain).unwrap_err();
    assert_eq!(blocked, SendMessageError::Blocked(Bytes::new()));
    room.messages.on_connection_over(&mut room.streams);
    room.fates();
    // Empty ones cost something too.
    let mut room = Room::new(100, 1 << 20);
    room.config.send_bytes = 1000;
    let taken = (0..100).take_while(|_| room.send(0, 0, &plain).is_ok());
    assert_eq!(taken.count(), 15);
}

#[test]
fn the_outlook_names_the_nearest_deadline_that_can_be_met() {
    let mut room = Room::new(100, 1000);
    room.messages
        .set_next_message_at(&room.config, Some(at(70)));
    let outlook = |room: &Room, now: u64| room.messages.outlook(at(now + 50), &room.streams);
    assert_eq!(outlook(&room, 0).next_message_at, Some(at(70)));
    room.send(0, 10, &by(300)).unwrap();
    room.send(0, 10, &by(200)).unwrap();
    room.send(0, 10, &MessageOptions::default()).unwrap();
    let now = outlook(&room, 0);
    assert_eq!((now.deadline, now.next_message_at), (Some(at(200)), None));
    // The least time that one of them had, whichever is due first.
    let lifetime = |room: &Room, now| outlook(room, now).lifetime.map(|time| time.as_millis());
    assert_eq!(lifetime(&room, 0), Some(200));
    assert_eq!(lifetime(&room, 151), Some(300), "too late for the other");
    room.send(120, 10, &by(260)).unwrap();
    assert_eq!(lifetime(&room, 120), Some(140));
    assert_eq!(outlook(&room, 120).deadline, Some(at(200)));
    assert_eq!(outlook(&room, 150).deadline, Some(at(200)));
    assert_eq!(outlook(&room, 151).deadline, Some(at(260)));
    assert_eq!(outlook(&room, 211).deadline, Some(at(300)));
    let over = outlook(&room, 251);
    assert_eq!((over.deadline, over.lifetime), (None, None));
}

#[test]
fn messages_wait_for_streams_by_deadline_then_urgency() {
    let mut room = Room::new(0, 1000);
    let with = |deadline: Option<u64>, urgency| MessageOptions {
        deadline: deadline.map(at),
        priority: crate::stream::sched::Priority {
            urgency,
            incremental: false,
        },
        ..MessageOptions::default()
    };
    for (deadline, urgency) in [
        (None, 3),
        (None, 1),
        (Some(200), 3),
        (Some(100), 3),
        (Some(200), 0),
    ] {
        room.send(0, 1, &with(deadline, urgency)).unwrap();
    }
    room.streams
        .on_max_streams(crate::units::Dir::Uni, 5)
        .unwrap();
    room.catch_up(1);
    room.messages.on_connection_over(&mut room.streams);
    let mut streams: Vec<_> = (0..5)
        .map(|id| {
            (
                room.messages.fate(MessageId(id)).unwrap().stream.unwrap(),
                id,
            )
        })
        .collect();
    streams.sort_unstable();
    let order: Vec<u64> = streams.into_iter().map(|(_, id)| id).collect();
    assert_eq!(order, [3, 4, 2, 1, 0]);
}

/// What a server room receives when a client writes by hand.
struct Receiving {
    room: Messages,
    streams: StreamSet,
    config: MessageConfig,
}

impl Receiving {
    fn new(window: u64) -> Self {
        let config = TransportConfig {
            stream_receive_window: WindowConfig::fixed(window),
            connection_receive_window: WindowConfig::fixed(10 * window),
            ..TransportConfig::default()
        };
        Self {
            room: Messages::default(),
            streams: StreamSet::new(Side::Server, &config),
            config: MessageConfig::default(),
        }
    }

    fn start(&mut self) {
        self.room.receive(&self.config, &mut self.streams);
    }

    fn id(index: u64) -> StreamId {
        StreamId::new(Side::Client, crate::units::Dir::Uni, index)
    }

    fn data(&mut self, index: u64, offset: u64, len: usize, fin: bool) {
        let data = Bytes::from(vec![index as u8; len]);
        let rtt = Duration::from_millis(10);
        self.streams
            .on_stream_data(at(1), rtt, Self::id(index), offset, fin, data)
            .unwrap();
        self.room
            .catch_up(at(1), OneWay::default(), &mut self.streams);
    }

    fn take(&mut self) -> Option<Result<(u64, usize), ReceiveMessageError>> {
        let taken = self.room.take(&mut self.streams)?;
        Some(taken.map(|message| {
            let index = message.stream.index();
            assert!(message.data.iter().all(|byte| *byte == index as u8));
            (index, message.data.len())
        }))
    }
}

#[test]
fn messages_come_whole_and_in_the_order_of_their_ends() {
    let mut end = Receiving::new(10_000);
    end.data(0, 0, 10, false);
    end.start();
    end.data(1, 0, 5, true);
    end.data(2, 0, 0, true);
    assert_eq!(end.room.poll_event(), Some(MessageEvent::Received));
    end.data(0, 10, 10, true);
    assert_eq!(end.room.poll_event(), None);
    assert_eq!(end.take(), Some(Ok((1, 5))));
    assert_eq!(end.take(), Some(Ok((2, 0))));
    assert_eq!(end.take(), Some(Ok((0, 20))));
    assert_eq!(end.take(), None);
    assert_eq!(end.room.stats().unread_bytes, 0);
    assert_eq!(end.streams.stats().open_streams, 0);
    // The application is told nothing of their streams, and given none.
    assert_eq!(end.streams.poll_event(), None);
    assert_eq!(end.streams.accept(crate::units::Dir::Uni), None);
    end.data(3, 0, 1, true);
    assert_eq!(end.room.poll_event(), Some(MessageEvent::Received));
}

#[test]
fn too_long_a_message_is_refused() {
    let mut end = Receiving::new(10_000);
    end.config.message_bytes = 15;
    end.start();
    end.data(0, 0, 10, false);
    end.data(0, 10, 10, false);
    let too_large = ReceiveMessageError::TooLarge {
        stream: Receiving::id(0),
        max: 15,
    };
    assert_eq!(end.take(), Some(Err(too_large)));
    assert!(end.streams.has_control(), "STOP_SENDING is due");
    assert_eq!(end.room.stats().unread_bytes, 0);
    end.data(0, 20, 10, true);
    assert_eq!(end.take(), None);
    assert_eq!(end.streams.stats().open_streams, 0);
}

#[test]
fn a_message_longer_than_the_window_grows_in_parts() {
    let mut end = Receiving::new(1000);
    end.start();
    for part in 0..9 {
        end.data(0, part * 1000, 1000, part == 8);
        end.streams.set_congestion_window(0);
        // MAX_STREAM_DATA and MAX_DATA are due, and count as sent.
        assert!(part == 8 || end.streams.has_control());
        grant(&mut end.streams);
    }
    assert_eq!(end.take(), Some(Ok((0, 9000))));
}

/// Sends what flow control owes.
fn grant(streams: &mut StreamSet) {
    let mut buffer = [0; 1200];
    let mut tokens = Vec::new();
    let mut stats = crate::packet::FrameStats::default();
    let mut observer = crate::observe::Observer::none();
    let mut packet = crate::packet::PacketWriter::new(
        &mut buffer,
        crate::wire::PacketTypes::ONE_RTT,
        &mut tokens,
        &mut stats,
        &mut observer,
        at(1),
    );
    streams.write_control(&mut packet);
}

#[test]
fn what_nobody_takes_stops_the_peer_and_what_is_not_whole_makes_room() {
    let mut end = Receiving::new(1000);
    end.config.receive_bytes = 500;
    end.config.message_bytes = 400;
    end.start();
    // Whole ones: the third waits in its stream.
    for index in 0..3 {
        end.data(index, 0, 300, true);
    }
    assert_eq!(end.room.stats().unread, 2);
    assert_eq!(end.streams.stats().open_streams, 1);
    for index in 0..3 {
        assert_eq!(end.take(), Some(Ok((index, 300))));
    }
    assert_eq!(end.take(), None);
    // Parts: the newest gives way.
    for index in 3..6 {
        end.data(index, 0, 200, false);
    }
    let no_room = ReceiveMessageError::NoRoom {
        stream: Receiving::id(4),
    };
    let newest = ReceiveMessageError::NoRoom {
        stream: Receiving::id(5),
    };
    assert_eq!(end.take(), Some(Err(no_room)));
    assert_eq!(end.take(), Some(Err(newest)));
    end.data(3, 200, 100, true);
    assert_eq!(end.take(), Some(Ok((3, 300))));
    let stats = end.room.stats();
    assert_eq!(
        (stats.received, stats.refused_by_us, stats.unread_bytes),
        (4, 2, 0)
    );
}

#[test]
fn what_the_peer_gives_up_leaves_nothing() {
    let mut end = Receiving::new(1000);
    end.start();
    end.data(0, 0, 200, false);
    end.streams
        .on_reset_stream(&crate::wire::ResetStream {
            id: Receiving::id(0),
            code: 1,
            final_size: 300,
        })
        .unwrap();
    end.room
        .catch_up(at(2), OneWay::default(), &mut end.streams);
    assert_eq!(end.take(), None);
    assert_eq!(end.room.poll_event(), None);
    let stats = end.room.stats();
    assert_eq!((stats.given_up_by_peer, stats.unread_bytes), (1, 0));
    assert_eq!(end.streams.stats().open_streams, 0);
}

#[test]
fn what_came_whole_outlasts_the_connection() {
    let mut end = Receiving::new(1000);
    end.config.receive_bytes = 100;
    end.start();
    for index in 0..3 {
        end.data(index, 0, 300, true);
    }
    end.data(3, 0, 300, false);
    end.streams.on_connection_over(&TransportConfig::default());
    end.room.on_connection_over(&mut end.streams);
    for index in 0..3 {
        assert_eq!(end.take(), Some(Ok((index, 300))));
    }
    assert_eq!(end.take(), None);
    end.streams.discard_unread();
    end.room.abandon();
    assert_eq!(end.room.stats().unread_bytes, 0);
}
