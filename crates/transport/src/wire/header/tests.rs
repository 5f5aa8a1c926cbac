use proptest::prelude::*;

use super::*;
use crate::{
    error::DecodeErrorKind,
    wire::{ConnectionId, Writer},
};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn cid(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap()
}

/// The client's and the server's connection IDs in RFC 9001 A and RFC 9369 A.
fn sample_cids() -> (ConnectionId, ConnectionId) {
    (cid(&hex("8394c8f03e515708")), cid(&hex("f067a5502a4262b5")))
}

fn encode_long(header: &LongHeader<'_>, pn: u64, pn_len: usize, length: usize) -> Vec<u8> {
    let mut buf = [0; 256];
    let mut w = Writer::new(&mut buf);
    let length_offset = header.encode(&mut w, pn, pn_len).unwrap();
    let written = w.into_written();
    patch_length(written, length_offset, length);
    written.to_vec()
}

fn sample(
    ty: LongType,
    version: Version,
    dcid: ConnectionId,
    scid: ConnectionId,
) -> LongHeader<'static> {
    LongHeader {
        ty,
        version,
        dcid,
        scid,
        token: &[],
        fixed_bit: true,
    }
}

#[test]
fn rfc_9001_a2_client_initial() {
    let (client, _) = sample_cids();
    let header = sample(LongType::Initial, Version::V1, client, ConnectionId::EMPTY);
    let bytes = encode_long(&header, 2, 4, 1182);
    assert_eq!(bytes, hex("c300000001088394c8f03e5157080000449e00000002"));

    let mut packet = bytes;
    packet.resize(18 + 1182, 0xee);
    let expected = Header::Initial {
        version: Version::V1,
        dcid: client,
        scid: ConnectionId::EMPTY,
        token: &[],
        pn_offset: 18,
        packet_len: 1200,
    };
    assert_eq!(parse_header(&packet, 8), Ok(expected));
}

#[test]
fn rfc_9001_a3_server_initial() {
    let (_, server) = sample_cids();
    let header = sample(LongType::Initial, Version::V1, ConnectionId::EMPTY, server);
    let bytes = encode_long(&header, 1, 2, 117);
    assert_eq!(bytes, hex("c1000000010008f067a5502a4262b50040750001"));
}

#[test]
fn rfc_9001_a4_and_rfc_9369_a4_retry() {
    let (_, server) = sample_cids();
    let samples = [
        (
            Version::V1,
            "ff000000010008f067a5502a4262b5746f6b656e",
            "04a265ba2eff4d829058fb3f0f2496ba",
        ),
        (
            Version::V2,
            "cf6b3343cf0008f067a5502a4262b5746f6b656e",
            "c8646ce8bfe33952d955543665dcc7b6",
        ),
    ];
    for (version, without_tag, tag) in samples {
        let mut bytes = Vec::new();
        let scid = &server;
        write_retry_without_tag(
            &mut bytes,
            version,
            0x0f,
            &ConnectionId::EMPTY,
            scid,
            b"token",
        );
        assert_eq!(bytes, hex(without_tag));
        bytes.extend(hex(tag));
        let expected = Header::Retry {
            version,
            dcid: ConnectionId::EMPTY,
            scid: server,
            token: b"token",
            tag: hex(tag).try_into().unwrap(),
            packet_len: 36,
        };
        assert_eq!(parse_header(&bytes, 8), Ok(expected));
    }
}

#[test]
fn rfc_9001_a5_short_header() {
    let mut buf = [0; 8];
    let mut w = Writer::new(&mut buf);
    encode_short(
        &mut w,
        &ConnectionId::EMPTY,
        false,
        false,
        654_360_564,
        3,
        true,
    );
    assert_eq!(w.into_written(), hex("4200bff4"));
}

#[test]
fn rfc_9369_a2_and_a3_initials() {
    let (client, server) = sample_cids();
    let header = sample(LongType::Initial, Version::V2, client, ConnectionId::EMPTY);
    let bytes = encode_long(&header, 2, 4, 1182);
    assert_eq!(bytes, hex("d36b3343cf088394c8f03e5157080000449e00000002"));
    let header = sample(LongType::Initial, Version::V2, ConnectionId::EMPTY, server);
    let bytes = encode_long(&header, 1, 2, 117);
    assert_eq!(bytes, hex("d16b3343cf0008f067a5502a4262b50040750001"));
}

#[test]
fn type_bits_of_both_versions() {
    let expected = [
        (LongKind::Numbered(LongType::Initial), 0b00, 0b01),
        (LongKind::Numbered(LongType::ZeroRtt), 0b01, 0b10),
        (LongKind::Numbered(LongType::Handshake), 0b10, 0b11),
        (LongKind::Retry, 0b11, 0b00),
    ];
    for (kind, v1, v2) in expected {
        for (version, bits) in [(Version::V1, v1 << 4), (Version::V2, v2 << 4)] {
            assert_eq!(kind.to_bits(version), bits);
            assert_eq!(
                LongKind::from_first_byte(version, 0xcf & !0x30 | bits),
                kind
            );
        }
    }
}

