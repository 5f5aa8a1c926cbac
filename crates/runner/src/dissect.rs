//! From datagrams to packets and frames, and from CRYPTO frames to TLS messages.

use std::{collections::BTreeMap, time::Duration};

use tautline_transport::wire::{Frame, Header, Reader, parse_header};

use crate::{
    keys::{Level, Openers, Secret},
    wire::{Seen, Way},
};

/// Types of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Encrypted(Level),
    Retry,
    VersionNegotiation,
    /// Of a version that nobody here speaks.
    Other,
}

/// What the judge asks about of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Ack {
        ecn: bool,
    },
    PathChallenge([u8; 8]),
    PathResponse([u8; 8]),
    /// CRYPTO with its offset.
    Crypto(u64),
    Stream,
    Other,
}

/// A packet, opened if a key fits.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    /// Which datagram of the trace it is in.
    pub(crate) datagram: usize,
    pub(crate) way: Way,
    pub(crate) kind: Kind,
    /// The version in the long header, 0 in short ones.
    pub(crate) version: u32,
    pub(crate) dcid: Vec<u8>,
    pub(crate) scid: Vec<u8>,
    pub(crate) token: Vec<u8>,
    pub(crate) opened: bool,
    pub(crate) number: u64,
    pub(crate) phase: u64,
    /// Bytes after the packet number, with the authentication tag.
    pub(crate) protected_len: usize,
    pub(crate) frames: Vec<Shown>,
}

impl Packet {
    pub(crate) fn is(&self, level: Level) -> bool {
        self.kind == Kind::Encrypted(level)
    }

    pub(crate) fn challenges(&self) -> impl Iterator<Item = [u8; 8]> + '_ {
        self.frames.iter().filter_map(|frame| match frame {
            Shown::PathChallenge(data) => Some(*data),
            _ => None,
        })
    }

    pub(crate) fn responses(&self) -> impl Iterator<Item = [u8; 8]> + '_ {
        self.frames.iter().filter_map(|frame| match frame {
            Shown::PathResponse(data) => Some(*data),
            _ => None,
        })
    }
}

/// A TLS handshake message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: u8,
    pub(crate) body: Vec<u8>,
}

/// The CRYPTO bytes of one direction and level of one connection.
#[derive(Clone, Debug, Default)]
struct CryptoStream {
    pieces: BTreeMap<u64, Vec<u8>>,
}

impl CryptoStream {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = Vec::new();
        for (offset, piece) in &self.pieces {
            let Ok(offset) = usize::try_from(*offset) else {
                break;
            };
            if offset > bytes.len() {
                break;
            }
            bytes.extend(piece.get(bytes.len() - offset..).unwrap_or_default());
        }
        bytes
    }

    fn messages(&self) -> Vec<Message> {
        let bytes = self.bytes();
        let mut rest = bytes.as_slice();
        let mut messages = Vec::new();
        while let Some(([kind, a, b, c], after)) = rest.split_first_chunk::<4>() {
            let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let Some((body, after)) = after.split_at_checked(len) else {
                break;
            };
            messages.push(Message {
                kind: *kind,
                body: body.to_vec(),
            });
            rest = after;
        }
        messages
    }
}

/// One end's view of a run.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) datagrams: Vec<Seen>,
    pub(crate) packets: Vec<Packet>,
    /// By level, whether from the server, and connection.
    crypto: BTreeMap<(Level, bool, Vec<u8>), CryptoStream>,
}

impl Trace {
    /// Reads what was seen at one end.
    pub(crate) fn read(datagrams: Vec<Seen>, secrets: &[Secret]) -> Self {
        let mut trace = Self::default();
        let mut openers = Openers::with_log(secrets);
        // Lengths of the connection IDs that short headers carry, by direction.
        let mut cid_len = [8, 8];
        for (index, datagram) in datagrams.iter().enumerate() {
            let mut rest = datagram.payload.as_slice();
            while !rest.is_empty() {
                let len = cid_len[usize::from(datagram.way == Way::ToClient)];
                let Ok(header) = parse_header(rest, len) else {
                    break;
                };
                let packet_len = header.packet_len(rest).clamp(1, rest.len());
                let (bytes, after) = rest.split_at(packet_len);
                rest = after;
                let (mut packet, pn_offset) = plain(&header, index, datagram.way);
                if bytes.first().is_some_and(|first| first & 0x80 != 0) && !packet.scid.is_empty() {
                    // What is sent to this end carries the ID that it chose.
                    cid_len[usize::from(datagram.way == Way::ToServer)] = packet.scid.len();
                }
                if packet.is(Level::Initial) && datagram.way == Way::ToServer {
                    openers.add_initial(&packet.dcid);
                }
                if let (Kind::Encrypted(level), Some(pn_offset)) = (packet.kind, pn_offset) {
                    let opened = openers.open(level, datagram.way, &packet.dcid, bytes, pn_offset);
                    if let Some((opened, connection)) = opened {
                        packet.opened = true;
                        packet.number = opened.number;
                        packet.phase = opened.phase;
                        packet.protected_len = opened.protected_len;
                        let key = (level, datagram.way == Way::ToClient, connection);
                        packet.frames = trace.frames(&opened.plain, key);
                    }
                }
                trace.packets.push(packet);
            }
        }
        trace.datagrams = datagrams;
        trace
    }

