//! The states and what each does to rate and window. s5.6.1.

use super::params::Params;

/// Where the controller stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Doubles the rate each round until the pipe is full.
    Startup,
    /// Gets rid of the queue that Startup made.
    Drain,
    /// Sends less than the path delivers, to leave room.
    ProbeDown,
    /// Sends what the path delivers.
    ProbeCruise,
    /// Fills the pipe for a round before probing.
    ProbeRefill,
    /// Sends more than the path delivered so far.
    ProbeUp,
    /// Halves the data in flight, to see the path without queue.
    ProbeRtt,
    /// Holds the window that CUBIC would have; of `bbr3-taut` only.
    Share,
}

impl State {
    pub(super) const fn is_probe_bw(self) -> bool {
        matches!(
            self,
            Self::ProbeDown | Self::ProbeCruise | Self::ProbeRefill | Self::ProbeUp
        )
    }

    /// Whether loss is expected here and tells about the bounds, not about a change of the path.
    pub(super) const fn is_probing_bandwidth(self) -> bool {
        matches!(self, Self::Startup | Self::ProbeRefill | Self::ProbeUp)
    }

    pub(super) const fn pacing_gain(self, params: &Params) -> f64 {
        match self {
            Self::Startup => params.startup_pacing_gain,
            Self::Drain => params.drain_pacing_gain,
            Self::ProbeDown => params.probe_down_pacing_gain,
            Self::ProbeUp => params.probe_up_pacing_gain,
            Self::ProbeCruise | Self::ProbeRefill | Self::ProbeRtt | Self::Share => 1.0,
        }
    }

    pub(super) const fn cwnd_gain(self, params: &Params) -> f64 {
        match self {
            Self::ProbeUp => params.probe_up_cwnd_gain,
            Self::ProbeRtt => params.probe_rtt_cwnd_gain,
            _ => params.default_cwnd_gain,
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
            Self::Share => "share",
        }
    }
}

/// What the acknowledgements arriving now tell about a bandwidth probe. s2.13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckPhase {
    /// Nothing: no probe.
    Init,
    /// The pipe is being refilled.
    Refilling,
    /// The probe began; its packets are not yet acknowledged.
    ProbeStarting,
    /// Packets of the probe are being acknowledged.
    ProbeFeedback,
    /// The probe ended; its last packets are being acknowledged.
    ProbeStopping,
}
