//! The sockets of a shard, and what waits for them.
//!
//! Owns: which socket a datagram leaves by, the batch that the kernel has no room for, sockets that
//! come and go with paths. Does not own: when anything is sent (`driver.rs`), which one is read (`turn.rs`), how long a full
//! one is waited for (`full.rs`), who asked for a path's socket (`path_sockets.rs`).

use std::{
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tautline_transport::{
    endpoint::Transmit,
    time::{Instant, earliest},
};

use super::{Shard, count, full::Patience, path_sockets::PathSocket, turn::Turn};
use crate::socket::{BoundSocket, ReceiveBuffers, Sent, Socket};

/// Largest batch; no larger than one UDP payload may be.
const BATCH_BYTES: usize = 65_507;
/// A socket that is not sent from any more is listened to for this long: packets to it may be under
/// way.
pub(super) const OLD_SOCKET_LIFETIME: Duration = Duration::from_secs(3);

/// The sockets of one shard.
#[derive(Debug)]
pub(crate) struct ShardSockets {
    /// Connections start here.
    pub(crate) main: BoundSocket,
    pub(crate) others: Vec<BoundSocket>,
}

/// The socket side of a driver.
#[derive(Debug)]
pub(super) struct Io {
    pub(super) socket: Socket,
    /// Further addresses: those of the endpoint, such as a server's preferred one, and of paths.
    pub(super) others: Vec<Further>,
    /// Which socket is received from.
    pub(super) turn: Turn,
    /// After a failure of one of them, when to receive from them again.
    pub(super) others_paused_until: Option<Instant>,
    /// The socket before a rebind, and until when it is listened to.
    pub(super) old: Option<(Socket, Instant)>,
    pub(super) buffers: ReceiveBuffers,
    /// The batch under construction, or the one the kernel has no room for yet.
    pub(super) out: Box<[u8]>,
    pub(super) unsent: Option<Unsent>,
    /// With the main socket, when it is full.
    pub(super) patience: Patience,
    /// Stateless answers.
    pub(super) answer: Vec<u8>,
    /// After a failure, when to receive again.
    pub(super) paused_until: Option<Instant>,
}

/// A batch that the kernel has no room for yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsent {
    transmit: Transmit,
    /// It is dropped then.
    until: Instant,
}

/// A socket beside the main one.
#[derive(Debug)]
pub(super) struct Further {
    pub(super) socket: Socket,
    /// Opened for paths, and closed when none needs it.
    pub(super) for_paths: Option<Arc<PathSocket>>,
    /// Nobody uses it; it is closed then.
    pub(super) closes: Option<Instant>,
    patience: Patience,
}

impl Io {
    /// Must be called inside the runtime that will run it.
    pub(super) fn new(sockets: ShardSockets) -> std::io::Result<Self> {
        let others = sockets.others.into_iter().map(|bound| {
            Ok(Further {
                socket: bound.into_socket()?,
                for_paths: None,
                closes: None,
                patience: Patience::default(),
            })
        });
        Ok(Self {
            socket: sockets.main.into_socket()?,
            others: others.collect::<std::io::Result<_>>()?,
            turn: Turn::default(),
            others_paused_until: None,
            old: None,
            buffers: ReceiveBuffers::new(),
            out: vec![0; BATCH_BYTES].into_boxed_slice(),
            unsent: None,
            patience: Patience::default(),
            answer: Vec::new(),
            paused_until: None,
        })
    }

    /// Sends the batch in `out`; pending means it is kept until the kernel has room, for a while.
    pub(super) fn send(
        &mut self,
        cx: &mut Context<'_>,
        transmit: Transmit,
        now: Instant,
    ) -> Poll<Sent> {
        let socket = self.socket_for(&transmit);
        let sent = socket.poll_send(cx, &transmit, self.batch(&transmit));
        if sent.is_ready() {
            return sent;
        }
        let is_alone = self.others.is_empty();
        match self.patience_with(&transmit).wait(now, is_alone) {
            Some(until) => {
                self.unsent = Some(Unsent { transmit, until });
                Poll::Pending
            }
            None => Poll::Ready(Sent::Dropped),
        }
    }

