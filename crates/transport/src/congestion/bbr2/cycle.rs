//! Startup, Drain and the cycle of ProbeBW: down, cruise, refill, up. s4.3.1 to s4.3.3.

use std::time::Duration;

use super::Bbr2;
use crate::{
    congestion::bbr::model::{Sample, UNBOUNDED},
    rng::Rng,
    time::Instant,
    units::Rate,
};

/// `4 ln 2`. s4.3.1.1.
pub(super) const STARTUP_PACING_GAIN: f64 = 2.772_588_722_239_781;
const WINDOW_GAIN: f64 = 2.0;
const PROBE_RTT_WINDOW_GAIN: f64 = 0.5;
const UP_GAIN: f64 = 1.25;
const DOWN_GAIN: f64 = 0.9;
/// Growth per round below which the pipe may be full, and rounds after which it is.
const FULL_PIPE_GROWTH: f64 = 1.25;
const FULL_PIPE_ROUNDS: u32 = 3;
/// Rounds for which aggregation is remembered. s4.5.5.
pub(super) const EXTRA_ACKED_ROUNDS: u64 = 10;
/// Time between probes: so much, and up to so much more. s4.3.3.5.3.
const PROBE_WAIT: Duration = Duration::from_secs(2);
const PROBE_WAIT_JITTER: Duration = Duration::from_secs(1);
/// Most rounds between probes; fewer where Reno's window would recover in fewer. s4.3.3.5.
const PROBE_WAIT_ROUNDS: u64 = 63;

/// Where the controller stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Startup,
    Drain,
    ProbeDown,
    ProbeCruise,
    ProbeRefill,
    ProbeUp,
    ProbeRtt,
}

impl State {
    pub(super) const fn is_probe_bw(self) -> bool {
        matches!(
            self,
            Self::ProbeDown | Self::ProbeCruise | Self::ProbeRefill | Self::ProbeUp
        )
    }

    /// Whether it accelerates, so that loss says something about the bounds and not the path.
    pub(super) const fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::ProbeRefill | Self::ProbeUp)
    }

    /// s4.6.1.
    pub(super) const fn pacing_gain(self) -> f64 {
        match self {
            Self::Startup => STARTUP_PACING_GAIN,
            Self::Drain => 1.0 / WINDOW_GAIN,
            Self::ProbeDown => DOWN_GAIN,
            Self::ProbeUp => UP_GAIN,
            Self::ProbeCruise | Self::ProbeRefill | Self::ProbeRtt => 1.0,
        }
    }

    pub(super) const fn window_gain(self) -> f64 {
        match self {
            Self::ProbeRtt => PROBE_RTT_WINDOW_GAIN,
            _ => WINDOW_GAIN,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Drain => "drain",
            Self::ProbeDown => "probe_bw_down",
            Self::ProbeCruise => "probe_bw_cruise",
            Self::ProbeRefill => "probe_bw_refill",
            Self::ProbeUp => "probe_bw_up",
            Self::ProbeRtt => "probe_rtt",
        }
    }
}

/// What the acknowledgements arriving now belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    /// No probe.
    None,
    /// A probe that has begun; its packets are under way.
    Starting,
    /// The probe.
    Feedback,
    /// The end of a probe.
    Stopping,
}

/// Progress of Startup and of the cycle.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    pub(super) filled_pipe: bool,
    full_baseline: Rate,
    full_rounds: u32,

    ack_phase: AckPhase,
    /// Whether losses now tell of a probe, and none was too many yet.
    pub(super) probe_samples: bool,
    /// Acknowledged bytes not yet turned into a higher `inflight_hi`...
    up_acked: u64,
    /// ...of which so many are worth one datagram.
    up_acked_per_datagram: u64,
    up_rounds: u32,

    pub(super) rounds_since_probe: u64,
    wait: Duration,
    phase_start: Instant,
    rng: Rng,
}

impl Cycle {
    pub(super) const fn new(now: Instant, rng: Rng) -> Self {
        Self {
            filled_pipe: false,
            full_baseline: Rate::ZERO,
            full_rounds: 0,
            ack_phase: AckPhase::None,
            probe_samples: false,
            up_acked: 0,
            up_acked_per_datagram: UNBOUNDED,
            up_rounds: 0,
            rounds_since_probe: 0,
            wait: Duration::ZERO,
            phase_start: now,
            rng,
        }
    }

    /// ProbeRTT ends what probe there was.
    pub(super) const fn stop_probe(&mut self) {
        self.ack_phase = AckPhase::Stopping;
    }
}

impl Bbr2 {
    pub(super) fn check_startup_done(&mut self, sample: &Sample, in_recovery: bool) {
        self.check_plateau(sample);
        // Asked in every state: it keeps count of rounds.
        let lossy = self.startup_lost_too_much(sample, in_recovery);
        if self.state != State::Startup {
            return;
        }
        self.cycle.filled_pipe |= lossy;
        if self.cycle.filled_pipe {
            self.state = State::Drain;
        }
    }

    /// s4.3.1.2.
    fn check_plateau(&mut self, sample: &Sample) {
        let cycle = &mut self.cycle;
        if cycle.filled_pipe || !self.rounds.started || sample.app_limited {
            return;
        }
        let bandwidth = self.max_bw.get();
        if bandwidth >= cycle.full_baseline.mul_f64(FULL_PIPE_GROWTH) {
            cycle.full_baseline = bandwidth;
            cycle.full_rounds = 0;
        } else {
            cycle.full_rounds += 1;
            cycle.filled_pipe = cycle.full_rounds >= FULL_PIPE_ROUNDS;
        }
    }

