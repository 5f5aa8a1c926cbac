//! Between rooms and bytes: what a packet under construction is.
//!
//! Purpose: rooms write frames through [`PacketWriter`], which alone records what each packet
//! carries (tokens for loss recovery, ack-eliciting and in-flight flags, statistics, events).
//! Owns: [`PacketWriter`], [`Token`], [`FrameSource`].
//! Does not own: encoding (`wire/`), protection (`tls/`), which packet is built when
//! (`connection/tx.rs`), what happens when a token is lost (each room).
//! Called by: `connection/`; written to by every room that owns frames.

mod stats;
mod token;
mod writer;

pub use stats::FrameStats;
pub use token::Token;
pub use writer::{PacketFlags, PacketWriter};

/// A room that may have frames to send.
pub trait FrameSource {
    /// Whether a call of [`FrameSource::write`] would write something, given room.
    fn has_frames(&self) -> bool;
    /// Writes what fits, most urgent first. Frames that do not fit stay queued.
    fn write(&mut self, packet: &mut PacketWriter<'_>);
}
