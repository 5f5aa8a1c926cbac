//! Congestion control that only a proxy would use: `hybla` and `fixed`.
//!
//! `hybla` (C. Caini, R. Firrincieli, *TCP Hybla: a TCP enhancement for heterogeneous networks*,
//! 2004) grows as a Reno connection of 25 ms would: with rho = RTT / 25 ms the window gains rho^2
//! segments in a round trip. Its slow start would multiply the window by 2^rho in each (2^24 over a
//! geostationary satellite), which its authors tame with an estimate of the bandwidth; here it is
//! multiplied by 4 at most, ends when the round trip gets longer (RFC 9406's thresholds), and at
//! one bandwidth-delay product where the rate is known. Losses halve the window once a round trip.
//! As published, it overshoots by up to rho^2 segments each time the queue fills: over 600 ms and a queue
//! of one product a tenth of what it sends is dropped, repaired, and the link stays full.
//!
//! `fixed` sends at the rate of the satellite segment from the first round trip on and keeps no
//! more than 1.25 bandwidth-delay products in flight. Losses change nothing; they are repaired. That
//! is fair where somebody divides the capacity, as the operator does who runs the proxy.
//!
//! Owns: both controllers. Does not own: `cubic` and the others, which are the transport's.

use std::time::Duration;

use tautline_transport::{
    congestion::{
        AckEvent, CongestionController, ControllerContext, ControllerFactory, ControllerMetrics,
        EcnEvent, LossEvent, SentEvent,
    },
    time::Instant,
    units::Rate,
};

/// The connection whose growth Hybla has.
const REFERENCE: Duration = Duration::from_millis(25);
/// By how much slow start multiplies the window in a round trip, less one.
const STEEPEST: f64 = 3.0;
/// RFC 9406 s4.3.
const LEAST_RISE: Duration = Duration::from_millis(4);
const MOST_RISE: Duration = Duration::from_millis(16);
const SAMPLES: u32 = 8;
/// In flight beyond what the link holds, so that ACKs that come in bunches do not stop it.
const SPARE: f64 = 1.25;
const SPARE_SEGMENTS: u64 = 8;

/// The names of this file's controllers.
pub(super) const NAMES: [&str; 2] = ["hybla", "fixed"];

/// Builds `hybla`.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyblaFactory {
    /// The rate of the segment, in bytes of payload, if it is known.
    pub(super) rate: Option<Rate>,
}

impl ControllerFactory for HyblaFactory {
    fn name(&self) -> &'static str {
        "hybla"
    }

    fn build(&self, context: ControllerContext) -> Box<dyn CongestionController> {
        Box::new(Hybla {
            rate: self.rate,
            mtu: context.mtu as f64,
            window: context.initial_window as f64,
            threshold: f64::INFINITY,
            recovery: None,
            full_at: None,
            round: Round::default(),
        })
    }
}

/// A round trip in slow start.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// The first packet of the next one.
    until: u64,
    samples: u32,
    least: Option<Duration>,
    before: Option<Duration>,
}

impl Round {
    /// Whether this round trip is longer than the one before.
    fn has_risen(&mut self, event: &AckEvent) -> bool {
        if event.largest_acked >= self.until {
            self.until = event.next_packet_number;
            self.before = self.least.or(self.before);
            self.least = None;
            self.samples = 0;
        }
        let latest = event.rtt.latest;
        self.least = Some(self.least.map_or(latest, |least| least.min(latest)));
        self.samples += 1;
        self.samples >= SAMPLES
            && self.before.zip(self.least).is_some_and(|(before, least)| {
                least >= before + (before / 8).clamp(LEAST_RISE, MOST_RISE)
            })
    }
}

#[derive(Debug)]
struct Hybla {
    rate: Option<Rate>,
    mtu: f64,
    window: f64,
    threshold: f64,
    /// Losses of what left until then are of one congestion.
    recovery: Option<Instant>,
    /// When the window was last full: what nobody uses does not grow.
    full_at: Option<Instant>,
    round: Round,
}

