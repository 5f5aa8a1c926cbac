//! The paths of a connection beside the handshake's: opened, accepted, abandoned, forgotten.
//!
//! Owns: when a path may be opened, what the frames of RFC 10069 do, what happens to data under way
//! when a path goes silent or away. Does not own: a path's own state (`path/`), identifiers and what
//! waits to be told (`multipath/`), which path carries what (`multipath_tx.rs`).

use super::{
    Connection, EndpointEvent, Event,
    copies::OverdueCopies,
    coupling::CouplingReview,
    fates::frame_fates,
    migration::{ISSUED_IDS, can_reach},
    multipath_tx::HeldBack,
    path_frames::write_path_news,
    path_trace::PathTrace,
    rx::{Arrival, Received},
};
use crate::{
    error::{Code, TransportError},
    multipath::{
        AbandonPathError, AckRouting, OpenPathError, PathIds, PathNotices, PathStatus, PathWishes,
        Unopened, abandon,
        sched::{PathView, Scheduler},
    },
    packet::{PacketWriter, Token},
    path::{Path, PathEvent, PathPhase},
    space::SpaceKind,
    time::{Instant, earliest},
    units::{FourTuple, PathId},
    wire::{ConnectionId, NewConnectionId, TransportParameters},
};

/// Connection IDs we give for a path before it is opened.
const IDS_IN_ADVANCE: u64 = 1;

/// What a connection with several paths has beside them.
#[derive(Debug)]
pub(crate) struct Multipath {
    pub(super) ids: PathIds,
    pub(super) notices: PathNotices,
    pub(super) scheduler: Box<dyn Scheduler>,
    pub(super) ack_routing: AckRouting,
    /// The path that carries all acknowledgements, if one does.
    pub(super) acks_on: Option<PathId>,
    /// The number of the next ACK_FREQUENCY.
    ack_requests: u64,
    /// Paths that the application asked for and that lack connection IDs.
    pub(super) wishes: PathWishes,
    /// Whether the peer is sent echoes (`echoes.rs`).
    pub(super) echoes: bool,
    /// What the paths' congestion controllers are told of each other.
    pub(super) coupling: CouplingReview,
    /// What each path had for views when the scheduler was asked last; kept for its memory.
    pub(super) views: Vec<PathView>,
    /// Pinned data goes before what the scheduler places, every other time.
    pub(super) pinned_first: bool,
    /// What was told of the choice of paths.
    pub(super) trace: PathTrace,
    /// When flow control held data back.
    pub(super) held_back: HeldBack,
    /// What is sent again since it is overdue.
    pub(super) overdue: OverdueCopies,
}

impl Multipath {
    /// Whether something waits that any path may carry.
    pub(super) fn has_frames(&self) -> bool {
        !self.notices.is_empty() || self.ids.has_news()
    }

    /// A number for an ACK_FREQUENCY, larger than any before.
    pub(super) fn next_ack_request(&mut self) -> u64 {
        self.ack_requests += 1;
        self.ack_requests - 1
    }

    /// When a path that lacks connection IDs is given up, or what is under way overdue.
    pub(super) fn timer(&self) -> Option<Instant> {
        earliest(self.wishes.timer(), self.overdue.timer())
    }

    /// Writes what fits of it.
    pub(super) fn write(&mut self, writer: &mut PacketWriter<'_>) {
        if !self.notices.is_empty() {
            self.notices.write(writer);
        }
        self.ids
            .write_news(|id, unopened| write_path_news(id, unopened, writer));
    }
}

