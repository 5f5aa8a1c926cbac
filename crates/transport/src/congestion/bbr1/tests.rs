//! What draft-cardwell-iccrg-bbr-congestion-control-00 says, on one simulated bottleneck.

use std::time::Duration;

use super::{machine::GAIN_CYCLE, *};
use crate::congestion::test_link::{self, MTU, Path, Run, Source, context, loss, lost, mbps, ms};

fn run(path: Path) -> Run<Bbr1> {
    Run::new(Bbr1::new(context()), path)
}

/// 100 Mb/s, 40 ms, one BDP of queue: 400 packets in the pipe.
fn plain() -> Run<Bbr1> {
    run(Path::new(100.0, 40, 1.0))
}

const fn is_probe_bw(state: State) -> bool {
    matches!(state, State::ProbeBw { .. })
}

/// Runs for at most a minute until the state suits; how long that took.
fn reach(run: &mut Run<Bbr1>, wanted: impl Fn(State) -> bool) -> Duration {
    let start = run.now;
    let end = start + Duration::from_secs(60);
    assert!(run.run_until(end, |run| wanted(run.controller.machine.state)));
    run.now.saturating_since(start)
}

fn share(rate: Rate, of_mbps: f64) -> f64 {
    rate.bytes_per_second() as f64 / mbps(of_mbps).bytes_per_second() as f64
}

#[test]
fn gains_of_the_draft() {
    let gains = |state| {
        let mut machine = Bbr1::new(context()).machine;
        machine.state = state;
        (machine.pacing_gain(), machine.window_gain())
    };
    let high = 2.0 / 2f64.ln();
    assert!((gains(State::Startup).0 - high).abs() < 1e-12);
    assert_eq!(gains(State::Startup).1, gains(State::Startup).0);
    assert!((gains(State::Drain).0 - 1.0 / high).abs() < 1e-12);
    assert_eq!(gains(State::Drain).1, gains(State::Startup).1);
    assert_eq!(gains(State::ProbeBw { phase: 0 }), (1.25, 2.0));
    assert_eq!(gains(State::ProbeBw { phase: 1 }), (0.75, 2.0));
    assert_eq!(gains(State::ProbeRtt), (1.0, 1.0));
    assert_eq!(GAIN_CYCLE.iter().sum::<f64>(), 8.0, "the average is one");
}

#[test]
fn startup_ends_after_three_rounds_without_growth_and_drain_empties_the_queue() {
    let mut run = run(Path::new(100.0, 40, 4.0));
    reach(&mut run, |state| state == State::Drain);
    assert_eq!(run.controller.full_pipe.rounds, 3);
    let found = share(run.controller.bandwidth.get(), 100.0);
    assert!((0.98..1.02).contains(&found), "{found}");
    // The window lets a queue of 1.89 BDP and three quanta build up, no more.
    let bdp = mbps(100.0).bytes_in(ms(40)) as f64;
    let queued = run.peak_queue as f64 / bdp;
    println!("queue at the end of Startup: {queued:.2} BDP");
    assert!((1.5..2.15).contains(&queued), "{queued}");
    reach(&mut run, is_probe_bw);
    assert!(run.in_flight <= run.controller.inflight(1.0));
    run.mark();
    run.run_for(ms(1_000));
    let queued = run.peak_queue as f64 / bdp;
    println!("in ProbeBW: {queued:.2} BDP at most");
    assert!(queued < 0.5, "{queued}");
}

#[test]
fn full_only_after_a_plateau_of_rounds_that_the_network_limits() {
    let mut run = plain();
    run.limit_to(mbps(20.0));
    run.run_for(ms(4_500));
    assert_eq!(run.controller.machine.state, State::Startup);
}

#[test]
fn cycling_never_starts_by_draining_and_then_goes_round() {
    let mut first = [0; 8];
    for seed in 0..200 {
        let mut context = context();
        context.rng = crate::rng::Rng::from_u64(seed);
        let mut run = Run::new(Bbr1::new(context), Path::new(10.0, 20, 2.0));
        reach(&mut run, is_probe_bw);
        let State::ProbeBw { phase } = run.controller.machine.state else {
            unreachable!("just reached");
        };
        first[phase] += 1;
    }
    println!("first phases of 200 flows: {first:?}");
    assert_eq!(first[1], 0);
    assert!(first.iter().filter(|count| **count > 10).count() == 7);
}

