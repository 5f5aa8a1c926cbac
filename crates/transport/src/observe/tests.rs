//! Observers, counters and the tee.

use std::sync::{Arc, Mutex};

use super::*;
use crate::{
    time::Instant,
    tls::Level,
    units::{Ecn, FourTuple, PathId, Side, StreamId},
    wire::{ConnectionId, Frame},
};

fn info() -> ConnectionInfo {
    let four_tuple = FourTuple {
        local: ([127, 0, 0, 1], 1).into(),
        remote: ([127, 0, 0, 1], 2).into(),
    };
    let dcid = ConnectionId::new(&[1; 8]).unwrap();
    ConnectionInfo::new(Side::Client, dcid, four_tuple, Instant::ZERO)
}

#[test]
fn without_a_sink_events_are_not_even_built() {
    let mut observer = Observer::none();
    observer.emit(Instant::ZERO, || panic!("built for nobody"));
    assert!(!observer.is_active());
    assert!(!Observer::from_factory(None, &info()).is_active());
}

#[test]
fn a_closure_is_a_sink() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let sink = move |now: Instant, event: &Event<'_>| {
        log.lock().unwrap().push((now, event.name()));
    };
    let mut observer = Observer::new(Some(Box::new(sink)));
    observer.emit(Instant::from_nanos(5), || Event::ZeroRttRejected);
    let expected = vec![(Instant::from_nanos(5), "zero_rtt_rejected")];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[test]
fn a_tee_counts_twice_and_leaves_out_who_declines() {
    #[derive(Debug)]
    struct Declines;
    impl SinkFactory for Declines {
        fn build(&self, _: &ConnectionInfo) -> Option<Box<dyn Sink>> {
            None
        }
    }
    let (a, b) = (Counters::new(), Counters::new());
    let all =
        |list: Vec<SharedSinkFactory>| -> SharedSinkFactory { Arc::new(TeeFactory::new(list)) };
    let tee = all(vec![
        Arc::new(a.clone()),
        Arc::new(Declines),
        Arc::new(b.clone()),
    ]);
    let mut observer = Observer::from_factory(Some(&tee), &info());
    observer.emit(Instant::ZERO, || Event::Abuse {
        kind: Abuse::TokenForged,
    });
    for counters in [a, b] {
        assert_eq!(counters.snapshot().abuse(Abuse::TokenForged), 1);
        assert_eq!(counters.snapshot().abuse(Abuse::TokenExpired), 0);
    }
    let nobody = all(vec![Arc::new(Declines)]);
    assert!(!Observer::from_factory(Some(&nobody), &info()).is_active());
}

#[test]
fn counters_count() {
    let counters = Counters::new();
    let mut sink = counters.sink();
    let (path, id) = (PathId::ZERO, StreamId(4));
    let ping = Frame::Ping;
    let max_data = Frame::MaxData(9);
    let status = Frame::PathStatus {
        path,
        available: true,
        sequence: 1,
    };
    let events = [
        Event::FrameSent(&ping),
        Event::FrameSent(&max_data),
        Event::StreamFrameSent {
            id,
            offset: 0,
            len: 700,
            fin: true,
        },
        Event::AckFrameSent {
            path: Some(PathId(3)),
            largest: 4,
            delay: 0,
            encoded: &[],
        },
        Event::PacketSent {
            level: Level::OneRtt,
            path,
            number: 4,
            bytes: 900,
            ecn: Ecn::Ect0,
        },
        Event::PacketReceived {
            level: Level::OneRtt,
            path,
            number: 8,
            bytes: 40,
            ecn: Ecn::Ce,
        },
        Event::FrameReceived(&status),
    ];
    for event in &events {
        sink.on_event(Instant::ZERO, event);
    }
    let seen = counters.snapshot();
    assert_eq!(
        (seen.packets_sent, seen.bytes_sent, seen.stream_bytes_sent),
        (1, 900, 700)
    );
    assert_eq!((seen.packets_received, seen.packets_received_ce), (1, 1));
    let of = |counts: &[u64], name: &str| {
        counts[FRAME_NAMES.iter().position(|known| *known == name).unwrap()]
    };
    for name in ["ping", "max_data", "stream", "path_ack"] {
        assert_eq!(of(&seen.frames_sent, name), 1, "{name}");
    }
    assert_eq!(seen.frames_sent.iter().sum::<u64>(), 4);
    assert_eq!(of(&seen.frames_received, "path_status"), 1);
    assert!(seen.named().contains(&("bytes_sent", 900)));
}

#[test]
fn every_frame_type_is_counted_under_its_name() {
    for row in crate::wire::all_rows() {
        for frame_type in row.types.clone() {
            let name = counters::name_of(frame_type);
            assert_ne!(name, "other", "{} ({frame_type:#x})", row.name);
        }
    }
}

#[test]
fn words_are_distinct() {
    fn distinct(names: impl Iterator<Item = &'static str>) {
        let names: Vec<_> = names.collect();
        let set: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(set.len(), names.len());
    }
    distinct(Abuse::ALL.iter().map(|kind| kind.name()));
    distinct(DropReason::ALL.iter().map(|kind| kind.name()));
    distinct(TimerKind::ALL.iter().map(|kind| kind.name()));
    distinct(FRAME_NAMES.into_iter());
}
