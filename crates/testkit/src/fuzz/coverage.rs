//! What a run reached, as far as events tell.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tautline_transport::{
    error::{Code, ConnectionError, TransportError},
    observe::{Abuse, ConnectionInfo, DropReason, Event, Sink, SinkFactory},
    time::Instant,
};

/// Frames dispatched, rules enforced and ends met, summed over the runs that it is given to.
#[derive(Clone, Debug, Default)]
pub struct Coverage(Arc<Mutex<Reached>>);

/// What was reached.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    /// Types of frames that were decoded and dispatched.
    pub frames: BTreeSet<u64>,
    /// Codes that connections were closed with for a broken rule.
    pub codes: BTreeSet<Code>,
    /// The same codes with the reasons given.
    pub reasons: BTreeSet<(Code, String)>,
    /// Codes that peers closed with, as heard by the other end.
    pub heard: BTreeSet<Code>,
    /// How connections ended: the names of [`ConnectionError`]'s variants.
    pub ends: BTreeSet<&'static str>,
    /// Why packets were dropped by a connection.
    pub packets_dropped: BTreeSet<&'static str>,
    /// Why datagrams were dropped by an endpoint.
    pub datagrams_dropped: BTreeSet<DropReason>,
    /// Misbehaviour noticed.
    pub abuse: BTreeSet<Abuse>,
}

impl Coverage {
    fn lock(&self) -> MutexGuard<'_, Reached> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was reached so far.
    pub fn reached(&self) -> Reached {
        self.lock().clone()
    }

    /// A connection ended.
    pub(super) fn on_lost(&self, error: &ConnectionError) {
        let mut reached = self.lock();
        let name = match error {
            ConnectionError::Transport(error) => {
                note_closing(&mut reached, error);
                "Transport"
            }
            ConnectionError::PeerTransport(error) => {
                reached.heard.insert(error.code);
                "PeerTransport"
            }
            ConnectionError::PeerApplication { .. } => "PeerApplication",
            ConnectionError::LocallyClosed => "LocallyClosed",
            ConnectionError::IdleTimeout => "IdleTimeout",
            ConnectionError::HandshakeTimeout => "HandshakeTimeout",
            ConnectionError::StatelessReset => "StatelessReset",
            ConnectionError::VersionMismatch { .. } => "VersionMismatch",
            ConnectionError::NoViablePath(_) => "NoViablePath",
            _ => "other",
        };
        reached.ends.insert(name);
    }

    /// A sink that adds to this.
    pub(super) fn sink(&self) -> Box<dyn Sink> {
        Box::new(self.clone())
    }
}

fn note_closing(reached: &mut Reached, error: &TransportError) {
    reached.codes.insert(error.code);
    reached
        .reasons
        .insert((error.code, error.reason.to_string()));
}

impl SinkFactory for Coverage {
    fn build(&self, _: &ConnectionInfo) -> Option<Box<dyn Sink>> {
        Some(self.sink())
    }
}

impl Sink for Coverage {
    fn on_event(&mut self, _: Instant, event: &Event<'_>) {
        let mut reached = self.lock();
        match event {
            Event::FrameReceived(frame) => {
                reached.frames.insert(frame.frame_type());
            }
            Event::ConnectionClosing { error } => note_closing(&mut reached, error),
            Event::PacketDropped { details, .. } => {
                reached.packets_dropped.insert(details);
            }
            Event::DatagramDropped { reason, .. } => {
                reached.datagrams_dropped.insert(*reason);
            }
            Event::Abuse { kind } => {
                reached.abuse.insert(*kind);
            }
            _ => {}
        }
    }
}
