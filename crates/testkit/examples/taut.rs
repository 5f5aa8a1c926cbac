//! The bars of `bbr3-taut` for any controllers, and its ablation.
//!
//! `taut [--cc NAME]... [--rules all|none|-RULE|+RULE]... [--bars abcdefl] [--seeds N] [--draw N]`

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tautline_sim::{LinkConfig, QueueSize, links};
use tautline_testkit::{
    bars,
    figure::{Flow, Trial, median},
};
use tautline_transport::congestion::{
    Bbr3TautFactory, SharedControllerFactory, TautRules, registry,
};

type Cc = SharedControllerFactory;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn named(name: &str) -> LinkConfig {
    links::by_name(name).unwrap_or_else(|| panic!("no link is called {name}"))
}

fn by_name(name: &str) -> Cc {
    registry::by_name(name).unwrap_or_else(|| panic!("no controller is called {name}"))
}

/// `all`, `none`, or those with some rules switched: `-share,-excess-loss`, `+share`.
fn taut(text: &str) -> Cc {
    let mut rules = if text.starts_with('+') {
        TautRules::NONE
    } else {
        TautRules::ALL
    };
    for word in text.split(',') {
        let known = match (word, word.split_at(1)) {
            ("all", _) => true,
            ("none", _) => {
                rules = TautRules::NONE;
                true
            }
            (_, (sign, name)) => rules.set(name, sign == "+"),
        };
        assert!(known, "{word} is no rule; there are {:?}", TautRules::NAMES);
    }
    Arc::new(Bbr3TautFactory::new(rules))
}

