//! From handshake to drained: states, idle timeout, closing. RFC 9000 s10.

use std::time::Duration;

use bytes::Bytes;

use super::{Connection, EndpointEvent, Event};
use crate::{
    error::{Code, ConnectionError, TransportError},
    observe,
    path::Path,
    time::Instant,
    tls::Level,
    units::{FourTuple, PathId},
    wire::MAX_VARINT,
};

/// Whoever waits for credit says so that often, or three times in an idle timeout.
const BLOCKED_EVERY: Duration = Duration::from_secs(10);

/// Where a connection stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The handshake is not complete.
    Handshake,
    /// The handshake is complete.
    Established,
    /// We closed; CONNECTION_CLOSE answers what still arrives.
    Closing(Closing),
    /// The peer closed; nothing is sent any more.
    Draining { until: Instant },
    /// Over and forgotten.
    Drained,
}

/// What we close with, and how often we have said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closing {
    pub(crate) until: Instant,
    pub(crate) reason: CloseReason,
    /// The paths that a close frame is to be sent on, the first one last.
    pub(crate) due: Vec<PathId>,
    /// The path that answers leave on: the best when we closed, then the one that the peer is heard on.
    pub(crate) path: PathId,
    /// Datagrams received since the last one was answered, and how many it takes now.
    pub(crate) received: u32,
    pub(crate) answer_every: u32,
    /// From when on any datagram is answered: a probe timeout after the last answer.
    pub(crate) answer_any_from: Instant,
}

/// The contents of a CONNECTION_CLOSE frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    Application { code: u64, reason: Bytes },
    Transport(TransportError),
}

/// State and the timers of the connection as a whole.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    pub(crate) state: State,
    pub(crate) confirmed: bool,
    /// Effective idle timeout, once known the smaller of both ends' wishes.
    pub(crate) idle_timeout: Option<Duration>,
    /// Since when the idle timeout counts; `None` once the connection is over.
    pub(crate) idle_since: Option<Instant>,
    pub(crate) handshake_deadline: Option<Instant>,
    /// Since when nothing arrived and nothing ack-eliciting left.
    pub(crate) quiet_since: Option<Instant>,
    /// When a server stops to understand late 0-RTT packets. RFC 9001 s4.9.3.
    pub(crate) zero_rtt_until: Option<Instant>,
    /// An ack-eliciting packet was sent since the last one was received. RFC 9000 s10.1.
    pub(crate) sent_since_received: bool,
}

impl Lifecycle {
    pub(crate) fn new(now: Instant, idle: Option<Duration>, handshake: Duration) -> Self {
        Self {
            state: State::Handshake,
            confirmed: false,
            idle_timeout: idle,
            idle_since: Some(now),
            handshake_deadline: Some(now + handshake),
            quiet_since: None,
            zero_rtt_until: None,
            sent_since_received: false,
        }
    }
}

impl Connection {
    /// Whether the handshake is not complete yet.
    pub fn is_handshaking(&self) -> bool {
        self.life.state == State::Handshake
    }

    /// Whether the connection was closed by either end or lost.
    pub fn is_closed(&self) -> bool {
        !matches!(self.life.state, State::Handshake | State::Established)
    }

    /// Whether the connection is over and can be dropped.
    pub fn is_drained(&self) -> bool {
        self.life.state == State::Drained
    }

    /// Why the connection is over, while [`Event::Lost`] waits behind other events to be polled.
    /// Its streams are gone already: whoever finds one unknown may have the reason here.
    pub fn untold_end(&self) -> Option<&ConnectionError> {
        match self.outbox.untold() {
            Some(Event::Lost(error)) => Some(error),
            _ => None,
        }
    }

    /// Closes with an application error code (below 2^62) and words for the peer. Streams are
    /// abandoned as they stand: what was not delivered is dropped at once, what arrived in order
    /// can still be read.
    pub fn close(&mut self, now: Instant, code: u64, reason: Bytes) {
        // Larger ones cannot be expressed.
        let code = code.min(MAX_VARINT);
        let reason = CloseReason::Application { code, reason };
        self.start_closing(now, reason, ConnectionError::LocallyClosed);
    }

    /// Closes because a rule was broken.
    pub(crate) fn close_with(&mut self, now: Instant, error: TransportError) {
        self.observer
            .emit(now, || observe::Event::ConnectionClosing { error: &error });
        self.emit_abuse_of(now, &error);
        let lost = ConnectionError::Transport(error.clone());
        self.start_closing(now, CloseReason::Transport(error), lost);
    }

    fn start_closing(&mut self, now: Instant, reason: CloseReason, lost: ConnectionError) {
        if self.is_closed() {
            return;
        }
        let path = self.main_path().map_or(PathId::ZERO, |path| path.id);
        // A peer that has nothing to say would miss a lost one until it is idle.
        let others = self.paths.iter().filter(|other| other.id != path);
        let others = others.filter(|other| other.is_usable() && !other.is_spent());
        let closing = Closing {
            until: now + self.closing_period(),
            reason,
            due: others.map(|path| path.id).chain([path]).collect(),
            path,
            received: 0,
            answer_every: 1,
            answer_any_from: now + self.largest_pto(),
        };
        self.life.state = State::Closing(closing);
        self.end_with(now, lost);
    }

