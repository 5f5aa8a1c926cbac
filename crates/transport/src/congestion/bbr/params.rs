//! The constants of one BBR variant.

use std::time::Duration;

use super::taut::TautRules;

/// Gains, thresholds and times; a variant of BBRv3 differs in these.
///
/// Names follow draft-ietf-ccwg-bbr-06 s2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Params {
    /// Registry key.
    pub(super) name: &'static str,
    /// Deviations from the draft.
    pub(super) rules: TautRules,
    pub(super) startup_pacing_gain: f64,
    pub(super) drain_pacing_gain: f64,
    pub(super) probe_down_pacing_gain: f64,
    pub(super) probe_up_pacing_gain: f64,
    pub(super) default_cwnd_gain: f64,
    pub(super) probe_up_cwnd_gain: f64,
    pub(super) probe_rtt_cwnd_gain: f64,
    /// Share of bytes lost per round trip above which a probe went too high.
    pub(super) loss_threshold: f64,
    /// Discontiguous losses in one round that, with the threshold, end Startup.
    pub(super) startup_full_loss_count: u32,
    /// Growth of the delivery rate per round below which the pipe may be full.
    pub(super) full_bandwidth_growth: f64,
    /// Rounds without that growth after which it is.
    pub(super) full_bandwidth_rounds: u32,
    /// Multiplicative decrease per round with loss.
    pub(super) beta: f64,
    /// Share of the long-term bound left free while cruising.
    pub(super) headroom: f64,
    /// Pacing stays this share below the estimate.
    pub(super) pacing_margin: f64,
    /// Floor of the window in datagrams.
    pub(super) min_pipe_packets: u64,
    /// Rounds in Drain at most.
    pub(super) drain_rounds: u64,
    /// How long a minimum RTT is believed.
    pub(super) min_rtt_window: Duration,
    /// Time without a new low after which the RTT is probed. At most `min_rtt_window`.
    ///
    /// Draft -06 says 5 s; its later edits derive the probe from `min_rtt_window` (10 s), which
    /// is this field set to 10 s.
    pub(super) probe_rtt_interval: Duration,
    pub(super) probe_rtt_duration: Duration,
    /// Rounds for which acknowledgement aggregation is remembered; 1 in Startup.
    pub(super) extra_acked_rounds: u64,
    /// Least time between bandwidth probes; up to `probe_wait_jitter` is added at random.
    pub(super) probe_wait: Duration,
    pub(super) probe_wait_jitter: Duration,
    /// Most rounds between bandwidth probes, to live with Reno.
    pub(super) reno_rounds: u64,
}

impl Params {
    /// draft-ietf-ccwg-bbr-06.
    pub(super) const BBR3: Self = Self {
        name: "bbr3",
        rules: TautRules::NONE,
        // 4 ln 2.
        startup_pacing_gain: 2.772_588_722_239_781,
        drain_pacing_gain: 0.5,
        probe_down_pacing_gain: 0.9,
        probe_up_pacing_gain: 1.25,
        default_cwnd_gain: 2.0,
        probe_up_cwnd_gain: 2.25,
        probe_rtt_cwnd_gain: 0.5,
        loss_threshold: 0.02,
        startup_full_loss_count: 6,
        full_bandwidth_growth: 1.25,
        full_bandwidth_rounds: 3,
        beta: 0.7,
        headroom: 0.15,
        pacing_margin: 0.01,
        min_pipe_packets: 4,
        drain_rounds: 3,
        min_rtt_window: Duration::from_secs(10),
        probe_rtt_interval: Duration::from_secs(5),
        probe_rtt_duration: Duration::from_millis(200),
        extra_acked_rounds: 10,
        probe_wait: Duration::from_secs(2),
        probe_wait_jitter: Duration::from_secs(1),
        reno_rounds: 63,
    };
}
