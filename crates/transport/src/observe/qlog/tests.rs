//! What the sink writes is JSON-SEQ, whole records only, and as the schema has it.

use std::{
    io::{Error, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;

use super::*;
use crate::{
    error::{ConnectionError, TransportError},
    observe::{
        Abuse, ConnectionState, DropReason, FlowScope, HalfStream, PacketKind, PathCandidate,
        PathVerdict, RecoveryMetrics, TimerKind,
    },
    recovery::LossTrigger,
    space::SpaceKind,
    tls::Level,
    units::{Dir, Ecn, FourTuple, PathId, Rate, StreamId},
    wire::{
        Close, ConnectionId, Frame, NewConnectionId, Repair, ResetStream, ResetToken, SourceSymbol,
        Stream, TransportParameters, Version,
    },
};

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(data);
        Ok(data.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Shared {
    /// Every record after the header, parsed; the framing is checked.
    fn records(&self) -> Vec<Value> {
        let bytes = self.0.lock().unwrap();
        let mut records = Vec::new();
        for record in bytes.split(|byte| *byte == RECORD_SEPARATOR).skip(1) {
            assert_eq!(record.last(), Some(&b'\n'));
            assert_eq!(record.iter().filter(|byte| **byte == b'\n').count(), 1);
            records.push(serde_json::from_slice(record).expect("valid JSON"));
        }
        assert_eq!(bytes.first(), Some(&RECORD_SEPARATOR));
        records
    }
}

const START: Instant = Instant::from_nanos(5_000_000_000);

fn four_tuple() -> FourTuple {
    FourTuple {
        local: ([192, 0, 2, 1], 4433).into(),
        remote: "[2001:db8::1]:50000".parse().unwrap(),
    }
}

fn info(side: Side) -> ConnectionInfo {
    let dcid = ConnectionId::new(&[0xab, 0xcd, 3, 4, 5, 6, 7, 8]).unwrap();
    ConnectionInfo::new(side, dcid, four_tuple(), START)
}

/// All records that these events make, the header first.
fn trace(events: &[Event<'_>]) -> Vec<Value> {
    let out = Shared::default();
    let mut sink = QlogSink::new(Box::new(out.clone()), &info(Side::Server));
    for (n, event) in events.iter().enumerate() {
        sink.on_event(START + Duration::from_micros(1500 * n as u64), event);
    }
    drop(sink);
    out.records()
}

fn sent(number: u64) -> Event<'static> {
    let path = PathId::ZERO;
    Event::PacketSent {
        level: Level::OneRtt,
        path,
        number,
        bytes: 1200,
        ecn: Ecn::Ect0,
    }
}

fn received(number: u64, path: PathId) -> Event<'static> {
    Event::PacketReceived {
        level: Level::Handshake,
        path,
        number,
        bytes: 99,
        ecn: Ecn::Ce,
    }
}

fn confirmed() -> Event<'static> {
    Event::ConnectionState {
        old: ConnectionState::HandshakeComplete,
        new: ConnectionState::HandshakeConfirmed,
    }
}

#[test]
fn the_header_names_schema_and_format() {
    let records = trace(&[]);
    let header = &records[0];
    assert_eq!(
        header["file_schema"],
        "urn:ietf:params:qlog:file:sequential"
    );
    assert_eq!(header["serialization_format"], "application/qlog+json-seq");
    let trace = &header["trace"];
    assert_eq!(
        trace["event_schemas"][0],
        "urn:ietf:params:qlog:events:quic-13"
    );
    assert_eq!(trace["vantage_point"]["type"], "server");
    assert_eq!(trace["common_fields"]["group_id"], "abcd030405060708");
    assert_eq!(
        trace["common_fields"]["reference_time"]["clock_type"],
        "monotonic"
    );
    assert_eq!(trace["common_fields"]["reference_time"]["epoch"], "unknown");
    assert_eq!(
        QlogFactory::file_name(&info(Side::Client)),
        "abcd030405060708_client.sqlog"
    );
}

#[test]
fn a_sent_packet_holds_the_frames_written_before_it() {
    let max = Frame::MaxStreamData {
        id: StreamId(4),
        max: 77,
    };
    let records = trace(&[
        Event::StreamFrameSent {
            id: StreamId(8),
            offset: 10,
            len: 5,
            fin: true,
        },
        Event::FrameSent(&max),
        Event::PaddingSent { len: 3 },
        sent(7),
        Event::FrameSent(&Frame::Ping),
        sent(8),
    ]);
    assert_eq!(records.len(), 3);
    let first = &records[1];
    assert_eq!(first["time"], 4.5);
    assert_eq!(first["name"], "quic:packet_sent");
    assert_eq!(first["data"]["header"]["packet_type"], "1RTT");
    assert_eq!(first["data"]["header"]["packet_number"], 7);
    assert_eq!(first["data"]["raw"]["length"], 1200);
    let frames = first["data"]["frames"].as_array().unwrap();
    assert_eq!(frames.len(), 3);
    assert_eq!(frames[0]["frame_type"], "stream");
    assert_eq!(frames[0]["fin"], true);
    assert_eq!(frames[0]["raw"]["length"], 5);
    assert_eq!(frames[1]["maximum"], 77);
    assert_eq!(frames[2]["raw"]["payload_length"], 3);
    assert_eq!(records[2]["data"]["frames"].as_array().unwrap().len(), 1);
}

#[test]
fn a_received_packet_holds_the_frames_that_follow_and_comes_before_their_effects() {
    let crypto = Frame::Crypto {
        offset: 0,
        data: &[1, 2, 3],
    };
    let records = trace(&[
        received(3, PathId(2)),
        Event::FrameReceived(&crypto),
        confirmed(),
        Event::FrameReceived(&Frame::HandshakeDone),
        received(4, PathId::ZERO),
    ]);
    let names: Vec<_> = records[1..]
        .iter()
        .map(|r| r["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "quic:packet_received",
            "quic:connection_state_updated",
            "quic:packet_received"
        ]
    );
    assert_eq!(records[1]["data"]["frames"].as_array().unwrap().len(), 2);
    assert_eq!(records[1]["data"]["header"]["path_id"], 2);
    assert_eq!(records[1]["tuple"], "2");
    assert!(records[3].get("tuple").is_none());
    assert_eq!(records[3]["data"]["frames"].as_array().unwrap().len(), 0);
}

#[test]
fn acknowledgements_show_their_ranges() {
    use crate::wire::{AckToWrite, EcnCounts, Writer, write_ack};
    let mut bytes = [0; 64];
    let mut w = Writer::new(&mut bytes);
    let ack = AckToWrite {
        path: Some(PathId(1)),
        largest: 9,
        delay: 25,
        ranges: [8..=9, 3..=3].into_iter(),
        ecn: Some(EcnCounts {
            ect0: 3,
            ect1: 0,
            ce: 1,
        }),
        timestamps: None,
    };
    assert!(write_ack(&mut w, ack));
    let encoded = w.written();
    let path = Some(PathId(1));
    let records = trace(&[
        Event::AckFrameSent {
            path,
            largest: 9,
            delay: 25,
            encoded,
        },
        sent(1),
    ]);
    let frame = &records[1]["data"]["frames"][0];
    assert_eq!(frame["frame_type"], "path_ack");
    assert_eq!(frame["path_id"], 1);
    assert_eq!(frame["ack_delay"], 0.2);
    assert_eq!(frame["acked_ranges"], serde_json::json!([[8, 9], [3]]));
    assert_eq!(frame["ce"], 1);
}

#[test]
fn frames_bear_the_schemas_names() {
    let cid = ConnectionId::new(&[1, 2, 3]).unwrap();
    let (id, path) = (StreamId(0), PathId(5));
    let reset = ResetStream {
        id,
        code: 3,
        final_size: 10,
    };
    let new = NewConnectionId {
        path: None,
        sequence: 1,
        retire_prior_to: 0,
        cid,
        token: ResetToken([0; 16]),
    };
    let by_transport = Close {
        frame_type: Some(6),
        code: 0x12a,
        reason: b"bad \"cert\"\n",
    };
    let by_application = Close {
        frame_type: None,
        code: 9,
        reason: &[0xff],
    };
    let frames = [
        (Frame::Padding { len: 9 }, "padding"),
        (Frame::ResetStream(reset), "reset_stream"),
        (
            Frame::ResetStreamAt {
                id,
                code: 1,
                final_size: 2,
                reliable_size: 1,
            },
            "reset_stream_at",
        ),
        (Frame::StopSending { id, code: 1 }, "stop_sending"),
        (Frame::NewToken { token: &[1] }, "new_token"),
        (
            Frame::Stream(Stream {
                id,
                offset: 0,
                data: &[1],
                fin: false,
            }),
            "stream",
        ),
        (Frame::MaxData(1), "max_data"),
        (
            Frame::MaxStreams {
                dir: Dir::Uni,
                max: 1,
            },
            "max_streams",
        ),
        (Frame::DataBlocked(1), "data_blocked"),
        (
            Frame::StreamDataBlocked { id, limit: 1 },
            "stream_data_blocked",
        ),
        (
            Frame::StreamsBlocked {
                dir: Dir::Bi,
                limit: 1,
            },
            "streams_blocked",
        ),
        (Frame::NewConnectionId(new), "new_connection_id"),
        (
            Frame::NewConnectionId(NewConnectionId {
                path: Some(path),
                ..new
            }),
            "path_new_connection_id",
        ),
        (
            Frame::RetireConnectionId {
                path: None,
                sequence: 1,
            },
            "retire_connection_id",
        ),
        (Frame::PathChallenge([1; 8]), "path_challenge"),
        (Frame::PathResponse([1; 8]), "path_response"),
        (Frame::ConnectionClose(by_transport), "connection_close"),
        (Frame::ConnectionClose(by_application), "connection_close"),
        (Frame::HandshakeDone, "handshake_done"),
        (Frame::ImmediateAck, "immediate_ack"),
        (
            Frame::AckFrequency {
                sequence: 1,
                threshold: 2,
                max_ack_delay_us: 3,
                reordering: 4,
            },
            "ack_frequency",
        ),
        (Frame::Datagram { data: &[1] }, "datagram"),
        (
            Frame::SourceSymbol(SourceSymbol::new(1, 1)),
            "source_symbol",
        ),
        (
            Frame::Repair(Repair {
                first: 1,
                count: 2,
                key: 3,
                symbol: &[4],
            }),
            "repair",
        ),
        (
            Frame::FecWindow {
                epoch: 1,
                symbols: 2,
                bytes: 3,
            },
            "fec_window",
        ),
        (Frame::PathAbandon { path, code: 1 }, "path_abandon"),
        (
            Frame::PathStatus {
                path,
                available: false,
                sequence: 1,
            },
            "path_status_backup",
        ),
        (Frame::MaxPathId(1), "max_path_id"),
        (Frame::PathsBlocked(1), "paths_blocked"),
        (
            Frame::PathCidsBlocked {
                path,
                next_sequence: 1,
            },
            "path_cids_blocked",
        ),
    ];
    let mut events: Vec<_> = frames.iter().map(|(f, _)| Event::FrameSent(f)).collect();
    events.push(sent(0));
    let records = trace(&events);
    let written = records[1]["data"]["frames"].as_array().unwrap();
    assert_eq!(written.len(), frames.len());
    for ((_, name), json) in frames.iter().zip(written) {
        assert_eq!(json["frame_type"], *name);
    }
    assert_eq!(written[16]["error"], "crypto_error_0x12a");
    assert_eq!(written[16]["reason"], "bad \"cert\"\n");
    assert_eq!(written[17]["error_space"], "application");
    assert_eq!(written[17]["reason_bytes"], "ff");
}

/// One of nearly every kind.
#[test]
fn every_event_makes_a_record_of_its_name() {
    let path = PathId::ZERO;
    let params = TransportParameters::default();
    let metrics = RecoveryMetrics::default();
    let error = TransportError::protocol_violation("quote \" and \u{7}");
    let four_tuple = four_tuple();
    let cid = ConnectionId::new(&[1; 4]).unwrap();
    let kind = SpaceKind::Data;
    let closed = ConnectionError::Transport(error.clone());
    let (trigger, timer) = (LossTrigger::TimeThreshold, TimerKind::Pto);
    let candidate = |path, smoothed_rtt, verdict| PathCandidate {
        path,
        verdict,
        smoothed_rtt,
        arrival: Duration::from_millis(7),
        room: 12_000,
        rate: Rate::from_bits_per_second(8_000_000),
        loss: 0.01,
    };
    let candidates = [
        candidate(path, Some(Duration::from_millis(12)), PathVerdict::Full),
        candidate(PathId(1), None, PathVerdict::LeftAlone),
    ];
    let events = [
        Event::ServerListening {
            local: four_tuple.local,
        },
        Event::DatagramDropped {
            four_tuple,
            len: 9,
            reason: DropReason::Malformed,
        },
        Event::StatelessResponse {
            four_tuple,
            kind: PacketKind::Retry,
            len: 9,
        },
        Event::IncomingConnection {
            four_tuple,
            dcid: cid,
            validated: true,
        },
        Event::ConnectionClosing { error: &error },
        Event::VersionInformation {
            local: &[Version::V1],
            remote: &[Version::V2],
            chosen: Some(Version::V1),
        },
        Event::VersionChosen {
            from: Version::V1,
            to: Version::V2,
        },
        Event::AlpnInformation { chosen: b"h3" },
        Event::ParametersSent(&params),
        Event::ParametersReceived(&params),
        Event::ParametersRestored(&params),
        Event::ZeroRttRejected,
        Event::SpinBit { path, spin: true },
        Event::SpecialPacketReceived {
            kind: PacketKind::VersionNegotiation,
            bytes: 50,
        },
        Event::PacketDropped {
            reason: DropReason::KeyUnavailable,
            details: "no keys",
        },
        Event::PacketBuffered { bytes: 5 },
        Event::PacketLost {
            kind,
            path,
            number: 1,
            bytes: 9,
            trigger,
        },
        Event::PacketSpuriouslyLost {
            kind,
            path,
            number: 1,
        },
        Event::PacketsAcked {
            kind,
            path,
            first: 0,
            last: u64::MAX,
        },
        Event::DatagramsSent {
            count: 3,
            bytes: 3600,
            ecn: Ecn::Ect0,
        },
        Event::DatagramReceived { bytes: 1200 },
        Event::StreamState {
            id: StreamId(3),
            half: HalfStream::Sending,
            state: "reset_sent",
        },
        Event::FlowBlocked {
            scope: FlowScope::Connection,
            limit: 9,
            blocked: true,
        },
        Event::FlowBlocked {
            scope: FlowScope::Streams(Dir::Bi),
            limit: 9,
            blocked: true,
        },
        Event::KeysInstalled(Level::ZeroRtt),
        Event::TupleAssigned {
            path: PathId(1),
            four_tuple: Some(four_tuple),
        },
        Event::TupleAssigned {
            path: PathId(1),
            four_tuple: None,
        },
        Event::PathValidated {
            path,
            to: four_tuple,
        },
        Event::MtuUpdated {
            path,
            old: 1200,
            new: 1452,
            done: true,
        },
        Event::MetricsUpdated {
            path,
            metrics: &metrics,
        },
        Event::CongestionState {
            path,
            old: "slow_start",
            new: "recovery",
        },
        Event::TimerSet {
            timer,
            path: Some(path),
            at: Instant::FAR_FUTURE,
        },
        Event::TimerExpired { timer, path: None },
        Event::PolicyDecision {
            policy: "ack",
            name: "frequency",
            path: None,
            decision: "request",
            values: [Some(10.0), Some(f64::INFINITY)],
        },
        Event::PathChosen {
            path: None,
            scheduler: "auto",
            reason: "waits",
            waiting: 1000,
            changes: 3,
            candidates: &candidates,
        },
        Event::Abuse {
            kind: Abuse::OptimisticAck,
        },
        Event::ConnectionClosed {
            error: &closed,
            application: None,
        },
    ];
    let records = trace(&events);
    assert_eq!(records.len(), events.len() + 1);
    for (event, record) in events.iter().zip(&records[1..]) {
        let name = record["name"].as_str().unwrap();
        let (namespace, name) = name.split_once(':').unwrap();
        assert_eq!(name, event.name());
        assert!(namespace == "quic" || namespace == "tautline");
        assert!(record["data"].is_object() && record["time"].is_f64());
    }
    let of = |name: &str| &records.iter().find(|r| r["name"] == name).unwrap()["data"];
    assert_eq!(
        of("quic:connection_closed")["connection_error"],
        "protocol_violation"
    );
    assert_eq!(of("quic:connection_closed")["initiator"], "local");
    assert_eq!(
        of("quic:version_information")["server_versions"][0],
        "00000001"
    );
    assert_eq!(of("quic:packet_lost")["trigger"], "time_threshold");
    let choice = of("tautline:path_chosen");
    assert!(choice["path_id"].is_null() && choice["reason"] == "waits");
    assert_eq!(
        (&choice["waiting"], &choice["changes"]),
        (&1000.into(), &3.into())
    );
    let [full, alone] = choice["candidates"].as_array().unwrap().as_slice() else {
        panic!("{choice}");
    };
    assert_eq!(
        (&full["verdict"], &full["smoothed_rtt"]),
        (&"full".into(), &12.0.into())
    );
    assert_eq!(
        (&full["arrival"], &full["room"]),
        (&7.0.into(), &12_000.into())
    );
    assert_eq!(
        (&alone["path_id"], &alone["rate"]),
        (&1.into(), &8_000_000.into())
    );
    assert!(alone["smoothed_rtt"].is_null() && alone["verdict"] == "left_alone");
    assert_eq!(
        of("tautline:policy_decision")["values"],
        serde_json::json!([10, null])
    );
}

#[test]
fn both_directions_of_a_key_are_named() {
    let records = trace(&[
        Event::KeysInstalled(Level::Handshake),
        Event::KeysUpdated {
            phase: 3,
            by_peer: true,
        },
        Event::KeysDiscarded(Level::Initial),
    ]);
    let types: Vec<_> = records[1..]
        .iter()
        .map(|r| r["data"]["key_type"].as_str().unwrap())
        .collect();
    assert_eq!(
        types,
        [
            "server_handshake_secret",
            "client_handshake_secret",
            "server_1rtt_secret",
            "client_1rtt_secret",
            "server_initial_secret",
            "client_initial_secret",
        ]
    );
    assert_eq!(records[3]["data"]["key_phase"], 3);
    assert_eq!(records[3]["data"]["trigger"], "remote_update");
}

#[test]
fn the_first_failure_of_the_writer_silences_the_sink() {
    struct Full(Arc<Mutex<u32>>);
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            *self.0.lock().unwrap() += 1;
            Err(Error::other("disk full"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let calls = Arc::new(Mutex::new(0));
    let mut sink = QlogSink::new(Box::new(Full(Arc::clone(&calls))), &info(Side::Client));
    for number in 0..100_000 {
        sink.on_event(START, &sent(number));
    }
    assert!(sink.batch.capacity() < 100_000);
    drop(sink);
    assert_eq!(*calls.lock().unwrap(), 1);
}

#[test]
fn memory_is_bounded_whatever_never_completes() {
    let out = Shared::default();
    let mut sink = QlogSink::new(Box::new(out.clone()), &info(Side::Client));
    sink.on_event(START, &received(0, PathId::ZERO));
    for _ in 0..100_000 {
        sink.on_event(START, &Event::FrameSent(&Frame::Ping));
        sink.on_event(START, &Event::FrameReceived(&Frame::Ping));
    }
    let open = sink.open.as_ref().unwrap().frames.len();
    assert!(sink.sent_frames.len() + open < 2 * MAX_FRAME_BYTES + 1000);
    for _ in 0..10_000 {
        sink.on_event(START, &confirmed());
    }
    assert!(sink.after_open.len() + sink.batch.len() < 2 * BATCH_BYTES);
    drop(sink);
    assert_eq!(out.records().len(), 10_002);
}

#[test]
fn time_before_the_start_counts_as_the_start() {
    let out = Shared::default();
    let mut sink = QlogSink::new(Box::new(out.clone()), &info(Side::Client));
    sink.on_event(Instant::ZERO, &confirmed());
    drop(sink);
    assert_eq!(out.records()[1]["time"], 0.0);
}

#[test]
fn closes_name_their_code_and_drops_their_trigger() {
    let records = trace(&[
        Event::ConnectionClosed {
            error: &ConnectionError::LocallyClosed,
            application: Some((7, b"enough")),
        },
        Event::PacketDropped {
            reason: DropReason::DecryptionFailure,
            details: "not authentic",
        },
        Event::PathMigrated {
            path: PathId::ZERO,
            from: four_tuple(),
            to: four_tuple(),
        },
    ]);
    let closed = &records[1]["data"];
    assert_eq!(closed["initiator"], "local");
    assert_eq!(closed["error_code"], 7);
    assert_eq!(closed["reason"], "enough");
    assert_eq!(records[2]["data"]["trigger"], "decryption_failure");
    assert_eq!(records[2]["data"]["details"]["reason"], "not authentic");
    assert_eq!(records[3]["data"]["new"], "migration_started");
}
