//! Events waiting for the application and the endpoint.

use std::collections::VecDeque;

use super::{EndpointEvent, Event};
use crate::path::PathEvent;

/// Both queues. Stream events are not queued here: the stream room holds them by stream, so that
/// their number is bounded by the number of streams.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    events: VecDeque<Event>,
    endpoint: VecDeque<EndpointEvent>,
    /// The terminal event, handed out after all others.
    last: Option<Event>,
    over: bool,
    datagram_received: bool,
    limit: usize,
}

impl Outbox {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Queues an event; beyond the limit (an application that does not poll) it is dropped.
    pub(crate) fn push(&mut self, event: Event) {
        if let Event::Path(PathEvent::StatusChanged { path: changed, .. }) = event {
            // The peer may change its mind as often as it likes: only the last counts, and others'
            // events keep their room.
            self.events.retain(|queued| {
                !matches!(queued, Event::Path(PathEvent::StatusChanged { path, .. }) if *path == changed)
            });
        }
        if self.events.len() < self.limit {
            self.events.push_back(event);
        }
    }

    pub(crate) fn datagram_received(&mut self) {
        self.datagram_received = true;
    }

    pub(crate) fn lost(&mut self, event: Event) {
        if self.last.is_none() {
            self.last = Some(event);
        }
    }

    pub(crate) fn endpoint(&mut self, event: EndpointEvent) {
        // A later request for connection IDs replaces one that nobody has answered yet.
        if let EndpointEvent::NeedConnectionIds { path: wanted, .. } = event {
            self.endpoint.retain(|queued| {
                !matches!(queued, EndpointEvent::NeedConnectionIds { path, .. } if *path == wanted)
            });
        }
        if !self.endpoint.contains(&event) {
            self.endpoint.push_back(event);
        }
    }

    pub(crate) fn pop_endpoint(&mut self) -> Option<EndpointEvent> {
        self.endpoint.pop_front()
    }

    /// The next event that is neither a stream's nor the terminal one.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if std::mem::take(&mut self.datagram_received) {
            return Some(Event::DatagramReceived);
        }
        None
    }

    /// The terminal event, once nothing else is left to tell.
    pub(crate) fn pop_last(&mut self) -> Option<Event> {
        let last = self.last.take();
        self.over |= last.is_some();
        last
    }

    /// The terminal event, as long as it waits behind others.
    pub(crate) fn untold(&self) -> Option<&Event> {
        self.last.as_ref()
    }

    /// Nobody listens any more; the endpoint still does.
    pub(crate) fn abandon(&mut self) {
        self.events = VecDeque::new();
        self.datagram_received = false;
        self.last = None;
        self.over = true;
    }

    /// Whether the terminal event was handed out: nothing follows it.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }
}
