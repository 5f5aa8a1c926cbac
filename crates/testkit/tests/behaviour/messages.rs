//! Messages with deadlines, dependencies and fates. docs/messages.md.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use proptest::prelude::*;
use tautline_sim::{Direction, LinkConfig, LossModel};
use tautline_testkit::{apps::Manual, trace::FrameTrace};
use tautline_transport::{
    config::{TransportConfig, WindowConfig},
    congestion,
    connection::Event,
    fec::redundancy::registry,
    message::{
        Expiry, MessageEvent, MessageFate, MessageId, MessageOptions, MessageReport,
        ReceiveMessageError, SendMessageError,
    },
    stream::{ReadError, ResetError, WriteError, sched},
    time::Instant,
    units::{Dir, PathId, StreamId},
};

use crate::kit::{MS, Net, SECOND, Setup, calm, wire};

const RESET_STREAM: FrameTrace = FrameTrace::Other(0x04);

fn fates(net: &Net<Manual, Manual>) -> BTreeMap<MessageId, MessageReport> {
    let mut fates = BTreeMap::new();
    for (_, event) in &net.client_app().events {
        if let Event::Message(MessageEvent::Fate(report)) = event {
            let before = fates.insert(report.id, *report);
            assert_eq!(before, None, "one fate for each message");
        }
    }
    fates
}

fn fate(net: &Net<Manual, Manual>, id: MessageId) -> Option<MessageFate> {
    let report = fates(net).get(&id).copied();
    assert_eq!(report, net.client_connection().message_fate(id));
    report.map(|report| report.fate)
}

/// A connected pair, whose server takes messages.
fn pair(setup: Setup) -> Net<Manual, Manual> {
    let mut net = setup.manual();
    net.connect();
    net.on_server(|server, _| server.receive_messages());
    net
}

fn body(id: u64, bytes: usize) -> Bytes {
    (0..bytes)
        .map(|at| (at as u64 * 31 + id * 7) as u8)
        .collect()
}

/// Sends a message of `bytes` from the client that is of use for `within`.
fn send(net: &mut Net<Manual, Manual>, bytes: usize, within: Option<Duration>) -> MessageId {
    send_behind(net, bytes, within, &[])
}

fn send_behind(
    net: &mut Net<Manual, Manual>,
    bytes: usize,
    within: Option<Duration>,
    depends_on: &[MessageId],
) -> MessageId {
    net.on_client(|client, now| {
        let options = MessageOptions {
            deadline: within.map(|within| now + within),
            depends_on: depends_on.to_vec(),
            ..MessageOptions::default()
        };
        let next = client.message_stats().handed_over;
        let id = client.send_message(now, body(next, bytes), &options);
        assert_eq!(id, Ok(MessageId(next)));
        MessageId(next)
    })
}

/// What the server has received.
fn received(net: &mut Net<Manual, Manual>) -> BTreeMap<StreamId, Bytes> {
    net.on_server(|server, _| {
        std::iter::from_fn(|| server.recv_message())
            .map(|message| message.expect("none is refused"))
            .map(|message| (message.stream, message.data))
            .collect()
    })
}

fn resets(net: &Net<Manual, Manual>) -> usize {
    net.client_trace.with(0, |client| {
        client.frames_sent().filter(|f| **f == RESET_STREAM).count()
    })
}

fn sent_so_far(net: &Net<Manual, Manual>) -> u64 {
    net.world
        .link_stats(net.link, Direction::Forward)
        .sent_packets
}

/// Nothing is left of messages at either end.
fn assert_nothing_left(net: &Net<Manual, Manual>) {
    let (client, server) = (net.client_connection(), net.server_connection());
    for connection in [client, server] {
        assert_eq!(connection.stream_stats().open_streams, 0);
        assert_eq!(connection.stream_stats().send_buffered_bytes, 0);
        let stats = connection.message_stats();
        assert_eq!((stats.in_flight, stats.in_flight_bytes), (0, 0));
        assert_eq!((stats.unread, stats.unread_bytes), (0, 0));
    }
}

