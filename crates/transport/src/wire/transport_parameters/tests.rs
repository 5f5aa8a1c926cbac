use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::{
    error::Code,
    rng::Rng,
    units::Side,
    wire::{MAX_STREAM_COUNT, MAX_VARINT, Writer, codepoints::parameter},
};

fn raw(entries: &[(u64, &[u8])]) -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let mut w = Writer::new(&mut buf);
    for (id, value) in entries {
        w.varint(*id);
        w.varint(value.len() as u64);
        w.bytes(value);
    }
    w.into_written().to_vec()
}

fn integer(value: u64) -> Vec<u8> {
    let mut buf = [0; 8];
    let mut w = Writer::new(&mut buf);
    w.varint(value);
    w.into_written().to_vec()
}

fn refused(sender: Side, entries: &[(u64, &[u8])]) {
    let result = TransportParameters::decode(sender, &raw(entries));
    let error = result.expect_err(&format!("{entries:x?}"));
    assert_eq!(error.code, Code::TRANSPORT_PARAMETER_ERROR);
}

fn accepted(sender: Side, entries: &[(u64, &[u8])]) -> TransportParameters {
    TransportParameters::decode(sender, &raw(entries)).unwrap()
}

fn cid(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap()
}

fn preferred() -> PreferredAddress {
    PreferredAddress {
        v4: Some(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 443)),
        v6: Some(SocketAddrV6::new(
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
            4433,
            0,
            0,
        )),
        cid: cid(&[1, 2, 3]),
        token: ResetToken([5; 16]),
    }
}

#[test]
fn absent_parameters_mean_the_defaults_of_the_rfc() {
    let params = accepted(Side::Server, &[]);
    assert_eq!(params, TransportParameters::default());
    assert_eq!(params.max_udp_payload_size, 65_527);
    assert_eq!(
        (params.ack_delay_exponent, params.max_ack_delay_ms),
        (3, 25)
    );
    assert_eq!(params.active_connection_id_limit, 2);
    assert!(
        TransportParameters::default()
            .encode(Side::Client, None)
            .is_empty()
    );
}

#[test]
fn duplicates_are_refused() {
    let one = integer(1);
    refused(
        Side::Client,
        &[(id::INITIAL_MAX_DATA, &one), (id::INITIAL_MAX_DATA, &one)],
    );
    // Unknown ones too, and not only neighbours.
    refused(
        Side::Server,
        &[(0x1234, &[]), (id::INITIAL_MAX_DATA, &one), (0x1234, &[7])],
    );
    accepted(Side::Server, &[(0x1234, &[]), (0x1235, &[])]);
}

#[test]
fn clients_must_not_send_what_only_servers_may() {
    let address = TransportParameters {
        preferred_address: Some(preferred()),
        ..TransportParameters::default()
    };
    let address = address.encode(Side::Server, None);
    assert!(TransportParameters::decode(Side::Server, &address).is_ok());
    assert!(TransportParameters::decode(Side::Client, &address).is_err());
    for id in [
        id::ORIGINAL_DESTINATION_CONNECTION_ID,
        id::STATELESS_RESET_TOKEN,
        id::RETRY_SOURCE_CONNECTION_ID,
    ] {
        accepted(Side::Server, &[(id, &[3; 16])]);
        refused(Side::Client, &[(id, &[3; 16])]);
    }
}

#[test]
fn a_client_does_not_send_what_only_servers_may() {
    let params = TransportParameters {
        original_destination_connection_id: Some(cid(&[1])),
        stateless_reset_token: Some(ResetToken([1; 16])),
        preferred_address: Some(preferred()),
        retry_source_connection_id: Some(cid(&[2])),
        ..TransportParameters::default()
    };
    assert!(params.encode(Side::Client, None).is_empty());
}

