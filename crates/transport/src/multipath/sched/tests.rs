//! Which path each scheduler takes.

use std::time::Duration;

use super::{Choice, PathView, SchedulerView, registry};
use crate::{
    multipath::PathStatus,
    recovery::Standstill,
    time::Instant,
    units::{PathId, Rate},
};

/// A path of `ms` round trip and `mbps`, its window a bandwidth-delay product.
fn path(id: u32, ms: u64, mbps: u64) -> PathView {
    let rtt = Duration::from_millis(ms);
    let rate = Rate::from_bits_per_second(mbps * 1_000_000);
    PathView {
        id: PathId(id),
        may_send: true,
        status: PathStatus::Available,
        smoothed_rtt: rtt,
        recent_rtt: rtt,
        sampled_in_flight: 0,
        min_rtt: rtt,
        longest_without_queue: rtt + rtt / 5,
        standstill: Standstill::default(),
        still_for: Duration::ZERO,
        return_delay: rtt / 2,
        rtt_variance: Duration::ZERO,
        has_rtt: true,
        window: (mbps * 1_000_000 / 8 * ms / 1_000).max(12_000),
        in_flight: 0,
        rate,
        capacity: None,
        pacing: Rate::MAX,
        wait: Duration::ZERO,
        rounds_exceeded: 0,
        most_passed: 0,
        overflow: None,
        slow_start: false,
        datagram: 1_200,
        loss: 0.0,
    }
}

fn full(path: PathView) -> PathView {
    PathView {
        may_send: false,
        in_flight: path.window,
        ..path
    }
}

fn choose(name: &str, paths: &[PathView], waiting: u64) -> Option<Choice> {
    let mut scheduler = registry::by_name(name).expect("a built-in name").build();
    scheduler.choose(&view(paths, waiting))
}

fn view(paths: &[PathView], waiting: u64) -> SchedulerView<'_> {
    SchedulerView {
        now: Instant::ZERO,
        paths,
        waiting,
        more_follows: false,
        held_back: false,
    }
}

fn chosen(name: &str, paths: &[PathView], waiting: u64) -> Option<u32> {
    choose(name, paths, waiting).map(|choice| choice.path.0)
}

#[test]
fn all_take_the_only_path_that_may_send() {
    for name in registry::names() {
        let one = [path(2, 40, 10)];
        assert_eq!(chosen(name, &one, 100_000), Some(2), "{name}");
        let none = [full(path(2, 40, 10))];
        assert_eq!(chosen(name, &none, 100_000), None, "{name}");
    }
}

/// 100 ms of every two and a half seconds.
fn still_now_and_then() -> PathView {
    PathView {
        standstill: Standstill {
            mean_wait: Duration::from_millis(2),
            share: 0.04,
            wait: Duration::from_millis(50),
            watched: Duration::from_secs(60),
        },
        ..path(0, 24, 20)
    }
}

#[test]
fn a_path_that_stands_still_now_and_then_is_left_to_bulk() {
    let still = still_now_and_then();
    let paths = [still, path(1, 26, 20)];
    assert_eq!(chosen("auto", &paths, 1_200), Some(1));
    let paths = [still, full(path(1, 26, 20))];
    assert_eq!(chosen("auto", &paths, 1_200), None, "waiting is shorter");
    assert_eq!(chosen("auto", &paths, 10_000_000), Some(0));
}

#[test]
fn paths_that_are_copied_to_each_other_do_not_wait() {
    let still = still_now_and_then();
    let alike = PathView {
        standstill: Standstill {
            mean_wait: Duration::ZERO,
            ..still.standstill
        },
        ..path(1, 26, 20)
    };
    let both = [still, alike];
    assert_eq!(chosen("auto", &both, 1_200), Some(0), "copied anyway");
    let brief = PathView {
        standstill: Standstill {
            mean_wait: Duration::from_millis(5),
            wait: Duration::from_millis(10),
            ..still.standstill
        },
        ..still
    };
    let far = PathView {
        standstill: alike.standstill,
        ..path(1, 52, 20)
    };
    assert!(far.is_outrun_by(&brief) && !brief.is_outrun_by(&far));
    let held_against = chosen("auto", &[brief, far], 1_200);
    assert_eq!(
        held_against,
        Some(1),
        "a copy would come after the standstill"
    );
    let other = chosen("earliest-completion", &both, 1_200);
    assert_eq!(other, Some(1), "copies nothing");
}