#[test]
fn messages_arrive_whole_whatever_their_size() {
    let windows = |config: &mut TransportConfig| {
        config.stream_receive_window = WindowConfig::fixed(20_000);
        config.connection_receive_window = WindowConfig::fixed(50_000);
    };
    let mut net = pair(Setup::new(1, calm()).both(windows));
    let sizes = [0, 1, 1_200, 19_999, 20_000, 200_000, 0];
    for bytes in sizes {
        send(&mut net, bytes, Some(2 * SECOND));
    }
    net.run_for(SECOND);
    assert!(
        net.server_app()
            .saw(&Event::Message(MessageEvent::Received))
    );
    let mut messages = received(&mut net);
    let fates = fates(&net);
    for (index, bytes) in (0..).zip(sizes) {
        let report = fates[&MessageId(index)];
        assert_eq!(report.fate, MessageFate::OnTime, "message {index}");
        assert_eq!((report.bytes, report.recovered), (bytes as u64, false));
        let data = messages.remove(&report.stream.unwrap());
        assert_eq!(data, Some(body(index, bytes)), "message {index}");
    }
    assert!(messages.is_empty());
    net.run_for(SECOND);
    assert_nothing_left(&net);
}

/// With 200 ms each way, acknowledgements come long after a deadline of 250 ms: nothing is given up
/// for that, and the time of arrival is known as well as the round trip is.
#[test]
fn what_is_on_its_way_at_its_deadline_is_not_given_up() {
    // No probe changes which packet asks for an acknowledgement at once: the last of them does.
    let setup = Setup::new(2, wire(100, 200)).both(|config| config.mtu.discovery = false);
    let mut net = pair(setup);
    let start = net.now();
    for _ in 0..5 {
        send(&mut net, 1_500, Some(250 * MS));
    }
    net.run_for(300 * MS);
    assert_eq!(fates(&net).len(), 0);
    assert_eq!(received(&mut net).len(), 5);
    net.run_for(SECOND);
    for report in fates(&net).values() {
        assert_eq!(report.fate, MessageFate::OnTime);
        let took = report.arrived.unwrap().saturating_since(start);
        assert!((195 * MS..230 * MS).contains(&took), "{took:?}");
    }
    assert_eq!((fates(&net).len(), resets(&net)), (5, 0));
    assert_nothing_left(&net);
}

#[test]
fn what_arrives_after_its_deadline_is_late() {
    let mut net = pair(Setup::new(3, wire(100, 50)));
    let id = send(&mut net, 500, Some(30 * MS));
    net.run_for(40 * MS);
    assert!(net.client_connection().is_message_open(id));
    net.run_for(SECOND);
    assert_eq!(fate(&net, id), Some(MessageFate::Late));
    assert_eq!((received(&mut net).len(), resets(&net)), (1, 0));
    assert_nothing_left(&net);
}

/// The first packet of a message is lost, and a retransmission would come too late.
#[test]
fn a_loss_that_cannot_be_made_good_in_time_ends_in_a_reset() {
    let run = |within| {
        let link = wire(100, 200);
        let first = sent_so_far(&pair(Setup::new(4, link.clone())));
        let mut lossy = link;
        lossy.forward.drop_packets.push(first..=first);
        let mut net = pair(Setup::new(4, lossy));
        assert_eq!(sent_so_far(&net), first);
        let id = send(&mut net, 10_000, Some(within));
        let behind = send_behind(&mut net, 100, None, &[id]);
        let other = send(&mut net, 100, None);
        net.run_for(2 * SECOND);
        assert_eq!(fate(&net, other), Some(MessageFate::OnTime));
        let resent = net.client_connection().stream_stats().retransmitted_bytes;
        let fates = (fate(&net, id).unwrap(), fate(&net, behind).unwrap());
        let got = received(&mut net).len();
        net.run_for(SECOND);
        assert_nothing_left(&net);
        (fates, resent > 0, resets(&net), got)
    };
    // The message behind it arrived, but that its dependency would not was known first.
    let ((fate, behind), resent, resets, got) = run(250 * MS);
    assert_eq!((fate, behind), (MessageFate::Expired, MessageFate::Expired));
    assert_eq!((resent, resets, got), (false, 2, 2));
    let (fates, resent, resets, got) = run(SECOND);
    assert_eq!(fates, (MessageFate::OnTime, MessageFate::OnTime));
    assert_eq!((resent, resets, got), (true, 0, 3));
}

