//! Workloads over our transport in virtual time: what arrives, when, and the same every time.

use std::{
    any::Any, cell::RefCell, collections::BTreeSet, net::SocketAddr, rc::Rc, time::Duration,
};

use tautline_sim::{Datagram, DirectionConfig, LinkConfig, LossModel, Node, World};
use tautline_transport::{time::Instant, units::Rate};

use super::{
    Bulk, Datagrams, Direction, Messages, Objects, Page, Program, Urgent, Video, Workload,
    amount::Amount,
    columns::{self, COLUMNS},
    messages::{Api, Trace},
    page::Content,
    video::Representation,
};
use crate::{
    outcome::{Item, Outcome},
    quantity::{Size, Span},
    stack::{EndSetup, Part, Stack, StackOptions, Tautline, Watch, WireStats},
};

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Played {
    pub(super) client: Outcome,
    pub(super) server: Outcome,
    /// Of the client and of the server.
    pub(super) wire: [Option<WireStats>; 2],
    pub(super) end: Instant,
}

impl Played {
    /// The outcome of the end that counts.
    pub(super) fn counted(&self, program: &dyn Program) -> &Outcome {
        match program.receiver() {
            super::End::Client => &self.client,
            super::End::Server => &self.server,
        }
    }
}

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// 20 Mb/s, 10 ms one way, a queue that loses nothing.
pub(super) fn clean() -> LinkConfig {
    link(20, 10)
}

pub(super) fn link(megabits: u64, delay_ms: u64) -> LinkConfig {
    LinkConfig::symmetric(DirectionConfig {
        rate: Some(Rate::from_bits_per_second(megabits * 1_000_000)),
        delay: ms(delay_ms),
        ..DirectionConfig::default()
    })
}

/// The same with a share of packets lost at random both ways.
pub(super) fn lossy(share: f64) -> LinkConfig {
    let mut link = clean();
    for side in [&mut link.forward, &mut link.backward] {
        side.loss = LossModel::uniform(share);
    }
    link
}

pub(super) fn play(program: &dyn Program, link: LinkConfig, seed: u64) -> Played {
    play_with(
        program,
        &StackOptions::default(),
        link,
        seed,
        Duration::from_secs(3600),
    )
}

/// A node that can still be looked at after the world took it.
#[derive(Clone)]
struct Held(Rc<RefCell<Box<dyn Node>>>);

impl Held {
    fn new(node: Box<dyn Node>) -> Self {
        Self(Rc::new(RefCell::new(node)))
    }
}

