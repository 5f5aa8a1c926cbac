//! What a peer may do with the frames and paths of RFC 10069: each abuse ends in the RFC's error, or in
//! nothing, with bounded state, and the healthy path goes on.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    ops::RangeInclusive,
    time::Duration,
};

use tautline_sim::Datagram;
use tautline_testkit::pair::server_address;
use tautline_transport::{
    config::TransportConfig,
    connection::Event,
    error::{Code, ConnectionError},
    multipath::{MultipathConfig, OpenPathError, PathStatus, abandon as reasons},
    path::PathEvent,
    tls::Level,
    units::{FourTuple, PathId},
    wire::{
        Close, ConnectionId, Frame, NewConnectionId, PacketTypes, Reader, ResetToken, Writer,
        decode_packet_number, row_of, write_path_echo,
    },
};

use crate::{
    heap,
    kit::{MS, SECOND},
    raw::{Arena, Peer, ack_of, encode, second_address},
};

/// What the raw peer allows at first; the victim allows 7.
const PEER_MAX: u64 = 3;
const VICTIM_MAX: u32 = 7;

fn multipath(config: &mut TransportConfig) {
    config.multipath = Some(MultipathConfig::default());
    config.observer = None;
    // A busy link of no loss: probes for the MTU would only be in the way.
    config.mtu.discovery = false;
    config.keep_alive_interval = None;
    config.max_idle_timeout = Some(600 * SECOND);
}

/// A raw peer that speaks on several paths.
struct Paths {
    arena: Arena,
    peer: Peer,
    /// The victim's connection IDs, by path and sequence number.
    given: BTreeMap<(u32, u64), ConnectionId>,
    numbers: BTreeMap<u32, u64>,
    /// Packets of [`Peer::got`], and datagrams, looked through.
    read: usize,
    seen: usize,
    /// Largest packet number received on path 0.
    largest: Option<u64>,
    received: BTreeSet<u64>,
    /// Acknowledgements: path and largest number.
    acks: Vec<(Option<PathId>, u64)>,
    abandoned: Vec<(PathId, u64)>,
    max_path_id: Option<u64>,
    challenges: Vec<[u8; 8]>,
    retired: Vec<(Option<PathId>, u64)>,
}

fn id_of(path: u32, sequence: u64) -> ConnectionId {
    let [a, b, c, d] = path.to_be_bytes();
    ConnectionId::new(&[0x77, a, b, c, d, sequence as u8, 1, 2]).expect("8 bytes")
}

fn token_of(path: u32, sequence: u64) -> ResetToken {
    let mut token = [0xc0 | path as u8; 16];
    token[0] = sequence as u8;
    ResetToken(token)
}

/// A connection ID of the raw peer's for a path.
fn new_id(path: u32, sequence: u64) -> Frame<'static> {
    Frame::NewConnectionId(NewConnectionId {
        path: Some(PathId(path)),
        sequence,
        retire_prior_to: 0,
        cid: id_of(path, sequence),
        token: token_of(path, sequence),
    })
}

fn path_ack(path: u32, range: RangeInclusive<u64>) -> Vec<u8> {
    path_acks(path, &[range])
}

/// A PATH_ACK of these ranges, descending.
fn path_acks(path: u32, ranges: &[RangeInclusive<u64>]) -> Vec<u8> {
    ack_of(Some(PathId(path)), ranges)
}

fn path_echo(path: u32, range: RangeInclusive<u64>) -> Vec<u8> {
    let mut buf = [0; 64];
    let mut w = Writer::new(&mut buf);
    write_path_echo(&mut w, PathId(path), std::iter::once(range));
    w.into_written().to_vec()
}

fn abandon(path: u32) -> Frame<'static> {
    Frame::PathAbandon {
        path: PathId(path),
        code: 0,
    }
}

fn status(path: u32, available: bool, sequence: u64) -> Frame<'static> {
    Frame::PathStatus {
        path: PathId(path),
        available,
        sequence,
    }
}

/// Every frame that names `path`, with contents that no rule forbids.
fn about(path: u32) -> Vec<Vec<u8>> {
    let id = PathId(path);
    vec![
        encode(&[abandon(path)]),
        encode(&[status(path, true, 1)]),
        encode(&[status(path, false, 2)]),
        encode(&[new_id(path, 0)]),
        encode(&[Frame::RetireConnectionId {
            path: Some(id),
            sequence: 0,
        }]),
        encode(&[Frame::PathCidsBlocked {
            path: id,
            next_sequence: 0,
        }]),
        path_ack(path, 0..=0),
        path_echo(path, 0..=0),
    ]
}

impl Paths {
    /// A real server and a raw client.
    fn server(seed: u64) -> Self {
        let (arena, peer) = Arena::confirmed_with(seed, multipath, |parameters| {
            parameters.initial_max_path_id = Some(PEER_MAX);
        });
        Self::over(arena, peer)
    }