#[test]
fn names_are_theirs() {
    for name in registry::names() {
        let factory = registry::by_name(name).unwrap();
        assert_eq!((factory.name(), factory.build().name()), (name, name));
    }
    assert!(registry::by_name("fastest").is_none());
    assert_eq!(registry::default_factory().name(), "auto");
}

#[test]
fn the_fast_path_goes_first() {
    let paths = [path(0, 200, 10), path(1, 40, 10)];
    for name in ["min-rtt", "ecf", "blest", "earliest-completion", "auto"] {
        assert_eq!(chosen(name, &paths, 10_000_000), Some(1), "{name}");
    }
    assert_eq!(chosen("backup", &paths, 10_000_000), Some(0));
}

#[test]
fn little_data_waits_for_the_fast_path() {
    let paths = [full(path(0, 40, 10)), path(1, 400, 10)];
    assert_eq!(chosen("min-rtt", &paths, 10_000), Some(1));
    for name in ["ecf", "earliest-completion", "auto"] {
        assert_eq!(chosen(name, &paths, 10_000), None, "{name}");
        assert_eq!(chosen(name, &paths, 10_000_000), Some(1), "{name}");
    }
}

#[test]
fn no_data_goes_where_it_would_block_the_window() {
    let paths = [full(path(0, 20, 50)), path(1, 400, 10)];
    // The fast path would send 2.5 MB before what goes on the slow one is there.
    for name in ["blest", "earliest-completion", "auto"] {
        let mut scheduler = registry::by_name(name).unwrap().build();
        let mut choose = |waiting| {
            let view = SchedulerView {
                more_follows: true,
                held_back: false,
                ..view(&paths, waiting)
            };
            scheduler.choose(&view)
        };
        assert_eq!(choose(1_000_000), None, "{name}");
        assert!(choose(1 << 30).is_some(), "{name}");
    }
}

#[test]
fn blest_follows_the_blocking_that_happens() {
    let paths = [full(path(0, 20, 50)), path(1, 400, 10)];
    let mut blest = registry::by_name("blest").unwrap().build();
    let mut after = |milliseconds, held_back| {
        let view = SchedulerView {
            now: Instant::from_nanos(0) + Duration::from_millis(milliseconds),
            more_follows: true,
            held_back,
            ..view(&paths, 4_000_000)
        };
        blest.choose(&view).is_some()
    };
    assert!(after(0, false), "2.5 MB are expected meanwhile");
    let blocked = (1..40).filter(|round| !after(round * 400, true)).count();
    assert!((10..39).contains(&blocked), "{blocked}");
    let since = |round: u64| 16_000 + round * 400;
    let blocked = (0..40).filter(|round| !after(since(*round), false)).count();
    assert!((1..30).contains(&blocked), "{blocked}");
    // Asked often, it learns no faster.
    assert!((0..1_000).all(|_| after(since(40), true)));
}

#[test]
fn backup_paths_wait_for_the_others_to_fail() {
    let mut spare = path(1, 10, 100);
    spare.status = PathStatus::Backup;
    let paths = [full(path(0, 40, 10)), spare];
    for name in registry::names() {
        assert_eq!(chosen(name, &paths, 10_000_000), None, "{name}");
        assert_eq!(chosen(name, &paths[1..], 10_000), Some(1), "{name}");
    }
}

#[test]
fn turns_and_weights() {
    let paths = [path(0, 40, 30), path(1, 40, 10)];
    let all = view(&paths, 1 << 20);
    let shares = |name: &str| {
        let mut scheduler = registry::by_name(name).unwrap().build();
        let mut sent = [0; 2];
        for _ in 0..400 {
            let choice = scheduler.choose(&all).unwrap();
            scheduler.on_sent(choice.path, choice.bytes);
            sent[choice.path.0 as usize] += 1;
        }
        sent
    };
    assert_eq!(shares("round-robin"), [200, 200]);
    assert_eq!(shares("weighted"), [300, 100]);
}