    /// Sends what the kernel had no room for, or gives it up.
    pub(super) fn flush(&mut self, cx: &mut Context<'_>, shard: &Shard) -> Poll<()> {
        if let Some(Unsent { transmit, until }) = self.unsent {
            let socket = self.socket_for(&transmit);
            match socket.poll_send(cx, &transmit, self.batch(&transmit)) {
                Poll::Ready(Sent::Taken) => {}
                Poll::Ready(_) => count(&shard.counters.send_failures, 1),
                Poll::Pending => {
                    let now = shard.now();
                    if now < until {
                        return Poll::Pending;
                    }
                    self.patience_with(&transmit).on_waited_in_vain(now);
                    count(&shard.counters.send_failures, 1);
                }
            }
            self.unsent = None;
        }
        Poll::Ready(())
    }

    fn patience_with(&mut self, transmit: &Transmit) -> &mut Patience {
        let other = self.other_at(transmit.four_tuple.local);
        match other.and_then(|index| self.others.get_mut(index)) {
            Some(further) => &mut further.patience,
            None => &mut self.patience,
        }
    }

    /// The socket that is bound where the datagram comes from.
    pub(super) fn socket_for(&self, transmit: &Transmit) -> &Socket {
        let other = self.other_at(transmit.four_tuple.local);
        let other = other.and_then(|index| self.others.get(index));
        other.map_or(&self.socket, |further| &further.socket)
    }

    /// The further socket that sends what comes from `local`; `None`: the main one does.
    pub(super) fn other_at(&self, local: SocketAddr) -> Option<usize> {
        self.others.iter().position(|it| it.socket.is_at(local))
    }

    /// Datagrams that every socket takes at once.
    pub(super) fn max_segments(&self) -> usize {
        let others = self.others.iter().map(|it| it.socket.max_segments());
        others.fold(self.socket.max_segments(), usize::min)
    }

    /// Sockets that were opened for paths since the last call.
    pub(super) fn take_path_sockets(&mut self, shard: &Shard) {
        for (bound, path_socket) in shard.path_sockets.take_unclaimed() {
            // Without a runtime nothing is sent at all.
            if let Ok(socket) = bound.into_socket() {
                self.others.push(Further {
                    socket,
                    for_paths: Some(path_socket),
                    closes: None,
                    patience: Patience::default(),
                });
            }
        }
    }

    /// Closes sockets that no path has needed for a while.
    pub(super) fn close_unused(&mut self, shard: &Shard) {
        if self.others.iter().all(|it| it.for_paths.is_none()) {
            return;
        }
        let now = shard.now();
        self.others.retain_mut(|further| {
            let Some(path_socket) = &further.for_paths else {
                return true;
            };
            if path_socket.is_used() {
                further.closes = None;
                return true;
            }
            let closes = *further.closes.get_or_insert(now + OLD_SOCKET_LIFETIME);
            now < closes || !shard.path_sockets.give_up(path_socket)
        });
    }

    pub(super) fn batch(&self, transmit: &Transmit) -> &[u8] {
        self.out.get(..transmit.len).unwrap_or_default()
    }

    /// Which of the sockets ICMP had something to say to since the last call; as [`Self::other_at`].
    pub(super) fn heard_icmp(&self) -> impl Iterator<Item = Option<usize>> + use<> {
        let others = self.others.iter().enumerate();
        let heard = others.filter(|(_, further)| further.socket.heard_icmp());
        let heard: Vec<_> = heard.map(|(index, _)| Some(index)).collect();
        self.socket
            .heard_icmp()
            .then_some(None)
            .into_iter()
            .chain(heard)
    }

    /// The next destination that ICMP calls unreachable from a socket, and why.
    pub(super) fn next_unreachable(
        &self,
        other: Option<usize>,
    ) -> Option<(SocketAddr, std::io::ErrorKind)> {
        match other {
            None => self.socket.next_unreachable(),
            Some(index) => self.others.get(index)?.socket.next_unreachable(),
        }
    }

    /// When a socket is to be closed, or asked again.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let old = self.old.as_ref().map(|(_, until)| *until);
        let closing = self.others.iter().filter_map(|further| further.closes);
        let paused = earliest(self.paused_until, self.others_paused_until);
        earliest(paused, earliest(old, closing.min()))
    }
}
