//! Rates that vary, silences, hand-overs, recorded losses, slots on demand.

use std::time::Duration;

use tautline_sim::{
    Direction, DirectionConfig, DropCause, Gaps, Grants, Handover, LinkConfig, LossModel, Outcome,
    Pattern, QueueSize, RateStep, RateSteps, Silences, Spread, Timing, TraceSource, links,
};
use tautline_transport::{time::Instant, units::Rate};

use crate::nodes::{Pair, Received, at, ms, numbers, steady};

/// Packets of 1000 IP bytes, one a millisecond.
fn one_a_millisecond(count: u64) -> Vec<crate::nodes::Planned> {
    steady(count, ms(1), 972)
}

fn arrivals(received: &[Received]) -> Vec<u64> {
    received
        .iter()
        .map(|r| r.at.as_nanos() / 1_000_000)
        .collect()
}

#[test]
fn steps_of_rate_are_kept_within_a_packet() {
    let step = |at, rate| RateStep {
        at: ms(at),
        rate: Rate::from_bytes_per_second(rate),
    };
    let rate_steps = RateSteps {
        steps: vec![step(0, 1_000_000), step(10, 100_000)],
        every: Some(ms(20)),
    };
    let config = DirectionConfig {
        rate_steps: Some(rate_steps),
        ..DirectionConfig::default()
    };
    // A period of 20 ms carries 10 packets in its first half and one in the second.
    let mut pair = Pair::new(1, config, steady(33, ms(0), 972));
    let received = pair.run();
    let whole: Vec<u64> = (1..=10).chain([20]).collect();
    let expected: Vec<u64> = (0..3)
        .flat_map(|p| whole.iter().map(move |t| t + 20 * p))
        .collect();
    assert_eq!(arrivals(&received), expected);

    // Half a packet before the step, half after it.
    let step = |at, rate| RateStep {
        at: Duration::from_micros(at),
        rate: Rate::from_bytes_per_second(rate),
    };
    let rate_steps = RateSteps {
        steps: vec![step(500, 100_000)],
        every: None,
    };
    let config = DirectionConfig {
        rate: Some(Rate::from_bytes_per_second(1_000_000)),
        rate_steps: Some(rate_steps),
        ..DirectionConfig::default()
    };
    let received = Pair::new(1, config, steady(1, ms(0), 972)).run();
    assert_eq!(received[0].at, at(Duration::from_micros(5_500)));
}

#[test]
fn a_trace_gives_its_opportunities_and_no_more() {
    let trace = Some(TraceSource::Inline("2\n4\n4\n10\n".into()));
    let config = DirectionConfig {
        trace,
        queue: QueueSize::Unlimited,
        ..DirectionConfig::default()
    };
    let mut pair = Pair::new(1, config.clone(), steady(6, ms(0), 1472));
    // Six packets of 1500 bytes into opportunities of 1504: 4 bytes of each help the next one
    // along, never enough to save an opportunity.
    assert_eq!(arrivals(&pair.run()), [2, 4, 4, 10, 12, 14]);
    // One packet a millisecond, of 1000 bytes: what waits shares opportunities.
    let mut pair = Pair::new(1, config, steady(4, ms(3), 722));
    assert_eq!(arrivals(&pair.run()), [2, 4, 10, 10]);
}

