//! The congestion controller of the study's sender, as far as its figures depend on it.
//!
//! quiche's CUBIC took a reduction back when the episode had cost less than a fifth of the window
//! (at least two packets): its pull requests 890 and 1056 of 2021, before the campaign; 1055 spares
//! the end of slow start; issue 1411 shows the saw teeth that come of it. A sender like that stays
//! at a full queue and goes on losing, which RFC 9438's does not.
//!
//! Owns: [`Forgiving`], which tells the project's own `cubic` that such an episode was spurious
//! (RFC 9438 s4.9). Nothing else of quiche is imitated.

use std::sync::Arc;

use tautline_transport::{
    congestion::{
        AckEvent, CongestionController, ControllerContext, ControllerFactory, ControllerMetrics,
        CubicFactory, EcnEvent, LossEvent, SentEvent, SharedControllerFactory, SpuriousLossEvent,
    },
    time::Instant,
    units::PacketNumber,
};

/// Share of the window that may be lost for nothing.
const FORGIVEN: f64 = 0.2;
/// Losses that are forgiven however small the window is.
const FORGIVEN_PACKETS: u64 = 2;

pub(super) fn factory() -> SharedControllerFactory {
    Arc::new(Factory(CubicFactory::default()))
}

#[derive(Debug)]
struct Factory(CubicFactory);

impl ControllerFactory for Factory {
    fn name(&self) -> &'static str {
        "cubic-forgiving"
    }

    fn build(&self, context: ControllerContext) -> Box<dyn CongestionController> {
        Box::new(Forgiving {
            mtu: context.mtu,
            cubic: self.0.build(context),
            lost: 0,
            episode: None,
        })
    }
}

/// A reduction that may be taken back.
#[derive(Debug)]
struct Episode {
    /// Packets that left until then belong to it.
    until: Instant,
    /// Packets that had been lost before it.
    lost_before: u64,
    /// The packet that began it.
    packet_number: PacketNumber,
    sent: Instant,
    bytes: u64,
}

#[derive(Debug)]
struct Forgiving {
    cubic: Box<dyn CongestionController>,
    mtu: u64,
    lost: u64,
    /// `None` also after one that ended slow start.
    episode: Option<Episode>,
}

impl Forgiving {
    fn forgive(&mut self, now: Instant, episode: &Episode) {
        let lost = self.lost - episode.lost_before;
        let packets = self.cubic.window() / self.mtu;
        let few = ((packets as f64 * FORGIVEN) as u64).max(FORGIVEN_PACKETS);
        if lost < few {
            self.cubic.on_spurious_loss(&SpuriousLossEvent::new(
                now,
                episode.packet_number,
                episode.sent,
                episode.bytes,
                true,
            ));
        }
    }
}

impl CongestionController for Forgiving {
    fn name(&self) -> &'static str {
        "cubic-forgiving"
    }

    fn on_sent(&mut self, event: &SentEvent) {
        self.cubic.on_sent(event);
    }

    fn on_ack(&mut self, event: &AckEvent) {
        let over = |episode: &mut Episode| event.largest_acked_sent > episode.until;
        if let Some(episode) = self.episode.take_if(over) {
            self.forgive(event.now, &episode);
        }
        self.cubic.on_ack(event);
    }

    fn on_loss(&mut self, event: &LossEvent<'_>) {
        let newest = event.packets.iter().max_by_key(|packet| packet.sent);
        let window = self.cubic.window();
        let slow_start = self.cubic.metrics().state != "congestion_avoidance";
        self.cubic.on_loss(event);
        if event.persistent {
            self.episode = None;
        } else if let Some(newest) = newest
            && self.cubic.window() < window
        {
            self.episode = (!slow_start).then_some(Episode {
                until: event.now,
                lost_before: self.lost,
                packet_number: newest.packet_number,
                sent: newest.sent,
                bytes: newest.bytes,
            });
        }
        self.lost += event.packets.len() as u64;
    }

    fn on_ecn(&mut self, event: &EcnEvent) {
        self.cubic.on_ecn(event);
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLossEvent) {
        self.cubic.on_spurious_loss(event);
    }

    fn on_mtu(&mut self, mtu: u64) {
        self.mtu = mtu.max(1);
        self.cubic.on_mtu(mtu);
    }

    fn on_initial_window(&mut self, bytes: u64) {
        self.cubic.on_initial_window(bytes);
    }

    fn on_restart_from_idle(&mut self, now: Instant) {
        self.cubic.on_restart_from_idle(now);
    }

    fn window(&self) -> u64 {
        self.cubic.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.cubic.metrics()
    }
}