    /// A real client and a raw server.
    fn client(seed: u64) -> Self {
        let (arena, peer) = Arena::client_with(seed, multipath, |parameters| {
            parameters.initial_max_path_id = Some(PEER_MAX);
        });
        Self::over(arena, peer)
    }

    fn over(arena: Arena, peer: Peer) -> Self {
        let mut paths = Self {
            arena,
            peer,
            given: BTreeMap::new(),
            numbers: BTreeMap::new(),
            read: 0,
            seen: 0,
            largest: None,
            received: BTreeSet::new(),
            acks: Vec::new(),
            abandoned: Vec::new(),
            max_path_id: None,
            challenges: Vec::new(),
            retired: Vec::new(),
        };
        paths.given.insert((0, 0), paths.peer.dcid);
        paths.numbers.insert(0, paths.peer.numbers[2]);
        paths.run(100 * MS);
        paths
    }

    fn run(&mut self, duration: Duration) {
        self.arena.run(duration);
        self.read();
    }

    fn read(&mut self) {
        self.arena.collect(&mut self.peer);
        for (_, datagram) in &self.arena.inbox()[self.seen..] {
            let bytes = &datagram.payload;
            if bytes[0] & 0x80 == 0 && bytes[1..9] == *self.peer.scid.as_slice() {
                let len = usize::from(bytes[0] & 3) + 1;
                let number = &bytes[9..9 + len];
                let number = number
                    .iter()
                    .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                let number = decode_packet_number(self.largest, number, len);
                self.largest = self.largest.max(Some(number));
                self.received.insert(number);
            }
        }
        self.seen = self.arena.inbox().len();
        for got in &self.peer.got[self.read..] {
            let mut reader = Reader::new(&got.payload);
            while !reader.is_empty() {
                match Frame::decode(&mut reader).expect("it decodes") {
                    Frame::NewConnectionId(new) => {
                        let path = new.path.map_or(0, |path| path.0);
                        self.given.insert((path, new.sequence), new.cid);
                    }
                    Frame::Ack(ack) if got.level == Level::OneRtt => {
                        self.acks.push((ack.path, ack.largest));
                    }
                    Frame::PathAbandon { path, code } => self.abandoned.push((path, code)),
                    Frame::MaxPathId(max) => self.max_path_id = Some(max),
                    Frame::PathChallenge(data) => self.challenges.push(data),
                    Frame::RetireConnectionId { path, sequence } => {
                        self.retired.push((path, sequence));
                    }
                    _ => {}
                }
            }
        }
        self.read = self.peer.got.len();
    }

    /// A 1-RTT packet on a path.
    fn packet(&mut self, path: u32, payload: &[u8]) -> Datagram {
        let number = self.numbers.entry(path).or_default();
        self.peer.dcid = self.given[&(path, 0)];
        let packet = self.peer.packet_numbered(Level::OneRtt, *number, payload);
        *number += 1;
        self.peer.datagram(packet)
    }

    fn send(&mut self, path: u32, payload: &[u8]) {
        let datagram = self.packet(path, payload);
        self.arena.send(datagram);
    }

    /// The raw client opens a path and answers its challenge.
    fn open(&mut self, path: u32) {
        self.send(0, &encode(&[new_id(path, 0)]));
        self.run(50 * MS);
        self.challenges.clear();
        self.send(path, &encode(&[Frame::PathChallenge([9; 8])]));
        self.run(50 * MS);
        let answers: Vec<_> = self.challenges.drain(..).map(Frame::PathResponse).collect();
        assert!(!answers.is_empty(), "no challenge");
        self.send(path, &encode(&answers));
        self.run(50 * MS);
        assert!(self.saw(|event| {
            matches!(event, PathEvent::Validated { path: id, .. } if id.0 == path)
        }));
    }

    fn saw(&self, wanted: impl Fn(&PathEvent) -> bool) -> bool {
        let events = self.arena.app().events.iter();
        events
            .filter_map(|(_, event)| match event {
                Event::Path(event) => Some(event),
                _ => None,
            })
            .any(wanted)
    }

    #[track_caller]
    fn expect_close(mut self, payload: &[u8], code: Code) {
        self.send(0, payload);
        self.run(100 * MS);
        let ended = self.arena.app().ended();
        assert_eq!(self.arena.victim_error(), Some(code), "ended {ended:?}");
    }

    /// Whether path 0 is answered.
    #[track_caller]
    fn assert_alive(&mut self) {
        assert_eq!(self.arena.app().ended(), None);
        self.acks.clear();
        let number = self.numbers[&0];
        self.send(0, &encode(&[Frame::Ping]));
        self.run(100 * MS);
        assert!(
            self.acks.contains(&(Some(PathId(0)), number)),
            "{:?}",
            self.acks
        );
    }