#[test]
fn bounds_of_integers() {
    let cases = [
        (id::MAX_UDP_PAYLOAD_SIZE, 1200, Some(1199)),
        (id::MAX_UDP_PAYLOAD_SIZE, MAX_VARINT, None),
        (id::ACK_DELAY_EXPONENT, 20, Some(21)),
        (id::MAX_ACK_DELAY, (1 << 14) - 1, Some(1 << 14)),
        (id::ACTIVE_CONNECTION_ID_LIMIT, 2, Some(1)),
        (id::ACTIVE_CONNECTION_ID_LIMIT, MAX_VARINT, Some(0)),
        (
            id::INITIAL_MAX_STREAMS_BIDI,
            MAX_STREAM_COUNT,
            Some(MAX_STREAM_COUNT + 1),
        ),
        (
            id::INITIAL_MAX_STREAMS_UNI,
            MAX_STREAM_COUNT,
            Some(MAX_STREAM_COUNT + 1),
        ),
        (
            parameter::INITIAL_MAX_PATH_ID,
            u32::MAX.into(),
            Some(1 << 32),
        ),
        (parameter::MIN_ACK_DELAY, 25_000, Some(25_001)),
        (parameter::RECEIVE_TIMESTAMPS_EXPONENT, 20, Some(21)),
        (id::INITIAL_MAX_DATA, MAX_VARINT, None),
        (id::MAX_IDLE_TIMEOUT, MAX_VARINT, None),
    ];
    for (id, good, bad) in cases {
        accepted(Side::Client, &[(id, &integer(good))]);
        if let Some(bad) = bad {
            refused(Side::Client, &[(id, &integer(bad))]);
        }
    }
}

#[test]
fn min_ack_delay_is_compared_with_max_ack_delay_in_any_order() {
    let (min, max) = (integer(26_000), integer(26));
    accepted(
        Side::Client,
        &[(parameter::MIN_ACK_DELAY, &min), (id::MAX_ACK_DELAY, &max)],
    );
    accepted(
        Side::Client,
        &[(id::MAX_ACK_DELAY, &max), (parameter::MIN_ACK_DELAY, &min)],
    );
}

#[test]
fn values_must_fill_their_length() {
    refused(Side::Client, &[(id::INITIAL_MAX_DATA, &[1, 0])]);
    refused(Side::Client, &[(id::INITIAL_MAX_DATA, &[])]);
    refused(Side::Client, &[(id::INITIAL_MAX_DATA, &[0x40])]);
    // A longer form of a number is fine.
    let params = accepted(Side::Client, &[(id::INITIAL_MAX_DATA, &[0x40, 1])]);
    assert_eq!(params.initial_max_data, 1);
    for flag in [
        id::DISABLE_ACTIVE_MIGRATION,
        parameter::RESET_STREAM_AT,
        parameter::GREASE_QUIC_BIT,
    ] {
        accepted(Side::Client, &[(flag, &[])]);
        refused(Side::Client, &[(flag, &[0])]);
    }
    refused(Side::Server, &[(id::STATELESS_RESET_TOKEN, &[0; 15])]);
    refused(Side::Server, &[(id::STATELESS_RESET_TOKEN, &[0; 17])]);
    refused(
        Side::Client,
        &[(id::INITIAL_SOURCE_CONNECTION_ID, &[0; 21])],
    );
}

#[test]
fn cut_bytes_are_refused() {
    let bytes = raw(&[(id::INITIAL_MAX_DATA, &integer(1 << 20))]);
    for cut in 1..bytes.len() {
        assert!(TransportParameters::decode(Side::Client, &bytes[..cut]).is_err());
    }
}

#[test]
fn preferred_address_layout() {
    let params = TransportParameters {
        preferred_address: Some(preferred()),
        ..TransportParameters::default()
    };
    let bytes = params.encode(Side::Server, None);
    let mut expected = vec![0x0d, 44];
    expected.extend([192, 0, 2, 1, 0x01, 0xbb]);
    expected.extend([
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x11, 0x51,
    ]);
    expected.extend([3, 1, 2, 3]);
    expected.extend([5; 16]);
    assert_eq!(bytes, expected);
    assert_eq!(
        TransportParameters::decode(Side::Server, &bytes),
        Ok(params)
    );

    // Absent addresses are zeros.
    let only_cid = [&[0; 24][..], &[1, 9], &[5; 16]].concat();
    let params = accepted(Side::Server, &[(id::PREFERRED_ADDRESS, &only_cid)]);
    let address = params.preferred_address.unwrap();
    assert_eq!(
        (address.v4, address.v6, address.cid),
        (None, None, cid(&[9]))
    );
}