impl Node for Held {
    fn handle_datagram(&mut self, now: Instant, datagram: Datagram) {
        self.0.borrow_mut().handle_datagram(now, datagram);
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.0.borrow_mut().handle_timeout(now);
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.0.borrow().poll_timeout()
    }
    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        self.0.borrow_mut().poll_transmit(now)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Runs until nothing is left to happen, or for `limit`.
pub(super) fn play_with(
    program: &dyn Program,
    options: &StackOptions,
    link: LinkConfig,
    seed: u64,
    limit: Duration,
) -> Played {
    assert_eq!(program.validate(), Ok(()));
    let mut world = World::new(seed);
    let client_at = SocketAddr::from(([10, 0, 0, 1], 50_000));
    let server_at = SocketAddr::from(([10, 0, 0, 2], 443));
    let stack = Tautline::default();
    let setup = |local, remote, half, label| EndSetup {
        local,
        others: Vec::new(),
        remote,
        part: Part::Whole,
        half,
        start: Instant::ZERO,
        rng: world.rng(label),
        seed,
        watch: Watch::default(),
    };
    let client = setup(client_at, server_at, program.client(seed), 1);
    let server = setup(server_at, client_at, program.server(seed), 2);
    let client = Held::new(stack.client(options, client).expect("a client"));
    let server = Held::new(stack.server(options, server).expect("a server"));
    let near = world.add_host(client_at, Box::new(client.clone()));
    let far = world.add_host(server_at, Box::new(server.clone()));
    world.connect(near, far, link);
    world.run_until(Instant::ZERO + limit);
    let look = |node: &Held| {
        let node = node.0.borrow();
        let inspection = stack.inspect(node.as_any()).expect("a node of this stack");
        (inspection.half.outcome(), inspection.wire)
    };
    let (client, server) = (look(&client), look(&server));
    Played {
        client: client.0,
        server: server.0,
        wire: [client.1, server.1],
        end: world.now(),
    }
}

/// The items' durations in microseconds; `None` for what never came.
pub(super) fn micros(items: &[Item]) -> Vec<Option<u128>> {
    items
        .iter()
        .map(|item| item.duration().map(|duration| duration.as_micros()))
        .collect()
}

#[test]
fn bulk_moves_every_byte_either_way() {
    for direction in [Direction::Down, Direction::Up] {
        let bulk = Bulk {
            bytes: Some(Size(1_000_000)),
            direction,
            ..Bulk::default()
        };
        let played = play(&bulk, clean(), 1);
        let counted = played.counted(&bulk);
        assert_eq!(counted.received_bytes, 1_000_000);
        assert_eq!(counted.items.len(), 1);
        assert_eq!(counted.items[0].bytes, 1_000_000);
        assert_eq!(counted.error, None);
        // 400 ms of capacity, slow start and headers on top.
        let took = counted.items[0].duration().expect("complete");
        assert!(took > ms(417) && took < ms(600), "{took:?}");
        let finished = played.client.finished.expect("the client knows the end");
        assert!(finished >= counted.items[0].done.expect("complete"));
        assert_eq!(played, play(&bulk, clean(), 1));
    }
}

#[test]
fn thousands_of_streams_share_a_connection_that_allows_a_hundred() {
    let bulk = Bulk {
        bytes: Some(Size(1_500)),
        streams: 3_000,
        ..Bulk::default()
    };
    for link in [clean(), lossy(0.02)] {
        let played = play(&bulk, link, 1);
        assert_eq!(played.client.received_bytes, 4_500_000);
        assert_eq!(played.client.items.len(), 3_000);
        let connected = played.client.connected.expect("connected");
        for item in &played.client.items {
            assert_eq!(item.wanted, connected);
            assert!(item.done.is_some());
        }
        assert_eq!(played.server.items.len(), 3_000);
    }
}

#[test]
fn streams_in_turns_end_together_and_others_one_after_the_other() {
    let mut bulk = Bulk {
        bytes: Some(Size(500_000)),
        streams: 4,
        ..Bulk::default()
    };
    let ends = |bulk: &Bulk| -> Vec<Duration> {
        let played = play(bulk, clean(), 1);
        let items = &played.client.items;
        items.iter().filter_map(Item::duration).collect()
    };
    let together = ends(&bulk);
    assert!(together[3] - together[0] < ms(60), "{together:?}");
    bulk.incremental = false;
    let series = ends(&bulk);
    assert!(series[3] - series[0] > ms(500), "{series:?}");
}

#[test]
fn many_streams_live_within_a_small_receive_window() {
    let options = StackOptions {
        receive_window: Some(Size(20_000)),
        ..StackOptions::default()
    };
    let bulk = Bulk {
        bytes: Some(Size(10_000)),
        streams: 500,
        ..Bulk::default()
    };
    let played = play_with(&bulk, &options, clean(), 1, Duration::from_secs(600));
    assert_eq!(played.client.received_bytes, 5_000_000);
    // At most a window per round trip of 20 ms.
    let took = played.client.finished.expect("finished").since_origin();
    assert!(took > ms(250 * 20), "{took:?}");
}

#[test]
fn requests_one_after_the_other_take_a_round_trip_each() {
    let mut objects = Objects::new(20, Size(1_000));
    objects.parallel = Some(1);
    objects.think = Span(ms(5));
    objects.pause = Span(ms(100));
    let played = play(&objects, clean(), 3);
    assert_eq!(played.client.received_bytes, 20_000);
    for pair in played.client.items.windows(2) {
        let done = pair[0].done.expect("complete");
        assert_eq!(pair[1].wanted, done + ms(100));
        // 20 ms there and back, 5 ms of thinking, 0.4 ms of serialisation.
        let took = pair[1].duration().expect("complete");
        assert!(took > ms(25) && took < ms(27), "{took:?}");
    }
}

#[test]
fn requests_at_intervals_wait_for_nothing() {
    let mut objects = Objects::new(50, Amount::between(500, 1_500));
    objects.request_bytes = Amount::between(100, 2_000);
    objects.every = Some(Span(ms(7)));
    objects.think = Span(ms(500));
    let played = play(&objects, clean(), 3);
    let connected = played.client.connected.expect("connected");
    let sizes: Vec<u64> = played.client.items.iter().map(|item| item.bytes).collect();
    assert!(sizes.iter().min() < sizes.iter().max());
    let asked = played
        .server
        .items
        .iter()
        .map(|item| item.bytes)
        .sum::<u64>();
    assert_eq!(played.server.received_bytes, asked);
    for (index, item) in played.client.items.iter().enumerate() {
        assert_eq!(item.wanted, connected + ms(7) * index as u32);
        // The server is told when each was wanted.
        assert_eq!(played.server.items[index].wanted, item.wanted);
        let took = item.duration().expect("complete");
        assert!(took > ms(520) && took < ms(530), "{took:?}");
    }
    assert_eq!(played, play(&objects, clean(), 3));
    let other = play(&objects, clean(), 4);
    assert_ne!(micros(&played.client.items), micros(&other.client.items));
}

#[test]
fn a_connection_that_fails_leaves_its_reason_and_no_loop() {
    let mut objects = Objects::new(1_000, Size(100_000));
    objects.parallel = Some(10);
    objects.pause = Span(ms(1));
    let mut cut = clean();
    cut.forward.loss = LossModel::uniform(1.0);
    let played = play(&objects, cut, 1);
    assert!(played.client.error.is_some());
    assert_eq!(played.client.received_bytes, 0);
    assert!(played.end <= Instant::ZERO + Duration::from_secs(3600));
}

#[test]
fn every_kind_is_read_from_a_plan_and_strictly() {
    let plan = [
        ("bulk", "bytes = \"10 MB\"\nstreams = 4\ndirection = \"up\""),
        ("datagrams", "rate = \"64 kb/s\"\nbytes = 160"),
        ("messages", "trace = \"starlink\"\nduration = \"5 s\""),
        (
            "objects",
            "bytes = { min = 1000, max = \"10 kB\" }\nevery = \"20 ms\"",
        ),
        ("page", "page = \"article\"\ncompute = 0.5"),
        ("video", "rule = \"buffer\"\nduration = \"30 s\""),
    ];
    for (kind, fields) in plan {
        let text = format!("kind = \"{kind}\"\n{fields}\n");
        let workload: Workload = toml::from_str(&text).expect(&text);
        assert_eq!(workload.program().validate(), Ok(()));
        let written = toml::to_string(&workload).expect("serialises");
        assert_eq!(toml::from_str::<Workload>(&written).as_ref(), Ok(&workload));
        let wrong = format!("{text}colour = 3\n");
        let error = toml::from_str::<Workload>(&wrong).expect_err(&wrong);
        assert!(error.message().contains("colour"), "{error}");
    }
    let error = toml::from_str::<Workload>("kind = \"vidoe\"").expect_err("no such kind");
    assert!(error.message().contains("`video`"), "{error}");
}

#[test]
fn every_measure_of_a_workload_is_a_known_column() {
    assert!(COLUMNS.is_sorted_by(|a, b| a.name < b.name));
    let mut seen = BTreeSet::new();
    let ladder = [144, 240, 360, 432, 480, 720, 1080, 1440, 2160];
    let step = |(index, height): (u64, u32)| Representation::new(640, height, 100 * (index + 1));
    let video = Video {
        ladder: (0..).zip(ladder).map(step).collect(),
        duration: Span::seconds(8),
        ..Video::default()
    };
    let mut messages = Messages::new(Trace::Starlink);
    messages.duration = Some(Span::seconds(1));
    messages.api = Api::Messages;
    let mut datagrams = Datagrams::new(Rate::from_bits_per_second(100_000));
    datagrams.duration = Span::seconds(1);
    let urgent = Urgent {
        transfer: Size(10_000),
        object: Size(1_000),
        count: 1,
        within: Span::seconds(1),
        prioritised: true,
    };
    let programs: [&dyn Program; 7] = [
        &Bulk {
            bytes: Some(Size(1_000)),
            ..Bulk::default()
        },
        &Objects::new(2, Size(1_000)),
        &Page::new(Content::Objects6),
        &datagrams,
        &messages,
        &urgent,
        &video,
    ];
    for program in programs {
        let played = play(program, clean(), 1);
        for outcome in [&played.client, &played.server] {
            for (name, value) in &outcome.extra {
                assert!(columns::by_name(name).is_some(), "{name}");
                assert!(value.is_finite() && *value >= 0.0 && value.is_sign_positive());
                seen.insert(*name);
            }
        }
    }
    let all: BTreeSet<&str> = COLUMNS.iter().map(|column| column.name).collect();
    assert_eq!(seen, all);
}

/// A gigabyte on one stream and one on a hundred. Asserts no time: `time` says what it costs.
#[test]
#[ignore = "a measurement: run in release, under `time`"]
fn two_gigabytes() {
    for streams in [1, 100] {
        let bulk = Bulk {
            bytes: Some(Size(1_000_000_000 / u64::from(streams))),
            streams,
            ..Bulk::default()
        };
        let played = play(&bulk, link(200, 10), 1);
        assert_eq!(played.client.received_bytes, 1_000_000_000);
    }
}
