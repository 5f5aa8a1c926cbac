//! CUBIC. RFC 9438, with HyStart++ (RFC 9406) for the first slow start.
//!
//! `cubic-rtt-scaled` is the same with another reduction on loss: [`rtt_scaled`].

mod rtt_scaled;

use super::{
    AckEvent, CongestionController, ControllerContext, ControllerFactory, ControllerMetrics,
    EcnEvent, LossEvent, SentEvent, SpuriousLossEvent,
    hystart::{Growth, HyStart},
    initial_window::InitialWindow,
    minimum_window,
    window_use::WindowUse,
};
use std::time::Duration;

use crate::time::Instant;

/// Scale of the cubic curve in datagrams per second cubed. RFC 9438 s5.1.
const C: f64 = 0.4;
/// What the window is multiplied by on congestion. RFC 9438 s4.6.
const BETA: f64 = 0.7;
/// Reno-friendly growth in datagrams per round trip: `3 (1 - beta) / (1 + beta)`. RFC 9438 s4.3.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// The window aims at most this many times itself one RTT ahead. RFC 9438 s4.2.
const MAX_TARGET: f64 = 1.5;

/// Options of `cubic`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CubicConfig {
    /// Share of the window that must be in flight for it to grow, `0.0..=1.0`. Default 1 (less
    /// one datagram). Sources that send in bursts never fill the window; 0.66 suits them.
    pub growth_use: f64,
    /// Whether HyStart++ guards the first slow start. Default on.
    pub hystart: bool,
    /// Whether HyStart++ sets no limit per ACK where packets are paced. Default on.
    pub paced: bool,
    /// Whether a flow whose window is shrinking gives room to others faster. RFC 9438 s4.7.
    /// Default on.
    pub fast_convergence: bool,
    /// Whether a loss reduces the window by as much as the round trip has grown over its minimum,
    /// 0.7 at the most, instead of always to 0.7; the controller is then `cubic-rtt-scaled`.
    /// Default off.
    pub rtt_scaled: bool,
    /// Whether the curve's time counts from the reduction, as in several other stacks, instead of
    /// from the end of the recovery period, where congestion avoidance begins (RFC 9438 s4.2, RFC 9002
    /// s7.3.2); the controller is then `cubic-from-cut`. Windows grow a round trip sooner, queues
    /// overflow more often. Default off.
    pub curve_from_cut: bool,
}

impl CubicConfig {
    const fn name(&self) -> &'static str {
        if self.curve_from_cut {
            "cubic-from-cut"
        } else if self.rtt_scaled {
            "cubic-rtt-scaled"
        } else {
            "cubic"
        }
    }
}

impl Default for CubicConfig {
    fn default() -> Self {
        Self {
            growth_use: 1.0,
            hystart: true,
            paced: true,
            fast_convergence: true,
            rtt_scaled: false,
            curve_from_cut: false,
        }
    }
}

/// Builds `cubic` controllers with one set of options.
#[derive(Clone, Copy, Debug, Default)]
pub struct CubicFactory {
    config: CubicConfig,
}

impl CubicFactory {
    /// With these options.
    pub const fn new(config: CubicConfig) -> Self {
        Self { config }
    }
}

impl ControllerFactory for CubicFactory {
    fn name(&self) -> &'static str {
        self.config.name()
    }

    fn build(&self, context: ControllerContext) -> Box<dyn CongestionController> {
        Box::new(Cubic::new(self.config, &context))
    }
}

/// The curve of one congestion-avoidance stage. All windows in bytes, times in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Curve {
    /// Window where the curve is flat; 0 while unknown.
    w_max: f64,
    /// Time from the stage's start to the flat part.
    k: f64,
    /// When the stage began; `None` until its first ACK.
    epoch: Option<Instant>,
    /// What Reno would have (RFC 9438 s4.3).
    w_est: f64,
    /// Window before the last reduction.
    prior: f64,
}

impl Curve {
    /// Starts the stage, at the first ACK after recovery or slow start, with its time counting from
    /// `epoch`.
    fn begin(&mut self, epoch: Instant, window: f64, mtu: f64) {
        self.epoch = Some(epoch);
        self.w_est = window;
        if self.w_max <= window {
            // After a slow start without loss or after persistent congestion there is no old
            // maximum to return to. RFC 9438 s4.8, s4.10.
            self.w_max = window;
            self.k = 0.0;
            self.prior = self.prior.max(window);
        } else {
            self.k = ((self.w_max - window) / mtu / C).cbrt();
        }
    }

    /// Equation 1, `t` seconds into the stage.
    fn at(&self, t: f64, mtu: f64) -> f64 {
        C * (t - self.k).powi(3) * mtu + self.w_max
    }
}

