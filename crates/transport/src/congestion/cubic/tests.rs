use std::time::Duration;

use super::*;
use crate::congestion::test_link::{self, MTU, Path, Run, Source, context, mbps, ms};

fn at(seconds: f64) -> Instant {
    Instant::from_nanos((seconds * 1e9).round() as u64)
}

fn ack(sent: f64, now: f64, bytes: u64, rtt: u64) -> AckEvent {
    AckEvent {
        now: at(now),
        largest_acked_sent: at(sent),
        ..test_link::ack(0, 0, bytes, ms(rtt))
    }
}

fn lose(controller: &mut Cubic, sent: f64, now: f64, persistent: bool) {
    let packet = test_link::lost(0, at(sent));
    controller.on_loss(&test_link::loss(at(now), &[packet], persistent));
}

fn spurious(sent: f64) -> SpuriousLossEvent {
    SpuriousLossEvent::new(at(sent + 1.0), 0, at(sent), MTU, true)
}

/// With a window of `packets` and no past.
fn controller(packets: u64) -> Cubic {
    let mut context = context();
    context.initial_window = packets * MTU;
    let config = CubicConfig {
        hystart: false,
        ..CubicConfig::default()
    };
    Cubic::new(config, &context)
}

fn packets(controller: &Cubic) -> f64 {
    controller.window / MTU as f64
}

#[test]
fn constants() {
    assert_eq!((C, BETA), (0.4, 0.7));
    assert!((ALPHA - 0.529_411_764_7).abs() < 1e-9);
}

/// Window after `seconds` of avoidance in steps of an RTT, one window acknowledged per step.
fn after(mut cc: Cubic, start: f64, rtt_ms: u64, seconds: f64) -> Vec<(f64, f64)> {
    let rtt = rtt_ms as f64 / 1e3;
    let mut table = Vec::new();
    let mut now = start;
    while now <= start + seconds + 1e-9 {
        // The window's bytes arrive evenly over the round trip.
        for part in 0..50 {
            let now = now + rtt * f64::from(part) / 50.0;
            cc.on_ack(&ack(now - rtt, now, cc.window() / 50, rtt_ms));
        }
        now += rtt;
        table.push((now - start, packets(&cc)));
    }
    table
}

/// The curve of RFC 9438 s4.2 by itself: W(t) = 0.4 (t - K)^3 + W_max.
fn curve(w_max: f64, epoch: f64, t: f64) -> f64 {
    let k = ((w_max - epoch) / 0.4).cbrt();
    0.4 * (t - k).powi(3) + w_max
}

// RFC 9438 s4.2, s4.4, s4.5: a table of the formula against the controller.
#[test]
fn follows_the_cubic_curve_at_long_rtt() {
    let mut cc = controller(1_000);
    lose(&mut cc, 0.0, 1.0, false);
    assert!((packets(&cc) - 700.0).abs() < 0.01);
    // K = cbrt(300 / 0.4) = 9.086 s.
    for (t, window) in after(cc, 2.0, 200, 14.0) {
        let expected = curve(1_000.0, 700.0, t).max(700.0);
        let error = (window - expected).abs() / expected;
        assert!(
            error < 0.02,
            "t {t:.1}: {window:.1} instead of {expected:.1}"
        );
    }
}

#[test]
fn plateau_is_at_k() {
    let mut cc = controller(1_000);
    lose(&mut cc, 0.0, 1.0, false);
    let table = after(cc, 2.0, 100, 9.1);
    let (t, window) = table[table.len() - 1];
    assert!(
        (t - 9.1).abs() < 0.2 && (window - 1_000.0).abs() < 1.0,
        "{t}: {window}"
    );
}

// RFC 9438 s4.3: at short RTT and small windows growth is Reno's, 0.529 datagrams per RTT, and
// 1 from the old window on.
#[test]
fn reno_friendly_region() {
    let mut cc = controller(20);
    lose(&mut cc, 0.0, 1.0, false);
    assert!((packets(&cc) - 14.0).abs() < 0.01);
    let table = after(cc, 2.0, 10, 0.6);
    let (_, early) = table[9];
    assert!((early - (14.0 + 10.0 * ALPHA)).abs() < 0.3, "{early}");
    // 14 -> 20 takes 11.3 round trips; then one datagram each.
    let (_, late) = table[29];
    assert!((late - (20.0 + (30.0 - 11.33))).abs() < 1.0, "{late}");
}

