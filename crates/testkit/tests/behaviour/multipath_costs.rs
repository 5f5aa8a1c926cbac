//! Paths that are metered: used when others do not work, and never past their cap.

use tautline_transport::{
    connection::Connection,
    multipath::{MultipathConfig, PathCost, PathPin, PathStatus, abandon, sched},
    path::{PathEvent, PathStats},
    units::{PathId, Side},
};

use crate::{
    kit::{MS, SECOND},
    multipath_trouble::Trouble,
};

const FREE: PathId = PathId(0);
const METERED: PathId = PathId(1);

fn stats(trouble: &mut Trouble, side: Side, id: PathId) -> PathStats {
    let stats = trouble.on(side, |it: &mut Connection, _| it.path_stats(id));
    stats.expect("the path is there")
}

fn sent(trouble: &mut Trouble, side: Side, id: PathId) -> u64 {
    stats(trouble, side, id).recovery.bytes_sent
}

fn set_cost(trouble: &mut Trouble, side: Side, id: PathId, cost: PathCost) {
    let set = trouble.on(side, |it, now| it.set_path_cost(now, id, cost));
    assert_eq!(set, Ok(()));
}

fn has(trouble: &Trouble, side: Side, wanted: impl Fn(&PathEvent) -> bool) -> bool {
    trouble.path_events(side).iter().any(wanted)
}

#[test]
fn a_metered_path_is_spared_by_both_ends_while_another_works() {
    for name in sched::registry::names() {
        let mut trouble = Trouble::with(1, 2, |config| {
            let mut multipath = MultipathConfig::default();
            multipath.scheduler = sched::registry::by_name(name).expect("a scheduler");
            config.multipath = Some(multipath);
        });
        set_cost(&mut trouble, Side::Client, METERED, PathCost::metered());
        trouble.run(SECOND);
        assert!(has(&trouble, Side::Server, |event| *event
            == PathEvent::StatusChanged {
                path: METERED,
                status: PathStatus::Backup
            }));
        for side in [Side::Client, Side::Server] {
            let before = sent(&mut trouble, side, METERED);
            trouble.transfer(side, 1_000_000);
            trouble.deliver(10 * SECOND);
            trouble.run(SECOND);
            let used = sent(&mut trouble, side, METERED) - before;
            assert!(used < 5_000, "{name} {side:?} {used}");
        }
        // The other one dies.
        trouble.set_link(0, false);
        trouble.transfer(Side::Client, 500_000);
        trouble.deliver(10 * SECOND);
        let used = sent(&mut trouble, Side::Client, METERED);
        assert!(used > 500_000, "{name} {used}");
    }
}

#[test]
fn classes_stand_in_order() {
    let mut trouble = Trouble::open(2, 3);
    set_cost(
        &mut trouble,
        Side::Client,
        PathId(0),
        PathCost::metered().class(2),
    );
    set_cost(&mut trouble, Side::Client, PathId(1), PathCost::metered());
    for (expected, dead) in [(2, None), (1, Some(2)), (0, Some(1))] {
        if let Some(dead) = dead {
            trouble.set_link(dead, false);
            // It takes a probe timeout to find out.
            trouble.transfer(Side::Client, 100_000);
            trouble.deliver(10 * SECOND);
        }
        let all =
            |trouble: &mut Trouble| [0, 1, 2].map(|id| sent(trouble, Side::Client, PathId(id)));
        let before = all(&mut trouble);
        trouble.transfer(Side::Client, 500_000);
        trouble.deliver(10 * SECOND);
        let after = all(&mut trouble);
        for id in 0..3 {
            let used = after[id] - before[id];
            assert_eq!(used > 400_000, id == expected, "{id} {used}, {dead:?}");
            assert!(id == expected || used < 20_000, "{id} {used}, {dead:?}");
        }
    }
}

