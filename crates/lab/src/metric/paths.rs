//! Metrics of connections over several paths, and of what interrupts them.

use std::time::Duration;

use tautline_sim::{Direction, PAYLOAD_SHARE};
use tautline_transport::time::Instant;

use super::{
    CellMetric,
    cell::{goodput, metric, ratio},
    quantile,
};
use crate::{
    outcome::Item,
    run::{FlowRecord, LinkRecord, PathRecord, Record},
};

pub(super) const FIRST_PATH_SHARE: CellMetric = metric!(
    "first_path_share",
    "1",
    None,
    "UDP payload bytes that the measured flows' senders sent over the network's first path / over all; empty where none could take several",
    "",
    |r| {
        let first = r.links.first()?;
        let paths = || r.measured().flat_map(|flow| &flow.paths);
        let sent = |path: &PathRecord| path.sender.map_or(0, |wire| wire.bytes_sent);
        let own: u64 = paths()
            .filter(|path| path.home == first.name)
            .map(sent)
            .sum();
        let all: u64 = paths().map(sent).sum();
        ratio(own as f64, all as f64)
    }
);

pub(super) const LEAST_PATH_SHARE: CellMetric = metric!(
    "least_path_share",
    "1",
    None,
    "the smallest share of one path in the UDP payload bytes of a measured flow's sender, of paths that were opened; empty likewise",
    "",
    |r| {
        let of = |flow: &FlowRecord| {
            let all: u64 = flow.path_bytes().sum();
            ratio(flow.path_bytes().min()? as f64, all as f64)
        };
        r.measured().filter_map(of).min_by(f64::total_cmp)
    }
);

pub(super) const PATHS_USED: CellMetric = metric!(
    "paths_used",
    "1",
    None,
    "paths over which data came to a measured flow's receiver; the most of one flow; empty likewise",
    "",
    |r| {
        let flows = r.measured().filter(|flow| !flow.paths.is_empty());
        let used = flows.map(|flow| {
            let came =
                |path: &&PathRecord| path.receiver.is_some_and(|wire| wire.first_data.is_some());
            flow.paths.iter().filter(came).count()
        });
        Some(used.max()? as f64)
    }
);

pub(super) const SECOND_PATH_S: CellMetric = metric!(
    "second_path_s",
    "s",
    Some(false),
    "from a measured flow's start until the first packet with data had come to the receiver over a path other than the handshake's; the earliest; empty when none came",
    "time to first byte on the second path (004 4.2)",
    |r| {
        let since = |flow: &FlowRecord| {
            let came = flow.second_path()?;
            Some(came.saturating_since(flow.start).as_secs_f64())
        };
        r.measured().filter_map(since).min_by(f64::total_cmp)
    }
);

pub(super) const SHARE_OF_PATHS: CellMetric = metric!(
    "share_of_paths",
    "1",
    Some(true),
    "goodput of the measured flows / sum of R = 0.9588 x capacity x (1 - loss) over all paths of a network with paths side by side, in the first measured flow's direction",
    "",
    |r| {
        let paths = r.links.iter().all(|link| link.is_path);
        let direction = towards_receiver(r.measured().next()?);
        let mut sum = 0.0;
        for link in r.links.iter().filter(|_| paths) {
            let config = match direction {
                Direction::Forward => &link.config.forward,
                Direction::Backward => &link.config.backward,
            };
            let rate = link.capacity(direction, r.window)?;
            sum += rate * PAYLOAD_SHARE * (1.0 - config.loss.mean_rate());
        }
        ratio(goodput(r)?, sum)
    }
);

pub(super) const STALL_MAX_MS: CellMetric = metric!(
    "stall_max_ms",
    "ms",
    Some(false),
    "longest time in which the bytes in order at a measured flow's receiver did not grow, from its first ones until it was finished or the run over, to the step of samples (run.sample)",
    "",
    |r| {
        let stalls = r.measured().map(stall);
        Some(stalls.max()?.as_secs_f64() * 1e3)
    }
);

