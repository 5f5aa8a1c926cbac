//! How many bytes leave plain before the scheduler is asked again whether packets are protected.
//!
//! Owns: [`Plain`]. Does not own: the answer (`fec/redundancy/`), what waits and the windows (`connection/`).

/// What leaves plain without a question.
///
/// A scheduler says how much leaves before what is in flight at the end; feedback makes windows grow, and that
/// end begins earlier by as much. So each acknowledgement costs a look at the window, not the question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Plain {
    bytes: u64,
    /// Bytes that can be in flight at once, as far as `bytes` takes that into account.
    flight: u64,
    /// Feedback came since.
    doubtful: bool,
}

impl Plain {
    /// So many bytes, as long as no more than `flight` bytes can be in flight at once. [`u64::MAX`]: whatever can be.
    pub(super) fn new(bytes: u64, flight: u64) -> Self {
        Self {
            bytes,
            flight,
            doubtful: false,
        }
    }

    /// Feedback came.
    pub(super) fn doubt(&mut self) {
        self.doubtful = true;
    }

    /// Whether [`Self::on_flight`] is of use: feedback came, and without it nothing would be asked.
    #[inline]
    pub(super) fn is_doubtful(&self) -> bool {
        self.doubtful && self.bytes > 0
    }

    /// So many bytes can be in flight at once now.
    pub(super) fn on_flight(&mut self, flight: u64) {
        self.doubtful = false;
        if self.bytes < u64::MAX && flight > self.flight {
            self.bytes = self.bytes.saturating_sub(flight - self.flight);
            self.flight = flight;
        }
    }

    /// Whether a packet of up to `bytes` bytes is plain without a question.
    #[inline]
    pub(super) fn takes(&mut self, bytes: u64) -> bool {
        if self.bytes == u64::MAX {
            return true;
        }
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(0);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_windows_grow_by_is_asked_about_earlier() {
        let mut plain = Plain::new(10_000, 5_000);
        assert!(plain.takes(1_000));
        plain.doubt();
        assert!(plain.is_doubtful());
        plain.on_flight(7_000);
        assert!(plain.takes(7_000) && !plain.takes(1));
        plain.doubt();
        assert!(!plain.is_doubtful(), "what is asked anyway");
    }

    #[test]
    fn a_window_that_shrinks_gives_nothing_back() {
        let mut plain = Plain::new(10_000, 5_000);
        for flight in [1_000, 5_000] {
            plain.doubt();
            plain.on_flight(flight);
        }
        assert!(plain.takes(10_000) && !plain.takes(1));
    }

    #[test]
    fn whatever_there_is() {
        let mut plain = Plain::new(u64::MAX, 0);
        plain.doubt();
        plain.on_flight(1 << 40);
        assert!(plain.takes(1 << 40) && plain.takes(u64::MAX));
        assert!(!Plain::default().takes(1));
    }
}