impl Connection {
    /// Both ends' parameters decide whether there can be several paths. RFC 10069 s2.
    pub(super) fn negotiate_multipath(
        &mut self,
        params: &TransportParameters,
    ) -> Result<(), TransportError> {
        let (Some(config), Some(remote_max)) = (&self.config.multipath, params.initial_max_path_id)
        else {
            return Ok(());
        };
        if self.endpoint.connection_id_length == 0 {
            // We did not offer it.
            return Ok(());
        }
        let nameless = params
            .initial_source_connection_id
            .is_some_and(|cid| cid.is_empty());
        if nameless {
            let error = "multipath with zero-length connection IDs";
            return Err(TransportError::protocol_violation(error));
        }
        self.multipath = Some(Box::new(Multipath {
            ids: PathIds::new(config.initial_max_path_id(), remote_max),
            notices: PathNotices::default(),
            scheduler: config.scheduler.build(),
            ack_routing: config.ack_routing,
            acks_on: None,
            ack_requests: 0,
            wishes: PathWishes::default(),
            echoes: params.path_echo && self.offers_echoes(),
            overdue: OverdueCopies::default(),
            coupling: CouplingReview::default(),
            views: Vec::new(),
            pinned_first: false,
            trace: PathTrace::default(),
            held_back: HeldBack::default(),
        }));
        for path in self.paths.iter_mut() {
            // What it costs may have been said before.
            path.status.set(path.cost.cost.status());
        }
        Ok(())
    }

    /// The handshake has come far enough to give out connection IDs: for path 0, and one for each
    /// path that may be opened.
    pub(super) fn request_first_connection_ids(&mut self) {
        self.request_connection_ids(PathId::ZERO);
        self.request_ids_of_unopened();
    }

    fn request_ids_of_unopened(&mut self) {
        let Some(multipath) = &self.multipath else {
            return;
        };
        for path in multipath.ids.without_ids() {
            self.outbox.endpoint(EndpointEvent::NeedConnectionIds {
                path,
                first_sequence: 0,
                count: IDS_IN_ADVANCE.min(self.peer.active_connection_id_limit),
            });
        }
    }

    /// Opens a further path over `to`; it may carry data once [`PathEvent::Validated`] says so.
    ///
    /// May be called as soon as the connection is established: the path waits for connection IDs.
    /// The peer may still lack what it needs to read of it (it reads 1-RTT packets once it has the client's
    /// Finished, which may be on a slower path): it keeps such packets, or is told again soon after it is known
    /// to have completed the handshake.
    ///
    /// # Errors
    /// [`OpenPathError`] when it cannot be opened now. [`PathEvent::Abandoned`] tells if it fails later.
    pub fn open_path(&mut self, now: Instant, to: FourTuple) -> Result<PathId, OpenPathError> {
        if self.is_closed() {
            return Err(OpenPathError::Closed);
        }
        if self.side.is_server() {
            return Err(OpenPathError::NotClient);
        }
        if self.config.multipath.is_none() {
            return Err(OpenPathError::NotConfigured);
        }
        if self.multipath.is_none() {
            return Err(if self.handshake.peer_params_seen {
                OpenPathError::NotSupported
            } else {
                OpenPathError::TooEarly
            });
        }
        if !self.config.migration || !self.peer_lets_us_move(to.remote) {
            return Err(OpenPathError::MigrationDisabled);
        }
        let taken = self
            .paths
            .iter()
            .any(|path| !path.is_abandoned() && path.network.four_tuple().matches(&to));
        if taken || to.remote.port() == 0 || !can_reach(to.local, to.remote) {
            return Err(OpenPathError::BadAddresses);
        }
        let multipath = self.multipath.as_mut().ok_or(OpenPathError::NotSupported)?;
        if multipath.wishes.is_full() {
            return Err(OpenPathError::TooManyPaths { by_peer: false });
        }
        if multipath.wishes.is_over(&to) {
            return Err(OpenPathError::BadAddresses);
        }
        let Some(id) = multipath.ids.take_next() else {
            let by_peer = multipath.ids.is_blocked_by_peer();
            if by_peer {
                let at = multipath.ids.remote_max();
                multipath.notices.paths_blocked(at);
            }
            return Err(OpenPathError::TooManyPaths { by_peer });
        };
        multipath.wishes.push(id, to);
        self.open_wanted_paths(now, true);
        Ok(id)
    }

