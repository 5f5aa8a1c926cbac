//! What can be read of QUIC packets without keys. RFC 8999, RFC 9000 s17.2, RFC 9369 s3.2.

pub(crate) const VERSION_1: u32 = 1;
pub(crate) const VERSION_2: u32 = 0x6b33_43cf;

/// Types of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
    VersionNegotiation,
    Short,
    /// A long header of a version unknown here.
    Other,
}

/// A packet as it stands in a datagram.
#[derive(Clone, Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) kind: Kind,
    pub(crate) version: u32,
    pub(crate) destination: &'a [u8],
    pub(crate) source: &'a [u8],
    /// Initial: its token. Version Negotiation: the versions.
    pub(crate) extra: &'a [u8],
    /// The whole packet.
    pub(crate) bytes: &'a [u8],
    /// Where the packet number starts.
    pub(crate) number_offset: usize,
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let part = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(part)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn varint(&mut self) -> Option<u64> {
        let first = self.u8()?;
        let more = (1usize << (first >> 6)) - 1;
        let start = u64::from(first & 0x3f);
        Some(
            self.take(more)?
                .iter()
                .fold(start, |value, byte| value << 8 | u64::from(*byte)),
        )
    }

    fn connection_id(&mut self) -> Option<&'a [u8]> {
        let len = self.u8()?;
        self.take(usize::from(len))
    }
}

/// The packets of a datagram, as far as they parse.
pub(crate) fn packets(mut datagram: &[u8]) -> Vec<Packet<'_>> {
    let mut packets = Vec::new();
    while let Some((packet, rest)) = next(datagram) {
        packets.push(packet);
        datagram = rest;
    }
    packets
}

fn next(datagram: &[u8]) -> Option<(Packet<'_>, &[u8])> {
    let mut cursor = Cursor {
        bytes: datagram,
        at: 0,
    };
    let first = cursor.u8()?;
    if first & 0x80 == 0 {
        let packet = Packet {
            kind: Kind::Short,
            version: 0,
            destination: datagram.get(1..).unwrap_or_default(),
            source: &[],
            extra: &[],
            bytes: datagram,
            number_offset: 0,
        };
        return Some((packet, &[]));
    }
    let version = u32::from_be_bytes(cursor.take(4)?.try_into().ok()?);
    let destination = cursor.connection_id()?;
    let source = cursor.connection_id()?;
    let code = (first >> 4) & 3;
    let kind = match (version, code) {
        (0, _) => Kind::VersionNegotiation,
        (VERSION_1, 0) | (VERSION_2, 1) => Kind::Initial,
        (VERSION_1, 1) | (VERSION_2, 2) => Kind::ZeroRtt,
        (VERSION_1, 2) | (VERSION_2, 3) => Kind::Handshake,
        (VERSION_1, 3) | (VERSION_2, 0) => Kind::Retry,
        _ => Kind::Other,
    };
    let mut extra: &[u8] = &[];
    let mut end = datagram.len();
    match kind {
        Kind::Initial | Kind::ZeroRtt | Kind::Handshake => {
            if kind == Kind::Initial {
                let len = cursor.varint()?;
                extra = cursor.take(usize::try_from(len).ok()?)?;
            }
            let len = usize::try_from(cursor.varint()?).ok()?;
            end = cursor.at.checked_add(len)?;
        }
        Kind::VersionNegotiation => extra = datagram.get(cursor.at..)?,
        Kind::Retry | Kind::Short | Kind::Other => {}
    }
    let number_offset = cursor.at;
    let (bytes, rest) = datagram.split_at_checked(end)?;
    Some((
        Packet {
            kind,
            version,
            destination,
            source,
            extra,
            bytes,
            number_offset,
        },
        rest,
    ))
}
