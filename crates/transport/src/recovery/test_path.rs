//! A path and its spaces for tests, with a controller that writes down what it is told.

use std::{
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use super::{acked::AckFrame, *};
use crate::{
    congestion::{
        AckEvent, ControllerFactory, ControllerMetrics, EcnEvent, LossEvent, SentEvent,
        SpuriousLossEvent,
    },
    error::TransportError,
    packet::Token,
    space::{PacketNumberSpace, SpaceKind},
    units::{Ecn, PacketNumber},
    wire::EcnCounts,
};

pub(super) const MTU: u16 = 1_200;
pub(super) const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
pub(super) const MIN_ACK_DELAY: Duration = Duration::from_millis(1);

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// What the controller was told.
#[derive(Clone, Debug)]
pub(super) enum Told {
    Ack(AckEvent),
    Loss {
        packets: Vec<LostPacket>,
        persistent: bool,
        prior: u64,
        in_flight: u64,
    },
    Ecn(EcnEvent),
    Spurious(SpuriousLossEvent),
    Restart,
}

#[derive(Clone, Debug)]
pub(super) struct Notes {
    told: Arc<Mutex<Vec<Told>>>,
    window: Arc<Mutex<u64>>,
}

impl Default for Notes {
    fn default() -> Self {
        Self {
            told: Arc::default(),
            window: Arc::new(Mutex::new(1 << 30)),
        }
    }
}

impl Notes {
    pub(super) fn told(&self) -> MutexGuard<'_, Vec<Told>> {
        self.told.lock().unwrap()
    }

    pub(super) fn take(&self) -> Vec<Told> {
        std::mem::take(&mut self.told())
    }

    pub(super) fn set_window(&self, bytes: u64) {
        *self.window.lock().unwrap() = bytes;
    }

    fn note(&self, told: Told) {
        self.told().push(told);
    }
}

impl ControllerFactory for Notes {
    fn name(&self) -> &'static str {
        "notes"
    }

    fn build(&self, _context: ControllerContext) -> Box<dyn CongestionController> {
        Box::new(self.clone())
    }
}

impl CongestionController for Notes {
    fn name(&self) -> &'static str {
        "notes"
    }

    fn on_sent(&mut self, _event: &SentEvent) {}

    fn on_ack(&mut self, event: &AckEvent) {
        self.note(Told::Ack(*event));
    }

    fn on_loss(&mut self, event: &LossEvent<'_>) {
        assert_eq!(
            event.lost_bytes,
            event.packets.iter().map(|p| p.bytes).sum::<u64>()
        );
        assert!(event.packets.is_sorted_by_key(|p| p.packet_number));
        self.note(Told::Loss {
            packets: event.packets.to_vec(),
            persistent: event.persistent,
            prior: event.prior_in_flight,
            in_flight: event.bytes_in_flight,
        });
    }

    fn on_ecn(&mut self, event: &EcnEvent) {
        self.note(Told::Ecn(*event));
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLossEvent) {
        self.note(Told::Spurious(*event));
    }

    fn on_mtu(&mut self, _mtu: u64) {}

    fn on_restart_from_idle(&mut self, _now: Instant) {
        self.note(Told::Restart);
    }

    fn window(&self) -> u64 {
        *self.window.lock().unwrap()
    }

    fn metrics(&self) -> ControllerMetrics {
        ControllerMetrics::new(self.window(), "test")
    }
}

/// What the rooms were told.
#[derive(Clone, Debug, Default)]
pub(super) struct Fates {
    pub(super) acked: Vec<Token>,
    pub(super) lost: Vec<Token>,
    pub(super) packets_acked: Vec<PacketNumber>,
    pub(super) packets_lost: Vec<(PacketNumber, LossTrigger)>,
    pub(super) probes_acked: Vec<u16>,
    pub(super) probes_lost: Vec<u16>,
    pub(super) repeats_copied: bool,
}

impl LossHandler for Fates {
    fn repeats_what_was_copied(&self) -> bool {
        self.repeats_copied
    }

    fn token_acked(&mut self, _kind: SpaceKind, token: Token) {
        self.acked.push(token);
    }

    fn token_lost(&mut self, _kind: SpaceKind, token: Token) {
        self.lost.push(token);
    }

    fn packet_acked(&mut self, _kind: SpaceKind, number: PacketNumber, _packet: &SentPacket) {
        self.packets_acked.push(number);
    }

    fn packet_lost(
        &mut self,
        _kind: SpaceKind,
        number: PacketNumber,
        _packet: &SentPacket,
        trigger: LossTrigger,
    ) {
        self.packets_lost.push((number, trigger));
    }

    fn mtu_probe_acked(&mut self, _: PacketNumber, bytes: u16) {
        self.probes_acked.push(bytes);
    }

    fn mtu_probe_lost(&mut self, _: PacketNumber, bytes: u16) {
        self.probes_lost.push(bytes);
    }
}

/// Path 0 with its three spaces.
#[derive(Debug)]
pub(super) struct TestPath {
    pub(super) recovery: Recovery,
    pub(super) spaces: [PacketNumberSpace; 3],
    pub(super) rng: Rng,
    pub(super) notes: Notes,
    pub(super) fates: Fates,
    pub(super) context: AckContext,
    pub(super) timers: TimerContext,
}

impl TestPath {
    pub(super) fn new() -> Self {
        Self::with(|_| {}, false)
    }

