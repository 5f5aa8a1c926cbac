//! Connection IDs of one path, both directions. RFC 9000 s5.1.

use std::collections::VecDeque;

use crate::{
    config::fixed,
    error::TransportError,
    wire::{ConnectionId, NewConnectionId, ResetToken},
};

/// A connection ID that the endpoint issued for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IssuedConnectionId {
    /// Its sequence number on the path.
    pub sequence: u64,
    /// The ID.
    pub cid: ConnectionId,
    /// The stateless reset token that goes with it.
    pub token: ResetToken,
}

/// The connection IDs we issued for a path and the peer has not retired.
#[derive(Debug, Default)]
pub struct LocalCids {
    /// Ascending by sequence number.
    active: VecDeque<LocalCid>,
    next_sequence: u64,
    /// Sequence numbers waiting to be sent in NEW_CONNECTION_ID; bounded by the peer's limit.
    to_send: VecDeque<u64>,
}

#[derive(Debug)]
struct LocalCid {
    sequence: u64,
    cid: ConnectionId,
    /// Absent where the peer learned the ID without a NEW_CONNECTION_ID frame.
    token: Option<ResetToken>,
}

impl LocalCids {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The ID of the handshake (sequence 0), or of a preferred address (sequence 1): known to the
    /// peer without a frame.
    pub fn insert_known(&mut self, sequence: u64, cid: ConnectionId) {
        self.active.push_back(LocalCid {
            sequence,
            cid,
            token: None,
        });
        self.next_sequence = self.next_sequence.max(sequence + 1);
    }

    /// IDs the endpoint made on request; they wait to be sent.
    pub fn issue(&mut self, issued: IssuedConnectionId) {
        if issued.sequence < self.next_sequence {
            return;
        }
        self.next_sequence = issued.sequence + 1;
        let IssuedConnectionId {
            sequence,
            cid,
            token,
        } = issued;
        self.active.push_back(LocalCid {
            sequence,
            cid,
            token: Some(token),
        });
        self.to_send.push_back(sequence);
    }

    /// The sequence number the next issued ID will have.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// IDs the peer may use.
    pub fn len(&self) -> usize {
        self.active.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Whether we issued this ID here.
    pub fn contains(&self, cid: &ConnectionId) -> bool {
        self.active.iter().any(|active| active.cid == *cid)
    }

    /// Sequence numbers of the IDs the peer may use.
    pub fn sequences(&self) -> impl Iterator<Item = u64> {
        self.active.iter().map(|active| active.sequence)
    }

    /// Any active ID.
    pub fn first(&self) -> Option<ConnectionId> {
        self.active.front().map(|active| active.cid)
    }

    /// The peer retired `sequence`. True if it was active.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION for a number never issued, or for the ID the packet itself was sent to.
    pub fn on_retire(
        &mut self,
        sequence: u64,
        packet_dcid: &ConnectionId,
    ) -> Result<bool, TransportError> {
        if sequence >= self.next_sequence {
            return Err(TransportError::protocol_violation(
                "retires an unissued connection ID",
            ));
        }
        let Some(index) = self.position(sequence) else {
            return Ok(false);
        };
        if self
            .active
            .get(index)
            .is_some_and(|active| active.cid == *packet_dcid)
        {
            return Err(TransportError::protocol_violation(
                "retires the connection ID in use",
            ));
        }
        self.active.remove(index);
        self.to_send.retain(|waiting| *waiting != sequence);
        Ok(true)
    }

    fn position(&self, sequence: u64) -> Option<usize> {
        self.active
            .iter()
            .position(|active| active.sequence == sequence)
    }

    /// The next ID that must be told to the peer.
    pub fn peek_unsent(&self) -> Option<IssuedConnectionId> {
        let sequence = *self.to_send.front()?;
        let active = self.active.get(self.position(sequence)?)?;
        Some(IssuedConnectionId {
            sequence,
            cid: active.cid,
            token: active.token?,
        })
    }

    /// Whether the peer must be told of this one.
    pub fn is_unsent(&self, sequence: u64) -> bool {
        self.to_send.contains(&sequence)
    }

    /// It was put into a packet.
    pub fn pop_unsent(&mut self) {
        self.to_send.pop_front();
    }

    /// The packet that told the peer was lost; tell it again unless it retired the ID meanwhile.
    pub fn resend(&mut self, sequence: u64) {
        if self.position(sequence).is_some() && !self.to_send.contains(&sequence) {
            self.to_send.push_back(sequence);
        }
    }
}

/// A connection ID of the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteCid {
    /// Its sequence number on the path.
    pub sequence: u64,
    /// The ID.
    pub cid: ConnectionId,
    /// The peer's stateless reset token for it, when known.
    pub token: Option<ResetToken>,
}

