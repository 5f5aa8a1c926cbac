//! The scenarios of the draft's appendix on one simulated bottleneck, and its constants.

use std::time::Duration;

use super::{state::AckPhase, *};
use crate::{
    ack::AckRequest,
    congestion::test_link::{MTU, Path, Run, Source, context, mbps, ms},
};

fn run(path: Path) -> Run<Bbr> {
    Run::new(Bbr::new(Params::BBR3, context()), path)
}

/// 100 Mb/s, 40 ms, one BDP of queue: 400 packets in the pipe.
fn plain() -> Run<Bbr> {
    run(Path::new(100.0, 40, 1.0))
}

/// Runs for at most a minute until `state` is entered; how long that took.
fn reach(run: &mut Run<Bbr>, state: State) -> Duration {
    let start = run.now;
    let end = start + Duration::from_secs(60);
    run.run_until(end, |run| run.controller.state != state);
    let found = run.run_until(end, |run| run.controller.state == state);
    assert!(found, "never in {}", state.name());
    run.now.saturating_since(start)
}

/// Runs until the present state is left; the one after it.
fn leave(run: &mut Run<Bbr>) -> State {
    let (state, end) = (run.controller.state, run.now + Duration::from_secs(60));
    assert!(
        run.run_until(end, |run| run.controller.state != state),
        "stuck in {}",
        state.name()
    );
    run.controller.state
}

fn share(rate: Rate, of_mbps: f64) -> f64 {
    rate.bytes_per_second() as f64 / mbps(of_mbps).bytes_per_second() as f64
}

#[test]
fn gains_of_the_draft() {
    let row = |state: State| {
        (
            state.pacing_gain(&Params::BBR3),
            state.cwnd_gain(&Params::BBR3),
        )
    };
    assert!((row(State::Startup).0 - 4.0 * 2f64.ln()).abs() < 1e-12);
    assert_eq!(row(State::Startup).1, 2.0);
    assert_eq!(row(State::Drain), (0.5, 2.0));
    assert_eq!(row(State::ProbeDown), (0.9, 2.0));
    assert_eq!(row(State::ProbeCruise), (1.0, 2.0));
    assert_eq!(row(State::ProbeRefill), (1.0, 2.0));
    assert_eq!(row(State::ProbeUp), (1.25, 2.25));
    assert_eq!(row(State::ProbeRtt), (1.0, 0.5));
}

#[test]
fn startup_ends_on_a_plateau() {
    let mut run = run(Path::new(100.0, 40, 4.0));
    assert_eq!(run.controller.state, State::Startup);
    assert_eq!(leave(&mut run), State::Drain);
    let bbr = &run.controller;
    assert!(
        (0.98..1.02).contains(&share(bbr.max_bw.get(), 100.0)),
        "{}",
        bbr.max_bw.get()
    );
    assert!(bbr.full_pipe.reached && bbr.full_pipe.now);
    assert_eq!(bbr.full_pipe.count, 3);
    // log2(400 packets / 10) round trips, three more for the plateau, and some to spare.
    assert!(run.now < Instant::ZERO + ms(40 * 15), "{:?}", run.now);
}

#[test]
fn startup_ends_on_loss_even_when_app_limited() {
    let mut run = plain();
    run.limit_to(mbps(30.0));
    run.run_for(ms(400));
    assert_eq!(run.controller.state, State::Startup);
    run.path.loss = 0.1;
    // So little is in flight that Drain and ProbeBW_DOWN may be over with the same ACK.
    assert!(matches!(leave(&mut run), State::Drain | State::ProbeCruise));
    let bbr = &run.controller;
    assert!(bbr.full_pipe.reached && bbr.full_pipe.now);
    assert!(bbr.inflight_longterm != UNBOUNDED);
    assert!(run.now < Instant::ZERO + ms(800), "{:?}", run.now);
}

#[test]
fn a_few_losses_do_not_end_startup() {
    let mut run = plain();
    run.limit_to(mbps(30.0));
    run.path.loss = 0.01;
    run.run_for(ms(3_000));
    assert_eq!(run.controller.state, State::Startup);
}

