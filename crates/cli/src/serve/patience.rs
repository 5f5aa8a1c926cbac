//! How long a client may take.
//!
//! A stream that does not move says little about its client: others may be served before it. What
//! counts is whether the client takes anything at all.

use std::{future::Future, pin::pin, time::Duration};

use tautline::Connection;
use tokio::time::timeout;

/// Whether a client takes what it is sent.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    connection: &'a Connection,
    taken: u64,
}

impl<'a> Progress<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        let taken = connection.stream_stats().released_bytes;
        Self { connection, taken }
    }

    /// Whether the client has taken something since the last call.
    pub(super) fn goes_on(&mut self) -> bool {
        let before = self.taken;
        self.taken = self.connection.stream_stats().released_bytes;
        self.taken > before && self.connection.close_reason().is_none()
    }

    /// Waits for `step`, but not for a client that takes nothing for as long as `patience` lasts.
    pub(super) async fn wait<T>(
        &mut self,
        patience: Duration,
        step: impl Future<Output = T>,
    ) -> Option<T> {
        let mut step = pin!(step);
        // What it took before the step began does not count.
        self.goes_on();
        loop {
            if let Ok(done) = timeout(patience, step.as_mut()).await {
                return Some(done);
            }
            if !self.goes_on() {
                return None;
            }
        }
    }
}
