//! Key phases: who may change keys when, which keys open what, and what limits do.

use std::time::Duration;

use proptest::prelude::*;
use rustls::{Error, quic::Tag};

use super::super::{
    DirectionalKeys, HeaderProtectionKey, Keys, NextKeys, OneRttKeys, OpenError, Opened, PacketKey,
    TAG_LEN, UpdateBlocked,
};
use crate::{
    error::{Code, TransportError},
    time::Instant,
    units::{PathId, Side},
};

/// Seals by appending sender, phase, path and packet number.
struct MarkKey {
    sender: Side,
    phase: u64,
}

impl MarkKey {
    fn tag(&self, path: u32, pn: u64) -> [u8; TAG_LEN] {
        let mut tag = [self.sender as u8; TAG_LEN];
        tag[1] = u8::try_from(self.phase).unwrap();
        tag[2..6].copy_from_slice(&path.to_be_bytes());
        tag[6..14].copy_from_slice(&pn.to_be_bytes());
        tag
    }
}

impl PacketKey for MarkKey {
    fn encrypt_in_place(&self, pn: u64, header: &[u8], data: &mut [u8]) -> Result<Tag, Error> {
        self.encrypt_in_place_for_path(0, pn, header, data)
    }
    fn encrypt_in_place_for_path(
        &self,
        path: u32,
        pn: u64,
        _: &[u8],
        _: &mut [u8],
    ) -> Result<Tag, Error> {
        Ok(Tag::from(self.tag(path, pn).as_slice()))
    }
    fn decrypt_in_place<'a>(
        &self,
        pn: u64,
        header: &[u8],
        data: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        self.decrypt_in_place_for_path(0, pn, header, data)
    }
    fn decrypt_in_place_for_path<'a>(
        &self,
        path: u32,
        pn: u64,
        _: &[u8],
        data: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        let (plain, tag) = data
            .split_last_chunk::<TAG_LEN>()
            .ok_or(Error::DecryptError)?;
        if *tag == self.tag(path, pn) {
            Ok(plain)
        } else {
            Err(Error::DecryptError)
        }
    }
    fn tag_len(&self) -> usize {
        TAG_LEN
    }
    fn confidentiality_limit(&self) -> u64 {
        1 << 23
    }
    fn integrity_limit(&self) -> u64 {
        1 << 52
    }
}

struct NoMask;

impl HeaderProtectionKey for NoMask {
    fn encrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> Result<(), Error> {
        Ok(())
    }
    fn decrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> Result<(), Error> {
        Ok(())
    }
    fn sample_len(&self) -> usize {
        16
    }
}

struct Marks(Side, u64);

impl NextKeys for Marks {
    fn next(&mut self) -> Option<(Box<dyn PacketKey>, Box<dyn PacketKey>)> {
        self.1 += 1;
        let key = |sender| {
            Box::new(MarkKey {
                sender,
                phase: self.1,
            })
        };
        Some((key(self.0), key(self.0.peer())))
    }
}

const RETENTION: Duration = Duration::from_secs(3);
const P0: PathId = PathId::ZERO;
const P1: PathId = PathId(1);

fn keys(side: Side) -> OneRttKeys {
    let mut keys = unconfirmed_keys(side);
    keys.on_handshake_confirmed();
    keys
}

fn unconfirmed_keys(side: Side) -> OneRttKeys {
    let directional = |sender| DirectionalKeys {
        header: Box::new(NoMask),
        packet: Box::new(MarkKey { sender, phase: 0 }),
    };
    let both = Keys {
        local: directional(side),
        remote: directional(side.peer()),
    };
    let mut keys = OneRttKeys::new(both, Box::new(Marks(side, 0)));
    keys.set_retention(RETENTION);
    keys
}

/// A packet on its way.
#[derive(Clone, Debug)]
struct Packet {
    path: PathId,
    pn: u64,
    bit: bool,
    phase: u64,
    data: Vec<u8>,
}

fn seal(keys: &mut OneRttKeys, path: PathId, pn: u64) -> Packet {
    let mut data = vec![0; 1 + TAG_LEN];
    keys.seal(path, pn, &[], &mut data).unwrap();
    Packet {
        path,
        pn,
        bit: keys.key_phase(),
        phase: keys.phase(),
        data,
    }
}

