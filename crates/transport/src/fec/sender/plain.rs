//! How many bytes leave plain before the scheduler is asked again whether packets are protected.
//!
//! Owns: [`Plain`]. Does not own: the answer (`fec/redundancy/`), what waits and the windows (`connection/`).

/// What leaves plain without a question.
///
/// A scheduler says how much leaves before what is in flight at the end. What waits may become less without leaving (a stream
/// is reset), and windows grow, so that the end begins earlier. So each acknowledgement costs a look at both, not the question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Plain {
    bytes: u64,
    /// Feedback came since.
    doubtful: bool,
}

impl Plain {
    /// So many bytes. [`u64::MAX`]: whatever there is.
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            bytes,
            doubtful: false,
        }
    }

    /// Feedback came.
    pub(super) fn doubt(&mut self) {
        self.doubtful = true;
    }

    /// Whether [`Self::bound`] is of use: feedback came, and without it nothing would be asked.
    #[inline]
    pub(super) fn is_doubtful(&self) -> bool {
        self.doubtful && self.bytes > 0 && self.bytes < u64::MAX
    }

    /// No more than so many bytes leave before what is in flight at the end.
    pub(super) fn bound(&mut self, bytes: u64) {
        self.doubtful = false;
        self.bytes = self.bytes.min(bytes);
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
    fn what_is_less_is_asked_about_earlier() {
        let mut plain = Plain::new(10_000);
        assert!(plain.takes(1_000) && !plain.is_doubtful());
        plain.doubt();
        assert!(plain.is_doubtful());
        plain.bound(7_000);
        assert!(plain.takes(7_000) && !plain.takes(1));
        plain.doubt();
        assert!(!plain.is_doubtful(), "what is asked anyway");
    }

    #[test]
    fn what_is_more_gives_nothing_back() {
        let mut plain = Plain::new(10_000);
        plain.doubt();
        plain.bound(20_000);
        assert!(plain.takes(10_000) && !plain.takes(1));
    }

    #[test]
    fn whatever_there_is() {
        let mut plain = Plain::new(u64::MAX);
        plain.doubt();
        assert!(!plain.is_doubtful());
        assert!(plain.takes(1 << 40) && plain.takes(u64::MAX));
        assert!(!Plain::default().takes(1));
    }
}
