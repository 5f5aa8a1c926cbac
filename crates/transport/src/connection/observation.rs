//! Events that sum up state: emitted where a change is noticed, not where it is made.
//!
//! Owns: what was last reported, so that only changes are. Costs one branch without a sink.

use super::{
    Connection,
    lifecycle::State,
    rx::{FrameSummary, Received},
};
use crate::{
    error::TransportError,
    observe::{self, Abuse, ConnectionState, EcnPhase, TimerKind},
    path::{MIN_DATAGRAM, Path},
    stream::Note,
    time::Instant,
    units::{FourTuple, PathId},
    wire::{ConnectionId, TransportParameters},
};

/// The timers of a path, in the order of [`PathReport::timers`].
const PATH_TIMERS: [TimerKind; 6] = [
    TimerKind::LossDetection,
    TimerKind::Pto,
    TimerKind::AckDelay,
    TimerKind::Pacing,
    TimerKind::PathValidation,
    TimerKind::Mtu,
];
/// The connection's own, in the order of [`Reported::timers`].
const TIMERS: [TimerKind; 5] = [
    TimerKind::Idle,
    TimerKind::KeepAlive,
    TimerKind::Handshake,
    TimerKind::Close,
    TimerKind::KeyDiscard,
];

/// What the sink knows already.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    state: Option<ConnectionState>,
    timers: [Option<Instant>; TIMERS.len()],
    paths: Vec<PathReport>,
}

/// What the sink knows of a path.
#[derive(Debug)]
struct PathReport {
    id: PathId,
    timers: [Option<Instant>; PATH_TIMERS.len()],
    four_tuple: FourTuple,
    remote_cid: ConnectionId,
    /// Ours that the peer used last.
    local_cid: Option<ConnectionId>,
    spin: bool,
    mtu: u16,
    amplification_limited: bool,
    congestion_state: &'static str,
    /// Congestion window and pacing rate in bits a second.
    decided: (u64, Option<u64>),
}

impl PathReport {
    fn new(path: &Path) -> Self {
        Self {
            id: path.id,
            timers: [None; PATH_TIMERS.len()],
            four_tuple: path.network.four_tuple(),
            remote_cid: path.remote_cids.active().cid,
            local_cid: None,
            spin: false,
            mtu: path.mtu.current(),
            amplification_limited: false,
            congestion_state: "",
            decided: (0, None),
        }
    }
}

impl Reported {
    /// A connection has few paths, and they are looked up once per call.
    fn path(&mut self, path: &Path) -> Option<&mut PathReport> {
        let known = self.paths.iter().position(|report| report.id == path.id);
        let index = known.unwrap_or_else(|| {
            self.paths.push(PathReport::new(path));
            self.paths.len() - 1
        });
        self.paths.get_mut(index)
    }

    /// A path is gone.
    pub(super) fn forget_path(&mut self, id: PathId) {
        self.paths.retain(|report| report.id != id);
    }

    /// The loss timer went off and was told of.
    fn forget_loss_timer(&mut self, id: PathId) {
        if let Some(report) = self.paths.iter_mut().find(|report| report.id == id) {
            let [loss, pto, ..] = &mut report.timers;
            (*loss, *pto) = (None, None);
        }
    }
}

impl Connection {
    /// Recovery's view of a path, and what the congestion controller made of it if that changed.
    pub(crate) fn emit_recovery_metrics(&mut self, now: Instant, id: PathId) {
        if !self.observer.is_active() {
            return;
        }
        let Some(path) = self.paths.get(id) else {
            return;
        };
        let metrics = path.recovery.metrics();
        let state = path.recovery.congestion().metrics().state;
        let name = path.recovery.congestion().name();
        let decided = (
            metrics.window,
            metrics.pacing_rate.map(|rate| rate.bits_per_second()),
        );
        self.observer.emit(now, || observe::Event::MetricsUpdated {
            path: id,
            metrics: &metrics,
        });
        let Some(report) = self.reported.path(path) else {
            return;
        };
        let old = std::mem::replace(&mut report.congestion_state, state);
        if old != state {
            self.observer.emit(now, || observe::Event::CongestionState {
                path: id,
                old,
                new: state,
            });
        }
        if std::mem::replace(&mut report.decided, decided) != decided {
            let (window, rate) = decided;
            self.observer.emit(now, || observe::Event::PolicyDecision {
                policy: "congestion",
                name,
                path: Some(id),
                decision: "window and rate",
                values: [Some(window as f64), rate.map(|rate| rate as f64)],
            });
        }
    }