fn open(keys: &mut OneRttKeys, now: Instant, packet: &Packet) -> Result<Opened, OpenError> {
    let mut data = packet.data.clone();
    keys.open(now, packet.path, packet.pn, packet.bit, &[], &mut data)
}

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn closes_with(result: Result<Opened, OpenError>) -> Code {
    match result {
        Err(OpenError::Close(TransportError { code, .. })) => code,
        other => panic!("{other:?}"),
    }
}

/// A pair that has exchanged packet 0 on path 0 in both directions, acknowledged.
fn pair() -> (OneRttKeys, OneRttKeys) {
    let (mut c, mut s) = (keys(Side::Client), keys(Side::Server));
    let packet = seal(&mut c, P0, 0);
    open(&mut s, at(0), &packet).unwrap();
    let packet = seal(&mut s, P0, 0);
    open(&mut c, at(0), &packet).unwrap();
    c.on_acked(at(0), P0, 0, 0).unwrap();
    s.on_acked(at(0), P0, 0, 0).unwrap();
    (c, s)
}

#[test]
fn update_and_answer() {
    let (mut c, mut s) = pair();
    let late = seal(&mut s, P0, 1);
    c.initiate_update(at(1)).unwrap();
    assert!(c.key_phase());
    // The peer is still in the old phase; nothing may be dropped yet, however long it takes.
    assert_eq!(c.timer(), None);
    assert_eq!(open(&mut c, at(100), &late).unwrap().phase, 0);

    let packet = seal(&mut c, P0, 1);
    let opened = open(&mut s, at(101), &packet).unwrap();
    assert_eq!(
        opened,
        Opened {
            len: 1,
            phase: 1,
            peer_updated: true
        }
    );
    let packet = seal(&mut s, P0, 3);
    let opened = open(&mut c, at(102), &packet).unwrap();
    assert_eq!(
        opened,
        Opened {
            len: 1,
            phase: 1,
            peer_updated: false
        }
    );

    // Old keys stay for three PTOs, then go.
    let overtaken = Packet { pn: 2, ..late };
    let overtaken = Packet {
        data: [
            &[0][..],
            &MarkKey {
                sender: Side::Server,
                phase: 0,
            }
            .tag(0, 2),
        ]
        .concat(),
        ..overtaken
    };
    assert_eq!(open(&mut c, at(104), &overtaken).unwrap().phase, 0);
    assert_eq!(c.timer(), Some(at(105)));
    c.on_timeout(at(105));
    assert_eq!(c.timer(), None);
    assert_eq!(open(&mut c, at(105), &overtaken), Err(OpenError::Drop));
}

#[test]
fn updates_wait_for_their_turn() {
    let mut c = unconfirmed_keys(Side::Client);
    assert_eq!(
        c.initiate_update(at(0)),
        Err(UpdateBlocked::HandshakeNotConfirmed)
    );
    c.on_handshake_confirmed();
    assert_eq!(
        c.initiate_update(at(0)),
        Err(UpdateBlocked::PhaseNotConfirmed)
    );

    let (mut c, mut s) = pair();
    c.initiate_update(at(1)).unwrap();
    assert_eq!(
        c.initiate_update(at(1)),
        Err(UpdateBlocked::PhaseNotConfirmed)
    );
    let packet = seal(&mut c, P0, 1);
    open(&mut s, at(1), &packet).unwrap();
    // The server followed; it may not go on before its own packets are acknowledged.
    assert_eq!(
        s.initiate_update(at(1)),
        Err(UpdateBlocked::PhaseNotConfirmed)
    );
    // An old packet's acknowledgement confirms nothing.
    c.on_acked(at(2), P0, 0, 1).unwrap();
    assert_eq!(
        c.initiate_update(at(100)),
        Err(UpdateBlocked::PhaseNotConfirmed)
    );
    c.on_acked(at(2), P0, 1, 1).unwrap();
    assert_eq!(c.initiate_update(at(4)), Err(UpdateBlocked::TooSoon));
    c.initiate_update(at(5)).unwrap();
    assert_eq!(c.phase(), 2);
}

#[test]
fn acknowledging_new_keys_under_old_ones_is_an_error() {
    let (mut c, _) = pair();
    c.initiate_update(at(1)).unwrap();
    seal(&mut c, P0, 1);
    let error = c.on_acked(at(1), P0, 1, 0).unwrap_err();
    assert_eq!(error.code, Code::KEY_UPDATE_ERROR);
}