    /// Opens what was asked for and has connection IDs by now; `complains` to the peer where it has
    /// given none. Identifiers are used in order: one for which none come holds up the next, and is given up.
    fn open_wanted_paths(&mut self, now: Instant, complains: bool) {
        // Once the handshake is complete (RFC 10069 s3); RFC 9000 s9 has those who migrate wait for its
        // confirmation, a round trip later, but this moves nothing.
        if self.is_handshaking() {
            return;
        }
        loop {
            let Some(multipath) = &mut self.multipath else {
                return;
            };
            let Some((id, to)) = multipath.wishes.first() else {
                return;
            };
            if !multipath.ids.is_ready(id) {
                if complains {
                    multipath.notices.cids_blocked(id, 0);
                }
                if !multipath.wishes.gives_up(now) {
                    return;
                }
                let code = abandon::NO_CID_AVAILABLE_FOR_PATH;
                if self.abandon_path(now, id, code).is_err() {
                    return;
                }
                continue;
            }
            multipath.wishes.pop();
            self.create_path(now, id, to, None);
        }
    }

    /// The peer has completed the handshake: challenges that came before it had, and were dropped rather than
    /// kept, are repeated soon rather than after a probe timeout. Those that it did read are answered by then,
    /// if their paths are as fast as the one that told of it.
    pub(super) fn repeat_early_challenges(&mut self, now: Instant) {
        let Some(first) = self.paths.get(PathId::ZERO) else {
            return;
        };
        let rtt = first.recovery.rtt().smoothed();
        for path in self.paths.iter_mut() {
            if path.phase == PathPhase::Opening {
                path.network.repeat_challenge_by(now + rtt / 4);
            }
        }
    }

    /// Path `id` begins over `to`. `received`: the datagram by which the peer opened it.
    /// False if a connection ID is missing.
    fn create_path(
        &mut self,
        now: Instant,
        id: PathId,
        to: FourTuple,
        received: Option<&Arrival>,
    ) -> bool {
        self.unreviewed = true;
        let Some(multipath) = &mut self.multipath else {
            return false;
        };
        if !multipath.ids.is_ready(id) {
            return false;
        }
        let Some(unopened) = multipath.ids.take(id) else {
            return false;
        };
        let Some(remote_cids) = unopened.remote else {
            return false;
        };
        let cid = remote_cids.active().cid;
        let mut path = Path::new(id, now, to, cid, &self.config, &mut self.rng);
        path.local_cids = unopened.local;
        path.remote_cids = remote_cids;
        path.status = unopened.status;
        path.cost.set(unopened.cost);
        path.first_rtt = unopened.first_rtt;
        path.phase = PathPhase::Opening;
        path.has_opened = false;
        path.opened_early = !self.life.confirmed;
        let proven = self
            .paths
            .iter()
            .any(|other| other.network.four_tuple().matches(&to) && other.network.is_validated());
        // Whoever opens a path answers for its own address; the peer's was proven by the handshake.
        if self.side.is_client() || proven {
            path.network.amplification.set_validated();
        }
        if let Some(arrival) = received {
            path.network.amplification.on_received(arrival.bytes);
            path.first_rtt.on_opened(arrival.at);
        } else {
            multipath.notices.opening(id, path.status.announce());
        }
        path.mtu.start(self.peer.max_udp_payload_size);
        path.recovery.on_mtu(path.mtu.current());
        let pto = match path.first_rtt.estimate() {
            Some(estimate) => {
                path.recovery.assume_rtt(estimate);
                None
            }
            // Nothing is known of the path: a challenge is repeated as the known ones would repeat it.
            None => self.paths.iter().map(Self::pto).max(),
        };
        path.network
            .start_validation(now, pto.unwrap_or_else(|| Self::pto(&path)));
        self.paths.insert(path);
        self.announce_reset_token(id);
        self.request_connection_ids(id);
        self.outbox
            .push(Event::Path(PathEvent::Opened { path: id, to }));
        true
    }

    /// The peer opens a path: an authentic packet came for a connection ID of one.
    pub(super) fn accept_path(&mut self, now: Instant, id: PathId, arrival: &Arrival) -> bool {
        self.create_path(now, id, arrival.meta.four_tuple, Some(arrival))
    }

