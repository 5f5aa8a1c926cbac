use super::*;
use registry::{by_name, names};

fn id(index: u64) -> StreamId {
    StreamId(index * 4)
}

fn priority(urgency: u8, incremental: bool) -> Priority {
    Priority {
        urgency,
        incremental,
    }
}

/// The streams that get the next `turns` turns of 8 KiB.
fn turns(scheduler: &mut dyn StreamScheduler, turns: usize) -> Vec<u64> {
    let mut order = Vec::new();
    for _ in 0..turns {
        let next = scheduler.next().unwrap();
        order.push(next.0 / 4);
        for _ in 0..8 {
            assert_eq!(scheduler.next(), Some(next));
            scheduler.on_sent(next, TURN_BYTES / 8);
        }
    }
    order
}

/// Streams in the order in which they run dry.
fn drain(scheduler: &mut dyn StreamScheduler) -> Vec<u64> {
    std::iter::from_fn(|| {
        let next = scheduler.next()?;
        scheduler.on_quiet(next);
        Some(next.0 / 4)
    })
    .collect()
}

#[test]
fn registry_names_match() {
    assert_eq!(
        names().collect::<Vec<_>>(),
        ["priority", "round-robin", "fifo", "deadline"]
    );
    for name in names() {
        let factory = by_name(name).unwrap();
        assert_eq!((factory.name(), factory.build().name()), (name, name));
    }
    assert!(by_name("deadline?").is_none());
    assert_eq!(registry::default_factory().name(), "priority");
}

#[test]
fn contract_of_every_scheduler() {
    for name in names() {
        let mut scheduler = by_name(name).unwrap().build();
        assert_eq!(scheduler.next(), None);
        let incremental = priority(3, true);
        for index in [3, 1, 2, 0] {
            scheduler.on_ready(id(index), incremental, None);
        }
        assert_eq!(
            scheduler.next(),
            scheduler.next(),
            "{name}: next() alone changes nothing"
        );
        scheduler.on_quiet(id(2));
        scheduler.on_priority(id(1), priority(7, false));
        let mut seen = drain(&mut *scheduler);
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 3], "{name}: every ready stream is named once");
        assert_eq!(scheduler.next(), None);
    }
}

#[test]
fn round_robin_shares() {
    let mut scheduler = by_name("round-robin").unwrap().build();
    for index in 0..3 {
        scheduler.on_ready(id(index), priority(index as u8, false), None);
    }
    assert_eq!(turns(&mut *scheduler, 6), [0, 1, 2, 0, 1, 2]);
    scheduler.on_quiet(id(1));
    assert_eq!(turns(&mut *scheduler, 3), [0, 2, 0]);
}

#[test]
fn fifo_serves_one_to_the_end() {
    let mut scheduler = by_name("fifo").unwrap().build();
    for index in [2, 0, 1] {
        scheduler.on_ready(id(index), Priority::default(), None);
    }
    assert_eq!(turns(&mut *scheduler, 3), [2, 2, 2]);
    scheduler.on_quiet(id(2));
    scheduler.on_ready(id(2), Priority::default(), None);
    assert_eq!(drain(&mut *scheduler), [0, 1, 2]);
}

#[test]
fn priority_serves_urgency_then_id() {
    let mut scheduler = by_name("priority").unwrap().build();
    scheduler.on_ready(id(5), priority(3, false), None);
    scheduler.on_ready(id(4), priority(3, false), None);
    scheduler.on_ready(id(9), priority(200, false), None);
    assert_eq!(turns(&mut *scheduler, 2), [4, 4]);
    scheduler.on_ready(id(8), priority(0, true), None);
    assert_eq!(turns(&mut *scheduler, 2), [8, 8]);
    scheduler.on_priority(id(9), priority(1, false));
    assert_eq!(drain(&mut *scheduler), [8, 9, 4, 5]);
}