/// At 1 Mb/s, what cannot be sent by its deadline is given up then, and so is what depends on it.
#[test]
fn what_finds_no_room_on_the_path_expires() {
    let mut net = pair(Setup::new(5, wire(1, 20)));
    let first = send(&mut net, 200_000, Some(300 * MS));
    let second = send_behind(&mut net, 1_000, Some(2 * SECOND), &[first]);
    let third = send_behind(&mut net, 1_000, None, &[second]);
    let last = send(&mut net, 1_000, None);
    net.run_for(299 * MS);
    assert_eq!(fates(&net).len(), 0);
    net.run_for(2 * MS);
    for id in [first, second, third] {
        assert_eq!(fate(&net, id), Some(MessageFate::Expired), "{id}");
    }
    net.run_for(3 * SECOND);
    assert_eq!(fate(&net, last), Some(MessageFate::OnTime));
    assert_eq!((received(&mut net).len(), resets(&net)), (1, 3));
    assert_nothing_left(&net);
    assert_eq!(net.server_connection().message_stats().given_up_by_peer, 3);
}

/// Losses keep the congestion window too narrow for what is sent: of what queues up all would come too
/// late, one after the other; given up in time, it makes room for the next.
#[test]
fn giving_up_what_is_hopeless_saves_others() {
    let run = |expiry| {
        let mut link = wire(20, 100);
        link.forward.loss = LossModel::uniform(0.03);
        let mut net = pair(Setup::new(14, link));
        for _ in 0..1_000 {
            net.on_client(|client, now| {
                let options = MessageOptions {
                    deadline: Some(now + 200 * MS),
                    expiry,
                    ..MessageOptions::default()
                };
                client
                    .send_message(now, body(0, 1_000), &options)
                    .expect("room");
            });
            net.run_for(10 * MS);
        }
        net.run_for(5 * SECOND);
        let client = net.client_connection();
        assert_eq!(client.stream_stats().open_streams, 0);
        assert_eq!(client.message_stats().in_flight, 0);
        client.message_stats().on_time
    };
    let (late, early) = (run(Expiry::AtDeadline), run(Expiry::WhenHopeless));
    assert!(early > 2 * late, "{late} {early}");
}

/// The stream scheduler `deadline` lets a message pass that has less time.
#[test]
fn the_deadline_scheduler_saves_what_is_urgent() {
    let run = |scheduler| {
        let config = |config: &mut TransportConfig| {
            // The last messages of a plan may be given up unsent: nothing is said for 30 s then.
            config.max_idle_timeout = None;
            config.stream_scheduler = sched::registry::by_name(scheduler).unwrap();
        };
        let mut net = pair(Setup::new(6, wire(10, 20)).both(config));
        let large = send(&mut net, 1_000_000, Some(3 * SECOND));
        let bulk = net.on_client(|client, _| {
            let id = client.open_stream(Dir::Uni).unwrap();
            client.write(id, &[1; 100_000]).unwrap();
            client.finish(id).unwrap();
            id
        });
        net.run_for(100 * MS);
        let small = send(&mut net, 10_000, Some(150 * MS));
        net.run_for(5 * SECOND);
        let events = net.client_stream_events();
        let finished = tautline_transport::stream::StreamEvent::Finished(bulk);
        assert!(events.contains(&finished));
        [fate(&net, large).unwrap(), fate(&net, small).unwrap()]
    };
    assert_eq!(run("deadline"), [MessageFate::OnTime; 2]);
    let by_age = [MessageFate::OnTime, MessageFate::Expired];
    assert_eq!(run("priority"), by_age);
}

#[test]
fn more_messages_than_streams_and_room_wait_their_turn() {
    let few = |config: &mut TransportConfig| {
        config.max_concurrent_uni_streams = 4;
        config.messages.in_flight = 50;
    };
    let mut net = pair(Setup::new(7, calm()).both(few));
    for _ in 0..50 {
        send(&mut net, 2_000, None);
    }
    net.on_client(|client, now| {
        let data = Bytes::from_static(b"one more");
        let refused = client.send_message(now, data.clone(), &MessageOptions::default());
        assert_eq!(refused, Err(SendMessageError::Blocked(data)));
    });
    net.run_for(2 * SECOND);
    let unblocked = Event::Message(MessageEvent::Unblocked);
    assert!(net.client_app().saw(&unblocked));
    assert_eq!(fates(&net).len(), 50);
    assert_eq!(received(&mut net).len(), 50);
    net.run_for(SECOND);
    assert_nothing_left(&net);
}