#[test]
fn second_update_without_an_answer_is_an_error() {
    let (mut c, mut s) = pair();
    c.initiate_update(at(1)).unwrap();
    let packet = seal(&mut c, P0, 1);
    open(&mut s, at(1), &packet).unwrap();
    // A client that does not wait.
    c.on_acked(at(1), P0, 1, 1).unwrap();
    c.initiate_update(at(4)).unwrap();
    let packet = seal(&mut c, P0, 2);
    assert_eq!(
        closes_with(open(&mut s, at(1), &packet)),
        Code::KEY_UPDATE_ERROR
    );
}

#[test]
fn keys_and_packet_numbers_must_agree() {
    // New keys at a lower number than old keys.
    let (mut c, mut s) = pair();
    let old = seal(&mut c, P0, 9);
    open(&mut s, at(0), &old).unwrap();
    c.initiate_update(at(1)).unwrap();
    let packet = seal(&mut c, P0, 5);
    assert_eq!(
        closes_with(open(&mut s, at(1), &packet)),
        Code::KEY_UPDATE_ERROR
    );

    // Old keys were last seen before our own update began.
    let (mut c, mut s) = pair();
    let old = seal(&mut s, P0, 9);
    open(&mut c, at(0), &old).unwrap();
    c.initiate_update(at(1)).unwrap();
    let packet = seal(&mut c, P0, 1);
    open(&mut s, at(1), &packet).unwrap();
    let new = seal(&mut s, P0, 5);
    assert_eq!(
        closes_with(open(&mut c, at(1), &new)),
        Code::KEY_UPDATE_ERROR
    );

    // Old keys were seen after it.
    let (mut c, mut s) = pair();
    c.initiate_update(at(1)).unwrap();
    let old = seal(&mut s, P0, 9);
    open(&mut c, at(1), &old).unwrap();
    let packet = seal(&mut c, P0, 1);
    open(&mut s, at(1), &packet).unwrap();
    let new = seal(&mut s, P0, 5);
    assert_eq!(
        closes_with(open(&mut c, at(1), &new)),
        Code::KEY_UPDATE_ERROR
    );
}

#[test]
fn each_path_has_its_own_order() {
    let (mut c, mut s) = pair();
    let slow = seal(&mut c, P1, 500);
    c.initiate_update(at(1)).unwrap();
    let fast = seal(&mut c, P0, 1);
    assert!(open(&mut s, at(1), &fast).unwrap().peer_updated);
    // Overtaken on another path, with a far higher number: still the old keys.
    assert_eq!(open(&mut s, at(2), &slow).unwrap().phase, 0);
    let next = seal(&mut c, P1, 501);
    assert_eq!(open(&mut s, at(2), &next).unwrap().phase, 1);
    // The same bytes on another path open nothing.
    let moved = Packet { path: P0, ..next };
    assert_eq!(open(&mut s, at(2), &moved), Err(OpenError::Drop));
    s.forget_path(P1);
    // An acknowledgement of either path confirms the phase.
    c.on_acked(at(2), P1, 501, 1).unwrap();
    c.initiate_update(at(5)).unwrap();
}

#[test]
fn sealing_stops_at_the_limit_over_all_paths() {
    let mut c = keys(Side::Client).with_limits(8, 100);
    for pn in 0..3 {
        seal(&mut c, P0, pn);
        assert!(!c.update_if_wanted(at(0)));
    }
    for pn in 0..3 {
        seal(&mut c, P1, pn);
    }
    assert!(c.wants_update());
    assert!(!c.update_if_wanted(at(0)), "nothing was acknowledged");
    seal(&mut c, P1, 3);
    seal(&mut c, P1, 4);
    let error = c.seal(P0, 3, &[], &mut [0; 20]).unwrap_err();
    assert_eq!(error.code, Code::AEAD_LIMIT_REACHED);
    c.on_acked(at(0), P1, 4, 0).unwrap();
    assert!(c.update_if_wanted(at(0)));
    seal(&mut c, P0, 4);
    assert_eq!(c.sealed_packets(), 1);
}

#[test]
fn forgeries_are_counted_over_all_phases_and_paths() {
    let mut c = keys(Side::Client).with_limits(u64::MAX, 4);
    let mut forged = |path, bit| {
        let packet = Packet {
            path,
            pn: 1,
            bit,
            phase: 0,
            data: vec![0xff; 20],
        };
        open(&mut c, at(0), &packet)
    };
    assert_eq!(forged(P0, false), Err(OpenError::Drop));
    assert_eq!(forged(P1, true), Err(OpenError::Drop));
    assert_eq!(forged(P0, true), Err(OpenError::Drop));
    assert_eq!(closes_with(forged(P0, false)), Code::AEAD_LIMIT_REACHED);
    assert_eq!((c.failed_packets(), c.phase()), (4, 0));
}