#[test]
fn priority_shares_among_incremental() {
    let mut scheduler = by_name("priority").unwrap().build();
    for index in 0..3 {
        scheduler.on_ready(id(index), priority(3, true), None);
    }
    assert_eq!(turns(&mut *scheduler, 4), [0, 1, 2, 0]);
    // All non-incremental streams together count as one more.
    scheduler.on_ready(id(11), priority(3, false), None);
    scheduler.on_ready(id(10), priority(3, false), None);
    assert_eq!(turns(&mut *scheduler, 8), [1, 2, 0, 10, 1, 2, 0, 10]);
    scheduler.on_quiet(id(10));
    assert_eq!(turns(&mut *scheduler, 4), [1, 2, 0, 11]);
}

/// Milliseconds after the start.
fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn with_deadlines(deadlines: &[(u64, u64)]) -> Box<dyn StreamScheduler> {
    let mut scheduler = by_name("deadline").unwrap().build();
    for (index, deadline) in deadlines {
        scheduler.on_ready(id(*index), Priority::default(), Some(at(*deadline)));
    }
    scheduler
}

#[test]
fn deadline_serves_the_nearest_that_can_be_met() {
    let mut scheduler = with_deadlines(&[(0, 300), (1, 100), (2, 200)]);
    scheduler.on_ready(id(9), priority(0, false), None);
    scheduler.on_time(at(0), Duration::from_millis(50));
    assert_eq!(turns(&mut *scheduler, 2), [1, 1]);
    scheduler.on_time(at(51), Duration::from_millis(50));
    assert_eq!(turns(&mut *scheduler, 2), [2, 2]);
    // What just arrives in time is in time.
    scheduler.on_time(at(150), Duration::from_millis(50));
    assert_eq!(scheduler.next(), Some(id(2)));
    scheduler.on_quiet(id(2));
    // What is too late comes after what has no deadline and a smaller urgency, by priority.
    assert_eq!(drain(&mut *scheduler), [0, 9, 1]);
}

#[test]
fn deadline_breaks_ties_by_urgency_then_id() {
    let mut scheduler = with_deadlines(&[(2, 100), (3, 100), (1, 100)]);
    scheduler.on_priority(id(3), priority(1, false));
    assert_eq!(drain(&mut *scheduler), [3, 1, 2]);
    let mut scheduler = with_deadlines(&[(2, 100), (3, 100)]);
    scheduler.on_ready(id(1), priority(7, false), Some(at(100)));
    assert_eq!(drain(&mut *scheduler), [2, 3, 1]);
}

#[test]
fn deadline_without_deadlines_is_priority() {
    let run = |name| {
        let mut scheduler = by_name(name).unwrap().build();
        for index in 0..9 {
            let ready = priority(3 + index as u8 % 2, index % 3 == 0);
            scheduler.on_ready(id(index), ready, None);
        }
        let mut order = turns(&mut *scheduler, 20);
        scheduler.on_priority(id(5), priority(0, true));
        order.extend(turns(&mut *scheduler, 2));
        order.extend(drain(&mut *scheduler));
        order
    };
    assert_eq!(run("deadline"), run("priority"));
}

#[test]
fn behind_what_others_deliver_goes_who_is_not_finished() {
    let waiting = |id: StreamId| 10_000 * (1 + id.0 / 4);
    let behind = |name: &str, incremental, ahead| {
        let mut scheduler = by_name(name).unwrap().build();
        for index in 0..3 {
            scheduler.on_ready(id(index), priority(3, incremental), None);
        }
        // Less urgent: never.
        scheduler.on_ready(id(8), priority(5, false), None);
        scheduler.next_behind(ahead, &waiting).unwrap().0 / 4
    };
    let in_order = |ahead| behind("priority", false, ahead);
    assert_eq!([0, 10_000, 30_000, 90_000].map(in_order), [0, 1, 2, 2]);
    let in_turns = |ahead| behind("priority", true, ahead);
    assert_eq!([0, 10_000, 30_000, 50_000].map(in_turns), [0, 0, 1, 2]);
    assert_eq!(behind("fifo", false, 10_000), 1);
    assert_eq!(behind("round-robin", false, 40_000), 1);
    assert_eq!(behind("deadline", false, 10_000), 1, "without deadlines");
}

