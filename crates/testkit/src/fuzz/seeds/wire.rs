//! Seeds of the `wire` room's targets.

use tautline_transport::{
    units::{Dir, PathId, Side, StreamId},
    wire::{
        AckToWrite, Close, ConnectionId, EcnCounts, FecDecoder, FecScheme, Frame, LongHeader,
        LongType, NewConnectionId, PreferredAddress, Repair, ResetStream, ResetToken, SourceSymbol,
        Stream, TimestampsToWrite, TransportParameters, Version, VersionInformation, Writer,
        encode_short, patch_length, write_ack, write_path_echo, write_retry_without_tag,
        write_symbol_ack, write_version_negotiation,
    },
};

pub(super) fn written(size: usize, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut buf = vec![0; size];
    let mut w = Writer::new(&mut buf);
    write(&mut w);
    assert!(!w.overflowed(), "seed buffer too small");
    w.into_written().to_vec()
}

pub(super) fn cid(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap_or_default()
}

pub(super) fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let id = StreamId(4);
    let path = PathId(3);
    let new_cid = NewConnectionId {
        path: None,
        sequence: 5,
        retire_prior_to: 2,
        cid: cid(&[1, 2, 3, 4, 5, 6, 7, 8]),
        token: ResetToken([9; 16]),
    };
    let groups: [(&'static str, &[Frame<'_>]); 9] = [
        (
            "padding_ping",
            &[
                Frame::Ping,
                Frame::Padding { len: 20 },
                Frame::HandshakeDone,
            ],
        ),
        (
            "streams",
            &[
                Frame::Stream(Stream {
                    id,
                    offset: 0,
                    data: b"first",
                    fin: false,
                }),
                Frame::Stream(Stream {
                    id,
                    offset: 100_000,
                    data: b"last",
                    fin: true,
                }),
                Frame::ResetStream(ResetStream {
                    id,
                    code: 7,
                    final_size: 1 << 20,
                }),
                Frame::ResetStreamAt {
                    id,
                    code: 7,
                    final_size: 1 << 20,
                    reliable_size: 99,
                },
                Frame::StopSending { id, code: 7 },
            ],
        ),
        (
            "crypto_token",
            &[
                Frame::Crypto {
                    offset: 1200,
                    data: b"client hello",
                },
                Frame::NewToken { token: b"a token" },
            ],
        ),
        (
            "flow_control",
            &[
                Frame::MaxData(1 << 24),
                Frame::MaxStreamData { id, max: 1 << 20 },
                Frame::MaxStreams {
                    dir: Dir::Bi,
                    max: 100,
                },
                Frame::MaxStreams {
                    dir: Dir::Uni,
                    max: 1 << 60,
                },
                Frame::DataBlocked(1 << 24),
                Frame::StreamDataBlocked { id, limit: 1 << 20 },
                Frame::StreamsBlocked {
                    dir: Dir::Bi,
                    limit: 100,
                },
                Frame::StreamsBlocked {
                    dir: Dir::Uni,
                    limit: 3,
                },
            ],
        ),
        (
            "connection_ids",
            &[
                Frame::NewConnectionId(new_cid),
                Frame::NewConnectionId(NewConnectionId {
                    path: Some(path),
                    ..new_cid
                }),
                Frame::RetireConnectionId {
                    path: None,
                    sequence: 1,
                },
                Frame::RetireConnectionId {
                    path: Some(path),
                    sequence: 1,
                },
                Frame::PathChallenge([1; 8]),
                Frame::PathResponse([2; 8]),
            ],
        ),
        (
            "multipath",
            &[
                Frame::PathAbandon { path, code: 0x3e },
                Frame::PathStatus {
                    path,
                    available: true,
                    sequence: 1,
                },
                Frame::PathStatus {
                    path,
                    available: false,
                    sequence: 2,
                },
                Frame::MaxPathId(8),
                Frame::PathsBlocked(8),
                Frame::PathCidsBlocked {
                    path,
                    next_sequence: 4,
                },
            ],
        ),
        (
            "close",
            &[
                Frame::ConnectionClose(Close {
                    frame_type: Some(8),
                    code: 10,
                    reason: b"why",
                }),
                Frame::ConnectionClose(Close {
                    frame_type: None,
                    code: 0,
                    reason: b"",
                }),
            ],
        ),
        (
            "extensions",
            &[
                Frame::ImmediateAck,
                Frame::AckFrequency {
                    sequence: 1,
                    threshold: 9,
                    max_ack_delay_us: 25_000,
                    reordering: 3,
                },
                Frame::Datagram { data: b"datagram" },
            ],
        ),
        (
            "erasure",
            &[
                Frame::Repair(Repair {
                    first: 300,
                    count: 20,
                    key: 7,
                    symbol: b"repair",
                }),
                Frame::FecWindow {
                    epoch: 1,
                    symbols: 128,
                    bytes: 192_256,
                },
                Frame::SourceSymbol(SourceSymbol::new(300, 2)),
                Frame::MaxData(1 << 20),
            ],
        ),
    ];
    let mut seeds: Vec<_> = groups
        .into_iter()
        .map(|(name, frames)| {
            (
                name,
                written(512, |w| frames.iter().for_each(|frame| frame.encode(w))),
            )
        })
        .collect();
    seeds.push(("ack", written(512, |w| ack(w, None, None, false))));
    seeds.push(("ack_ecn", written(512, |w| ack(w, None, ecn(), false))));
    seeds.push((
        "path_ack_ecn",
        written(512, |w| ack(w, Some(path), ecn(), false)),
    ));
    seeds.push(("ack_timestamps", written(512, |w| ack(w, None, None, true))));
    seeds.push((
        "path_ack_timestamps",
        written(512, |w| ack(w, Some(path), ecn(), true)),
    ));
    seeds.push((
        "symbol_ack",
        written(64, |w| {
            write_symbol_ack(w, [90..=100, 80..=81].into_iter());
        }),
    ));
    seeds.push((
        "path_echo",
        written(64, |w| {
            write_path_echo(w, path, [90..=100, 80..=81].into_iter());
        }),
    ));
    // No Length: the data takes the rest of the packet.
    seeds.push((
        "stream_to_the_end",
        vec![0x0d, 4, 0x40, 0x80, b'd', b'a', b't', b'a'],
    ));
    seeds.push((
        "datagram_to_the_end",
        vec![0x01, 0x30, b'd', b'a', b't', b'a'],
    ));
    seeds.push(("type_not_minimal", vec![0x40, 0x01]));
    seeds.push(("ack_below_zero", vec![0x02, 4, 0, 1, 4, 0, 0]));
    seeds
}

