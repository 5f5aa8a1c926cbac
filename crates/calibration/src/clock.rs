//! The one place of this program that reads a clock.

use std::time::Instant;

/// Monotonic time.
#[expect(
    clippy::disallowed_methods,
    reason = "one of the two worlds runs in real time"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
