use std::time::Duration;

use super::*;
use crate::{
    quantity::Size,
    stack::StackOptions,
    workload::{
        amount::Amount,
        tests::{clean, link, lossy, micros, ms, play, play_with},
    },
};

fn constant(every: u64, bytes: u64, count: u32) -> Messages {
    Messages::new(Trace::Constant(Constant {
        every: Span(ms(every)),
        bytes: Size(bytes).into(),
        count,
    }))
}

#[test]
fn small_messages_take_the_one_way_delay_either_way() {
    for direction in [Direction::Down, Direction::Up] {
        let mut messages = constant(20, 1_000, 200);
        messages.direction = direction;
        messages.deadline = Some(Span(ms(15)));
        let played = play(&messages, clean(), 1);
        let counted = played.counted(&messages);
        assert_eq!(counted.items.len(), 200);
        assert_eq!(counted.received_bytes, 200_000);
        assert!(counted.finished.is_some());
        for pair in counted.items.windows(2) {
            assert_eq!(pair[1].wanted, pair[0].wanted + ms(20));
        }
        let mut took: Vec<u128> = micros(&counted.items).into_iter().flatten().collect();
        took.sort_unstable();
        // 10 ms and the serialisation of one packet at 20 Mb/s, about 430 us; at the start a few
        // wait behind the end of the handshake and probes of the path's MTU.
        assert!((10_410..10_450).contains(&took[0]), "{took:?}");
        assert!((10_410..10_450).contains(&took[190]), "{took:?}");
        assert!(took[199] < 12_000, "{took:?}");
        assert!(counted.items.iter().all(Item::on_time));
        let sender = [&played.server, &played.client][usize::from(direction == Direction::Up)];
        assert_eq!(sender.extra["messages_handed_over"], 200.0);
        assert_eq!(sender.extra["messages_held"], 0.0);
    }
}

#[test]
fn a_video_conference_is_on_time_on_an_ample_link_and_late_on_a_thin_one() {
    let mut messages = Messages::new(Trace::VideoConference);
    let played = play(&messages, clean(), 5);
    assert_eq!(played.client.items.len(), 2490);
    let sent = messages.frames(5).expect("synthetic");
    let bytes: u64 = sent.iter().map(|frame| frame.bytes).sum();
    assert_eq!(played.client.received_bytes, bytes);
    let late = |outcome: &Outcome| outcome.items.iter().filter(|item| !item.on_time()).count();
    assert_eq!(late(&played.client), 0);
    assert_eq!(played, play(&messages, clean(), 5));

    messages.scale = 5.0;
    let five = messages.frames(5).expect("synthetic");
    let rate = five.iter().map(|frame| frame.bytes).sum::<u64>() as f64 * 8e-6 / 86.0;
    assert!((3.0..3.4).contains(&rate), "{rate}");
    let played = play(&messages, link(2, 10), 5);
    assert!(late(&played.client) > 1_000);
}

#[test]
fn messages_that_find_no_stream_wait_and_their_time_runs() {
    // 200 messages a second of 200 bytes, two streams at once, 200 ms of round trip.
    let messages = constant(5, 200, 400);
    let options = StackOptions {
        max_streams: Some(2),
        ..StackOptions::default()
    };
    let played = play_with(
        &messages,
        &options,
        link(20, 100),
        1,
        Duration::from_secs(600),
    );
    assert!(played.client.finished.is_some());
    assert!(played.server.extra["messages_held"] > 300.0);
    let last = played.client.items.last().expect("400 of them");
    assert!(last.duration().expect("delivered") > Duration::from_secs(10));
}

#[test]
fn what_does_not_come_before_the_end_is_not_delivered_but_dated() {
    let messages = constant(10, 100_000, 500);
    // 80 Mb/s into 2 Mb/s for three seconds.
    let played = play_with(
        &messages,
        &StackOptions::default(),
        link(2, 10),
        1,
        Duration::from_secs(3),
    );
    let outcome = &played.client;
    assert_eq!(outcome.finished, None);
    let delivered = outcome
        .items
        .iter()
        .filter(|item| item.done.is_some())
        .count();
    assert!(delivered > 0 && delivered < 10, "{delivered}");
    let began = played.server.connected.expect("connected");
    for (index, item) in outcome.items.iter().enumerate() {
        assert_eq!(item.wanted, began + ms(10) * index as u32);
    }
}

#[test]
fn starlink_messages_come_through_loss_complete() {
    let mut messages = Messages::new(Trace::Starlink);
    messages.duration = Some(Span::seconds(10));
    let played = play(&messages, lossy(0.02), 1);
    assert_eq!(played.client.items.len(), 250);
    assert!(played.client.items.iter().all(|item| item.done.is_some()));
    let bytes: u64 = played.client.items.iter().map(|item| item.bytes).sum();
    assert_eq!(played.client.received_bytes, bytes);
}

