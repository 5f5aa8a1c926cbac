//! What a connection has to tell its half, in the order in which it came up.
//!
//! Owns: [`Mailbox`] and the wakers that fill it. Does not own: what becomes of a signal (`session.rs`).

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    task::{Wake, Waker},
};

use tautline::{Dir, MessageId};
use tokio::sync::Notify;

/// Something that is worth another look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// The peer opened a stream.
    Accept(Dir),
    /// A stream, by its number, can be read.
    Readable(u64),
    /// A stream, by its number, takes more.
    Writable(u64),
    /// Another stream or message may be begun.
    MayOpen,
    /// A datagram came.
    Datagram,
    /// The fate of a message of ours is known.
    Fate(MessageId),
    /// The connection is over.
    Closed,
}

/// Signals that wait, and who waits for them.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    signals: Mutex<VecDeque<Signal>>,
    filled: Notify,
}

impl Mailbox {
    pub(super) fn put(&self, signal: Signal) {
        let mut signals = self.signals.lock().unwrap_or_else(PoisonError::into_inner);
        signals.push_back(signal);
        drop(signals);
        self.filled.notify_one();
    }

    pub(super) fn take(&self) -> Option<Signal> {
        let mut signals = self.signals.lock().unwrap_or_else(PoisonError::into_inner);
        signals.pop_front()
    }

    /// Waits until something was put since this was awaited last. Cancel safe.
    pub(super) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// A waker that puts `signal`.
    pub(super) fn waker(self: &Arc<Self>, signal: Signal) -> Waker {
        let mailbox = Arc::clone(self);
        Waker::from(Arc::new(Ring { mailbox, signal }))
    }
}

struct Ring {
    mailbox: Arc<Mailbox>,
    signal: Signal,
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.mailbox.put(self.signal);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.mailbox.put(self.signal);
    }
}