    /// Acknowledges every packet of path 0.
    fn ack_all(&mut self) {
        // Numbers that were skipped are not acknowledged; older packets are.
        while self.received.len() > 100 {
            self.received.pop_first();
        }
        let ranges = self.received.iter().rev().map(|number| *number..=*number);
        let mut merged: Vec<RangeInclusive<u64>> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if *last.start() == range.end() + 1 => {
                    *last = *range.start()..=*last.end();
                }
                _ => merged.push(range),
            }
        }
        if !merged.is_empty() {
            self.send(0, &path_acks(0, &merged));
            self.run(50 * MS);
        }
    }

    fn paths(&mut self) -> Vec<u32> {
        self.arena
            .on_victim(|victim, _| victim.paths().map(|id| id.0).collect())
    }
}

#[test]
fn ids_above_the_limit_end_the_connection() {
    for payload in about(VICTIM_MAX + 1).into_iter().chain(about(u32::MAX)) {
        Paths::server(1).expect_close(&payload, Code::PROTOCOL_VIOLATION);
    }
}

#[test]
fn echoes_of_what_was_not_sent_or_not_offered_end_the_connection() {
    Paths::server(1).expect_close(&path_echo(0, 0..=1 << 30), Code::PROTOCOL_VIOLATION);
    let unwilling = |config: &mut TransportConfig| {
        let mut without = MultipathConfig::default();
        without.echoes = false;
        config.multipath = Some(without);
    };
    let coded = |config: &mut TransportConfig| config.fec.decode = true;
    let reasons: [&dyn Fn(&mut TransportConfig); 2] = [&unwilling, &coded];
    for reason in reasons {
        let (mut arena, mut peer) = Arena::confirmed_with(
            1,
            |config| {
                multipath(config);
                reason(config);
            },
            |parameters| parameters.initial_max_path_id = Some(PEER_MAX),
        );
        let datagram = peer.one_rtt_bytes(&path_echo(0, 0..=0));
        arena.expect_close(&mut peer, datagram, Code::PROTOCOL_VIOLATION);
    }
}

#[test]
fn echoes_that_are_offered_end_nothing() {
    let mut paths = Paths::server(1);
    paths.assert_alive();
    let newest = paths.largest.expect("it was answered");
    paths.send(0, &path_echo(0, newest..=newest));
    paths.assert_alive();
}

#[test]
fn frames_about_paths_need_negotiation() {
    for payload in about(1).into_iter().chain([
        encode(&[Frame::MaxPathId(9)]),
        encode(&[Frame::PathsBlocked(0)]),
        path_ack(0, 0..=0),
    ]) {
        let (mut arena, mut peer) = Arena::confirmed(1, |_| {});
        let datagram = peer.one_rtt_bytes(&payload);
        arena.expect_close(&mut peer, datagram, Code::PROTOCOL_VIOLATION);
    }
}

#[test]
fn limits_that_cannot_be_end_the_connection() {
    for frame in [
        Frame::MaxPathId(PEER_MAX - 1),
        Frame::MaxPathId(1 << 32),
        Frame::PathsBlocked(u64::from(VICTIM_MAX) + 1),
        Frame::PathCidsBlocked {
            path: PathId(1),
            next_sequence: 2,
        },
        Frame::PathCidsBlocked {
            path: PathId(0),
            next_sequence: 100,
        },
        Frame::RetireConnectionId {
            path: Some(PathId(1)),
            sequence: 1,
        },
        // No connection IDs are issued above the raw peer's limit.
        Frame::RetireConnectionId {
            path: Some(PathId(PEER_MAX as u32 + 1)),
            sequence: 0,
        },
    ] {
        Paths::server(2).expect_close(&encode(&[frame]), Code::PROTOCOL_VIOLATION);
    }
    for path in [0, 1] {
        let mut paths = Paths::server(2);
        paths.open(1);
        paths.expect_close(&path_ack(path, 0..=9_999), Code::PROTOCOL_VIOLATION);
    }
}

#[test]
fn limits_that_do_not_grow_are_ignored() {
    let mut paths = Paths::server(3);
    for max in [PEER_MAX, PEER_MAX + 2, PEER_MAX, PEER_MAX + 1] {
        paths.send(0, &encode(&[Frame::MaxPathId(max)]));
        paths.run(50 * MS);
    }
    let last = paths.given.keys().map(|(path, _)| *path).max();
    assert_eq!(last, Some(PEER_MAX as u32 + 2), "no gaps, none above");
    paths.send(0, &encode(&[Frame::MaxPathId(u64::from(u32::MAX))]));
    paths.run(50 * MS);
    let last = paths.given.keys().map(|(path, _)| *path).max();
    assert_eq!(last, Some(VICTIM_MAX), "none above our own");
    paths.assert_alive();
}

