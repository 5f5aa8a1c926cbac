//! What happened, told to whoever wants to know.
//!
//! Purpose: one stream of typed [`Event`]s for every packet, frame, timer and decision, and the
//! sinks that turn it into qlog files or counters.
//! Owns: [`Event`], [`Observer`] (one branch when nobody listens), [`Sink`] and its factories,
//! the qlog, counters and tee sinks.
//! Does not own: the facts themselves; each room emits its own. Statistics that the API returns
//! (`stats()`) are kept by their rooms and need no sink.
//! Called by: every room (`observer.emit(now, || Event::...)`).
//! Spec: draft-ietf-quic-qlog-main-schema, draft-ietf-quic-qlog-quic-events-13.
//! To add a variant: an event is a variant of [`Event`] and an arm in `qlog/events.rs` and
//! `counters.rs`; a sink is one file here that implements [`Sink`] and [`SinkFactory`].
//!
//! Order: the frames of a packet that is being *sent* come before its [`Event::PacketSent`]
//! (the packet is sealed last); the frames of a packet *received* come after its
//! [`Event::PacketReceived`] and belong to it until the next packet.

mod counters;
mod event;
#[cfg(feature = "qlog")]
mod qlog;
mod sink;
mod tee;
#[cfg(test)]
mod tests;

pub use counters::{CounterSnapshot, Counters, FRAME_NAMES};
pub use event::{
    Abuse, ConnectionState, DataPosition, DropReason, EcnPhase, Event, FlowScope, HalfStream,
    PacketKind, PathCandidate, PathVerdict, RecoveryMetrics, TimerKind,
};
#[cfg(feature = "qlog")]
pub use qlog::{QlogFactory, QlogSink, QlogWriter};
pub use sink::{ConnectionInfo, Observer, SharedSinkFactory, Sink, SinkFactory};
pub use tee::{Tee, TeeFactory};
