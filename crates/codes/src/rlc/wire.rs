//! The payload IDs of RFC 8681, for those who speak FECFRAME.
//!
//! The QUIC extension of Tautline does not use them; it has its own frames.

use super::DensityThreshold;

/// The Repair FEC Payload ID (RFC 8681 s4.1.3 and s5.1.3): 8 bytes, big-endian: repair key (16
/// bits), density threshold (4), number of source symbols (12), ID of the first of them (32).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RepairPayloadId {
    /// Seed of the coefficients of the packet's first repair symbol; the next ones use the keys
    /// after it, modulo 2^16.
    pub repair_key: u16,
    /// The density.
    pub density: DensityThreshold,
    /// NSS: symbols of the coding window, below 4096.
    pub source_symbols: u16,
    /// FSS_ESI: the first of them; wraps.
    pub first_esi: u32,
}

impl RepairPayloadId {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// Reads it. Every 8 bytes are one.
    pub fn decode(bytes: [u8; Self::LEN]) -> Self {
        let [k0, k1, d0, d1, e0, e1, e2, e3] = bytes;
        Self {
            repair_key: u16::from_be_bytes([k0, k1]),
            density: DensityThreshold(d0 >> 4),
            source_symbols: u16::from_be_bytes([d0 & 0xf, d1]),
            first_esi: u32::from_be_bytes([e0, e1, e2, e3]),
        }
    }

    /// Writes it; `source_symbols` modulo 4096.
    pub fn encode(self) -> [u8; Self::LEN] {
        let [k0, k1] = self.repair_key.to_be_bytes();
        let [n0, n1] = self.source_symbols.to_be_bytes();
        let [e0, e1, e2, e3] = self.first_esi.to_be_bytes();
        let d0 = self.density.get() << 4 | n0 & 0xf;
        [k0, k1, d0, n1, e0, e1, e2, e3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_layout() {
        let id = RepairPayloadId {
            repair_key: 0x1234,
            density: DensityThreshold(0xa),
            source_symbols: 0xbcd,
            first_esi: 0x0102_0304,
        };
        let bytes = [0x12, 0x34, 0xab, 0xcd, 1, 2, 3, 4];
        assert_eq!(id.encode(), bytes);
        assert_eq!(RepairPayloadId::decode(bytes), id);
    }
}
