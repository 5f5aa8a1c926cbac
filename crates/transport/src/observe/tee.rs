//! One stream of events to several sinks.

use std::fmt;

use super::{ConnectionInfo, Event, SharedSinkFactory, Sink, SinkFactory};
use crate::time::Instant;

/// Repeats every event to each of its sinks, in order.
pub struct Tee(Vec<Box<dyn Sink>>);

impl Tee {
    /// To these sinks.
    pub fn new(sinks: Vec<Box<dyn Sink>>) -> Self {
        Self(sinks)
    }
}

impl Sink for Tee {
    fn on_event(&mut self, now: Instant, event: &Event<'_>) {
        for sink in &mut self.0 {
            sink.on_event(now, event);
        }
    }
}

impl fmt::Debug for Tee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tee({} sinks)", self.0.len())
    }
}

/// Builds a [`Tee`] of what several factories build.
#[derive(Clone, Debug)]
pub struct TeeFactory(Vec<SharedSinkFactory>);

impl TeeFactory {
    /// Of these factories.
    pub fn new(factories: Vec<SharedSinkFactory>) -> Self {
        Self(factories)
    }
}

impl SinkFactory for TeeFactory {
    fn build(&self, info: &ConnectionInfo) -> Option<Box<dyn Sink>> {
        let mut sinks: Vec<_> = self
            .0
            .iter()
            .filter_map(|factory| factory.build(info))
            .collect();
        if sinks.len() > 1 {
            Some(Box::new(Tee::new(sinks)))
        } else {
            sinks.pop()
        }
    }
}