#[test]
fn parts_are_what_arrives_by_the_common_end() {
    let paths = [path(0, 100, 10), full(path(1, 20, 10))];
    // 1 MB over 20 Mb/s in all: about 0.43 s, of which path 0's data has 0.05 s less.
    let choice = choose("earliest-completion", &paths, 1_000_000).unwrap();
    assert_eq!(choice.path, PathId(0));
    assert_eq!(choice.bytes, paths[0].room(), "a window at most");
}

#[test]
fn beside_the_best_path_only_what_is_proven_counts() {
    let fat = full(path(0, 24, 50));
    let thin = |most_passed| PathView {
        window: 100_000,
        in_flight: 50_000,
        slow_start: true,
        most_passed,
        ..path(1, 44, 10)
    };
    assert_eq!(chosen("auto", &[fat, thin(50_000)], 300_000), Some(1));
    // Should it hold no more than 25 kB, data would come 44 ms later there: after the fat path's last.
    assert_eq!(chosen("auto", &[fat, thin(25_000)], 300_000), None);
    assert_eq!(chosen("auto", &[fat, thin(25_000)], 3_000_000), Some(1));
}

#[test]
fn a_queue_is_not_filled_to_where_it_overflows() {
    let filled = |in_flight, overflow| PathView {
        window: 150_000,
        in_flight,
        overflow,
        ..path(0, 44, 10)
    };
    let choice = |in_flight, overflow| choose("auto", &[filled(in_flight, overflow)], 1_000_000);
    assert_eq!(
        choice(100_000, None).map(|choice| choice.bytes),
        Some(50_000)
    );
    let held = choice(100_000, Some(110_001));
    assert_eq!(held.map(|choice| choice.bytes), Some(9_401));
    assert!(choice(109_900, Some(110_001)).is_none());
    // It dropped the packet behind 73 of full size; no more of those that are six bytes smaller pass.
    let smaller = PathView {
        datagram: 1_452,
        ..filled(73 * 1_446, Some(74 * 1_452))
    };
    assert!(choose("auto", &[smaller], 1_000_000).is_none());
    // What a path is refused goes on another one.
    let paths = [filled(109_900, Some(110_001)), path(1, 100, 10)];
    assert_eq!(chosen("auto", &paths, 1_000_000), Some(1));
    // A path that has nothing is never full.
    assert!(choice(0, Some(1_200)).is_some());
}

#[test]
fn a_path_that_stands_still_is_expected_as_much_later() {
    let still = |ms| PathView {
        still_for: Duration::from_millis(ms),
        ..path(0, 40, 10)
    };
    assert_eq!(still(7).one_way_delay(), Duration::from_millis(27));
    assert_eq!(chosen("auto", &[still(0), path(1, 50, 10)], 1_200), Some(0));
    assert_eq!(
        chosen("auto", &[still(20), path(1, 50, 10)], 1_200),
        Some(1)
    );
    assert_eq!(
        PathView {
            still_for: Duration::MAX,
            ..path(0, 40, 10)
        }
        .one_way_delay(),
        Duration::MAX
    );
}

#[test]
fn what_the_pacer_holds_back_goes_on_another_path() {
    // 50 kB in the window, but 20 ms until the pacer has let them leave; the other path takes 5 ms longer.
    let paced = |id, ms| PathView {
        window: 100_000,
        pacing: Rate::from_bits_per_second(20_000_000),
        ..path(id, ms, 10)
    };
    let waits = PathView {
        may_send: false,
        ..paced(0, 40)
    };
    assert_eq!(chosen("auto", &[waits, paced(1, 50)], 50_000), Some(1));
    assert_eq!(chosen("auto", &[waits, paced(1, 100)], 50_000), None);
}