    /// Everything that changed since the last report.
    pub(crate) fn emit_changes(&mut self, now: Instant) {
        if !self.observer.is_active() {
            return;
        }
        self.emit_state(now);
        for index in 0..self.paths.len() {
            if let Some(id) = self.paths.id_at(index) {
                self.emit_path(now, id);
                self.emit_path_timers(now, id);
            }
        }
        self.emit_timers(now);
        self.emit_notes(now);
    }

    /// The connection's state, if it changed.
    pub(crate) fn emit_state(&mut self, now: Instant) {
        if !self.observer.is_active() {
            return;
        }
        let new = self.observed_state();
        let old = self.reported.state.replace(new);
        let old = old.unwrap_or(ConnectionState::Attempted);
        if old != new {
            self.observer
                .emit(now, || observe::Event::ConnectionState { old, new });
        }
    }

    fn observed_state(&self) -> ConnectionState {
        match self.life.state {
            State::Drained => ConnectionState::Closed,
            State::Draining { .. } => ConnectionState::Draining,
            State::Closing(_) => ConnectionState::Closing,
            State::Established if self.life.confirmed => ConnectionState::HandshakeConfirmed,
            State::Established => ConnectionState::HandshakeComplete,
            State::Handshake if self.keys.one_rtt.is_some() && self.side.is_server() => {
                ConnectionState::EarlyWrite
            }
            State::Handshake if self.keys.handshake.is_some() => ConnectionState::HandshakeStarted,
            State::Handshake if self.side.is_client() && self.handshake.peer_scid.is_some() => {
                ConnectionState::PeerValidated
            }
            State::Handshake => ConnectionState::Attempted,
        }
    }

    /// Addresses, connection IDs and the spin bit of a path.
    fn emit_path(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get(id) else {
            return;
        };
        let Some(report) = self.reported.path(path) else {
            return;
        };
        let four_tuple = path.network.four_tuple();
        if std::mem::replace(&mut report.four_tuple, four_tuple) != four_tuple {
            self.observer.emit(now, || observe::Event::TupleAssigned {
                path: id,
                four_tuple: Some(four_tuple),
            });
        }
        let owner = self.side.peer();
        let new = path.remote_cids.active().cid;
        let old = std::mem::replace(&mut report.remote_cid, new);
        if old != new {
            self.observer
                .emit(now, || observe::Event::ConnectionIdUpdated {
                    owner,
                    path: id,
                    old,
                    new,
                });
        }
        let spin = path.spin.value();
        if std::mem::replace(&mut report.spin, spin) != spin {
            self.observer
                .emit(now, || observe::Event::SpinBit { path: id, spin });
        }
        let (mtu, done) = (path.mtu.current(), path.mtu.is_settled());
        let old = std::mem::replace(&mut report.mtu, mtu);
        if old != mtu {
            self.observer.emit(now, || observe::Event::MtuUpdated {
                path: id,
                old,
                new: mtu,
                done,
            });
        }
        let limited = path.network.amplification.budget() < MIN_DATAGRAM;
        if !std::mem::replace(&mut report.amplification_limited, limited) && limited {
            let kind = Abuse::AmplificationLimited;
            self.observer.emit(now, || observe::Event::Abuse { kind });
        }
    }