#[test]
fn preferred_address_needs_connection_ids() {
    let with_cid = |len: u8| {
        let cid = vec![1; usize::from(len)];
        [&[0; 24][..], &[len], &cid, &[5; 16]].concat()
    };
    refused(Side::Server, &[(id::PREFERRED_ADDRESS, &with_cid(0))]);
    refused(Side::Server, &[(id::PREFERRED_ADDRESS, &with_cid(21))]);
    accepted(Side::Server, &[(id::PREFERRED_ADDRESS, &with_cid(20))]);
    let mut long = with_cid(4);
    long.push(0);
    refused(Side::Server, &[(id::PREFERRED_ADDRESS, &long)]);
    refused(
        Side::Server,
        &[
            (id::PREFERRED_ADDRESS, &with_cid(4)),
            (id::INITIAL_SOURCE_CONNECTION_ID, &[]),
        ],
    );
}

#[test]
fn version_information_rules() {
    let versions = |list: &[u32]| -> Vec<u8> {
        list.iter()
            .flat_map(|version| version.to_be_bytes())
            .collect()
    };
    let id = parameter::VERSION_INFORMATION;
    let params = accepted(Side::Client, &[(id, &versions(&[1, 0x6b33_43cf, 1]))]);
    let expected = VersionInformation {
        chosen: Version::V1,
        available: vec![Version::V2, Version::V1],
    };
    assert_eq!(params.version_information, Some(expected));
    // A server may list nothing, or not the chosen one.
    accepted(Side::Server, &[(id, &versions(&[1]))]);
    refused(Side::Client, &[(id, &versions(&[1]))]);
    refused(Side::Client, &[(id, &versions(&[1, 2]))]);
    for sender in [Side::Client, Side::Server] {
        refused(sender, &[(id, &[])]);
        refused(sender, &[(id, &versions(&[0, 0]))]);
        refused(sender, &[(id, &versions(&[1, 1, 0]))]);
        refused(sender, &[(id, &[&versions(&[1, 1])[..], &[0]].concat())]);
    }
}

#[test]
fn greasing_adds_what_others_skip() {
    let mut rng = Rng::from_u64(7);
    let params = TransportParameters {
        initial_max_data: 1 << 20,
        version_information: Some(VersionInformation {
            chosen: Version::V1,
            available: vec![Version::V2, Version::V1],
        }),
        ..TransportParameters::default()
    };
    let plain = params.encode(Side::Client, None);
    let mut orders = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let greased = params.encode(Side::Client, Some(&mut rng));
        assert!(greased.len() > plain.len());
        let mut decoded = TransportParameters::decode(Side::Client, &greased).unwrap();
        let available = &mut decoded.version_information.as_mut().unwrap().available;
        assert!(available.pop().unwrap().is_reserved_grease());
        assert_eq!(decoded, params);
        orders.insert(greased.first().copied());
    }
    assert!(orders.len() > 1, "the order never changed");
}

#[test]
fn what_zero_rtt_remembers() {
    let params = TransportParameters {
        initial_max_data: 5,
        max_datagram_frame_size: 6,
        reset_stream_at: true,
        initial_max_path_id: Some(3),
        min_ack_delay_us: Some(1),
        ack_delay_exponent: 9,
        fec_decoder: Some(decoder()),
        fec_encoder: vec![10],
        path_echo: true,
        ..TransportParameters::default()
    };
    let kept = params.for_zero_rtt();
    let expected = TransportParameters {
        initial_max_data: 5,
        max_datagram_frame_size: 6,
        reset_stream_at: true,
        ..TransportParameters::default()
    };
    assert_eq!(kept, expected);
    assert!(params.covers(&kept));
    assert!(
        !TransportParameters {
            initial_max_data: 4,
            ..params.clone()
        }
        .covers(&kept)
    );
    assert!(
        !TransportParameters {
            reset_stream_at: false,
            ..params
        }
        .covers(&kept)
    );
}