#[test]
fn coalesced_packets_are_split_by_length() {
    let (client, server) = sample_cids();
    let mut datagram = Vec::new();
    for (ty, payload) in [(LongType::Initial, 30), (LongType::Handshake, 25)] {
        let header = sample(ty, Version::V1, client, server);
        datagram.extend(encode_long(&header, 0, 1, 1 + payload));
        datagram.resize(datagram.len() + payload, 0xaa);
    }
    datagram.extend([0x40, 1, 2, 3]);

    let first = parse_header(&datagram, 2).unwrap();
    assert!(matches!(first, Header::Initial { .. }));
    let rest = &datagram[first.packet_len(&datagram)..];
    let second = parse_header(rest, 2).unwrap();
    assert!(matches!(second, Header::Handshake { .. }));
    let rest = &rest[second.packet_len(rest)..];
    let expected = Header::Short {
        dcid: cid(&[1, 2]),
        pn_offset: 3,
        packet_len: 4,
    };
    assert_eq!(parse_header(rest, 2), Ok(expected));
}

#[test]
fn version_negotiation_round_trip_with_long_connection_ids() {
    let (dcid, scid) = ([7; 255], [8; 21]);
    let versions = [Version::V1, Version(0x1a2a_3a4a)];
    let mut bytes = Vec::new();
    write_version_negotiation(&mut bytes, 0x35, &dcid, &scid, &versions);
    assert!(has_fixed_bit(bytes[0]));
    let list = hex("000000011a2a3a4a");
    let expected = Header::VersionNegotiation {
        dcid: &dcid,
        scid: &scid,
        versions: &list,
    };
    assert_eq!(parse_header(&bytes, 8), Ok(expected));
    assert_eq!(expected.packet_len(&bytes), bytes.len());
}

#[test]
fn malformed_version_negotiation_is_refused() {
    let mut bytes = Vec::new();
    write_version_negotiation(&mut bytes, 0, &[1], &[2], &[]);
    let empty = parse_header(&bytes, 8).unwrap_err();
    assert_eq!(
        empty.kind,
        DecodeErrorKind::Invalid("Supported Version length")
    );
    bytes.extend([0, 0, 0]);
    assert!(parse_header(&bytes, 8).is_err());
}

#[test]
fn unknown_versions_are_read_as_far_as_all_versions_agree() {
    let mut bytes = vec![0x80];
    bytes.extend(0x0a1a_2a3a_u32.to_be_bytes());
    bytes.push(30);
    bytes.extend([5; 30]);
    bytes.push(1);
    bytes.extend([6, 99, 99]);
    let expected = Header::UnknownVersion {
        version: 0x0a1a_2a3a,
        dcid: &[5; 30],
        scid: &[6],
    };
    assert_eq!(parse_header(&bytes, 8), Ok(expected));
}

#[test]
fn connection_ids_of_known_versions_have_at_most_20_bytes() {
    for version in [Version::V1, Version::V2] {
        let mut bytes = vec![0xc0];
        bytes.extend(version.0.to_be_bytes());
        bytes.push(21);
        bytes.extend([5; 60]);
        let error = parse_header(&bytes, 8).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::Invalid("connection ID length"));
    }
}

#[test]
fn truncated_headers_and_lengths_beyond_the_datagram_are_refused() {
    let (client, server) = sample_cids();
    let mut packet = encode_long(
        &sample(LongType::Handshake, Version::V1, client, server),
        0,
        1,
        21,
    );
    packet.resize(packet.len() + 20, 0);
    assert!(parse_header(&packet, 8).is_ok());
    for cut in 0..packet.len() {
        assert!(parse_header(&packet[..cut], 8).is_err(), "{cut}");
    }
    assert!(parse_header(&[0x40, 1, 2], 3).is_err());
    assert!(parse_header(&[0x40, 1, 2, 3], 21).is_err());
}

#[test]
fn a_retry_needs_a_token_and_a_tag() {
    let mut bytes = Vec::new();
    let none = ConnectionId::EMPTY;
    write_retry_without_tag(&mut bytes, Version::V1, 0, &none, &none, &[]);
    assert_eq!(
        parse_header(&bytes, 8).unwrap_err().kind,
        DecodeErrorKind::UnexpectedEnd
    );
    bytes.extend([0; 16]);
    let error = parse_header(&bytes, 8).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::Invalid("Retry token length"));
}

