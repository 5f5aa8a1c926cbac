//! Links by name, as the project's figures use them.
//!
//! Owns: the named links and asymmetric presets. Each is a drop-tail queue of one bandwidth-delay
//! product before a wire, unless its row says otherwise. Connect the client first: `forward` is the uplink.

use std::time::Duration;

use tautline_transport::units::Rate;

use crate::{
    AdaptiveCoding, CodingState, DirectionConfig, Gaps, Grants, Handover, Jitter, LinkConfig,
    LossModel, Quantile, QueueSize, RateWander, Silences, Spread, Timing, Turns,
};

/// The names that [`by_name`] knows.
pub const fn names() -> &'static [&'static str] {
    &[
        "wifi",
        "cellular",
        "lte",
        "leo",
        "geo",
        "geo-thin",
        "da2gc",
        "mss",
        "terrestrial",
        "geo-25-3",
        "geo-75-3",
        "geo-100-3",
        "geo-dvb",
        "starlink",
        "interop",
    ]
}

/// The link with this name.
///
/// | name | rate | one-way delay | loss each way |
/// |---|---|---|---|
/// | `wifi` | 20 Mb/s | 12.5 ms | |
/// | `cellular` | 10 Mb/s | 50 ms | |
/// | `lte` | 40 Mb/s | 30 +- 5 ms, in order | 0.5 % |
/// | `leo` | 100 Mb/s | 25 +- 8 ms, in order | Gilbert 0.4 % in bursts of 3 |
/// | `geo` | 20 Mb/s | 300 ms | |
/// | `geo-thin` | 1.5 Mb/s | 200 ms | |
/// | `da2gc` | 0.468 Mb/s | 131 ms | 3.3 % |
/// | `mss` | 1.89 Mb/s | 380 ms | 6 % |
/// | `terrestrial` | 20 Mb/s | 50 ms | |
/// | `geo-25-3`, `geo-75-3`, `geo-100-3` | 25, 75, 100 down, 3 up | 300 ms | |
/// | `geo-dvb` | 25 down, 3 up | 300 ms | see [`geo_dvb`] |
/// | `starlink` | 101-258 down, 9.7-24 up | 21 ms, moving | see [`starlink`] |
/// | `interop` | 10 Mb/s | 15 ms | queue of 25 packets; see [`crate::interop`] |
pub fn by_name(name: &str) -> Option<LinkConfig> {
    Some(match name {
        "wifi" => LinkConfig::symmetric(wire(20_000, 12_500)),
        "cellular" => LinkConfig::symmetric(wire(10_000, 50_000)),
        "lte" => LinkConfig::symmetric(DirectionConfig {
            jitter: Some(Jitter::fifo(Duration::from_millis(5))),
            loss: LossModel::uniform(0.005),
            ..wire(40_000, 30_000)
        }),
        "leo" => LinkConfig::symmetric(DirectionConfig {
            jitter: Some(Jitter::fifo(Duration::from_millis(8))),
            loss: LossModel::Gilbert {
                probability: 0.004,
                mean_burst: 3.0,
                max_burst: None,
            },
            ..wire(100_000, 25_000)
        }),
        "geo" => LinkConfig::symmetric(wire(20_000, 300_000)),
        "geo-thin" => LinkConfig::symmetric(wire(1_500, 200_000)),
        "da2gc" => LinkConfig::symmetric(DirectionConfig {
            loss: LossModel::uniform(0.033),
            ..wire(468, 131_000)
        }),
        "mss" => LinkConfig::symmetric(DirectionConfig {
            loss: LossModel::uniform(0.06),
            ..wire(1_890, 380_000)
        }),
        "terrestrial" => LinkConfig::symmetric(wire(20_000, 50_000)),
        "geo-25-3" => asymmetric(25_000),
        "geo-75-3" => asymmetric(75_000),
        "geo-100-3" => asymmetric(100_000),
        "geo-dvb" => geo_dvb(),
        "starlink" => starlink(),
        "interop" => crate::interop::link(),
        _ => return None,
    })
}

fn wire(kilobits_per_second: u64, delay_micros: u64) -> DirectionConfig {
    DirectionConfig::new(
        Rate::from_bits_per_second(kilobits_per_second * 1000),
        Duration::from_micros(delay_micros),
    )
}