#[test]
fn each_phase_lasts_a_round_trip() {
    let mut run = plain();
    reach(&mut run, is_probe_bw);
    let mut phases = Vec::new();
    for _ in 0..16 {
        let State::ProbeBw { phase } = run.controller.machine.state else {
            panic!("out of ProbeBW");
        };
        let took = reach(&mut run, |state| state != State::ProbeBw { phase });
        phases.push((phase, took));
    }
    println!("{phases:?}");
    for pair in phases.windows(2) {
        assert_eq!((pair[0].0 + 1) % 8, pair[1].0);
    }
    // The draining phase may end sooner, the probing one waits for 1.25 BDP in flight.
    for (phase, took) in &phases[1..] {
        let (least, most) = match phase {
            0 => (40, 80),
            1 => (0, 42),
            _ => (40, 42),
        };
        assert!(*took >= ms(least) && *took <= ms(most), "{phase}: {took:?}");
    }
}

#[test]
fn a_bandwidth_is_believed_for_ten_rounds() {
    let mut run = plain();
    run.run_for(ms(3_000));
    run.path.rate = mbps(50.0);
    let (round, before) = (run.controller.rounds.count, run.controller.bandwidth.get());
    let end = run.now + Duration::from_secs(5);
    assert!(run.run_until(end, |run| run.controller.bandwidth.get()
        < before.mul_f64(0.9)));
    let rounds = run.controller.rounds.count - round;
    println!("half the bandwidth: noticed after {rounds} rounds");
    assert!((9..=12).contains(&rounds), "{rounds}");
    run.run_for(ms(2_000));
    let found = share(run.controller.bandwidth.get(), 50.0);
    assert!((0.97..1.05).contains(&found), "{found}");
}

#[test]
fn samples_limited_by_the_application_do_not_lower_the_bandwidth() {
    let mut run = plain();
    run.run_for(ms(3_000));
    run.limit_to(mbps(5.0));
    run.run_for(Duration::from_secs(30));
    assert!(share(run.controller.bandwidth.get(), 100.0) > 0.98);
}

#[test]
fn probe_rtt_comes_every_ten_seconds_with_four_packets() {
    let mut run = plain();
    reach(&mut run, |state| state == State::ProbeRtt);
    for _ in 0..3 {
        let entered = run.now;
        let end = entered + Duration::from_secs(2);
        run.run_until(end, |run| {
            let probing = run.controller.machine.state == State::ProbeRtt;
            assert!(!probing || run.controller.window == 4 * MTU);
            !probing
        });
        let lasted = run.now.saturating_since(entered);
        // 200 ms from when four packets are in flight, which takes a round trip.
        assert!(lasted >= ms(200) && lasted < ms(330), "{lasted:?}");
        assert!(is_probe_bw(run.controller.machine.state));
        let low = run.controller.round_trip.value.unwrap();
        assert!(low < ms(41), "{low:?}");
        assert!(run.controller.window > 400 * MTU, "the window is back");
        let waited = reach(&mut run, |state| state == State::ProbeRtt);
        println!("ProbeRTT took {lasted:?} and came again after {waited:?}");
        // As short a round trip as in the probe may be seen again right after it.
        assert!(waited > ms(9_900) && waited < ms(10_500), "{waited:?}");
    }
}

#[test]
fn a_longer_path_is_found_by_probing() {
    let mut run = plain();
    run.run_for(Duration::from_secs(6));
    run.path.delay = ms(80);
    run.run_for(Duration::from_secs(20));
    let found = run.controller.round_trip.value.unwrap();
    assert!(found > ms(79) && found < ms(90), "{found:?}");
}

#[test]
fn after_idleness_it_paces_at_the_bandwidth_and_does_not_probe_the_round_trip() {
    let mut run = plain();
    run.run_for(ms(3_000));
    let window = run.controller.window;
    run.source = Source::Silent;
    run.run_for(Duration::from_secs(12));
    assert_eq!(run.in_flight, 0);
    run.source = Source::Endless;
    let end = run.now + ms(30);
    run.run_until(end, |run| run.in_flight > 0);
    let pacing = run.controller.pacing_rate;
    assert_eq!(pacing, run.controller.bandwidth.get());
    assert_eq!(run.controller.window, window);
    let probed = run.run_until(end + ms(2_000), |run| {
        run.controller.machine.state == State::ProbeRtt
    });
    assert!(!probed);
}

#[test]
fn quanta_of_the_draft() {
    let mut bbr = Bbr1::new(context());
    for (megabits, quantum) in [
        (1.0, MTU),
        (1.2, 2 * MTU),
        (23.0, 2 * MTU),
        (24.0, 3_000),
        (100.0, 12_500),
        (10_000.0, 65_536),
    ] {
        bbr.pacing_rate = mbps(megabits);
        bbr.set_quantum();
        assert_eq!(bbr.quantum, quantum, "{megabits} Mb/s");
    }
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + ms(millis)
}