impl CongestionController for Hybla {
    fn name(&self) -> &'static str {
        "hybla"
    }

    fn on_sent(&mut self, event: &SentEvent) {
        if event.bytes_in_flight as f64 + self.mtu > self.window {
            self.full_at = Some(event.now);
        }
    }

    fn on_ack(&mut self, event: &AckEvent) {
        let recovering = self
            .recovery
            .is_some_and(|since| event.largest_acked_sent <= since);
        let tested = !event.app_limited
            || self
                .full_at
                .is_some_and(|at| event.largest_acked_sent <= at);
        if recovering || !tested {
            return;
        }
        let rho = (event.rtt.min.as_secs_f64() / REFERENCE.as_secs_f64()).max(1.0);
        let acked = event.acked_bytes as f64;
        if self.window < self.threshold {
            if let Some(rate) = self.rate {
                let product = rate.bytes_in(event.rtt.min) as f64;
                self.threshold = self.threshold.min(product.max(2.0 * self.mtu));
            }
            if self.round.has_risen(event) {
                self.threshold = self.window;
                return;
            }
            self.window += acked * (rho.min(8.0).exp2() - 1.0).min(STEEPEST);
            self.window = self.window.min(self.threshold);
        } else {
            self.window += rho * rho * self.mtu * acked / self.window.max(self.mtu);
        }
    }

    fn on_loss(&mut self, event: &LossEvent<'_>) {
        let last = event.packets.iter().map(|packet| packet.sent).max();
        if last.is_some_and(|sent| self.recovery.is_none_or(|since| sent > since)) {
            self.recovery = Some(event.now);
            self.window = (self.window / 2.0).max(2.0 * self.mtu);
            self.threshold = self.window;
        }
        if event.persistent {
            self.window = 2.0 * self.mtu;
            self.recovery = None;
        }
    }

    fn on_ecn(&mut self, _event: &EcnEvent) {}

    fn on_mtu(&mut self, mtu: u64) {
        self.mtu = mtu as f64;
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn metrics(&self) -> ControllerMetrics {
        let slow = self.window < self.threshold;
        let state = if slow {
            "slow_start"
        } else {
            "congestion_avoidance"
        };
        let mut metrics = ControllerMetrics::new(self.window(), state);
        metrics.slow_start_threshold = self.threshold.is_finite().then_some(self.threshold as u64);
        metrics
    }
}

/// Builds `fixed`.
#[derive(Clone, Copy, Debug)]
pub(super) struct FixedFactory {
    /// The rate of the segment, in bytes of payload.
    pub(super) rate: Rate,
}

impl ControllerFactory for FixedFactory {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn build(&self, context: ControllerContext) -> Box<dyn CongestionController> {
        Box::new(Fixed {
            rate: self.rate,
            mtu: context.mtu,
            window: context.initial_window,
        })
    }
}

#[derive(Debug)]
struct Fixed {
    rate: Rate,
    mtu: u64,
    window: u64,
}

impl CongestionController for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn on_sent(&mut self, _event: &SentEvent) {}

    fn on_ack(&mut self, event: &AckEvent) {
        let product = self.rate.mul_f64(SPARE).bytes_in(event.rtt.min);
        self.window = product.saturating_add(SPARE_SEGMENTS * self.mtu);
    }

    fn on_loss(&mut self, _event: &LossEvent<'_>) {}

    fn on_ecn(&mut self, _event: &EcnEvent) {}

    fn on_mtu(&mut self, mtu: u64) {
        self.mtu = mtu;
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::new(self.window, "fixed");
        metrics.pacing_rate = Some(self.rate);
        metrics
    }
}

#[cfg(test)]
mod tests {
    use tautline_transport::{congestion::LostPacket, congestion::RttView, rng::Rng};

    use super::*;

