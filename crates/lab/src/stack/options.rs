//! What a plan may say about a stack.

use serde::{Deserialize, Serialize};
use tautline_transport::units::Rate;

use crate::{
    names::Names,
    quantity::{Size, Span},
    workload::amount,
};

/// A rate as plans write it: `"20 Mb/s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Speed(#[serde(with = "amount::rate")] pub Rate);

/// When a workload begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ready {
    /// When the handshake is complete.
    #[default]
    Connected,
    /// When every path is validated, too, or was given up.
    Paths,
}

/// Options of both ends of a connection. What is not said is the stack's default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackOptions {
    /// Which stack: `tautline`, `split-tcp`, or another that was registered.
    #[serde(default = "tautline")]
    pub stack: String,
    /// Congestion controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// What the path carries, in IP bytes, where an operator knows it: `split-tcp` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Speed>,
    /// Places of the network at which a proxy splits the connection, on its way and in whatever order:
    /// `split-tcp` alone. Without it the proxies stand at the two hosts, and the whole way is theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxies: Option<Names>,
    /// The link whose part of a way with proxies is the satellite's, which `congestion`, `rate` and `ack`
    /// are of; unless said, with two proxies the part between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub satellite: Option<String>,
    /// Congestion controller of the other parts of a way with proxies; `cubic` unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub land_congestion: Option<String>,
    /// Acknowledgement policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack: Option<String>,
    /// Stream scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<String>,
    /// Forward erasure correction of what both ends send: a redundancy scheduler with its options,
    /// such as `"constant:25,20"`: 20 of 25 symbols carry data; `tautline` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fec: Option<String>,
    /// The code of its repair symbols: `xor:DEPTH`, `reed-solomon`, `rlc` (the default), `rlc-gf2`,
    /// `tetrys`; `tautline` with `fec` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fec_code: Option<String>,
    /// Source symbols that each end remembers to make repair symbols from, and to decode with; default 256,
    /// `tautline` with `fec` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fec_window: Option<u16>,
    /// Whether unreliable datagrams are protected as well; default false, `tautline` with `fec` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fec_datagrams: Option<bool>,
    /// Whether packets with source and with repair symbols are of one size on the wire; default false, `tautline`
    /// with `fec` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fec_padding: Option<bool>,
    /// Departures from RFC 9265 that no real network should see, to reproduce what others measured
    /// with them: `mask`, `repair-outside-cwnd`, `hold=MILLISECONDS`, with commas between;
    /// `tautline` with `fec` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fec_mode: Option<String>,
    /// Which paths a connection takes, by the names of the client's places: one, several, or `all`;
    /// the handshake goes over the first. Unless said, all with `multipath`, else the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Names>,
    /// Several paths at once, and by which packet scheduler: `min-rtt`, `auto` and so on. Without
    /// it, nothing of the kind is negotiated. `tautline` alone, of the stacks of this crate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multipath: Option<String>,
    /// Which of several paths carries the acknowledgements of what an end receives: `same-path` (the
    /// default), `one-path`, `grouped`; `tautline` with `multipath` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack_routing: Option<String>,
    /// Whether paths tell what arrived on each other (default true); `tautline` with `multipath` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_echoes: Option<bool>,
    /// By which of several paths' round trips receive windows are tuned: `largest` (the default), `smallest`,
    /// `mean`; `tautline` with `multipath` and windows that are tuned alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_rtt: Option<String>,
    /// When the workload begins: `connected` (the default), or `paths`: not before each of its paths
    /// is validated, or known not to be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// Initial congestion window in datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// Receive window of each stream and of the connection, fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_window: Option<Size>,
    /// How much of `receive_window` is offered, as a factor of at most 8: 0.95 where a part is set aside, as for
    /// repair symbols.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_window_share: Option<f64>,
    /// Whether receive windows grow with need; else they are what they would grow to, from the
    /// start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_tuning: Option<bool>,
    /// Bytes the sender's buffer takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Size>,
    /// Streams the peer may have open at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_streams: Option<u32>,
    /// Whether datagrams grow beyond 1200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_discovery: Option<bool>,
    /// UDP payload bytes of a datagram from the start, as if discovery had found them; with
    /// `mtu_discovery` off also for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// Whether packets are paced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<bool>,
    /// Whether packets carry ECT(0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// RTT assumed before the first sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_rtt: Option<Span>,
    /// Longest delay of acknowledgements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ack_delay: Option<Span>,
    /// Idle timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Span>,
}

fn tautline() -> String {
    "tautline".to_owned()
}

impl Default for StackOptions {
    fn default() -> Self {
        Self {
            stack: tautline(),
            congestion: None,
            rate: None,
            proxies: None,
            satellite: None,
            land_congestion: None,
            ack: None,
            streams: None,
            fec: None,
            fec_code: None,
            fec_window: None,
            fec_datagrams: None,
            fec_padding: None,
            fec_mode: None,
            paths: None,
            multipath: None,
            ack_routing: None,
            path_echoes: None,
            window_rtt: None,
            ready: None,
            initial_window: None,
            receive_window: None,
            receive_window_share: None,
            window_tuning: None,
            send_buffer: None,
            max_streams: None,
            mtu_discovery: None,
            mtu: None,
            pacing: None,
            ecn: None,
            initial_rtt: None,
            max_ack_delay: None,
            idle_timeout: None,
        }
    }
}
