//! Several paths at once.
//!
//! Purpose: RFC 10069 beside what a single path needs.
//! Owns: which path identifiers may be opened and the connection IDs that wait for it ([`PathIds`]),
//! the frames about paths that any path may carry ([`PathNotices`]), the choice of a path for data
//! ([`sched`]), what a wish for one path means ([`PathPin`]), what a path costs ([`PathCost`]), what receive windows
//! make of the paths' round trips ([`WindowRtt`]).
//! Does not own: a path itself (`path/`), which connection has which paths and what happens to them
//! (`connection/multipath.rs`), the pump (`connection/tx.rs`).
//! Called by: `connection/`.
//! Spec: RFC 10069.

mod acks;
mod config;
mod cost;
mod ids;
mod notices;
mod pin;
pub mod sched;
mod status;
mod window_rtt;
mod wishes;

pub use acks::AckRouting;
pub use config::{MOST_PATHS, MultipathConfig};
pub use cost::PathCost;
pub(crate) use cost::{CapUse, CostMeter};
pub(crate) use ids::{PathIds, Unopened};
pub(crate) use notices::PathNotices;
pub(crate) use pin::{Hold, Takes};
pub use pin::{PathPin, PinError};
pub use status::PathStatus;
pub(crate) use status::StatusExchange;
pub use window_rtt::WindowRtt;
pub(crate) use wishes::PathWishes;

/// Error codes of PATH_ABANDON. RFC 10069.
pub mod abandon {
    /// No error.
    pub const NO_ERROR: u64 = 0;
    /// The application asked for it.
    pub const APPLICATION_ABANDON_PATH: u64 = 0x3e;
    /// There are no resources for the path.
    pub const PATH_RESOURCE_LIMIT_REACHED: u64 = 0x3e75;
    /// The path does not carry packets well enough.
    pub const PATH_UNSTABLE_OR_POOR: u64 = 0x3e76;
    /// No connection ID is left for the path.
    pub const NO_CID_AVAILABLE_FOR_PATH: u64 = 0x3e77;
}

/// A path cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenPathError {
    /// Only clients open paths.
    #[error("only the client may open paths")]
    NotClient,
    /// Our configuration has no [`MultipathConfig`].
    #[error("multipath is not configured: set `TransportConfig::multipath`")]
    NotConfigured,
    /// The peer does not speak RFC 10069, or has no connection IDs.
    #[error("the peer does not support multipath")]
    NotSupported,
    /// Whether the peer speaks RFC 10069 is not known yet.
    #[error(
        "the peer has not told its transport parameters yet: ask again when the handshake is complete"
    )]
    TooEarly,
    /// No further path now: one must be closed first, and the other end have heard of it.
    #[error(
        "{}",
        if *by_peer {
            "the peer allows no more paths at present: close one first"
        } else {
            "this end has as many paths as it may at present, those that still open included: close one first, or \
             raise `MultipathConfig::max_paths`"
        }
    )]
    TooManyPaths {
        /// Whether it is the peer's limit that is reached; else our own is ([`MultipathConfig::max_paths`]),
        /// whether or not the peer's is the same.
        by_peer: bool,
    },
    /// The peer lets nobody send from another address than that of the handshake.
    #[error("the peer does not allow other addresses (disable_active_migration)")]
    MigrationDisabled,
    /// The addresses do not fit each other, or another open path has both.
    #[error("these addresses cannot be a path of their own")]
    BadAddresses,
    /// The connection is over.
    #[error("the connection is closed")]
    Closed,
}

/// A path cannot be abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AbandonPathError {
    /// There is no such path.
    #[error("there is no such path")]
    UnknownPath,
    /// It is the only one, or the only one that has ever worked: close the connection instead.
    #[error("the last path cannot be abandoned: close the connection instead")]
    LastPath,
}

/// A path cannot go on from another local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RebindPathError {
    /// There is no such path.
    #[error("there is no such path")]
    UnknownPath,
    /// The peer lets nobody send from another address than that of the handshake.
    #[error("the peer does not allow other addresses (disable_active_migration)")]
    MigrationDisabled,
    /// The peer's address cannot be reached from there.
    #[error("the peer cannot be reached from this address")]
    BadAddress,
}
