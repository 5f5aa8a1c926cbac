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

mod ac_rlnc;
mod auto;
mod constant;
pub mod flec;
mod options;
mod quirl;
pub mod registry;
mod rquic;
mod tail;

#[cfg(test)]
mod contract_tests;

use std::{fmt, sync::Arc, time::Duration};

use super::{LossEstimate, Strength, SymbolFate};
use crate::{
    message::MessageOutlook,
    time::Instant,
    units::{PathId, Rate},
};

pub use ac_rlnc::AcRlnc;
pub use auto::Auto;
pub use constant::Constant;
pub use quirl::Quirl;
pub use rquic::Rquic;
pub use tail::Tail;

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
    /// A packet may leave, and nothing is there to put into it since the burst ended: each time, while
    /// the fate of source symbols is open. The papers' loops run "at each available slot": between
    /// bursts these are the slots. No more than two repair symbols for each such source symbol are let
    /// be under way. The same question has the same answer until something happened: who answers at random makes
    /// `poll_transmit` say that there is nothing, and then have a packet.
    SlotIdle,
}

/// A packet whose round trip was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// When it left.
    pub sent: Instant,
    /// How long it took, without the peer's delay.
    pub round_trip: Duration,
    /// How much earlier the last repair symbol before it had left on its path, if that is remembered.
    pub after_repair: Option<Duration>,
    /// Its place among what left since the application had nothing to send, if that is remembered: of the first packets only.
    pub in_burst: Option<InBurst>,
}

/// What of a burst had left up to the end of a packet, protected or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InBurst {
    /// Which burst, counted from 0 on.
    pub burst: u64,
    /// Packets.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// Packets so far, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fates {
    /// Packets.
    pub packets: u64,
    /// Of these, lost ones.
    pub lost: u64,
    /// Lost ones whose predecessor was not.
    pub rows: u64,
}

/// Packets by whether a repair symbol had left within a round trip before them, or leaves with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByCompany {
    /// None had.
    pub alone: Fates,
    /// One had, or does.
    pub beside_repairs: Fates,
}