// RFC 9438 s4.2: at most half a window more per round trip.
#[test]
fn growth_is_at_most_half_a_window_per_rtt() {
    let mut cc = controller(100);
    lose(&mut cc, 0.0, 1.0, false);
    cc.on_ack(&ack(1.5, 2.0, MTU, 500));
    let before = packets(&cc);
    // A minute into the curve the target is far beyond.
    for _ in 0..50 {
        cc.on_ack(&ack(62.0, 62.5, cc.window() / 50, 500));
    }
    let grown = packets(&cc) / before;
    assert!((1.4..1.66).contains(&grown), "{grown}");
}

// RFC 9438 s4.6.
#[test]
fn one_reduction_per_round_trip_by_beta() {
    let mut cc = controller(100);
    lose(&mut cc, 0.5, 1.0, false);
    lose(&mut cc, 0.9, 1.1, false);
    assert!((packets(&cc) - 70.0).abs() < 0.01);
    cc.on_ack(&ack(0.99, 1.2, 50 * MTU, 100));
    assert!((packets(&cc) - 70.0).abs() < 0.01, "no growth in recovery");
    lose(&mut cc, 1.3, 1.5, false);
    assert!((packets(&cc) - 49.0).abs() < 0.01);
}

// RFC 9438 s4.7.
#[test]
fn fast_convergence_lowers_the_plateau() {
    for (fast, w_max) in [(true, 70.0 * 0.85), (false, 70.0)] {
        let mut cc = controller(100);
        cc.config.fast_convergence = fast;
        lose(&mut cc, 0.5, 1.0, false);
        assert!((cc.curve.w_max / MTU as f64 - 100.0).abs() < 0.01);
        lose(&mut cc, 1.5, 2.0, false);
        assert!((cc.curve.w_max / MTU as f64 - w_max).abs() < 0.01);
    }
}

// RFC 9438 s4.8 and RFC 9002 s7.6.2.
#[test]
fn persistent_congestion_restarts_slow_start_and_then_a_fresh_curve() {
    let mut cc = controller(100);
    lose(&mut cc, 0.5, 1.0, true);
    assert_eq!(cc.window(), 2 * MTU);
    assert_eq!(cc.metrics().slow_start_threshold, Some(70 * MTU));
    cc.on_ack(&ack(0.9, 1.1, 68 * MTU, 100));
    assert!((packets(&cc) - 70.0).abs() < 0.01);
    cc.on_ack(&ack(1.2, 1.3, MTU, 100));
    assert_eq!(cc.curve.k, 0.0);
    assert!((cc.curve.w_max / MTU as f64 - 70.0).abs() < 0.01);
}

// RFC 9438 s4.9.2.
#[test]
fn spurious_loss_restores_everything() {
    let mut cc = controller(100);
    lose(&mut cc, 0.5, 1.0, false);
    let before = after_one(&mut cc);
    lose(&mut cc, 1.5, 2.0, false);
    assert!(cc.window() < before.0);
    cc.on_spurious_loss(&spurious(1.5));
    assert_eq!((cc.window(), cc.curve.w_max, cc.curve.k), before);
    // The first episode is too old to be undone.
    cc.on_spurious_loss(&spurious(0.5));
    assert_eq!(cc.window(), before.0);
}

fn after_one(cc: &mut Cubic) -> (u64, f64, f64) {
    cc.on_ack(&ack(1.1, 1.2, MTU, 100));
    (cc.window(), cc.curve.w_max, cc.curve.k)
}

#[test]
fn marks_are_congestion_and_never_undone() {
    let mut cc = controller(100);
    cc.on_ecn(&EcnEvent::new(at(1.0), 1, 0, at(0.5), 0));
    assert!((packets(&cc) - 70.0).abs() < 0.01);
    cc.on_spurious_loss(&spurious(0.5));
    assert!((packets(&cc) - 70.0).abs() < 0.01);
}

// RFC 9438 s5.8: time without use does not move along the curve.
#[test]
fn pauses_of_the_application_do_not_count() {
    let mut cc = controller(1_000);
    lose(&mut cc, 0.0, 1.0, false);
    cc.on_ack(&ack(1.9, 2.0, MTU, 100));
    cc.on_ack(&AckEvent {
        app_limited: true,
        ..ack(2.0, 2.1, MTU, 100)
    });
    assert!(packets(&cc) < 701.0);
    cc.on_ack(&AckEvent {
        app_limited: true,
        ..ack(30.0, 30.1, MTU, 100)
    });
    cc.on_ack(&ack(60.0, 60.1, MTU, 100));
    let t = at(60.1).saturating_since(cc.curve.epoch.unwrap());
    assert_eq!(t, ms(100));
}

