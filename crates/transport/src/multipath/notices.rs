//! Frames about paths that any path may carry.
//!
//! Owns: what waits to be told of MAX_PATH_ID, PATHS_BLOCKED, PATH_CIDS_BLOCKED and PATH_ABANDON,
//! and of paths that open.
//! Each kind is bounded by the number of paths.

use std::collections::BTreeMap;

use super::PathStatus;
use crate::{packet::PacketWriter, units::PathId, wire::Frame};

/// What waits to be told.
#[derive(Debug, Default)]
pub(crate) struct PathNotices {
    /// The limit to announce.
    max_path_id: Option<u64>,
    /// The peer's limit that keeps us from opening a path.
    paths_blocked: Option<u64>,
    /// The next sequence number of connection IDs that we lack, by path.
    cids_blocked: BTreeMap<PathId, u64>,
    /// Paths to abandon, and why.
    abandon: BTreeMap<PathId, u64>,
    /// What the peer is told of why, until it has heard of it: a frame that is repeated says the same.
    why: BTreeMap<PathId, u64>,
    /// Paths that open just now: their status and its sequence number.
    opening: BTreeMap<PathId, (u64, PathStatus)>,
}

impl PathNotices {
    pub(crate) fn is_empty(&self) -> bool {
        self.max_path_id.is_none()
            && self.paths_blocked.is_none()
            && self.cids_blocked.is_empty()
            && self.abandon.is_empty()
            && self.opening.is_empty()
    }

    pub(crate) fn max_path_id(&mut self, max: u64) {
        self.max_path_id = Some(max);
    }

    pub(crate) fn paths_blocked(&mut self, at: u64) {
        self.paths_blocked = Some(at);
    }

    pub(crate) fn cids_blocked(&mut self, path: PathId, next_sequence: u64) {
        self.cids_blocked.insert(path, next_sequence);
    }

    pub(crate) fn abandon(&mut self, path: PathId, code: u64) {
        let code = *self.why.entry(path).or_insert(code);
        self.abandon.insert(path, code);
    }

    /// The peer may not have heard of it.
    pub(crate) fn abandon_again(&mut self, path: PathId) {
        if let Some(code) = self.why.get(&path) {
            self.abandon.insert(path, *code);
        }
    }

    /// The peer has heard of it.
    pub(crate) fn on_abandon_heard(&mut self, path: PathId) {
        self.why.remove(&path);
    }

    /// Tells on another path, at the moment in which `path` opens, that it does.
    pub(crate) fn opening(&mut self, path: PathId, (sequence, status): (u64, PathStatus)) {
        self.opening.insert(path, (sequence, status));
    }

    /// Nothing of `path` needs to be told any more.
    pub(crate) fn forget(&mut self, path: PathId) {
        self.opening.remove(&path);
        self.abandon.remove(&path);
        self.cids_blocked.remove(&path);
    }

    /// Writes what fits.
    pub(crate) fn write(&mut self, writer: &mut PacketWriter<'_>) {
        while let Some((&path, &(sequence, status))) = self.opening.first_key_value() {
            let frame = Frame::PathStatus {
                path,
                available: status == PathStatus::Available,
                sequence,
            };
            if !writer.push(&frame) {
                return;
            }
            self.opening.pop_first();
        }
        while let Some((&path, &code)) = self.abandon.first_key_value() {
            if !writer.push(&Frame::PathAbandon { path, code }) {
                return;
            }
            self.abandon.pop_first();
        }
        if let Some(max) = self.max_path_id
            && writer.push(&Frame::MaxPathId(max))
        {
            self.max_path_id = None;
        }
        if let Some(at) = self.paths_blocked
            && writer.push(&Frame::PathsBlocked(at))
        {
            self.paths_blocked = None;
        }
        while let Some((&path, &next_sequence)) = self.cids_blocked.first_key_value() {
            let frame = Frame::PathCidsBlocked {
                path,
                next_sequence,
            };
            if !writer.push(&frame) {
                return;
            }
            self.cids_blocked.pop_first();
        }
    }
}
