//! The two halves of a stream.
//!
//! Owns: [`SendStream`] (`send.rs`), [`RecvStream`] (`recv.rs`).
//! Does not own: stream state (the transport's), waiting ([`crate::conn`]).

mod recv;
mod send;

pub use recv::{ReadChunk, RecvStream};
pub use send::SendStream;
