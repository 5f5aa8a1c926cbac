//! Scripts in which one end breaks a rule: one for each rule that can be broken on the wire.

use tautline_transport::{
    units::{Dir, PathId, Side, StreamId},
    wire::{
        Frame, NewConnectionId, Repair, ResetStream, ResetToken, SourceSymbol, Stream,
        TransportParameters, Version, VersionInformation, Writer,
    },
};

use super::{
    scripts::{CONNECT, plain, script},
    wire::cid,
};
use crate::fuzz::pair::{ERASURE, NO_SESSION, Op, REMOVE_ALL, REMOVE_NONE, Setup, end, shared};

const CLIENT: u8 = 0;
const SERVER: u8 = 1;
const ONE_RTT: u8 = 3;

fn encode(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; 1400];
    let mut w = Writer::new(&mut bytes);
    frames.iter().for_each(|frame| frame.encode(&mut w));
    let len = w.len();
    bytes.truncate(len);
    bytes
}

fn inject(to: u8, level: u8, frames: Vec<u8>) -> Op {
    Op::Inject {
        to,
        level,
        number: 0,
        phase: 0,
        bits: 0,
        frames,
    }
}

fn in_phase(number: i8, phase: i8) -> Op {
    Op::Inject {
        to: SERVER,
        level: ONE_RTT,
        number,
        phase,
        bits: 0,
        frames: encode(&[Frame::Ping]),
    }
}

fn new_cid(sequence: u64, retire_prior_to: u64) -> Frame<'static> {
    Frame::NewConnectionId(NewConnectionId {
        path: None,
        sequence,
        retire_prior_to,
        cid: cid(&[sequence as u8; 8]),
        token: ResetToken([sequence as u8; 16]),
    })
}

fn stream(id: u64, offset: u64, data: &'static [u8], fin: bool) -> Frame<'static> {
    let id = StreamId(id);
    Frame::Stream(Stream {
        id,
        offset,
        data,
        fin,
    })
}

fn reset(id: u64, final_size: u64) -> Frame<'static> {
    Frame::ResetStream(ResetStream {
        id: StreamId(id),
        code: 1,
        final_size,
    })
}

fn reset_at(id: u64, code: u64, final_size: u64, reliable_size: u64) -> Frame<'static> {
    Frame::ResetStreamAt {
        id: StreamId(id),
        code,
        final_size,
        reliable_size,
    }
}

fn ack_frequency(max_ack_delay_us: u64) -> Frame<'static> {
    Frame::AckFrequency {
        sequence: 1,
        threshold: 2,
        max_ack_delay_us,
        reordering: 1,
    }
}

