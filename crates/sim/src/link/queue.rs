//! How much may wait.
//!
//! Owns: [`QueueSize`] as people write it and [`Limit`] as it is applied.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use tautline_transport::units::Rate;

use super::config::ConfigError;
use crate::text::{self, QuantityError};

/// An amount of waiting data. Written `"unlimited"`, `"25 packets"`, `"64000 bytes"`, `"1 BDP"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueueSize {
    /// No bound.
    Unlimited,
    /// IP bytes.
    Bytes(u64),
    /// Packets of any size.
    Packets(u64),
    /// This many times rate x round trip (the delays of both directions of the link), in bytes,
    /// at least two packets of 1500 bytes. Unlimited without a rate.
    Bdp(f64),
}

const QUEUE: &str =
    "a queue size such as \"25 packets\", \"64000 bytes\", \"1 BDP\", \"unlimited\"";

impl QueueSize {
    pub(crate) fn validate(&self, field: &str) -> Result<(), ConfigError> {
        match self {
            Self::Bdp(factor) if !(*factor > 0.0 && *factor <= 1000.0) => {
                let problem = format!("{factor} BDP is not above 0 and at most 1000");
                Err(ConfigError::new(field, problem))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for QueueSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::Bytes(n) => write!(f, "{n} bytes"),
            Self::Packets(n) => write!(f, "{n} packets"),
            Self::Bdp(x) => write!(f, "{x} BDP"),
        }
    }
}

impl FromStr for QueueSize {
    type Err = QuantityError;

    fn from_str(input: &str) -> Result<Self, Self::Err> {
        if input.trim() == "unlimited" {
            return Ok(Self::Unlimited);
        }
        let (number, unit) = text::split(input);
        let error = || text::error(input, QUEUE);
        match unit {
            "bytes" | "byte" => text::decimal(number, 1).map(Self::Bytes).ok_or_else(error),
            "kB" => text::decimal(number, 1000)
                .map(Self::Bytes)
                .ok_or_else(error),
            "packets" | "packet" => text::decimal(number, 1)
                .map(Self::Packets)
                .ok_or_else(error),
            "BDP" => number.parse().map(Self::Bdp).map_err(|_| error()),
            _ => Err(error()),
        }
    }
}

impl Serialize for QueueSize {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for QueueSize {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

/// A queue size in effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
}

impl Limit {
    /// `round_trip` turns a bandwidth-delay product into bytes.
    pub(crate) fn new(size: QueueSize, rate: Option<Rate>, round_trip: Duration) -> Self {
        let unlimited = Self {
            bytes: u64::MAX,
            packets: u64::MAX,
        };
        match (size, rate) {
            (QueueSize::Unlimited, _) | (QueueSize::Bdp(_), None) => unlimited,
            (QueueSize::Bytes(bytes), _) => Self { bytes, ..unlimited },
            (QueueSize::Packets(packets), _) => Self {
                packets,
                ..unlimited
            },
            (QueueSize::Bdp(factor), Some(rate)) => {
                let bytes = (rate.bytes_in(round_trip) as f64 * factor) as u64;
                Self {
                    bytes: bytes.max(3000),
                    ..unlimited
                }
            }
        }
    }
}
