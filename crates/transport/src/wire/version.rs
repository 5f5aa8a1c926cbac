//! QUIC versions.

use std::fmt;

/// A QUIC version number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32);

impl Version {
    /// QUIC version 1. RFC 9000.
    pub const V1: Self = Self(0x0000_0001);
    /// QUIC version 2. RFC 9369 s3.1.
    pub const V2: Self = Self(0x6b33_43cf);
    /// Not a version: marks Version Negotiation packets. RFC 8999 s6.
    pub const NEGOTIATION: Self = Self(0);

    /// Whether this stack speaks it.
    #[inline]
    pub const fn is_supported(self) -> bool {
        matches!(self, Self::V1 | Self::V2)
    }

    /// Whether the number is of the form `0x?a?a?a?a`, which no real version has. RFC 9000 s15.
    pub const fn is_reserved_grease(self) -> bool {
        self.0 & 0x0f0f_0f0f == 0x0a0a_0a0a
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::V1 => f.write_str("v1"),
            Self::V2 => f.write_str("v2"),
            Self(other) => write!(f, "{other:#010x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_kinds() {
        assert_eq!(format!("{:?} {}", Version::V1, Version::V2), "v1 v2");
        assert_eq!(Version(0x1a2a_3a4a).to_string(), "0x1a2a3a4a");
        assert!(Version(0x1a2a_3a4a).is_reserved_grease());
        assert!(!Version::V2.is_reserved_grease() && !Version::NEGOTIATION.is_reserved_grease());
        assert!(Version::V1.is_supported() && !Version::NEGOTIATION.is_supported());
    }
}
