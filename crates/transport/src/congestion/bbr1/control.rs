//! From model and state to pacing rate, quantum and window. s4.2.

use std::time::Duration;

use super::{
    super::minimum_window,
    Bbr1,
    machine::{HIGH_GAIN, State},
};
use crate::{congestion::bbr::model::Sample, units::Rate};

/// Stands for the RTT before the first sample. s4.2.1.
const NOMINAL_RTT: Duration = Duration::from_millis(1);
/// Least window while the model rules, in datagrams. s4.2.3.3.
const MIN_PIPE_PACKETS: u64 = 4;
/// Quanta in flight beyond the path: one each in sender, network and receiver. s4.2.3.2.
const QUANTA: u64 = 3;
/// Below this rate a quantum is one datagram, below the next two. s4.2.2.
const ONE_DATAGRAM_RATE: Rate = Rate::from_bits_per_second(1_200_000);
const TWO_DATAGRAMS_RATE: Rate = Rate::from_bits_per_second(24_000_000);
const MAX_QUANTUM: u64 = 64 * 1024;
const QUANTUM_TIME: Duration = Duration::from_millis(1);

impl Bbr1 {
    pub(super) fn init_pacing_rate(&mut self, rtt: Option<Duration>) {
        let rtt = rtt.filter(|rtt| !rtt.is_zero()).unwrap_or(NOMINAL_RTT);
        self.pacing_rate =
            Rate::from_bytes_over(self.initial_window.bytes(), rtt).mul_f64(HIGH_GAIN);
        self.set_quantum();
    }

    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate = self.bandwidth.get().mul_f64(gain);
        // While the pipe is not known to be full a low estimate must not slow the search.
        if self.full_pipe.reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    pub(super) fn set_quantum(&mut self) {
        self.quantum = if self.pacing_rate < ONE_DATAGRAM_RATE {
            self.mtu
        } else if self.pacing_rate < TWO_DATAGRAMS_RATE {
            self.mtu.saturating_mul(2)
        } else {
            let quantum = self.pacing_rate.bytes_in(QUANTUM_TIME).min(MAX_QUANTUM);
            quantum.max(self.mtu)
        };
    }

    pub(super) const fn min_pipe(&self) -> u64 {
        self.mtu.saturating_mul(MIN_PIPE_PACKETS)
    }

    /// `gain` times the estimated bandwidth-delay product, and what batches need. s4.2.3.2.
    pub(super) fn inflight(&self, gain: f64) -> u64 {
        let Some(rtt) = self.round_trip.value else {
            return self.initial_window.bytes();
        };
        let product = (gain * self.bandwidth.get().bytes_in(rtt) as f64) as u64;
        product
            .saturating_add(self.quantum.saturating_mul(QUANTA))
            .saturating_add(self.held_back())
    }

    /// What the peer gathers before it acknowledges, where we asked it to.
    fn held_back(&self) -> u64 {
        self.ack_request.map_or(0, |request| {
            let packets = request.ack_eliciting_threshold.saturating_mul(self.mtu);
            packets.min(self.bandwidth.get().bytes_in(request.max_ack_delay))
        })
    }

    /// s4.2.3.6.
    pub(super) fn set_window(&mut self, sample: &Sample) {
        let acked = sample.newly_acked;
        let held = self
            .recovery
            .modulate(&mut self.window, sample.in_flight, acked, self.mtu);
        if !held {
            let target = self.inflight(self.machine.window_gain());
            let grown = self.window.saturating_add(acked);
            if self.full_pipe.reached {
                self.window = grown.min(target);
            } else if self.window < target || sample.total_delivered < self.initial_window.bytes() {
                self.window = grown;
            }
            self.window = self.window.max(self.min_pipe());
        }
        self.bound_for_probe_rtt();
        self.window = self.window.max(minimum_window(self.mtu));
    }

    /// s4.2.3.5.
    pub(super) fn bound_for_probe_rtt(&mut self) {
        if self.machine.state == State::ProbeRtt {
            self.window = self.window.min(self.min_pipe());
        }
    }
}