#[test]
fn drain_ends_when_the_queue_is_gone() {
    let mut run = plain();
    reach(&mut run, State::Drain);
    let pacing = share(run.controller.pacing_rate, 100.0);
    assert!((0.48..0.52).contains(&pacing), "{pacing}");
    let start = run.controller.rounds.count;
    assert!(matches!(
        leave(&mut run),
        State::ProbeDown | State::ProbeCruise
    ));
    assert!(run.in_flight <= run.controller.inflight(run.controller.bw, 1.0));
    assert!(run.controller.rounds.count <= start + 3);
}

#[test]
fn drain_ends_after_three_rounds() {
    let mut run = run(Path::new(100.0, 40, 8.0));
    reach(&mut run, State::Drain);
    run.path.rate = mbps(20.0);
    let start = run.controller.drain_start_round;
    leave(&mut run);
    assert!(run.controller.rounds.count > start + 3);
    assert!(run.in_flight > run.controller.inflight(run.controller.bw, 1.0));
}

#[test]
fn probe_up_ends_on_a_plateau() {
    let mut run = run(Path::new(100.0, 40, 4.0));
    reach(&mut run, State::ProbeUp);
    let start = run.now;
    assert_eq!(leave(&mut run), State::ProbeDown);
    assert!(run.controller.full_pipe.now);
    assert!(!run.controller.cycle.previous_too_high);
    assert!(run.now.saturating_since(start) >= ms(3 * 40));
}

#[test]
fn probe_up_ends_on_loss_even_when_app_limited() {
    let mut run = plain();
    reach(&mut run, State::ProbeUp);
    run.limit_to(mbps(50.0));
    run.path.loss = 0.1;
    assert!(matches!(
        leave(&mut run),
        State::ProbeDown | State::ProbeCruise
    ));
    assert!(run.controller.cycle.previous_too_high);
}

#[test]
fn app_limited_without_loss_never_ends_the_search() {
    let mut startup = plain();
    startup.limit_to(mbps(20.0));
    startup.run_for(ms(4_500));
    assert_eq!(startup.controller.state, State::Startup);
    let mut up = plain();
    // Soon after ProbeRTT, so that the next one does not come in between.
    reach(&mut up, State::ProbeRtt);
    reach(&mut up, State::ProbeUp);
    up.limit_to(mbps(20.0));
    up.run_for(ms(1_500));
    assert_eq!(up.controller.state, State::ProbeUp);
}

#[test]
fn app_limited_samples_do_not_lower_the_bandwidth() {
    let mut run = plain();
    run.run_for(ms(3_000));
    run.limit_to(mbps(5.0));
    run.run_for(Duration::from_secs(30));
    assert!(
        share(run.controller.bw, 100.0) > 0.98,
        "{}",
        run.controller.bw
    );
}

#[test]
fn probe_down_ends_when_inflight_has_headroom() {
    let mut run = plain();
    reach(&mut run, State::ProbeUp);
    assert_eq!(leave(&mut run), State::ProbeDown);
    let pacing = share(run.controller.pacing_rate, 100.0);
    assert!((0.88..0.92).contains(&pacing), "{pacing}");
    assert_eq!(leave(&mut run), State::ProbeCruise);
    let bbr = &run.controller;
    assert!(run.in_flight <= bbr.inflight_with_headroom());
    assert!(run.in_flight <= bbr.inflight(bbr.max_bw.get(), 1.0));
}

#[test]
fn probe_down_ends_after_its_time() {
    let mut run = run(Path::new(100.0, 40, 20.0));
    reach(&mut run, State::ProbeRtt);
    reach(&mut run, State::ProbeUp);
    assert_eq!(leave(&mut run), State::ProbeDown);
    run.path.rate = mbps(30.0);
    let start = run.now;
    assert_eq!(leave(&mut run), State::ProbeRefill);
    let waited = run.now.saturating_since(start);
    assert!(
        waited >= run.controller.cycle.wait && waited < ms(3_100),
        "{waited:?}"
    );
}

