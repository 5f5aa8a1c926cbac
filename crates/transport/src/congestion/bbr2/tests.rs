//! What draft-cardwell-iccrg-bbr-congestion-control-02 says, on one simulated bottleneck.

use std::time::Duration;

use super::{
    bounds::{BETA, HEADROOM, LOSS_THRESHOLD, STARTUP_LOSSES},
    *,
};
use crate::congestion::{
    bbr::model::UNBOUNDED,
    test_link::{MTU, Path, Run, Source, context, mbps, ms},
};

fn run(path: Path) -> Run<Bbr2> {
    Run::new(Bbr2::new(context()), path)
}

/// 100 Mb/s, 40 ms, one BDP of queue: 400 packets in the pipe.
fn plain() -> Run<Bbr2> {
    run(Path::new(100.0, 40, 1.0))
}

/// Runs for at most a minute until `state` is entered; how long that took.
fn reach(run: &mut Run<Bbr2>, state: State) -> Duration {
    let start = run.now;
    let end = start + Duration::from_secs(60);
    run.run_until(end, |run| run.controller.state != state);
    let found = run.run_until(end, |run| run.controller.state == state);
    assert!(found, "never in {}", state.name());
    run.now.saturating_since(start)
}

/// Runs until the present state is left; the one after it.
fn leave(run: &mut Run<Bbr2>) -> State {
    let (state, end) = (run.controller.state, run.now + Duration::from_secs(60));
    let left = run.run_until(end, |run| run.controller.state != state);
    assert!(left, "stuck in {}", state.name());
    run.controller.state
}

fn share(rate: Rate, of_mbps: f64) -> f64 {
    rate.bytes_per_second() as f64 / mbps(of_mbps).bytes_per_second() as f64
}

#[test]
fn gains_and_constants_of_the_draft() {
    let gains = |state: State| (state.pacing_gain(), state.window_gain());
    assert!((gains(State::Startup).0 - 4.0 * 2f64.ln()).abs() < 1e-12);
    assert_eq!(gains(State::Startup).1, 2.0);
    assert_eq!(gains(State::Drain), (0.5, 2.0));
    assert_eq!(gains(State::ProbeDown), (0.9, 2.0));
    assert_eq!(gains(State::ProbeCruise), (1.0, 2.0));
    assert_eq!(gains(State::ProbeRefill), (1.0, 2.0));
    assert_eq!(gains(State::ProbeUp), (1.25, 2.0));
    assert_eq!(gains(State::ProbeRtt), (1.0, 0.5));
    assert_eq!((LOSS_THRESHOLD, BETA, HEADROOM), (0.02, 0.7, 0.15));
    assert_eq!(STARTUP_LOSSES, 3);
    assert!(!Bbr2::is_too_high(2 * MTU, 100 * MTU));
    assert!(Bbr2::is_too_high(2 * MTU + 1, 100 * MTU));
}

#[test]
fn startup_ends_on_a_plateau() {
    let mut run = run(Path::new(100.0, 40, 4.0));
    assert_eq!(leave(&mut run), State::Drain);
    let found = share(run.controller.max_bw.get(), 100.0);
    assert!((0.98..1.02).contains(&found), "{found}");
    assert_eq!(run.lost, 0);
    leave(&mut run);
    assert!(run.in_flight <= run.controller.inflight(run.controller.bw, 1.0));
}

#[test]
fn startup_ends_on_loss() {
    // While the application limits there is no plateau: only loss can end Startup.
    let mut run = plain();
    run.limit_to(mbps(30.0));
    run.run_for(ms(400));
    assert_eq!(run.controller.state, State::Startup);
    run.path.loss = 0.1;
    let start = run.now;
    leave(&mut run);
    let took = run.now.saturating_since(start);
    println!("10 % of loss end Startup after {took:?}");
    assert!(run.controller.cycle.filled_pipe);
    // Not before a whole round trip in recovery, and not long after.
    assert!(took > ms(80) && took < ms(400), "{took:?}");
}

#[test]
fn a_few_losses_do_not_end_startup() {
    let mut run = plain();
    run.limit_to(mbps(30.0));
    run.path.loss = 0.005;
    run.run_for(ms(3_000));
    assert_eq!(run.controller.state, State::Startup);
}

/// In a queue shorter than Startup's overshoot, loss ends it before the plateau would.
#[test]
fn a_short_queue_is_left_to_loss() {
    let mut run = run(Path::new(100.0, 40, 0.1));
    leave(&mut run);
    let rounds = run.controller.rounds.count;
    println!(
        "0.1 BDP: Startup ends after {rounds} rounds, {:.3} lost",
        run.loss_share()
    );
    assert!(rounds <= 12);
}