    /// Closes one of several paths, for a reason of RFC 10069 ([`abandon`]). What is under way on it is
    /// sent again on others.
    ///
    /// # Errors
    /// [`AbandonPathError`] when it is the only one that has ever worked, whatever is being opened beside it, or there is
    /// none of that name.
    pub fn abandon_path(
        &mut self,
        now: Instant,
        id: PathId,
        code: u64,
    ) -> Result<(), AbandonPathError> {
        // What opens may not answer, and a connection that has nothing else ends with it.
        let opens = |path: &Path| path.phase == PathPhase::Opening;
        let works = !self.paths.get(id).is_some_and(opens);
        self.abandon_beside(now, id, code, |other| !works || !opens(other))
    }

    /// As [`Self::abandon_path`], where another path that `counts` is left. For one that cannot go on any is better than none.
    pub(super) fn abandon_beside(
        &mut self,
        now: Instant,
        id: PathId,
        code: u64,
        counts: impl Fn(&Path) -> bool,
    ) -> Result<(), AbandonPathError> {
        self.unreviewed = true;
        // Before the handshake is confirmed a path that opens may never: what proves it comes when both ends are done, and
        // the handshake itself is on the first path alone.
        let confirmed = self.life.confirmed;
        let stays = |it: &Path| !it.is_abandoned() && (confirmed || it.is_usable()) && counts(it);
        let left = self
            .paths
            .iter()
            .any(|other| other.id != id && stays(other));
        let Some(multipath) = &mut self.multipath else {
            return Err(match self.paths.get(id) {
                Some(_) => AbandonPathError::LastPath,
                None => AbandonPathError::UnknownPath,
            });
        };
        if multipath.wishes.remove(id) {
            self.drop_unopened(id, code);
            self.report_abandoned(id, code, false);
            return Ok(());
        }
        if self.paths.get(id).is_none_or(Path::is_abandoned) {
            return Err(AbandonPathError::UnknownPath);
        }
        if !left {
            return Err(AbandonPathError::LastPath);
        }
        self.leave_path(now, id, code, false);
        Ok(())
    }

    /// An identifier that was never opened is given up.
    fn drop_unopened(&mut self, id: PathId, code: u64) {
        let Some(multipath) = &mut self.multipath else {
            return;
        };
        let Some(unopened) = multipath.ids.take(id) else {
            return;
        };
        for sequence in unopened.local.sequences() {
            self.outbox
                .endpoint(EndpointEvent::RetireConnectionId { path: id, sequence });
        }
        multipath.notices.forget(id);
        multipath.notices.abandon(id, code);
        multipath.ids.on_abandoned(id);
        if let Some(keys) = self.keys.one_rtt.as_mut() {
            // Packets may have come for it that could not open it.
            keys.forget_path(id);
        }
        self.on_path_gone(id);
    }

    /// Nothing is left of a path: it may be followed by another one.
    fn on_path_gone(&mut self, id: PathId) {
        let multipath = self.multipath.as_mut();
        let max = multipath.and_then(|multipath| multipath.ids.on_gone(id));
        self.announce_max_path_id(max);
    }

    /// The peer acknowledged PATH_ABANDON frames of ours.
    pub(super) fn on_abandons_heard(&mut self) {
        while let Some(id) = self.scratch.ends_heard.pop() {
            let multipath = self.multipath.as_mut();
            let max = multipath.and_then(|multipath| {
                multipath.notices.on_abandon_heard(id);
                multipath.ids.on_abandon_heard(id)
            });
            self.announce_max_path_id(max);
        }
    }

    fn announce_max_path_id(&mut self, max: Option<u64>) {
        if let (Some(multipath), Some(max)) = (&mut self.multipath, max) {
            multipath.notices.max_path_id(max);
            self.request_ids_of_unopened();
        }
    }

    /// The receive windows suit as many paths as carry data.
    pub(super) fn count_paths(&mut self) {
        let usable = self.paths.iter().filter(|path| path.is_usable()).count();
        self.streams.set_paths(usable);
    }