#[test]
fn bandwidth_is_probed_every_two_to_three_seconds() {
    let mut run = plain();
    reach(&mut run, State::ProbeRtt);
    for _ in 0..10 {
        leave(&mut run);
        let start = run.now;
        if run.controller.state == State::ProbeCruise {
            let next = leave(&mut run);
            let waited = run.now.saturating_since(start);
            assert!(waited < ms(3_050), "{waited:?}");
            assert!(matches!(next, State::ProbeRefill | State::ProbeRtt));
        }
    }
    // At a small BDP, as often as Reno would have grown by its BDP.
    let mut small = self::run(Path::new(4.0, 20, 4.0)); // 8 packets.
    small.run_for(Duration::from_secs(3));
    let gap = reach(&mut small, State::ProbeUp);
    assert!(gap < ms(1_200), "{gap:?}");
}

#[test]
fn probe_rtt_comes_every_five_seconds_and_halves_what_is_in_flight() {
    let mut run = plain();
    reach(&mut run, State::ProbeRtt);
    for _ in 0..4 {
        let (entered, held) = (run.now, run.controller.probe_rtt.window);
        let bdp = mbps(100.0).bytes_in(ms(40));
        assert!(held <= bdp * 55 / 100, "{held} of {bdp}");
        let end = entered + Duration::from_secs(2);
        run.run_until(end, |run| {
            assert!(run.controller.window <= held || run.controller.state != State::ProbeRtt);
            run.controller.state != State::ProbeRtt
        });
        let lasted = run.now.saturating_since(entered);
        assert!(lasted >= ms(200) && lasted < ms(400), "{lasted:?}");
        assert_eq!(run.controller.state, State::ProbeCruise);
        assert!(run.controller.window > held, "the window is back");
        let waited = reach(&mut run, State::ProbeRtt);
        assert!(waited > ms(4_700) && waited < ms(5_100), "{waited:?}");
    }
    let min = run.controller.min_rtt.value.unwrap();
    assert!(min < ms(41), "{min:?}");
}

#[test]
fn probe_rtt_follows_a_longer_path() {
    let mut run = plain();
    run.run_for(Duration::from_secs(6));
    run.path.delay = ms(80);
    run.run_for(Duration::from_secs(20));
    let min = run.controller.min_rtt.value.unwrap();
    assert!(min > ms(79) && min < ms(90), "{min:?}");
}

#[test]
fn idleness_replaces_probe_rtt() {
    let mut run = plain();
    run.run_for(ms(3_000));
    run.source = Source::Silent;
    run.run_for(Duration::from_secs(12));
    assert_eq!(run.in_flight, 0);
    run.source = Source::Endless;
    let end = run.now + ms(30);
    run.run_until(end, |run| run.in_flight > 0);
    assert!(run.controller.idle_restart);
    let pacing = share(run.controller.pacing_rate, 100.0);
    assert!(
        (0.97..1.0).contains(&pacing),
        "{pacing}: gain 1 after idleness"
    );
    let probed = run.run_until(end + ms(2_000), |run| {
        run.controller.state == State::ProbeRtt
    });
    assert!(!probed);
}

#[test]
fn aggregation_is_found_in_startup_and_bridged() {
    let mut path = Path::new(100.0, 40, 2.0);
    path.aggregate = ms(20);
    let mut run = run(path);
    reach(&mut run, State::Drain);
    let bbr = &run.controller;
    assert!(
        share(bbr.max_bw.get(), 100.0) > 0.95,
        "{}",
        bbr.max_bw.get()
    );
    assert!(bbr.aggregation.extra > 0);
    assert!(bbr.window > 2 * mbps(100.0).bytes_in(ms(40)));
    run.run_for(ms(2_000)).mark();
    run.run_for(Duration::from_secs(20));
    assert!(run.controller.aggregation.extra > mbps(100.0).bytes_in(ms(10)));
    assert!(run.utilisation() > 0.93, "{}", run.utilisation());
}