    /// A 1-RTT packet arrived: which of our connection IDs the peer uses now, and when its
    /// acknowledgement is due.
    pub(crate) fn observe_received(
        &mut self,
        received: &Received,
        summary: FrameSummary,
        ack_deadline: Option<Instant>,
    ) {
        if !self.observer.is_active() {
            return;
        }
        let now = received.now;
        let (id, new, owner) = (received.path, received.dcid, self.side);
        let Some(path) = self.paths.get(id) else {
            return;
        };
        let name = path.ack.name();
        let Some(report) = self.reported.path(path) else {
            return;
        };
        let first = path.local_cids.first().unwrap_or(new);
        let old = report.local_cid.replace(new).unwrap_or(first);
        if old != new {
            self.observer
                .emit(now, || observe::Event::ConnectionIdUpdated {
                    owner,
                    path: id,
                    old,
                    new,
                });
        }
        if summary.ack_eliciting {
            let wait = ack_deadline.map(|at| at.saturating_since(now).as_secs_f64());
            self.observer.emit(now, || observe::Event::PolicyDecision {
                policy: "ack",
                name,
                path: Some(id),
                decision: if wait.is_some() { "wait" } else { "now" },
                values: [wait, None],
            });
        }
    }

    /// Timers of a path that were set, moved, cancelled or went off since the last report.
    fn emit_path_timers(&mut self, now: Instant, id: PathId) {
        let loss = self.loss_timer(id);
        let Some(path) = self.paths.get(id) else {
            return;
        };
        let handshake = [&self.spaces.initial, &self.spaces.handshake];
        let by_loss = path.space.loss_time.is_some()
            || id == PathId::ZERO
                && handshake
                    .into_iter()
                    .flatten()
                    .any(|space| space.loss_time.is_some());
        let current = if self.is_closed() {
            [None; PATH_TIMERS.len()]
        } else {
            [
                loss.filter(|_| by_loss),
                loss.filter(|_| !by_loss),
                path.space.received.ack_deadline(),
                path.pacing_until,
                path.validation_timer(),
                path.mtu_timer(),
            ]
        };
        let Some(report) = self.reported.path(path) else {
            return;
        };
        let known = std::mem::replace(&mut report.timers, current);
        for ((timer, old), new) in PATH_TIMERS.into_iter().zip(known).zip(current) {
            self.emit_timer(now, timer, Some(id), old, new);
        }
    }

    /// The connection's own timers, likewise.
    fn emit_timers(&mut self, now: Instant) {
        let (closing, open) = match &self.life.state {
            State::Closing(closing) => (Some(closing.until), false),
            State::Draining { until } => (Some(*until), false),
            State::Drained => (None, false),
            State::Handshake | State::Established => (None, true),
        };
        let keys = self.keys.one_rtt.as_ref().and_then(|keys| keys.timer());
        let current = [
            self.idle_deadline(),
            self.keep_alive_deadline(),
            self.life.handshake_deadline,
            closing,
            crate::time::earliest(keys, self.life.zero_rtt_until).filter(|_| open),
        ];
        let known = std::mem::replace(&mut self.reported.timers, current);
        for ((timer, old), new) in TIMERS.into_iter().zip(known).zip(current) {
            self.emit_timer(now, timer, None, old, new);
        }
    }

    fn emit_timer(
        &mut self,
        now: Instant,
        timer: TimerKind,
        path: Option<PathId>,
        old: Option<Instant>,
        new: Option<Instant>,
    ) {
        if old == new {
            return;
        }
        if old.is_some_and(|at| at <= now) {
            self.observer
                .emit(now, || observe::Event::TimerExpired { timer, path });
        } else if new.is_none() {
            self.observer
                .emit(now, || observe::Event::TimerCancelled { timer, path });
        }
        if let Some(at) = new {
            self.observer
                .emit(now, || observe::Event::TimerSet { timer, path, at });
        }
    }

    /// The loss-detection timer of a path went off, and for which of its two purposes.
    pub(crate) fn emit_loss_timer(&mut self, now: Instant, id: PathId, timer: TimerKind) {
        self.reported.forget_loss_timer(id);
        let path = Some(id);
        self.observer
            .emit(now, || observe::Event::TimerExpired { timer, path });
    }