#[test]
fn the_receiver_refuses_what_is_too_long() {
    let short = |config: &mut TransportConfig| config.messages.message_bytes = 5_000;
    let mut net = pair(Setup::new(8, calm()).server(short));
    let long = send(&mut net, 100_000, None);
    let behind = send_behind(&mut net, 500_000, None, &[long]);
    let short = send(&mut net, 5_000, None);
    net.run_for(SECOND);
    assert_eq!(fate(&net, long), Some(MessageFate::Refused(2)));
    assert!(matches!(
        fate(&net, behind),
        Some(MessageFate::Expired | MessageFate::Refused(2))
    ));
    assert_eq!(fate(&net, short), Some(MessageFate::OnTime));
    let taken: Vec<_> =
        net.on_server(|server, _| std::iter::from_fn(|| server.recv_message()).collect());
    let max = 5_000;
    let refused = |taken: &Result<_, _>| match taken {
        Err(ReceiveMessageError::TooLarge { max: told, .. }) => *told == max,
        _ => false,
    };
    assert!(taken.iter().any(refused));
    assert!(taken.iter().any(|taken| taken.is_ok()));
    net.run_for(SECOND);
    assert_nothing_left(&net);
}

/// A controller that sees an application with pauses paces by what it sees. What has a deadline
/// leaves as fast as that needs, within the window.
#[test]
fn large_messages_in_a_thin_stream_are_not_held_up_by_the_pacer() {
    for name in ["bbr3-taut", "cubic"] {
        let config = |config: &mut TransportConfig| {
            config.congestion = congestion::registry::by_name(name).unwrap();
        };
        let mut net = pair(Setup::new(21, wire(20, 200)).both(config).quiet());
        let mut large = Vec::new();
        for frame in 0..1_500 {
            let is_large = frame % 60 == 0;
            let bytes = if is_large { 60_000 } else { 1_000 };
            // Of which 200 ms are the way, 24 the link's, and some 20 those of acknowledgements.
            let id = send(&mut net, bytes, Some(290 * MS));
            if is_large && frame >= 600 {
                large.push(id);
            }
            net.run_for(33 * MS);
        }
        net.run_for(SECOND);
        let fates = fates(&net);
        let on_time = large
            .iter()
            .filter(|id| fates[id].fate == MessageFate::OnTime);
        assert_eq!(on_time.count(), large.len(), "{name}");
    }
}

/// Messages whose deadline leaves time for one retransmission ask for acknowledgements without delay.
#[test]
fn time_for_one_retransmission_asks_for_prompt_acknowledgements() {
    let delays = |one_way_ms: u64, within: Option<Duration>| {
        let mut net = pair(Setup::new(31, wire(20, one_way_ms)));
        for _ in 0..20 {
            send(&mut net, 900, within);
            net.run_for(40 * MS);
        }
        let asked: Vec<u64> = net.client_trace.with(0, |client| {
            let frames = client.frames_sent();
            frames
                .filter_map(|frame| match frame {
                    FrameTrace::AckFrequency { max_delay_us, .. } => Some(*max_delay_us),
                    _ => None,
                })
                .collect()
        });
        let rtt = net
            .client_connection()
            .path_stats(PathId::ZERO)
            .unwrap()
            .rtt;
        (asked, rtt)
    };
    let (asked, rtt) = delays(75, Some(250 * MS));
    assert_eq!(asked, [1_000], "once");
    assert!(rtt < 160 * MS, "{rtt:?}");
    assert_eq!(delays(75, None).0, [0; 0], "no deadline");
    assert_eq!(delays(5, Some(250 * MS)).0, [0; 0], "time for many");
    assert_eq!(delays(100, Some(250 * MS)).0, [0; 0], "time for none");
}

#[test]
fn recovered_messages_are_told() {
    let protect = |config: &mut TransportConfig| {
        config.mtu.discovery = false;
        config.congestion = congestion::registry::by_name("ignore-loss").unwrap();
        config.fec.redundancy = registry::parse("constant:4,3").unwrap();
        config.fec.decode = true;
    };
    let mut link = wire(20, 100);
    link.forward.loss = LossModel::uniform(0.05);
    let mut net = pair(Setup::new(9, link).both(protect));
    // Until the congestion window is wide enough.
    send(&mut net, 500_000, None);
    net.run_for(3 * SECOND);
    for _ in 0..100 {
        send(&mut net, 3_000, Some(150 * MS));
        net.run_for(20 * MS);
    }
    net.run_for(2 * SECOND);
    let fates = fates(&net);
    let count = |of: &dyn Fn(&MessageReport) -> bool| fates.values().filter(|r| of(r)).count();
    let on_time = count(&|report| report.fate == MessageFate::OnTime);
    let recovered = count(&|report| report.recovered && report.fate.is_delivered());
    assert!(on_time >= 90 && recovered >= 10, "{on_time} {recovered}");
    let stats = net.client_connection().message_stats();
    assert_eq!(
        (stats.on_time, stats.recovered),
        (on_time as u64, recovered as u64)
    );
}