fn ecn() -> Option<EcnCounts> {
    Some(EcnCounts {
        ect0: 1000,
        ect1: 0,
        ce: 3,
    })
}

fn ack(w: &mut Writer<'_>, path: Option<PathId>, ecn: Option<EcnCounts>, timestamps: bool) {
    let received = [(995, 40_000), (1000, 39_000), (999, 38_500), (900, 100)];
    let timestamps = timestamps.then_some(TimestampsToWrite {
        received: &received,
        exponent: 0,
        max: 10,
    });
    let ranges = [990..=1000, 900..=950, 0..=3].into_iter();
    write_ack(
        w,
        AckToWrite {
            path,
            largest: 1000,
            delay: 25,
            ranges,
            ecn,
            timestamps,
        },
    );
}

pub(super) fn headers() -> Vec<(&'static str, Vec<u8>)> {
    let (client, server) = (
        cid(&[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]),
        cid(&[7; 5]),
    );
    let packet = |ty, version, token: &[u8]| {
        let header = LongHeader {
            ty,
            version,
            dcid: client,
            scid: server,
            token,
            fixed_bit: true,
        };
        let mut offset = None;
        let mut bytes = written(200, |w| {
            offset = header.encode(w, 2, 2);
            w.zeros(22);
        });
        patch_length(&mut bytes, offset.unwrap_or_default(), 24);
        bytes
    };
    let short = written(40, |w| {
        encode_short(w, &client, true, true, 9, 1, true);
        w.zeros(20);
    });
    let mut retry = Vec::new();
    write_retry_without_tag(&mut retry, Version::V1, 5, &client, &server, b"token");
    retry.extend([0xee; 16]);
    let mut retry_v2 = Vec::new();
    write_retry_without_tag(&mut retry_v2, Version::V2, 5, &client, &server, b"token");
    retry_v2.extend([0xee; 16]);
    let mut negotiation = Vec::new();
    let versions = [Version::V1, Version::V2, Version(0x1a2a_3a4a)];
    write_version_negotiation(&mut negotiation, 0x2a, &[1; 30], &[], &versions);
    let mut unknown = vec![0xc0, 0x5a, 0x6a, 0x7a, 0x8a, 25];
    unknown.extend([3; 25]);
    unknown.extend([2, 4, 4, 1, 2, 3]);
    let coalesced = [
        packet(LongType::Initial, Version::V1, b""),
        packet(LongType::ZeroRtt, Version::V1, b""),
        packet(LongType::Handshake, Version::V1, b""),
        short.clone(),
    ]
    .concat();
    let coalesced_v2 = [
        packet(LongType::Initial, Version::V2, b"a token"),
        packet(LongType::ZeroRtt, Version::V2, b""),
        packet(LongType::Handshake, Version::V2, b""),
    ]
    .concat();
    [
        ("short", short),
        ("coalesced", coalesced),
        ("coalesced_v2", coalesced_v2),
        ("retry", retry),
        ("retry_v2", retry_v2),
        ("version_negotiation", negotiation),
        ("unknown_version", unknown),
    ]
    .into_iter()
    // The first byte is the length of our connection IDs.
    .map(|(name, datagram)| (name, [&[8], &datagram[..]].concat()))
    .collect()
}

