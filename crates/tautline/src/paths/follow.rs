//! One path per interface, as interfaces come and go.

use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    io,
    net::IpAddr,
    pin::pin,
    task::Poll,
    time::Duration,
};

use tautline_transport::{multipath::abandon, path::PathEvent, units::PathId};
use tokio::{task::JoinSet, time::Instant};

use super::{LocalEnd, OpenedPath};
use crate::{
    Connection,
    error::OpenPathError,
    interfaces::{self, Interface, InterfaceWatch},
};

/// An interface over which no path could be opened is tried again after this, and then after twice as long each time.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// At most.
const LAST_RETRY: Duration = Duration::from_secs(30);

/// What [`Connection::follow_interfaces`] has done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Followed {
    /// There is a path over this interface now.
    Opened {
        /// The interface.
        interface: String,
        /// Its path.
        path: OpenedPath,
    },
    /// No path could be opened over this interface; it is tried again when interfaces change, or later.
    Failed {
        /// The interface.
        interface: String,
        /// Why.
        error: OpenPathError,
    },
    /// The interface or its address is gone, and its path with it.
    Closed {
        /// The interface.
        interface: String,
    },
}

/// What an interface is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Opening,
    Path(PathId),
    Failed,
    /// Its path has carried all it may.
    Spent,
}

/// When interfaces without a path are tried again.
#[derive(Debug)]
struct Retry {
    after: Duration,
    at: Option<Instant>,
}

impl Retry {
    const fn new() -> Self {
        Self {
            after: FIRST_RETRY,
            at: None,
        }
    }

    /// `waits`: whether one has failed. What else happens meanwhile does not put it off.
    fn due(&mut self, waits: bool) -> Option<Instant> {
        if !waits {
            self.at = None;
        } else if self.at.is_none() {
            self.at = Some(Instant::now() + self.after);
            self.after = (self.after * 2).min(LAST_RETRY);
        }
        self.at
    }
}

/// What woke the loop.
enum Stir {
    Interfaces(io::Result<Vec<Interface>>),
    Opened(String, Result<OpenedPath, OpenPathError>),
    Event(Option<PathEvent>),
    Retry,
}

impl Connection {
    /// Keeps one path on every interface that leads to the peer, as interfaces, addresses and routes
    /// come and go; loopback is left alone. Runs until the connection ends: make it a task. It keeps
    /// the connection open as long as it runs.
    ///
    /// `told` hears of every change.
    ///
    /// # Errors
    /// Where the system does not tell of its interfaces; `Unsupported` on systems other than Linux.
    pub async fn follow_interfaces(&self, mut told: impl FnMut(Followed) + Send) -> io::Result<()> {
        let mut watch = InterfaceWatch::new()?;
        let mut events = self.path_events();
        let mut uses: BTreeMap<(String, IpAddr), Use> = BTreeMap::new();
        let mut opening = JoinSet::new();
        let mut known = watch.interfaces().to_vec();
        self.note_first_path(&known, &mut uses);
        let mut retry = Retry::new();
        while self.close_reason().is_none() {
            self.adjust(&known, &mut uses, &mut opening, &mut told);
            let waits = uses.values().any(|it| *it == Use::Failed);
            let due = retry.due(waits);
            match stir(&mut watch, &mut events, &mut opening, due).await {
                Stir::Interfaces(now) => {
                    known = now?;
                    retry = Retry::new();
                    uses.retain(|_, it| *it != Use::Failed);
                }
                Stir::Retry => {
                    retry.at = None;
                    uses.retain(|_, it| *it != Use::Failed);
                }
                Stir::Opened(interface, Ok(path)) => {
                    let key = (interface, path.local.ip());
                    uses.insert(key.clone(), Use::Path(path.id));
                    let interface = key.0;
                    told(Followed::Opened { interface, path });
                }
                Stir::Opened(interface, Err(error)) => {
                    for (key, it) in &mut uses {
                        if key.0 == interface && *it == Use::Opening {
                            *it = Use::Failed;
                        }
                    }
                    told(Followed::Failed { interface, error });
                }
                Stir::Event(Some(PathEvent::Abandoned {
                    path,
                    code,
                    by_peer,
                })) => {
                    let spent = code == abandon::PATH_RESOURCE_LIMIT_REACHED && !by_peer;
                    for it in uses.values_mut() {
                        if *it == Use::Path(path) {
                            *it = if spent { Use::Spent } else { Use::Failed };
                        }
                    }
                }
                Stir::Event(Some(_)) => {}
                Stir::Event(None) => break,
            }
        }
        Ok(())
    }