/// A repair symbol that leaves at the last moment is acknowledged long after the deadline: until it is, a message that it may
/// have saved is not given up, nor are those that depend on it.
#[test]
fn what_repair_symbols_may_have_saved_is_not_given_up() {
    const MESSAGES: u64 = 1_500;
    const GROUP: u64 = 30;
    let run = |redundancy: &str| {
        let mut link = wire(20, 40);
        link.forward.loss = LossModel::uniform(0.06);
        let mut net = pair(Setup::new(7, link).both(|config| {
            config.congestion = congestion::registry::by_name("bbr3-taut").unwrap();
            config.fec.redundancy = registry::parse(redundancy).unwrap();
            config.fec.decode = true;
        }));
        let mut key = MessageId(0);
        let mut came = BTreeMap::new();
        for number in 0..MESSAGES {
            let behind: &[MessageId] = if number % GROUP == 0 { &[] } else { &[key] };
            let id = send_behind(&mut net, 1_000, Some(150 * MS), behind);
            if number % GROUP == 0 {
                key = id;
            }
            net.run_for(33 * MS);
            came.extend(received(&mut net));
        }
        net.run_for(5 * SECOND);
        came.extend(received(&mut net));
        let fates = fates(&net);
        let count = |is: &dyn Fn(&MessageReport) -> bool| fates.values().filter(|f| is(f)).count();
        let on_time = count(&|report| report.fate == MessageFate::OnTime);
        let expired = count(&|report| report.fate == MessageFate::Expired);
        let wrongly = count(&|report| {
            let stream = report.stream;
            report.fate == MessageFate::Expired && stream.is_some_and(|id| came.contains_key(&id))
        });
        let told = count(&|report| report.recovered);
        println!(
            "{redundancy}: {on_time} on time, {expired} expired, {wrongly} of them came, {told} recovered"
        );
        (on_time, expired, wrongly, told)
    };
    let (plain, plain_expired, ..) = run("none");
    for redundancy in ["auto", "flec-message"] {
        let (on_time, expired, wrongly, told) = run(redundancy);
        assert!(on_time > plain + 30, "{redundancy}: {on_time}");
        assert!(expired <= plain_expired + 30, "{redundancy}: {expired}");
        assert!(wrongly <= 2, "{redundancy}: {wrongly}");
        assert!(told > 30, "{redundancy}: {told}");
    }
}

/// Of a long message some packets are known to be lost and go out again before the last moment, and others are not: repair symbols go
/// over these alone.
#[test]
fn long_messages_are_saved_in_parts() {
    let run = |redundancy: &str| {
        let mut link = wire(20, 75);
        link.forward.loss = LossModel::Gilbert {
            probability: 0.06,
            mean_burst: 3.0,
            max_burst: None,
        };
        let mut net = pair(Setup::new(9, link).both(|config| {
            config.congestion = congestion::registry::by_name("bbr3-taut").unwrap();
            config.fec.redundancy = registry::parse(redundancy).unwrap();
            config.fec.decode = true;
        }));
        for _ in 0..1_000 {
            send(&mut net, 30_000, Some(250 * MS));
            net.run_for(67 * MS);
            received(&mut net);
        }
        net.run_for(5 * SECOND);
        received(&mut net);
        let fates = fates(&net);
        let fates = fates.values().map(|report| report.fate);
        let late = fates.filter(|fate| *fate != MessageFate::OnTime).count();
        let path = net.client_connection().path_stats(PathId::ZERO);
        let sent = path.unwrap().recovery.packets_sent;
        println!("{redundancy}: {late} late, {sent} packets");
        late
    };
    let plain = run("none");
    let auto = run("auto");
    assert!(auto * 5 < plain, "{auto} late, {plain} without");
}