    /// What streams and application datagrams did since the last call, in API calls mostly.
    fn emit_notes(&mut self, now: Instant) {
        let notes = self.streams.journal.take();
        let datagrams = self.datagrams.journal.take();
        for note in notes.into_iter().chain(datagrams) {
            self.observer.emit(now, || match note {
                Note::State { id, half, state } => observe::Event::StreamState { id, half, state },
                Note::Moved {
                    id,
                    offset,
                    len,
                    from,
                    to,
                } => observe::Event::StreamDataMoved {
                    id,
                    offset,
                    len,
                    from,
                    to,
                },
                Note::Datagram { len, from, to } => {
                    observe::Event::DatagramDataMoved { len, from, to }
                }
                Note::Blocked {
                    scope,
                    limit,
                    blocked,
                } => observe::Event::FlowBlocked {
                    scope,
                    limit,
                    blocked,
                },
            });
        }
        let floods = self.streams.take_floods();
        if floods.control {
            self.emit_abuse(now, Abuse::ControlFlood);
        }
        if floods.fragments {
            self.emit_abuse(now, Abuse::FragmentFlood);
        }
    }

    /// The versions of both ends, as far as known.
    pub(crate) fn emit_versions(&mut self, now: Instant) {
        let remote = match &self.peer.version_information {
            Some(information) => information.available.as_slice(),
            None => &[],
        };
        let chosen = (!self.is_handshaking()).then_some(self.handshake.version);
        let local = &self.endpoint.versions;
        self.observer
            .emit(now, || observe::Event::VersionInformation {
                local,
                remote,
                chosen,
            });
    }

    /// The handshake's first words to the sink.
    pub(crate) fn emit_start(&mut self, now: Instant) {
        if !self.observer.is_active() {
            return;
        }
        self.streams.journal.open();
        self.datagrams.journal.open();
        self.emit_versions(now);
        let Some(path) = self.paths.get(PathId::ZERO) else {
            return;
        };
        let _ = self.reported.path(path);
        let four_tuple = Some(path.network.four_tuple());
        let path_id = path.id;
        let window = path.recovery.window();
        let controller = path.recovery.congestion().name();
        let mtu = u64::from(path.mtu.current());
        let packet_threshold = self.config.packet_threshold;
        let time_threshold = self.config.time_threshold;
        let initial_rtt = self.config.initial_rtt;
        self.observer.emit(now, || observe::Event::TupleAssigned {
            path: path_id,
            four_tuple,
        });
        self.observer
            .emit(now, || observe::Event::RecoveryParameters {
                path: path_id,
                controller,
                packet_threshold,
                time_threshold,
                initial_rtt,
                initial_window: window,
                minimum_window: 2 * mtu,
                max_datagram_bytes: mtu,
            });
    }

    pub(crate) fn emit_parameters_sent(&mut self, now: Instant, params: &TransportParameters) {
        self.observer
            .emit(now, || observe::Event::ParametersSent(params));
    }

    pub(crate) fn emit_alpn(&mut self, now: Instant) {
        if let Some(session) = &self.handshake.session
            && let Some(chosen) = session.alpn()
        {
            self.observer
                .emit(now, || observe::Event::AlpnInformation { chosen });
        }
    }

    pub(crate) fn emit_ecn(&mut self, now: Instant, path: PathId, old: EcnPhase, new: EcnPhase) {
        if old != new {
            self.observer
                .emit(now, || observe::Event::EcnState { path, old, new });
        }
    }

    /// Counts a broken rule under what it looks like.
    pub(crate) fn emit_abuse_of(&mut self, now: Instant, error: &TransportError) {
        if let Some(kind) = error.abuse {
            self.emit_abuse(now, kind);
        }
    }

    /// The peer did what a well-behaved one does not.
    pub(crate) fn emit_abuse(&mut self, now: Instant, kind: Abuse) {
        self.observer.emit(now, || observe::Event::Abuse { kind });
    }
}
