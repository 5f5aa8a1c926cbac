//! Targets of the `wire` room.

use tautline_transport::{
    error::TransportError,
    rng::Rng,
    units::Side,
    wire::{
        Ack, ConnectionId, Frame, Header, LongHeader, LongType, MAX_VARINT, Reader,
        TransportParameters, Version, Writer, decode_packet_number, packet_number_len,
        parse_header, patch_length, row_of, varint_len,
    },
};

/// Decodes the payload of a packet; what decodes must encode to something that decodes alike.
pub fn frames(data: &[u8]) {
    let mut r = Reader::new(data);
    while !r.is_empty() {
        let before = r.remaining();
        let frame = match Frame::decode(&mut r) {
            Ok(frame) => frame,
            Err(error) => {
                assert!(error.offset <= data.len());
                let _ = TransportError::from(error).to_string();
                return;
            }
        };
        assert!(r.remaining() < before, "a frame takes at least a byte");
        assert_eq!(row_of(frame.frame_type()), Some(frame.row()));
        if let Frame::Ack(ack) = &frame {
            check_ack(ack, before);
        }
        if let Frame::SourceSymbol(header) = frame {
            // It needs something behind it.
            assert!((1..=4).contains(&header.bytes) && !r.is_empty());
            continue;
        }
        let mut again = vec![0; frame.encoded_len()];
        let mut w = Writer::new(&mut again);
        frame.encode(&mut w);
        assert!(
            !w.overflowed() && w.remaining() == 0,
            "encoded_len is exact"
        );
        let mut r = Reader::new(&again);
        assert_eq!(Frame::decode(&mut r), Ok(frame));
        assert!(r.is_empty());
    }
}

/// Ranges descend and do not touch, and there are no more than bytes.
fn check_ack(ack: &Ack<'_>, bytes: usize) {
    let mut above = None;
    let mut count = 0;
    for range in ack.ranges() {
        assert!(range.start() <= range.end() && *range.end() <= ack.largest);
        match above {
            None => assert_eq!(*range.end(), ack.largest),
            Some(above) => assert!(*range.end() + 1 < above),
        }
        above = Some(*range.start());
        count += 1;
    }
    assert!((1..=bytes).contains(&count));
    if let Some(timestamps) = ack.timestamps {
        assert!(timestamps.iter(20).count() <= bytes);
        assert!(timestamps.iter(0).all(|(number, _)| number <= ack.largest));
    }
}

/// Splits a datagram into packets; the first byte gives the length of our connection IDs.
pub fn headers(data: &[u8]) {
    let Some((&cid_len, mut rest)) = data.split_first() else {
        return;
    };
    let cid_len = usize::from(cid_len % 22);
    while !rest.is_empty() {
        let Ok(header) = parse_header(rest, cid_len) else {
            return;
        };
        let packet_len = header.packet_len(rest);
        assert!((1..=rest.len()).contains(&packet_len));
        match header {
            Header::Initial {
                version,
                dcid,
                scid,
                token,
                pn_offset,
                ..
            } => {
                assert!(pn_offset <= packet_len);
                long_again(LongType::Initial, version, dcid, scid, token);
            }
            Header::ZeroRtt {
                version,
                dcid,
                scid,
                pn_offset,
                ..
            } => {
                assert!(pn_offset <= packet_len);
                long_again(LongType::ZeroRtt, version, dcid, scid, &[]);
            }
            Header::Handshake {
                version,
                dcid,
                scid,
                pn_offset,
                ..
            } => {
                assert!(pn_offset <= packet_len);
                long_again(LongType::Handshake, version, dcid, scid, &[]);
            }
            Header::Short {
                dcid, pn_offset, ..
            } => {
                assert_eq!(dcid.len(), cid_len);
                assert!(pn_offset <= packet_len);
            }
            Header::VersionNegotiation { versions, .. } => {
                assert!(!versions.is_empty() && versions.len().is_multiple_of(4));
            }
            Header::Retry { token, .. } => assert!(!token.is_empty()),
            Header::UnknownVersion { version, .. } => assert!(!Version(version).is_supported()),
        }
        rest = &rest[packet_len..];
    }
}

/// A long header with these fields is written and read back.
fn long_again(
    ty: LongType,
    version: Version,
    dcid: ConnectionId,
    scid: ConnectionId,
    token: &[u8],
) {
    let header = LongHeader {
        ty,
        version,
        dcid,
        scid,
        token,
        fixed_bit: true,
    };
    let mut buf = vec![0; token.len() + 100];
    let mut w = Writer::new(&mut buf);
    let length_offset = header
        .encode(&mut w, 7, 2)
        .expect("the buffer is large enough");
    let bytes = w.into_written();
    patch_length(bytes, length_offset, 2);
    let pn_offset = bytes.len() - 2;
    let packet_len = bytes.len();
    let expected = match ty {
        LongType::Initial => Header::Initial {
            version,
            dcid,
            scid,
            token,
            pn_offset,
            packet_len,
        },
        LongType::ZeroRtt => Header::ZeroRtt {
            version,
            dcid,
            scid,
            pn_offset,
            packet_len,
        },
        LongType::Handshake => Header::Handshake {
            version,
            dcid,
            scid,
            pn_offset,
            packet_len,
        },
    };
    assert_eq!(parse_header(bytes, 0), Ok(expected));
}

/// Decodes transport parameters from either side; what decodes must survive a round trip, with
/// and without greasing.
pub fn transport_parameters(data: &[u8]) {
    for side in [Side::Client, Side::Server] {
        let params = match TransportParameters::decode(side, data) {
            Ok(params) => params,
            Err(error) => {
                let _ = error.to_string();
                continue;
            }
        };
        let again = params.encode(side, None);
        assert_eq!(
            TransportParameters::decode(side, &again),
            Ok(params.clone())
        );
        let mut rng = Rng::from_u64(data.len() as u64);
        let greased = params.encode(side, Some(&mut rng));
        let mut decoded = TransportParameters::decode(side, &greased).expect("grease is ignored");
        if let Some(information) = &mut decoded.version_information {
            assert!(
                information
                    .available
                    .pop()
                    .is_some_and(Version::is_reserved_grease)
            );
        }
        assert_eq!(decoded, params);
        assert!(params.covers(&params.for_zero_rtt()));
    }
}

/// Reads integers of any length and truncated packet numbers.
pub fn varint(data: &[u8]) {
    let mut r = Reader::new(data);
    let mut largest = None;
    while let Ok(value) = r.varint() {
        assert!(value <= MAX_VARINT);
        let mut buf = [0; 8];
        let mut w = Writer::new(&mut buf);
        w.varint(value);
        let written = w.into_written();
        assert_eq!(written.len(), varint_len(value));
        assert_eq!(Reader::new(written).varint(), Ok(value));

        let len = packet_number_len(value, largest.filter(|largest| *largest < value));
        let mask = (1 << (8 * len)) - 1;
        let decoded = decode_packet_number(largest, value & mask, len);
        assert_eq!(decoded & mask, value & mask);
        assert!(decoded <= MAX_VARINT);
        let near = largest.is_none_or(|l| l < value && value - l < 1 << 31);
        assert!(!near || len == 4 || decoded == value);
        largest = Some(value);
    }
}
