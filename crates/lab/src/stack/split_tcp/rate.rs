//! How fast the segment delivers, for controllers that model it (draft-ietf-ccwg-bbr-06 s4.1).
//!
//! Owns: [`DeliveryRate`]. Does not own: what is done with it.

use std::time::Duration;

use tautline_transport::{congestion::RateSample, time::Instant, units::Rate};

use super::scoreboard::Transmission;

/// The counters when a transmission left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) delivered: u64,
    pub(super) delivered_at: Instant,
    pub(super) first_sent: Instant,
    pub(super) tx_in_flight: u64,
    pub(super) lost: u64,
    pub(super) app_limited: bool,
}

#[derive(Debug, Default)]
pub(super) struct DeliveryRate {
    pub(super) delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    pub(super) lost: u64,
    /// The phase in which there is too little to send ends when this much is delivered.
    limited_until: u64,
    newest: Option<Transmission>,
}

impl DeliveryRate {
    pub(super) fn snapshot(&mut self, now: Instant, in_flight: u64, bytes: u64) -> Snapshot {
        if in_flight == 0 {
            self.first_sent = now;
            self.delivered_at = now;
        }
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            tx_in_flight: in_flight + bytes,
            lost: self.lost,
            app_limited: self.is_app_limited(),
        }
    }

    pub(super) fn is_app_limited(&self) -> bool {
        self.limited_until > 0
    }

    pub(super) fn set_app_limited(&mut self, in_flight: u64) {
        self.limited_until = (self.delivered + in_flight).max(1);
    }

    pub(super) fn on_delivered(&mut self, now: Instant, bytes: u64, by: Option<Transmission>) {
        self.delivered += bytes;
        self.delivered_at = now;
        if let Some(by) = by
            && self.newest.is_none_or(|newest| by.number > newest.number)
        {
            self.newest = Some(by);
        }
    }

    /// The sample of the acknowledgement just worked through.
    pub(super) fn sample(&mut self, min_rtt: Duration) -> Option<RateSample> {
        if self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        let newest = self.newest.take()?;
        self.first_sent = self.first_sent.max(newest.at);
        let at = newest.snapshot;
        let sending = newest.at.saturating_since(at.first_sent);
        let acknowledging = self.delivered_at.saturating_since(at.delivered_at);
        let interval = sending.max(acknowledging);
        if interval.is_zero() || interval < min_rtt {
            return None;
        }
        let delivered = self.delivered.saturating_sub(at.delivered);
        Some(RateSample {
            delivered,
            interval,
            delivery_rate: Rate::from_bytes_over(delivered, interval),
            send_rate: Rate::from_bytes_over(delivered, sending),
            app_limited: at.app_limited,
            prior_delivered: at.delivered,
            lost: self.lost.saturating_sub(at.lost),
            tx_in_flight: at.tx_in_flight,
        })
    }
}