#[test]
fn the_cycle_goes_down_cruises_refills_and_goes_up() {
    let mut run = plain();
    reach(&mut run, State::ProbeRtt);
    assert_eq!(leave(&mut run), State::ProbeCruise);
    let start = run.now;
    assert_eq!(leave(&mut run), State::ProbeRefill);
    let waited = run.now.saturating_since(start);
    assert!(waited >= ms(2_000) && waited < ms(3_100), "{waited:?}");
    let start = run.now;
    assert_eq!(leave(&mut run), State::ProbeUp);
    // Refilling takes one round trip.
    assert!(run.now.saturating_since(start) < ms(60));
    let start = run.now;
    assert_eq!(leave(&mut run), State::ProbeDown);
    assert!(run.now.saturating_since(start) >= ms(40));
    assert_eq!(leave(&mut run), State::ProbeCruise);
    let bbr = &run.controller;
    assert!(run.in_flight <= bbr.inflight(bbr.max_bw.get(), 1.0));
    assert!(run.in_flight <= bbr.inflight_with_headroom());
}

#[test]
fn where_reno_recovers_sooner_it_probes_sooner() {
    let mut small = run(Path::new(4.0, 20, 4.0)); // 8 packets.
    small.run_for(Duration::from_secs(3));
    let rounds = small.controller.reno_rounds();
    assert!((6..=12).contains(&rounds), "{rounds}");
    let gap = reach(&mut small, State::ProbeUp);
    println!("8 packets in the pipe: {rounds} rounds, probed after {gap:?}");
    assert!(gap < ms(1_500), "{gap:?}");
    let mut large = plain();
    large.run_for(Duration::from_secs(3));
    assert_eq!(large.controller.reno_rounds(), 63);
}

#[test]
fn probe_rtt_comes_every_five_seconds_and_halves_what_is_in_flight() {
    let mut run = plain();
    reach(&mut run, State::ProbeRtt);
    let bdp = mbps(100.0).bytes_in(ms(40));
    for _ in 0..3 {
        let entered = run.now;
        let end = entered + Duration::from_secs(2);
        run.run_until(end, |run| {
            let probing = run.controller.state == State::ProbeRtt;
            assert!(!probing || run.controller.window <= bdp * 70 / 100);
            !probing
        });
        let lasted = run.now.saturating_since(entered);
        assert!(lasted >= ms(200) && lasted < ms(400), "{lasted:?}");
        assert_eq!(run.controller.state, State::ProbeCruise);
        let waited = reach(&mut run, State::ProbeRtt);
        println!("ProbeRTT took {lasted:?} and came again after {waited:?}");
        assert!(waited > ms(4_700) && waited < ms(5_100), "{waited:?}");
    }
    let low = run.controller.min_rtt.value.unwrap();
    assert!(low < ms(41), "{low:?}");
}

#[test]
fn loss_in_a_probe_bounds_what_is_in_flight() {
    let mut run = plain();
    reach(&mut run, State::ProbeRtt);
    reach(&mut run, State::ProbeUp);
    assert_eq!(run.controller.bounds.inflight_hi, UNBOUNDED);
    let target = run.controller.target_inflight();
    run.path.loss = 0.1;
    assert_eq!(leave(&mut run), State::ProbeDown);
    run.path.loss = 0.0;
    let bound = run.controller.bounds.inflight_hi;
    println!(
        "inflight_hi {:.2} of the target",
        bound as f64 / target as f64
    );
    assert!(bound < UNBOUNDED && bound >= target * 69 / 100);
    assert!(
        !run.controller.cycle.probe_samples,
        "one reaction per probe"
    );
    reach(&mut run, State::ProbeCruise);
    let room = run.controller.inflight_with_headroom();
    assert!(run.controller.window <= room.max(run.controller.min_pipe()));
    assert!(room <= bound * 86 / 100);
}

#[test]
fn loss_below_the_threshold_does_not_end_a_probe() {
    let mut run = plain();
    run.path.loss = 0.002;
    run.run_for(Duration::from_secs(20));
    assert_eq!(run.controller.bounds.inflight_hi, UNBOUNDED);
}

