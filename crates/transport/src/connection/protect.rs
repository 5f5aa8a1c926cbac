//! Where the source symbol of a packet under construction begins and ends.
//!
//! Owns: what streams, scheduler and padding make of that. Does not own: symbols (`fec/`), which
//! frames there are (`tx.rs`).

use super::datagram_builder::OpenPacket;
use crate::{fec::FecSender, packet::PacketWriter, stream::Protection, units::PathId};

/// What protects a packet.
pub(super) struct Protector<'a> {
    pub(super) sender: &'a mut FecSender,
    /// Whether the redundancy scheduler wants it.
    pub(super) by_default: bool,
    /// What is known of the stream that is written next, where streams have a say.
    pub(super) next: Option<Protection>,
    /// Whether the packet is filled up, so that it is as long as one with a repair symbol.
    pub(super) padding: bool,
}

impl Protector<'_> {
    /// Before the first frame that may be protected. `payload`: bytes for frames that a packet with a
    /// repair symbol would have. `datagrams`: whether application datagrams wait that are protected.
    ///
    /// The header stands before everything that follows, unless what follows is not protected: then
    /// before the first data that is, if any comes.
    pub(super) fn begin(&self, writer: &mut PacketWriter<'_>, payload: usize, datagrams: bool) {
        // All of one size, those with an ACK too, so that they leave in one batch.
        let room = self.sender.packet_room(payload);
        let (header, id) = (self.sender.next_header(), self.sender.next_symbol());
        let at_once = match self.next {
            Some(next) => next.applies(self.by_default) || self.by_default && datagrams,
            None => self.by_default,
        };
        if at_once {
            writer.limit(room);
            writer.begin_symbol(header, id);
        } else {
            writer.defer_symbol(header, id, room, self.by_default);
        }
    }

    /// Behind the last frame that may be protected.
    pub(super) fn end(self, path: PathId, writer: &mut PacketWriter<'_>, open: &mut OpenPacket) {
        if self.padding {
            writer.pad_before_symbol();
        }
        if let Some(symbol) = writer.end_symbol() {
            self.sender.on_source(path, open.number(), symbol);
            open.is_source = true;
        }
    }
}
