//! Rates, durations and queue sizes as people write them: `"20 Mb/s"`, `"12.5 ms"`, `"25 packets"`.
//!
//! Owns: exact decimal parsing and printing; what is printed parses back to the same value.
//! Used by: serde of the configuration structs.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de::Error as _};
use tautline_transport::units::Rate;

/// A text that is not a quantity of the wanted kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {wanted}")]
pub struct QuantityError {
    text: String,
    wanted: &'static str,
}

pub(crate) const RATE: &str = "a rate such as \"20 Mb/s\" (b/s, kb/s, Mb/s, Gb/s)";
pub(crate) const DURATION: &str = "a duration such as \"12.5 ms\" (ns, us, ms, s)";

pub(crate) fn error(text: &str, wanted: &'static str) -> QuantityError {
    QuantityError {
        text: text.chars().take(40).collect(),
        wanted,
    }
}

/// Splits `"12.5 ms"` into `12.5` and `ms`.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
}

/// `number * scale`, exact; `None` when malformed, too large or not whole.
pub(crate) fn decimal(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || whole.len() > 19 || fraction.len() > 15 || fraction.contains('.') {
        return None;
    }
    let power = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction = if fraction.is_empty() {
        0
    } else {
        fraction.parse::<u128>().ok()?
    };
    let scaled = (whole.parse::<u128>().ok()? * power + fraction) * u128::from(scale);
    if scaled % power != 0 {
        return None;
    }
    u64::try_from(scaled / power).ok()
}

/// `value / scale` in decimal without trailing zeros; `scale` is a power of ten.
fn print(value: u64, scale: u64) -> String {
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = scale.ilog10() as usize;
    let text = format!("{whole}.{rest:0digits$}");
    text.trim_end_matches('0').to_owned()
}

/// Reads `"20 Mb/s"`. Bits that do not fill a byte per second are dropped.
pub fn parse_rate(text: &str) -> Result<Rate, QuantityError> {
    let (number, unit) = split(text);
    let scale = match unit {
        "b/s" | "bit/s" => 1,
        "kb/s" | "kbit/s" => 1_000,
        "Mb/s" | "Mbit/s" => 1_000_000,
        "Gb/s" | "Gbit/s" => 1_000_000_000,
        _ => return Err(error(text, RATE)),
    };
    decimal(number, scale)
        .map(Rate::from_bits_per_second)
        .ok_or_else(|| error(text, RATE))
}

/// Writes a rate in Mb/s; exact below 2^61 bytes per second.
pub fn format_rate(rate: Rate) -> String {
    format!("{} Mb/s", print(rate.bits_per_second(), 1_000_000))
}

/// Reads `"12.5 ms"`.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    let (number, unit) = split(text);
    let scale = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(error(text, DURATION)),
    };
    decimal(number, scale)
        .map(Duration::from_nanos)
        .ok_or_else(|| error(text, DURATION))
}

/// Writes a duration in ms below a second, else in s; exact up to 584 years.
pub fn format_duration(duration: Duration) -> String {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if nanos < 1_000_000_000 {
        format!("{} ms", print(nanos, 1_000_000))
    } else {
        format!("{} s", print(nanos, 1_000_000_000))
    }
}

/// `#[serde(with = "duration")]`
pub(crate) mod duration {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(value: &Duration, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&format_duration(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
        parse_duration(&String::deserialize(d)?).map_err(D::Error::custom)
    }
}

/// `#[serde(with = "duration_option")]`
pub(crate) mod duration_option {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => s.serialize_str(&format_duration(*value)),
            None => s.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(d)?;
        text.map(|text| parse_duration(&text))
            .transpose()
            .map_err(D::Error::custom)
    }
}

/// `#[serde(with = "rate")]`
pub(crate) mod rate {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(value: &Rate, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&format_rate(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Rate, D::Error> {
        parse_rate(&String::deserialize(d)?).map_err(D::Error::custom)
    }
}

/// `#[serde(with = "rate_option")]`
pub(crate) mod rate_option {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(value: &Option<Rate>, s: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => s.serialize_str(&format_rate(*value)),
            None => s.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Rate>, D::Error> {
        let text = Option::<String>::deserialize(d)?;
        text.map(|text| parse_rate(&text))
            .transpose()
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse_rate("0.468 Mb/s").unwrap().bytes_per_second(), 58_500);
        assert_eq!(
            parse_rate("1Gb/s").unwrap().bits_per_second(),
            1_000_000_000
        );
        assert_eq!(
            parse_duration("12.5 ms").unwrap(),
            Duration::from_micros(12_500)
        );
        assert_eq!(parse_duration(" 3 s ").unwrap(), Duration::from_secs(3));
        for bad in [
            "", "12", "ms", "1.2.3 ms", "-1 ms", "1 min", "0.1 ns", "1e3 ms", ". s",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad:?}");
        }
        for bad in ["20 MB/s", "20", "99999999999999999999 Gb/s"] {
            assert!(parse_rate(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn printing_parses_back(nanos in any::<u64>(), bytes in 0u64..1 << 60) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            let rate = Rate::from_bytes_per_second(bytes);
            prop_assert_eq!(parse_rate(&format_rate(rate)), Ok(rate));
        }

        #[test]
        fn parsing_never_panics(text in "\\PC{0,60}") {
            let _ = (parse_rate(&text), parse_duration(&text));
        }
    }
}