    fn report_abandoned(&mut self, path: PathId, code: u64, by_peer: bool) {
        self.count_paths();
        self.outbox.push(Event::Path(PathEvent::Abandoned {
            path,
            code,
            by_peer,
        }));
    }

    /// From now on nothing is sent on the path.
    fn leave_path(&mut self, now: Instant, id: PathId, code: u64, by_peer: bool) {
        let retention = 3 * self.largest_pto();
        self.hand_over_all(id);
        let (Some(path), Some(multipath)) = (self.paths.get_mut(id), &mut self.multipath) else {
            return;
        };
        let first = !path.is_abandoned();
        if by_peer {
            let until = Some(now + retention);
            path.phase = PathPhase::Abandoned { until };
        } else if first {
            path.phase = PathPhase::Abandoned { until: None };
        }
        if !first {
            return;
        }
        path.pending = Default::default();
        path.pacing_until = None;
        path.probe = None;
        path.forget_previous();
        multipath.notices.forget(id);
        multipath.notices.abandon(id, code);
        multipath.ids.on_abandoned(id);
        self.report_abandoned(id, code, by_peer);
    }

    /// Forgets an abandoned path whose time has come. True if it is gone.
    pub(super) fn forget_path_if_due(&mut self, now: Instant, id: PathId) -> bool {
        let due = self.paths.get(id).is_some_and(|path| {
            matches!(path.phase, PathPhase::Abandoned { until: Some(until) } if now >= until)
        });
        if !due {
            return false;
        }
        let Some(mut path) = self.paths.remove(id) else {
            return false;
        };
        for sequence in path.local_cids.sequences() {
            self.outbox
                .endpoint(EndpointEvent::RetireConnectionId { path: id, sequence });
        }
        // What nobody acknowledged any more: datagrams and symbols have no other fate.
        let mut fates = frame_fates!(self, path, now, fec: self.fec.sender.as_deref_mut());
        path.recovery.abandon(&mut path.space, &mut fates);
        self.apply_deferred(SpaceKind::Data, None);
        if let Some(keys) = self.keys.one_rtt.as_mut() {
            keys.forget_path(id);
        }
        self.fec.forget_path(id);
        self.reported.forget_path(id);
        self.outbox.endpoint(EndpointEvent::PathGone(id));
        self.on_path_gone(id);
        true
    }

    /// Wishes that a path be used, or be kept in reserve.
    ///
    /// # Errors
    /// [`AbandonPathError::UnknownPath`].
    pub fn set_path_status(
        &mut self,
        id: PathId,
        status: PathStatus,
    ) -> Result<(), AbandonPathError> {
        let multipath = self
            .multipath
            .as_mut()
            .ok_or(AbandonPathError::UnknownPath)?;
        let exchange = match self.paths.get_mut(id) {
            Some(path) => &mut path.status,
            None => {
                let unopened = multipath.ids.get_mut(id);
                &mut unopened.ok_or(AbandonPathError::UnknownPath)?.status
            }
        };
        exchange.set(status);
        Ok(())
    }

    /// After input: paths that wait, paths that went silent or answer again.
    pub(super) fn review_paths(&mut self, now: Instant) {
        if self.multipath.is_none() {
            return;
        }
        self.open_wanted_paths(now, false);
        self.tell_of_moved_paths();
        for path in self.paths.iter_mut() {
            if let Some(took) = path.answered_in.take()
                && path.recovery.rtt_by(path.id).is_none()
            {
                path.recovery.on_own_round_trip(now, path.id, took);
            }
            // Before it opens nothing is expected of it; after its end nothing is told any more.
            if path.phase == PathPhase::Open
                && let Some(event) = path.told.news(path.id, path.recovery.pto_count())
            {
                self.outbox.push(Event::Path(event));
            }
        }
    }