/// The connection IDs the peer issued for a path and we have not retired.
#[derive(Debug)]
pub struct RemoteCids {
    active: RemoteCid,
    /// In use towards the address left behind; the active one itself where there was no other.
    previous: Option<RemoteCid>,
    /// In use on a network path that carries no data yet.
    probe: Option<RemoteCid>,
    /// Ascending by sequence number.
    spare: VecDeque<RemoteCid>,
    retire_prior_to: u64,
    limit: u64,
    /// Sequence numbers to announce in RETIRE_CONNECTION_ID.
    to_retire: VecDeque<u64>,
    /// Ascending: what we retired of our own accord. A late copy of its NEW_CONNECTION_ID must
    /// not bring an ID back that the peer has forgotten.
    retired: VecDeque<u64>,
    /// Numbers below are retired, or count as such.
    retired_below: u64,
}

impl RemoteCids {
    /// Starts with the ID from the handshake, sequence 0.
    pub fn new(cid: ConnectionId, limit: u64) -> Self {
        let active = RemoteCid {
            sequence: 0,
            cid,
            token: None,
        };
        Self {
            active,
            previous: None,
            probe: None,
            spare: VecDeque::new(),
            retire_prior_to: 0,
            limit,
            to_retire: VecDeque::new(),
            retired: VecDeque::new(),
            retired_below: 0,
        }
    }

    /// Starts with the ID that came first for a path other than 0, whatever its sequence number.
    pub(crate) fn first_of_path(new: &NewConnectionId, limit: u64) -> Self {
        let mut cids = Self::new(new.cid, limit);
        cids.active = RemoteCid {
            sequence: new.sequence,
            cid: new.cid,
            token: Some(new.token),
        };
        // What comes late with a lower number is to be retired.
        cids.retire_prior_to = new.retire_prior_to;
        cids
    }

    /// Whether this is one of the IDs that are not retired.
    pub(crate) fn contains(&self, cid: &ConnectionId) -> bool {
        self.known().any(|known| known.cid == *cid)
    }

    /// The ID to send to.
    pub fn active(&self) -> RemoteCid {
        self.active
    }

    /// Replaces the handshake's ID (the server chose another, or a Retry came).
    pub fn replace_initial(&mut self, cid: ConnectionId) {
        self.active = RemoteCid {
            sequence: 0,
            cid,
            token: None,
        };
    }

    /// The reset token of the handshake's ID, from the transport parameters.
    pub fn set_initial_token(&mut self, token: ResetToken) {
        if self.active.sequence == 0 {
            self.active.token = Some(token);
        }
    }

    fn known(&self) -> impl Iterator<Item = &RemoteCid> {
        let active = self.active.sequence;
        std::iter::once(&self.active)
            .chain(
                self.previous
                    .iter()
                    .filter(move |previous| previous.sequence != active),
            )
            .chain(&self.probe)
            .chain(&self.spare)
    }

    /// A NEW_CONNECTION_ID arrived. Returns the reset token to watch for when the ID in use
    /// changed.
    ///
    /// # Errors
    /// CONNECTION_ID_LIMIT_ERROR when more IDs are active, or more retirements queued, than
    /// allowed; PROTOCOL_VIOLATION when a known sequence number or ID comes with another meaning.
    pub fn on_new(
        &mut self,
        new: &NewConnectionId,
        retire_limit: usize,
    ) -> Result<(), TransportError> {
        let incoming = RemoteCid {
            sequence: new.sequence,
            cid: new.cid,
            token: Some(new.token),
        };
        for old in self.known() {
            let same_sequence = old.sequence == incoming.sequence;
            let same_cid = old.cid == incoming.cid;
            if same_sequence != same_cid {
                return Err(TransportError::protocol_violation("connection ID reissued"));
            }
            if same_sequence {
                return Ok(());
            }
        }
        if self.retired.binary_search(&incoming.sequence).is_ok() {
            return Ok(());
        }
        if incoming.sequence < self.retire_prior_to.max(self.retired_below) {
            self.queue_retire(incoming.sequence, retire_limit)?;
        } else {
            let index = self
                .spare
                .partition_point(|old| old.sequence < incoming.sequence);
            self.spare.insert(index, incoming);
        }
        if new.retire_prior_to > self.retire_prior_to {
            self.retire_prior_to = new.retire_prior_to;
            while let Some(old) = self.spare.front()
                && old.sequence < self.retire_prior_to
            {
                let sequence = old.sequence;
                self.spare.pop_front();
                self.queue_retire(sequence, retire_limit)?;
            }
            let before = self.retire_prior_to;
            if let Some(previous) = self.previous.take_if(|previous| previous.sequence < before)
                && previous.sequence != self.active.sequence
            {
                self.queue_retire(previous.sequence, retire_limit)?;
            }
            if let Some(probe) = self.probe.take_if(|probe| probe.sequence < before) {
                self.queue_retire(probe.sequence, retire_limit)?;
            }
            if self.active.sequence < self.retire_prior_to {
                let Some(next) = self.spare.pop_front() else {
                    return Err(TransportError::protocol_violation(
                        "all connection IDs retired",
                    ));
                };
                self.queue_retire(self.active.sequence, retire_limit)?;
                self.active = next;
            }
        }
        if self.known().count() as u64 > self.limit {
            return Err(TransportError::connection_id_limit(
                "too many active connection IDs",
            ));
        }
        Ok(())
    }

