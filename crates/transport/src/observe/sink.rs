//! Who listens.

use std::{fmt, sync::Arc};

use super::Event;
use crate::{
    time::Instant,
    units::{FourTuple, Side},
    wire::ConnectionId,
};

/// Takes the events of one connection (or of one endpoint).
///
/// Runs inside the state machine: it must not block. A sink that writes to a slow place should
/// hand over a buffer to another thread.
pub trait Sink: Send {
    /// Something happened at `now`.
    fn on_event(&mut self, now: Instant, event: &Event<'_>);
}

impl<F: FnMut(Instant, &Event<'_>) + Send> Sink for F {
    fn on_event(&mut self, now: Instant, event: &Event<'_>) {
        self(now, event);
    }
}

/// What a factory is told about a new connection.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// Which end we are.
    pub side: Side,
    /// The client's first destination connection ID; names the connection at both ends.
    pub original_dcid: ConnectionId,
    /// The network path it starts on.
    pub four_tuple: FourTuple,
    /// When it starts; event times count from here.
    pub start: Instant,
}

impl ConnectionInfo {
    /// All fields.
    pub const fn new(
        side: Side,
        original_dcid: ConnectionId,
        four_tuple: FourTuple,
        start: Instant,
    ) -> Self {
        Self {
            side,
            original_dcid,
            four_tuple,
            start,
        }
    }
}

/// Builds one sink per connection.
pub trait SinkFactory: fmt::Debug + Send + Sync {
    /// A sink for a new connection, or `None` to leave it unobserved.
    fn build(&self, info: &ConnectionInfo) -> Option<Box<dyn Sink>>;
}

/// A shared factory, as the configuration holds it.
pub type SharedSinkFactory = Arc<dyn SinkFactory>;

/// A sink, or nobody.
#[derive(Default)]
pub struct Observer(Option<Box<dyn Sink>>);

impl Observer {
    /// Hands events to `sink`.
    pub fn new(sink: Option<Box<dyn Sink>>) -> Self {
        Self(sink)
    }

    /// Nobody listens.
    pub const fn none() -> Self {
        Self(None)
    }

    /// The sink that `factory` builds for this connection, if any.
    pub fn from_factory(factory: Option<&SharedSinkFactory>, info: &ConnectionInfo) -> Self {
        Self(factory.and_then(|factory| factory.build(info)))
    }

    /// Whether anybody listens; skip work that only prepares events if not.
    #[inline]
    pub const fn is_active(&self) -> bool {
        self.0.is_some()
    }

    /// Tells the sink, if there is one; `event` is not even built otherwise.
    #[inline]
    pub fn emit<'e>(&mut self, now: Instant, event: impl FnOnce() -> Event<'e>) {
        if let Some(sink) = &mut self.0 {
            deliver(sink.as_mut(), now, event);
        }
    }
}

/// Kept out of line so that an unobserved packet pays for the branch only.
#[cold]
#[inline(never)]
fn deliver<'e>(sink: &mut dyn Sink, now: Instant, event: impl FnOnce() -> Event<'e>) {
    sink.on_event(now, &event());
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_active() {
            "Observer(active)"
        } else {
            "Observer(none)"
        })
    }
}
