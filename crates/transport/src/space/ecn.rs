//! What the peer says about ECN marks that reached it. RFC 9000 s13.4.
//!
//! Whether the path can carry marks is judged in `recovery/ecn.rs`, which outlives a space.

/// ECN counts of one packet number space: the peer's report and our own sending.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeerEcn {
    /// ECT(0) count in the newest report.
    pub(crate) ect0: u64,
    /// ECT(1) count in the newest report.
    pub(crate) ect1: u64,
    /// CE count in the newest report.
    pub(crate) ce: u64,
    /// Packets we sent with ECT(0).
    pub(crate) sent_ect0: u64,
    /// Packets we sent with ECT(1).
    pub(crate) sent_ect1: u64,
}