    /// The peer closed.
    pub(crate) fn start_draining(&mut self, now: Instant, lost: ConnectionError) {
        match self.life.state {
            State::Handshake | State::Established => {
                self.life.state = State::Draining {
                    until: now + self.closing_period(),
                };
                self.end_with(now, lost);
            }
            State::Closing(Closing { until, .. }) => {
                self.life.state = State::Draining { until };
                self.release_keys();
            }
            State::Draining { .. } | State::Drained => {}
        }
    }

    /// Nothing more will be exchanged, not even a close.
    pub(crate) fn die(&mut self, now: Instant, lost: ConnectionError) {
        if !self.is_closed() {
            self.end_with(now, lost);
        }
        self.become_drained();
    }

    fn end_with(&mut self, now: Instant, lost: ConnectionError) {
        let application = match &self.life.state {
            State::Closing(Closing {
                reason: CloseReason::Application { code, reason },
                ..
            }) => Some((*code, reason.as_ref())),
            _ => None,
        };
        self.observer
            .emit(now, || observe::Event::ConnectionClosed {
                error: &lost,
                application,
            });
        self.life.idle_since = None;
        self.life.handshake_deadline = None;
        self.outbox.lost(Event::Lost(lost));
        // What the last packet acknowledged has its fate.
        self.catch_up_with_messages(now);
        self.release();
    }

    fn become_drained(&mut self) {
        if self.life.state != State::Drained {
            self.life.state = State::Drained;
            self.release_keys();
            self.outbox.endpoint(EndpointEvent::Drained);
        }
    }

    /// Three PTOs over the slowest path. RFC 9000 s10.2, RFC 10069. One over which nothing ever came counts for
    /// nothing: it would hold up every program that ends.
    fn closing_period(&self) -> Duration {
        3 * self.largest_pto_of(|path| path.has_opened)
    }

    /// The largest PTO over all paths.
    pub(crate) fn largest_pto(&self) -> Duration {
        self.largest_pto_of(|_| true)
    }

    fn largest_pto_of(&self, counts: impl Fn(&Path) -> bool) -> Duration {
        let announced = self.peer_max_ack_delay();
        self.paths
            .iter()
            .filter(|path| counts(path))
            .map(|path| path.recovery.pto_base() + path.ack_frequency.max_ack_delay(announced))
            .max()
            .unwrap_or(Duration::from_secs(1))
    }

    /// A datagram for us arrived while closing: answer every 1st, 2nd, 4th, ..., and one that comes a probe timeout
    /// after the last answer, which was lost then; else the peer's probes, ever rarer, would meet nothing but a
    /// stateless reset after we are gone. RFC 9000 s10.2.1.
    pub(crate) fn on_datagram_while_closing(&mut self, now: Instant, from: &FourTuple) {
        let heard_on = self
            .paths
            .iter()
            .find(|path| !path.is_abandoned() && path.network.four_tuple().matches(from))
            .map(|path| path.id);
        let pto = self.largest_pto();
        if let State::Closing(closing) = &mut self.life.state {
            // It did not hear the close, perhaps because that path does not lead to it any more.
            closing.path = heard_on.unwrap_or(closing.path);
            closing.received += 1;
            let enough = closing.received >= closing.answer_every;
            if enough {
                closing.answer_every = closing.answer_every.saturating_mul(2);
            }
            if enough || now >= closing.answer_any_from {
                closing.received = 0;
                closing.answer_any_from = now + pto;
                closing.due = vec![closing.path];
            }
        }
    }

    /// A packet was received on this path and processed.
    pub(crate) fn restart_idle_on_receive(&mut self, now: Instant, id: PathId) {
        self.life.sent_since_received = false;
        self.life.idle_since = Some(now);
        self.life.quiet_since = Some(now);
        self.restart_keep_alive(now, id);
    }

    /// An ack-eliciting packet was sent on this path.
    pub(crate) fn restart_idle_on_send(&mut self, now: Instant, id: PathId) {
        if !self.life.sent_since_received {
            self.life.sent_since_received = true;
            self.life.idle_since = Some(now);
        }
        self.life.quiet_since = Some(now);
        self.restart_keep_alive(now, id);
    }

    /// When the connection is given up for want of life; asked for once per batch of packets.
    pub(crate) fn idle_deadline(&self) -> Option<Instant> {
        let (since, idle) = (self.life.idle_since?, self.life.idle_timeout?);
        // At least three PTOs, so that a loss or two cannot end a connection. RFC 9000 s10.1.
        Some(since + idle.max(3 * self.largest_pto()))
    }

    fn restart_keep_alive(&mut self, now: Instant, id: PathId) {
        let Some(every) = self.config.keep_alive_interval else {
            return;
        };
        if self.life.state == State::Established
            && let Some(path) = self.paths.get_mut(id)
        {
            path.keep_alive_at = Some(now + every);
        }
    }

