//! What an end may move on one connection.
//!
//! Owns: [`Allowance`]. Does not own: who counts against it (`session.rs`).

/// How much an end does for its peer at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Application bytes that it sends.
    pub sent_bytes: u64,
    /// Application bytes that it takes.
    pub received_bytes: u64,
    /// Streams of the peer that it takes.
    pub streams: u64,
}

impl Allowance {
    /// Without bounds: for the end that has the plan.
    pub const NO_LIMIT: Self = Self {
        sent_bytes: u64::MAX,
        received_bytes: u64::MAX,
        streams: u64::MAX,
    };
}

impl Default for Allowance {
    fn default() -> Self {
        Self::NO_LIMIT
    }
}

/// Takes `bytes` off what is left; what could be taken.
pub(super) fn take(left: &mut u64, bytes: u64) -> u64 {
    let taken = bytes.min(*left);
    *left -= taken;
    taken
}
