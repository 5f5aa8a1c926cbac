//! Events that sum up state: emitted where a change is noticed, not where it is made.
//!
//! Owns: what was last reported, so that only changes are. Costs one branch without a sink.

use super::Connection;
use crate::{
    error::{Code, TransportError},
    observe::{self, Abuse, EcnPhase, TimerKind},
    time::Instant,
    units::PathId,
    wire::TransportParameters,
};

/// The timers that are reported, in the order of [`Reported::timers`].
const TIMERS: [TimerKind; 6] = [
    TimerKind::LossDetection,
    TimerKind::AckDelay,
    TimerKind::Pacing,
    TimerKind::PathValidation,
    TimerKind::Idle,
    TimerKind::KeyDiscard,
];

/// What the sink knows already.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    timers: [Option<Instant>; TIMERS.len()],
    congestion_state: &'static str,
}

impl Connection {
    /// Recovery's view of a path, and the congestion controller's state if it changed.
    pub(crate) fn emit_recovery_metrics(&mut self, now: Instant, id: PathId) {
        if !self.observer.is_active() {
            return;
        }
        let Some(path) = self.paths.get(id) else {
            return;
        };
        let metrics = path.recovery.metrics();
        let state = path.recovery.congestion().metrics().state;
        self.observer.emit(now, || observe::Event::MetricsUpdated {
            path: id,
            metrics: &metrics,
        });
        let old = std::mem::replace(&mut self.reported.congestion_state, state);
        if old != state {
            self.observer.emit(now, || observe::Event::CongestionState {
                path: id,
                old,
                new: state,
            });
        }
    }

    /// Timers that were set, moved or cancelled since the last report.
    pub(crate) fn emit_timers(&mut self, now: Instant) {
        if !self.observer.is_active() {
            return;
        }
        let id = PathId::ZERO;
        let loss = self.loss_timer(id);
        let keys = self.keys.one_rtt.as_ref().and_then(|keys| keys.timer());
        let idle = self.idle_deadline();
        let Some(path) = self.paths.get(id) else {
            return;
        };
        let current = [
            loss,
            path.space.received.ack_deadline(),
            path.pacing_until,
            path.timer(),
            idle,
            keys,
        ];
        let known = std::mem::replace(&mut self.reported.timers, current);
        for ((timer, old), new) in TIMERS.into_iter().zip(known).zip(current) {
            let path = Some(id);
            match (old, new) {
                (old, Some(at)) if old != new => {
                    self.observer
                        .emit(now, || observe::Event::TimerSet { timer, path, at });
                }
                (Some(_), None) => {
                    self.observer
                        .emit(now, || observe::Event::TimerCancelled { timer, path });
                }
                _ => {}
            }
        }
    }

    /// The handshake's first words to the sink.
    pub(crate) fn emit_start(&mut self, now: Instant) {
        if !self.observer.is_active() {
            return;
        }
        let Some(path) = self.paths.get(PathId::ZERO) else {
            return;
        };
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
    pub(crate) fn emit_abuse(&mut self, now: Instant, error: &TransportError) {
        let kind = abuse_of(error);
        self.observer.emit(now, || observe::Event::Abuse { kind });
    }
}

fn abuse_of(error: &TransportError) -> Abuse {
    match error.code {
        Code::FLOW_CONTROL_ERROR => Abuse::FlowControlViolation,
        Code::STREAM_LIMIT_ERROR | Code::STREAM_STATE_ERROR | Code::FINAL_SIZE_ERROR => {
            Abuse::StreamViolation
        }
        Code::FRAME_ENCODING_ERROR => Abuse::MalformedFrame,
        Code::TRANSPORT_PARAMETER_ERROR => Abuse::BadTransportParameters,
        Code::CONNECTION_ID_LIMIT_ERROR => Abuse::ConnectionIdFlood,
        Code::CRYPTO_BUFFER_EXCEEDED => Abuse::CryptoFlood,
        Code::KEY_UPDATE_ERROR => Abuse::KeyUpdateStorm,
        Code::VERSION_NEGOTIATION_ERROR => Abuse::VersionNegotiationSpoof,
        _ if error.reason.contains("reserved") => Abuse::ReservedBits,
        _ if error.reason.contains("not allowed") => Abuse::FrameNotAllowed,
        _ if error.reason.contains("unsent") => Abuse::AckOfUnsent,
        _ => Abuse::Violation,
    }
}