    /// The path of the handshake has an interface already.
    fn note_first_path(&self, known: &[Interface], uses: &mut BTreeMap<(String, IpAddr), Use>) {
        let Some(first) = self.paths().into_iter().next() else {
            return;
        };
        let mut ip = first.four_tuple.local.ip();
        if ip.is_unspecified() {
            let Some(chosen) = chosen_by_routes(first.four_tuple.remote) else {
                return;
            };
            ip = chosen;
        }
        let holder = known
            .iter()
            .find(|interface| interface.addresses.contains(&ip));
        if let Some(interface) = holder {
            uses.insert((interface.name.clone(), ip), Use::Path(first.id));
        }
    }

    /// Closes paths that have lost their ground, begins those that are missing.
    fn adjust(
        &self,
        known: &[Interface],
        uses: &mut BTreeMap<(String, IpAddr), Use>,
        opening: &mut JoinSet<(String, Result<OpenedPath, OpenPathError>)>,
        told: &mut impl FnMut(Followed),
    ) {
        let remote = self.remote_address();
        let leading = interfaces::leading(known, remote.ip());
        uses.retain(|(name, ip), it| {
            let here = leading
                .iter()
                .any(|interface| interface.name == *name && interface.addresses.contains(ip));
            if here || *it == Use::Opening {
                return true;
            }
            if let Use::Path(path) = *it {
                // The last path stays, in the hope that something comes back.
                if self.close_path(path).is_ok() {
                    told(Followed::Closed {
                        interface: name.clone(),
                    });
                }
            }
            false
        });
        for interface in leading {
            let Some(ip) = interface.address_towards(remote.ip()) else {
                continue;
            };
            if uses.keys().any(|(name, _)| *name == interface.name) {
                continue;
            }
            let name = interface.name.clone();
            uses.insert((name.clone(), ip), Use::Opening);
            let connection = self.clone();
            opening.spawn(async move {
                let end = LocalEnd::from(ip).through(name.clone());
                (name, connection.open_path(end, remote).await)
            });
        }
    }
}

/// The local address that the routing table chooses for `remote`.
fn chosen_by_routes(remote: std::net::SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if remote.is_ipv4() {
        std::net::Ipv4Addr::UNSPECIFIED.into()
    } else {
        std::net::Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = std::net::UdpSocket::bind((any, 0)).ok()?;
    // Sends nothing.
    socket.connect(remote).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Waits for whatever comes first.
async fn stir(
    watch: &mut InterfaceWatch,
    events: &mut super::PathEvents,
    opening: &mut JoinSet<(String, Result<OpenedPath, OpenPathError>)>,
    due: Option<Instant>,
) -> Stir {
    let mut changed = pin!(watch.changed());
    let mut event = pin!(events.next());
    let mut retry = pin!(tokio::time::sleep_until(due.unwrap_or_else(Instant::now)));
    poll_fn(|cx| {
        if let Poll::Ready(event) = event.as_mut().poll(cx) {
            return Poll::Ready(Stir::Event(event));
        }
        match opening.poll_join_next(cx) {
            Poll::Ready(Some(Ok((interface, outcome)))) => {
                return Poll::Ready(Stir::Opened(interface, outcome));
            }
            // A task that was cancelled with its runtime.
            Poll::Ready(Some(Err(_))) => return Poll::Ready(Stir::Retry),
            Poll::Ready(None) | Poll::Pending => {}
        }
        if let Poll::Ready(now) = changed.as_mut().poll(cx) {
            return Poll::Ready(Stir::Interfaces(now.map(<[Interface]>::to_vec)));
        }
        if due.is_some() {
            return retry.as_mut().poll(cx).map(|()| Stir::Retry);
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_come_seldomer_and_are_not_put_off() {
        let mut retry = Retry::new();
        assert_eq!(retry.due(false), None);
        for wait in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(retry.after, Duration::from_secs(wait));
            let due = retry.due(true);
            assert!(due.is_some());
            // Whatever else wakes the loop.
            assert_eq!(retry.due(true), due);
            retry.at = None;
        }
    }
}
