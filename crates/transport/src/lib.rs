//! A sans-IO QUIC state machine: bytes and time in; bytes, timers and events out.
//!
//! Purpose: RFC 9000/9001/9002 QUIC v1 and v2 (RFC 9369) with room for several paths, erasure
//! codes and plugins. Nothing here opens a socket, reads a clock or draws ambient randomness:
//! the same seed and the same inputs give the same bytes.
//!
//! Start at [`Endpoint`] (one per socket) and [`Connection`] (one per peer); the repository's
//! `ARCHITECTURE.md` follows a datagram in and out.

#![forbid(unsafe_code)]
// Nothing that bytes, time or API order can do may panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod ack;
pub mod config;
pub mod congestion;
pub mod connection;
pub mod datagram;
pub mod endpoint;
pub mod error;
pub mod fec;
pub mod message;
pub mod multipath;
pub mod observe;
pub mod packet;
pub mod path;
pub mod recovery;
pub mod rng;
pub mod space;
pub mod stream;
pub mod time;
pub mod tls;
#[doc(hidden)]
pub mod trim;
pub mod units;
pub mod wire;
