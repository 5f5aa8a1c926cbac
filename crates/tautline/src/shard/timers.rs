//! Which connection must be looked at when.

use std::collections::BTreeSet;

use tautline_transport::{endpoint::ConnectionHandle, time::Instant};

/// One deadline per connection, earliest first.
#[derive(Debug, Default)]
pub(super) struct TimerQueue {
    deadlines: BTreeSet<(Instant, ConnectionHandle)>,
}

impl TimerQueue {
    /// Moves a connection's deadline; `armed` is where the caller keeps the present one.
    pub(super) fn set(
        &mut self,
        handle: ConnectionHandle,
        armed: &mut Option<Instant>,
        deadline: Option<Instant>,
    ) {
        if *armed == deadline {
            return;
        }
        if let Some(old) = *armed {
            self.deadlines.remove(&(old, handle));
        }
        if let Some(new) = deadline {
            self.deadlines.insert((new, handle));
        }
        *armed = deadline;
    }

    /// The earliest deadline.
    pub(super) fn next(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// A connection whose deadline has passed. It stays in the queue until [`Self::set`] moves it.
    pub(super) fn expired(&self, now: Instant) -> impl Iterator<Item = ConnectionHandle> + '_ {
        self.deadlines
            .iter()
            .take_while(move |(at, _)| *at <= now)
            .map(|(_, handle)| *handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_move_and_expire_in_order() {
        let at = Instant::from_nanos;
        let mut queue = TimerQueue::default();
        let (mut a, mut b) = (None, None);
        queue.set(ConnectionHandle(1), &mut a, Some(at(50)));
        queue.set(ConnectionHandle(2), &mut b, Some(at(30)));
        assert_eq!(queue.next(), Some(at(30)));
        queue.set(ConnectionHandle(2), &mut b, Some(at(70)));
        assert_eq!(queue.next(), Some(at(50)));
        assert_eq!(
            queue.expired(at(60)).collect::<Vec<_>>(),
            [ConnectionHandle(1)]
        );
        queue.set(ConnectionHandle(1), &mut a, None);
        queue.set(ConnectionHandle(2), &mut b, None);
        assert_eq!((queue.next(), a, b), (None, None, None));
    }
}
