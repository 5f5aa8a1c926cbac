//! What one end of a workload has measured.
//!
//! Owns: [`Outcome`] and [`Item`], the common form in which every workload reports. Does not own:
//! formulas over them (`metric/`).

use std::{collections::BTreeMap, time::Duration};

use tautline_transport::time::Instant;

/// One object, request, message, datagram or segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item {
    /// Application bytes.
    pub bytes: u64,
    /// When it was wanted: the request was made, or the message handed to the sender.
    pub wanted: Instant,
    /// When its first byte reached the application.
    pub began: Option<Instant>,
    /// When its last byte reached the application.
    pub done: Option<Instant>,
    /// How long after `wanted` it is of use, if that matters.
    pub deadline: Option<Duration>,
}

impl Item {
    /// An item wanted now.
    pub fn wanted(bytes: u64, now: Instant) -> Self {
        Self {
            bytes,
            wanted: now,
            began: None,
            done: None,
            deadline: None,
        }
    }

    /// From wanted to done.
    pub fn duration(&self) -> Option<Duration> {
        self.done.map(|done| done.saturating_since(self.wanted))
    }

    /// How long after its deadline it came, zero when in time; `None` without a deadline, and when
    /// it did not come.
    pub fn lateness(&self) -> Option<Duration> {
        Some(self.duration()?.saturating_sub(self.deadline?))
    }

    /// Whether it came in time; an item without a deadline is in time when it came.
    pub fn on_time(&self) -> bool {
        match (self.duration(), self.deadline) {
            (Some(duration), Some(deadline)) => duration <= deadline,
            (done, None) => done.is_some(),
            (None, Some(_)) => false,
        }
    }
}

/// What one end has seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// When the handshake was complete at this end.
    pub connected: Option<Instant>,
    /// Application bytes received in order.
    pub received_bytes: u64,
    /// Objects, messages and so on, in the order in which they were wanted.
    pub items: Vec<Item>,
    /// When everything this end waits for was there.
    pub finished: Option<Instant>,
    /// Why the connection ended, if by an error.
    pub error: Option<String>,
    /// Measures that only this workload has, by the name of their column.
    pub extra: BTreeMap<&'static str, f64>,
}