    /// When to say again that flow control holds us back: whoever only waits for credit would be forgotten, and where a NAT
    /// gave it another address the credit would not find it. RFC 9000 s4.1.
    fn blocked_deadline(&self) -> Option<Instant> {
        if !self.streams.told_blocked() {
            return None;
        }
        let idle = self
            .life
            .idle_timeout
            .map_or(BLOCKED_EVERY, |idle| idle / 3);
        let every = idle.min(BLOCKED_EVERY).max(3 * self.largest_pto());
        Some(self.life.quiet_since? + every)
    }

    fn say_again_that_it_is_blocked(&mut self, now: Instant) {
        self.life.quiet_since = Some(now);
        let outstanding = |path: &Path| path.space.has_ack_eliciting_in_flight();
        if !self.paths.iter().any(outstanding) {
            self.streams.repeat_blocked();
        }
    }

    /// When a path that was quiet for long is owed a PING next.
    pub(crate) fn keep_alive_deadline(&self) -> Option<Instant> {
        self.config.keep_alive_interval?;
        if self.life.state != State::Established {
            return None;
        }
        self.paths.iter().filter_map(Path::keep_alive).min()
    }

    /// PINGs for paths that were quiet for long.
    fn keep_paths_alive(&mut self, now: Instant) {
        let Some(every) = self.config.keep_alive_interval else {
            return;
        };
        for path in self.paths.iter_mut() {
            if path.keep_alive().is_some_and(|at| now >= at) {
                path.pending.ping = true;
                path.keep_alive_at = Some(now + every);
            }
        }
    }

    /// The handshake is complete on this side.
    pub(crate) fn on_handshake_complete(&mut self, now: Instant) {
        self.life.state = State::Established;
        self.life.handshake_deadline = None;
        self.restart_keep_alive(now, PathId::ZERO);
        self.outbox.push(Event::Connected);
        self.emit_alpn(now);
        self.emit_versions(now);
        self.emit_state(now);
    }

    /// Both sides are known to have completed it. RFC 9001 s4.1.2.
    pub(crate) fn on_handshake_confirmed(&mut self, now: Instant) {
        if self.life.confirmed {
            return;
        }
        self.life.confirmed = true;
        self.discard_handshake_keys(now);
        if let Some(keys) = self.keys.one_rtt.as_mut() {
            keys.on_handshake_confirmed();
        }
        self.refresh_key_retention();
        if self.keys.zero_rtt.is_some() {
            self.life.zero_rtt_until = Some(now + 3 * self.largest_pto());
        }
        self.outbox.endpoint(EndpointEvent::HandshakeOver);
        self.outbox.push(Event::HandshakeConfirmed);
        self.emit_state(now);
        self.start_preferred_address_probe(now);
        self.repeat_early_challenges(now);
    }

    /// Timers of the connection as a whole.
    pub(crate) fn lifecycle_timer(&self) -> Option<Instant> {
        match &self.life.state {
            State::Closing(closing) => Some(closing.until),
            State::Draining { until } => Some(*until),
            State::Drained => None,
            State::Handshake | State::Established => [
                self.idle_deadline(),
                self.life.handshake_deadline,
                self.keep_alive_deadline(),
                self.blocked_deadline(),
                self.life.zero_rtt_until,
            ]
            .into_iter()
            .flatten()
            .min(),
        }
    }

    /// Reacts to those timers. True if the connection lives on.
    pub(crate) fn on_lifecycle_timeout(&mut self, now: Instant) -> bool {
        let reached = |deadline: Option<Instant>| deadline.is_some_and(|at| now >= at);
        match &self.life.state {
            State::Closing(Closing { until, .. }) | State::Draining { until } => {
                if now >= *until {
                    self.become_drained();
                }
                return false;
            }
            State::Drained => return false,
            State::Handshake | State::Established => {}
        }
        if reached(self.idle_deadline()) {
            let handshaking = self.is_handshaking();
            let error = if handshaking {
                ConnectionError::HandshakeTimeout
            } else {
                ConnectionError::IdleTimeout
            };
            self.die(now, error);
            return false;
        }
        if reached(self.life.handshake_deadline) {
            self.die(now, ConnectionError::HandshakeTimeout);
            return false;
        }
        if reached(self.life.zero_rtt_until) {
            self.life.zero_rtt_until = None;
            self.keys.zero_rtt = None;
            self.observer
                .emit(now, || observe::Event::KeysDiscarded(Level::ZeroRtt));
        }
        self.keep_paths_alive(now);
        if reached(self.blocked_deadline()) {
            self.say_again_that_it_is_blocked(now);
        }
        true
    }

    /// A peer's CONNECTION_CLOSE as an error value.
    pub(crate) fn peer_close_error(close: &crate::wire::Close<'_>) -> ConnectionError {
        match close.frame_type {
            Some(frame_type) => {
                let reason = String::from_utf8_lossy(close.reason).into_owned();
                let error = TransportError::new(Code(close.code), reason).in_frame(frame_type);
                ConnectionError::PeerTransport(error)
            }
            None => ConnectionError::PeerApplication {
                code: close.code,
                reason: Bytes::copy_from_slice(close.reason),
            },
        }
    }
}