/// Frames that a server must not take in a 1-RTT packet of its client.
fn to_server() -> Vec<(&'static str, Vec<Frame<'static>>)> {
    let id = StreamId(0);
    let many_ids = (10..22).map(|sequence| new_cid(sequence, 0)).collect();
    vec![
        (
            "retire_unissued",
            vec![Frame::RetireConnectionId {
                path: None,
                sequence: 99,
            }],
        ),
        (
            "retire_in_use",
            vec![Frame::RetireConnectionId {
                path: None,
                sequence: 0,
            }],
        ),
        (
            "cid_reissued",
            vec![
                new_cid(9, 0),
                Frame::NewConnectionId(NewConnectionId {
                    path: None,
                    sequence: 9,
                    retire_prior_to: 0,
                    cid: cid(b"another!"),
                    token: ResetToken([1; 16]),
                }),
            ],
        ),
        ("cid_limit", many_ids),
        (
            "crypto_too_far",
            vec![Frame::Crypto {
                offset: 200_000,
                data: b"x",
            }],
        ),
        (
            "crypto_beyond",
            vec![Frame::Crypto {
                offset: (1 << 62) - 1,
                data: b"xy",
            }],
        ),
        (
            "tls_after_handshake",
            vec![Frame::Crypto {
                offset: 0,
                data: &[1, 0, 0, 0],
            }],
        ),
        ("new_token", vec![Frame::NewToken { token: b"token" }]),
        ("handshake_done", vec![Frame::HandshakeDone]),
        (
            "path_abandon",
            vec![Frame::PathAbandon {
                path: PathId(1),
                code: 0,
            }],
        ),
        (
            "path_status",
            vec![Frame::PathStatus {
                path: PathId(1),
                available: true,
                sequence: 1,
            }],
        ),
        (
            "path_backup",
            vec![Frame::PathStatus {
                path: PathId(1),
                available: false,
                sequence: 1,
            }],
        ),
        ("max_path_id", vec![Frame::MaxPathId(1)]),
        (
            "source_symbol",
            vec![
                Frame::SourceSymbol(SourceSymbol::new(0, 1)),
                Frame::MaxData(1),
            ],
        ),
        ("repair", vec![repair(0, 4)]),
        (
            "fec_window",
            vec![Frame::FecWindow {
                epoch: 0,
                symbols: 1,
                bytes: 1,
            }],
        ),
        ("paths_blocked", vec![Frame::PathsBlocked(1)]),
        (
            "path_cids_blocked",
            vec![Frame::PathCidsBlocked {
                path: PathId(1),
                next_sequence: 0,
            }],
        ),
        (
            "path_retire",
            vec![Frame::RetireConnectionId {
                path: Some(PathId(1)),
                sequence: 0,
            }],
        ),
        ("ack_frequency_short", vec![ack_frequency(1)]),
        ("ack_frequency_long", vec![ack_frequency(1 << 24)]),
        ("stream_limit", vec![stream(4000, 0, b"x", false)]),
        ("stream_not_created", vec![stream(1, 0, b"x", false)]),
        (
            "stop_receive_only",
            vec![Frame::StopSending {
                id: StreamId(2),
                code: 0,
            }],
        ),
        ("stream_send_only", vec![stream(3, 0, b"x", false)]),
        (
            "stream_beyond",
            vec![stream(0, (1 << 62) - 1, b"xy", false)],
        ),
        (
            "data_after_fin",
            vec![stream(0, 0, b"xy", true), stream(0, 2, b"z", false)],
        ),
        (
            "fin_changed",
            vec![stream(0, 0, b"xy", true), stream(0, 0, b"x", true)],
        ),
        (
            "fin_below",
            vec![stream(0, 0, b"xy", false), stream(0, 0, b"x", true)],
        ),
        ("reset_below", vec![stream(0, 0, b"xy", false), reset(0, 1)]),
        ("reset_changed", vec![reset(0, 4), reset(0, 5)]),
        ("reset_beyond_window", vec![reset(0, 1 << 40)]),
        ("reset_at_above", vec![reset_at(0, 1, 4, 5)]),
        (
            "reset_at_code",
            vec![reset_at(0, 1, 4, 3), reset_at(0, 2, 4, 3)],
        ),
        ("stream_flow_control", vec![stream(0, 1 << 30, b"x", false)]),
        (
            "max_streams_beyond",
            vec![Frame::MaxStreams {
                dir: Dir::Bi,
                max: (1 << 60) + 1,
            }],
        ),
        (
            "streams_blocked_beyond",
            vec![Frame::StreamsBlocked {
                dir: Dir::Uni,
                limit: (1 << 60) + 1,
            }],
        ),
        (
            "max_stream_data",
            vec![Frame::MaxStreamData {
                id: StreamId(6),
                max: 1,
            }],
        ),
        (
            "stream_data_blocked",
            vec![Frame::StreamDataBlocked {
                id: StreamId(3),
                limit: 1,
            }],
        ),
        (
            "stop_sending",
            vec![
                stream(0, 0, b"x", false),
                Frame::StopSending { id, code: 3 },
            ],
        ),
    ]
}

/// Bytes that are no frames.
fn malformed() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("no_frames", vec![]),
        ("unknown_frame", vec![0x3f, 0x00]),
        ("unknown_large_frame", vec![0x7f, 0xff]),
        ("type_not_minimal", vec![0x40, 0x01]),
        (
            "path_id_too_large",
            vec![0x7e, 0x75, 0xc0, 0, 0, 1, 0, 0, 0, 0, 0],
        ),
        ("cut_short", vec![0x04, 0x00]),
        ("empty_token", vec![0x07, 0x00]),
        ("retire_prior_to_above", vec![0x18, 1, 2, 8]),
        ("cid_too_long", vec![0x18, 1, 0, 21]),
        ("ack_below_zero", vec![0x02, 4, 0, 1, 4, 0, 0]),
    ]
}