fn decoder() -> FecDecoder {
    FecDecoder {
        window_symbols: 256,
        window_bytes: 384_512,
        max_symbol_bytes: 1500,
        schemes: vec![
            FecScheme {
                id: 10,
                parameter: 15,
            },
            FecScheme {
                id: 1,
                parameter: 4,
            },
        ],
    }
}

/// The vectors of docs/spec/fec.md.
#[test]
fn path_echo_has_no_contents() {
    let params = TransportParameters {
        path_echo: true,
        ..TransportParameters::default()
    };
    assert_eq!(params.encode(Side::Client, None), raw(&[(0x2fe3, &[])]));
    let full = raw(&[(0x2fe3, &[1])]);
    let error = TransportParameters::decode(Side::Client, &full).unwrap_err();
    assert_eq!(error.code, Code::TRANSPORT_PARAMETER_ERROR);
}

#[test]
fn erasure_correction_has_the_bytes_of_its_specification() {
    let params = TransportParameters {
        fec_decoder: Some(decoder()),
        fec_encoder: vec![10, 2],
        ..TransportParameters::default()
    };
    let decoder: &[u8] = &[
        0x41, 0x00, 0x80, 0x05, 0xde, 0x00, 0x45, 0xdc, 0x0a, 0x0f, 0x01, 0x04,
    ];
    let expected = raw(&[(0x2fe1, decoder), (0x2fe2, &[0x0a, 0x02])]);
    assert_eq!(params.encode(Side::Client, None), expected);
    assert_eq!(
        TransportParameters::decode(Side::Client, &expected),
        Ok(params)
    );
}

#[test]
fn erasure_correction_that_makes_no_sense_is_refused() {
    let many: Vec<u8> = (0..33).collect();
    let bad: [(u64, &[u8]); 10] = [
        (0x2fe1, &[]),
        (0x2fe1, &[1, 1, 1]),
        (0x2fe1, &[0, 1, 1, 10, 15]),
        (0x2fe1, &[1, 1, 0, 10, 15]),
        (0x2fe1, &[1, 1, 1, 10]),
        (0x2fe1, &[1, 1, 1, 10, 15, 10, 14]),
        (0x2fe2, &[]),
        (0x2fe2, &[0x41]),
        (0x2fe2, &[3, 3]),
        (0x2fe2, &many),
    ];
    for entry in bad {
        refused(Side::Server, &[entry]);
        refused(Side::Client, &[entry]);
    }
}

fn any_decoder() -> impl Strategy<Value = FecDecoder> {
    let schemes = prop::collection::btree_map(number(), number(), 1..32);
    (1..=MAX_VARINT, number(), 1..=MAX_VARINT, schemes).prop_map(
        |(symbols, bytes, max, schemes)| FecDecoder {
            window_symbols: symbols,
            window_bytes: bytes,
            max_symbol_bytes: max,
            schemes: schemes
                .into_iter()
                .map(|(id, parameter)| FecScheme { id, parameter })
                .collect(),
        },
    )
}

fn any_encoder() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::btree_set(number(), 0..32).prop_map(|ids| ids.into_iter().collect())
}

fn any_cid(min: usize) -> impl Strategy<Value = ConnectionId> {
    prop::collection::vec(any::<u8>(), min..=20).prop_map(|bytes| cid(&bytes))
}

fn number() -> impl Strategy<Value = u64> {
    (0u32..62, 0..=MAX_VARINT).prop_map(|(shift, raw)| raw >> shift)
}

fn any_token() -> impl Strategy<Value = ResetToken> {
    any::<[u8; 16]>().prop_map(ResetToken)
}

