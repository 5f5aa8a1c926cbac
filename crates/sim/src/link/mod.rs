//! Links: what happens to a packet between two hosts.
//!
//! Purpose: rate, queue, delay, faults, each direction by itself.
//! Owns: configuration ([`LinkConfig`]), the running direction, loss models, statistics.
//! Does not own: events, hosts and routes (`world`), presets ([`crate::links`]).
//! Called by: `world`.
//! To add a loss model: a variant in `loss.rs`. To add a fault: a field in `config.rs` and a step
//! in `direction.rs` with a purpose of its own in `draw.rs`. To add a queue discipline: `aqm`. To
//! add a way in which the rate varies: `server.rs`.

mod aqm;
mod config;
mod direction;
mod loss;
mod managed;
mod outage;
mod queue;
mod server;
mod stats;
mod transmitter;

pub use aqm::Aqm;
pub use config::{ConfigError, DirectionConfig, Jitter, JitterOrder, LinkConfig, Reordering};
pub(crate) use direction::{DirectionState, Offer, Settled};
pub use loss::LossModel;
pub use outage::{Outage, OutageMode};
pub use queue::QueueSize;
pub use stats::{DirectionStats, DropCause, Drops};