#[test]
fn idleness_does_not_count() {
    let mut cc = controller(1_000);
    lose(&mut cc, 0.0, 1.0, false);
    cc.on_ack(&ack(1.9, 2.0, MTU, 100));
    cc.on_restart_from_idle(at(50.0));
    cc.on_ack(&ack(50.0, 50.1, MTU, 100));
    assert!(packets(&cc) < 701.0, "{}", packets(&cc));
}

#[test]
fn growth_from_two_thirds_of_the_window_suits_bursts() {
    for (growth_use, grows) in [(1.0, false), (0.66, true)] {
        let config = CubicConfig {
            growth_use,
            ..CubicConfig::default()
        };
        let mut cc = Cubic::new(config, &context());
        cc.on_sent(&SentEvent::new(at(0.0), 0, MTU, 7 * MTU, true));
        cc.on_ack(&AckEvent {
            app_limited: true,
            ..ack(0.0, 0.1, 7 * MTU, 100)
        });
        assert_eq!(cc.window() > 10 * MTU, grows);
    }
}

#[test]
fn only_the_realtime_profile_grows_on_bursts() {
    use crate::config::Profile;
    for (profile, grows) in [
        (Profile::Web, false),
        (Profile::Bulk, false),
        (Profile::Message, false),
        (Profile::Realtime, true),
    ] {
        let mut cc = profile.config().congestion.build(context());
        assert_eq!(cc.name(), "cubic");
        cc.on_sent(&SentEvent::new(at(0.0), 0, MTU, 7 * MTU, true));
        cc.on_ack(&AckEvent {
            app_limited: true,
            ..ack(0.0, 0.1, 7 * MTU, 100)
        });
        assert_eq!(cc.window() > 10 * MTU, grows, "{profile:?}");
    }
}

#[test]
fn without_a_pacer_slow_start_is_held_back() {
    for (paced, grown) in [(true, 20 * MTU), (false, 18 * MTU)] {
        let mut context = context();
        context.paced = paced;
        let mut cc = Cubic::new(CubicConfig::default(), &context);
        cc.on_sent(&SentEvent::new(at(0.0), 0, MTU, 10 * MTU, false));
        cc.on_ack(&ack(0.0, 0.1, 10 * MTU, 100));
        assert_eq!(cc.window(), grown, "paced: {paced}");
    }
}

#[test]
fn hystart_leaves_slow_start_before_the_queue_overflows() {
    let mut run = Run::new(
        Cubic::new(CubicConfig::default(), &context()),
        Path::new(50.0, 80, 10.0),
    );
    let left = run.run_until(at(10.0), |run| !run.controller.in_slow_start());
    assert!(left && run.lost == 0, "lost {} bytes", run.lost);
    assert_eq!(run.controller.curve.epoch, None);
    run.run_for(ms(500));
    assert_eq!(
        run.controller.curve.k, 0.0,
        "no old maximum: RFC 9438 s4.10"
    );
}

#[test]
fn uses_a_wifi_link_to_the_full() {
    let mut run = Run::new(
        Cubic::new(CubicConfig::default(), &context()),
        Path::new(20.0, 25, 1.0),
    );
    run.run_for(Duration::from_secs(60));
    assert!(run.utilisation() > 0.985, "{}", run.utilisation());
}

// RFC 9438 s5.2: the point of the curve.
#[test]
fn recovers_faster_than_reno_on_long_fat_paths() {
    let path = Path::new(50.0, 200, 0.3).with_loss(0.000_1);
    let mut cubic = Run::new(Cubic::new(CubicConfig::default(), &context()), path.clone());
    cubic.run_for(Duration::from_secs(60));
    let reno = super::super::NewRenoFactory::default().build(context());
    let mut reno = Run::new(reno, path);
    reno.run_for(Duration::from_secs(60));
    let (cubic, reno) = (cubic.utilisation(), reno.utilisation());
    assert!(cubic > reno * 1.1, "{cubic} against {reno}");
}

