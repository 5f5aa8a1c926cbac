//! When unread stream data may share the memory it was received in.
//!
//! A slice of a few hundred bytes keeps its whole receive buffer alive, which other connections
//! fill too. How much has been received since the oldest shared slice bounds what all of them
//! keep alive, whoever sent it.

use crate::config::Limits;

/// See the module's words.
#[derive(Debug)]
pub(super) struct Sharing {
    max_slices: usize,
    max_bytes: u64,
    /// Bytes the socket has received so far.
    position: u64,
    /// The position when sharing began, since when something has been shared all the time.
    since: Option<u64>,
}

impl Sharing {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            max_slices: limits.shared_receive_slices,
            max_bytes: limits.shared_receive_bytes,
            position: 0,
            since: None,
        }
    }

    /// What comes next lies behind this many received bytes.
    pub(super) fn advance(&mut self, position: u64) {
        self.position = self.position.max(position);
    }

    /// How many slices may be shared, when `now` are.
    pub(super) fn slices(&mut self, now: usize) -> usize {
        if now == 0 {
            self.since = None;
        }
        let since = *self.since.get_or_insert(self.position);
        if self.position.saturating_sub(since) < self.max_bytes {
            self.max_slices
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharing_pauses_until_all_was_read() {
        let limits = Limits {
            shared_receive_slices: 9,
            shared_receive_bytes: 1000,
            ..Limits::default()
        };
        let mut sharing = Sharing::new(&limits);
        sharing.advance(5000);
        assert_eq!(sharing.slices(0), 9);
        sharing.advance(5999);
        assert_eq!(sharing.slices(1), 9);
        sharing.advance(6000);
        assert_eq!(sharing.slices(2), 0);
        // Positions never go back, and one unread slice is enough to pause.
        sharing.advance(10);
        assert_eq!(sharing.slices(1), 0);
        assert_eq!(sharing.slices(0), 9);
        sharing.advance(6999);
        assert_eq!(sharing.slices(1), 9);
    }
}