    const MTU: u64 = 1472;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + ms(millis)
    }

    fn build(factory: &dyn ControllerFactory) -> Box<dyn CongestionController> {
        factory.build(ControllerContext::new(
            at(0),
            MTU,
            10 * MTU,
            ms(1000),
            Rng::from_u64(1),
        ))
    }

    fn rtt(min: u64, latest: u64) -> RttView {
        RttView {
            latest: ms(latest),
            adjusted: ms(latest),
            smoothed: ms(latest),
            min: ms(min),
        }
    }

    /// A whole window, sent at `sent`, is acknowledged segment by segment.
    fn round(controller: &mut dyn CongestionController, number: &mut u64, sent: u64, rtt: RttView) {
        let segments = controller.window() / MTU;
        let first = *number;
        *number += segments;
        for index in 0..segments {
            let flight = (segments - index) * MTU;
            controller.on_ack(&AckEvent::new(
                at(sent) + rtt.latest,
                MTU,
                1,
                first + index,
                at(sent),
                *number,
                true,
                rtt,
                flight,
                flight - MTU,
                0,
                0,
                None,
                false,
            ));
        }
    }

    fn lose(controller: &mut dyn CongestionController, sent: u64, now: u64, persistent: bool) {
        let packet = LostPacket::new(0, MTU, at(sent), MTU, 0, 0, false);
        controller.on_loss(&LossEvent::new(
            at(now),
            &[packet],
            MTU,
            MTU,
            0,
            persistent,
            MTU,
            0,
            rtt(600, 600),
        ));
    }

    #[test]
    fn hybla_grows_as_if_the_round_trip_were_short() {
        let mut hybla = build(&HyblaFactory { rate: None });
        let mut number = 0;
        round(&mut *hybla, &mut number, 0, rtt(600, 600));
        assert_eq!(hybla.window(), 40 * MTU);
        round(&mut *hybla, &mut number, 600, rtt(600, 600));
        assert_eq!(hybla.window(), 160 * MTU);
        // Once a round trip is longer than the last, slow start is over.
        round(&mut *hybla, &mut number, 1200, rtt(600, 640));
        let threshold = hybla.metrics().slow_start_threshold.unwrap();
        assert!(threshold < 190 * MTU, "{threshold}");
        // rho^2 = 576 segments in a round trip, less as the window grows meanwhile.
        let window = hybla.window();
        round(&mut *hybla, &mut number, 1900, rtt(600, 600));
        let gained = (hybla.window() - window) / MTU;
        assert!((250..=576).contains(&gained), "{gained}");
        // A loss halves, once a round trip.
        let window = hybla.window();
        lose(&mut *hybla, 2000, 2500, false);
        lose(&mut *hybla, 2100, 2600, false);
        assert_eq!(hybla.window(), window / 2);
        lose(&mut *hybla, 2700, 4000, true);
        assert_eq!(hybla.window(), 2 * MTU);
    }

    #[test]
    fn hybla_on_a_short_path_is_reno() {
        let mut hybla = build(&HyblaFactory { rate: None });
        let mut number = 0;
        round(&mut *hybla, &mut number, 0, rtt(20, 20));
        assert_eq!(hybla.window(), 20 * MTU);
        lose(&mut *hybla, 10, 30, false);
        assert_eq!(hybla.window(), 10 * MTU);
        round(&mut *hybla, &mut number, 40, rtt(20, 20));
        let window = hybla.window();
        assert!((10 * MTU..=11 * MTU).contains(&window), "{window}");
    }

    #[test]
    fn hybla_stops_slow_start_at_a_known_product() {
        let rate = Rate::from_bytes_per_second(100_000);
        let mut hybla = build(&HyblaFactory { rate: Some(rate) });
        let mut number = 0;
        round(&mut *hybla, &mut number, 0, rtt(600, 600));
        assert_eq!(hybla.metrics().slow_start_threshold, Some(60_000));
        assert_eq!(hybla.metrics().state, "slow_start");
        round(&mut *hybla, &mut number, 600, rtt(600, 600));
        assert_eq!(hybla.metrics().state, "congestion_avoidance");
    }

    #[test]
    fn fixed_keeps_its_rate_whatever_is_lost() {
        let rate = Rate::from_bytes_per_second(2_500_000);
        let mut fixed = build(&FixedFactory { rate });
        assert_eq!(fixed.window(), 10 * MTU);
        round(&mut *fixed, &mut 0, 0, rtt(600, 600));
        let window = fixed.window();
        assert_eq!(window, 1_875_000 + SPARE_SEGMENTS * MTU);
        lose(&mut *fixed, 0, 600, true);
        assert_eq!((fixed.window(), fixed.pacing_rate()), (window, Some(rate)));
    }
}