/// What a scheduler sees. The default is a view in which nothing has happened, to begin a test with.
#[derive(Clone, Copy, Debug, Default)]
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
    /// Source symbols whose fate is open: neither acknowledged, recovered nor lost, nor copied to another
    /// path.
    pub in_flight: u64,
    /// Source symbols that are lost, and whose frames wait for a repair symbol under way. The papers'
    /// missing degrees of freedom: what went out again instead is not missing any more.
    pub missing: u64,
    /// Source symbols that were lost and whose frames went out again, so far.
    pub retransmitted: u64,
    /// Bytes of source symbols since the burst before ended.
    pub burst_bytes: u64,
    /// How long after the burst before the latest one began, protected or not; `None` for the first.
    pub burst_interval: Option<Duration>,
    /// Bytes of packets that left since the application last had nothing to send, protected or not, in packets without repair
    /// symbols.
    pub left_bytes: u64,
    /// Repair symbols decided on that have not left.
    pub queued: u16,
    /// Repair symbols that are neither acknowledged nor lost.
    pub repairs_in_flight: u64,
    /// Whether the latest burst has ended and nothing left since: the application has nothing to
    /// send, or see `held_back`.
    pub idle: bool,
    /// Whether flow control holds back what would follow the latest burst, as far as was seen when a
    /// packet could last have left.
    pub held_back: bool,
    /// Bytes in flight when flow control last held data back: about what it lets be under way at
    /// once. `None` until it did.
    pub flow_window: Option<u64>,
    /// Bytes of streams that wait to be sent, and that flow control lets go: 0 at the end of a burst,
    /// else those when the latest packet was begun. No more than four times `congestion_window`
    /// are counted; 0 also where there are too many streams to ask.
    pub waiting_bytes: u64,
    /// Bytes that a coding window may have, by the encoder and the peer's decoder.
    pub window_bytes: u64,
    /// Congestion window of the path in use. Bytes.
    pub congestion_window: u64,
    /// Bytes in flight on that path.
    pub bytes_in_flight: u64,
    /// Bytes of a full datagram on that path.
    pub datagram_bytes: u64,
    /// Whether that window grows with every acknowledgement: then what is in flight at the end may be
    /// twice what it is now.
    pub slow_start: bool,
    /// Smoothed round-trip time of the path in use.
    pub smoothed_rtt: Duration,
    /// Smallest round-trip time of that path.
    pub min_rtt: Duration,
    /// Smallest of its newest samples: more than the smallest of all is a queue.
    pub calm_rtt: Duration,
    /// Probe timeout of that path: how long nothing tells of a loss with nothing behind it.
    pub probe_timeout: Duration,
    /// How fast that path delivered while a queue stood, if one did. `None` where the connection may have several paths.
    pub capacity: Option<Rate>,
    /// How long packets take to the peer: by its receive timestamps, else half of that.
    pub one_way_delay: Duration,
    /// The path's losses, as far as known; over several paths, those that the source symbols whose fate is
    /// open have to expect together.
    pub loss: LossEstimate,
    /// Packets of the path of the latest one by whether repair symbols left beside them: counts since the connection began.
    pub by_company: ByCompany,
    /// The losses of the path that repair symbols take; `None` if most source symbols take it too.
    pub repair_loss: Option<LossEstimate>,
    /// Losses to be expected among the source symbols whose fate is open, each on its path. Zverev (2023),
    /// eq. 4.11.
    pub expected_losses: f64,
    /// Whether the connection may have several paths.
    pub several: bool,
    /// Paths that carry the coding window together: those that come too late have left it. Where these are
    /// more than one, windows and bytes in flight are of all of them, `one_way_delay` is that of the path
    /// that repair symbols take, and other times are of the path of the latest source symbol, or at the
    /// end of a burst those that losses are expected to take.
    pub paths: u16,
    /// What repair symbols of the code in use can rebuild.
    pub strength: Strength,
    /// The nearest deadline of messages whose fate is open that a packet which leaves now can meet, by
    /// half a round trip. `None` without such a message. docs/messages.md.
    pub deadline: Option<Instant>,
    /// The least time that such a message had when it was handed over.
    pub lifetime: Option<Duration>,
    /// The deadline of the message that stream data was sent of last, of those with a deadline. Asked
    /// for [`Occasion::SlotFree`] after each packet, a scheduler sees by it which deadlines it has not
    /// protected yet.
    pub sent_deadline: Option<Instant>,
    /// When the application said that it would hand over its next message; may have passed. `None`
    /// if it said nothing since the last.
    pub next_message_at: Option<Instant>,
    /// Whether the latest packet, asked about for [`Occasion::SlotFree`], has stream data that left before.
    pub repeats: bool,
    /// Whether the latest source symbol has the last bytes that a stream or message had to send, up to the end that the
    /// application has told, whatever follows of others: what is lost of it, nothing behind it in its stream shows. Also when
    /// these are bytes sent again. But for streams that are never protected.
    pub stream_ends: bool,
    /// Whether data of streams waits that may leave: with `stream_ends`, the burst goes on with others.
    pub more_waits: bool,
    /// Bytes of streams that leave before one ends, by the order of the stream scheduler when the latest packet was begun, with
    /// it: of the first whose end is known, if flow control lets it go. No more than `window_bytes`: it ends inside the coding
    /// window. `None` also where there are too many streams to ask, where nothing waits, and for schedulers that do not
    /// [heed ends](RedundancyScheduler::heeds_ends).
    pub ends_in: Option<u64>,
}

/// Bytes that are in flight at once when the last of them leaves, as far as repair symbols can cover them: the
/// congestion window, or what that may grow to, and no more than a coding window of `window_bytes` has.
pub fn last_flight(congestion_window: u64, slow_start: bool, window_bytes: u64) -> u64 {
    let growth = if slow_start { 2 } else { 1 };
    let flight = congestion_window.saturating_mul(growth);
    flight.min(window_bytes)
}