/// What a reduction changed, in case its loss was spurious. RFC 9438 s4.9.
#[derive(Clone, Copy, Debug)]
struct Before {
    window: f64,
    threshold: f64,
    curve: Curve,
    hystart: Option<HyStart>,
    /// Packets of the episode left after this time (the previous episode's end)...
    after: Option<Instant>,
    /// ...and until this time.
    until: Instant,
}

/// The controller of one path.
#[derive(Debug)]
pub(super) struct Cubic {
    config: CubicConfig,
    mtu: u64,
    initial_window: InitialWindow,
    /// Bytes; fractions add up over ACKs.
    window: f64,
    /// Infinite until slow start first ends.
    threshold: f64,
    /// Present during the first slow start.
    hystart: Option<HyStart>,
    curve: Curve,
    recovery_start: Option<Instant>,
    window_use: WindowUse,
    /// Since when the application, not the window, has been the limit.
    unused_since: Option<Instant>,
    last_ack: Option<Instant>,
    before: Option<Before>,
}

impl Cubic {
    pub(super) fn new(config: CubicConfig, context: &ControllerContext) -> Self {
        let initial_window = InitialWindow::new(context);
        Self {
            config,
            mtu: context.mtu.max(1),
            initial_window,
            window: initial_window.bytes() as f64,
            threshold: f64::INFINITY,
            hystart: config
                .hystart
                .then(|| HyStart::new(config.paced && context.paced)),
            curve: Curve::default(),
            recovery_start: None,
            window_use: WindowUse::new(config.growth_use),
            unused_since: None,
            last_ack: None,
            before: None,
        }
    }

    /// In congestion avoidance at this window, at the flat part of a new curve.
    pub(super) fn resuming(window: u64, mtu: u64) -> Self {
        let mtu = mtu.max(1);
        let window = window.max(minimum_window(mtu));
        let config = CubicConfig::default();
        Self {
            config,
            mtu,
            initial_window: InitialWindow::of(window),
            window: window as f64,
            threshold: window as f64,
            hystart: None,
            curve: Curve::default(),
            recovery_start: None,
            window_use: WindowUse::new(config.growth_use),
            unused_since: None,
            last_ack: None,
            before: None,
        }
    }

    fn minimum(&self) -> f64 {
        minimum_window(self.mtu) as f64
    }

    fn in_recovery(&self, sent: Instant) -> bool {
        self.recovery_start.is_some_and(|start| sent <= start)
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    fn slow_start(&mut self, event: &AckEvent, tested: bool) {
        match &mut self.hystart {
            Some(hystart) => match hystart.on_ack(event, self.window as u64, self.mtu, tested) {
                Growth::Add(bytes) => self.window += bytes as f64,
                Growth::Exit => {
                    self.hystart = None;
                    self.threshold = self.window;
                }
            },
            None if tested => {
                self.window = (self.window + event.acked_bytes as f64).min(
                    // Bytes beyond the threshold belong to congestion avoidance.
                    self.threshold.max(self.window),
                );
            }
            None => {}
        }
    }

    fn congestion_avoidance(&mut self, event: &AckEvent, tested: bool) {
        if !tested {
            self.unused_since.get_or_insert(event.now);
            return;
        }
        let mtu = self.mtu as f64;
        if self.curve.epoch.is_none() {
            let cut = self.recovery_start.filter(|_| self.config.curve_from_cut);
            self.curve.begin(cut.unwrap_or(event.now), self.window, mtu);
        }
        // Time without use of the window does not count, or it would leap afterwards.
        if let Some(since) = self.unused_since.take() {
            let pause = event.now.saturating_since(since);
            self.curve.epoch = self.curve.epoch.map(|epoch| (epoch + pause).min(event.now));
        }
        let epoch = self.curve.epoch.unwrap_or(event.now);
        let t = event.now.saturating_since(epoch).as_secs_f64();
        let share = (event.acked_bytes as f64 / self.window).min(1.0);

        let alpha = if self.curve.w_est >= self.curve.prior {
            1.0
        } else {
            ALPHA
        };
        self.curve.w_est += alpha * share * mtu;
        if self.curve.at(t, mtu) < self.curve.w_est {
            // Reno-friendly region. RFC 9438 s4.3.
            self.window = self.window.max(self.curve.w_est);
        } else {
            // Concave and convex regions. RFC 9438 s4.4, s4.5.
            let ahead = self.curve.at(t + event.rtt.smoothed.as_secs_f64(), mtu);
            let target = ahead.clamp(self.window, self.window * MAX_TARGET);
            self.window += (target - self.window) * share;
        }
    }

    /// RFC 9438 s4.6, at most once per round trip: `factor` of the window is left.
    fn on_congestion(&mut self, now: Instant, sent: Instant, factor: f64) {
        if self.in_recovery(sent) {
            return;
        }
        self.before = Some(Before {
            window: self.window,
            threshold: self.threshold,
            curve: self.curve,
            hystart: self.hystart,
            after: self.recovery_start,
            until: now,
        });
        self.recovery_start = Some(now);
        self.curve.prior = self.window;
        self.curve.w_max = if self.config.fast_convergence && self.window < self.curve.w_max {
            self.window * (1.0 + BETA) / 2.0
        } else {
            self.window
        };
        self.curve.epoch = None;
        self.unused_since = None;
        self.window = (self.window * factor).max(self.minimum());
        self.threshold = self.window;
        self.hystart = None;
    }
}

impl CongestionController for Cubic {
    fn name(&self) -> &'static str {
        self.config.name()
    }