/// Rules about packets rather than frames.
fn packets() -> Vec<(&'static str, Setup, Vec<Op>)> {
    let ping = encode(&[Frame::Ping]);
    let data = encode(&[stream(0, 0, b"x", false)]);
    let reserved = |level, bits| Op::Inject {
        to: SERVER,
        level,
        number: 0,
        phase: 0,
        bits,
        frames: ping.clone(),
    };
    let ack = |to, phase, ahead, below| Op::Ack {
        to,
        level: ONE_RTT,
        phase,
        ahead,
        below,
    };
    let shared = |shared| Setup { shared, ..plain() };
    let hello = Op::Deliver {
        to: SERVER,
        place: 0,
    };
    let mut worn_out = vec![CONNECT];
    for _ in 0..40 {
        worn_out.extend([Op::Ping { on: CLIENT }, Op::DropAll { to: SERVER }]);
    }
    let mut skipped = vec![CONNECT];
    for _ in 0..120 {
        skipped.extend([Op::Ping { on: CLIENT }, Op::Run { rounds: 1 }]);
    }
    skipped.push(ack(CLIENT, 0, 0, 255));
    vec![
        (
            "reserved_short",
            plain(),
            vec![CONNECT, reserved(ONE_RTT, 0x18)],
        ),
        (
            "reserved_long",
            plain(),
            vec![hello.clone(), reserved(2, 0x0c)],
        ),
        (
            "stream_in_handshake",
            plain(),
            vec![hello.clone(), inject(SERVER, 2, data.clone())],
        ),
        (
            "stream_in_initial",
            plain(),
            vec![hello, inject(SERVER, 0, data)],
        ),
        (
            "ack_of_unsent",
            plain(),
            vec![CONNECT, ack(CLIENT, 0, 50, 0)],
        ),
        ("ack_of_skipped", plain(), skipped),
        (
            "confidentiality",
            shared(shared::TINY_CONFIDENTIALITY),
            worn_out,
        ),
        (
            "integrity",
            shared(shared::TINY_INTEGRITY),
            vec![CONNECT, in_phase(0, 2), in_phase(1, 2), in_phase(2, 2)],
        ),
        (
            "old_key_after_update",
            plain(),
            vec![CONNECT, in_phase(20, 0), in_phase(10, 1)],
        ),
        (
            "old_key_between",
            plain(),
            vec![CONNECT, in_phase(30, 1), in_phase(20, 0), in_phase(10, 1)],
        ),
        (
            "update_twice",
            plain(),
            vec![
                CONNECT,
                Op::Batch { count: 1 },
                in_phase(1, 1),
                in_phase(2, 2),
            ],
        ),
        (
            "new_keys_acked_by_old",
            plain(),
            vec![CONNECT, Op::UpdateKeys { on: CLIENT }, ack(CLIENT, 0, 0, 0)],
        ),
        (
            "retirements",
            shared(shared::TINY_LIMITS),
            vec![
                CONNECT,
                inject(
                    SERVER,
                    ONE_RTT,
                    encode(&[
                        new_cid(20, 20),
                        new_cid(21, 21),
                        new_cid(22, 22),
                        new_cid(23, 23),
                    ]),
                ),
            ],
        ),
        (
            "connection_flow_control",
            Setup {
                windows: 0x14,
                ..plain()
            },
            vec![
                CONNECT,
                inject(SERVER, ONE_RTT, encode(&[stream(0, 1000, b"x", false)])),
            ],
        ),
        (
            "reset_flow_control",
            Setup {
                windows: 0x14,
                ..plain()
            },
            vec![CONNECT, inject(SERVER, ONE_RTT, encode(&[reset(0, 1000)]))],
        ),
        (
            "datagram_refused",
            Setup {
                server: end::NO_DATAGRAMS,
                ..plain()
            },
            vec![
                CONNECT,
                inject(SERVER, ONE_RTT, encode(&[Frame::Datagram { data: b"x" }])),
            ],
        ),
        (
            "ack_frequency_refused",
            Setup {
                server: end::NO_ACK_FREQUENCY,
                ..plain()
            },
            vec![
                CONNECT,
                inject(SERVER, ONE_RTT, encode(&[ack_frequency(5000)])),
            ],
        ),
        (
            "new_cid_for_empty",
            Setup {
                server: end::EMPTY_CIDS,
                ..plain()
            },
            vec![CONNECT, inject(CLIENT, ONE_RTT, encode(&[new_cid(1, 0)]))],
        ),
        (
            "retire_empty",
            Setup {
                server: end::EMPTY_CIDS,
                ..plain()
            },
            vec![
                CONNECT,
                inject(
                    SERVER,
                    ONE_RTT,
                    encode(&[Frame::RetireConnectionId {
                        path: None,
                        sequence: 0,
                    }]),
                ),
            ],
        ),
        (
            "path_ack_refused",
            plain(),
            vec![CONNECT, inject(SERVER, ONE_RTT, vec![0x3e, 1, 0, 0, 0, 0])],
        ),
    ]
}