#[test]
fn the_quic_bit_can_be_cleared() {
    let (client, server) = sample_cids();
    let header = LongHeader {
        fixed_bit: false,
        ..sample(LongType::Handshake, Version::V1, client, server)
    };
    let mut packet = encode_long(&header, 0, 1, 1);
    assert!(!has_fixed_bit(packet[0]));
    packet.resize(64, 0);
    assert!(matches!(
        parse_header(&packet, 8),
        Ok(Header::Handshake { .. })
    ));
    let mut buf = [0; 4];
    let mut w = Writer::new(&mut buf);
    encode_short(&mut w, &ConnectionId::EMPTY, true, true, 0, 1, false);
    assert_eq!(w.into_written(), &[0x24, 0]);
}

#[test]
fn a_header_that_does_not_fit_is_none() {
    let (client, server) = sample_cids();
    let header = sample(LongType::Initial, Version::V1, client, server);
    for size in 0..27 {
        let mut buf = vec![0; size];
        assert_eq!(
            header.encode(&mut Writer::new(&mut buf), 0, 1),
            None,
            "{size}"
        );
    }
    let mut buf = [0; 27];
    assert_eq!(header.encode(&mut Writer::new(&mut buf), 0, 1), Some(24));
}

fn any_cid() -> impl Strategy<Value = ConnectionId> {
    prop::collection::vec(any::<u8>(), 0..=20).prop_map(|bytes| cid(&bytes))
}

fn any_version() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::V1), Just(Version::V2)]
}

fn any_type() -> impl Strategy<Value = LongType> {
    prop_oneof![
        Just(LongType::Initial),
        Just(LongType::ZeroRtt),
        Just(LongType::Handshake)
    ]
}

proptest! {
    #[test]
    fn long_headers_round_trip(
        ty in any_type(),
        version in any_version(),
        (dcid, scid) in (any_cid(), any_cid()),
        token in prop::collection::vec(any::<u8>(), 0..100),
        (pn, pn_len) in (0u64..1 << 62, 1usize..=4),
        payload in 0usize..1000,
        fixed_bit in any::<bool>(),
    ) {
        let header = LongHeader { ty, version, dcid, scid, token: &token, fixed_bit };
        let mut packet = encode_long(&header, pn, pn_len, pn_len + payload);
        let header_len = packet.len();
        packet.resize(header_len + payload + 7, 0x5a);
        let parsed = parse_header(&packet, 8).unwrap();
        let (pn_offset, packet_len) = (header_len - pn_len, header_len + payload);
        let expected = match ty {
            LongType::Initial => {
                Header::Initial { version, dcid, scid, token: &token, pn_offset, packet_len }
            }
            LongType::ZeroRtt => Header::ZeroRtt { version, dcid, scid, pn_offset, packet_len },
            LongType::Handshake => {
                Header::Handshake { version, dcid, scid, pn_offset, packet_len }
            }
        };
        prop_assert_eq!(parsed, expected);
        prop_assert_eq!(usize::from(packet[0] & 3) + 1, pn_len);
        let pn_bytes = &packet[pn_offset..header_len];
        prop_assert_eq!(pn_bytes, &pn.to_be_bytes()[8 - pn_len..]);
    }

    #[test]
    fn short_headers_round_trip(
        dcid in any_cid(),
        (spin, key_phase) in (any::<bool>(), any::<bool>()),
        (pn, pn_len) in (0u64..1 << 62, 1usize..=4),
    ) {
        let mut buf = [0; 32];
        let mut w = Writer::new(&mut buf);
        encode_short(&mut w, &dcid, spin, key_phase, pn, pn_len, true);
        let bytes = w.into_written();
        let pn_offset = 1 + dcid.len();
        let expected = Header::Short { dcid, pn_offset, packet_len: bytes.len() };
        prop_assert_eq!(parse_header(bytes, dcid.len()), Ok(expected));
        prop_assert_eq!(&bytes[pn_offset..], &pn.to_be_bytes()[8 - pn_len..]);
        prop_assert_eq!(bytes[0] & 0x18, 0);
        prop_assert_eq!((bytes[0] & SPIN_BIT != 0, bytes[0] & KEY_PHASE_BIT != 0), (spin, key_phase));
    }

    #[test]
    fn any_bytes_are_parsed_without_panic_and_stay_in_bounds(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        version in prop::option::of(any_version()),
        cid_len in 0usize..=20,
    ) {
        if let (Some(version), Some(field)) = (version, bytes.get_mut(1..5)) {
            field.copy_from_slice(&version.0.to_be_bytes());
        }
        if let Ok(header) = parse_header(&bytes, cid_len) {
            prop_assert!(header.packet_len(&bytes) <= bytes.len());
            prop_assert!(header.packet_len(&bytes) > 0);
        }
    }
}