#[test]
fn a_slow_application_keeps_its_window() {
    let mut run = Run::new(
        Cubic::new(CubicConfig::default(), &context()),
        Path::new(20.0, 25, 1.0),
    );
    run.source = Source::AtRate(mbps(1.0), Instant::ZERO);
    run.run_for(Duration::from_secs(20));
    assert!(
        run.controller.window() <= 11 * MTU,
        "{}",
        run.controller.window()
    );
}

fn rtt_scaled() -> CubicConfig {
    CubicConfig {
        rtt_scaled: true,
        ..CubicConfig::default()
    }
}

fn lose_at_rtt(controller: &mut Cubic, sent: f64, smoothed: u64, min: u64, persistent: bool) {
    let packet = test_link::lost(0, at(sent));
    let packets = [packet];
    let mut event = test_link::loss(at(sent + 1.0), &packets, persistent);
    event.rtt.smoothed = ms(smoothed);
    event.rtt.min = ms(min);
    controller.on_loss(&event);
}

#[test]
fn scaled_back_off_follows_the_round_trip() {
    let scaled = |packets| {
        let mut context = context();
        context.initial_window = packets * MTU;
        Cubic::new(rtt_scaled(), &context)
    };
    for (smoothed, left, slow_start) in [
        (100, 100.0, true),
        (104, 100.0, true),
        (125, 80.0, false),
        (300, 70.0, false),
    ] {
        let mut cc = scaled(100);
        lose_at_rtt(&mut cc, 1.0, smoothed, 100, false);
        assert!((packets(&cc) - left).abs() < 0.01, "{}", packets(&cc));
        assert_eq!(cc.in_slow_start(), slow_start);
    }
    // What is no guess is answered in full.
    let mut cc = scaled(100);
    cc.on_ecn(&EcnEvent::new(at(1.0), 1, 1, at(0.5), 0));
    assert!((packets(&cc) - 70.0).abs() < 0.01);
    let mut cc = scaled(100);
    lose_at_rtt(&mut cc, 1.0, 100, 100, true);
    assert_eq!(cc.window(), 2 * MTU);
    assert_eq!(cc.metrics().slow_start_threshold, Some(70 * MTU));
}

/// Random loss on a long path costs `cubic` nearly everything and the scaled one little; a queue
/// that overflows is answered by both.
#[test]
fn scaled_back_off_tells_random_loss_from_a_full_queue() {
    let used = |config, loss| {
        let path = Path::new(20.0, 600, 1.0).with_loss(loss);
        let mut run = Run::new(Cubic::new(config, &context()), path);
        run.run_for(Duration::from_secs(60));
        (run.utilisation(), run.loss_share())
    };
    let (plain, _) = used(CubicConfig::default(), 0.01);
    let (scaled, _) = used(rtt_scaled(), 0.01);
    let (clean, lost) = used(rtt_scaled(), 0.0);
    println!("geo, 1 %: cubic {plain:.3}, scaled {scaled:.3}; no loss: {clean:.3}, lost {lost:.4}");
    assert!(scaled > 0.8 && scaled > 5.0 * plain);
    assert!(clean > 0.9 && lost < 0.02);
}

/// The same reduction, with a recovery of one round trip: where the curve's time counts from the cut it
/// is a round trip ahead.
#[test]
fn a_curve_from_the_cut_is_a_round_trip_ahead() {
    let regrown = |curve_from_cut: bool| {
        let mut cc = controller(100);
        cc.config.curve_from_cut = curve_from_cut;
        cc.threshold = cc.window;
        lose(&mut cc, 0.9, 1.0, false);
        // Packets of the recovery period change nothing; the first of those after it begins the curve.
        cc.on_ack(&ack(0.95, 1.05, MTU, 100));
        assert_eq!(packets(&cc), 70.0);
        assert_eq!(cc.curve.epoch, None);
        cc.on_ack(&ack(1.001, 1.1, MTU, 100));
        (cc.curve.epoch, after(cc, 1.1, 100, 2.0))
    };
    let (from_avoidance, plain) = regrown(false);
    let (from_cut, early) = regrown(true);
    assert_eq!((from_avoidance, from_cut), (Some(at(1.1)), Some(at(1.0))));
    for ((_, plain), (_, early)) in plain.iter().zip(&early) {
        assert!(early > plain, "{early} is not above {plain}");
    }
}
