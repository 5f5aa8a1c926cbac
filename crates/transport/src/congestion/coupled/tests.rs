//! Coupled controllers by themselves; the rules are tested in `rules.rs`.

use super::*;
use crate::congestion::{
    registry,
    test_link::{self, MTU, Path, Run, context, ms},
};

const NAMES: [&str; 3] = ["lia", "olia", "balia"];

fn at(millis: u64) -> Instant {
    Instant::ZERO + ms(millis)
}

fn ack(sent: u64, bytes: u64) -> AckEvent {
    AckEvent {
        now: at(sent + 100),
        largest_acked_sent: at(sent),
        ..test_link::ack(0, 0, bytes, ms(100))
    }
}

fn lose(controller: &mut dyn CongestionController, sent: u64, now: u64) {
    let packet = test_link::lost(0, at(sent));
    controller.on_loss(&test_link::loss(at(now), &[packet], false));
}

fn build(name: &str) -> Box<dyn CongestionController> {
    registry::by_name(name).unwrap().build(context())
}

fn view(datagrams: u64) -> SiblingView {
    SiblingView::new(datagrams * MTU, ms(100), MTU)
}

/// Without siblings all of them are NewReno, to the byte.
#[test]
fn alone_they_are_newreno() {
    let outcome = |name| {
        let mut run = Run::new(build(name), Path::new(20.0, 50, 0.5).with_loss(0.002));
        run.run_for(Duration::from_secs(30));
        (run.delivered, run.lost, run.controller.window())
    };
    for name in NAMES {
        assert_eq!(outcome(name), outcome("newreno"), "{name}");
    }
}

#[test]
fn beside_an_equal_path_a_quarter_of_the_increase() {
    for name in NAMES {
        let mut cc = build(name);
        lose(&mut *cc, 0, 10);
        assert_eq!(cc.window(), 5 * MTU);
        cc.on_siblings(&view(5), &[view(5)]);
        for _ in 0..4 {
            assert_eq!(cc.window(), 5 * MTU, "{name}");
            cc.on_ack(&ack(20, 5 * MTU - 2));
        }
        cc.on_ack(&ack(20, 8));
        assert_eq!(cc.window(), 6 * MTU, "{name}");
        // The sibling goes.
        cc.on_siblings(&view(6), &[]);
        for _ in 0..6 {
            cc.on_ack(&ack(20, MTU));
        }
        assert_eq!(cc.window(), 7 * MTU, "{name}");
    }
}

#[test]
fn slow_start_is_not_coupled() {
    for name in NAMES {
        let mut cc = build(name);
        cc.on_siblings(&view(10), &[view(10)]);
        cc.on_ack(&ack(0, 3 * MTU));
        assert_eq!(cc.window(), 13 * MTU, "{name}");
    }
}

#[test]
fn olia_shrinks_the_larger_window_for_the_better_path() {
    let mut cc = build("olia");
    lose(&mut *cc, 0, 10);
    let mut good = view(4);
    good.between_losses = 1_000_000;
    // Rates of 50, 40 and 200: (50 / 290)^2 - 1/3 for the one with the largest window.
    let mut own = view(50);
    own.rtt = ms(1_000);
    own.between_losses = 1;
    cc.on_siblings(&own, &[good, view(20)]);
    for _ in 0..2_000 {
        cc.on_ack(&ack(20, MTU));
    }
    assert_eq!(cc.window(), 2 * MTU, "never below");
    assert_eq!(cc.metrics().state, "congestion_avoidance");
}

#[test]
fn balia_gives_up_more_of_the_slower_path() {
    let mut cc = build("balia");
    cc.on_siblings(&view(10), &[view(100)]);
    lose(&mut *cc, 0, 10);
    assert_eq!(cc.window(), 10 * MTU / 4);
    let mut cc = build("balia");
    cc.on_siblings(&view(10), &[view(1)]);
    lose(&mut *cc, 0, 10);
    assert_eq!(cc.window(), 5 * MTU);
}