#[test]
fn a_cap_is_never_passed_and_ends_the_path() {
    const CAP: u64 = 400_000;
    // Used because nothing else is left, or pinned.
    for case in ["alone", "pinned", "strictly pinned"] {
        let mut trouble = Trouble::open(3, 2);
        let cost = PathCost::metered().cap(CAP);
        set_cost(&mut trouble, Side::Client, METERED, cost);
        if case == "alone" {
            trouble.set_link(0, false);
        }
        let pin = match case {
            "pinned" => Some(PathPin::Prefer(METERED)),
            "strictly pinned" => Some(PathPin::Only(METERED)),
            _ => None,
        };
        trouble.transfer_on(Side::Client, 3_000_000, pin);
        let mut most = 0;
        for _ in 0..300 {
            trouble.run(10 * MS);
            let path = trouble.on(Side::Client, |client, _| client.path_stats(METERED));
            let carried = path.map_or(0, |path| path.recovery.bytes_sent + path.bytes_received);
            most = most.max(carried);
        }
        println!("{case}: {most} of {CAP}");
        // What is received after the end counts as well: some acknowledgements.
        assert!(most > CAP - 2_000 && most < CAP + 5_000, "{case} {most}");
        assert!(has(
            &trouble,
            Side::Client,
            |event| matches!(event, PathEvent::CapNear { path: METERED, bytes_left } if *bytes_left <= CAP / 10)
        ));
        assert!(has(&trouble, Side::Client, |event| *event
            == PathEvent::CapReached { path: METERED }));
        let closed = |code| move |event: &PathEvent| matches!(event, PathEvent::Abandoned { path: METERED, code: it, .. } if *it == code);
        let limit = abandon::PATH_RESOURCE_LIMIT_REACHED;
        // It stays for a higher cap while nothing else works.
        let stays = case == "alone";
        let is_closed = has(&trouble, Side::Client, closed(limit));
        assert_eq!(is_closed, !stays, "{case}");
        trouble.set_link(0, true);
        trouble.deliver(60 * SECOND);
        assert!(has(&trouble, Side::Client, closed(limit)), "{case}");
    }
}

#[test]
fn a_path_with_a_cap_alone_is_used_freely_and_then_kept_in_reserve() {
    const CAP: u64 = 400_000;
    let mut trouble = Trouble::open(6, 2);
    let cost = PathCost::default().cap(CAP);
    set_cost(&mut trouble, Side::Client, METERED, cost);
    trouble.transfer(Side::Client, 3_000_000);
    trouble.deliver(30 * SECOND);
    let path = stats(&mut trouble, Side::Client, METERED);
    let carried = path.recovery.bytes_sent + path.bytes_received;
    println!("{carried} of {CAP}");
    assert!(carried > CAP * 8 / 10 && carried < CAP, "{carried}");
    assert_eq!(path.status, PathStatus::Backup);
    let near = |event: &PathEvent| matches!(event, PathEvent::CapNear { path: METERED, .. });
    assert!(has(&trouble, Side::Client, near));
    // The rest is for when it is needed.
    trouble.set_link(0, false);
    trouble.transfer(Side::Client, 20_000);
    trouble.deliver(10 * SECOND);
}

#[test]
fn the_last_path_falls_silent_at_its_cap_and_goes_on_when_it_is_raised() {
    let mut trouble = Trouble::new(4, 1, |_| {});
    set_cost(
        &mut trouble,
        Side::Client,
        FREE,
        PathCost::metered().cap(200_000),
    );
    let id = trouble
        .transfer_on(Side::Client, 1_000_000, None)
        .expect("a stream");
    trouble.run(5 * SECOND);
    let carried = stats(&mut trouble, Side::Client, FREE);
    let carried = carried.recovery.bytes_sent + carried.bytes_received;
    assert!(carried <= 205_000 && !trouble.is_over(id), "{carried}");
    let events = trouble.path_events(Side::Client);
    let reached = PathEvent::CapReached { path: FREE };
    assert_eq!(events.iter().filter(|event| **event == reached).count(), 1);
    set_cost(&mut trouble, Side::Client, FREE, PathCost::metered());
    trouble.deliver(10 * SECOND);
}