pub(super) fn transport_parameters() -> Vec<(&'static str, Vec<u8>)> {
    let client = TransportParameters {
        max_idle_timeout_ms: 30_000,
        max_udp_payload_size: 1472,
        initial_max_data: 1 << 20,
        initial_max_stream_data_bidi_local: 1 << 18,
        initial_max_stream_data_bidi_remote: 1 << 18,
        initial_max_stream_data_uni: 1 << 18,
        initial_max_streams_bidi: 100,
        initial_max_streams_uni: 100,
        ack_delay_exponent: 4,
        max_ack_delay_ms: 26,
        disable_active_migration: true,
        active_connection_id_limit: 8,
        initial_source_connection_id: Some(cid(&[1; 8])),
        version_information: Some(VersionInformation {
            chosen: Version::V1,
            available: vec![Version::V2, Version::V1],
        }),
        reset_stream_at: true,
        max_datagram_frame_size: 65_535,
        initial_max_path_id: Some(4),
        fec_decoder: Some(FecDecoder {
            window_symbols: 256,
            window_bytes: 384_512,
            max_symbol_bytes: 1500,
            schemes: vec![FecScheme {
                id: 10,
                parameter: 15,
            }],
        }),
        fec_encoder: vec![10, 2],
        grease_quic_bit: true,
        min_ack_delay_us: Some(1000),
        max_receive_timestamps_per_ack: 64,
        receive_timestamps_exponent: 3,
        ..TransportParameters::default()
    };
    let server = TransportParameters {
        original_destination_connection_id: Some(cid(&[2; 8])),
        retry_source_connection_id: Some(cid(&[3; 8])),
        stateless_reset_token: Some(ResetToken([4; 16])),
        preferred_address: Some(PreferredAddress {
            v4: Some(std::net::SocketAddrV4::new([192, 0, 2, 1].into(), 443)),
            v6: None,
            cid: cid(&[5; 8]),
            token: ResetToken([6; 16]),
        }),
        ..client.clone()
    };
    vec![
        ("client", client.encode(Side::Client, None)),
        ("server", server.encode(Side::Server, None)),
        ("empty", Vec::new()),
        ("duplicate", vec![0x04, 1, 9, 0x04, 1, 9]),
        ("unknown", vec![0x1b, 2, 1, 2]),
    ]
}

pub(super) fn varint() -> Vec<(&'static str, Vec<u8>)> {
    let values = [
        0,
        63,
        64,
        16_383,
        16_384,
        (1 << 30) - 1,
        1 << 30,
        (1 << 62) - 1,
    ];
    vec![
        (
            "edges",
            written(64, |w| values.iter().for_each(|value| w.varint(*value))),
        ),
        (
            "not_minimal",
            written(16, |w| {
                w.varint_sized(37, 2);
                w.varint_sized(37, 8);
            }),
        ),
        (
            "packet_numbers",
            written(64, |w| {
                for number in [0xabe8b3, 0xac5c02, 0xace8fe, 0xa82f30ea, 0xa82f9b32] {
                    w.varint(number);
                }
            }),
        ),
    ]
}