#[test]
fn less_than_a_packet_in_the_pipe() {
    let mut run = run(Path::new(0.1, 5, 0.0));
    run.run_for(Duration::from_secs(10)).mark();
    let mut smallest = u64::MAX;
    let end = run.now + Duration::from_secs(30);
    run.run_until(end, |run| {
        smallest = smallest.min(run.controller.window);
        false
    });
    assert_eq!(smallest, 4 * MTU);
    assert!(
        (0.9..1.1).contains(&share(run.controller.bw, 0.1)),
        "{}",
        run.controller.bw
    );
    assert!(run.utilisation() > 0.97, "{}", run.utilisation());
}

#[test]
fn ten_times_the_bandwidth_is_found() {
    let mut run = run(Path::new(10.0, 40, 1.0));
    run.run_for(Duration::from_secs(5));
    assert!(run.controller.state.is_probe_bw());
    run.path.rate = mbps(100.0);
    run.path.queue *= 10;
    let end = run.now + Duration::from_secs(30);
    assert!(run.run_until(end, |run| share(run.controller.max_bw.get(), 100.0) > 0.95));
    run.run_for(Duration::from_secs(2)).mark();
    run.run_for(Duration::from_secs(5));
    assert!(run.utilisation() > 0.9, "{}", run.utilisation());
}

#[test]
fn the_long_term_bound_rises_by_powers_of_two() {
    let mut run = plain();
    run.run_for(ms(2_000));
    let bbr = &mut run.controller;
    bbr.cycle = Cycle::new(run.now, crate::rng::Rng::from_u64(1));
    bbr.state = State::ProbeUp;
    bbr.window = 100 * MTU;
    let mut sample = idle_sample();
    sample.newly_acked = 100 * MTU; // A window per round trip.
    let mut raises = Vec::new();
    for _ in 0..5 {
        bbr.raise_longterm_slope();
        bbr.inflight_longterm = 100 * MTU;
        bbr.cwnd_limited.this_round = true;
        bbr.probe_longterm_upward(&sample);
        raises.push((bbr.inflight_longterm - 100 * MTU) / MTU);
    }
    assert_eq!(raises, [1, 2, 4, 8, 16]);
}

fn idle_sample() -> Sample {
    Sample {
        now: Instant::ZERO,
        delivery_rate: Rate::ZERO,
        send_rate: Rate::ZERO,
        delivered: 0,
        prior_delivered: None,
        app_limited: false,
        lost: 0,
        tx_in_flight: 0,
        newly_acked: 0,
        newest_sent: Instant::ZERO,
        rtt: None,
        adjusted_rtt: None,
        prior_in_flight: 0,
        in_flight: 0,
        total_delivered: 0,
    }
}

#[test]
fn a_tenth_of_the_bandwidth_is_adapted_to() {
    let mut run = plain();
    run.run_for(Duration::from_secs(5));
    run.path.rate = mbps(10.0);
    run.path.queue /= 10;
    let end = run.now + Duration::from_secs(3);
    let quick = run.run_until(end, |run| share(run.controller.bw, 10.0) < 2.0);
    assert!(quick, "short-term bound: {}", run.controller.bw);
    run.run_for(Duration::from_secs(15)).mark();
    assert!(
        share(run.controller.max_bw.get(), 10.0) < 1.1,
        "{}",
        run.controller.max_bw.get()
    );
    run.run_for(Duration::from_secs(10));
    assert!(run.utilisation() > 0.9, "{}", run.utilisation());
    assert!(run.loss_share() < 0.02, "{}", run.loss_share());
}

#[test]
fn a_policer_is_obeyed() {
    let mut run = plain();
    run.path.policer = Some((mbps(20.0), 100 * MTU));
    run.run_for(Duration::from_secs(20)).mark();
    run.run_for(Duration::from_secs(20));
    let used = run.utilisation() * 5.0;
    assert!(used > 0.8, "{used}");
    assert!(run.loss_share() < 0.1, "{}", run.loss_share());
}