#[test]
fn the_end_of_the_connection_is_a_fate() {
    let mut net = pair(Setup::new(10, calm()));
    let id = send(&mut net, 1_000, Some(SECOND));
    net.on_client(|client, now| {
        client.close(now, 0, Bytes::new());
        let late = client.send_message(now, Bytes::new(), &MessageOptions::default());
        assert_eq!(late, Err(SendMessageError::Closed));
        client.next_message_at(Some(now));
    });
    net.run_for(MS);
    let events = &net.client_app().events;
    let told = events.iter().position(|(_, event)| {
        matches!(event, Event::Message(MessageEvent::Fate(report))
            if report.id == id && report.fate == MessageFate::Unknown)
    });
    let lost = events
        .iter()
        .position(|(_, event)| matches!(event, Event::Lost(_)));
    assert!(told.unwrap() < lost.unwrap());
}

#[test]
fn streams_of_messages_are_not_for_the_application() {
    let mut net = pair(Setup::new(11, wire(1, 50)));
    let id = send(&mut net, 50_000, None);
    net.run_for(SECOND);
    let stream = StreamId(2);
    net.on_client(|client, _| {
        assert_eq!(client.write(stream, b"x"), Err(WriteError::UnknownStream));
        assert_eq!(client.finish(stream), Err(WriteError::UnknownStream));
        assert_eq!(client.reset(stream, 0), Err(ResetError::UnknownStream));
    });
    net.on_server(|server, _| {
        assert_eq!(server.accept_stream(Dir::Uni), None);
        assert_eq!(server.read(stream, 10), Err(ReadError::UnknownStream));
        assert_eq!(server.stop(stream, 0), Err(ReadError::UnknownStream));
        server.receive_messages();
    });
    net.run_for(2 * SECOND);
    assert_eq!(fate(&net, id), Some(MessageFate::OnTime));
    assert!(net.client_stream_events().is_empty());
    assert!(net.server_stream_events().is_empty());
    assert_eq!(received(&mut net).len(), 1);
}

/// A plain receiver gets the same bytes as streams; messages handed over before the handshake is
/// done wait for it.
#[test]
fn on_the_wire_a_message_is_a_stream() {
    let mut net = Setup::new(12, calm()).manual();
    net.run_for(MS);
    send(&mut net, 3_000, Some(SECOND));
    net.connect();
    let data = net.on_server(|server, _| {
        let id = server.accept_stream(Dir::Uni).unwrap();
        crate::kit::read_all(server, id)
    });
    assert_eq!(data, (body(0, 3_000).to_vec(), true));
    net.run_for(100 * MS);
    assert_eq!(fate(&net, MessageId(0)), Some(MessageFate::OnTime));
}

#[test]
fn the_outlook_follows_what_is_sent() {
    let mut net = pair(Setup::new(13, wire(1, 50)));
    let start = net.now();
    let at = |ms: u32| Some(start + ms * MS);
    net.on_client(|client, _| client.next_message_at(at(40)));
    assert_eq!(outlook(&net).next_message_at, at(40));
    send(&mut net, 20_000, Some(500 * MS));
    send(&mut net, 100, Some(300 * MS));
    net.run_for(MS);
    let now = outlook(&net);
    assert_eq!((now.deadline, now.next_message_at), (at(300), None));
    assert_eq!(now.sent_deadline, at(500));
    net.run_for(200 * MS);
    assert_eq!(outlook(&net).sent_deadline, at(300));
    net.run_for(SECOND);
    assert_eq!(outlook(&net).deadline, None);
}

fn outlook(net: &Net<Manual, Manual>) -> tautline_transport::message::MessageOutlook {
    net.client_connection().message_outlook(net.now())
}

/// A message of the property below.
#[derive(Clone, Debug)]
struct Planned {
    pause: u16,
    bytes: usize,
    within: Option<u16>,
    behind: Vec<u8>,
    urgency: u8,
    early: bool,
}

fn planned() -> impl Strategy<Value = Planned> {
    let bytes = prop_oneof![Just(0), 1usize..3_000, 3_000usize..60_000];
    let within = prop_oneof![1 => Just(None), 4 => (0u16..600).prop_map(Some)];
    let behind = prop::collection::vec(1u8..6, 0..3);
    let early = any::<bool>();
    (0u16..40, bytes, within, behind, 0u8..8, early).prop_map(
        |(pause, bytes, within, behind, urgency, early)| Planned {
            pause,
            bytes,
            within,
            behind,
            urgency,
            early,
        },
    )
}