#[test]
fn where_nothing_is_late_messages_are_what_streams_are() {
    let streams = constant(20, 5_000, 200);
    let mut messages = Messages {
        api: Api::Messages,
        deadline: Some(Span(ms(250))),
        ..streams.clone()
    };
    for direction in [Direction::Down, Direction::Up] {
        messages.direction = direction;
        let streams = Messages {
            api: Api::Streams,
            ..messages.clone()
        };
        let (played, plain) = (play(&messages, clean(), 1), play(&streams, clean(), 1));
        let (counted, plain) = (played.counted(&messages), plain.counted(&streams));
        assert_eq!(counted.items, plain.items);
        assert_eq!(counted.finished, plain.finished);
        let sender = [&played.server, &played.client][usize::from(direction == Direction::Up)];
        assert_eq!(sender.extra["messages_judged_on_time"], 200.0);
        assert_eq!(sender.extra["messages_expired"], 0.0);
    }
}

/// 200 ms one way leave no time for a retransmission: what is lost is given up, and what the sender
/// thinks of the rest is what the receiver sees.
#[test]
fn messages_that_would_come_too_late_are_given_up() {
    let mut messages = constant(20, 1_000, 1_000);
    messages.deadline = Some(Span(ms(250)));
    messages.api = Api::Messages;
    let mut link = link(8, 200);
    link.backward.loss = tautline_sim::LossModel::uniform(0.02);
    let options = StackOptions {
        congestion: Some("ignore-loss".to_owned()),
        ..StackOptions::default()
    };
    let limit = Duration::from_secs(600);
    let played = play_with(&messages, &options, link.clone(), 3, limit);
    let (items, extra) = (&played.client.items, &played.server.extra);
    let on_time = items.iter().filter(|item| item.on_time()).count() as f64;
    let never = items.iter().filter(|item| item.done.is_none()).count() as f64;
    let judged = extra["messages_judged_on_time"];
    assert!(never >= 10.0 && on_time > 900.0, "{never} {on_time}");
    assert!((judged - on_time).abs() <= 10.0, "{judged} {on_time}");
    let known = judged + extra["messages_judged_late"] + extra["messages_expired"];
    assert_eq!(known, items.len() as f64);
    assert!(played.client.finished.is_some());

    let retransmitted = |api| {
        let messages = Messages {
            api,
            ..messages.clone()
        };
        let played = play_with(&messages, &options, link.clone(), 3, limit);
        played.wire[1].expect("it was there").bytes_sent
    };
    assert!(retransmitted(Api::Messages) < retransmitted(Api::Streams));
}

/// A conference whose frames come faster than the congestion window lets them leave, for a while: what
/// the transport knows of deadlines is worth something.
#[test]
fn knowing_deadlines_brings_more_in_time() {
    let on_time = |api, give_up, streams: Option<&str>| {
        let messages = Messages {
            duration: Some(Span::seconds(20)),
            api,
            give_up,
            ..Messages::new(Trace::VideoConference)
        };
        let options = StackOptions {
            streams: streams.map(str::to_owned),
            ..StackOptions::default()
        };
        let mut link = link(8, 75);
        link.backward.loss = tautline_sim::LossModel::uniform(0.01);
        let limit = Duration::from_secs(600);
        let played = play_with(&messages, &options, link, 3, limit);
        let items = &played.client.items;
        items.iter().filter(|item| item.on_time()).count()
    };
    let plain = on_time(Api::Streams, GiveUp::AtDeadline, None);
    let by_deadline = on_time(Api::Messages, GiveUp::AtDeadline, Some("deadline"));
    let hopeless = on_time(Api::Messages, GiveUp::WhenHopeless, Some("deadline"));
    eprintln!("on time of 510: {plain} {by_deadline} {hopeless}");
    assert!(by_deadline > plain && hopeless > plain);
}

#[test]
fn a_trace_comes_from_a_file_beside_the_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("t.csv"), "0,100,50\n7.5,300\n").expect("written");
    let mut messages: Messages = toml::from_str("trace = { file = \"t.csv\" }").expect("a plan");
    assert_eq!(messages.files()[0].sha256, None);
    // Not read: an error in the outcome, not a panic.
    assert!(play(&messages, clean(), 1).client.error.is_some());
    messages.resolve(&folder.path().into()).expect("read");
    let hash = messages.files()[0].sha256.clone();
    assert!(hash.is_some_and(|hash| hash.len() == 64));
    let played = play(&messages, clean(), 1);
    assert_eq!(played.client.received_bytes, 400);
    assert_eq!(played.client.items[0].deadline, Some(ms(50)));
    let mut missing: Messages = toml::from_str("trace = { file = \"u.csv\" }").expect("a plan");
    assert!(missing.resolve(&folder.path().into()).is_err());
}

