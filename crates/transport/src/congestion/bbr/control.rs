//! From model and state to pacing rate, quantum and window. s5.6.

use std::time::Duration;

use super::{
    Bbr,
    model::{Sample, UNBOUNDED},
    state::State,
};
use crate::units::Rate;

/// Stands for the RTT before the first sample, so that the first flight is not held back.
const NOMINAL_RTT: Duration = Duration::from_millis(1);
const MAX_QUANTUM: u64 = 64 * 1024;
const QUANTUM_TIME: Duration = Duration::from_millis(1);

impl Bbr {
    pub(super) fn init_pacing_rate(&mut self, rtt: Option<Duration>) {
        let rtt = rtt.filter(|rtt| !rtt.is_zero()).unwrap_or(NOMINAL_RTT);
        let nominal = Rate::from_bytes_over(self.initial_window.bytes(), rtt);
        self.pacing_rate = nominal.mul_f64(self.params.startup_pacing_gain);
        self.set_quantum();
    }

    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let gain = gain * (1.0 - self.params.pacing_margin) * self.loss_compensation();
        let rate = self.bw.mul_f64(gain);
        // While the pipe is not known to be full a low estimate must not slow the search.
        if self.full_pipe.reached {
            self.pacing_rate = rate;
        } else {
            self.pacing_rate = self.even.bound(rate.max(self.pacing_rate), self.bw);
        }
    }

    pub(super) fn set_quantum(&mut self) {
        let quantum = self.pacing_rate.bytes_in(QUANTUM_TIME);
        self.quantum = quantum.min(MAX_QUANTUM).max(2 * self.mtu);
    }

    pub(super) fn min_pipe(&self) -> u64 {
        self.params.min_pipe_packets.saturating_mul(self.mtu)
    }

    /// `gain` times the bandwidth-delay product in bytes.
    pub(super) fn bdp(&self, gain: f64) -> u64 {
        self.bdp_at(self.bw, gain)
    }

    fn bdp_at(&self, bandwidth: Rate, gain: f64) -> u64 {
        match self.min_rtt.value {
            Some(rtt) => (gain * bandwidth.bytes_in(rtt) as f64) as u64,
            None => self.initial_window.bytes(),
        }
    }

    /// What is out of sight in batches under way: one of ours, and what the peer gathers before it
    /// acknowledges, where we asked it to. s5.6.4.2.
    pub(super) fn offload_budget(&self) -> u64 {
        let gathered = self.ack_request.map_or(0, |request| {
            let packets = request.ack_eliciting_threshold.saturating_mul(self.mtu);
            packets.min(self.bw.bytes_in(request.max_ack_delay))
        });
        self.quantum.saturating_add(gathered)
    }

    /// Adds what batches and pipelining need at least.
    fn quantization_budget(&self, inflight: u64) -> u64 {
        let inflight = inflight.max(self.offload_budget()).max(self.min_pipe());
        match self.state {
            State::ProbeUp => inflight.saturating_add(2 * self.mtu),
            _ => inflight,
        }
    }

    pub(super) fn inflight(&self, bandwidth: Rate, gain: f64) -> u64 {
        self.quantization_budget(self.bdp_at(bandwidth, gain))
    }

    pub(super) fn set_window(&mut self, sample: &Sample) {
        let wanted = self.bdp(self.cwnd_gain());
        let max_inflight = self.quantization_budget(wanted.saturating_add(self.aggregation.extra));
        let grown = self.window.saturating_add(sample.newly_acked);
        if self.full_pipe.reached {
            self.window = grown.min(max_inflight);
        } else if self.window < max_inflight || sample.total_delivered < self.initial_window.bytes()
        {
            self.window = grown;
        }
        self.window = self.window.max(self.min_pipe());
        if self.state == State::ProbeRtt {
            // The datagram size may have grown since that window was chosen.
            self.window = self.window.min(self.probe_rtt.window.max(self.min_pipe()));
        }
        self.bound_window_for_model();
    }

    fn bound_window_for_model(&mut self) {
        let cap = match self.state {
            State::Startup => UNBOUNDED,
            State::ProbeCruise | State::ProbeRtt => self.inflight_with_headroom(),
            State::Drain
            | State::ProbeDown
            | State::ProbeRefill
            | State::ProbeUp
            | State::Share => self.inflight_longterm,
        };
        let cap = cap.min(self.inflight_shortterm).max(self.min_pipe());
        self.window = self.window.min(cap);
    }

    /// Remembers the last window that neither recovery nor ProbeRTT lowered.
    pub(super) fn save_window(&mut self) {
        self.prior_window = if self.recovery.is_open() || self.state == State::ProbeRtt {
            self.prior_window.max(self.window)
        } else {
            self.window
        };
    }

    pub(super) fn restore_window(&mut self) {
        self.window = self.window.max(self.prior_window);
    }
}
