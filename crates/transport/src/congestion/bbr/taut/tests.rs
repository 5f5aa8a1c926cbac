//! Each rule by itself, on one simulated bottleneck.

use std::time::Duration;

use super::{
    super::{
        super::{
            RateSample,
            test_link::{MTU, Path, Run, ack, context, loss, lost, mbps, ms},
        },
        model::UNBOUNDED,
    },
    *,
};
use crate::{congestion::EcnEvent, time::Instant, units::Rate};

fn with(rules: TautRules, path: Path) -> Run<Bbr> {
    Run::new(Bbr::new(Params::taut(rules), context()), path)
}

fn taut(path: Path) -> Run<Bbr> {
    with(TautRules::ALL, path)
}

fn without(name: &str) -> TautRules {
    let mut rules = TautRules::ALL;
    assert!(rules.set(name, false));
    rules
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Utilisation from 10 s to 40 s.
fn utilisation(mut run: Run<Bbr>) -> f64 {
    run.run_for(secs(10)).mark();
    run.run_for(secs(30));
    run.utilisation()
}

#[test]
fn every_rule_has_a_name() {
    let mut rules = TautRules::NONE;
    for name in TautRules::NAMES {
        assert!(rules.set(name, true));
    }
    assert_eq!(rules, TautRules::ALL);
    assert!(!rules.set("luck", true));
}

#[test]
fn without_rules_it_is_bbr3() {
    let bare = Params {
        name: Params::BBR3.name,
        ..Params::taut(TautRules::NONE)
    };
    assert_eq!(bare, Params::BBR3);
}

#[test]
fn the_account_learns_where_there_is_no_queue() {
    let mut ledger = Ledger::default();
    for _ in 0..50 {
        ledger.count(98.0, 2.0, false, true);
        ledger.count(50.0, 50.0, true, true);
        ledger.count(50.0, 50.0, false, false);
        ledger.end_round();
    }
    assert!((ledger.base() - 0.02).abs() < 1e-9, "{}", ledger.base());
    assert!((ledger.allowed(100.0, 0.02) - 8.0).abs() < 1e-9);
}

/// Of 100 packets one was lost, and of 1,000 over what looks like a queue twenty: that may be the same share.
#[test]
fn where_jitter_hides_short_queues_few_packets_tell_little() {
    let mut ledger = Ledger::default();
    ledger.count(99.0, 1.0, false, true);
    ledger.count(980.0, 20.0, true, true);
    assert!(ledger.is_congested(0.0, 1_000.0));
    ledger.set_hidden(true);
    assert!(!ledger.is_congested(0.0, 1_000.0));
    ledger.count(0.0, 20.0, true, true);
    assert!(ledger.is_congested(0.0, 1_000.0), "forty of 1,000 may not");
    // Nor is it an excuse where nothing is lost without a queue.
    let mut clean = Ledger::default();
    clean.set_hidden(true);
    clean.count(100.0, 0.0, false, true);
    clean.count(999.0, 1.0, true, true);
    assert!(clean.is_congested(0.0, 1_000.0));
}

#[test]
fn no_path_loses_more_than_a_tenth_on_its_own() {
    let mut ledger = Ledger::default();
    for _ in 0..50 {
        ledger.count(50.0, 50.0, false, true);
        assert!(ledger.is_congested(0.02, 100.0));
        ledger.end_round();
    }
    assert!(ledger.base() <= 0.1);
    assert!(!ledger.is_congested(0.02, 100.0));
}

#[test]
fn loss_in_a_long_queue_is_congestion() {
    let mut ledger = Ledger::default();
    for _ in 0..20 {
        ledger.count(99.0, 1.0, false, true);
        ledger.end_round();
    }
    ledger.count(0.0, 4.0, true, true);
    assert!(ledger.is_congested(0.0, 100.0), "four where one is chance");
    assert!(!ledger.is_congested(0.02, 100.0));
    ledger.count(0.0, 3.0, true, true);
    assert!(ledger.is_congested(0.02, 100.0));
}

/// Losses in the queue that ended Startup are found while it drains, with short round trips again.
#[test]
fn what_startup_overfilled_is_not_the_paths_own_loss() {
    let mut run = taut(Path::new(10.0, 44, 1.0));
    let over = |run: &Run<Bbr>| run.controller.state.is_probe_bw();
    assert!(run.run_until(Instant::ZERO + secs(5), over));
    let bbr = &mut run.controller;
    let ended = bbr.startup_ended.expect("it is over");
    let learned = |bbr: &mut Bbr, sent: Instant| {
        let before = bbr.ledger.base();
        let packets = [0, 1, 2, 3].map(|number| lost(number, sent));
        let mut event = loss(sent + ms(44), &packets, false);
        event.rtt.adjusted = ms(44);
        bbr.note_lost(&event);
        bbr.ledger.base() - before
    };
    assert_eq!(learned(bbr, ended), 0.0);
    assert!(learned(bbr, ended + ms(1)) > 0.0);
}

/// What the queue that ended Startup lost has had its answer. One packet lost by chance while it drains is none.
#[test]
fn what_startup_overfilled_does_not_hold_the_rate_down() {
    let mut run = taut(Path::new(10.0, 44, 1.0));
    let over = |run: &Run<Bbr>| run.controller.startup_ended.is_some();
    assert!(run.run_until(Instant::ZERO + secs(5), over));
    let bbr = &mut run.controller;
    let ended = bbr.startup_ended.expect("it is over");
    // The round after.
    bbr.signals.reset();
    bbr.ledger.end_round();
    let of_startup: Vec<_> = (0..9).map(|number| lost(number, ended)).collect();
    let mut event = loss(ended + ms(44), &of_startup, false);
    event.rtt.adjusted = ms(150);
    bbr.on_loss(&event);
    assert!(!bbr.signals.loss_in_round);
    let by_chance = [lost(9, ended + ms(1))];
    bbr.on_loss(&loss(ended + ms(50), &by_chance, false));
    assert!(!bbr.signals.loss_in_round, "one packet");
    let later: Vec<_> = (10..19).map(|number| lost(number, ended + ms(1))).collect();
    let mut event = loss(ended + ms(51), &later, false);
    event.rtt.adjusted = ms(150);
    bbr.on_loss(&event);
    assert!(bbr.signals.loss_in_round, "a queue that overflows again");
}

#[test]
fn a_queue_of_few_packets_is_not_overflowed_for_ever() {
    // Acknowledged in bursts, such a queue is empty in between: no round meets it throughout, and what it drops looks
    // like the path's own loss.
    let mut path = Path::new(10.0, 8, 0.7);
    path.aggregate = ms(3);
    let mut run = taut(path);
    run.run_for(ms(300));
    let at_first = run.loss_share();
    assert!(at_first < 0.15, "{at_first}");
    run.mark();
    let (later, used) = (run.run_for(secs(9)).loss_share(), run.utilisation());
    assert!(later < 0.03 && used > 0.99, "{later} {used}");
}

#[test]
fn rounds_tell_a_standing_queue() {
    let (min, mut now) = (ms(100), Instant::ZERO);
    let mut queue = QueueView::new(now);
    let mut round = |queue: &mut QueueView, rtts: &[u64]| {
        for (index, rtt) in rtts.iter().enumerate() {
            now += ms(10);
            queue.on_ack(now, now, Some(ms(*rtt)), index == 0);
        }
    };
    for _ in 0..7 {
        assert!(!queue.stands(min));
        round(&mut queue, &[200, 113, 150]);
    }
    assert!(queue.stands(min) && queue.was_long(min, 8));
    assert!(!queue.was_long(min, 2) && !queue.is_gone(min, 1));
    let high = |rtt, grain| queue.is_high(ms(rtt), min, ms(grain));
    assert!(high(175, 0) && !high(174, 0));
    assert!(high(150, 25) && !high(149, 25), "known to two packets");
    assert!(high(107, 100) && !high(106, 100), "any queue");
    assert!(high(175, 24) && !high(174, 24), "a long one");
    assert!(queue.is_full(ms(188), min) && !queue.is_full(ms(187), min));
    for _ in 0..4 {
        round(&mut queue, &[110, 105]);
    }
    assert!(queue.is_gone(min, 3) && !queue.stands(min));
    queue.restart();
    assert!(!queue.is_gone(min, 1));
}

#[test]
fn what_round_trips_fall_by_among_packets_that_arrive_at_once_is_no_queue() {
    let min = ms(100);
    // Two packets that left 30 ms apart: together, or each in its time while a queue drains.
    for (apart, jitter) in [(1, true), (20, false)] {
        let mut queue = QueueView::new(Instant::ZERO);
        let mut now = Instant::ZERO + ms(1_000);
        for _ in 0..8 {
            let mut rtt = ms(190);
            queue.on_ack(now, now - rtt, Some(rtt), true);
            for _ in 0..2 {
                now += ms(apart);
                rtt -= ms(30 - apart);
                queue.on_ack(now, now - rtt, Some(rtt), false);
            }
            now += ms(100);
        }
        assert_eq!(queue.stands(min), !jitter, "{apart} ms");
        assert_eq!(queue.was_long(min, 8), !jitter, "{apart} ms");
        assert_eq!(queue.is_hidden(min), jitter, "{apart} ms");
        // A queue longer than that by its part is one all the same.
        assert!(queue.was_long(ms(10), 8), "{apart} ms");
    }
}

#[test]
fn random_loss_is_survived() {
    for loss in [0.01, 0.02, 0.05] {
        let path = || Path::new(20.0, 100, 1.0).with_loss(loss);
        let share = utilisation(taut(path()));
        assert!(share > 0.94 * (1.0 - loss), "{loss}: {share}");
        // As bbr3 judges losses little is left of it.
        if loss >= 0.02 {
            let mut rules = without("excess-loss");
            rules.wide_start = false;
            let draft = utilisation(with(rules, path()));
            assert!(draft < 0.6 * share, "{loss}: {draft}");
        }
    }
}

#[test]
fn pacing_makes_up_for_loss() {
    let path = || Path::new(20.0, 100, 1.0).with_loss(0.04);
    let (made_up, not) = (
        utilisation(taut(path())),
        utilisation(with(without("pace-for-loss"), path())),
    );
    assert!(made_up > not + 0.01, "{made_up} {not}");
}

#[test]
fn an_empty_queue_makes_probe_rtt_needless() {
    let visits = |rules| {
        let mut run = with(rules, Path::new(20.0, 100, 1.0));
        let mut rounds = 0;
        run.run_until(Instant::ZERO + secs(60), |run| {
            rounds += u64::from(run.controller.state == State::ProbeRtt);
            false
        });
        rounds
    };
    assert_eq!(visits(TautRules::ALL), 0);
    assert!(visits(without("confirm-min-rtt")) > 0);
}

#[test]
fn a_longer_path_is_found_all_the_same() {
    let mut run = taut(Path::new(20.0, 50, 1.0));
    run.run_for(secs(10));
    run.path.delay = ms(100);
    run.run_for(secs(50)).mark();
    let min = run.controller.min_rtt.value.unwrap();
    assert!(min >= ms(100), "{min:?}");
    run.run_for(secs(20));
    assert!(run.utilisation() > 0.9, "{}", run.utilisation());
}

#[test]
fn probes_make_short_queues() {
    let peak = |rules| {
        let mut run = with(rules, Path::new(20.0, 100, 4.0));
        run.run_for(secs(10)).mark();
        run.run_for(secs(30));
        run.peak_queue as f64 / mbps(20.0).bytes_in(ms(100)) as f64
    };
    let (brief, draft) = (peak(TautRules::ALL), peak(without("brief-probe")));
    assert!(brief < 0.4 && draft > 0.6, "{brief} {draft}");
}

/// What one acknowledgement per round says: bytes delivered, the sample and what of it the peer did not add,
/// whether the application limited the rate.
type Round = (u64, Duration, Duration, bool);

/// Whether Startup goes on after these rounds, of which each left at once.
fn still_searches(rounds: &[Round]) -> bool {
    still_searches_with(rounds, Duration::ZERO)
}

/// The same where each took so long to leave.
fn still_searches_with(rounds: &[Round], send_elapsed: Duration) -> bool {
    let mut bbr = Bbr::new(Params::taut(TautRules::ALL), context());
    let mut delivered = 0;
    for (number, (bytes, latest, adjusted, app_limited)) in (0..).zip(rounds) {
        let mut event = ack(number, number + 1, *bytes, *latest);
        let rate = RateSample {
            delivered: *bytes,
            interval: *latest,
            delivery_rate: Rate::from_bytes_over(*bytes, *latest),
            send_rate: Rate::from_bytes_over(*bytes, send_elapsed),
            app_limited: *app_limited,
            prior_delivered: delivered,
            lost: 0,
            tx_in_flight: *bytes,
        };
        delivered += bytes;
        event.now = Instant::ZERO + ms(100) * u32::try_from(number + 1).unwrap();
        event.rtt.adjusted = *adjusted;
        event.rtt.min = ms(46);
        event.delivered = delivered;
        event.rate = Some(rate);
        bbr.on_ack(&event);
    }
    bbr.state == State::Startup
}

// A path's first packets are few, and the last of them is acknowledged when the peer's delay is over.
#[test]
fn what_the_peer_held_back_is_no_queue() {
    let (first, last) = (
        (4 * MTU, ms(46), ms(46), false),
        (MTU, ms(46), ms(46), false),
    );
    let held = [first, (MTU, ms(71), ms(46), false), last];
    let queued = [first, (MTU, ms(71), ms(71), false), last];
    assert!(still_searches(&held));
    assert!(!still_searches(&queued));
}

#[test]
fn what_leaves_no_faster_than_it_arrived_before_ends_no_search() {
    let rounds = [
        (4 * MTU, ms(46), ms(46), false),
        (4 * MTU, ms(71), ms(71), false),
        (4 * MTU, ms(46), ms(46), false),
    ];
    assert!(!still_searches_with(&rounds, ms(10)));
    assert!(still_searches_with(&rounds, ms(46)));
}

#[test]
fn what_the_application_limits_ends_no_search() {
    let rounds = [
        (4 * MTU, ms(46), ms(46), false),
        (MTU, ms(46), ms(46), false),
        (MTU, ms(71), ms(71), true),
        (MTU, ms(46), ms(46), true),
    ];
    assert!(still_searches(&rounds));
}

/// A path that grew longer looks like a queue of others until ProbeRTT.
fn sharing() -> Run<Bbr> {
    let mut run = taut(Path::new(20.0, 100, 1.0));
    run.run_for(secs(10));
    run.path.delay = ms(150);
    let end = run.now + secs(10);
    assert!(run.run_until(end, |run| run.controller.state == State::Share));
    run
}

#[test]
fn a_standing_queue_is_shared_until_it_is_gone() {
    let mut run = sharing();
    let window = run.controller.window;
    assert!(window >= mbps(18.0).bytes_in(ms(150)), "{window}");
    run.path.delay = ms(100);
    let freed = run.now;
    // The window as it is keeps a queue; a faster link has none.
    run.path.rate = mbps(80.0);
    run.path.queue *= 4;
    let end = run.now + secs(5);
    assert!(run.run_until(end, |run| run.controller.state == State::ProbeRefill));
    let took = run.now.saturating_since(freed);
    assert!(took < ms(600), "{took:?}");
    run.run_for(secs(3)).mark();
    run.run_for(secs(5));
    assert!(run.utilisation() > 0.9, "{}", run.utilisation());
}

#[test]
fn without_the_rule_nothing_is_shared() {
    let mut run = with(without("share"), Path::new(20.0, 100, 1.0));
    run.run_for(secs(10));
    run.path.delay = ms(150);
    let end = run.now + secs(10);
    assert!(!run.run_until(end, |run| run.controller.is_sharing()));
}

fn marks(run: &Run<Bbr>) -> EcnEvent {
    EcnEvent::new(run.now, 1, run.next_number(), run.now, run.in_flight)
}

#[test]
fn marks_are_congestion_while_sharing() {
    let mut run = sharing();
    run.run_for(ms(400));
    assert_eq!(run.controller.state, State::Share);
    let window = run.controller.window;
    let event = marks(&run);
    run.controller.on_ecn(&event);
    let end = run.now + ms(20);
    run.run_until(end, |_| false);
    let after = run.controller.window;
    assert!(after <= window * 71 / 100, "{after} of {window}");
}

#[test]
fn marks_are_congestion_on_a_lossy_path() {
    let mut run = taut(Path::new(20.0, 100, 1.0).with_loss(0.05));
    run.run_for(secs(10));
    let end = run.now + secs(10);
    assert!(run.run_until(end, |run| run.controller.state == State::ProbeCruise));
    assert_eq!(run.controller.bw_shortterm, Rate::MAX);
    let event = marks(&run);
    run.controller.on_ecn(&event);
    let end = run.now + ms(400);
    assert!(run.run_until(end, |run| run.controller.bw_shortterm < Rate::MAX));
}

#[test]
fn a_policer_is_obeyed() {
    let mut run = taut(Path::new(100.0, 40, 1.0));
    run.path.policer = Some((mbps(20.0), 100 * MTU));
    run.run_for(secs(20)).mark();
    run.run_for(secs(20));
    let used = run.utilisation() * 5.0;
    assert!(used > 0.8, "{used}");
    assert!(run.loss_share() < 0.15, "{}", run.loss_share());
}

#[test]
fn a_tenth_of_the_bandwidth_is_adapted_to() {
    let mut run = taut(Path::new(100.0, 40, 1.0));
    run.run_for(secs(5));
    run.path.rate = mbps(10.0);
    run.path.queue /= 10;
    run.run_for(secs(15)).mark();
    run.run_for(secs(20));
    assert!(run.utilisation() > 0.9, "{}", run.utilisation());
    assert!(run.loss_share() < 0.02, "{}", run.loss_share());
}

#[test]
fn little_queue_is_enough() {
    for queue in [0.25, 0.1] {
        let share = utilisation(taut(Path::new(20.0, 50, queue)));
        assert!(share > 0.9, "{queue}: {share}");
    }
}

#[test]
fn the_end_of_startup_bounds_nothing_on_a_lossy_path() {
    let mut run = taut(Path::new(20.0, 100, 1.0).with_loss(0.05));
    let end = Instant::ZERO + secs(5);
    assert!(run.run_until(end, |run| run.controller.full_pipe.reached));
    let bandwidth = run.controller.max_bw.get();
    assert!(bandwidth > mbps(17.0), "{bandwidth}");
    assert_eq!(run.controller.inflight_shortterm, UNBOUNDED);
}

#[test]
fn alone_there_is_no_queue_of_others() {
    for (mbit, delay, bdps, loss) in [
        (20.0, 300, 1.0, 0.0),
        (20.0, 50, 0.25, 0.01),
        (100.0, 5, 4.0, 0.0),
        (2.0, 100, 2.0, 0.02),
    ] {
        let mut run = taut(Path::new(mbit, delay, bdps).with_loss(loss));
        let end = Instant::ZERO + secs(30);
        assert!(run.run_until(end, |run| run.controller.state != State::Startup));
        let queue = &run.controller.queue;
        assert!(!queue.was_before_us(), "{mbit} Mb/s, {delay} ms");
    }
}

#[test]
fn startup_is_wide_where_a_round_that_grew_met_a_queue_throughout() {
    let round = |queue: &mut QueueView, now: u64, rtts: [u64; 3]| {
        for (place, rtt) in rtts.into_iter().enumerate() {
            let now = Instant::ZERO + ms(now + 10 * place as u64);
            queue.on_ack(now, now, Some(ms(rtt)), place == 0);
        }
    };
    let mut bbr = Bbr::new(Params::taut(TautRules::ALL), context());
    bbr.min_rtt.value = Some(ms(160));
    for (lowest, wide) in [(165, false), (171, true)] {
        let mut queue = QueueView::new(Instant::ZERO);
        round(&mut queue, 0, [300, lowest, 250]);
        round(&mut queue, 200, [300, 300, 300]);
        bbr.queue = queue;
        bbr.rounds.started = true;
        bbr.full_pipe.count = 1;
        bbr.look_for_others();
        assert_eq!(bbr.cwnd_gain(), MOUSE_WINDOW, "it did not grow");
        bbr.full_pipe.count = 0;
        bbr.look_for_others();
        assert_eq!(bbr.cwnd_gain() > MOUSE_WINDOW, wide, "{lowest} ms");
        bbr.params.rules.wide_start = false;
        assert_eq!(bbr.cwnd_gain(), 2.0);
        bbr.params.rules.wide_start = true;
        bbr.delivered = MOUSE_BYTES;
        assert_eq!(bbr.cwnd_gain(), 2.0, "no mouse any more");
        bbr.delivered = 0;
    }
}