#[test]
fn plans_are_read_strictly_and_checked() {
    let read = |text: &str| toml::from_str::<Messages>(text);
    assert_eq!(
        read("trace = \"starlink\"\n"),
        Ok(Messages::new(Trace::Starlink))
    );
    let one = read("trace = { constant = { every = \"5 ms\", bytes = \"200 B\", count = 9 } }");
    assert_eq!(one, Ok(constant(5, 200, 9)));
    assert!(read("trace = \"starlnk\"").is_err());
    assert!(read("trace = \"starlink\"\nspeed = 2").is_err());
    let mut wrong = constant(0, 200, 9);
    assert!(wrong.validate().is_err());
    wrong = constant(5, 15, 9);
    assert!(wrong.validate().is_err());
    wrong = constant(5, 200, 0);
    assert!(wrong.validate().is_err());
    wrong = Messages::new(Trace::Constant(Constant {
        every: Span(ms(1)),
        bytes: Amount::between(200, 100),
        count: 1,
    }));
    assert!(wrong.validate().is_err());
    let told =
        "trace = \"starlink\"\napi = \"messages\"\nannounce = false\ngive_up = \"when-hopeless\"\n";
    let messages = read(told).expect("a plan");
    assert_eq!((messages.api, messages.announce), (Api::Messages, false));
    assert_eq!(messages.give_up, GiveUp::WhenHopeless);
    let written = toml::to_string(&messages).expect("text");
    assert_eq!(read(&written), Ok(messages));
    // What says nothing of it is written as it was before there was anything to say.
    let plain = toml::to_string(&Messages::new(Trace::Starlink)).expect("text");
    assert!(
        !plain.contains("api") && !plain.contains("announce"),
        "{plain}"
    );
    wrong = constant(5, 17_000_000, 9);
    assert_eq!(wrong.validate(), Ok(()));
    wrong.api = Api::Messages;
    assert!(wrong.validate().is_err());
    wrong = Messages::new(Trace::Starlink);
    wrong.scale = f64::NAN;
    assert!(wrong.validate().is_err());
}

/// The table of docs/messages.md: messages on time and megabytes sent, over 8 Mb/s.
#[test]
#[ignore = "a measurement: run in release with --nocapture"]
fn what_knowing_deadlines_gives() {
    const SOLUTIONS: [(Api, GiveUp, &str); 5] = [
        (Api::Streams, GiveUp::AtDeadline, "round-robin"),
        (Api::Streams, GiveUp::AtDeadline, "priority"),
        (Api::Messages, GiveUp::AtDeadline, "priority"),
        (Api::Messages, GiveUp::AtDeadline, "deadline"),
        (Api::Messages, GiveUp::WhenHopeless, "deadline"),
    ];
    const SEEDS: u64 = 3;
    let measure = |congestion: &str, delay, loss, (api, give_up, streams): (_, _, &str)| {
        let messages = Messages {
            api,
            give_up,
            ..Messages::new(Trace::VideoConference)
        };
        let options = StackOptions {
            streams: Some(streams.to_owned()),
            congestion: Some(congestion.to_owned()),
            ..StackOptions::default()
        };
        let mut link = link(8, delay);
        for side in [&mut link.forward, &mut link.backward] {
            side.loss = tautline_sim::LossModel::uniform(loss);
        }
        let (mut on_time, mut all, mut bytes) = (0, 0, 0);
        for seed in 0..SEEDS {
            let limit = Duration::from_secs(300);
            let played = play_with(&messages, &options, link.clone(), seed, limit);
            let items = &played.client.items;
            on_time += items.iter().filter(|item| item.on_time()).count();
            all += items.len();
            bytes += played.wire[1].map_or(0, |wire| wire.bytes_sent);
        }
        let share = 100.0 * on_time as f64 / all as f64;
        format!("{share:.1} % {:.1} MB", bytes as f64 * 1e-6 / SEEDS as f64)
    };
    for congestion in ["cubic", "bbr3-taut"] {
        for delay in [25, 50, 100, 200] {
            for loss in [0.005, 0.02] {
                let cells = SOLUTIONS.map(|solution| measure(congestion, delay, loss, solution));
                let loss = loss * 100.0;
                println!(
                    "| {congestion}, {delay} ms, {loss} % | {} |",
                    cells.join(" | ")
                );
            }
        }
    }
}

#[test]
fn a_trace_played_again_goes_on_where_it_ended() {
    let once = Messages::new(Trace::VideoConference);
    let twice = Messages {
        repeat: 2,
        ..once.clone()
    };
    let (one, two) = (once.frames(5).unwrap(), twice.frames(5).unwrap());
    assert_eq!(two.len(), 2 * one.len());
    assert_eq!(two[..one.len()], one[..]);
    assert!(two.is_sorted_by_key(|frame| frame.at));
    let other = once.frames(6).unwrap();
    assert_eq!(two[one.len()].bytes, other[0].bytes, "drawn anew");
    let gap = two[one.len()].at - two[one.len() - 1].at;
    assert_eq!(gap.as_millis(), 33);
    let never = Messages { repeat: 0, ..once };
    assert_eq!(never.validate().unwrap_err().0, "repeat");
}
