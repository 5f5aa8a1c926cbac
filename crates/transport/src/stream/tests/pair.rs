//! Two ends, any order of API calls, loss, reordering, duplication and spurious loss: every byte
//! arrives once and in order, or the stream ends as one side said.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::kit::*;
use crate::{
    stream::{ReadError, ReadOutcome, StreamEvent, StreamSet, sched::Priority},
    time::Instant,
    units::{Dir, Side, StreamId},
};

/// A set, what its application did, and its packets that are not settled.
struct End {
    set: StreamSet,
    sending: BTreeMap<StreamId, Sending>,
    receiving: BTreeMap<StreamId, Receiving>,
    flying: Vec<Flying>,
}

#[derive(Default, Debug)]
struct Sending {
    written: u64,
    finished: bool,
    /// Code and bytes promised.
    reset: Option<(u64, u64)>,
    stopped: Option<u64>,
    delivered: bool,
}

#[derive(Default, Debug)]
struct Receiving {
    read: u64,
    finished: bool,
    reset: Option<u64>,
    stopped: Option<u64>,
}

struct Flying {
    packet: Packet,
    arrived: bool,
    lost: bool,
}

/// The byte at `offset` of what `side` sends on `id`.
fn byte(side: Side, id: StreamId, offset: u64) -> u8 {
    let seed = offset ^ (id.0 << 40) ^ (u64::from(side.is_client()) << 60);
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

struct Pair {
    now: u64,
    client: End,
    server: End,
}

impl End {
    fn new(side: Side, config: &crate::config::TransportConfig) -> Self {
        Self {
            set: set(side, config),
            sending: BTreeMap::new(),
            receiving: BTreeMap::new(),
            flying: Vec::new(),
        }
    }

    fn add(&mut self, side: Side, id: StreamId) {
        if id.dir() == Dir::Bi || id.initiator() == side {
            self.sending.entry(id).or_default();
        }
        if id.dir() == Dir::Bi || id.initiator() != side {
            self.receiving.entry(id).or_default();
        }
    }

    fn nth_sending(&self, n: usize) -> Option<StreamId> {
        self.sending
            .keys()
            .nth(n % self.sending.len().max(1))
            .copied()
    }

    fn nth_receiving(&self, n: usize) -> Option<StreamId> {
        self.receiving
            .keys()
            .nth(n % self.receiving.len().max(1))
            .copied()
    }

    fn read(&mut self, from: Side, id: StreamId, max: usize) -> bool {
        let Some(state) = self.receiving.get_mut(&id) else {
            return false;
        };
        match self.set.read(id, max) {
            Ok(ReadOutcome::Chunk(chunk)) => {
                assert!(!chunk.is_empty() && chunk.len() <= max);
                assert!(state.stopped.is_none() && state.reset.is_none() && !state.finished);
                for got in &chunk {
                    assert_eq!(*got, byte(from, id, state.read), "{id} at {}", state.read);
                    state.read += 1;
                }
                return true;
            }
            Ok(ReadOutcome::Finished) => state.finished = true,
            Ok(ReadOutcome::Blocked) => {}
            Err(ReadError::Reset(code)) => state.reset = Some(code),
            Err(ReadError::Stopped) => assert!(state.stopped.is_some()),
            Err(ReadError::UnknownStream) => {
                assert!(state.finished || state.reset.is_some() || state.stopped.is_some());
            }
            Err(other) => panic!("{other}"),
        }
        false
    }

    fn poll_events(&mut self) {
        while let Some(event) = self.set.poll_event() {
            match event {
                StreamEvent::Stopped { id, code } => {
                    // Possibly of a stream that was not accepted yet.
                    self.sending.entry(id).or_default().stopped = Some(code);
                }
                StreamEvent::Finished(id) => {
                    let state = self.sending.get_mut(&id).unwrap();
                    assert!(state.finished && !state.delivered);
                    state.delivered = true;
                }
                _ => {}
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Open(Dir),
    Accept(Dir),
    Write {
        n: usize,
        len: usize,
        copy: bool,
    },
    Finish {
        n: usize,
    },
    Reset {
        n: usize,
        code: u64,
    },
    ResetAt {
        n: usize,
        code: u64,
        size: u64,
    },
    SetPriority {
        n: usize,
        urgency: u8,
        incremental: bool,
    },
    Read {
        n: usize,
        max: usize,
    },
    Stop {
        n: usize,
        code: u64,
    },
    PollEvents,
    Send {
        room: usize,
    },
    Arrive {
        n: usize,
    },
    Ack {
        n: usize,
    },
    Lose {
        n: usize,
    },
    Sleep {
        millis: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let n = || 0..16_usize;
    let dir = || prop_oneof![Just(Dir::Bi), Just(Dir::Uni)];
    let len = prop_oneof![1..20_usize, 1..1500_usize, 1..5000_usize];
    prop_oneof![
        4 => dir().prop_map(Op::Open),
        3 => dir().prop_map(Op::Accept),
        8 => (n(), len, any::<bool>()).prop_map(|(n, len, copy)| Op::Write { n, len, copy }),
        3 => n().prop_map(|n| Op::Finish { n }),
        1 => (n(), 0..9_u64).prop_map(|(n, code)| Op::Reset { n, code }),
        1 => (n(), 0..9_u64, 0..3000_u64).prop_map(|(n, code, size)| Op::ResetAt { n, code, size }),
        1 => (n(), 0..9_u8, any::<bool>())
            .prop_map(|(n, urgency, incremental)| Op::SetPriority { n, urgency, incremental }),
        6 => (n(), 1..4000_usize).prop_map(|(n, max)| Op::Read { n, max }),
        1 => (n(), 0..9_u64).prop_map(|(n, code)| Op::Stop { n, code }),
        1 => Just(Op::PollEvents),
        12 => (60..1400_usize).prop_map(|room| Op::Send { room }),
        12 => n().prop_map(|n| Op::Arrive { n }),
        6 => n().prop_map(|n| Op::Ack { n }),
        4 => n().prop_map(|n| Op::Lose { n }),
        1 => (0..40_u64).prop_map(|millis| Op::Sleep { millis }),
    ]
}

impl Pair {
    fn new(scheduler: &str) -> Self {
        let mut config = small_config();
        config.stream_scheduler = crate::stream::sched::registry::by_name(scheduler).unwrap();
        config.limits.queued_control_frames = 3;
        Self {
            now: 0,
            client: End::new(Side::Client, &config),
            server: End::new(Side::Server, &config),
        }
    }

    fn ends(&mut self, side: Side) -> (&mut End, &mut End) {
        match side {
            Side::Client => (&mut self.client, &mut self.server),
            Side::Server => (&mut self.server, &mut self.client),
        }
    }

    fn run(&mut self, side: Side, op: Op) {
        let now = Instant::from_nanos(self.now * 1_000_000);
        let (end, peer) = self.ends(side);
        match op {
            Op::Open(dir) => {
                if let Some(id) = end.set.open(dir) {
                    end.add(side, id);
                }
            }
            Op::Accept(dir) => {
                if let Some(id) = end.set.accept(dir) {
                    end.add(side, id);
                }
            }
            Op::Write { n, len, copy } => {
                let Some(id) = end.nth_sending(n) else { return };
                let state = end.sending.get_mut(&id).unwrap();
                let at = state.written;
                let data: Vec<u8> = (at..at + len as u64).map(|at| byte(side, id, at)).collect();
                let result = if copy {
                    end.set.write(id, &data)
                } else {
                    end.set.write_bytes(id, &mut Bytes::from(data))
                };
                match result {
                    Ok(taken) => {
                        assert!(!state.finished && state.reset.is_none());
                        state.written += taken as u64;
                    }
                    Err(_) => {
                        end.poll_events();
                        let state = &end.sending[&id];
                        assert!(state.finished || state.reset.is_some() || state.stopped.is_some());
                    }
                }
            }
            Op::Finish { n } => {
                let Some(id) = end.nth_sending(n) else { return };
                if end.set.finish(id).is_ok() {
                    end.sending.get_mut(&id).unwrap().finished = true;
                }
            }
            Op::Reset { n, code } => {
                let Some(id) = end.nth_sending(n) else { return };
                if end.set.reset(id, code).is_ok() {
                    let state = end.sending.get_mut(&id).unwrap();
                    let code = state.reset.map_or(code, |(code, _)| code);
                    state.reset = Some((code, 0));
                }
            }
            Op::ResetAt { n, code, size } => {
                let Some(id) = end.nth_sending(n) else { return };
                if end.set.reset_at(id, code, size).is_ok() {
                    let state = end.sending.get_mut(&id).unwrap();
                    state.reset = Some((code, size.min(state.written)));
                }
            }
            Op::SetPriority {
                n,
                urgency,
                incremental,
            } => {
                let Some(id) = end.nth_sending(n) else { return };
                end.set.set_priority(
                    id,
                    Priority {
                        urgency,
                        incremental,
                    },
                );
            }
            Op::Read { n, max } => {
                let Some(id) = end.nth_receiving(n) else {
                    return;
                };
                end.read(side.peer(), id, max);
            }
            Op::Stop { n, code } => {
                let Some(id) = end.nth_receiving(n) else {
                    return;
                };
                let state = end.receiving.get_mut(&id).unwrap();
                if end.set.stop(id, code).is_ok() && !state.finished && state.reset.is_none() {
                    state.stopped.get_or_insert(code);
                }
            }
            Op::PollEvents => end.poll_events(),
            Op::Send { room } => {
                if let Some(packet) = packet(&mut end.set, room) {
                    end.flying.push(Flying {
                        packet,
                        arrived: false,
                        lost: false,
                    });
                }
            }
            Op::Arrive { n } => {
                let n = n % end.flying.len().max(1);
                let Some(flying) = end.flying.get_mut(n) else {
                    return;
                };
                flying.arrived = true;
                deliver(&mut peer.set, now, &flying.packet).unwrap();
            }
            Op::Ack { n } => {
                let n = n % end.flying.len().max(1);
                if end.flying.get(n).is_some_and(|flying| flying.arrived) {
                    for token in end.flying.remove(n).packet.tokens {
                        end.set.on_acked(token);
                    }
                }
            }
            Op::Lose { n } => {
                let n = n % end.flying.len().max(1);
                let Some(flying) = end.flying.get_mut(n) else {
                    return;
                };
                if !flying.lost {
                    flying.lost = true;
                    for token in &flying.packet.tokens {
                        end.set.on_lost(*token);
                    }
                }
            }
            Op::Sleep { millis } => self.now += millis,
        }
        self.now += 1;
    }

    /// Ends what is open, over a network that loses nothing, and checks what came of it.
    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 1000, "never settles");
            let mut moved = false;
            for side in [Side::Client, Side::Server] {
                let now = Instant::from_nanos(self.now * 1_000_000);
                let (end, peer) = self.ends(side);
                for dir in [Dir::Bi, Dir::Uni] {
                    while let Some(id) = end.set.accept(dir) {
                        end.add(side, id);
                        moved = true;
                    }
                }
                for (id, state) in &mut end.sending {
                    if end.set.finish(*id).is_ok() {
                        state.finished = true;
                    }
                }
                for flying in std::mem::take(&mut end.flying) {
                    for token in flying.packet.tokens {
                        if flying.arrived {
                            end.set.on_acked(token);
                        } else if !flying.lost {
                            end.set.on_lost(token);
                        }
                    }
                }
                let ids: Vec<_> = end.receiving.keys().copied().collect();
                for id in ids {
                    while end.read(side.peer(), id, usize::MAX) {
                        moved = true;
                    }
                }
                for packet in packets(&mut end.set) {
                    moved = true;
                    deliver(&mut peer.set, now, &packet).unwrap();
                    end.flying.push(Flying {
                        packet,
                        arrived: true,
                        lost: false,
                    });
                }
                end.poll_events();
            }
            self.now += 1;
            if !moved {
                break;
            }
        }
        for side in [Side::Client, Side::Server] {
            let (end, peer) = self.ends(side);
            for (id, sending) in &end.sending {
                check_stream(*id, sending, &peer.receiving[id]);
            }
            assert_eq!(end.set.stats().open_streams, 0);
            assert_eq!(end.set.stats().send_buffered_bytes, 0);
            assert_eq!(end.set.stats().receive_buffered_bytes, 0);
            assert_eq!((end.set.borrowed, end.set.ready), (0, 0));
            assert!(end.set.scheduler.next().is_none());
            // All credit came back: what was received counts as consumed.
            let window = &mut end.set.window;
            let (received, width) = (end.set.received, window.window());
            assert!(window.grant() >= received + width);
        }
    }
}

fn check_stream(id: StreamId, sending: &Sending, receiving: &Receiving) {
    let what = format!("{id}: {sending:?} {receiving:?}");
    assert!(receiving.read <= sending.written, "{what}");
    if receiving.finished {
        assert!(
            sending.finished && receiving.read == sending.written,
            "{what}"
        );
    } else if let Some(code) = receiving.reset {
        let expected = sending.reset.map(|(code, _)| code).or(sending.stopped);
        assert_eq!(Some(code), expected, "{what}");
        if let (Some((_, promised)), None) = (sending.reset, sending.stopped) {
            assert!(receiving.read >= promised, "{what}");
        }
    } else {
        assert!(receiving.stopped.is_some(), "{what}");
    }
    if sending.finished && sending.reset.is_none() && receiving.stopped.is_none() {
        assert!(receiving.finished, "{what}");
        assert!(sending.delivered, "{what}");
    }
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Client), Just(Side::Server)]
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_once_and_in_order(
        scheduler in prop::sample::select(vec!["priority", "round-robin", "fifo", "deadline"]),
        ops in prop::collection::vec((side(), op()), 1..400),
    ) {
        let mut pair = Pair::new(scheduler);
        for (side, op) in ops {
            pair.run(side, op);
        }
        pair.settle();
    }
}