/// One step of a conversation over a network that reorders and drops.
#[derive(Clone, Debug)]
enum Step {
    Send {
        from_client: bool,
        second_path: bool,
    },
    Deliver {
        pick: prop::sample::Index,
    },
    Drop {
        pick: prop::sample::Index,
    },
    Update {
        client: bool,
    },
    Wait {
        millis: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<bool>(), any::<bool>())
            .prop_map(|(from_client, second_path)| Step::Send { from_client, second_path }),
        6 => any::<prop::sample::Index>().prop_map(|pick| Step::Deliver { pick }),
        1 => any::<prop::sample::Index>().prop_map(|pick| Step::Drop { pick }),
        1 => any::<bool>().prop_map(|client| Step::Update { client }),
        1 => (0u64..900).prop_map(|millis| Step::Wait { millis }),
    ]
}

proptest! {
    /// Two honest ends never see an error, however packets are delayed (less than a PTO),
    /// reordered or lost, and every packet that arrives opens.
    #[test]
    fn honest_ends_never_quarrel(steps in prop::collection::vec(step(), 1..400)) {
        let mut ends = [keys(Side::Client), keys(Side::Server)];
        // Per end and path: the next number; what the other end received last, and in which
        // phase its packets acknowledge it.
        let mut next = [[0u64; 2]; 2];
        let mut received: [[Option<u64>; 2]; 2] = [[None; 2]; 2];
        let mut flying: Vec<(usize, Packet, [Option<u64>; 2], Instant)> = Vec::new();
        let mut now = at(1);
        for step in steps {
            match step {
                Step::Send { from_client, second_path } => {
                    let (from, path) = (usize::from(!from_client), usize::from(second_path));
                    let pn = next[from][path];
                    next[from][path] += 1;
                    let packet = seal(&mut ends[from], PathId(path as u32), pn);
                    flying.push((1 - from, packet, received[from], now));
                }
                Step::Deliver { pick } if !flying.is_empty() => {
                    let (to, packet, acks, _) = flying.swap_remove(pick.index(flying.len()));
                    let opened = open(&mut ends[to], now, &packet);
                    prop_assert!(opened.is_ok(), "{opened:?} for {packet:?}");
                    let opened = opened.unwrap();
                    prop_assert_eq!(opened.phase, packet.phase);
                    let last = &mut received[to][packet.path.0 as usize];
                    *last = (*last).max(Some(packet.pn));
                    for (path, pn) in acks.iter().enumerate() {
                        if let Some(pn) = pn {
                            let path = PathId(path as u32);
                            let result = ends[to].on_acked(now, path, *pn, opened.phase);
                            prop_assert!(result.is_ok(), "{result:?}");
                        }
                    }
                }
                Step::Drop { pick } if !flying.is_empty() => {
                    flying.swap_remove(pick.index(flying.len()));
                }
                Step::Deliver { .. } | Step::Drop { .. } => {}
                Step::Update { client } => {
                    let _ = ends[usize::from(!client)].initiate_update(now);
                }
                Step::Wait { millis } => {
                    now += Duration::from_millis(millis);
                    // The network forgets what is older than a PTO.
                    flying.retain(|(.., sent)| now.saturating_since(*sent) < RETENTION / 3);
                }
            }
            prop_assert!(ends[0].phase().abs_diff(ends[1].phase()) <= 1);
        }
    }

    /// Whatever arrives in whatever order, nothing panics and phases only grow.
    #[test]
    fn any_packets(
        packets in prop::collection::vec((0u32..3, 0u64..8, any::<bool>(), 0u64..4), 0..60),
    ) {
        let mut keys = keys(Side::Client);
        for (path, pn, bit, phase) in packets {
            let tag = MarkKey { sender: Side::Server, phase }.tag(path, pn);
            let packet = Packet { path: PathId(path), pn, bit, phase, data: tag.to_vec() };
            let before = keys.phase();
            let _ = open(&mut keys, at(pn), &packet);
            let _ = keys.seal(PathId(path), pn, &[], &mut [0; 20]);
            prop_assert!(keys.phase() == before || keys.phase() == before + 1);
        }
    }
}
