//! ACK frames as they are written, and read by the other side's recovery.

use std::time::Duration;

use super::*;
use crate::{
    config::TransportConfig,
    observe::Observer,
    packet::{FrameStats, PacketWriter, Token},
    recovery::{AckContext, LossHandler, OutgoingPacket, Recovery},
    rng::Rng,
    units::{Ecn, PathId},
    wire::{Ack, Frame, PacketTypes, Reader},
};

const RTT: Duration = Duration::from_millis(50);

fn micros(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1_000)
}

fn receive(received: &mut ReceivedPackets, number: u64, now: Instant, ecn: Ecn) {
    received.on_received(number, now, true, ecn, false, false, None, true, RTT);
}

/// Writes an ACK into `room` bytes; its bytes and tokens, `None` if it did not fit.
fn written(
    received: &mut ReceivedPackets,
    now: Instant,
    path: Option<PathId>,
    timestamps: Option<TimestampConfig>,
    room: usize,
) -> Option<(Vec<u8>, Vec<Token>)> {
    let mut payload = vec![0; room];
    let (mut tokens, mut stats) = (Vec::new(), FrameStats::default());
    let mut observer = Observer::none();
    let mut writer = PacketWriter::new(
        &mut payload,
        PacketTypes::ONE_RTT,
        &mut tokens,
        &mut stats,
        &mut observer,
        now,
    );
    let fits = received.write_ack(now, path, 3, timestamps, &mut writer);
    let len = writer.len();
    payload.truncate(len);
    fits.then_some((payload, tokens))
}

fn parsed(bytes: &[u8]) -> Ack<'_> {
    let mut reader = Reader::new(bytes);
    let Ok(Frame::Ack(ack)) = Frame::decode(&mut reader) else {
        panic!("{bytes:02x?} is no ACK");
    };
    assert!(reader.is_empty());
    ack
}

fn timestamps(max: u64) -> Option<TimestampConfig> {
    Some(TimestampConfig {
        max_per_ack: max,
        exponent: 0,
        basis: micros(1_000),
    })
}

#[test]
fn an_ack_tells_ranges_delay_and_marks() {
    let mut received = ReceivedPackets::new(&Limits::default());
    assert!(
        written(&mut received, micros(0), None, None, 100).is_none(),
        "nothing to tell"
    );
    for (number, ecn) in [
        (0, Ecn::Ect0),
        (1, Ecn::Ce),
        (4, Ecn::Ect0),
        (3, Ecn::NotEct),
    ] {
        receive(&mut received, number, micros(number * 1_000), ecn);
    }
    let (bytes, tokens) = written(&mut received, micros(4_800), None, None, 100).unwrap();
    assert_eq!(
        tokens,
        [Token::Ack {
            path: PathId::ZERO,
            largest: 4
        }]
    );
    let ack = parsed(&bytes);
    assert_eq!((ack.path, ack.largest), (None, 4));
    assert_eq!(
        ack.delay, 100,
        "800 us since the largest came, in units of 8 us"
    );
    assert_eq!(ack.ranges().collect::<Vec<_>>(), [3..=4, 0..=1]);
    let ecn = ack.ecn.unwrap();
    assert_eq!((ecn.ect0, ecn.ect1, ecn.ce), (2, 0, 1));
    assert!(ack.timestamps.is_none());
    assert!(!received.has_unreported());
}

#[test]
fn a_path_ack_names_its_path() {
    let mut received = ReceivedPackets::new(&Limits::default());
    receive(&mut received, 7, micros(0), Ecn::NotEct);
    let path = Some(PathId(3));
    let (bytes, tokens) = written(&mut received, micros(0), path, None, 100).unwrap();
    assert_eq!(
        tokens,
        [Token::Ack {
            path: PathId(3),
            largest: 7
        }]
    );
    let ack = parsed(&bytes);
    assert_eq!((ack.path, ack.ecn), (path, None));
}

#[test]
fn an_ack_that_does_not_fit_stays_owed() {
    let mut received = ReceivedPackets::new(&Limits::default());
    receive(&mut received, 7, micros(0), Ecn::NotEct);
    assert!(written(&mut received, micros(0), None, None, 3).is_none());
    assert!(received.ack_due(micros(0)) && received.has_unreported());
}

