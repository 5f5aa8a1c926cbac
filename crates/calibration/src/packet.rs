//! The little that the emulator reads and writes of IPv4 packets. RFC 791, RFC 3168.

use tautline_transport::units::Ecn;

const HEADER_BYTES: usize = 20;

/// Whether this is an IPv4 packet with its whole header.
pub(crate) fn is_ipv4(packet: &[u8]) -> bool {
    packet.len() >= HEADER_BYTES && packet.first().is_some_and(|first| first >> 4 == 4)
}

/// The ECN codepoint.
pub(crate) fn ecn(packet: &[u8]) -> Ecn {
    packet
        .get(1)
        .map_or(Ecn::NotEct, |traffic_class| Ecn::from_bits(*traffic_class))
}

/// Sets the ECN codepoint, and the header's checksum with it.
pub(crate) fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    let header_bytes = usize::from(packet.first().copied().unwrap_or(0) & 0xf) * 4;
    let Some(header) = packet.get_mut(..header_bytes.max(HEADER_BYTES)) else {
        return;
    };
    if let Some(traffic_class) = header.get_mut(1) {
        *traffic_class = (*traffic_class & !3) | ecn as u8;
    }
    for byte in header.iter_mut().skip(10).take(2) {
        *byte = 0;
    }
    let sum = checksum(header).to_be_bytes();
    for (byte, value) in header.iter_mut().skip(10).zip(sum) {
        *byte = value;
    }
}

/// Changes the last byte.
pub(crate) fn corrupt(packet: &mut [u8]) {
    if let Some(last) = packet.last_mut() {
        *last ^= 0x55;
    }
}

fn checksum(header: &[u8]) -> u16 {
    let words = header
        .chunks_exact(2)
        .filter_map(|pair| Some(u32::from(u16::from_be_bytes(pair.try_into().ok()?))));
    let sum = words.fold(0u32, u32::wrapping_add);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header whose checksum is known.
    const HEADER: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];

    #[test]
    fn marks_are_set_with_the_checksum() {
        let mut packet = HEADER.to_vec();
        packet.extend([1, 2, 3]);
        assert!(is_ipv4(&packet));
        assert_eq!(ecn(&packet), Ecn::NotEct);
        set_ecn(&mut packet, Ecn::NotEct);
        assert_eq!(packet[..20], HEADER);
        set_ecn(&mut packet, Ecn::Ce);
        assert_eq!(ecn(&packet), Ecn::Ce);
        // A header with a right checksum sums up to nothing.
        assert_eq!(checksum(&packet[..20]), 0);
        corrupt(&mut packet);
        assert_ne!(packet[22], 3);
    }

    #[test]
    fn short_packets_are_left_alone() {
        for len in 0..20 {
            let mut packet = HEADER[..len].to_vec();
            assert!(!is_ipv4(&packet));
            set_ecn(&mut packet, Ecn::Ce);
            assert_eq!(packet, HEADER[..len]);
        }
        corrupt(&mut []);
    }
}