    pub(super) fn with(change: impl FnOnce(&mut TransportConfig), skips: bool) -> Self {
        let notes = Notes::default();
        let mut config = TransportConfig {
            congestion: Arc::new(notes.clone()),
            ..TransportConfig::default()
        };
        change(&mut config);
        let space = |skips| PacketNumberSpace::new(&config.limits, skips);
        Self {
            recovery: Recovery::new(at(0), &config, MTU, Rng::from_u64(1)),
            spaces: [space(false), space(false), space(skips)],
            rng: Rng::from_u64(2),
            notes,
            fates: Fates::default(),
            context: AckContext {
                now: at(0),
                ack_delay: Duration::ZERO,
                peer_max_ack_delay: MAX_ACK_DELAY,
                handshake_confirmed: true,
                peer_completed_address_validation: true,
                timestamps_exponent: 0,
                returned_by: PathId::ZERO,
                elsewhere: false,
            },
            timers: TimerContext {
                handshake_confirmed: true,
                peer_completed_address_validation: true,
                has_handshake_keys: true,
                amplification_blocked: false,
                max_ack_delay: MAX_ACK_DELAY,
                min_ack_delay: MIN_ACK_DELAY,
                together: usize::MAX,
                may_leave: false,
                probe_every: None,
            },
        }
    }

    pub(super) fn data(&mut self) -> &mut PacketNumberSpace {
        &mut self.spaces[2]
    }

    /// Sends a full ack-eliciting data packet.
    pub(super) fn send(&mut self, now: Instant) -> PacketNumber {
        self.send_in(SpaceKind::Data, now, |_| {})
    }

    pub(super) fn send_many(&mut self, now: Instant, count: usize) {
        for _ in 0..count {
            self.send(now);
        }
    }

    pub(super) fn send_in(
        &mut self,
        kind: SpaceKind,
        now: Instant,
        change: impl FnOnce(&mut OutgoingPacket),
    ) -> PacketNumber {
        let space = &mut self.spaces[kind as usize];
        let number = space.take_packet_number(&mut self.rng);
        let mut packet = OutgoingPacket {
            number,
            bytes: MTU,
            ack_eliciting: true,
            asks: false,
            in_flight: true,
            mtu_probe: false,
            ecn: Ecn::NotEct,
            off_path: false,
            filler: false,
        };
        change(&mut packet);
        let mut tokens = vec![Token::Crypto {
            offset: number,
            len: 1,
        }];
        self.recovery
            .on_packet_sent(space, kind, now, packet, &mut tokens);
        assert!(tokens.is_empty());
        number
    }

    pub(super) fn ack(&mut self, now: Instant, ranges: &[RangeInclusive<u64>]) -> AckSummary {
        self.try_ack_in(SpaceKind::Data, now, ranges, None).unwrap()
    }

    pub(super) fn ack_ecn(
        &mut self,
        now: Instant,
        ranges: &[RangeInclusive<u64>],
        (ect0, ect1, ce): (u64, u64, u64),
    ) -> AckSummary {
        let ecn = Some(EcnCounts { ect0, ect1, ce });
        self.try_ack_in(SpaceKind::Data, now, ranges, ecn).unwrap()
    }

    pub(super) fn try_ack_in(
        &mut self,
        kind: SpaceKind,
        now: Instant,
        ranges: &[RangeInclusive<u64>],
        ecn: Option<EcnCounts>,
    ) -> Result<AckSummary, TransportError> {
        self.context.now = now;
        let frame = AckFrame {
            largest: *ranges[0].end(),
            ranges: ranges.iter().cloned(),
            ecn,
            timestamps: std::iter::empty(),
        };
        let space = &mut self.spaces[kind as usize];
        self.recovery
            .on_ack_frame(space, kind, frame, &self.context, &mut self.fates)
    }

    pub(super) fn timer(&mut self) -> Option<Instant> {
        let [initial, handshake, data] = &mut self.spaces;
        let spaces = Spaces {
            initial: Some(initial),
            handshake: Some(handshake),
            data,
        };
        self.recovery.timer(&spaces, &self.timers)
    }

    pub(super) fn timeout(&mut self, now: Instant) -> TimerAction {
        let [initial, handshake, data] = &mut self.spaces;
        let mut spaces = Spaces {
            initial: Some(initial),
            handshake: Some(handshake),
            data,
        };
        self.recovery
            .on_timeout(now, &mut spaces, &self.timers, &mut self.fates)
    }

    pub(super) fn discard(&mut self, kind: SpaceKind) {
        self.recovery
            .discard_space(&mut self.spaces[kind as usize], kind);
    }

    pub(super) fn lost_numbers(&self) -> Vec<PacketNumber> {
        self.fates
            .packets_lost
            .iter()
            .map(|&(number, _)| number)
            .collect()
    }

    /// Bytes in flight counted from the records.
    pub(super) fn counted_in_flight(&self) -> u64 {
        self.spaces
            .iter()
            .zip([SpaceKind::Initial, SpaceKind::Handshake, SpaceKind::Data])
            .flat_map(|(space, kind)| space.sent.outstanding().map(move |sent| (kind, sent)))
            .filter(|(kind, (number, packet))| {
                packet.in_flight && self.recovery.is_current(*kind, *number)
            })
            .map(|(_, sent)| sent)
            .map(|(_, packet)| u64::from(packet.bytes))
            .sum()
    }
}