#[test]
fn connection_ids_must_name_one_path() {
    let with = |path: u32, sequence: u64, cid: ConnectionId| {
        Frame::NewConnectionId(NewConnectionId {
            path: Some(PathId(path)),
            sequence,
            retire_prior_to: 0,
            cid,
            token: token_of(path, sequence),
        })
    };
    let duplicate = id_of(1, 0);
    let handshakes = Paths::server(4).peer.scid;
    for frames in [
        // Over two paths that are not open, over one that is, under two numbers, twice a number.
        [with(1, 0, duplicate), with(2, 0, duplicate)],
        [with(1, 0, duplicate), with(0, 1, duplicate)],
        [with(1, 0, handshakes), Frame::Ping],
        [with(1, 0, duplicate), with(1, 1, duplicate)],
        [with(1, 0, duplicate), with(1, 0, id_of(1, 1))],
    ] {
        Paths::server(4).expect_close(&encode(&frames), Code::PROTOCOL_VIOLATION);
    }
    let mut open = Paths::server(4);
    open.open(1);
    open.expect_close(&encode(&[with(2, 0, duplicate)]), Code::PROTOCOL_VIOLATION);
}

#[test]
fn connection_ids_have_limits() {
    let many: Vec<_> = (0..9).map(|sequence| new_id(1, sequence)).collect();
    Paths::server(5).expect_close(&encode(&many), Code::CONNECTION_ID_LIMIT_ERROR);
    let mut open = Paths::server(5);
    open.open(1);
    open.expect_close(&encode(&many), Code::CONNECTION_ID_LIMIT_ERROR);
    // Per path, as many as the limit says.
    let mut paths = Paths::server(5);
    for path in 1..=VICTIM_MAX {
        let ids: Vec<_> = (0..8).map(|sequence| new_id(path, sequence)).collect();
        paths.send(0, &encode(&ids));
    }
    paths.assert_alive();
    let mut empty = vec![0x7e, 0x78, 1, 0, 0, 0];
    empty.extend([7; 16]);
    Paths::server(5).expect_close(&empty, Code::FRAME_ENCODING_ERROR);
}

#[test]
fn ids_of_unused_paths_are_retired_when_the_peer_asks() {
    let mut paths = Paths::server(6);
    let rotated = |sequence| {
        Frame::NewConnectionId(NewConnectionId {
            path: Some(PathId(1)),
            sequence,
            retire_prior_to: sequence,
            cid: id_of(1, sequence),
            token: token_of(1, sequence),
        })
    };
    for sequence in 0..200 {
        paths.send(0, &encode(&[rotated(sequence)]));
        paths.run(30 * MS);
        paths.ack_all();
    }
    paths.assert_alive();
    for sequence in 0..199 {
        assert!(paths.retired.contains(&(Some(PathId(1)), sequence)));
    }
}

#[test]
fn frames_about_paths_stand_in_one_rtt_packets_only() {
    for ty in [
        0x3e, 0x3f, 0x3e75, 0x3e76, 0x3e77, 0x3e78, 0x3e79, 0x3e7a, 0x3e7b, 0x3e7c,
    ] {
        let row = row_of(ty).expect("a frame");
        assert!(row.allowed.contains(PacketTypes::ONE_RTT));
        for other in [
            PacketTypes::INITIAL,
            PacketTypes::HANDSHAKE,
            PacketTypes::ZERO_RTT,
        ] {
            assert!(!row.allowed.contains(other), "{}", row.name);
        }
    }
}

#[test]
fn frames_about_unused_and_closed_paths_are_ignored() {
    let mut paths = Paths::server(7);
    // Never opened.
    for payload in about(3).into_iter().skip(1) {
        paths.send(0, &payload);
    }
    paths.assert_alive();
    // Closed before it was opened, then closed after.
    paths.open(1);
    for path in [1, 3] {
        paths.send(0, &encode(&[abandon(path)]));
        paths.run(50 * MS);
        paths.ack_all();
        for _ in 0..3 {
            for payload in about(path) {
                if path == 1 && payload == path_ack(1, 0..=0) {
                    // That one may have been sent.
                    continue;
                }
                paths.send(0, &payload);
            }
            paths.run(SECOND);
        }
        paths.assert_alive();
    }
    paths.run(10 * SECOND);
    paths.ack_all();
    assert_eq!(paths.paths(), [0]);
    assert!(paths.abandoned.contains(&(PathId(1), 0)) && paths.abandoned.contains(&(PathId(3), 0)));
    paths.assert_alive();
}