    fn on_sent(&mut self, event: &SentEvent) {
        self.window_use.on_sent(event, self.window as u64, self.mtu);
    }

    fn on_ack(&mut self, event: &AckEvent) {
        self.last_ack = Some(event.now);
        if self.in_recovery(event.largest_acked_sent) {
            return;
        }
        let tested = self.window_use.tested(event);
        if self.in_slow_start() {
            self.slow_start(event, tested);
        } else {
            self.congestion_avoidance(event, tested);
        }
    }

    fn on_loss(&mut self, event: &LossEvent<'_>) {
        if let Some(last) = event.packets.iter().map(|packet| packet.sent).max() {
            let factor = if self.config.rtt_scaled && !event.persistent {
                rtt_scaled::factor(&event.rtt)
            } else {
                Some(BETA)
            };
            if let Some(factor) = factor {
                self.on_congestion(event.now, last, factor);
            }
        }
        if event.persistent {
            // As a timeout in TCP: slow start from the minimum up to the reduced threshold, then
            // a curve without a past. RFC 9438 s4.8, RFC 9002 s7.6.2.
            self.window = self.minimum();
            self.curve = Curve::default();
            self.recovery_start = None;
            self.before = None;
        }
    }

    fn on_ecn(&mut self, event: &EcnEvent) {
        self.on_congestion(event.now, event.largest_acked_sent, BETA);
        // A mark is never spurious.
        self.before = None;
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLossEvent) {
        let of_episode = |before: &Before| {
            event.sent <= before.until && before.after.is_none_or(|after| event.sent > after)
        };
        if !event.episode_spurious || !self.before.as_ref().is_some_and(of_episode) {
            return;
        }
        let Some(before) = self.before.take() else {
            return;
        };
        if self.window < before.window {
            self.window = before.window;
            self.threshold = before.threshold;
            self.curve = before.curve;
            self.hystart = before.hystart;
            self.recovery_start = before.after;
        }
    }

    fn on_mtu(&mut self, mtu: u64) {
        self.mtu = mtu.max(1);
        self.window = self.window.max(self.minimum());
    }

    fn on_initial_window(&mut self, bytes: u64) {
        let throttled = self.hystart.is_some_and(|it| it.is_conservative());
        let growing = self.threshold.is_infinite() && !throttled;
        let former = self.window as u64;
        let window = self.initial_window.recalculate(bytes, former, growing);
        if window != former {
            self.window = (window as f64).max(self.minimum());
        }
    }

    fn on_path_full(&mut self, bytes_in_flight: u64) {
        if self.in_slow_start() {
            let held = (bytes_in_flight as f64).max(self.minimum());
            self.window = self.window.min(held);
            self.threshold = self.window;
            self.hystart = None;
        }
    }

    fn on_return_path(&mut self, _now: Instant, _before: Duration, _after: Duration) {
        if let Some(hystart) = &mut self.hystart {
            hystart.on_return_path();
        }
    }

    fn on_restart_from_idle(&mut self, now: Instant) {
        // Nothing in flight: the pause began at the last ACK.
        self.unused_since
            .get_or_insert(self.last_ack.unwrap_or(now));
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn metrics(&self) -> ControllerMetrics {
        let state = match &self.hystart {
            Some(hystart) if hystart.is_conservative() => "conservative_slow_start",
            _ if self.in_slow_start() => "slow_start",
            _ => "congestion_avoidance",
        };
        let mut metrics = ControllerMetrics::new(self.window(), state);
        metrics.slow_start_threshold = self.threshold.is_finite().then_some(self.threshold as u64);
        metrics
    }
}

#[cfg(test)]
mod tests;