    /// What was learned of acknowledgements by a path is over when it leads another way.
    fn tell_of_moved_paths(&mut self) {
        for index in 0..self.paths.len() {
            let Some(id) = self.paths.id_at(index) else {
                continue;
            };
            let path = self.paths.get_mut(id);
            if !path.is_some_and(|path| std::mem::take(&mut path.moved)) {
                continue;
            }
            for other in self.paths.iter_mut().filter(|other| other.id != id) {
                other.recovery.on_return_path_moved(id);
            }
        }
    }

    /// PATH_ABANDON. RFC 10069 s3.4.
    pub(super) fn on_path_abandon(
        &mut self,
        now: Instant,
        id: PathId,
        code: u64,
    ) -> Result<(), TransportError> {
        let Some(path) = self.paths.get(id) else {
            let multipath = self.multipath.as_mut();
            let wanted = multipath.is_some_and(|multipath| multipath.wishes.remove(id));
            self.drop_unopened(id, abandon::NO_ERROR);
            if wanted {
                self.report_abandoned(id, code, true);
            }
            return Ok(());
        };
        let known = matches!(path.phase, PathPhase::Abandoned { until: Some(_) });
        if known {
            return Ok(());
        }
        let left = self
            .paths
            .iter()
            .any(|other| other.id != id && !other.is_abandoned());
        if !left && !path.is_abandoned() {
            // RFC 10069 s3.4: without a path there is no connection.
            return Err(TransportError::new(
                Code::NO_ERROR,
                "the last path was abandoned",
            ));
        }
        self.leave_path(now, id, code, true);
        Ok(())
    }

    pub(super) fn on_path_status(
        &mut self,
        received: &Received,
        id: PathId,
        available: bool,
        sequence: u64,
    ) -> Result<(), TransportError> {
        let status = if available {
            PathStatus::Available
        } else {
            PathStatus::Backup
        };
        let (now, by) = (received.now, received.path);
        let rtt = self.paths.get(by).map(|by| *by.recovery.rtt());
        let rtt = rtt.filter(|rtt| by != id && rtt.has_sample());
        if let Some(path) = self.paths.get_mut(id) {
            if let Some(rtt) = rtt {
                path.first_rtt.on_told(now, rtt.smoothed());
                if let Some(estimate) = path.first_rtt.estimate() {
                    path.recovery.assume_rtt(estimate);
                }
            }
            if path.status.on_remote(sequence, status) && !path.is_abandoned() {
                let event = PathEvent::StatusChanged { path: id, status };
                self.outbox.push(Event::Path(event));
            }
        } else if let Some(multipath) = &mut self.multipath
            && let Some(unopened) = multipath.ids.get_mut(id)
        {
            unopened.status.on_remote(sequence, status);
            if let Some(rtt) = rtt {
                unopened.first_rtt.on_told(now, rtt.smoothed());
            }
        }
        Ok(())
    }

    pub(super) fn on_max_path_id(&mut self, max: u64) -> Result<(), TransportError> {
        let initial = self.peer.initial_max_path_id.unwrap_or(0);
        if max > u64::from(u32::MAX) || max < initial {
            let error = "MAX_PATH_ID out of range";
            return Err(TransportError::protocol_violation(error));
        }
        if let Some(multipath) = &mut self.multipath
            && multipath.ids.on_max_path_id(max)
        {
            self.request_ids_of_unopened();
        }
        Ok(())
    }

    pub(super) fn on_paths_blocked(&mut self, at: u64) -> Result<(), TransportError> {
        let Some(multipath) = &mut self.multipath else {
            return Ok(());
        };
        let max = multipath.ids.local_max();
        if at > max {
            let error = "PATHS_BLOCKED above the limit";
            return Err(TransportError::protocol_violation(error));
        }
        if at < max {
            // It has not heard of the newest limit.
            multipath.notices.max_path_id(max);
        }
        Ok(())
    }

