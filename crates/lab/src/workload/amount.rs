//! Amounts that are fixed or drawn: sizes of objects and messages.
//!
//! Owns: [`Amount`], and how rates of workloads are written. Does not own: [`Size`].

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};
use tautline_transport::rng::Rng;

use crate::quantity::Size;

/// A number of bytes, the same each time or drawn each time: `"10 kB"` or
/// `{ min = "5 kB", max = "25 kB" }`, uniform with both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// The same each time.
    Fixed(Size),
    /// Uniform.
    Between(Range),
}

/// Bounds of a uniform draw, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The smallest.
    pub min: Size,
    /// The largest.
    pub max: Size,
}

impl Default for Amount {
    fn default() -> Self {
        Self::Fixed(Size(0))
    }
}

impl From<Size> for Amount {
    fn from(size: Size) -> Self {
        Self::Fixed(size)
    }
}

impl Amount {
    /// Uniform between these numbers of bytes, both included.
    pub const fn between(min: u64, max: u64) -> Self {
        Self::Between(Range {
            min: Size(min),
            max: Size(max),
        })
    }

    /// The smallest that is drawn, in bytes.
    pub const fn min(self) -> u64 {
        match self {
            Self::Fixed(size) => size.0,
            Self::Between(range) => range.min.0,
        }
    }

    /// The largest that is drawn, in bytes.
    pub const fn max(self) -> u64 {
        match self {
            Self::Fixed(size) => size.0,
            Self::Between(range) => range.max.0,
        }
    }

    /// A draw in bytes. Takes one number from `rng`, or none when the amount is fixed.
    pub fn draw(self, rng: &mut Rng) -> u64 {
        match self {
            Self::Fixed(size) => size.0,
            Self::Between(Range { min, max }) => {
                min.0 + rng.below(max.0.saturating_sub(min.0).saturating_add(1))
            }
        }
    }

    /// What is wrong with it as the value of `field`.
    pub(crate) fn check(self, field: &str) -> Result<(), (String, String)> {
        match self {
            Self::Between(Range { min, max }) if min > max => Err((
                field.to_owned(),
                format!("min {min} is larger than max {max}"),
            )),
            _ => Ok(()),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(size) => size.serialize(s),
            Self::Between(range) => range.serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Amount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a number of bytes such as \"10 kB\", or { min = \"5 kB\", max = \"25 kB\" }",
                )
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Amount, E> {
                Size::deserialize(de::value::I64Deserializer::new(value)).map(Amount::Fixed)
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Amount, E> {
                Size::deserialize(de::value::U64Deserializer::new(value)).map(Amount::Fixed)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
                text.parse().map(Amount::Fixed).map_err(E::custom)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Amount, A::Error> {
                Range::deserialize(de::value::MapAccessDeserializer::new(map)).map(Amount::Between)
            }
        }
        d.deserialize_any(Visitor)
    }
}

/// `#[serde(with = "amount::rate")]`: `"4 Mb/s"`.
pub(crate) mod rate {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};
    use tautline_sim::{format_rate, parse_rate};
    use tautline_transport::units::Rate;

    pub(crate) fn serialize<S: Serializer>(rate: &Rate, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&format_rate(*rate))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Rate, D::Error> {
        parse_rate(&String::deserialize(d)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Holder {
        bytes: Amount,
    }

    #[test]
    fn reads_both_forms() {
        let read = |text: &str| toml::from_str::<Holder>(text).map(|holder| holder.bytes);
        assert_eq!(read("bytes = 7"), Ok(Size(7).into()));
        assert_eq!(read("bytes = \"10 kB\""), Ok(Size(10_000).into()));
        assert_eq!(
            read("bytes = { min = \"5 kB\", max = 25000 }"),
            Ok(Amount::between(5_000, 25_000))
        );
        for bad in [
            "bytes = -1",
            "bytes = \"10\"",
            "bytes = { min = 1 }",
            "bytes = { min = 1, max = 2, mean = 1 }",
            "bytes = [1, 2]",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let holder = Holder {
            bytes: Amount::between(1, 2),
        };
        let text = toml::to_string(&holder).expect("serialises");
        assert_eq!(toml::from_str(&text), Ok(holder));
        assert!(Amount::between(3, 2).check("bytes").is_err());
    }

    #[test]
    fn draws_stay_within_bounds_and_reach_them() {
        let mut rng = Rng::from_u64(1);
        let drawn: Vec<u64> = (0..1000)
            .map(|_| Amount::between(3, 6).draw(&mut rng))
            .collect();
        assert_eq!(drawn.iter().min(), Some(&3));
        assert_eq!(drawn.iter().max(), Some(&6));
        let wrong_order = Amount::between(6, 3).draw(&mut rng);
        assert_eq!(wrong_order, 6);
    }
}