#[test]
fn nothing_new_is_given_for_an_abandoned_path() {
    let mut paths = Paths::server(8);
    paths.open(1);
    paths.send(0, &encode(&[abandon(1)]));
    paths.run(50 * MS);
    let count = |paths: &Paths| paths.given.keys().filter(|(path, _)| *path == 1).count();
    let before = count(&paths);
    for sequence in 0..before as u64 {
        let retire = Frame::RetireConnectionId {
            path: Some(PathId(1)),
            sequence,
        };
        let blocked = Frame::PathCidsBlocked {
            path: PathId(1),
            next_sequence: 1,
        };
        paths.send(0, &encode(&[retire, blocked]));
        paths.run(20 * MS);
    }
    paths.assert_alive();
    assert_eq!(count(&paths), before);
}

#[test]
fn late_packets_of_an_abandoned_path_are_acknowledged_elsewhere_for_a_while() {
    let mut paths = Paths::server(9);
    paths.open(1);
    paths.send(0, &encode(&[abandon(1)]));
    paths.run(20 * MS);
    paths.acks.clear();
    let late = paths.numbers[&1];
    let before = paths.arena.inbox().len();
    paths.send(1, &encode(&[Frame::Ping, Frame::PathChallenge([1; 8])]));
    paths.run(100 * MS);
    assert!(paths.acks.contains(&(Some(PathId(1)), late)));
    // To the connection ID of path 0, and the challenge is not answered.
    for (_, datagram) in &paths.arena.inbox()[before..] {
        assert_eq!(&datagram.payload[1..9], paths.peer.scid.as_slice());
    }
    paths.run(10 * SECOND);
    paths.ack_all();
    paths.acks.clear();
    paths.send(1, &encode(&[Frame::Ping]));
    paths.run(SECOND);
    assert!(!paths.acks.iter().any(|(path, _)| *path == Some(PathId(1))));
    paths.assert_alive();
}

#[test]
fn the_last_path_ends_the_connection() {
    Paths::server(10).expect_close(&encode(&[abandon(0)]), Code::NO_ERROR);
    let mut paths = Paths::server(10);
    paths.open(1);
    paths.send(1, &encode(&[abandon(0)]));
    paths.run(50 * MS);
    assert_eq!(paths.arena.app().ended(), None, "another is left");
    paths.send(1, &encode(&[abandon(1)]));
    paths.run(50 * MS);
    assert_eq!(paths.arena.victim_error(), Some(Code::NO_ERROR));
}

#[test]
fn a_close_on_any_path_ends_the_connection() {
    let mut paths = Paths::server(11);
    paths.open(1);
    let close = Close {
        frame_type: None,
        code: 7,
        reason: &[],
    };
    paths.send(1, &encode(&[Frame::ConnectionClose(close)]));
    paths.run(50 * MS);
    assert!(matches!(
        paths.arena.app().ended(),
        Some(ConnectionError::PeerApplication { code: 7, .. })
    ));
}

/// As a peer that lost its state answers.
fn reset(paths: &mut Paths, token: ResetToken) {
    let mut datagram = vec![0x40; 60];
    datagram[44..].copy_from_slice(&token.0);
    let datagram = paths.peer.datagram(datagram);
    paths.arena.send(datagram);
    paths.run(50 * MS);
}

#[test]
fn a_stateless_reset_of_any_path_ends_the_connection() {
    let mut paths = Paths::server(12);
    paths.open(1);
    reset(&mut paths, token_of(1, 0));
    assert_eq!(
        paths.arena.app().ended(),
        Some(&ConnectionError::StatelessReset)
    );
}

#[test]
fn a_stateless_reset_of_an_abandoned_path_means_nothing() {
    let mut paths = Paths::server(13);
    paths.open(1);
    paths.send(0, &encode(&[abandon(1)]));
    paths.run(20 * MS);
    reset(&mut paths, token_of(1, 0));
    paths.assert_alive();
    // Nor one of an ID that was never used.
    paths.send(0, &encode(&[new_id(2, 0)]));
    reset(&mut paths, token_of(2, 0));
    paths.assert_alive();
}

#[test]
fn storms_of_status_leave_one_event() {
    let mut paths = Paths::server(14);
    paths.open(1);
    for round in 0..200 {
        let frames: Vec<_> = (0..200)
            .map(|index| status(1, index % 2 == 0, round * 200 + index + 1))
            .collect();
        paths.send(0, &encode(&frames));
    }
    paths.run(SECOND);
    let changes = paths
        .arena
        .app()
        .events
        .iter()
        .filter(|(_, event)| matches!(event, Event::Path(PathEvent::StatusChanged { .. })));
    assert!(changes.count() <= 200);
    let now = paths
        .arena
        .on_victim(|victim, _| victim.path_stats(PathId(1)).map(|path| path.status));
    assert_eq!(now, Some(PathStatus::Backup));
    paths.assert_alive();
}

