//! Links: what happens to a packet between two hosts.
//!
//! Purpose: rate, queue, delay, faults, each direction by itself.
//! Owns: configuration ([`LinkConfig`]), the running direction, loss models, statistics.
//! Does not own: events, hosts and routes (`world`), presets ([`crate::links`]).
//! Called by: `world`; by programs with a clock of their own through [`Line`].
//! To add a loss model: a variant in `loss.rs`. To add a fault: a field in `config.rs` and a step
//! in `wire.rs` with a purpose of its own in `draw.rs`. To add a queue discipline: `aqm`. To
//! add a way in which the rate varies: `server.rs`.

mod aqm;
mod coding;
mod config;
mod direction;
mod grants;
mod handover;
mod input;
mod line;
mod loss;
mod managed;
mod outage;
mod queue;
mod rate;
mod recorded;
mod server;
mod silence;
mod spans;
mod stats;
mod trace;
mod transmitter;
mod wire;

pub use aqm::Aqm;
pub use coding::{AdaptiveCoding, CodingState};
pub use config::{ConfigError, DirectionConfig, Jitter, JitterOrder, LinkConfig, Reordering};
pub(crate) use direction::{DirectionState, Offer, Settled};
pub use grants::Grants;
pub use handover::Handover;
pub use input::InputFile;
pub use line::Line;
pub use loss::LossModel;
pub use outage::{Outage, OutageMode};
pub use queue::QueueSize;
pub use rate::{RateStep, RateSteps, RateWander, Turns};
pub use recorded::Pattern;
pub use silence::{Gaps, Silences};
pub use spans::{Quantile, Spread, Timing};
pub use stats::{DirectionStats, DropCause, Drops};
pub use trace::{MAX_TRACE_BYTES, TraceError, TraceSource, parse_trace};