#[test]
fn files_are_read_before_use_and_missing_ones_named() {
    let dir = std::env::temp_dir().join(format!("tautline-sim-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("a.trace"), "1\n2\nthree\n").unwrap();
    std::fs::write(dir.join("losses"), "0100").unwrap();
    let text = r#"
        [forward]
        trace = { file = "a.trace" }
        [backward]
        loss = { model = "recorded", pattern = { file = "losses" }, repeat = true }
    "#;
    let mut link: LinkConfig = toml::from_str(text).unwrap();
    let error = link.validate().unwrap_err().to_string();
    assert_eq!(
        error,
        "forward.trace: a.trace is not read yet: call LinkConfig::load"
    );
    link.load(&dir).unwrap();
    let error = link.validate().unwrap_err().to_string();
    assert_eq!(
        error,
        "forward.trace: line 3: \"three\" is not a whole number of milliseconds"
    );
    std::fs::write(dir.join("a.trace"), "1\n2\n").unwrap();
    let mut link: LinkConfig = toml::from_str(text).unwrap();
    let files = link.load(&dir).unwrap();
    let names: Vec<_> = files
        .iter()
        .map(|file| file.path.to_str().unwrap())
        .collect();
    assert_eq!(names, ["a.trace", "losses"]);
    assert_eq!(&*files[0].text, "1\n2\n");
    link.validate().unwrap();
    assert_eq!(link.backward.loss.mean_rate(), 0.25);
    let mut link: LinkConfig = toml::from_str(text).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    let error = link.load(&dir).unwrap_err();
    assert_eq!(error.field, "forward.trace");
}

#[test]
fn recorded_losses_fall_on_their_packets() {
    let pattern = Pattern::Inline("3, 2, 1".into());
    let loss = LossModel::Recorded {
        pattern,
        repeat: true,
    };
    let config = DirectionConfig {
        loss,
        ..DirectionConfig::default()
    };
    let received = Pair::new(9, config, one_a_millisecond(12)).run();
    assert_eq!(numbers(&received), [0, 1, 2, 5, 6, 7, 8, 11]);
}

#[test]
fn silences_delay_and_lose_nothing() {
    let silences = Silences {
        interval: ms(100),
        timing: Timing::Periodic,
        duration: Spread::Fixed { value: ms(20) },
    };
    let config = DirectionConfig {
        rate: Some(Rate::from_bytes_per_second(2_000_000)),
        silences: Some(silences.clone()),
        ..DirectionConfig::default()
    };
    let received = Pair::new(1, config.clone(), one_a_millisecond(300)).run();
    assert_eq!(received.len(), 300);
    assert!(numbers(&received).is_sorted());
    for packet in &received {
        let into = packet.at.as_nanos() % 100_000_000;
        let after = packet.at.as_nanos() > 100_000_000;
        assert!(!after || into == 0 || into > 20_000_000, "{packet:?}");
    }
    // From 100 on packets wait; packet n leaves at 120 + (n - 99) / 2 ms, which is later than n + 1
    // up to 138.
    let last_late = received
        .iter()
        .rfind(|r| r.at > at(ms(r.number + 1)) && r.number < 190);
    assert_eq!(last_late.map(|r| r.number), Some(138));
    // At random, they take the share of time that they should: 100 ms on average between them.
    let random = Silences {
        timing: Timing::Random,
        ..silences
    };
    let config = DirectionConfig {
        silences: Some(random),
        ..config
    };
    let received = Pair::new(1, config, one_a_millisecond(60_000)).run();
    let gaps = received
        .windows(2)
        .map(|w| w[1].at.saturating_since(w[0].at));
    let silent = gaps.filter(|gap| *gap >= ms(20)).count();
    assert!((450..550).contains(&silent), "{silent}");
}

#[test]
fn gaps_lose_what_leaves_meanwhile() {
    let gaps = Gaps {
        interval: ms(1000),
        timing: Timing::Periodic,
        duration: Spread::Fixed {
            value: Duration::from_micros(9_500),
        },
        probability: 1.0,
        hold: Duration::ZERO,
    };
    let config = DirectionConfig {
        gaps: vec![gaps],
        ..DirectionConfig::default()
    };
    let mut pair = Pair::new(1, config, one_a_millisecond(3000));
    let received = numbers(&pair.run());
    let lost: Vec<u64> = (0..3000).filter(|n| !received.contains(n)).collect();
    assert_eq!(lost, (1000..1010).chain(2000..2010).collect::<Vec<u64>>());
    assert_eq!(pair.stats().dropped.loss, 20);
}

#[test]
fn what_leaves_while_a_gap_holds_comes_at_its_end() {
    let gaps = Gaps {
        interval: ms(1000),
        timing: Timing::Periodic,
        duration: Spread::Fixed {
            value: Duration::from_micros(9_500),
        },
        probability: 1.0,
        hold: ms(5),
    };
    let config = DirectionConfig {
        gaps: vec![gaps],
        ..DirectionConfig::default()
    };
    let received = Pair::new(1, config, one_a_millisecond(3000)).run();
    assert_eq!(received.len(), 2980);
    let end = Instant::ZERO + Duration::from_micros(1_014_500);
    let at = received.iter().map(|packet| packet.at);
    assert_eq!(at.filter(|at| *at == end).count(), 5);
    let early = |at: &Instant| *at > Instant::ZERO + ms(1000) && *at < end;
    assert!(!received.iter().any(|packet| early(&packet.at)));
}

#[test]
fn hand_overs_step_the_delay_lose_and_stop() {
    let handover = Handover {
        every: ms(1000),
        offset: ms(100),
        delay_spread: ms(10),
        loss_duration: ms(20),
        gap: ms(50),
        ..Handover::default()
    };
    let config = DirectionConfig {
        rate: Some(Rate::from_bytes_per_second(100_000_000)),
        delay: ms(30),
        handover: Some(handover),
        ..DirectionConfig::default()
    };
    let mut pair = Pair::new(4, config.clone(), one_a_millisecond(5000));
    let received = pair.run();
    assert!(numbers(&received).is_sorted());
    // The transmitter stands still longer than packets are lost, so that none is.
    assert_eq!(received.len(), 5000);
    let delay = |n: u64| {
        received[n as usize]
            .at
            .saturating_since(at(ms(n)))
            .as_micros() as i64
    };
    let slots: Vec<i64> = (0..5).map(|k| delay(600 + 1000 * k)).collect();
    assert!(
        slots.iter().all(|d| (20_000..=40_020).contains(d)),
        "{slots:?}"
    );
    assert!(slots.windows(2).all(|w| w[0] != w[1]));
    // One delay per slot.
    assert_eq!(delay(1200), delay(2000));
    // The first packet of the gap waits for all of it.
    assert_eq!(delay(1100) - delay(1900), 50_000);

    let config = DirectionConfig {
        handover: Some(Handover {
            gap: Duration::ZERO,
            ..handover
        }),
        ..config
    };
    let mut pair = Pair::new(4, config, one_a_millisecond(5000));
    pair.run();
    let lost = pair
        .world
        .log()
        .iter()
        .filter(|r| r.outcome == Outcome::Dropped(DropCause::Loss));
    let lost: Vec<u64> = lost.map(|r| r.index).collect();
    let expected: Vec<u64> = (0..5)
        .flat_map(|k| (100..120).map(move |n| n + 1000 * k))
        .collect();
    assert_eq!(lost, expected);
}

#[test]
fn grants_wait_for_request_and_frame() {
    let grants = Grants {
        frame: ms(10),
        request_delay: Spread::Fixed { value: ms(35) },
        idle_after: ms(50),
        standing: 1500,
    };
    let config = DirectionConfig {
        rate: Some(Rate::from_bytes_per_second(1_000_000)),
        grants: Some(grants),
        ..DirectionConfig::default()
    };
    let mut plan = steady(5, ms(0), 972);
    plan.extend(steady(5, ms(0), 972));
    for (i, planned) in plan.iter_mut().enumerate() {
        planned.at = at(ms(if i < 5 { 13 } else { 95 }));
    }
    plan.extend(steady(1, ms(0), 972).into_iter().map(|mut p| {
        p.at = at(ms(200));
        p
    }));
    let mut pair = Pair::new(1, config, plan);
    // At 13: two packets in the frame at 20, the rest from 50 on (13 + 35, next frame). At 95,
    // 42 ms later, the grant still stands: frame at 100. At 200 a frame begins.
    let expected = [21, 22, 51, 52, 53, 101, 102, 103, 104, 105, 201];
    assert_eq!(arrivals(&pair.run()), expected);
}

#[test]
fn geo_dvb_steps_its_rate_and_loses_while_it_lags() {
    let mut link = links::by_name("geo-dvb").unwrap().reversed();
    // A tenth of its rate, so that ten minutes are few packets; a fifth more goes in.
    link.forward.rate = Some(Rate::from_bits_per_second(2_500_000));
    let plan = steady(150_000, ms(4), 1472);
    let mut pair = Pair::with(3, link, plan, false);
    let received = pair.run();
    let mut per_second = vec![0u64; 600];
    for packet in &received {
        let second = (packet.at.as_nanos() / 1_000_000_000) as usize;
        if let Some(bytes) = per_second.get_mut(second) {
            *bytes += 1500;
        }
    }
    let rates: Vec<f64> = per_second[5..]
        .iter()
        .map(|b| *b as f64 * 8.0 / 2.5e6)
        .collect();
    assert!(rates.iter().all(|r| *r < 1.005));
    for factor in [0.501, 0.667, 0.836, 1.0] {
        let near = rates
            .iter()
            .filter(|r| (*r / factor - 1.0).abs() < 0.012)
            .count();
        assert!(near > 20, "{factor}: {near}");
    }
    let stats = pair.stats();
    let lost = stats.dropped.loss as f64 / (stats.delivered_packets + stats.dropped.loss) as f64;
    assert!((0.0005..0.02).contains(&lost), "{lost}");
    // The other way one packet after idleness needs a frame, several need a request.
    let link = links::by_name("geo-dvb").unwrap();
    let mut pair = Pair::with(3, link, steady(3, Duration::ZERO, 1472), false);
    let late: Vec<u64> = arrivals(&pair.run());
    assert_eq!(late[0], 304);
    assert!((860..895).contains(&late[1]), "{late:?}");
    assert_eq!(
        pair.world
            .link_stats(pair.link, Direction::Forward)
            .dropped
            .total(),
        0
    );
}

#[test]
fn impossible_values_are_named() {
    let cases = [
        (
            "rate = '1 Mb/s'\ntrace = { inline = '1' }",
            "trace: cannot be combined with `rate`",
        ),
        (
            "trace = { inline = '1' }\nrate_steps = { steps = [{ at = '0 s', rate = '1 Mb/s' }] }",
            "trace: cannot be combined with `rate_steps`",
        ),
        (
            "rate_steps = { steps = [] }",
            "rate_steps.steps: 0 steps are not 1 to 100000",
        ),
        (
            "rate_steps = { steps = [{ at = '0 s', rate = '0 Mb/s' }] }",
            "rate_steps.steps[0].rate: 0.000 Mb/s is not between 0.008 Mb/s",
        ),
        (
            "delay = '10 ms'\nhandover = { delay_spread = '11 ms' }",
            "handover.delay_spread: 11ms exceeds the delay less its jitter (10ms)",
        ),
        (
            "handover = { gap = '15 s' }",
            "handover.gap: 15s is not shorter than a slot (15s)",
        ),
        (
            "silences = { interval = '0 ms', duration = { kind = 'fixed', value = '1 ms' } }",
            "silences.interval: 0ns is below 1ms",
        ),
        (
            "silences = { interval = '10 ms', timing = 'periodic', duration = { kind = 'uniform', least = '5 ms', most = '15 ms' } }",
            "silences.duration: lasts 10ms on average, and one begins every 10ms: the link would hardly ever send; at most nine tenths of `interval`",
        ),
        (
            "[[gaps]]\ninterval = '1 s'\nduration = { kind = 'quantiles', points = [] }",
            "gaps[0].duration.points: needs 2 to 1000 points from share 0 to share 1",
        ),
        (
            "loss = { model = 'recorded', pattern = '01x' }",
            "loss.pattern: line 1: 'x' is neither",
        ),
        (
            "coding = { every = '1 s', correlation = '9 s', states = [], lag = '1 s', lag_loss = 0 }",
            "coding.states: 0 states are not 1 to 64",
        ),
    ];
    for (text, problem) in cases {
        let config: DirectionConfig =
            toml::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let error = config.validate().unwrap_err().to_string();
        assert!(error.starts_with(problem), "{text}: {error}");
    }
    for text in [
        "rate_step = 1",
        "handover = { every = '15 s', spread = '1 ms' }",
    ] {
        assert!(toml::from_str::<DirectionConfig>(text).is_err(), "{text}");
    }
}