    /// s4.3.2.
    pub(super) fn check_drain_done(&mut self, sample: &Sample) {
        if self.state == State::Drain && sample.in_flight <= self.inflight(self.bw, 1.0) {
            self.start_down(sample.now);
        }
    }

    pub(super) fn start_down(&mut self, now: Instant) {
        self.latest.reset();
        self.cycle.up_acked_per_datagram = UNBOUNDED;
        // Drawn, so that flows which share a bottleneck do not probe together.
        self.cycle.rounds_since_probe = self.cycle.rng.below(2);
        self.cycle.wait = PROBE_WAIT + PROBE_WAIT_JITTER.mul_f64(self.cycle.rng.unit_f64());
        self.cycle.phase_start = now;
        self.cycle.ack_phase = AckPhase::Stopping;
        self.rounds.restart(self.delivered);
        self.state = State::ProbeDown;
    }

    pub(super) const fn start_cruise(&mut self) {
        self.state = State::ProbeCruise;
    }

    fn start_refill(&mut self) {
        self.bounds.reset_lower();
        self.cycle.up_rounds = 0;
        self.cycle.up_acked = 0;
        self.cycle.ack_phase = AckPhase::None;
        self.rounds.restart(self.delivered);
        self.state = State::ProbeRefill;
    }

    fn start_up(&mut self, now: Instant) {
        self.cycle.probe_samples = true;
        self.cycle.ack_phase = AckPhase::Starting;
        self.cycle.phase_start = now;
        self.rounds.restart(self.delivered);
        self.state = State::ProbeUp;
        self.raise_slope();
    }

    /// One step per ACK. s4.3.3.6.
    pub(super) fn update_cycle(&mut self, sample: &Sample, window_full: bool) {
        if !self.cycle.filled_pipe {
            return;
        }
        self.adapt_upper_bounds(sample, window_full);
        match self.state {
            State::ProbeDown | State::ProbeCruise if self.is_time_to_probe(sample.now) => {
                self.start_refill();
            }
            State::ProbeDown if self.is_time_to_cruise(sample.in_flight) => self.start_cruise(),
            State::ProbeRefill if self.rounds.started => self.start_up(sample.now),
            State::ProbeUp if self.is_time_to_go_down(sample) => self.start_down(sample.now),
            _ => {}
        }
    }

    fn is_time_to_probe(&self, now: Instant) -> bool {
        now > self.cycle.phase_start + self.cycle.wait
            || self.cycle.rounds_since_probe >= self.reno_rounds()
    }

    /// Round trips in which Reno would have recovered from halving this window. s4.3.3.5.
    pub(super) fn reno_rounds(&self) -> u64 {
        (self.target_inflight() / self.mtu).min(PROBE_WAIT_ROUNDS)
    }

    fn is_time_to_cruise(&self, in_flight: u64) -> bool {
        in_flight <= self.inflight_with_headroom()
            && in_flight <= self.inflight(self.max_bw.get(), 1.0)
    }

    fn is_time_to_go_down(&self, sample: &Sample) -> bool {
        let round_trip = self.min_rtt.value.unwrap_or_default();
        sample.now > self.cycle.phase_start + round_trip
            && sample.prior_in_flight > self.inflight(self.max_bw.get(), UP_GAIN)
    }

    fn adapt_upper_bounds(&mut self, sample: &Sample, window_full: bool) {
        match self.cycle.ack_phase {
            AckPhase::Starting if self.rounds.started => {
                self.cycle.ack_phase = AckPhase::Feedback;
            }
            AckPhase::Stopping if self.rounds.started => {
                self.cycle.ack_phase = AckPhase::None;
                self.cycle.probe_samples = false;
                if self.state.is_probe_bw() && !sample.app_limited {
                    self.max_bw.advance();
                }
            }
            _ => {}
        }
        if Self::is_too_high(sample.lost, sample.tx_in_flight) {
            if self.cycle.probe_samples {
                self.on_too_high(sample.now, sample.tx_in_flight, sample.app_limited);
            }
        } else if self.bounds.inflight_hi != UNBOUNDED {
            let bound = &mut self.bounds.inflight_hi;
            *bound = sample.tx_in_flight.max(*bound);
            if self.state == State::ProbeUp {
                self.probe_upward(sample, window_full);
            }
        }
    }

    /// `inflight_hi` rises by 1, 2, 4, ... datagrams per round of ProbeBW_UP.
    fn raise_slope(&mut self) {
        let datagrams = 1u64 << self.cycle.up_rounds;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(30);
        self.cycle.up_acked_per_datagram = (self.window / datagrams).max(1);
    }

    fn probe_upward(&mut self, sample: &Sample, window_full: bool) {
        if !window_full || self.window < self.bounds.inflight_hi {
            return; // The bound is not in use.
        }
        let cycle = &mut self.cycle;
        cycle.up_acked = cycle.up_acked.saturating_add(sample.newly_acked);
        let per_datagram = cycle.up_acked_per_datagram.max(1);
        let datagrams = cycle.up_acked / per_datagram;
        cycle.up_acked %= per_datagram;
        let raised = datagrams
            .saturating_mul(self.mtu)
            .saturating_add(self.bounds.inflight_hi);
        self.bounds.inflight_hi = raised.min(UNBOUNDED - 1);
        if self.rounds.started {
            self.raise_slope();
        }
    }

    /// The estimated BDP, unless congestion cut the window below it.
    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp(self.bw, 1.0).min(self.window)
    }
}
