//! Amounts in plans: bytes, shares, durations, as people write them.
//!
//! Owns: [`Size`], [`Share`], [`Span`]. A rate, a queue and a duration of a link are the
//! simulator's (`tautline_sim::parse_rate` and so on).

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use tautline_sim::{format_duration, parse_duration};

/// A number of application bytes: `250000`, `"250 kB"`, `"10 MiB"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

const UNITS: &[(&str, u64)] = &[
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// The largest size a plan may name: 2^50 bytes.
const MAX_SIZE: u64 = 1 << 50;

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not a number of bytes such as \"250 kB\" (B, kB, MB, GB, KiB, MiB, GiB)"
            )
        };
        let text = text.trim();
        let (unit, scale) = UNITS
            .iter()
            .find(|(unit, _)| text.ends_with(unit))
            .ok_or_else(wrong)?;
        let number = text.strip_suffix(unit).unwrap_or(text).trim();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        if whole.is_empty()
            || whole.len() > 16
            || fraction.len() > 9
            || !digits(whole)
            || !digits(fraction)
        {
            return Err(wrong());
        }
        let power = 10u128.pow(fraction.len() as u32);
        let all: u128 = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
        let bytes = all * u128::from(*scale) / power;
        if bytes > u128::from(MAX_SIZE) {
            return Err(format!("{text:?} exceeds 2^50 bytes"));
        }
        Ok(Self(bytes as u64))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, scale) = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)]
            .into_iter()
            .find(|(_, scale)| self.0 >= *scale && self.0.is_multiple_of(*scale))
            .unwrap_or(("B", 1));
        write!(f, "{} {unit}", self.0 / scale)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes such as \"250 kB\"")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Size, E> {
                u64::try_from(value)
                    .map_err(|_| E::custom(format!("{value} bytes: below zero")))
                    .and_then(|value| self.visit_u64(value))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Size, E> {
                if value > MAX_SIZE {
                    return Err(E::custom(format!("{value} exceeds 2^50 bytes")));
                }
                Ok(Size(value))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }
        }
        d.deserialize_any(Visitor)
    }
}

/// A share of a whole, `0.0..=1.0`: `0.001` or `"0.1 %"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl Share {
    fn checked(value: f64) -> Result<Self, String> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(format!("{value} is not a share between 0 and 1"))
        }
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |_| format!("{text:?} is not a share such as 0.001 or \"0.1 %\"");
        match text.trim().strip_suffix('%') {
            Some(percent) => Self::checked(percent.trim().parse::<f64>().map_err(wrong)? / 100.0),
            None => Self::checked(text.trim().parse::<f64>().map_err(wrong)?),
        }
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Share;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a share such as 0.001 or \"0.1 %\"")
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Share, E> {
                Share::checked(value).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Share, E> {
                self.visit_f64(value as f64)
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Share, E> {
                self.visit_f64(value as f64)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Share, E> {
                text.parse().map_err(E::custom)
            }
        }
        d.deserialize_any(Visitor)
    }
}

/// A time in a plan: `"12.5 ms"`, `"180 s"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// Whole seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_duration(text)
            .map(Self)
            .map_err(|error| error.to_string())
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&format_duration(self.0))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        parse_duration(&String::deserialize(d)?)
            .map(Self)
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("250 kB", 250_000),
            ("1.5MB", 1_500_000),
            ("10 MiB", 10 << 20),
            ("0 B", 0),
        ] {
            assert_eq!(text.parse::<Size>(), Ok(Size(bytes)));
        }
        for bad in [
            "",
            "12",
            "MB",
            "-1 kB",
            "1e3 kB",
            "1.2.3 MB",
            "9999999 GB",
            "1 Mb",
        ] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
        assert_eq!("0.1 %".parse::<Share>(), Ok(Share(0.001)));
        assert_eq!("1".parse::<Share>(), Ok(Share(1.0)));
        for bad in ["", "%", "120 %", "-0.1", "NaN"] {
            assert!(bad.parse::<Share>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn sizes_print_and_parse_back(bytes in 0u64..=MAX_SIZE) {
            prop_assert_eq!(Size(bytes).to_string().parse::<Size>(), Ok(Size(bytes)));
        }

        #[test]
        fn parsing_never_panics(text in "\\PC{0,40}") {
            let _ = (text.parse::<Size>(), text.parse::<Share>());
        }
    }
}