    fn queue_retire(&mut self, sequence: u64, limit: usize) -> Result<(), TransportError> {
        if self.to_retire.contains(&sequence) {
            return Ok(());
        }
        if self.to_retire.len() >= limit {
            return Err(TransportError::connection_id_limit(
                "too many retirements queued",
            ));
        }
        self.to_retire.push_back(sequence);
        Ok(())
    }

    /// Retires an ID because we want to.
    fn retire(&mut self, sequence: u64) {
        self.to_retire.push_back(sequence);
        let index = self.retired.partition_point(|old| *old < sequence);
        self.retired.insert(index, sequence);
        if self.retired.len() > fixed::RETIRED_SEQUENCES
            && let Some(lowest) = self.retired.pop_front()
        {
            self.retired_below = self.retired_below.max(lowest + 1);
        }
    }

    fn may_rotate(&self) -> bool {
        self.to_retire.len() < fixed::RETIREMENTS_AT_WILL
    }

    /// Switches to the next spare ID; the one in use stays with the address left behind if `keep`,
    /// else it is retired. False without a spare, or while too many retirements wait to be
    /// announced: then both addresses share it.
    pub fn rotate(&mut self, keep: bool) -> bool {
        if self.may_rotate()
            && let Some(next) = self.spare.pop_front()
        {
            self.take_over(next, keep);
            return true;
        }
        if keep {
            self.drop_previous();
            self.previous = Some(self.active);
        }
        false
    }

    fn take_over(&mut self, next: RemoteCid, keep: bool) {
        let old = std::mem::replace(&mut self.active, next);
        if keep {
            if let Some(previous) = self.previous.replace(old)
                && previous.sequence != old.sequence
            {
                self.retire(previous.sequence);
            }
        } else if self
            .previous
            .is_none_or(|previous| previous.sequence != old.sequence)
        {
            self.retire(old.sequence);
        }
    }

    /// The ID for the address left behind; `None` when the peer took it back.
    pub fn previous(&self) -> Option<RemoteCid> {
        self.previous
    }

    /// Back to the address left behind, and to its ID. `keep` as with [`Self::rotate`]. True if
    /// the ID in use changed.
    pub fn return_to_previous(&mut self, keep: bool) -> bool {
        match self.previous.take() {
            Some(previous) if previous.sequence != self.active.sequence => {
                self.take_over(previous, keep);
                true
            }
            _ => {
                self.previous = keep.then_some(self.active);
                false
            }
        }
    }

    /// The address left behind is given up.
    pub fn drop_previous(&mut self) {
        if let Some(previous) = self.previous.take()
            && previous.sequence != self.active.sequence
        {
            self.retire(previous.sequence);
        }
    }

    /// Whether the peer has no connection IDs: nothing to change, and nothing to be linked by.
    pub fn is_nameless(&self) -> bool {
        self.active.cid.is_empty()
    }

    /// Whether [`Self::probe`] has an ID to give.
    pub fn may_probe(&self) -> bool {
        self.is_nameless() || self.probe.is_some() || self.may_rotate() && !self.spare.is_empty()
    }

    /// The ID for a network path beside the one in use: the same until [`Self::adopt_probe`] or
    /// [`Self::drop_probe`]. `None` without a spare: the two network paths must not share one, and
    /// a probe that cannot have its own is not sent, nor answered. RFC 9000 s9.5.
    pub fn probe(&mut self) -> Option<RemoteCid> {
        if self.is_nameless() {
            return Some(self.active);
        }
        if self.probe.is_none() && self.may_rotate() {
            self.probe = self.spare.pop_front();
        }
        self.probe
    }

    /// The network path beside takes over, with its ID. `keep` as with [`Self::rotate`]. True if
    /// the ID in use changed.
    pub fn adopt_probe(&mut self, keep: bool) -> bool {
        match self.probe.take() {
            Some(probe) => {
                self.take_over(probe, keep);
                true
            }
            None => self.rotate(keep),
        }
    }

    /// The network path beside is given up, and its ID with it.
    pub fn drop_probe(&mut self) {
        if let Some(probe) = self.probe.take() {
            self.retire(probe.sequence);
        }
    }

    /// Whether `token` is the reset token of an ID that is in use. Tokens of IDs never used, or
    /// retired, mean nothing. RFC 9000 s10.3.1.
    pub fn is_reset_token(&self, token: &ResetToken) -> bool {
        std::iter::once(&self.active)
            .chain(&self.previous)
            .chain(&self.probe)
            .any(|used| used.token.as_ref() == Some(token))
    }

    /// A retirement that must be announced.
    pub fn peek_retirement(&self) -> Option<u64> {
        self.to_retire.front().copied()
    }

    /// It was put into a packet.
    pub fn pop_retirement(&mut self) -> Option<u64> {
        self.to_retire.pop_front()
    }

    /// The packet that carried it was lost.
    pub fn resend_retirement(&mut self, sequence: u64) {
        if !self.to_retire.contains(&sequence) {
            self.to_retire.push_back(sequence);
        }
    }
}