pub(super) const ITEM_EXCESS_MS: CellMetric = metric!(
    "item_excess_ms",
    "ms",
    Some(false),
    "median over the measured flows' items of the time from wanted to complete, less the shortest base round trip of the flow's paths, less the mean time in that path's queue towards the receiver meanwhile (to the step of samples); of networks with paths side by side",
    "",
    |r| {
        let mut all = Vec::new();
        for flow in r.measured() {
            let best = flow.homes.iter().filter_map(|home| path(r, home));
            let Some(best) = best.min_by_key(|link| base_rtt(link)) else {
                continue;
            };
            all.extend(
                flow.receiver
                    .items
                    .iter()
                    .filter_map(|item| excess(item, flow, best)),
            );
        }
        all.sort_by(f64::total_cmp);
        quantile(&all, 0.5)
    }
);

fn towards_receiver(flow: &FlowRecord) -> Direction {
    if flow.up {
        Direction::Forward
    } else {
        Direction::Backward
    }
}

fn stall(flow: &FlowRecord) -> Duration {
    let mut longest = Duration::ZERO;
    let mut grew: Option<(u64, Instant)> = None;
    for sample in &flow.history {
        // What is over does not grow.
        let at = flow
            .receiver
            .finished
            .map_or(sample.at, |end| end.min(sample.at));
        match &mut grew {
            None if sample.received == 0 => {}
            None => grew = Some((sample.received, at)),
            Some((received, since)) => {
                longest = longest.max(at.saturating_since(*since));
                if sample.received > *received {
                    (*received, *since) = (sample.received, at);
                }
            }
        }
    }
    longest
}

/// The path from that place, if paths lie side by side.
fn path<'a>(record: &'a Record, home: &str) -> Option<&'a LinkRecord> {
    let mut paths = record.links.iter().filter(|link| link.is_path);
    paths.find(|link| link.name == home)
}

fn base_rtt(link: &LinkRecord) -> Duration {
    link.config.forward.delay + link.config.backward.delay
}