#[test]
fn a_path_at_its_cap_waits_for_no_time() {
    // Data under way, MTU searches that would begin again: none of it may leave, and no timer may insist.
    let mut trouble = Trouble::new(7, 1, |config| config.max_idle_timeout = None);
    let cap = PathCost::metered().cap(200_000);
    set_cost(&mut trouble, Side::Client, FREE, cap);
    trouble.transfer(Side::Client, 1_000_000);
    trouble.run(5 * SECOND);
    trouble.set_link(0, false);
    let before = sent(&mut trouble, Side::Client, FREE);
    for _ in 0..4 {
        // The world would be stuck.
        trouble.run(1_800 * SECOND);
    }
    assert_eq!(sent(&mut trouble, Side::Client, FREE), before);
    trouble.set_link(0, true);
    set_cost(&mut trouble, Side::Client, FREE, PathCost::metered());
    trouble.deliver(600 * SECOND);
}

#[test]
fn a_cap_is_kept_without_several_paths() {
    let mut trouble = Trouble::new(8, 1, |config| config.multipath = None);
    let cap = PathCost::default().cap(200_000);
    set_cost(&mut trouble, Side::Client, FREE, cap);
    trouble.transfer(Side::Client, 1_000_000);
    trouble.run(60 * SECOND);
    let near = |event: &PathEvent| matches!(event, PathEvent::CapNear { path: FREE, .. });
    assert!(has(&trouble, Side::Client, near));
    let carried = sent(&mut trouble, Side::Client, FREE);
    assert!(carried > 180_000 && carried <= 200_000, "{carried}");
    // There is nobody to be asked for another path.
    let path = stats(&mut trouble, Side::Client, FREE);
    assert_eq!(path.status, PathStatus::Available);
}

#[test]
fn a_cost_may_be_set_before_the_path_is_open() {
    let mut trouble = Trouble::new(5, 2, |_| {});
    let opened = trouble
        .net
        .on_client(|client, now| client.open_path(now, crate::multipath_trouble::to(1, 50_000)));
    assert_eq!(opened, Ok(METERED));
    set_cost(&mut trouble, Side::Client, METERED, PathCost::metered());
    trouble.run(SECOND);
    assert_eq!(
        stats(&mut trouble, Side::Client, METERED).cost,
        PathCost::metered()
    );
    trouble.transfer(Side::Server, 1_000_000);
    trouble.deliver(10 * SECOND);
    let used = sent(&mut trouble, Side::Server, METERED);
    assert!(used < 10_000, "{used}");
    let unknown = trouble.on(Side::Client, |client, now| {
        client.set_path_cost(now, PathId(99), PathCost::metered())
    });
    assert!(unknown.is_err());
}

#[test]
fn a_path_at_its_cap_stays_while_no_other_works() {
    let mut trouble = Trouble::open(3, 2);
    let cap = PathCost::metered().cap(400_000);
    set_cost(&mut trouble, Side::Client, METERED, cap);
    trouble.set_link(0, false);
    trouble.transfer(Side::Client, 3_000_000);
    trouble.run(10 * SECOND);
    let reached = |event: &PathEvent| *event == PathEvent::CapReached { path: METERED };
    assert!(has(&trouble, Side::Client, reached));
    assert!(!stats(&mut trouble, Side::Client, METERED).abandoned);
    set_cost(
        &mut trouble,
        Side::Client,
        METERED,
        PathCost::metered().cap(3_000_000),
    );
    trouble.run(10 * SECOND);
    assert!(sent(&mut trouble, Side::Client, METERED) > 2_000_000);
    // Once another works, what is spent is closed.
    trouble.set_link(0, true);
    trouble.deliver(60 * SECOND);
    assert!(trouble.works(Side::Client, FREE));
}

#[test]
fn a_cap_leaves_the_status_that_was_asked_for() {
    let mut trouble = Trouble::open(3, 2);
    let set = trouble.on(Side::Client, |it, _| {
        it.set_path_status(METERED, PathStatus::Backup)
    });
    assert!(set.is_ok());
    let status = |trouble: &mut Trouble| stats(trouble, Side::Client, METERED).status;
    let capped = PathCost::default().cap(10_000_000);
    set_cost(&mut trouble, Side::Client, METERED, capped);
    assert_eq!(status(&mut trouble), PathStatus::Backup);
    set_cost(&mut trouble, Side::Client, METERED, PathCost::metered());
    set_cost(&mut trouble, Side::Client, METERED, PathCost::default());
    assert_eq!(status(&mut trouble), PathStatus::Available);
}
