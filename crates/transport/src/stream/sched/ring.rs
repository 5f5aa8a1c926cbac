//! A queue of distinct streams with removal from the middle, all in O(1).

use std::iter;

use hashbrown::HashMap;

use crate::{stream::id_hash::IdHash, units::StreamId};

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    id: StreamId,
    previous: u32,
    next: u32,
}

/// Streams in the order of their turns. Allocates nothing while empty.
#[derive(Debug)]
pub(super) struct Ring {
    nodes: Vec<Node>,
    index: HashMap<StreamId, u32, IdHash>,
    free: u32,
    head: u32,
    tail: u32,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            index: HashMap::with_hasher(IdHash::default()),
            free: NONE,
            head: NONE,
            tail: NONE,
        }
    }
}

impl Ring {
    /// Whose turn it is.
    pub(super) fn front(&self) -> Option<StreamId> {
        self.node(self.head).map(|node| node.id)
    }

    /// All, from the one on whose turn it is.
    pub(super) fn iter(&self) -> impl Iterator<Item = StreamId> {
        let first = self.node(self.head);
        let nodes = iter::successors(first, |node| self.node(node.next));
        nodes.map(|node| node.id)
    }

    /// Whether a rotation would change whose turn it is.
    pub(super) fn is_shared(&self) -> bool {
        self.head != self.tail
    }

    pub(super) fn contains(&self, id: StreamId) -> bool {
        self.index.contains_key(&id)
    }

    /// Takes the last turn. Does nothing when already queued.
    pub(super) fn push_back(&mut self, id: StreamId) {
        if self.contains(id) {
            return;
        }
        let node = Node {
            id,
            previous: NONE,
            next: NONE,
        };
        let at = match self.nodes.get_mut(self.free as usize) {
            Some(free) => {
                let at = self.free;
                self.free = free.next;
                *free = node;
                at
            }
            None => {
                self.nodes.push(node);
                // Streams that exist at once stay far below 2^32.
                (self.nodes.len() - 1) as u32
            }
        };
        self.index.insert(id, at);
        self.link_back(at);
    }

    /// Gives up its turn. Does nothing when not queued.
    pub(super) fn remove(&mut self, id: StreamId) -> bool {
        let Some(at) = self.index.remove(&id) else {
            return false;
        };
        self.unlink(at);
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.next = self.free;
            self.free = at;
        }
        true
    }

    /// Moves the first to the end.
    pub(super) fn rotate(&mut self) {
        if self.is_shared() {
            let at = self.head;
            self.unlink(at);
            self.link_back(at);
        }
    }

    fn node(&self, at: u32) -> Option<&Node> {
        self.nodes.get(at as usize)
    }

    fn link_back(&mut self, at: u32) {
        let tail = self.tail;
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.previous = tail;
            node.next = NONE;
        }
        match self.nodes.get_mut(tail as usize) {
            Some(last) => last.next = at,
            None => self.head = at,
        }
        self.tail = at;
    }

    fn unlink(&mut self, at: u32) {
        let Some(&Node { previous, next, .. }) = self.node(at) else {
            return;
        };
        match self.nodes.get_mut(previous as usize) {
            Some(before) => before.next = next,
            None => self.head = next,
        }
        match self.nodes.get_mut(next as usize) {
            Some(after) => after.previous = previous,
            None => self.tail = previous,
        }
    }
}