#[test]
fn a_flood_of_abandons_waits_for_acknowledgements() {
    let mut paths = Paths::server(15);
    let all: Vec<_> = (1..=VICTIM_MAX).map(abandon).collect();
    paths.send(0, &encode(&all));
    paths.run(100 * MS);
    assert_eq!(paths.abandoned.len(), 7);
    assert_eq!(paths.max_path_id, None, "nothing was acknowledged");
    paths.ack_all();
    assert_eq!(paths.max_path_id, Some(14));
    paths.assert_alive();
    // And is refused when it goes on regardless.
    let more: Vec<_> = (8..=15).map(abandon).collect();
    paths.expect_close(&encode(&more), Code::PROTOCOL_VIOLATION);
}

#[test]
fn paths_given_up_unused_leave_nothing() {
    let mut paths = Paths::server(16);
    paths.send(0, &encode(&[Frame::MaxPathId(1_000_000)]));
    paths.run(100 * MS);
    let mut next = 1;
    let mut round = |paths: &mut Paths| {
        for _ in 0..7 {
            // The path cannot open, as no connection ID leads back; its packet opens all the same.
            paths.send(next, &encode(&[Frame::Ping]));
            paths.send(0, &encode(&[status(next, false, 1), abandon(next)]));
            next += 1;
        }
        paths.run(50 * MS);
        paths.ack_all();
        paths.run(50 * MS);
        paths
            .given
            .retain(|(path, _), _| *path == 0 || *path >= next);
        paths.numbers.retain(|path, _| *path == 0);
        paths.abandoned.clear();
        paths.acks.clear();
        paths.arena.forget(&mut paths.peer);
        (paths.read, paths.seen) = (0, 0);
    };
    let mut grown = |rounds: usize| {
        let ((), grown) = heap::growth(|| {
            for _ in 0..rounds {
                round(&mut paths);
            }
        });
        grown
    };
    let _ = grown(50);
    // Neither more after many than after few, but for tables that double.
    let (few, many) = (grown(50), grown(300));
    println!("{few} {many}");
    assert!(few.max(many) < 64 * 1024, "{few} {many}");
    paths.assert_alive();
}

#[test]
fn a_flood_of_openings_is_refused_in_bounds() {
    let mut paths = Paths::server(17);
    let ids: Vec<_> = (1..=PEER_MAX as u32).map(|path| new_id(path, 0)).collect();
    paths.send(0, &encode(&ids));
    paths.run(50 * MS);
    // From addresses that never answer, and that the peer changes all the time.
    for round in 0..300u32 {
        for path in 1..=PEER_MAX as u32 {
            let mut datagram = paths.packet(path, &encode(&[Frame::PathChallenge([3; 8])]));
            datagram.src = SocketAddr::from(([10, 9, path as u8, round as u8], 1_000));
            paths.arena.inject(datagram);
        }
        paths.run(5 * MS);
        assert!(paths.paths().len() <= 1 + PEER_MAX as usize);
    }
    paths.assert_alive();
    paths.run(30 * SECOND);
    paths.ack_all();
    paths.assert_alive();
    for path in 1..=PEER_MAX as u32 {
        let given_up = |(id, _): &(PathId, u64)| id.0 == path;
        assert!(paths.abandoned.iter().any(given_up), "{path}");
    }
}

#[test]
fn a_flood_of_challenges_over_several_paths_is_bounded() {
    let mut paths = Paths::server(18);
    for path in 1..=PEER_MAX as u32 {
        paths.open(path);
    }
    let before = paths.arena.inbox().len();
    for _ in 0..100 {
        for path in 0..=PEER_MAX as u32 {
            let frames: Vec<_> = (0..100)
                .map(|data| Frame::PathChallenge([data; 8]))
                .collect();
            paths.send(path, &encode(&frames));
        }
        paths.run(5 * MS);
    }
    // One answer for each packet at most would be honest; floods get less.
    let answers = paths.arena.inbox().len() - before;
    println!("{answers}");
    assert!(answers < 4 * 100 * 10, "{answers}");
    paths.assert_alive();
}

/// A client whose path 1 waits for the server's connection IDs.
fn client_that_opens_a_path() -> Paths {
    let mut paths = Paths::client(19);
    let to = FourTuple {
        local: second_address(),
        remote: server_address(),
    };
    let opened = paths
        .arena
        .on_victim(|victim, now| victim.open_path(now, to));
    assert_eq!(opened, Ok(PathId(1)), "waits for connection IDs");
    paths
}

#[test]
fn a_server_that_abandons_what_the_client_waits_for_is_heard() {
    let mut paths = client_that_opens_a_path();
    paths.run(50 * MS);
    paths.send(0, &encode(&[abandon(1)]));
    paths.run(50 * MS);
    assert!(paths.saw(|event| matches!(
        event,
        PathEvent::Abandoned {
            path: PathId(1),
            by_peer: true,
            ..
        }
    )));
    paths.assert_alive();
}

