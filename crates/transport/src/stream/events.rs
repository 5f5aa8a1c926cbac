//! Events that wait for the application.

#![allow(
    clippy::indexing_slicing,
    reason = "arrays of two, indexed by direction"
)]

use std::collections::VecDeque;

use super::types::StreamEvent;
use crate::units::Dir;

/// A queue without duplicates of events that repeat.
#[derive(Debug)]
pub(super) struct EventQueue {
    queue: VecDeque<StreamEvent>,
    /// Events of streams that no longer exist are dropped above this many.
    limit: usize,
    /// Indexed by direction: whether the event is queued.
    opened: [bool; 2],
    available: [bool; 2],
}

const fn slot(dir: Dir) -> usize {
    match dir {
        Dir::Bi => 0,
        Dir::Uni => 1,
    }
}

impl EventQueue {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            limit,
            opened: [false; 2],
            available: [false; 2],
        }
    }

    pub(super) fn opened(&mut self, dir: Dir) {
        if !std::mem::replace(&mut self.opened[slot(dir)], true) {
            self.queue.push_back(StreamEvent::Opened(dir));
        }
    }

    pub(super) fn available(&mut self, dir: Dir) {
        if !std::mem::replace(&mut self.available[slot(dir)], true) {
            self.queue.push_back(StreamEvent::Available(dir));
        }
    }

    /// Queues an event of one stream; the caller sees to it that each kind is queued once per
    /// stream. `is_live` tells whether a queued event's stream still exists: an application that
    /// never polls loses events of streams that are over, so that the queue stays bounded by the
    /// limit and the number of streams.
    pub(super) fn push(&mut self, event: StreamEvent, is_live: impl FnMut(&StreamEvent) -> bool) {
        self.queue.push_back(event);
        if self.queue.len() > self.limit {
            self.queue.retain(is_live);
            // What is left belongs to live streams; look again only after as many more.
            self.limit = self.limit.max(self.queue.len().saturating_mul(2));
        }
    }

    pub(super) fn pop(&mut self) -> Option<StreamEvent> {
        let event = self.queue.pop_front()?;
        match event {
            StreamEvent::Opened(dir) => self.opened[slot(dir)] = false,
            StreamEvent::Available(dir) => self.available[slot(dir)] = false,
            _ => {}
        }
        if self.queue.is_empty() && self.queue.capacity() > 64 {
            self.queue = VecDeque::new();
        }
        Some(event)
    }
}
