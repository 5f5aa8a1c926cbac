//! Links by name, as the project's figures use them.
//!
//! Owns: the named links and asymmetric presets. Each is a drop-tail queue of one bandwidth-delay
//! product before a wire. Connect the client first: `forward` is the uplink.

use std::time::Duration;

use tautline_transport::units::Rate;

use crate::{DirectionConfig, Jitter, LinkConfig, LossModel};

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
