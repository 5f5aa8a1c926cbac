//! Packets as a capture file that Wireshark and tcpdump read.
//!
//! Owns: [`Capture`], the format (classic pcap, nanoseconds, raw IP). Does not own: which packets
//! are seen (`Stage::capture`), keys (`KeyLines`).

use std::{
    io::{self, Write},
    net::{IpAddr, SocketAddr},
};

use tautline_sim::PacketView;
use tautline_transport::units::Ecn;

/// Magic number of a pcap file with nanoseconds, in the writer's byte order.
const MAGIC: u32 = 0xa1b2_3c4d;
/// Link type of packets that begin with their IP header.
const LINKTYPE_RAW: u32 = 101;
const SNAP_LENGTH: u32 = 65_535;
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
/// Hops that are left; no router counts here.
const HOPS: u8 = 64;

/// Writes packets as they come.
#[derive(Debug)]
pub struct Capture<W> {
    out: W,
    /// The first thing that went wrong; nothing is written afterwards.
    failed: Option<io::Error>,
}

impl<W: Write> Capture<W> {
    /// Writes the header of the file.
    ///
    /// # Errors
    /// Of the writer.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&MAGIC.to_le_bytes())?;
        // Version 2.4, then zone and accuracy, which nobody uses.
        out.write_all(&[2, 0, 4, 0])?;
        out.write_all(&[0; 8])?;
        out.write_all(&SNAP_LENGTH.to_le_bytes())?;
        out.write_all(&LINKTYPE_RAW.to_le_bytes())?;
        Ok(Self { out, failed: None })
    }

    /// Writes one packet, with the headers that its addresses imply.
    pub fn packet(&mut self, view: &PacketView<'_>) {
        if self.failed.is_none()
            && let Err(error) = self.write(view)
        {
            self.failed = Some(error);
        }
    }

    /// Writes what is still buffered.
    ///
    /// # Errors
    /// The first error of all writes.
    pub fn finish(&mut self) -> io::Result<()> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn write(&mut self, view: &PacketView<'_>) -> io::Result<()> {
        let head = headers(view.src, view.dst, view.ecn, view.payload.len())?;
        let length = u32::try_from(head.len() + view.payload.len()).map_err(too_long)?;
        let nanos = view.now.as_nanos();
        let seconds = u32::try_from(nanos / 1_000_000_000).map_err(too_long)?;
        for field in [seconds, (nanos % 1_000_000_000) as u32, length, length] {
            self.out.write_all(&field.to_le_bytes())?;
        }
        self.out.write_all(&head)?;
        self.out.write_all(view.payload)
    }
}

fn too_long<E: Into<Box<dyn std::error::Error + Send + Sync>>>(error: E) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// IP and UDP headers.
fn headers(src: SocketAddr, dst: SocketAddr, ecn: Ecn, payload: usize) -> io::Result<Vec<u8>> {
    let datagram = u16::try_from(UDP_HEADER + payload).map_err(too_long)?;
    let ecn = match ecn {
        Ecn::NotEct => 0b00,
        Ecn::Ect1 => 0b01,
        Ecn::Ect0 => 0b10,
        Ecn::Ce => 0b11,
    };
    let mut head = Vec::with_capacity(48);
    match (src.ip(), dst.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let total = datagram
                .checked_add(20)
                .ok_or_else(|| too_long("an IP packet"))?;
            head.extend([0x45, ecn]);
            head.extend(total.to_be_bytes());
            // No identification; "do not fragment".
            head.extend([0, 0, 0x40, 0, HOPS, UDP, 0, 0]);
            head.extend(from.octets());
            head.extend(to.octets());
            let sum = checksum(&head).to_be_bytes();
            head.splice(10..12, sum);
        }
        (from, to) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            // The traffic class straddles the first two bytes.
            head.extend([0x60, ecn << 4, 0, 0]);
            head.extend(datagram.to_be_bytes());
            head.extend([UDP, HOPS]);
            head.extend(octets(from));
            head.extend(octets(to));
        }
    }
    head.extend(src.port().to_be_bytes());
    head.extend(dst.port().to_be_bytes());
    head.extend(datagram.to_be_bytes());
    // No checksum: readers take zero for "not computed".
    head.extend([0, 0]);
    Ok(head)
}

/// The Internet checksum. RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        let high = u32::from(pair.first().copied().unwrap_or(0)) << 8;
        sum += high | u32::from(pair.get(1).copied().unwrap_or(0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_what_the_rfcs_say() {
        let (a, b) = (
            "10.0.1.1:50000".parse().unwrap(),
            "10.0.1.2:443".parse().unwrap(),
        );
        let head = headers(a, b, Ecn::Ect0, 1200).unwrap();
        assert_eq!(head.len(), 28);
        assert_eq!(head[..4], [0x45, 0x02, 0x04, 0xcc]);
        // A header with its checksum sums up to zero.
        assert_eq!(checksum(&head[..20]), 0);
        assert_eq!(head[20..], [0xc3, 0x50, 0x01, 0xbb, 0x04, 0xb8, 0, 0]);
        let (a, b) = (
            "[2001:db8::1]:1".parse().unwrap(),
            "[2001:db8::2]:2".parse().unwrap(),
        );
        let head = headers(a, b, Ecn::Ce, 10).unwrap();
        assert_eq!(head.len(), 48);
        assert_eq!(head[..8], [0x60, 0x30, 0, 0, 0, 18, 17, 64]);
        assert!(headers(a, b, Ecn::Ce, 70_000).is_err());
    }
}