/// A ClientHello, whole but for what `change` does to it.
fn hello(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut hello = super::other::client_hello_message();
    change(&mut hello);
    hello
}

/// The server hears this first flight instead of the client's.
fn instead_of_hello(message: &[u8]) -> Vec<Op> {
    let crypto = Frame::Crypto {
        offset: 0,
        data: message,
    };
    let mut frames = encode(&[crypto]);
    frames.resize(1200, 0);
    vec![
        Op::DropAll { to: SERVER },
        inject(SERVER, 0, frames),
        CONNECT,
    ]
}

fn versions(chosen: Version, available: &[Version]) -> Vec<u8> {
    let params = TransportParameters {
        version_information: Some(VersionInformation {
            chosen,
            available: available.to_vec(),
        }),
        ..TransportParameters::default()
    };
    params.encode(Side::Client, None)
}

/// Rules about the handshake.
fn handshakes() -> Vec<(&'static str, Setup, Vec<Op>)> {
    let edited = |edit_side, edit_remove, edit_append: &[u8]| Setup {
        edit_side,
        edit_remove,
        edit_append: edit_append.to_vec(),
        ..plain()
    };
    let run = || vec![CONNECT];
    let v2 = versions(Version::V2, &[Version::V2]);
    let upgraded = |edit_remove, edit_append: &[u8]| Setup {
        server: end::PREFER_V2,
        ..edited(2, edit_remove, edit_append)
    };
    let again = vec![CONNECT, Op::Connect {}, Op::Open { on: 2, dir: 0 }, CONNECT];
    let token = |token: &[u8]| Setup {
        token: token.to_vec(),
        ..plain()
    };
    vec![
        ("params_no_scid", edited(1, 0x0f, &[]), run()),
        ("params_none", edited(1, REMOVE_ALL, &[]), run()),
        ("params_cut", edited(1, REMOVE_NONE, &[0x01]), run()),
        ("params_twice", edited(1, REMOVE_NONE, &[0x04, 1, 9]), run()),
        (
            "params_server_only",
            edited(1, REMOVE_NONE, &[0x10, 0]),
            run(),
        ),
        (
            "params_out_of_bounds",
            edited(1, 0x0a, &[0x0a, 1, 21]),
            run(),
        ),
        ("params_no_odcid", edited(2, 0x00, &[]), run()),
        (
            "params_retry_scid",
            edited(2, REMOVE_NONE, &[0x10, 1, 7]),
            run(),
        ),
        ("params_server_none", edited(2, REMOVE_ALL, &[]), run()),
        ("no_session", edited(2, NO_SESSION, &[]), run()),
        (
            "no_client_session",
            edited(3, NO_SESSION, &[]),
            vec![
                Op::NegotiateVersion {
                    versions: Version::V2.0.to_be_bytes().to_vec(),
                },
                CONNECT,
            ],
        ),
        ("version_not_in_use", edited(1, 0x11, &v2), run()),
        ("server_version_not_in_use", edited(2, 0x11, &v2), run()),
        ("upgrade_unsaid", upgraded(0x11, &[]), run()),
        (
            "negotiation_late_forged",
            plain(),
            vec![
                Op::NegotiateVersion {
                    versions: Version::V2.0.to_be_bytes().to_vec(),
                },
                CONNECT,
            ],
        ),
        (
            "negotiation_forged",
            plain(),
            vec![
                Op::DropAll { to: SERVER },
                Op::NegotiateVersion {
                    versions: Version::V2.0.to_be_bytes().to_vec(),
                },
                CONNECT,
            ],
        ),
        (
            "negotiation_hopeless",
            plain(),
            vec![Op::NegotiateVersion {
                versions: vec![0x0a; 8],
            }],
        ),
        (
            "negotiation_late",
            plain(),
            vec![
                CONNECT,
                Op::NegotiateVersion {
                    versions: vec![0x0a; 8],
                },
            ],
        ),
        (
            "retry_forged",
            plain(),
            vec![
                Op::Retry {
                    good: 0,
                    token: b"token".to_vec(),
                },
                CONNECT,
            ],
        ),
        (
            "retry_spoofed",
            plain(),
            vec![
                Op::Retry {
                    good: 1,
                    token: b"token".to_vec(),
                },
                CONNECT,
            ],
        ),
        ("lower_limits", edited(4, 0x04, &[]), again),
        ("retry_token_forged", token(&[0x52; 60]), run()),
        ("validation_token_forged", token(&[0x4e; 53]), run()),
        (
            "hello_without_params",
            plain(),
            instead_of_hello(&hello(|hello| {
                // The extension's type becomes one that nobody knows.
                if let Some(at) = hello.windows(2).position(|id| id == [0x00, 0x39]) {
                    hello[at] = 0xff;
                }
            })),
        ),
        (
            "hello_session_id",
            plain(),
            instead_of_hello(&hello(|hello| {
                hello.splice(38..39, [1, 7]);
                hello[3] += 1;
            })),
        ),
        (
            "hello_too_long",
            plain(),
            instead_of_hello(&[1, 0xff, 0, 0]),
        ),
        ("hello_is_none", plain(), instead_of_hello(&[2, 0, 0, 0])),
        (
            "hello_garbled",
            plain(),
            instead_of_hello(&[1, 0, 0, 2, 3, 3]),
        ),
    ]
}