#[test]
fn a_server_cannot_open_paths() {
    let mut paths = Paths::client(20);
    paths.send(0, &encode(&[new_id(1, 0)]));
    paths.run(50 * MS);
    paths.send(1, &encode(&[Frame::Ping]));
    paths.run(SECOND);
    assert_eq!(paths.paths(), [0]);
    paths.assert_alive();
}

#[test]
fn a_move_of_one_path_leaves_the_others() {
    let mut paths = Paths::server(21);
    paths.open(1);
    paths.open(2);
    let mut datagram = paths.packet(1, &encode(&[Frame::Ping]));
    datagram.src = second_address();
    paths.arena.inject(datagram);
    paths.run(50 * MS);
    let moved: Vec<u32> = (0..3)
        .filter(|&id| {
            paths.saw(|event| matches!(event, PathEvent::Migrated { path, .. } if path.0 == id))
        })
        .collect();
    assert_eq!(moved, [1]);
    paths.assert_alive();
    // It does not answer from there; the path goes back, and the connection on.
    paths.run(20 * SECOND);
    paths.assert_alive();
}

/// A server that gives no connection IDs for a path: it is given up, and the next has its turn.
#[test]
fn a_path_without_connection_ids_is_given_up() {
    let mut paths = Paths::client(19);
    let mut to = FourTuple {
        local: second_address(),
        remote: server_address(),
    };
    for id in [1, 2] {
        to.local.set_port(700 + id as u16);
        let opened = paths
            .arena
            .on_victim(|victim, now| victim.open_path(now, to));
        assert_eq!(opened, Ok(PathId(id)));
    }
    paths.send(0, &encode(&[new_id(2, 0)]));
    paths.run(5 * SECOND);
    let over = PathEvent::Abandoned {
        path: PathId(1),
        code: reasons::NO_CID_AVAILABLE_FOR_PATH,
        by_peer: false,
    };
    let is_over = |event: &PathEvent| *event == over;
    assert!(!paths.saw(is_over), "it may still come");
    paths.ack_all();
    paths.run(10 * SECOND);
    paths.assert_alive();
    assert!(paths.saw(is_over));
    assert!(paths.saw(|event| matches!(
        event,
        PathEvent::Opened {
            path: PathId(2),
            ..
        }
    )));
}

/// Opens path 1 from `first`, whence nothing more comes, and has the true address prove itself by probes alone before it sends
/// anything else.
fn opened_from(first: SocketAddr) -> Paths {
    let mut paths = Paths::server(31);
    let ids: Vec<_> = (0..3).map(|sequence| new_id(1, sequence)).collect();
    paths.send(0, &encode(&ids));
    paths.run(50 * MS);
    let probe = |data| {
        encode(&[
            Frame::PathChallenge([data; 8]),
            Frame::Padding { len: 1150 },
        ])
    };
    let mut datagram = paths.packet(1, &probe(9));
    datagram.src = first;
    paths.arena.inject(datagram);
    paths.run(50 * MS);
    assert_eq!(paths.paths(), [0, 1]);
    paths.challenges.clear();
    paths.send(1, &probe(8));
    paths.run(50 * MS);
    let challenges = paths.challenges.drain(..);
    let answers: Vec<_> = challenges.map(Frame::PathResponse).collect();
    assert!(!answers.is_empty());
    paths.send(1, &encode(&answers));
    paths.run(50 * MS);
    paths.send(1, &encode(&[Frame::Ping]));
    paths.run(50 * MS);
    paths
}

#[test]
fn a_path_that_is_proven_by_probes_while_it_opens_opens() {
    let opened_elsewhere = opened_from(SocketAddr::from(([10, 9, 9, 9], 1_000)));
    assert!(
        opened_elsewhere
            .saw(|event| { matches!(event, PathEvent::Validated { path, .. } if path.0 == 1) })
    );
}

/// A copy of a packet comes from elsewhere, and the answer to the challenge that the true address had while the path is there.
#[test]
fn a_path_that_comes_back_while_it_opens_opens() {
    let mut paths = Paths::server(51);
    let ids: Vec<_> = (0..3).map(|sequence| new_id(1, sequence)).collect();
    paths.send(0, &encode(&ids));
    paths.run(50 * MS);
    paths.challenges.clear();
    let opening = [Frame::PathChallenge([9; 8]), Frame::Padding { len: 1_150 }];
    paths.send(1, &encode(&opening));
    paths.run(50 * MS);
    let challenges = paths.challenges.drain(..);
    let answers: Vec<_> = challenges.map(Frame::PathResponse).collect();
    assert!(!answers.is_empty());
    let mut datagram = paths.packet(1, &encode(&[Frame::Ping]));
    datagram.src = SocketAddr::from(([10, 9, 9, 9], 1_000));
    paths.arena.inject(datagram);
    paths.run(5 * MS);
    paths.send(1, &encode(&answers));
    paths.run(20 * MS);
    paths.send(1, &encode(&[Frame::Ping]));
    paths.run(50 * MS);
    assert!(
        paths.saw(|event| { matches!(event, PathEvent::Validated { path, .. } if path.0 == 1) })
    );
}