/// A satellite's shared downlink and thin uplink.
fn asymmetric(down_kilobits_per_second: u64) -> LinkConfig {
    LinkConfig {
        forward: wire(3_000, 300_000),
        backward: wire(down_kilobits_per_second, 300_000),
    }
}

/// A geostationary link with adaptive coding down (DVB-S2) and slots on demand up (DVB-RCS).
///
/// Down: 25 Mb/s in the fastest of four states of modulation and code, whose rates are to each
/// other as the spectral efficiencies of EN 302 307 (QPSK 3/4, 8PSK 2/3, 8PSK 5/6, 16APSK 3/4:
/// 1.487, 1.980, 2.479, 2.967 bits per symbol), each quasi error free (one packet in ten million).
/// The channel drifts over tens of seconds; the modem follows a second later, and while it is too
/// fast a tenth of the packets are lost. Up: 3 Mb/s in frames of 26.5 ms; after half a second of
/// idleness 1500 bytes go in the next frame, the rest waits 560 ms for its request to be granted.
/// 300 ms each way, queues of one bandwidth-delay product (of the mean rate), drop-tail.
///
/// The rates, the lag and its loss are plausible values and not measurements of a network. What is
/// not modelled stands at [`AdaptiveCoding`] and [`Grants`].
pub fn geo_dvb() -> LinkConfig {
    let state = |efficiency: f64| CodingState {
        factor: efficiency / 2.967,
        loss: 1e-7,
    };
    let coding = AdaptiveCoding {
        every: Duration::from_secs(1),
        correlation: Duration::from_secs(30),
        states: [1.487, 1.980, 2.479, 2.967].map(state).to_vec(),
        lag: Duration::from_secs(1),
        lag_loss: 0.1,
    };
    let grants = Grants {
        frame: Duration::from_micros(26_500),
        request_delay: Spread::Fixed {
            value: Duration::from_millis(560),
        },
        idle_after: Duration::from_millis(500),
        standing: 1500,
    };
    LinkConfig {
        forward: DirectionConfig {
            grants: Some(grants),
            ..wire(3_000, 300_000)
        },
        backward: DirectionConfig {
            coding: Some(coding),
            ..wire(25_000, 300_000)
        },
    }
}