/// One megabyte each way through windows of a few kilobytes, every third packet lost.
#[test]
fn bulk_through_small_windows_with_loss() {
    let mut pair = Pair::new("priority");
    for side in [Side::Client, Side::Server] {
        pair.run(side, Op::Open(Dir::Uni));
    }
    let mut count = 0_u32;
    for _ in 0..3000 {
        for side in [Side::Client, Side::Server] {
            pair.run(
                side,
                Op::Write {
                    n: 0,
                    len: 5000,
                    copy: count.is_multiple_of(2),
                },
            );
            for n in 0..4 {
                pair.run(side, Op::Send { room: 1200 });
                count += 1;
                let last = pair.ends(side).0.flying.len().saturating_sub(1);
                if !count.is_multiple_of(3) {
                    pair.run(side, Op::Arrive { n: last });
                    pair.run(side, Op::Ack { n: last });
                } else if n % 2 == 0 {
                    pair.run(side, Op::Lose { n: last });
                }
            }
            pair.run(side.peer(), Op::Accept(Dir::Uni));
            pair.run(side.peer(), Op::Read { n: 0, max: 10_000 });
            pair.run(side, Op::Lose { n: 0 });
        }
    }
    assert!(
        pair.client
            .sending
            .values()
            .any(|state| state.written > 1_000_000)
    );
    pair.settle();
}