/// The tokens of one path, often as it changes its ID, make no room at the cost of the others'.
#[test]
fn a_reset_on_any_of_many_paths_is_known() {
    for (most, dead) in [(8, 1), (8, 4), (8, 7), (16, 1), (16, 15)] {
        let config = |config: &mut TransportConfig| {
            multipath(config);
            if let Some(multipath) = &mut config.multipath {
                multipath.max_paths = most;
            }
        };
        let (arena, peer) = Arena::confirmed_with(32, config, |parameters| {
            parameters.initial_max_path_id = Some(u64::from(most) - 1);
        });
        let mut paths = Paths::over(arena, peer);
        for path in 1..most {
            paths.open(path);
        }
        // That of the last path but one is replaced again and again.
        for sequence in 1..7 {
            let frame = Frame::NewConnectionId(NewConnectionId {
                path: Some(PathId(most - 2)),
                sequence,
                retire_prior_to: sequence,
                cid: id_of(most - 2, sequence),
                token: token_of(most - 2, sequence),
            });
            paths.send(0, &encode(&[frame]));
            paths.run(20 * MS);
        }
        paths.ack_all();
        reset(&mut paths, token_of(dead, 0));
        let ended = paths.arena.app().ended();
        assert_eq!(
            ended,
            Some(&ConnectionError::StatelessReset),
            "{dead} of {most}"
        );
    }
}

#[test]
fn the_status_of_an_abandoned_path_is_no_news() {
    let mut paths = Paths::server(36);
    paths.open(1);
    paths.send(0, &encode(&[abandon(1)]));
    paths.run(5 * MS);
    paths.send(0, &encode(&[status(1, false, 77)]));
    paths.run(50 * MS);
    assert!(
        !paths
            .saw(|event| { matches!(event, PathEvent::StatusChanged { path, .. } if path.0 == 1) })
    );
    paths.assert_alive();
}

/// Nothing is asked of a peer that allows more than we do.
#[test]
fn paths_are_blocked_only_where_the_peer_blocks_them() {
    for (ours, told) in [(2, vec![]), (8, vec![1])] {
        let config = |config: &mut TransportConfig| {
            multipath(config);
            if let Some(multipath) = &mut config.multipath {
                multipath.max_paths = ours;
            }
        };
        let (arena, peer) = Arena::client_with(52, config, |parameters| {
            parameters.initial_max_path_id = Some(if ours == 2 { 7 } else { 1 });
        });
        let mut paths = Paths::over(arena, peer);
        let mut to = FourTuple {
            local: second_address(),
            remote: server_address(),
        };
        paths.send(0, &encode(&[new_id(1, 0)]));
        paths.run(50 * MS);
        let opened = paths
            .arena
            .on_victim(|victim, now| victim.open_path(now, to));
        assert_eq!(opened, Ok(PathId(1)));
        to.local.set_port(777);
        let opened = paths
            .arena
            .on_victim(|victim, now| victim.open_path(now, to));
        let by_peer = ours != 2;
        assert_eq!(opened, Err(OpenPathError::TooManyPaths { by_peer }));
        paths.run(100 * MS);
        let mut blocked = Vec::new();
        for got in &paths.peer.got {
            let mut reader = Reader::new(&got.payload);
            while !reader.is_empty() {
                if let Ok(Frame::PathsBlocked(at)) = Frame::decode(&mut reader) {
                    blocked.push(at);
                }
            }
        }
        assert_eq!(blocked, told, "{ours}");
    }
}

/// A path that never opened is given up: why is told again as it was told first.
#[test]
fn why_a_path_is_given_up_is_told_again_unchanged() {
    let mut paths = client_that_opens_a_path();
    paths.run(SECOND);
    paths.ack_all();
    let before = paths.received.clone();
    let code = reasons::PATH_UNSTABLE_OR_POOR;
    let gone = paths
        .arena
        .on_victim(|victim, now| victim.abandon_path(now, PathId(1), code));
    assert_eq!(gone, Ok(()));
    paths.run(20 * MS);
    let lost: Vec<u64> = paths.received.difference(&before).copied().collect();
    for _ in 0..6 {
        paths.arena.on_victim(|victim, _| victim.ping());
        paths.run(20 * MS);
    }
    for number in lost {
        paths.received.remove(&number);
    }
    paths.ack_all();
    paths.run(SECOND);
    assert_eq!(paths.abandoned, [(PathId(1), code); 2]);
}