#[test]
fn those_in_order_take_turns_together() {
    let waiting = |_: StreamId| 10_000;
    let mut scheduler = by_name("priority").unwrap().build();
    scheduler.on_ready(id(0), priority(3, false), None);
    scheduler.on_ready(id(1), priority(3, false), None);
    scheduler.on_ready(id(2), priority(3, true), None);
    let mut at = |ahead| scheduler.next_behind(ahead, &waiting).unwrap().0 / 4;
    // 10,000 of either: the first in order has gone, and the one that takes turns.
    assert_eq!([0, 19_000, 20_000, 29_000].map(&mut at), [0, 0, 1, 1]);
}

#[test]
fn the_first_end_is_by_the_order() {
    // Stream 1 may write on.
    let left = |id: StreamId| Left {
        bytes: 10_000 * (1 + id.0 / 4),
        ends: id.0 / 4 != 1,
    };
    let first = |name: &str, incremental, ready: &[u64]| {
        let mut scheduler = by_name(name).unwrap().build();
        for index in ready {
            scheduler.on_ready(id(*index), priority(3, incremental), None);
        }
        // Less urgent.
        scheduler.on_ready(id(8), priority(5, false), None);
        scheduler.first_end(&left)
    };
    for name in ["priority", "deadline"] {
        assert_eq!(first(name, false, &[1, 2]), Some(50_000));
        assert_eq!(first(name, false, &[0, 1, 2]), Some(10_000));
        assert_eq!(first(name, true, &[1, 2]), Some(50_000));
        assert_eq!(first(name, true, &[0, 1, 2]), Some(30_000));
        assert_eq!(first(name, false, &[1]), None, "the more urgent one stays");
        assert_eq!(first(name, false, &[]), Some(90_000));
    }
    assert_eq!(first("fifo", false, &[2, 1, 0]), Some(30_000));
    assert_eq!(first("round-robin", false, &[2, 1, 0]), Some(40_000));
    let mut due = with_deadlines(&[(1, 100), (2, 200)]);
    due.on_ready(id(0), priority(0, false), None);
    assert_eq!(due.first_end(&left), Some(50_000), "the nearest one first");
    due.on_time(at(300), Duration::ZERO);
    assert_eq!(due.first_end(&left), Some(10_000), "too late for both");
}

#[test]
fn room_goes_to_whoever_is_sent_first() {
    let place = |name: &str, index, urgency, incremental| {
        let scheduler = by_name(name).unwrap().build();
        scheduler.place(id(index), priority(urgency, incremental))
    };
    for name in ["priority", "deadline"] {
        assert!(place(name, 1, 3, false) < place(name, 2, 3, false));
        assert!(place(name, 2, 1, false) < place(name, 1, 3, false));
        assert_eq!(place(name, 1, 3, true), place(name, 2, 3, true), "in turns");
    }
    for name in ["round-robin", "fifo"] {
        assert_eq!(place(name, 1, 1, false), place(name, 2, 3, false));
    }
}

/// Streams whose turn it is on a slower path have had it.
#[test]
fn what_a_slower_path_carries_counts_as_a_turn() {
    let waiting = |_: StreamId| 1_000_000;
    for every in [1, 2, 10, 100] {
        let mut scheduler = by_name("priority").unwrap().build();
        for index in 0..3 {
            scheduler.on_ready(id(index), priority(3, false), None);
        }
        scheduler.on_ready(id(3), priority(3, true), None);
        let mut sent = [0_u64; 4];
        for packet in 0..10_000 {
            let next = if packet % every == 0 {
                scheduler.next()
            } else {
                scheduler.next_behind(1_500_000, &waiting)
            };
            let next = next.unwrap();
            sent[next.0 as usize / 4] += 1;
            scheduler.on_sent(next, 1_200);
        }
        // Those in order together, and the one that takes turns.
        assert!((4_900..=5_100).contains(&sent[3]), "{every}: {sent:?}");
    }
}
