//! When repair symbols are sent: the redundancy policies.
//!
//! Purpose: decide how many repair symbols leave now, and which source symbols they cover.
//! Owns: [`RedundancyScheduler`], what it sees ([`RedundancyView`]), what it may say ([`Repairs`]),
//! the built-in ones, the [`registry`].
//! Does not own: making repair symbols, congestion control: what a scheduler asks for waits for
//! room in the window as data does.
//! Called by: [`super::FecSender`].
//! To add a variant: one file here that implements [`RedundancyScheduler`], one line in
//! [`registry`].
//!
//! A view goes in, a decision comes out; what asks for too much is cut, not refused.

mod constant;
mod quirl;
pub mod registry;

use std::{fmt, sync::Arc};

use super::LossEstimate;
use crate::time::Instant;

pub use constant::Constant;
pub use quirl::Quirl;

/// Why a scheduler is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Occasion {
    /// A packet may leave; the repair symbols asked for go before other data.
    SlotFree,
    /// Acknowledgements or losses were heard of.
    Feedback,
    /// The application has nothing more to send for now. Once after the last source symbol.
    BurstEnd,
    /// [`RedundancyScheduler::timer`] has come.
    Timer,
}

/// What a scheduler sees.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RedundancyView {
    /// Now.
    pub now: Instant,
    /// Source symbols that can be covered: the latest so many.
    pub held: u16,
    /// Of these the latest so many, from the oldest on whose fate is open.
    pub span: u16,
    /// Source symbols sent so far.
    pub sources: u64,
    /// Source symbols sent since the repair symbols decided on last: the latest so many.
    pub uncovered: u64,
    /// Source symbols whose fate is open: neither acknowledged, recovered nor lost.
    pub in_flight: u64,
    /// Bytes of source symbols since the burst before ended.
    pub burst_bytes: u64,
    /// Repair symbols decided on that have not left.
    pub queued: u16,
    /// Bytes of streams that wait to be sent, and that flow control lets go: 0 at the end of a burst,
    /// else those when the latest packet was begun. No more than four times `congestion_window`
    /// are counted; 0 also where there are too many streams to ask.
    pub waiting_bytes: u64,
    /// Bytes that a coding window may have, by the encoder and the peer's decoder.
    pub window_bytes: u64,
    /// Congestion window of the path in use. Bytes.
    pub congestion_window: u64,
    /// Whether that window grows with every acknowledgement: then what is in flight at the end may be
    /// twice what it is now.
    pub slow_start: bool,
    /// Smoothed round-trip time of the path in use.
    pub smoothed_rtt: std::time::Duration,
    /// The path's losses, as far as known.
    pub loss: LossEstimate,
}

/// What a packet that is begun is told of those behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// As [`RedundancyView::waiting_bytes`].
    pub waiting_bytes: u64,
    /// As [`RedundancyView::congestion_window`].
    pub congestion_window: u64,
    /// As [`RedundancyView::slow_start`].
    pub slow_start: bool,
}

/// Repair symbols to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// How many; 0 sends none.
    pub count: u16,
    /// The latest so many source symbols are covered.
    pub window: u16,
}

impl Repairs {
    /// None.
    pub const NONE: Self = Self {
        count: 0,
        window: 0,
    };
}

/// The redundancy policy of one connection.
pub trait RedundancyScheduler: fmt::Debug + Send {
    /// CLI flag, registry key and qlog value.
    fn name(&self) -> &'static str;
    /// Whether packets that leave now are protected.
    fn protects(&self, view: &RedundancyView) -> bool {
        let _ = view;
        true
    }
    /// What to send now.
    fn ask(&mut self, occasion: Occasion, view: &RedundancyView) -> Repairs;
    /// When to be asked though nothing happens.
    fn timer(&self) -> Option<Instant> {
        None
    }
}

/// Builds schedulers of one kind, with its options.
pub trait RedundancyFactory: fmt::Debug + Send + Sync {
    /// The name its schedulers bear.
    fn name(&self) -> &'static str;
    /// A scheduler for a new connection.
    fn build(&self) -> Box<dyn RedundancyScheduler>;
}

/// A shared factory, as the configuration holds it.
pub type SharedRedundancyFactory = Arc<dyn RedundancyFactory>;
