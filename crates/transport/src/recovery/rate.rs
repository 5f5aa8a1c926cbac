//! How fast the path delivers. draft-ietf-ccwg-bbr-06 s4.1.

use std::time::Duration;

use crate::{
    congestion::RateSample,
    space::{SendSnapshot, SentPacket},
    time::Instant,
    units::{PacketNumber, Rate},
};

/// Delivery counters of a network path and the sample under construction.
#[derive(Clone, Debug)]
pub(super) struct DeliveryRate {
    /// Bytes acknowledged so far.
    delivered: u64,
    /// When that count last grew, or when sending resumed after nothing was in flight.
    delivered_time: Instant,
    /// When the packet left that the newest sample rests on.
    first_sent: Instant,
    /// Bytes declared lost so far.
    lost: u64,
    /// The application-limited phase ends when this much is delivered; 0 outside of one.
    app_limited_until: u64,
    pending: Option<Pending>,
}

/// The newest packet an ACK acknowledges.
#[derive(Clone, Copy, Debug)]
struct Pending {
    number: PacketNumber,
    sent: Instant,
    snapshot: SendSnapshot,
    app_limited: bool,
}

impl DeliveryRate {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            delivered: 0,
            delivered_time: now,
            first_sent: now,
            lost: 0,
            app_limited_until: 0,
            pending: None,
        }
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// An in-flight packet is about to leave.
    pub(super) fn on_send(&mut self, now: Instant, nothing_in_flight: bool) {
        if nothing_in_flight {
            self.first_sent = now;
            self.delivered_time = now;
        }
    }

    /// The state that goes with a packet.
    pub(super) fn snapshot(&self, tx_in_flight: u64) -> SendSnapshot {
        SendSnapshot {
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent: self.first_sent,
            tx_in_flight,
            lost: self.lost,
        }
    }

    /// The application had less to send than it was allowed.
    pub(super) fn set_app_limited(&mut self, bytes_in_flight: u64) {
        self.app_limited_until = (self.delivered + bytes_in_flight).max(1);
    }

    /// An in-flight packet was acknowledged.
    pub(super) fn on_acked(&mut self, number: PacketNumber, packet: &SentPacket, now: Instant) {
        self.delivered += u64::from(packet.bytes);
        self.delivered_time = now;
        if packet.is_filler() {
            // How fast the path carries what nobody asked for makes no window larger.
            return;
        }
        let newest = self
            .pending
            .is_none_or(|pending| (packet.sent, number) > (pending.sent, pending.number));
        if newest {
            self.pending = Some(Pending {
                number,
                sent: packet.sent,
                snapshot: packet.snapshot,
                app_limited: packet.app_limited,
            });
        }
    }

    /// A packet declared lost was delivered after all; its bytes count, but it is no sample.
    pub(super) fn on_spurious(&mut self, bytes: u64) {
        self.delivered += bytes;
    }

    pub(super) fn on_lost(&mut self, bytes: u64) {
        self.lost += bytes;
    }

    /// The sample of the ACK now processed, `None` where it would be meaningless.
    pub(super) fn take_sample(&mut self, min_rtt: Option<Duration>) -> Option<RateSample> {
        let pending = self.pending.take();
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let pending = pending?;
        self.first_sent = self.first_sent.max(pending.sent);
        let snapshot = pending.snapshot;
        let send_elapsed = pending.sent.saturating_since(snapshot.first_sent);
        let ack_elapsed = self
            .delivered_time
            .saturating_since(snapshot.delivered_time);
        let interval = send_elapsed.max(ack_elapsed);
        // Shorter than any round trip: an artefact of compressed ACKs or of a clock.
        if interval.is_zero() || min_rtt.is_some_and(|min| interval < min) {
            return None;
        }
        let delivered = self.delivered.saturating_sub(snapshot.delivered);
        let delivery_rate = Rate::from_bytes_over(delivered, interval);
        Some(RateSample {
            delivered,
            interval,
            delivery_rate,
            send_rate: Rate::from_bytes_over(delivered, send_elapsed),
            app_limited: pending.app_limited,
            prior_delivered: snapshot.delivered,
            lost: self.lost.saturating_sub(snapshot.lost),
            tx_in_flight: snapshot.tx_in_flight,
        })
    }
}