fn scenery() -> impl Strategy<Value = (u64, LinkConfig, &'static str, Option<&'static str>, u64)> {
    let names: Vec<_> = sched::registry::names().collect();
    let protect = prop::sample::select(vec![
        None,
        None,
        Some("constant:5,4"),
        Some("auto"),
        Some("flec-message"),
        Some("quirl-burst:0,30"),
        Some("rquic:tail=on"),
    ]);
    (
        any::<u64>(),
        1u64..20,
        5u64..200,
        0u32..15,
        prop::sample::select(names),
        protect,
        prop::sample::select(vec![1u64, 3, 100]),
    )
        .prop_map(
            |(seed, megabits, delay, loss, scheduler, protect, streams)| {
                let mut link = wire(megabits, delay);
                link.forward.loss = LossModel::uniform(f64::from(loss) / 100.0);
                link.backward.loss = LossModel::uniform(f64::from(loss) / 200.0);
                (seed, link, scheduler, protect, streams)
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever is sent over whatever link: every message has one fate; what is said to be delivered
    /// was; what depends on an undelivered one that was known to be so before is not sent; nothing
    /// is left behind.
    #[test]
    fn every_message_has_exactly_one_fate(
        plan in prop::collection::vec(planned(), 1..60),
        (seed, link, scheduler, protect, streams) in scenery(),
    ) {
        let config = |config: &mut TransportConfig| {
            // The last messages of a plan may be given up unsent: nothing is said for 30 s then.
            config.max_idle_timeout = None;
            config.stream_scheduler = sched::registry::by_name(scheduler).unwrap();
            config.max_concurrent_uni_streams = streams;
            if let Some(protect) = protect {
                config.fec.redundancy = registry::parse(protect).unwrap();
                config.fec.decode = true;
            }
        };
        let mut net = pair(Setup::new(seed, link).both(config).quiet());
        let mut sent: Vec<(MessageId, Option<Instant>)> = Vec::new();
        let mut messages = BTreeMap::new();
        for planned in &plan {
            net.run_for(u32::from(planned.pause) * MS);
            messages.extend(received(&mut net));
            let known: Vec<_> = fates(&net).into_values().collect();
            let (id, deadline, useless) = net.on_client(|client, now| {
                let next = client.message_stats().handed_over;
                let behind = planned.behind.iter();
                let behind = behind.filter_map(|back| next.checked_sub(u64::from(*back)));
                let options = MessageOptions {
                    deadline: planned.within.map(|within| now + u32::from(within) * MS),
                    priority: sched::Priority { urgency: planned.urgency, incremental: false },
                    depends_on: behind.map(MessageId).collect(),
                    expiry: if planned.early { Expiry::WhenHopeless } else { Expiry::AtDeadline },
                    ..MessageOptions::default()
                };
                let useless = known.iter().any(|report| {
                    options.depends_on.contains(&report.id) && !report.fate.is_delivered()
                });
                let id = client.send_message(now, body(next, planned.bytes), &options);
                (id.expect("within the limits"), options.deadline, useless)
            });
            if useless {
                let report = net.client_connection().message_fate(id).unwrap();
                prop_assert_eq!((report.fate, report.stream), (MessageFate::Expired, None));
            }
            sent.push((id, deadline));
        }
        net.run_for(400 * SECOND);
        messages.extend(received(&mut net));
        let fates = fates(&net);
        prop_assert_eq!(fates.len(), sent.len());
        for (id, deadline) in &sent {
            let report = fates[id];
            prop_assert_eq!(report.deadline, *deadline);
            let data = report.stream.and_then(|stream| messages.remove(&stream));
            let whole = body(id.0, report.bytes as usize);
            match report.fate {
                MessageFate::OnTime => {
                    prop_assert_eq!(data, Some(whole));
                    prop_assert!(deadline.is_none_or(|at| report.arrived.unwrap() <= at));
                }
                MessageFate::Late => {
                    prop_assert_eq!(data, Some(whole));
                    prop_assert!(report.arrived > *deadline);
                }
                // It may have arrived before the sender could know.
                MessageFate::Expired => prop_assert!(data.is_none_or(|data| data == whole)),
                other => prop_assert!(false, "{id} {other:?}"),
            }
        }
        prop_assert!(messages.is_empty());
        assert_nothing_left(&net);
    }
}