/// A Starlink access, fitted to what was measured on one in Belgium in 2022 (F. Michel, *Flexible
/// QUIC loss recovery mechanisms for latency-sensitive applications*, section 6.3).
///
/// Both ways: hand-overs every 15 s, each with a base delay of its own (21.2 +- 11 ms one way) and a
/// pause of 20 ms; jitter of 3 ms that wanders over 20 ms; a rate drawn per slot and rippling, used
/// by turns at a faster line; a drop-tail queue; now and then a gap that loses everything, rarely for
/// 1-2 s.
///
/// Down: 101-258 Mb/s in frames of 2.5 ms at a line of 187-306 Mb/s, which cuts the ripples of the
/// fastest slots off, so that packets are 36-60 us apart; silences of 2 ms on average. Losses under load
/// are overflows of the queue: an observer sees no more of one than the two packets around it, one
/// serialisation apart. The medium adds single packets (0.02 %, in spells of 1000 packets of which 6
/// are lost), gaps of a millisecond and a half and a few of six or seven, and every 33 s one of 38-90 ms, after which
/// the receiver gets nothing for another 30 ms.
///
/// Up: 9.7-24 Mb/s in frames of 0.6 ms at 60-120 Mb/s, so that acknowledgements come in bunches; slots on
/// demand, so that the start of a message waits for a grant; every 7.4 s on average a gap of 20-36 ms,
/// or of 100-135 ms.
///
/// What is met and what is not: `crates/testkit/tests/figures/starlink/`, which prints measured
/// beside published figures, and `docs/starlink.md`.
pub fn starlink() -> LinkConfig {
    let mbit = |n: u64| Rate::from_bits_per_second(n * 1_000_000);
    let ms = Duration::from_millis;
    let us = Duration::from_micros;
    let gaps = |interval, hold, points: &[(f64, u64)]| Gaps {
        interval: ms(interval),
        timing: Timing::Random,
        duration: quantiles(points),
        probability: 1.0,
        hold: ms(hold),
    };
    let common = DirectionConfig {
        delay: us(21_200),
        jitter: Some(Jitter {
            correlation: ms(20),
            ..Jitter::fifo(ms(3))
        }),
        handover: Some(Handover {
            delay_spread: us(11_000),
            gap: ms(20),
            ..Handover::default()
        }),
        ..DirectionConfig::default()
    };
    let up = [
        (0.0, 20_000),
        (0.92, 36_000),
        (0.93, 100_000),
        (0.995, 135_000),
        (0.998, 1_000_000),
        (1.0, 2_000_000),
    ];
    let short = [(0.0, 1_410), (0.83, 1_510), (0.831, 6_000), (1.0, 6_800)];
    let long = [
        (0.0, 38_000),
        (0.88, 48_000),
        (0.998, 90_000),
        (1.0, 2_000_000),
    ];
    let kbit = |n: u64| Rate::from_bits_per_second(n * 1000);
    let wander = |low, high, ripple, every, turns| RateWander {
        low: kbit(low),
        high: kbit(high),
        every: Duration::from_secs(15),
        ripple,
        ripple_every: ms(every),
        turns: Some(turns),
    };
    let turns = |every, low, high| Turns {
        every: us(every),
        low: mbit(low),
        high: mbit(high),
    };
    LinkConfig {
        forward: DirectionConfig {
            rate_wander: Some(wander(9_700, 24_000, 0.65, 200, turns(600, 60, 120))),
            queue: QueueSize::Bytes(250_000),
            grants: Some(Grants {
                frame: ms(12),
                request_delay: quantiles(&[
                    (0.0, 9_000),
                    (0.93, 18_000),
                    (0.97, 45_000),
                    (1.0, 120_000),
                ]),
                idle_after: ms(10),
                standing: 3000,
            }),
            gaps: vec![gaps(7_400, 0, &up)],
            ..common.clone()
        },
        backward: DirectionConfig {
            rate_wander: Some(wander(101_000, 258_000, 0.34, 500, turns(2_500, 187, 306))),
            queue: QueueSize::Bytes(2_000_000),
            silences: Some(Silences {
                interval: ms(100),
                timing: Timing::Random,
                duration: Spread::Exponential { mean: ms(2) },
            }),
            loss: LossModel::GilbertElliott {
                good_to_bad: 0.000_033_3,
                bad_to_good: 0.001,
                loss_good: 0.0,
                loss_bad: 0.0061,
            },
            gaps: vec![gaps(33_000, 30, &long), gaps(940, 0, &short)],
            ..common
        },
    }
}

/// A distribution through points of (share, microseconds).
fn quantiles(points: &[(f64, u64)]) -> Spread {
    let point = |&(share, micros): &(f64, u64)| Quantile {
        share,
        value: Duration::from_micros(micros),
    };
    Spread::Quantiles {
        points: points.iter().map(point).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_valid_link() {
        for name in names() {
            let link = by_name(name).unwrap_or_else(|| panic!("{name}"));
            link.validate().unwrap_or_else(|e| panic!("{name}: {e}"));
            let text = toml::to_string(&link).unwrap();
            assert_eq!(
                toml::from_str::<LinkConfig>(&text).unwrap(),
                link,
                "{name}\n{text}"
            );
            let text = serde_json::to_string(&link).unwrap();
            assert_eq!(
                serde_json::from_str::<LinkConfig>(&text).unwrap(),
                link,
                "{name}"
            );
        }
        assert_eq!(by_name("carrier-pigeon"), None);
    }

    #[test]
    fn figures_are_those_of_the_definitions() {
        let da2gc = by_name("da2gc").unwrap();
        assert_eq!(da2gc.forward.rate.unwrap().bits_per_second(), 468_000);
        assert_eq!(da2gc.round_trip(), Duration::from_millis(262));
        assert_eq!(da2gc.backward.loss, LossModel::uniform(0.033));
        let asymmetric = by_name("geo-100-3").unwrap();
        assert_eq!(
            asymmetric.forward.rate.unwrap().bits_per_second(),
            3_000_000
        );
        assert_eq!(
            asymmetric.backward.rate.unwrap().bits_per_second(),
            100_000_000
        );
    }
}
