//! Forward erasure correction: repair symbols that stand in for lost packets.
//!
//! Purpose: give a receiver what it needs to rebuild lost packets before they are sent again.
//! Owns: [`FecSender`] (the window of source symbols, repair symbols, what is known of each symbol's
//! fate, when a repair symbol is due), [`FecReceiver`] (decoding, SYMBOL_ACK), negotiation
//! ([`negotiate`]), [`LossMonitor`], what outlasts a connection of it ([`LossMemory`]), [`RedundancyScheduler`] and its registry.
//! Does not own: field arithmetic (`tautline-codes`), bytes of frames (`wire/`), which frames a
//! symbol holds and what they do (`connection/`), congestion control, which hears of every loss.
//! Called by: `connection/`.
//! Spec: docs/spec/fec.md; RFC 9265.
//! To add a variant: a redundancy scheduler is one file in `redundancy/` and one line in its
//! `registry.rs`; a code is a module and one line in `scheme.rs`, behind a feature.

mod config;
mod feedback;
mod hold;
mod lab;
mod loss_monitor;
mod memory;
mod monitors;
mod paths;
mod peer_decoder;
mod pending;
mod queue;
mod receiver;
mod recover;
pub mod redundancy;
mod repair;
mod scheme;
mod sender;
mod source;
mod stats;
mod strength;
mod waiting;

// They use every code.
#[cfg(all(
    test,
    feature = "fec-xor",
    feature = "fec-reed-solomon",
    feature = "fec-rlc",
    feature = "fec-tetrys"
))]
mod tests;

pub use config::FecConfig;
pub(crate) use hold::Hold;
pub use lab::{FecLab, FecLabError};
pub use loss_monitor::{LossEstimate, LossMonitor};
pub use memory::{LossMemory, LossStore};
pub use paths::PathOutlook;
pub(crate) use peer_decoder::check_window;
pub use receiver::FecReceiver;
pub use redundancy::{
    InBurst, Measured, Occasion, Outlook, RedundancyScheduler, RedundancyView, Repairs,
};
pub use scheme::{UnknownCode, by_name as code_by_name, negotiate, scheme_of};
pub(crate) use sender::{Delivered, OnLoss, symbol_not_sent};
pub use sender::{Departure, FecSender, PathState, RepairPlan, SentData};
pub use source::SymbolFate;
pub use stats::FecStats;
pub use strength::Strength;
/// The codes themselves: a scheme for [`FecConfig::schemes`] can be made of them where no name stands for it.
pub use tautline_codes as codes;