/// All of them.
fn repair(first: u64, count: u64) -> Frame<'static> {
    Frame::Repair(Repair {
        first,
        count,
        key: 0,
        symbol: &[0, 1, 0x10, 0],
    })
}

/// Between ends that agreed on erasure correction.
fn erasure() -> Vec<(&'static str, Vec<u8>)> {
    let header = |id| Frame::SourceSymbol(SourceSymbol::new(id, 1));
    let window = |symbols| Frame::FecWindow {
        epoch: 3,
        symbols,
        bytes: 2_000,
    };
    // Symbols 0 and 2; symbol 2^62 - 1.
    let told = |bytes: &[u8]| [&[0x6f, 0xe9][..], bytes].concat();
    vec![
        ("symbol", encode(&[header(9), Frame::MaxData(1 << 20)])),
        ("repair_one", encode(&[repair(9, 1)])),
        ("repair_far", encode(&[repair(1 << 40, 20), repair(3, 4)])),
        ("repair_too_long", encode(&[repair(0, 21)])),
        (
            "two_headers",
            encode(&[header(9), header(10), Frame::MaxData(1)]),
        ),
        ("ping_in_symbol", encode(&[header(9), Frame::Ping])),
        ("small_window", encode(&[window(2)])),
        ("no_window", encode(&[window(0)])),
        ("symbol_ack", told(&[2, 1, 0, 0, 0])),
        ("symbol_ack_unsent", told(&[0xff; 10])),
    ]
}

pub(super) fn pair() -> Vec<(String, Vec<u8>)> {
    let established = to_server()
        .into_iter()
        .map(|(name, frames)| (name, encode(&frames)))
        .chain(malformed())
        .map(|(name, frames)| {
            let ops = vec![CONNECT, inject(SERVER, ONE_RTT, frames), CONNECT];
            (name, plain(), ops)
        });
    let between = erasure().into_iter().map(|(name, frames)| {
        let setup = Setup {
            policies: ERASURE,
            ..plain()
        };
        let ops = vec![CONNECT, inject(SERVER, ONE_RTT, frames), CONNECT];
        (name, setup, ops)
    });
    established
        .chain(between)
        .chain(packets())
        .chain(handshakes())
        .map(|(name, setup, ops)| (format!("error_{name}"), script(&setup, &ops)))
        .collect()
}
