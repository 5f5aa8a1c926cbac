//! The initial window: how large, and what becomes of it when datagrams turn out to be larger.
//!
//! Owns: RFC 9002 s7.2 in one place. Does not own: the windows (each controller's), whether the path
//! has lost anything yet (`recovery/`).

use super::{ControllerContext, minimum_window};

/// Datagrams of the usual initial window. RFC 9002 s7.2.
pub(crate) const USUAL_PACKETS: u32 = 10;
/// RFC 9002 s7.2 limits the initial window to this much for each of its datagrams: 14,720 bytes for ten.
const DATAGRAM_LIMIT: u64 = 1472;

/// The initial window of `packets` datagrams of `mtu` bytes. RFC 9002 s7.2.
pub(crate) fn initial_window(packets: u32, mtu: u64) -> u64 {
    let packets = u64::from(packets);
    let limit = (packets * DATAGRAM_LIMIT).max(minimum_window(mtu));
    packets.saturating_mul(mtu).min(limit)
}

/// The initial window that a controller's window grew from.
#[derive(Clone, Copy, Debug)]
pub(super) struct InitialWindow(u64);

impl InitialWindow {
    pub(super) fn new(context: &ControllerContext) -> Self {
        Self::of(context.initial_window.max(minimum_window(context.mtu)))
    }

    pub(super) const fn of(bytes: u64) -> Self {
        Self(bytes)
    }

    pub(super) const fn bytes(self) -> u64 {
        self.0
    }

    /// The initial window is `bytes` from now on. What `window` is, had it always been: the window is
    /// the initial one and what was acknowledged since, as long as it is `growing` for the first time.
    pub(super) fn recalculate(&mut self, bytes: u64, window: u64, growing: bool) -> u64 {
        let former = std::mem::replace(&mut self.0, bytes);
        if growing {
            window.saturating_sub(former).saturating_add(bytes)
        } else {
            window
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::test_link::{MTU, context};

    // RFC 9002 s7.2.
    #[test]
    fn ten_datagrams_and_no_more_than_two_large_ones() {
        assert_eq!(initial_window(10, 1200), 12_000);
        assert_eq!(initial_window(10, 1452), 14_520);
        assert_eq!(initial_window(10, 4_000), 14_720);
        assert_eq!(initial_window(10, 9_000), 18_000);
        assert_eq!(initial_window(32, 1452), 32 * 1452);
        assert_eq!(initial_window(0, 1200), 0);
        assert_eq!(initial_window(u32::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn only_the_difference_is_added_and_only_while_growing() {
        let mut initial = InitialWindow::new(&context());
        let window = initial.recalculate(11 * MTU, 30 * MTU, true);
        assert_eq!(window, 31 * MTU);
        assert_eq!(initial.recalculate(12 * MTU, window, true), 32 * MTU);
        assert_eq!(initial.recalculate(12 * MTU, window, true), window);
        assert_eq!(initial.recalculate(20 * MTU, window, false), window);
        assert_eq!(initial.bytes(), 20 * MTU);
        assert_eq!(initial.recalculate(2 * MTU, 3 * MTU, true), 2 * MTU);
    }
}