#[test]
fn spurious_recovery_returns_to_the_probe() {
    let mut run = run(Path::new(100.0, 40, 4.0));
    reach(&mut run, State::ProbeUp);
    let next = run.next_number();
    let bounds = run.controller.inflight_longterm;
    run.path.late = Some((next + 20, next + 60, ms(30)));
    assert_eq!(leave(&mut run), State::ProbeDown);
    assert!(run.controller.inflight_longterm < UNBOUNDED);
    assert_eq!(leave(&mut run), State::ProbeRefill);
    assert!(run.spurious > 0);
    let bbr = &run.controller;
    assert_eq!(bbr.inflight_longterm, bounds);
    assert_eq!(
        (bbr.bw_shortterm, bbr.inflight_shortterm),
        (Rate::MAX, UNBOUNDED)
    );
    assert!(!bbr.signals.loss_in_round);
}

#[test]
fn spurious_timeout_restores_window_and_bounds() {
    let mut run = plain();
    run.run_for(ms(2_000));
    reach(&mut run, State::ProbeCruise);
    let (window, longterm) = (run.controller.window, run.controller.inflight_longterm);
    let next = run.next_number();
    run.path.late = Some((next, u64::MAX, ms(500)));
    // All that fits into the window is late; what a timeout sends is not.
    let end = run.now + Duration::from_secs(2);
    assert!(run.run_until(end, |run| run.in_flight + MTU > run.controller.window));
    run.run_for(ms(60));
    run.path.late = Some((next, run.next_number(), ms(500)));
    let collapsed = run.run_until(end, |run| run.controller.window < window / 10);
    assert!(collapsed);
    let restored = run.run_until(end, |run| run.controller.window >= window);
    assert!(restored, "{} instead of {window}", run.controller.window);
    run.run_for(ms(600));
    assert!(run.spurious > 0);
    assert_eq!(run.controller.bw_shortterm, Rate::MAX);
    assert_eq!(run.controller.inflight_shortterm, UNBOUNDED);
    assert!(run.controller.inflight_longterm >= longterm);
}

#[test]
fn probe_rtt_in_startup_goes_back_to_startup() {
    let mut run = plain();
    run.limit_to(mbps(20.0));
    let waited = reach(&mut run, State::ProbeRtt);
    assert!(waited < ms(6_000) && !run.controller.full_pipe.reached);
    assert_eq!(leave(&mut run), State::Startup);
    run.source = Source::Endless;
    reach(&mut run, State::Drain);
    assert!(share(run.controller.max_bw.get(), 100.0) > 0.98);
}

#[test]
fn loss_in_probe_up_lowers_the_long_term_bound() {
    let mut run = run(Path::new(100.0, 40, 0.1));
    run.run_for(Duration::from_secs(4));
    assert!(run.controller.inflight_longterm < UNBOUNDED);
    for _ in 0..20 {
        // Not in a cautious probe, which would end before the loss is seen.
        let end = run.now + Duration::from_secs(30);
        assert!(run.run_until(end, |run| {
            run.controller.state == State::ProbeUp && !run.controller.cycle.previous_too_high
        }));
        let (before, target) = (
            run.controller.inflight_longterm,
            run.controller.target_inflight(),
        );
        run.path.loss = 0.1;
        let next = leave(&mut run);
        run.path.loss = 0.0;
        if next == State::ProbeRtt {
            continue;
        }
        assert_eq!(next, State::ProbeDown);
        let after = run.controller.inflight_longterm;
        assert!(after >= target * 69 / 100, "{after} of {target}");
        assert!(after <= before.max(run.controller.window));
        assert!(run.controller.cycle.previous_too_high);
        return;
    }
    panic!("ProbeRTT always came first");
}

#[test]
fn after_a_probe_that_went_too_high_the_next_is_cautious() {
    let mut run = run(Path::new(100.0, 40, 0.1));
    run.run_for(Duration::from_secs(3));
    let mut seen = false;
    for _ in 0..30 {
        reach(&mut run, State::ProbeUp);
        let cautious = run.controller.cycle.previous_too_high;
        let lost = run.lost;
        leave(&mut run);
        if cautious && run.controller.cycle.previous_precautionary && run.lost == lost {
            // A clean cautious probe is followed by a full one without cruising.
            assert_eq!(run.controller.state, State::ProbeDown);
            assert_eq!(run.controller.cycle.ack_phase, AckPhase::ProbeStopping);
            let mut next = leave(&mut run);
            if next == State::ProbeCruise {
                next = leave(&mut run);
            }
            assert_eq!(next, State::ProbeRefill);
            seen = true;
            break;
        }
    }
    assert!(seen);
}