    pub(super) fn on_path_cids_blocked(
        &mut self,
        id: PathId,
        next_sequence: u64,
    ) -> Result<(), TransportError> {
        let ours = match self.paths.get(id) {
            Some(path) => path.local_cids.next_sequence(),
            None => match unopened(&mut self.multipath, id) {
                Some(unopened) => unopened.local.next_sequence(),
                None => return Ok(()),
            },
        };
        if next_sequence > ours {
            let error = "PATH_CIDS_BLOCKED beyond what was issued";
            return Err(TransportError::protocol_violation(error));
        }
        if self.paths.get(id).is_some_and(|path| !path.is_abandoned()) {
            self.request_connection_ids(id);
        } else {
            self.request_ids_of_unopened();
        }
        Ok(())
    }

    pub(super) fn on_connection_id_of_unopened_path(
        &mut self,
        new: &NewConnectionId,
    ) -> Result<(), TransportError> {
        let limit = self.config.active_connection_id_limit.max(2);
        let retire_limit = self.config.limits.pending_retire_connection_ids;
        let id = new.path.unwrap_or(PathId::ZERO);
        let Some(multipath) = &mut self.multipath else {
            return Ok(());
        };
        multipath
            .ids
            .on_new_connection_id(id, new, limit, retire_limit)?;
        self.may_release = true;
        Ok(())
    }

    /// Whether the peer may open path `id`: both sides have a connection ID for it.
    pub(super) fn can_accept_path(&self, id: PathId) -> bool {
        let multipath = self.multipath.as_ref();
        multipath.is_some_and(|multipath| multipath.ids.is_ready(id))
    }

    /// The peer gives a connection ID back before it has used its path: it gets another.
    pub(super) fn on_retirement_of_unopened_path(
        &mut self,
        id: PathId,
        sequence: u64,
    ) -> Result<(), TransportError> {
        let Some(unopened) = unopened(&mut self.multipath, id) else {
            return Ok(());
        };
        let packet_dcid = ConnectionId::EMPTY;
        if unopened.local.on_retire(sequence, &packet_dcid)? {
            let first_sequence = unopened.local.next_sequence();
            self.outbox
                .endpoint(EndpointEvent::RetireConnectionId { path: id, sequence });
            self.outbox.endpoint(EndpointEvent::NeedConnectionIds {
                path: id,
                first_sequence,
                count: IDS_IN_ADVANCE.min(ISSUED_IDS),
            });
        }
        Ok(())
    }

    /// A packet with one of the frames about paths was lost.
    pub(super) fn on_path_frame_lost(&mut self, token: Token) {
        let Some(multipath) = &mut self.multipath else {
            return;
        };
        match token {
            Token::MaxPathId => {
                let max = multipath.ids.local_max();
                multipath.notices.max_path_id(max);
            }
            Token::PathAbandon { path } => multipath.notices.abandon_again(path),
            Token::PathStatus { path: id, sequence } => {
                if let Some(path) = self.paths.get_mut(id) {
                    path.status.on_lost(sequence);
                } else if let Some(unopened) = multipath.ids.get_mut(id) {
                    unopened.status.on_lost(sequence);
                }
            }
            // The application asks again, or the wish is told of again by what follows it.
            Token::PathsBlocked => {}
            Token::PathCidsBlocked { path } if multipath.wishes.contains(path) => {
                multipath.notices.cids_blocked(path, 0);
            }
            _ => {}
        }
    }

    /// The path that what concerns the whole connection goes by: the one with the least delay of the
    /// cheapest that work, else any.
    pub(crate) fn main_path(&self) -> Option<&Path> {
        let usable = self.paths.iter().filter(|path| path.is_at_work());
        usable
            .min_by_key(|path| (path.cost.cost.class, path.recovery.rtt().smoothed()))
            .or_else(|| self.paths.iter().find(|path| !path.is_abandoned()))
            .or_else(|| self.paths.iter().next())
    }

    /// The same, to be changed.
    pub(crate) fn main_path_mut(&mut self) -> Option<&mut Path> {
        let id = self.main_path()?.id;
        self.paths.get_mut(id)
    }
}

/// What is known of a path that is not open yet, if `id` names one.
pub(super) fn unopened(
    multipath: &mut Option<Box<Multipath>>,
    id: PathId,
) -> Option<&mut Unopened> {
    multipath.as_mut()?.ids.get_mut(id)
}
