//! Quantities that carry their unit in their type.
//!
//! Owns: [`Rate`], [`PacketNumber`], [`Rows`], [`Side`], [`Dir`], [`StreamId`], [`PathId`], [`FourTuple`], [`Ecn`].
//! Does not own: time (see [`crate::time`]), wire formats (see [`crate::wire`]).

use std::{fmt, net::SocketAddr, time::Duration};

/// A full (not truncated) packet number, `0..2^62`. RFC 9000 s12.3.
pub type PacketNumber = u64;

/// Tells rows of packet numbers apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows(Option<PacketNumber>);

impl Rows {
    /// Takes in the next number. Whether it begins a row: it does not follow the one before.
    pub fn begins(&mut self, number: PacketNumber) -> bool {
        let before = self.0.replace(number);
        before.and_then(|before| before.checked_add(1)) != Some(number)
    }
}

/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// A speed in bytes per second. Never bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// No bytes at all.
    pub const ZERO: Self = Self(0);
    /// Faster than any link.
    pub const MAX: Self = Self(u64::MAX);

    /// From bytes per second.
    pub const fn from_bytes_per_second(value: u64) -> Self {
        Self(value)
    }

    /// From bits per second, rounded down to whole bytes.
    pub const fn from_bits_per_second(value: u64) -> Self {
        Self(value / 8)
    }

    /// `bytes` every `interval`; [`Rate::MAX`] when `interval` is zero.
    pub fn from_bytes_over(bytes: u64, interval: Duration) -> Self {
        let nanos = interval.as_nanos();
        if nanos == 0 {
            return Self::MAX;
        }
        // Up to 18 GB, without a division of 128 bits.
        if let (Some(scaled), Ok(nanos)) = (bytes.checked_mul(SECOND), u64::try_from(nanos)) {
            return Self(scaled / nanos);
        }
        let value = u128::from(bytes) * u128::from(SECOND) / nanos;
        Self(u64::try_from(value).unwrap_or(u64::MAX))
    }

    /// Bytes per second.
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// Bits per second, saturating.
    pub const fn bits_per_second(self) -> u64 {
        self.0.saturating_mul(8)
    }

    /// How long `bytes` take at this rate; [`Duration::MAX`] at rate zero.
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        // Up to 18 GB, without a division of 128 bits.
        if let Some(scaled) = bytes.checked_mul(SECOND) {
            return Duration::from_nanos(scaled / self.0);
        }
        let nanos = u128::from(bytes) * u128::from(SECOND) / u128::from(self.0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Bytes that pass in `interval`, saturating.
    pub fn bytes_in(self, interval: Duration) -> u64 {
        let nanos = interval.as_nanos();
        // Up to 18 GB, without a division of 128 bits.
        let scaled = u64::try_from(nanos)
            .ok()
            .and_then(|nanos| self.0.checked_mul(nanos));
        if let Some(scaled) = scaled {
            return scaled / SECOND;
        }
        let bytes = u128::from(self.0) * nanos / u128::from(SECOND);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// This rate times `gain` (a dimensionless factor, negative counts as 0), saturating.
    pub fn mul_f64(self, gain: f64) -> Self {
        // Float-to-integer casts saturate.
        Self((self.0 as f64 * gain) as u64)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} Mb/s", self.0 as f64 * 8.0 / 1e6)
    }
}

/// Which end of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The end that sent the first Initial.
    Client,
    /// The end that answered it.
    Server,
}

impl Side {
    /// The other end.
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Whether this is the client.
    pub const fn is_client(self) -> bool {
        matches!(self, Self::Client)
    }

    /// Whether this is the server.
    pub const fn is_server(self) -> bool {
        matches!(self, Self::Server)
    }
}

/// Whether a stream carries data one way or both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dir {
    /// Data flows in both directions.
    Bi,
    /// Data flows from the opener to the peer only.
    Uni,
}

/// A stream identifier, `0..2^62`. RFC 9000 s2.1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    /// The `index`-th stream (from 0) opened by `initiator` in direction `dir`.
    pub const fn new(initiator: Side, dir: Dir, index: u64) -> Self {
        let side_bit = match initiator {
            Side::Client => 0,
            Side::Server => 1,
        };
        let dir_bit = match dir {
            Dir::Bi => 0,
            Dir::Uni => 2,
        };
        Self((index << 2) | dir_bit | side_bit)
    }

    /// Who opened the stream.
    pub const fn initiator(self) -> Side {
        if self.0 & 1 == 0 {
            Side::Client
        } else {
            Side::Server
        }
    }

    /// The stream's direction.
    pub const fn dir(self) -> Dir {
        if self.0 & 2 == 0 { Dir::Bi } else { Dir::Uni }
    }

    /// Position among the streams of the same initiator and direction, from 0.
    pub const fn index(self) -> u64 {
        self.0 >> 2
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = if self.initiator().is_client() {
            "client"
        } else {
            "server"
        };
        let dir = if self.dir() == Dir::Bi { "bidi" } else { "uni" };
        write!(f, "{who} {dir} stream {}", self.index())
    }
}

/// A path identifier, `0..2^32`. RFC 10069 s1.2; the nonce uses its 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

impl PathId {
    /// The path of the handshake.
    pub const ZERO: Self = Self(0);
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The two UDP addresses of a network path.
///
/// `local` may have an unspecified IP address when the socket does not tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FourTuple {
    /// Our address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
}

impl FourTuple {
    /// Whether both name the same network path; an unspecified local IP matches any.
    pub fn matches(&self, other: &Self) -> bool {
        self.remote == other.remote
            && (self.local == other.local
                || (self.local.port() == other.local.port()
                    && (self.local.ip().is_unspecified() || other.local.ip().is_unspecified())))
    }
}

impl fmt::Display for FourTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}->{}", self.local, self.remote)
    }
}

/// An ECN codepoint of an IP packet. RFC 3168 s5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0b00,
    /// ECT(1).
    Ect1 = 0b01,
    /// ECT(0).
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

impl Ecn {
    /// From the two low bits of a TOS or traffic-class byte.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            0b11 => Self::Ce,
            _ => Self::NotEct,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_the_same_in_64_bits_and_in_128() {
        // The last volume that 64 bits hold in nanoseconds, and beyond it.
        let edge = u64::MAX / SECOND;
        let nanos = [1, 999, SECOND, 7 * SECOND + 1, u64::MAX];
        for amount in [0, 1, 1_200, edge, edge + 1, u64::MAX] {
            for nanos in nanos {
                let scaled = u128::from(amount) * u128::from(SECOND) / u128::from(nanos);
                let rate = Rate::from_bytes_over(amount, Duration::from_nanos(nanos));
                assert_eq!(u128::from(rate.0), scaled.min(u64::MAX.into()));
                let passed = u128::from(amount) * u128::from(nanos) / u128::from(SECOND);
                let bytes = Rate(amount).bytes_in(Duration::from_nanos(nanos));
                assert_eq!(u128::from(bytes), passed.min(u64::MAX.into()));
            }
        }
        assert_eq!(Rate::from_bytes_over(edge, Duration::MAX), Rate::ZERO);
        assert_eq!(Rate(SECOND).bytes_in(Duration::MAX), u64::MAX);
    }

    #[test]
    fn rows_of_packet_numbers() {
        let mut rows = Rows::default();
        let numbers = [0, 1, 2, 5, 6, 4, u64::MAX, 0];
        let begins = numbers.map(|number| rows.begins(number));
        assert_eq!(begins, [true, false, false, true, false, true, true, true]);
    }
}