    fn frames(&mut self, plain: &[u8], key: (Level, bool, Vec<u8>)) -> Vec<Shown> {
        let mut shown = Vec::new();
        let mut reader = Reader::new(plain);
        while !reader.is_empty() {
            let Ok(frame) = Frame::decode(&mut reader) else {
                break;
            };
            shown.push(match frame {
                Frame::Ack(ack) => Shown::Ack {
                    ecn: ack.ecn.is_some(),
                },
                Frame::PathChallenge(data) => Shown::PathChallenge(data),
                Frame::PathResponse(data) => Shown::PathResponse(data),
                Frame::Crypto { offset, data } => {
                    let stream = self.crypto.entry(key.clone()).or_default();
                    let piece = stream.pieces.entry(offset).or_default();
                    if piece.len() < data.len() {
                        *piece = data.to_vec();
                    }
                    Shown::Crypto(offset)
                }
                Frame::Stream(_) => Shown::Stream,
                _ => Shown::Other,
            });
        }
        shown
    }

    /// TLS messages of every connection at this level in this direction.
    pub(crate) fn messages(&self, level: Level, way: Way) -> Vec<Vec<Message>> {
        let wanted =
            |key: &&(Level, bool, Vec<u8>)| key.0 == level && key.1 == (way == Way::ToClient);
        let streams = self.crypto.keys().filter(wanted);
        streams
            .filter_map(|key| self.crypto.get(key))
            .map(CryptoStream::messages)
            .collect()
    }

    /// Bytes of CRYPTO data of every connection at this level in this direction.
    pub(crate) fn crypto_bytes(&self, level: Level, way: Way) -> usize {
        let streams = self.crypto.iter();
        streams
            .filter(|((l, server, _), _)| *l == level && *server == (way == Way::ToClient))
            .map(|(_, stream)| stream.bytes().len())
            .sum()
    }

    #[cfg(test)]
    pub(crate) fn push_crypto(&mut self, level: Level, way: Way, bytes: Vec<u8>) {
        let stream = self.crypto.entry((level, way == Way::ToClient, Vec::new()));
        stream.or_default().pieces.insert(0, bytes);
    }

    /// Packets of one direction, in order.
    pub(crate) fn sent(&self, way: Way) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(move |packet| packet.way == way)
    }

    /// The datagram that a packet came in.
    pub(crate) fn datagram_of(&self, packet: &Packet) -> Option<&Seen> {
        self.datagrams.get(packet.datagram)
    }

    /// From the first datagram to the last.
    pub(crate) fn duration(&self) -> Duration {
        let times = self.datagrams.iter().map(|datagram| datagram.time);
        let (first, last) = (times.clone().min(), times.max());
        last.unwrap_or_default()
            .saturating_sub(first.unwrap_or_default())
    }
}

/// What can be told without keys, and where the packet number starts.
fn plain(header: &Header<'_>, datagram: usize, way: Way) -> (Packet, Option<usize>) {
    let mut packet = Packet {
        datagram,
        way,
        kind: Kind::Other,
        version: 0,
        dcid: Vec::new(),
        scid: Vec::new(),
        token: Vec::new(),
        opened: false,
        number: 0,
        phase: 0,
        protected_len: 0,
        frames: Vec::new(),
    };
    let number_at = match header {
        Header::Initial {
            version,
            dcid,
            scid,
            token,
            pn_offset,
            ..
        } => {
            packet.kind = Kind::Encrypted(Level::Initial);
            packet.version = version.0;
            packet.dcid = dcid.as_slice().to_vec();
            packet.scid = scid.as_slice().to_vec();
            packet.token = token.to_vec();
            Some(*pn_offset)
        }
        Header::ZeroRtt {
            version,
            dcid,
            scid,
            pn_offset,
            ..
        }
        | Header::Handshake {
            version,
            dcid,
            scid,
            pn_offset,
            ..
        } => {
            let early = matches!(header, Header::ZeroRtt { .. });
            packet.kind = Kind::Encrypted(if early {
                Level::ZeroRtt
            } else {
                Level::Handshake
            });
            packet.version = version.0;
            packet.dcid = dcid.as_slice().to_vec();
            packet.scid = scid.as_slice().to_vec();
            Some(*pn_offset)
        }
        Header::Retry {
            version,
            dcid,
            scid,
            token,
            ..
        } => {
            packet.kind = Kind::Retry;
            packet.version = version.0;
            packet.dcid = dcid.as_slice().to_vec();
            packet.scid = scid.as_slice().to_vec();
            packet.token = token.to_vec();
            None
        }
        Header::VersionNegotiation { .. } => {
            packet.kind = Kind::VersionNegotiation;
            None
        }
        Header::Short {
            dcid, pn_offset, ..
        } => {
            packet.kind = Kind::Encrypted(Level::OneRtt);
            packet.dcid = dcid.as_slice().to_vec();
            Some(*pn_offset)
        }
        Header::UnknownVersion { version, .. } => {
            packet.version = *version;
            None
        }
    };
    (packet, number_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_put_together_from_pieces() {
        let mut stream = CryptoStream::default();
        stream.pieces.insert(3, vec![2, 9, 9, 11, 0, 0]);
        assert!(stream.messages().is_empty());
        stream.pieces.insert(0, vec![8, 0, 0, 2, 9]);
        stream.pieces.insert(9, vec![0, 5, 0, 0]);
        let kinds: Vec<_> = stream
            .messages()
            .iter()
            .map(|m| (m.kind, m.body.len()))
            .collect();
        assert_eq!(kinds, [(8, 2), (11, 0)]);
    }
}