fn ack(sent: u64, now: u64, bytes: u64, in_flight: u64) -> AckEvent {
    AckEvent {
        now: at(now),
        largest_acked_sent: at(sent),
        bytes_in_flight: in_flight,
        has_rtt_sample: false,
        ..test_link::ack(0, 0, bytes, ms(100))
    }
}

/// One packet out for each that arrives, then the window from before. s4.2.3.4.
#[test]
fn recovery_conserves_packets_for_a_round_trip() {
    let mut bbr = Bbr1::new(context());
    bbr.full_pipe.reached = true;
    bbr.window = 100 * MTU;
    bbr.initial_window = InitialWindow::of(200 * MTU); // The target as long as there is no model.
    let first = [lost(0, at(10))];
    let mut event = loss(at(100), &first, false);
    event.bytes_in_flight = 49 * MTU;
    bbr.on_loss(&event);
    assert_eq!(bbr.window, 50 * MTU);
    bbr.on_ack(&ack(20, 100, 2 * MTU, 47 * MTU));
    assert_eq!(bbr.window, 49 * MTU, "two acknowledged, two may leave");
    bbr.on_ack(&ack(30, 110, MTU, 48 * MTU));
    assert_eq!(bbr.window, 49 * MTU);
    // More losses of the same round trip.
    let more = [lost(4, at(40)), lost(5, at(50))];
    let mut event = loss(at(120), &more, false);
    event.bytes_in_flight = 46 * MTU;
    bbr.on_loss(&event);
    bbr.on_ack(&ack(60, 120, MTU, 45 * MTU));
    assert_eq!(bbr.window, 47 * MTU, "less what was lost");
    bbr.on_ack(&ack(101, 201, 2 * MTU, 44 * MTU));
    assert_eq!(bbr.window, 49 * MTU, "a round trip later it grows");
    assert!(bbr.recovery.is_open(), "the last losses are not repaired");
    bbr.on_ack(&ack(121, 221, MTU, 44 * MTU));
    assert!(!bbr.recovery.is_open());
    assert!(bbr.window >= 100 * MTU, "{}", bbr.window);
}

#[test]
fn a_timeout_starts_over_and_what_was_no_loss_is_undone() {
    let mut bbr = Bbr1::new(context());
    bbr.window = 100 * MTU;
    let packet = lost(0, at(10));
    bbr.on_loss(&loss(at(100), &[packet], true));
    assert_eq!(bbr.window, 2 * MTU);
    bbr.on_ack(&ack(20, 110, MTU, MTU));
    assert_eq!(bbr.window, 4 * MTU, "the floor of the model");
    let spurious = SpuriousLossEvent::new(at(120), 0, at(10), MTU, true);
    bbr.on_spurious_loss(&spurious);
    assert_eq!(bbr.window, 100 * MTU);
}

/// Loss does not enter the model: 5 % costs little more than what is lost.
#[test]
fn loss_does_not_slow_it_down() {
    for rate in [0.0, 0.01, 0.05] {
        let mut run = run(Path::new(20.0, 40, 1.0).with_loss(rate));
        run.run_for(Duration::from_secs(5)).mark();
        run.run_for(Duration::from_secs(40));
        let used = run.utilisation();
        println!("{rate} lost: {used:.3} of capacity");
        assert!(used > 0.9, "{used}");
    }
}

#[test]
fn marks_are_not_looked_at() {
    let mut bbr = Bbr1::new(context());
    bbr.on_ecn(&EcnEvent::new(at(10), 5, 5, at(5), MTU));
    assert_eq!(bbr.window, 10 * MTU);
    assert!(!bbr.recovery.is_open());
}

#[test]
fn acknowledgements_asked_to_be_rare_are_budgeted_for() {
    let mut run = run(Path::new(1.0, 40, 4.0));
    run.run_for(ms(3_000));
    let before = run.controller.inflight(1.0);
    run.controller.on_ack_request(&AckRequest {
        ack_eliciting_threshold: u64::MAX,
        max_ack_delay: Duration::MAX,
        reordering_threshold: 3,
    });
    assert!(run.controller.inflight(1.0) > before);
    run.controller.on_ack_request(&AckRequest {
        ack_eliciting_threshold: 3,
        max_ack_delay: Duration::MAX,
        reordering_threshold: 3,
    });
    assert_eq!(run.controller.inflight(1.0), before + 3 * MTU);
}
