//! Halves under a session that does anything at any time: no panic, no loop, no timer left behind.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use tautline_transport::{rng::Rng, time::Instant, units::Rate};

use super::{
    Bulk, Datagrams, Direction, Messages, Objects, Page, Program, Video,
    amount::Amount,
    messages::{Constant, Trace},
    page::Content,
};
use crate::{
    quantity::{Size, Span},
    session::{Happening, Read, Session, StreamKey, Way},
};

/// Streams that happenings may name.
const STREAMS: u64 = 4;

/// Answers at random.
struct Chance {
    rng: Rng,
    now: Instant,
    opened: u64,
    closed: bool,
}

impl Session for Chance {
    fn now(&self) -> Instant {
        self.now
    }
    fn open(&mut self, _way: Way) -> Option<StreamKey> {
        if self.rng.chance(0.3) {
            return None;
        }
        self.opened += 1;
        Some(StreamKey(self.opened % STREAMS))
    }
    fn write(&mut self, _stream: StreamKey, data: &mut Bytes) -> usize {
        let taken = self.rng.below(data.len() as u64 + 1) as usize;
        data.split_to(taken).len()
    }
    fn finish(&mut self, _stream: StreamKey) {}
    fn reset(&mut self, _stream: StreamKey) {}
    fn read(&mut self, _stream: StreamKey) -> Read {
        match self.rng.below(6) {
            0 => Read::Finished,
            1 => Read::Gone,
            2 => Read::Blocked,
            _ => {
                let mut data = vec![0; self.rng.below(60) as usize];
                if self.rng.chance(0.3) {
                    self.rng.fill(&mut data);
                }
                Read::Chunk(data.into())
            }
        }
    }
    fn stop(&mut self, _stream: StreamKey) {}
    fn prioritise(&mut self, _stream: StreamKey, urgency: u8, _incremental: bool) {
        assert!(urgency < 8);
    }
    fn send_datagram(&mut self, _data: Bytes) -> bool {
        self.rng.chance(0.7)
    }
    fn receive_datagram(&mut self) -> Option<Bytes> {
        let mut data = vec![0; self.rng.below(40) as usize];
        if self.rng.chance(0.3) {
            self.rng.fill(&mut data);
        }
        self.rng.chance(0.7).then(|| data.into())
    }
    fn close(&mut self) {
        self.closed = true;
    }
}

fn programs() -> Vec<Box<dyn Program>> {
    let mut intervals = Objects::new(20, Amount::between(0, 300));
    intervals.every = Some(Span(Duration::from_millis(3)));
    intervals.think = Span(Duration::from_millis(2));
    let mut loops = Objects::new(20, Size(100));
    loops.parallel = Some(2);
    loops.pause = Span(Duration::from_millis(1));
    let mut programs: Vec<Box<dyn Program>> = vec![
        Box::new(intervals),
        Box::new(loops),
        Box::new(Page::new(Content::Objects30)),
        Box::new(Video::default()),
    ];
    for direction in [Direction::Down, Direction::Up] {
        programs.push(Box::new(Bulk {
            bytes: Some(Size(100)),
            streams: 9,
            direction,
            ..Bulk::default()
        }));
        let mut messages = Messages::new(Trace::Constant(Constant {
            every: Span(Duration::from_millis(1)),
            bytes: Amount::between(16, 99),
            count: 50,
        }));
        messages.direction = direction;
        programs.push(Box::new(messages));
        let mut datagrams = Datagrams::new(Rate::from_bits_per_second(80_000));
        datagrams.bytes = Size(16);
        datagrams.duration = Span(Duration::from_millis(200));
        datagrams.direction = direction;
        programs.push(Box::new(datagrams));
    }
    programs
}

fn happening() -> impl Strategy<Value = Happening> {
    let stream = || (0..STREAMS).prop_map(StreamKey);
    prop_oneof![
        1 => Just(Happening::Connected),
        4 => stream().prop_map(Happening::Opened),
        12 => stream().prop_map(Happening::Readable),
        6 => stream().prop_map(Happening::Writable),
        3 => Just(Happening::MayOpen),
        6 => Just(Happening::Datagram),
        1 => Just(Happening::Closed(None)),
        1 => Just(Happening::Closed(Some("lost".to_owned()))),
    ]
}

proptest! {
    #[test]
    fn halves_cope_with_anything(
        seed: u64,
        connects: bool,
        steps in proptest::collection::vec((happening(), 0u64..5_000), 1..120),
    ) {
        for program in programs() {
            for mut half in [program.client(seed), program.server(seed)] {
                let mut session = Chance {
                    rng: Rng::from_u64(seed),
                    now: Instant::ZERO,
                    opened: 0,
                    closed: false,
                };
                if connects {
                    half.on(&mut session, Happening::Connected);
                }
                for (happening, micros) in &steps {
                    half.on(&mut session, happening.clone());
                    session.now += Duration::from_micros(*micros);
                    if half.poll_timer().is_some_and(|at| at <= session.now) {
                        half.on_timer(&mut session);
                        prop_assert!(half.poll_timer().is_none_or(|at| at > session.now));
                    }
                }
                let outcome = half.outcome();
                prop_assert_eq!(outcome.received_bytes, half.received_bytes());
                prop_assert!(outcome.extra.values().all(|value| value.is_finite()));
            }
        }
    }
}
