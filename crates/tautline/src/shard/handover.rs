//! Packets that arrive at the wrong shard.
//!
//! Purpose: a client that moves to another address is hashed to another socket of the group by
//! the kernel. The connection ID says where the packet belongs.
//! Owns: reading the shard number out of a packet, the bounded queue between shards.

use std::collections::VecDeque;

use bytes::BytesMut;
use parking_lot::Mutex;
use tautline_transport::{
    endpoint::{DatagramMeta, shard_of},
    wire::ConnectionId,
};

/// Datagrams that may wait for a shard; usually 1.5 KiB each, at most 64.
const INBOX_DATAGRAMS: usize = 4_096;

/// Datagrams that other shards received for this one.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    queue: Mutex<VecDeque<(DatagramMeta, BytesMut)>>,
}

impl Inbox {
    /// False when the queue is full and the datagram was dropped, as a network would.
    pub(super) fn push(&self, meta: DatagramMeta, datagram: &[u8]) -> bool {
        let mut queue = self.queue.lock();
        let room = queue.len() < INBOX_DATAGRAMS;
        if room {
            // A copy, so that what waits here is what it weighs.
            queue.push_back((meta, BytesMut::from(datagram)));
        }
        room
    }

    pub(super) fn take(&self, into: &mut VecDeque<(DatagramMeta, BytesMut)>) {
        let mut queue = self.queue.lock();
        if into.is_empty() {
            std::mem::swap(&mut *queue, into);
        } else {
            into.append(&mut queue);
        }
    }
}

/// The shard that issued the connection ID at the front of `datagram`, as far as that can be
/// told. RFC 8999 s5.
///
/// A client's first ID is random and may look like another shard's. That is harmless: the answer
/// depends on the ID alone, so that all packets with it meet at one shard, which then issues IDs
/// of its own.
pub(super) fn owner(datagram: &[u8], cid_len: usize) -> Option<u16> {
    const LONG_HEADER: u8 = 0x80;
    let first = *datagram.first()?;
    let cid = if first & LONG_HEADER == 0 {
        datagram.get(1..1 + cid_len)?
    } else {
        let len = usize::from(*datagram.get(5)?);
        if len != cid_len {
            return None;
        }
        datagram.get(6..6 + len)?
    };
    shard_of(&ConnectionId::new(cid)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_stands_where_the_connection_id_starts() {
        assert_eq!(owner(&[0x40, 0, 3, 9, 9, 9, 9, 9, 9, 1], 8), Some(3));
        let long = [0xc0, 0, 0, 0, 1, 8, 1, 2, 9, 9, 9, 9, 9, 9, 0];
        assert_eq!(owner(&long, 8), Some(0x0102));
        assert_eq!(owner(&long, 10), None);
        for len in 0..long.len() {
            let _ = owner(&long[..len], 8);
            assert_eq!(owner(&long[..len.min(13)], 8), None);
        }
    }
}