/// The example of draft-ietf-quic-receive-ts, section "Examples".
#[test]
fn receive_timestamps_come_newest_first() {
    let mut received = ReceivedPackets::new(&Limits::default());
    receive(&mut received, 80, micros(1_000), Ecn::NotEct);
    // From the first ACK that asks for them on, arrival times are kept.
    let (bytes, _) = written(&mut received, micros(1_000), None, timestamps(64), 200).unwrap();
    assert!(parsed(&bytes).timestamps.is_none());
    let first = [(87, 300), (88, 305), (89, 310), (90, 320), (91, 330)];
    let second = [(96, 350), (97, 355), (98, 360), (99, 370), (100, 380)];
    for (number, relative) in first.into_iter().chain(second) {
        receive(&mut received, number, micros(1_000 + relative), Ecn::NotEct);
    }
    let (bytes, _) = written(&mut received, micros(1_400), None, timestamps(64), 200).unwrap();
    let told: Vec<_> = parsed(&bytes).timestamps.unwrap().iter(0).collect();
    let expected: Vec<_> = first.into_iter().chain(second).rev().collect();
    assert_eq!(told, expected);
    // 92 to 95 out of order: told alone, the others are.
    let late = [(92, 390), (93, 392), (94, 394), (95, 395)];
    for (number, relative) in late {
        receive(&mut received, number, micros(1_000 + relative), Ecn::NotEct);
    }
    let (bytes, _) = written(&mut received, micros(1_400), None, timestamps(3), 200).unwrap();
    let told: Vec<_> = parsed(&bytes).timestamps.unwrap().iter(0).collect();
    assert_eq!(
        told,
        [(95, 395), (94, 394), (93, 392)],
        "no more than the peer takes"
    );
}

struct Nobody;

impl LossHandler for Nobody {
    fn token_acked(&mut self, _kind: SpaceKind, _token: Token) {}
    fn token_lost(&mut self, _kind: SpaceKind, _token: Token) {}
}

#[test]
fn the_other_side_measures_its_forward_delay() {
    let config = TransportConfig::default();
    let mut recovery = Recovery::new(micros(0), &config, 1_200, Rng::from_u64(1));
    let mut space = PacketNumberSpace::new(&config.limits, false);
    let mut received = ReceivedPackets::new(&config.limits);
    let mut rng = Rng::from_u64(2);
    // The receiver's clock runs an hour ahead; the forward delay is 30 ms, then 42 ms.
    let skew = Duration::from_secs(3_600);
    let basis = micros(0) + skew;
    let wanted = Some(TimestampConfig {
        max_per_ack: 64,
        exponent: 0,
        basis,
    });
    for (sent, forward) in [(0, 30), (100, 30), (200, 42)] {
        let sent = micros(sent * 1_000);
        let packet = OutgoingPacket {
            number: space.take_packet_number(&mut rng),
            bytes: 1_200,
            ack_eliciting: true,
            asks: false,
            in_flight: true,
            mtu_probe: false,
            ecn: Ecn::NotEct,
            off_path: false,
            filler: false,
        };
        recovery.on_packet_sent(&mut space, SpaceKind::Data, sent, packet, &mut Vec::new());
        let arrives = sent + Duration::from_millis(forward);
        receive(&mut received, packet.number, arrives + skew, Ecn::NotEct);
        let (bytes, _) = written(&mut received, arrives + skew, None, wanted, 200).unwrap();
        let ack = parsed(&bytes);
        let context = AckContext {
            now: arrives + Duration::from_millis(30),
            ack_delay: Duration::ZERO,
            peer_max_ack_delay: Duration::from_millis(25),
            handshake_confirmed: true,
            peer_completed_address_validation: true,
            timestamps_exponent: 0,
            returned_by: PathId::ZERO,
            elsewhere: false,
        };
        let summary = recovery
            .on_ack(&mut space, SpaceKind::Data, &ack, &context, &mut Nobody)
            .unwrap();
        assert!(summary.newly_acked);
    }
    let delay = recovery.one_way_delay();
    assert_eq!(delay.min(), Some(Duration::from_millis(30)));
    assert_eq!(delay.latest(), Some(Duration::from_millis(42)));
    assert_eq!(delay.variation(), Some(Duration::from_millis(12)));
}

/// Every second packet of 400 is lost, then none: the ACKs of one round trip do not all tell of
/// every gap, yet each range was told of often.
#[test]
fn a_burst_of_losses_swells_a_few_acks_only() {
    let mut received = ReceivedPackets::new(&Limits::default());
    let mut told = [0_u32; 200];
    let mut lengths = Vec::new();
    let numbers = (0..400).step_by(2).chain(400..1_200);
    for (index, number) in numbers.enumerate() {
        receive(&mut received, number, micros(number), Ecn::NotEct);
        received.note_bytes(1_200);
        if index % 16 != 15 {
            continue;
        }
        let (bytes, _) = written(&mut received, micros(number), None, None, 2_000).unwrap();
        lengths.push(bytes.len());
        for range in parsed(&bytes).ranges() {
            let lost = told.iter_mut().enumerate();
            for (_, count) in lost.filter(|(index, _)| range.contains(&(2 * *index as u64))) {
                *count += 1;
            }
        }
    }
    assert!(told.iter().all(|&count| count >= 8), "{told:?}");
    assert!(*lengths.iter().max().unwrap() > 200, "{lengths:?}");
    assert!(*lengths.last().unwrap() < 150, "{lengths:?}");
}