/// Runs `job` on every item with as many threads as asked for, keeping the order.
fn parallel<T: Sync, R: Send>(jobs: usize, items: &[T], job: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = job(item);
                    results.lock().unwrap().push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

fn range(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    let middle = median(values.iter().copied());
    format!("{middle:.3} ({low:.3}-{high:.3})")
}

struct Lab {
    seeds: Vec<u64>,
    jobs: usize,
    label: String,
    cc: Cc,
    rival: Option<Cc>,
    /// Whether the rival comes first.
    second: bool,
    loss: f64,
}

impl Lab {
    fn each<R: Send>(&self, job: impl Fn(u64) -> R + Sync) -> Vec<R> {
        parallel(self.jobs, &self.seeds, |seed| job(*seed))
    }

    fn say(&self, bar: &str, cell: &str, text: &str) {
        println!("{bar} | {:<18} | {cell:<38} | {text}", self.label);
    }

    fn goodput(&self, bar: &str, link: &str, loss: f64, duration: Duration) {
        let runs = self.each(|seed| bars::goodput(seed, &named(link), loss, &self.cc, duration));
        let shares: Vec<f64> = runs.iter().map(|run| run.0).collect();
        let drops = runs.iter().map(|run| run.1 as f64);
        self.say(
            bar,
            &format!("{link} {}% loss, goodput/R", loss * 100.0),
            &format!("{} drops {:.0}", range(&shares), median(drops)),
        );
    }

    fn beside(&self, bar: &str, link: &str, queue: f64, rival: &str, second: bool) {
        let mut config = named(link);
        for direction in [&mut config.forward, &mut config.backward] {
            direction.queue = QueueSize::Bdp(queue);
        }
        let rival_cc = by_name(rival);
        let flows = if second {
            [self.cc.clone(), rival_cc]
        } else {
            [rival_cc, self.cc.clone()]
        };
        let runs =
            self.each(|seed| bars::shares(seed, &config, &flows, secs(10), secs(60), secs(180)));
        let index = usize::from(second);
        let shares: Vec<f64> = runs.iter().map(|run| run.share(index)).collect();
        let used = median(runs.iter().map(|run| run.used));
        let drops = median(runs.iter().map(|run| run.queue_drops as f64));
        self.say(
            bar,
            &format!(
                "{link} {queue} BDP, {rival} {}, its share",
                if second { "second" } else { "first" }
            ),
            &format!("{} used {used:.3} drops {drops:.0}", range(&shares)),
        );
    }

    fn recovery(&self, link: &str, flows: usize) {
        let rounds = self.each(|seed| bars::recovery_rounds(seed, &named(link), flows, &self.cc));
        self.say(
            "c",
            &format!("{link} {flows} flows, all but one end, RTTs"),
            &range(&rounds),
        );
    }

    fn many(&self, link: &str, flows: usize) {
        let ccs = vec![self.cc.clone(); flows];
        let runs = self.each(|seed| {
            bars::shares(
                seed,
                &named(link),
                &ccs,
                Duration::ZERO,
                secs(30),
                secs(180),
            )
        });
        let jain: Vec<f64> = runs.iter().map(|run| run.jain).collect();
        let used = median(runs.iter().map(|run| run.used));
        let drops = median(runs.iter().map(|run| run.queue_drops as f64));
        self.say(
            "d",
            &format!("{link} {flows} flows, Jain"),
            &format!("{} used {used:.3} drops {drops:.0}", range(&jain)),
        );
    }

    fn mice(&self, link: &str) {
        for (elephant, mouse) in [
            (self.cc.clone(), self.cc.clone()),
            (self.cc.clone(), by_name("cubic")),
            (by_name("cubic"), self.cc.clone()),
        ] {
            let times = self.each(|seed| bars::mouse(seed, &named(link), &elephant, &mouse));
            self.say(
                "e",
                &format!(
                    "{link} {} beside {}, 1 MB, s",
                    mouse.name(),
                    elephant.name()
                ),
                &range(&times),
            );
        }
    }

    fn mix(&self, link: &str, ours: usize, cubic: usize) {
        for first in [true, false] {
            let own = std::iter::repeat_n(self.cc.clone(), ours);
            let other = std::iter::repeat_n(by_name("cubic"), cubic);
            let flows: Vec<Cc> = if first {
                own.chain(other).collect()
            } else {
                other.chain(own).collect()
            };
            let gap = Duration::from_millis(500);
            let runs = self
                .each(|seed| bars::shares(seed, &named(link), &flows, gap, secs(60), secs(180)));
            let jain: Vec<f64> = runs.iter().map(|run| run.jain).collect();
            let used = median(runs.iter().map(|run| run.used));
            let drops = median(runs.iter().map(|run| run.queue_drops as f64));
            self.say(
                "f",
                &format!(
                    "{link} {ours} and {cubic} cubic {}, Jain",
                    if first { "last" } else { "first" }
                ),
                &format!("{} used {used:.3} drops {drops:.0}", range(&jain)),
            );
        }
    }

    /// A line per second of the flow, alone on geo or beside a flow of `--rival`.
    fn trace(&self) {
        let mut flows = vec![Flow::endless("cubic").with(self.cc.clone())];
        if let Some(rival) = &self.rival {
            let other = Flow::endless("cubic").with(rival.clone());
            if self.second {
                flows.insert(0, other);
            } else {
                flows.push(other);
            }
            flows[1].start = secs(10);
        }
        let trial = Trial::of(self.seeds[0], bars::lossy(named("geo"), self.loss), flows);
        let report = trial.run(secs(120));
        for (index, flow) in report.flows.iter().enumerate() {
            println!("flow {index}");
            for samples in flow.history.windows(5).step_by(4) {
                let (before, now) = (&samples[0], &samples[4]);
                println!(
                    "{:>6.1} s {:<16} window {:>8} in flight {:>8} rtt {:>5} ms bw {:>6.2} pace {:>6.2} got {:>6.2} lost {}",
                    now.at.since_origin().as_secs_f64(),
                    now.congestion.state,
                    now.congestion.window,
                    now.in_flight,
                    now.rtt.as_millis(),
                    now.congestion
                        .bandwidth
                        .map_or(0.0, |bw| bw.bits_per_second() as f64 / 1e6),
                    now.congestion
                        .pacing_rate
                        .map_or(0.0, |bw| bw.bits_per_second() as f64 / 1e6),
                    (now.received - before.received) as f64 * 8e-6
                        / (now.at.saturating_since(before.at)).as_secs_f64(),
                    now.recovery.packets_lost - before.recovery.packets_lost,
                );
            }
        }
    }

    fn bars(&self, which: &str) {
        for bar in which.chars() {
            match bar {
                'a' => {
                    for loss in [0.0, 0.001, 0.01, 0.02, 0.05] {
                        self.goodput("a", "geo", loss, secs(180));
                    }
                }
                'b' => {
                    self.beside("b", "geo", 1.0, "cubic", false);
                    self.beside("b", "geo", 1.0, "cubic", true);
                }
                'c' => {
                    self.recovery("geo", 2);
                    self.recovery("geo", 4);
                }
                'd' => self.many("geo", 64),
                'e' => self.mice("geo"),
                'f' => {
                    for (ours, cubic) in [(1, 1), (2, 2), (3, 1), (1, 3)] {
                        self.mix("geo", ours, cubic);
                    }
                }
                'l' => {
                    for link in ["terrestrial", "wifi", "cellular"] {
                        for loss in [0.0, 0.01, 0.02] {
                            self.goodput("l", link, loss, secs(60));
                        }
                    }
                }
                'q' => {
                    for link in ["terrestrial", "wifi", "cellular"] {
                        for queue in [0.5, 1.0, 2.0, 4.0] {
                            for second in [false, true] {
                                self.beside("q", link, queue, "cubic", second);
                            }
                        }
                    }
                }
                't' => self.trace(),
                other => panic!("no bar is called {other}"),
            }
        }
    }
}

fn main() {
    let mut ccs: Vec<(String, Cc)> = Vec::new();
    let (mut seeds, mut draw, mut jobs, mut which) = (5, 0, 2, String::from("abcdef"));
    let (mut rival, mut second, mut loss) = (None, false, 0.0);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--cc" => {
                let name = value();
                ccs.push((name.clone(), by_name(&name)));
            }
            "--rules" => {
                let text = value();
                ccs.push((text.clone(), taut(&text)));
            }
            "--rival" => rival = Some(by_name(&value())),
            "--second" => second = true,
            "--loss" => loss = value().parse().unwrap(),
            "--bars" => which = value(),
            "--seeds" => seeds = value().parse().unwrap(),
            "--draw" => draw = value().parse().unwrap(),
            "--jobs" => jobs = value().parse().unwrap(),
            other => panic!("{other} is not an option"),
        }
    }
    for (label, cc) in ccs {
        let lab = Lab {
            seeds: (1..=seeds).map(|seed| draw * 1000 + seed).collect(),
            jobs,
            label,
            cc,
            rival: rival.clone(),
            second,
            loss,
        };
        lab.bars(&which);
    }
}