/// Sending 64 MiB with 50,000 packets lost at once, into one window.
#[test]
fn wide_window_with_many_losses_is_fast() {
    let mut config = crate::config::TransportConfig::default();
    config.stream_receive_window = crate::config::WindowConfig::fixed(64 << 20);
    config.connection_receive_window = crate::config::WindowConfig::fixed(64 << 20);
    config.send_buffer_bytes = 128 << 20;
    let (mut client, mut server) = (set(Side::Client, &config), set(Side::Server, &config));
    client.set_congestion_window(64 << 20);
    let id = client.open(Dir::Uni).unwrap();
    let block = Bytes::from(vec![9; 1 << 20]);
    for _ in 0..64 {
        assert_eq!(client.write_bytes(id, &mut block.clone()), Ok(1 << 20));
    }
    client.finish(id).unwrap();
    let sent: Vec<_> = std::iter::from_fn(|| packet(&mut client, 690)).collect();
    assert!(sent.len() > 98_000, "{}", sent.len());
    let now = Instant::ZERO;
    for packet in sent.iter().skip(1).step_by(2) {
        deliver(&mut server, now, packet).unwrap();
        packet
            .tokens
            .iter()
            .for_each(|token| client.on_acked(*token));
    }
    for packet in sent.iter().step_by(2) {
        packet
            .tokens
            .iter()
            .for_each(|token| client.on_lost(*token));
    }
    let mut resent = 0;
    while let Some(packet) = packet(&mut client, 690) {
        deliver(&mut server, now, &packet).unwrap();
        packet
            .tokens
            .iter()
            .for_each(|token| client.on_acked(*token));
        resent += 1;
    }
    assert!(resent >= 49_000, "{resent}");
    let mut total = 0;
    while let ReadOutcome::Chunk(chunk) = server.read(id, 1 << 20).unwrap() {
        total += chunk.len();
    }
    assert_eq!(total, 64 << 20);
    assert_eq!(client.stats().open_streams, 0);
}