#[test]
fn nothing_leaves_before_the_pacer_lets_it() {
    // Two packets are all there is, and the shorter path would have them there first if they left now.
    let held = |ms| PathView {
        may_send: false,
        wait: Duration::from_millis(ms),
        pacing: Rate::from_bits_per_second(10_000_000),
        ..path(0, 40, 10)
    };
    assert_eq!(chosen("auto", &[held(2), path(1, 50, 10)], 2_400), None);
    let other = path(1, 50, 10);
    assert_eq!(chosen("auto", &[held(30), other], 2_400), Some(1));
}

#[test]
fn a_path_is_not_left_idle_for_what_the_receiver_lets_go_in_drops() {
    let busy = |id| PathView {
        in_flight: 40_000,
        window: 100_000,
        rtt_variance: Duration::from_millis(5),
        pacing: Rate::from_bits_per_second(10_000_000),
        ..path(id, 44, 10)
    };
    let held = PathView {
        may_send: false,
        wait: Duration::from_millis(1),
        ..busy(0)
    };
    let paths = [held, busy(1)];
    let mut scheduler = registry::by_name("auto").unwrap().build();
    let mut choose = |held_back| {
        let view = SchedulerView {
            more_follows: true,
            held_back,
            ..view(&paths, 2_400)
        };
        scheduler.choose(&view).map(|choice| choice.path.0)
    };
    // These two packets would be there as soon if they waited; those that follow would not.
    assert_eq!(choose(false), None);
    assert_eq!(choose(true), Some(1));
}

#[test]
fn a_queue_that_has_drained_is_none() {
    let drained = PathView {
        recent_rtt: Duration::from_millis(90),
        ..path(0, 40, 10)
    };
    assert!(!drained.queues());
    assert_eq!(drained.one_way_delay(), Duration::from_millis(20));
    let stands = PathView {
        in_flight: 60_000,
        ..drained
    };
    assert!(stands.queues());
    assert!(stands.one_way_delay() > Duration::from_millis(50));
}

#[test]
fn a_queue_of_our_own_is_as_long_as_what_is_in_flight() {
    let rate = Rate::from_bits_per_second(10_000_000);
    // 50 kB fill the path; at 10 Mb/s each 12.5 kB more are 10 ms.
    let queued = |in_flight| PathView {
        capacity: Some(rate),
        recent_rtt: Duration::from_millis(80),
        sampled_in_flight: 100_000,
        in_flight,
        ..path(0, 40, 10)
    };
    for (in_flight, ms) in [(25_000, 20), (62_500, 30), (100_000, 60)] {
        let delay = queued(in_flight).one_way_delay();
        assert_eq!(delay, Duration::from_millis(ms), "{in_flight}");
    }
}

#[test]
fn a_tight_receive_window_is_shared_datagram_by_datagram() {
    // Each holds 50,000 bytes.
    let paths = [path(0, 40, 10), path(1, 40, 10)];
    for name in ["auto", "earliest-completion"] {
        let mut scheduler = registry::by_name(name).unwrap().build();
        let mut run = |waiting, held_back| {
            let view = SchedulerView {
                more_follows: true,
                held_back,
                ..view(&paths, waiting)
            };
            scheduler.choose(&view).unwrap().bytes
        };
        assert_eq!(run(100_000, true), 1_200, "{name}");
        assert!(run(100_000, false) > 10_000, "{name}");
        assert!(run(200_000, true) > 10_000, "{name}");
    }
}

#[test]
fn what_slow_start_may_overfill_is_left_to_a_path_that_is_faster_for_certain() {
    let tries = PathView {
        slow_start: true,
        most_passed: 40_000,
        in_flight: 80_000,
        window: 120_000,
        ..path(0, 44, 10)
    };
    let fast = |mbps| {
        let fast = path(1, 22, mbps);
        full(PathView {
            capacity: Some(fast.rate),
            ..fast
        })
    };
    // All of it is there 78 ms from now over the fast path alone, on the other one after 66 ms, if nothing is lost.
    let paths = [tries, fast(60)];
    assert_eq!(chosen("auto", &paths, 500_000), None);
    assert_eq!(chosen("auto", &paths, 2_000_000), Some(0));
    let follows = SchedulerView {
        more_follows: true,
        ..view(&paths, 500_000)
    };
    let mut scheduler = registry::by_name("auto").unwrap().build();
    assert_eq!(
        scheduler.choose(&follows).map(|choice| choice.path.0),
        Some(0)
    );
    let proven = PathView {
        most_passed: 80_000,
        ..tries
    };
    assert_eq!(chosen("auto", &[proven, fast(60)], 500_000), Some(0));
    assert_eq!(chosen("auto", &[tries, fast(20)], 500_000), Some(0));
}