/// Of `waiting` bytes, those that leave before what does is in flight when the last of them has left, with so many bytes in
/// flight at once: what is told by [`RedundancyScheduler::plain_for`] where nothing else matters.
pub fn before_flight(waiting: u64, flight: u64) -> u64 {
    waiting.saturating_sub(flight).saturating_sub(1)
}

/// What is told of packets to come and of the path in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// The path.
    pub path: PathId,
    /// As [`RedundancyView::several`].
    pub several: bool,
    /// As [`RedundancyView::waiting_bytes`].
    pub waiting_bytes: u64,
    /// As [`RedundancyView::more_waits`].
    pub more_waits: bool,
    /// As [`RedundancyView::ends_in`].
    pub ends_in: Option<u64>,
    /// As [`RedundancyView::congestion_window`].
    pub congestion_window: u64,
    /// As [`RedundancyView::bytes_in_flight`].
    pub bytes_in_flight: u64,
    /// As [`RedundancyView::datagram_bytes`].
    pub datagram_bytes: u64,
    /// As [`RedundancyView::slow_start`].
    pub slow_start: bool,
    /// As [`RedundancyView::one_way_delay`]; `None` if no timestamp tells.
    pub one_way_delay: Option<Duration>,
    /// Messages under way and to come.
    pub messages: MessageOutlook,
}

/// Repair symbols to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// How many; 0 sends none.
    pub count: u16,
    /// So many source symbols are covered: the latest, but for those `behind`.
    pub window: u16,
    /// How many of the latest source symbols are left out.
    pub behind: u16,
}

impl Repairs {
    /// None.
    pub const NONE: Self = Self {
        count: 0,
        window: 0,
        behind: 0,
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
    /// After [`Self::protects`] said no: bytes that may leave plain without the question until the next
    /// answer, if no message has a deadline; 0 asks for every packet. After feedback they are no more than
    /// what leaves [`before_flight`] then; with several paths, and where [`Self::heeds_ends`], feedback ends them. [`u64::MAX`] ends
    /// with the next answer alone on one path: who depends on anything but what waits heeds feedback, or says 0.
    fn plain_for(&self, view: &RedundancyView) -> u64 {
        let _ = view;
        0
    }
    /// Whether [`Occasion::Feedback`] is of interest now where no message has a deadline and flow
    /// control holds nothing back: what would be answered with none and changes nothing need not be asked.
    fn heeds_feedback(&self, now: Instant) -> bool {
        let _ = now;
        true
    }
    /// Whether [`RedundancyView::ends_in`] is of interest: to tell it is work for packets while several streams have data. Then
    /// an answer of [`Self::plain_for`] ends when one of them may end earlier than it was told.
    fn heeds_ends(&self) -> bool {
        false
    }
    /// A packet without a repair symbol came back.
    fn on_round_trip(&mut self, now: Instant, packet: Measured) {
        let _ = (now, packet);
    }
    /// What became of source symbols, before each question where one path carries them: `known`, the largest ID of one that the peer
    /// has, and the `fate` of one by its ID; `None` for one that is not remembered, or that travels on another path too.
    fn look(&mut self, now: Instant, known: Option<u64>, fate: &dyn Fn(u64) -> Option<SymbolFate>) {
        let _ = (now, known, fate);
    }
    /// What to send now.
    fn ask(&mut self, occasion: Occasion, view: &RedundancyView) -> Repairs;
    /// Whether repair symbols for source symbol `id` will be asked for in time, if its fate is open then:
    /// it need not be copied to another path in case it is lost.
    fn plans(&self, id: u64) -> bool {
        let _ = id;
        false
    }
    /// How much time the repair symbols asked for last may be expected to save: for statistics.
    fn saving(&self) -> Duration {
        Duration::ZERO
    }
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
