//! The anti-amplification limit of an address that has not proven itself. RFC 9000 s8.

/// How often what came in may go out before an address is validated. RFC 9000 s8.1.
const FACTOR: u64 = 3;

/// Bytes received from and sent to one address while it is unvalidated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amplification {
    received: u64,
    sent: u64,
    validated: bool,
}

impl Amplification {
    /// Starts unvalidated.
    pub fn new() -> Self {
        Self::default()
    }

    /// A datagram of this many UDP payload bytes arrived.
    pub fn on_received(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(bytes as u64);
    }

    /// A datagram of this many UDP payload bytes left.
    pub fn on_sent(&mut self, bytes: usize) {
        if !self.validated {
            self.sent = self.sent.saturating_add(bytes as u64);
        }
    }

    /// The address proved that it receives what we send.
    pub fn set_validated(&mut self) {
        self.validated = true;
    }

    /// Whether it did.
    pub fn is_validated(&self) -> bool {
        self.validated
    }

    /// Bytes that may be sent now; `u64::MAX` once validated.
    pub fn budget(&self) -> u64 {
        if self.validated {
            return u64::MAX;
        }
        self.received
            .saturating_mul(FACTOR)
            .saturating_sub(self.sent)
    }
}