#[test]
fn a_path_in_slow_start_that_seems_full_is_tried_again_by_and_by() {
    let slow = |in_flight, rounds_exceeded| PathView {
        slow_start: true,
        // 27,500 bytes without a queue.
        capacity: Some(Rate::from_bits_per_second(5_000_000)),
        rounds_exceeded,
        most_passed: 40_000,
        in_flight,
        window: 300_000,
        ..path(0, 44, 5)
    };
    let fast = full(path(1, 44, 40));
    let takes = |in_flight, rounds| chosen("auto", &[slow(in_flight, rounds), fast], 10_000_000);
    assert_eq!(takes(41_000, 0), Some(0));
    assert_eq!(takes(42_000, 0), None);
    assert_eq!(takes(42_000, 8), Some(0));
    assert_eq!(takes(83_000, 8), None);
    assert_eq!(takes(83_000, 16), Some(0));
    assert_eq!(takes(200_000, u32::MAX), Some(0));
}

#[test]
fn others_deliver_something_before_what_goes_by_a_slower_path_is_there() {
    let choice = |held_back| {
        let paths = [full(path(0, 20, 10)), path(1, 100, 10)];
        let view = SchedulerView {
            held_back,
            ..view(&paths, 1_000_000)
        };
        let mut scheduler = registry::by_name("auto").unwrap().build();
        scheduler.choose(&view).unwrap()
    };
    // 40 ms at 10 Mb/s, but for what is uncertain of arrivals.
    let Choice {
        path: id, ahead, ..
    } = choice(false);
    assert_eq!(id, PathId(1));
    assert!((45_000..=50_000).contains(&ahead), "{ahead}");
    assert_eq!(choice(true).ahead, 0, "streams in their order");
    // In slow start no more than it has shown: 20,000 bytes a round trip, that took 40 ms.
    let young = PathView {
        slow_start: true,
        most_passed: 20_000,
        smoothed_rtt: Duration::from_millis(40),
        ..full(path(0, 20, 10))
    };
    let choice = choose("auto", &[young, path(1, 100, 10)], 1_000_000).unwrap();
    assert!((15_000..=20_000).contains(&choice.ahead), "{choice:?}");
    let first = choose("auto", &[path(0, 20, 10), path(1, 100, 10)], 1_000_000).unwrap();
    assert_eq!((first.path, first.ahead), (PathId(0), 0));
    let paths = [full(path(0, 20, 10)), path(1, 100, 10)];
    assert_eq!(choose("min-rtt", &paths, 1_000_000).unwrap().ahead, 0);
}

#[test]
fn what_passed_without_a_queue_is_expected_to_pass_without_one() {
    // 44 ms of what is in flight at 20 Mb/s. As much took 25 ms a round trip ago.
    let path = PathView {
        capacity: Some(Rate::from_bits_per_second(20_000_000)),
        in_flight: 110_000,
        sampled_in_flight: 100_000,
        recent_rtt: Duration::from_millis(25),
        ..path(0, 24, 50)
    };
    let way = path.one_way_delay();
    // A millisecond then, and the 10,000 bytes that it is more now.
    assert_eq!(way, Duration::from_millis(12 + 1 + 4));
    let as_then = PathView {
        in_flight: 100_000,
        ..path
    };
    assert!(path.queues() && !as_then.queues());
    let lost = PathView {
        sampled_in_flight: 60_000,
        ..path
    };
    assert_eq!(lost.one_way_delay(), Duration::from_millis(12 + 1 + 20));
}