#[test]
fn loss_while_cruising_lowers_the_short_term_bounds_until_the_next_probe() {
    let mut run = plain();
    reach(&mut run, State::ProbeRtt);
    reach(&mut run, State::ProbeCruise);
    assert_eq!(run.controller.bounds.bw_lo, Rate::MAX);
    run.path.rate = mbps(50.0);
    run.path.queue = 20 * MTU;
    run.run_for(ms(600));
    let bbr = &run.controller;
    assert_eq!(bbr.state, State::ProbeCruise);
    println!(
        "half the rate: bw_lo {:.2} of it, inflight_lo {} packets",
        share(bbr.bounds.bw_lo, 50.0),
        bbr.bounds.inflight_lo / MTU
    );
    assert!(share(bbr.bw, 50.0) < 1.1 && bbr.max_bw.get() > bbr.bw);
    assert!(bbr.bounds.inflight_lo < UNBOUNDED);
    reach(&mut run, State::ProbeRefill);
    assert_eq!(run.controller.bounds.bw_lo, Rate::MAX);
    assert_eq!(run.controller.bounds.inflight_lo, UNBOUNDED);
}

#[test]
fn the_upper_bound_rises_by_powers_of_two() {
    let mut run = run(Path::new(100.0, 40, 0.05));
    run.run_for(Duration::from_secs(20));
    assert!(run.controller.bounds.inflight_hi < UNBOUNDED);
    run.path.queue *= 100;
    reach(&mut run, State::ProbeUp);
    let mut bounds = vec![run.controller.bounds.inflight_hi];
    for _ in 0..4 {
        if run.controller.state == State::ProbeUp {
            run.run_for(ms(45));
            bounds.push(run.controller.bounds.inflight_hi);
        }
    }
    println!("inflight_hi in ProbeBW_UP: {bounds:?}");
    assert!(bounds.windows(2).all(|pair| pair[1] >= pair[0]));
    assert!(bounds.last() > bounds.first());
}

#[test]
fn aggregation_is_bridged() {
    let mut path = Path::new(100.0, 40, 2.0);
    path.aggregate = ms(20);
    let mut run = run(path);
    run.run_for(ms(3_000)).mark();
    run.run_for(Duration::from_secs(20));
    assert!(run.controller.aggregation.extra > mbps(100.0).bytes_in(ms(10)));
    assert!(run.utilisation() > 0.9, "{}", run.utilisation());
}

#[test]
fn after_idleness_it_paces_at_the_bandwidth() {
    let mut run = plain();
    run.run_for(ms(3_000));
    run.source = Source::Silent;
    run.run_for(Duration::from_secs(12));
    run.source = Source::Endless;
    let end = run.now + ms(30);
    run.run_until(end, |run| run.in_flight > 0);
    let pacing = share(run.controller.pacing_rate, 100.0);
    assert!((0.97..1.0).contains(&pacing), "{pacing}");
    let probed = run.run_until(end + ms(1_500), |run| {
        run.controller.state == State::ProbeRtt
    });
    assert!(!probed);
}

#[test]
fn marks_hold_the_queue_without_loss() {
    let mut path = Path::new(100.0, 40, 4.0);
    path.mark_from = Some(mbps(100.0).bytes_in(ms(5)));
    let mut run = run(path);
    run.run_for(Duration::from_secs(5)).mark();
    run.run_for(Duration::from_secs(20));
    assert_eq!(run.loss_share(), 0.0);
    assert!(run.utilisation() > 0.8, "{}", run.utilisation());
    assert!(run.controller.bounds.inflight_hi < UNBOUNDED);
}

#[test]
fn spurious_recovery_gives_the_window_back() {
    // No loss before, so that the episode is spurious as a whole.
    let mut run = run(Path::new(100.0, 40, 4.0));
    reach(&mut run, State::ProbeRtt);
    reach(&mut run, State::ProbeCruise);
    assert_eq!(run.lost, 0);
    let window = run.controller.window;
    let next = run.next_number();
    run.path.late = Some((next, next + 30, ms(20)));
    let end = run.now + ms(500);
    assert!(run.run_until(end, |run| run.controller.recovery.is_open()));
    let start = run.now;
    assert!(run.controller.window < window);
    assert!(run.run_until(end, |run| run.spurious == 30));
    assert!(
        run.now < start + ms(40),
        "recovery itself takes a round trip"
    );
    assert!(!run.controller.recovery.is_open());
}

#[test]
fn acknowledgements_asked_to_be_rare_are_budgeted_for() {
    let mut run = run(Path::new(1.0, 40, 4.0));
    run.run_for(ms(3_000));
    let inflight = |bbr: &Bbr2| bbr.inflight(bbr.bw, 0.1);
    let quantum = run.controller.quantum;
    assert_eq!(inflight(&run.controller), (3 * quantum).max(4 * MTU));
    run.controller.on_ack_request(&AckRequest {
        ack_eliciting_threshold: 3,
        max_ack_delay: Duration::MAX,
        reordering_threshold: 3,
    });
    assert_eq!(inflight(&run.controller), 3 * quantum + 3 * MTU);
}
