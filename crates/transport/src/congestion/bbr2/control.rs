//! From model and state to pacing rate, quantum and window. s4.6.

use std::time::Duration;

use super::{
    super::minimum_window,
    Bbr2,
    cycle::{STARTUP_PACING_GAIN, State},
};
use crate::{
    congestion::bbr::model::{Sample, UNBOUNDED},
    units::Rate,
};

/// Stands for the RTT before the first sample.
const NOMINAL_RTT: Duration = Duration::from_millis(1);
/// Pacing stays this share below the estimate.
const PACING_MARGIN: f64 = 0.01;
/// Least window while the model rules, in datagrams.
const MIN_PIPE_PACKETS: u64 = 4;
/// Quanta that batching keeps out of sight. s4.5.4.
const QUANTA: u64 = 3;
/// Below this rate a quantum may be one datagram. s4.6.3.
const ONE_DATAGRAM_RATE: Rate = Rate::from_bits_per_second(1_200_000);
const MAX_QUANTUM: u64 = 64 * 1024;
const QUANTUM_TIME: Duration = Duration::from_millis(1);

impl Bbr2 {
    pub(super) fn init_pacing_rate(&mut self, rtt: Option<Duration>) {
        let rtt = rtt.filter(|rtt| !rtt.is_zero()).unwrap_or(NOMINAL_RTT);
        let nominal = Rate::from_bytes_over(self.initial_window.bytes(), rtt);
        self.pacing_rate = nominal.mul_f64(STARTUP_PACING_GAIN);
        self.set_quantum();
    }

    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate = self.bw.mul_f64(gain * (1.0 - PACING_MARGIN));
        // While the pipe is not known to be full a low estimate must not slow the search.
        if self.cycle.filled_pipe || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    pub(super) fn set_quantum(&mut self) {
        let datagrams = if self.pacing_rate < ONE_DATAGRAM_RATE {
            1
        } else {
            2
        };
        let quantum = self.pacing_rate.bytes_in(QUANTUM_TIME).min(MAX_QUANTUM);
        self.quantum = quantum.max(self.mtu.saturating_mul(datagrams));
    }

    pub(super) const fn min_pipe(&self) -> u64 {
        self.mtu.saturating_mul(MIN_PIPE_PACKETS)
    }

    /// `gain` times the bandwidth-delay product in bytes.
    pub(super) fn bdp(&self, bandwidth: Rate, gain: f64) -> u64 {
        match self.min_rtt.value {
            Some(rtt) => (gain * bandwidth.bytes_in(rtt) as f64) as u64,
            None => self.initial_window.bytes(),
        }
    }

    pub(super) fn inflight(&self, bandwidth: Rate, gain: f64) -> u64 {
        self.with_quanta(self.bdp(bandwidth, gain))
    }

    pub(super) fn probe_rtt_window(&self) -> u64 {
        self.bdp(self.bw, State::ProbeRtt.window_gain())
            .max(self.min_pipe())
    }

    /// At least what batches and pipelining need. s4.6.4.2.
    fn with_quanta(&self, inflight: u64) -> u64 {
        let gathered = self.ack_request.map_or(0, |request| {
            let packets = request.ack_eliciting_threshold.saturating_mul(self.mtu);
            packets.min(self.bw.bytes_in(request.max_ack_delay))
        });
        let offload = self.quantum.saturating_mul(QUANTA).saturating_add(gathered);
        let inflight = inflight.max(offload).max(self.min_pipe());
        match self.state {
            State::ProbeUp => inflight.saturating_add(2 * self.mtu),
            _ => inflight,
        }
    }

    /// s4.6.4.6.
    pub(super) fn set_window(&mut self, sample: &Sample) {
        let acked = sample.newly_acked;
        let held = self
            .recovery
            .modulate(&mut self.window, sample.in_flight, acked, self.mtu);
        if !held {
            let volume = self.bdp(self.bw, self.state.window_gain());
            let most = self.with_quanta(volume.saturating_add(self.aggregation.extra));
            let grown = self.window.saturating_add(acked);
            if self.cycle.filled_pipe {
                self.window = grown.min(most);
            } else if self.window < most || sample.total_delivered < self.initial_window.bytes() {
                self.window = grown;
            }
            self.window = self.window.max(self.min_pipe());
        }
        self.bound_window();
    }

    pub(super) fn bound_window(&mut self) {
        if self.state == State::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        let cap = match self.state {
            State::Startup => UNBOUNDED,
            State::ProbeCruise | State::ProbeRtt => self.inflight_with_headroom(),
            State::Drain | State::ProbeDown | State::ProbeRefill | State::ProbeUp => {
                self.bounds.inflight_hi
            }
        };
        let cap = cap.min(self.bounds.inflight_lo).max(self.min_pipe());
        self.window = self.window.min(cap).max(minimum_window(self.mtu));
    }
}