fn any_address() -> impl Strategy<Value = PreferredAddress> {
    let v4 = prop::option::of((any::<[u8; 4]>(), 1u16..));
    let v6 = prop::option::of((any::<[u8; 16]>(), 1u16..));
    (v4, v6, any_cid(1), any_token()).prop_map(|(v4, v6, cid, token)| PreferredAddress {
        v4: v4.map(|(ip, port)| SocketAddrV4::new(ip.into(), port)),
        v6: v6.map(|(ip, port)| SocketAddrV6::new(ip.into(), port, 0, 0)),
        cid,
        token,
    })
}

fn any_versions() -> impl Strategy<Value = VersionInformation> {
    (
        prop::collection::vec(1u32.., 1..6),
        any::<prop::sample::Index>(),
    )
        .prop_map(|(available, index)| VersionInformation {
            chosen: Version(available[index.index(available.len())]),
            available: available.into_iter().map(Version).collect(),
        })
}

prop_compose! {
    fn any_parameters()(
        limits in prop::array::uniform6(number()),
        timeouts in (number(), 0u64..1 << 14, 0u8..=20),
        sizes in (1200..=MAX_VARINT, 2..=MAX_VARINT, number()),
        flags in any::<(bool, bool, bool, bool)>(),
        cids in (
            prop::option::of(any_cid(0)), prop::option::of(any_cid(1)), prop::option::of(any_cid(0)),
        ),
        address in prop::option::of(any_address()),
        token in prop::option::of(any_token()),
        versions in prop::option::of(any_versions()),
        path in prop::option::of(0..=u64::from(u32::MAX)),
        min_delay in prop::option::of(0.0..1.0),
        timestamps in (number(), 0u8..=20),
        fec in (prop::option::of(any_decoder()), any_encoder()),
    ) -> TransportParameters {
        let [data, bidi_local, bidi_remote, uni, streams_bidi, streams_uni] = limits;
        TransportParameters {
            original_destination_connection_id: cids.0,
            max_idle_timeout_ms: timeouts.0,
            stateless_reset_token: token,
            max_udp_payload_size: sizes.0,
            initial_max_data: data,
            initial_max_stream_data_bidi_local: bidi_local,
            initial_max_stream_data_bidi_remote: bidi_remote,
            initial_max_stream_data_uni: uni,
            initial_max_streams_bidi: streams_bidi >> 2,
            initial_max_streams_uni: streams_uni >> 2,
            ack_delay_exponent: timeouts.2,
            max_ack_delay_ms: timeouts.1,
            disable_active_migration: flags.0,
            preferred_address: address,
            active_connection_id_limit: sizes.1,
            initial_source_connection_id: cids.1,
            retry_source_connection_id: cids.2,
            version_information: versions,
            reset_stream_at: flags.1,
            max_datagram_frame_size: sizes.2,
            initial_max_path_id: path,
            grease_quic_bit: flags.2,
            min_ack_delay_us: min_delay.map(|part: f64| (timeouts.1 as f64 * 1e3 * part) as u64),
            max_receive_timestamps_per_ack: timestamps.0,
            receive_timestamps_exponent: timestamps.1,
            fec_decoder: fec.0,
            fec_encoder: fec.1,
            path_echo: flags.3,
        }
    }
}

proptest! {
    #[test]
    fn round_trip(params in any_parameters(), seed in any::<u64>()) {
        let bytes = params.encode(Side::Server, None);
        prop_assert_eq!(TransportParameters::decode(Side::Server, &bytes), Ok(params.clone()));
        let greased = params.encode(Side::Server, Some(&mut Rng::from_u64(seed)));
        let mut decoded = TransportParameters::decode(Side::Server, &greased).unwrap();
        if let Some(information) = &mut decoded.version_information {
            information.available.pop();
        }
        prop_assert_eq!(decoded, params);
    }

    #[test]
    fn any_bytes_decode_without_panic_and_reencode_stably(
        bytes in prop::collection::vec(prop_oneof![0u8..0x12, any::<u8>()], 0..80),
    ) {
        for side in [Side::Client, Side::Server] {
            if let Ok(params) = TransportParameters::decode(side, &bytes) {
                let again = params.encode(side, None);
                prop_assert_eq!(TransportParameters::decode(side, &again), Ok(params));
            }
        }
    }
}