#[test]
fn silence_in_refill_does_not_lower_the_bandwidth() {
    let mut run = plain();
    run.run_for(ms(2_000));
    reach(&mut run, State::ProbeRefill);
    let before = run.controller.max_bw.get();
    run.limit_to(mbps(2.0));
    assert_eq!(leave(&mut run), State::ProbeUp);
    assert_eq!(run.controller.max_bw.get(), before);
}

#[test]
fn two_percent_is_the_line() {
    let bbr = Bbr::new(Params::BBR3, context());
    assert!(!bbr.is_too_high(2 * MTU, 100 * MTU));
    assert!(bbr.is_too_high(2 * MTU + 1, 100 * MTU));
}

#[test]
fn marks_hold_the_queue_without_loss() {
    let mut path = Path::new(100.0, 40, 4.0);
    path.mark_from = Some(mbps(100.0).bytes_in(ms(5)));
    let mut run = run(path);
    run.run_for(Duration::from_secs(5)).mark();
    run.run_for(Duration::from_secs(20));
    assert_eq!(run.loss_share(), 0.0);
    assert!(run.utilisation() > 0.85, "{}", run.utilisation());
    assert!(run.controller.inflight_longterm < UNBOUNDED);
    assert!(
        run.peak_queue < mbps(100.0).bytes_in(ms(30)),
        "{}",
        run.peak_queue
    );
}

/// Use of the link over `seconds`, the median of five seeds.
fn median_use(path: &Path, seconds: u64) -> f64 {
    let mut uses: Vec<_> = (0..5)
        .map(|seed| {
            let mut run = run(path.clone()).seed(seed);
            run.run_for(Duration::from_secs(seconds)).utilisation()
        })
        .collect();
    uses.sort_by(f64::total_cmp);
    uses[2]
}

#[test]
fn geostationary_satellite() {
    for (loss, least) in [(0.0, 0.86), (0.001, 0.83), (0.01, 0.75)] {
        let used = median_use(&Path::new(20.0, 600, 1.0).with_loss(loss), 180);
        assert!(used > least, "{loss}: {used}");
    }
}

#[test]
fn random_loss_below_the_threshold_is_tolerated() {
    for (loss, least) in [(0.0, 0.95), (0.01, 0.8)] {
        let used = median_use(&Path::new(20.0, 25, 1.0).with_loss(loss), 60);
        assert!(used > least, "{loss}: {used}");
    }
}

#[test]
fn acknowledgements_asked_to_be_rare_are_budgeted_for() {
    // A pipe of four packets.
    let mut run = run(Path::new(1.0, 40, 4.0));
    run.run_for(ms(3_000));
    let quantum = run.controller.quantum;
    assert_eq!(run.controller.offload_budget(), quantum);
    let mut request = AckRequest {
        ack_eliciting_threshold: 10,
        max_ack_delay: ms(24),
        reordering_threshold: 3,
    };
    // The delay ends the wait sooner than ten packets would...
    run.controller.on_ack_request(&request);
    let gathered = run.controller.bw.bytes_in(ms(24));
    assert!((2 * MTU..4 * MTU).contains(&gathered), "{gathered}");
    assert_eq!(run.controller.offload_budget(), quantum + gathered);
    assert!(run.controller.inflight(run.controller.bw, 0.5) >= quantum + gathered);
    // ... or the other way round.
    request.ack_eliciting_threshold = 1;
    run.controller.on_ack_request(&request);
    assert_eq!(run.controller.offload_budget(), quantum + MTU);
    request.ack_eliciting_threshold = u64::MAX;
    request.max_ack_delay = Duration::MAX;
    run.controller.on_ack_request(&request);
    run.run_for(ms(1_000));
}