/// In ms; below zero where less than the whole queue was in the way.
fn excess(item: &Item, flow: &FlowRecord, best: &LinkRecord) -> Option<f64> {
    let done = item.done?;
    let queueing = best.queueing(towards_receiver(flow), (item.wanted, done))?;
    let base = (base_rtt(best) + queueing).as_secs_f64();
    Some((done.saturating_since(item.wanted).as_secs_f64() - base) * 1e3)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{
        plan::{Plan, ReadOptions},
        run::{Record, play},
        stack::Stacks,
    };

    const PATHS: &str = r#"
name = "paths"
title = "Paths"
[network]
queue = "1 BDP"
[[network.paths]]
name = "a"
rate = "10 Mb/s"
delay = "20 ms"
OUTAGE
[[network.paths]]
name = "b"
rate = "5 Mb/s"
delay = "100 ms"
[[flow]]
name = "main"
workload = WORKLOAD
[[solution]]
name = "a"
paths = "a"
[[solution]]
name = "b"
paths = "b"
[[solution]]
name = "both"
multipath = "min-rtt"
[[solution]]
name = "both from b"
multipath = "min-rtt"
paths = ["b", "a"]
ready = "paths"
[run]
limit = "60 s"
sample = "5 ms"
"#;

    fn played(workload: &str, outage: &str) -> [Record; 4] {
        let text = PATHS
            .replace("WORKLOAD", workload)
            .replace("OUTAGE", outage);
        let stacks = Stacks::default();
        let read = Plan::parse(&text, Path::new("."), &ReadOptions::default(), &stacks);
        let plan = read.unwrap();
        [0, 1, 2, 3].map(|solution| {
            let cell = plan.cell(solution).unwrap();
            let scene = plan.scene(&cell, &stacks).unwrap();
            play(&scene, &stacks, cell.seed).unwrap()
        })
    }

    #[test]
    fn a_path_that_stands_still_stalls() {
        let outage = "outages = [{ start = '2 s', duration = '700 ms' }]";
        let [a, b, both, _] = played("{ kind = 'bulk', bytes = '5 MB' }", outage);
        let stall = |record: &Record| record.metric("stall_max_ms").unwrap();
        // The outage, and until a probe goes through it.
        assert!((700.0..1500.0).contains(&stall(&a)), "{}", stall(&a));
        assert!(stall(&b) < 500.0, "{}", stall(&b));
        // Capacities of both count, whichever was taken.
        let share = |record: &Record| record.metric("share_of_paths").unwrap();
        assert!((0.3..0.6).contains(&share(&a)), "{}", share(&a));
        assert!((0.25..0.33).contains(&share(&b)), "{}", share(&b));
        for name in [
            "first_path_share",
            "least_path_share",
            "second_path_s",
            "paths_used",
        ] {
            assert_eq!(a.metric(name), None, "{name}");
        }
        assert!(stall(&both) < stall(&a), "{}", stall(&both));
    }

    /// Both carry data, and the rows of paths add up to that of the connection.
    #[test]
    fn two_paths_are_taken_and_told_apart() {
        let [a, _, both, from_b] = played("{ kind = 'bulk', bytes = '5 MB' }", "");
        let value = |record: &Record, name: &str| record.metric(name).unwrap();
        assert!(value(&both, "completion_s") < 0.95 * value(&a, "completion_s"));
        for (record, first) in [(&both, "a"), (&from_b, "b")] {
            let flow = &record.flows[0];
            assert_eq!(flow.paths[0].home, first);
            assert_eq!(flow.homes[0], first);
            assert_eq!(value(record, "paths_used"), 2.0);
            let first_share = value(record, "first_path_share");
            assert!((0.6..0.8).contains(&first_share), "{first_share}");
            let least = value(record, "least_path_share");
            assert!((first_share + least - 1.0).abs() < 1e-9);
            // Packets of the handshake are path 0's too, and nothing else is missing.
            let sent: u64 = flow.path_bytes().sum();
            let all = flow.sender_wire.unwrap().bytes_sent;
            assert!(sent <= all && sent > all * 95 / 100, "{sent} of {all}");
            for (path, min) in flow.paths.iter().zip([first, "other"]) {
                let rtt = path.sender.unwrap().min_rtt.as_secs_f64() * 1e3;
                let base = if path.home == "a" { 40.0 } else { 200.0 };
                assert!((base..base + 30.0).contains(&rtt), "{min}: {rtt}");
            }
        }
        // The handshake over b takes 200 ms, 100 more until the server has its end, and half a round trip of a's
        // until the client has the server's answer to its challenge.
        assert!(value(&both, "ready_s") < 0.1, "{}", value(&both, "ready_s"));
        assert!(
            value(&from_b, "ready_s") > 0.24,
            "{}",
            value(&from_b, "ready_s")
        );
        let since = value(&from_b, "completion_s") - value(&from_b, "ready_s");
        assert!((since - value(&from_b, "request_completion_s")).abs() < 1e-9);
        assert!(value(&both, "second_path_s") > 0.1);
    }

    /// What an urgent object takes beyond round trip and queue is little, and the queue is what it
    /// stood in.
    #[test]
    fn urgent_objects_wait_for_the_queue_alone() {
        let workload =
            "{ kind = 'urgent', transfer = '5 MB', object = '1 kB', count = 20, within = '4 s' }";
        let [a, b, ..] = played(workload, "");
        for (record, rtt) in [(&a, 40.0), (&b, 200.0)] {
            let median = record.metric("item_p50_ms").unwrap();
            let excess = record.metric("item_excess_ms").unwrap();
            assert_eq!(record.metric("items"), Some(20.0));
            assert!(median > rtt, "{median}");
            assert!(excess.abs() < 10.0, "{excess} of {median}");
            assert!(record.flows[0].receiver.extra["urgent_transfer_s"] > 4.0);
        }
    }
}