#[test]
fn bytes_between_losses_are_of_the_better_interval() {
    let between = |cc: &dyn CongestionController| cc.coupling().map(|it| it.between_losses);
    let mut cc = build("olia");
    cc.on_ack(&ack(0, 7_000));
    assert_eq!(between(&*cc), Some(7_000));
    lose(&mut *cc, 1, 110);
    cc.on_ack(&ack(120, 3_000));
    assert_eq!(between(&*cc), Some(7_000));
    cc.on_ack(&ack(120, 5_000));
    assert_eq!(between(&*cc), Some(8_000));
    lose(&mut *cc, 100, 230);
    assert_eq!(between(&*cc), Some(8_000), "the same recovery period");
    lose(&mut *cc, 300, 400);
    lose(&mut *cc, 500, 600);
    assert_eq!(between(&*cc), Some(0));
    assert!(build("cubic").coupling().is_none());
}

mod bottlenecks {
    use super::*;
    use crate::{rng::Rng, units::PathId};

    /// A drop-tail queue that fills and empties, as a share of 100 ms.
    struct Queue {
        level: f64,
        step: f64,
        rng: Rng,
    }

    impl Queue {
        fn new(seed: u64, step: f64) -> Self {
            Self {
                level: 0.2,
                step,
                rng: Rng::from_u64(seed),
            }
        }

        /// Every 10 ms; whether it overflows.
        fn advance(&mut self) -> bool {
            self.level += self.step * self.rng.below(100) as f64 / 50.0;
            let over = self.level > 1.0;
            if over {
                self.level = 0.5 + self.rng.below(100) as f64 / 1_000.0;
            }
            over
        }

        fn delay(&mut self) -> Duration {
            let noise = self.rng.below(1_000);
            Duration::from_micros((self.level * 100_000.0) as u64 + noise)
        }
    }

    fn feed(record: &mut DelayRecord, now: Instant, queue: &mut Queue, base: u64, lost: bool) {
        let delay = queue.delay() + ms(base);
        record.on_sample(now, delay);
        record.on_packets(now, 10, u64::from(lost));
    }

    fn kinships(shared: bool, seconds: u64) -> (Kinship, bool) {
        let (mut a, mut b) = (DelayRecord::default(), DelayRecord::default());
        let (mut one, mut two) = (Queue::new(1, 0.004), Queue::new(2, 0.0015));
        let mut watch = SharedBottlenecks::default();
        for tick in 1..seconds * 100 {
            let now = at(tick * 10);
            let (lost_one, lost_two) = (one.advance(), two.advance());
            feed(&mut a, now, &mut one, 20, lost_one);
            if shared {
                feed(&mut b, now, &mut one, 70, lost_one);
            } else {
                feed(&mut b, now, &mut two, 20, lost_two);
            }
            let records = [(PathId(0), &a), (PathId(1), &b)];
            watch.review(now, records.into_iter());
        }
        (a.kinship(&b), watch.may_share(PathId(1), PathId(0)))
    }

    #[test]
    fn one_queue_is_found_shared() {
        assert_eq!(kinships(true, 60), (Kinship::Shared, true));
    }

    #[test]
    fn two_queues_are_told_apart() {
        assert_eq!(kinships(false, 60), (Kinship::Apart, false));
    }

    #[test]
    fn nothing_is_concluded_early() {
        assert_eq!(kinships(false, 10), (Kinship::Unknown, true));
        let empty = DelayRecord::default();
        assert_eq!(empty.kinship(&empty), Kinship::Unknown);
    }

    #[test]
    fn gaps_and_absurd_delays_are_survived() {
        let mut record = DelayRecord::default();
        let mut rng = Rng::from_u64(3);
        let mut now = Instant::ZERO;
        for _ in 0..2_000 {
            now += Duration::from_millis(rng.below(5_000));
            let delay = if rng.chance(0.1) {
                Duration::MAX
            } else {
                Duration::ZERO
            };
            record.on_sample(now, delay);
            record.on_packets(now, u64::MAX, u64::MAX);
            record.kinship(&record.clone());
        }
        record.on_sample(Instant::ZERO, ms(1));
        record.on_sample(Instant::FAR_FUTURE, ms(1));
    }
}
