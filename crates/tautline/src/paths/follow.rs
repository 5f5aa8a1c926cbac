//! One path per interface, as interfaces come and go.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::{Future, poll_fn},
    io,
    net::IpAddr,
    pin::pin,
    task::Poll,
    time::Duration,
};

use tautline_transport::{
    multipath::{PathCost, abandon},
    path::PathEvent,
    units::PathId,
};
use tokio::{task::JoinSet, time::Instant};

use super::{LocalEnd, OpenedPath};
use crate::{
    Connection,
    error::{AbandonPathError, OpenPathError},
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
    /// Told once, until one could, or the interface was gone.
    Failed {
        /// The interface.
        interface: String,
        /// Why.
        error: OpenPathError,
    },
    /// The interface or its address is gone, and its path with it. The last path stays: it goes on when both come
    /// back, and is closed when there is another one.
    Closed {
        /// The interface.
        interface: String,
    },
}

/// What an interface is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Opening,
    Path(PathId, Ground),
    Failed,
    /// Its path has carried all it may.
    Spent(Ground),
}

impl Use {
    /// Whether nothing is tried.
    fn is_settled(&self) -> bool {
        matches!(self, Self::Path(..) | Self::Spent(_))
    }
}

/// What a path over an interface needs: its address, and a route to the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ground {
    local: IpAddr,
    remote: IpAddr,
    /// The system's number for the interface, if it was known: one that was made anew under the same name is another,
    /// and the path's socket leads nowhere.
    index: Option<u32>,
}

impl Ground {
    fn is_firm(&self, interface: &Interface) -> bool {
        self.index.is_none_or(|index| index == interface.index)
            && interface.addresses.contains(&self.local)
            && interface.has_route_to(self.remote)
    }
}

/// The last path of the connection, which stays when it has lost its ground.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    interface: String,
    path: PathId,
    ground: Ground,
}

/// By name; an interface has one path at most.
type Uses = BTreeMap<String, Use>;

/// The interfaces that have been told of as failed. Not again before one has had a path, or was gone.
#[derive(Debug, Default)]
struct ToldOf(BTreeSet<String>);

impl ToldOf {
    /// Whether to tell that this one has failed.
    fn first(&mut self, interface: &str) -> bool {
        self.0.insert(interface.to_owned())
    }

    fn works(&mut self, interface: &str) {
        self.0.remove(interface);
    }

    /// What is gone is forgotten, lest names heap up.
    fn keep(&mut self, there: &[&Interface]) {
        let known = |name: &String| there.iter().any(|it| it.name == *name);
        self.0.retain(known);
    }
}

/// When interfaces without a path are tried again.
#[derive(Debug)]
struct Retry {
    after: Duration,
    at: Option<Instant>,
    /// Since when nothing has failed.
    settled: Option<Instant>,
}

impl Retry {
    const fn new() -> Self {
        Self {
            after: FIRST_RETRY,
            at: None,
            settled: None,
        }
    }

    /// Whether every interface has its path. What stands for as long as the longest wait has not failed again and again.
    fn on_look(&mut self, now: Instant, settled: bool) {
        if settled {
            self.settled.get_or_insert(now);
        } else if self
            .settled
            .take()
            .is_some_and(|since| now >= since + LAST_RETRY)
        {
            *self = Self::new();
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
    /// come and go; loopback is left alone. Each leads to the first of [`Self::peer_addresses`] that
    /// its interface leads to and that answers. Runs until the connection ends: make it a task. It keeps
    /// the connection open as long as it runs.
    ///
    /// `cost`: what a path over this interface costs from its first packet on; `None` leaves the interface alone. It is
    /// asked each time before a path is opened. `told` hears of every change.
    ///
    /// # Errors
    /// Where the system does not tell of its interfaces; `Unsupported` on systems other than Linux.
    pub async fn follow_interfaces(
        &self,
        mut cost: impl FnMut(&Interface) -> Option<PathCost> + Send,
        mut told: impl FnMut(Followed) + Send,
    ) -> io::Result<()> {
        let mut watch = InterfaceWatch::new()?;
        let mut events = self.path_events();
        let mut uses = Uses::new();
        let mut held = None;
        let mut told_of = ToldOf::default();
        let mut opening = JoinSet::new();
        let mut known = watch.interfaces().to_vec();
        self.note_first_path(&known, &mut uses);
        let mut retry = Retry::new();
        while self.close_reason().is_none() {
            let leading = self.leading(&known);
            told_of.keep(&leading);
            self.review_held(&leading, &mut uses, &mut held, &mut told);
            self.drop_groundless(&leading, &mut uses, &mut held, &mut told);
            self.open_missing(&leading, &mut uses, &mut opening, &mut cost);
            let waits = uses.values().any(|it| *it == Use::Failed);
            retry.on_look(Instant::now(), uses.values().all(Use::is_settled));
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
                // It may have ended since: that event came first. What it carried counts.
                Stir::Opened(interface, Ok(path)) if !self.has_path(path.id) => {
                    uses.insert(interface.clone(), Use::Failed);
                    told(Followed::Opened { interface, path });
                }
                Stir::Opened(interface, Ok(path)) => {
                    let over = known.iter().find(|it| it.name == interface);
                    let ground = Ground {
                        local: path.local.ip(),
                        remote: path.remote.ip(),
                        index: over.map(|it| it.index),
                    };
                    uses.insert(interface.clone(), Use::Path(path.id, ground));
                    told_of.works(&interface);
                    told(Followed::Opened { interface, path });
                }
                Stir::Opened(interface, Err(error)) => {
                    uses.insert(interface.clone(), Use::Failed);
                    if told_of.first(&interface) {
                        told(Followed::Failed { interface, error });
                    }
                }
                Stir::Event(Some(PathEvent::Abandoned {
                    path,
                    code,
                    by_peer,
                })) => {
                    if held.as_ref().is_some_and(|it: &Held| it.path == path) {
                        held = None;
                    }
                    let spent = code == abandon::PATH_RESOURCE_LIMIT_REACHED && !by_peer;
                    for it in uses.values_mut() {
                        if let Use::Path(id, ground) = *it
                            && id == path
                        {
                            *it = if spent {
                                Use::Spent(ground)
                            } else {
                                Use::Failed
                            };
                        }
                    }
                }
                Stir::Event(Some(_)) => {}
                Stir::Event(None) => break,
            }
        }
        Ok(())
    }

    fn has_path(&self, id: PathId) -> bool {
        // One that has just ended is told of for a while.
        self.paths()
            .iter()
            .any(|path| path.id == id && !path.abandoned)
    }

    /// The path of the handshake has an interface already.
    fn note_first_path(&self, known: &[Interface], uses: &mut Uses) {
        let mut paths = self.paths().into_iter();
        let Some(first) = paths.find(|path| !path.abandoned) else {
            return;
        };
        let remote = first.four_tuple.remote;
        let mut local = first.four_tuple.local.ip();
        if local.is_unspecified() {
            let Some(chosen) = chosen_by_routes(remote) else {
                return;
            };
            local = chosen;
        }
        let leading = interfaces::leading(known, remote.ip());
        let holder = leading
            .into_iter()
            .find(|interface| interface.addresses.contains(&local));
        if let Some(interface) = holder {
            let ground = Ground {
                local,
                remote: remote.ip(),
                index: Some(interface.index),
            };
            uses.insert(interface.name.clone(), Use::Path(first.id, ground));
        }
    }

    /// The interfaces that lead to any address of the peer.
    fn leading<'a>(&self, known: &'a [Interface]) -> Vec<&'a Interface> {
        let mut all: Vec<&Interface> = Vec::new();
        for address in self.peer_addresses() {
            for interface in interfaces::leading(known, address.ip()) {
                if all.iter().all(|it| it.name != interface.name) {
                    all.push(interface);
                }
            }
        }
        all
    }

    /// A path that was the last one when it lost its ground has it again, or is not needed any more.
    fn review_held(
        &self,
        leading: &[&Interface],
        uses: &mut Uses,
        held: &mut Option<Held>,
        told: &mut impl FnMut(Followed),
    ) {
        let Some(it) = held.take() else {
            return;
        };
        let interface = leading
            .iter()
            .find(|interface| interface.name == it.interface);
        let firm = interface.is_some_and(|interface| it.ground.is_firm(interface));
        let used = uses.get(&it.interface).copied();
        if firm && used.is_none() {
            // A second one could not begin where it does.
            uses.insert(it.interface, Use::Path(it.path, it.ground));
        } else if uses.values().any(|it| matches!(it, Use::Path(..))) {
            match self.close_path(it.path) {
                // Its interface has another path by now.
                Ok(()) if matches!(used, Some(Use::Path(..))) => {}
                Ok(()) => told(Followed::Closed {
                    interface: it.interface,
                }),
                // The other one has just ended.
                Err(AbandonPathError::LastPath) => *held = Some(it),
                Err(_) => {}
            }
        } else {
            *held = Some(it);
        }
    }

    /// Closes paths that have lost their ground.
    fn drop_groundless(
        &self,
        leading: &[&Interface],
        uses: &mut Uses,
        held: &mut Option<Held>,
        told: &mut impl FnMut(Followed),
    ) {
        uses.retain(|name, it| {
            let interface = leading.iter().find(|interface| interface.name == *name);
            let firm = |ground: &Ground| interface.is_some_and(|it| ground.is_firm(it));
            match &*it {
                Use::Opening => true,
                Use::Failed => interface.is_some(),
                Use::Spent(ground) => firm(ground),
                Use::Path(_, ground) if firm(ground) => true,
                Use::Path(path, ground) => {
                    let interface = name.clone();
                    match self.close_path(*path) {
                        Ok(()) => told(Followed::Closed { interface }),
                        // In the hope that something comes back.
                        Err(AbandonPathError::LastPath) => {
                            *held = Some(Held {
                                interface,
                                path: *path,
                                ground: *ground,
                            });
                        }
                        Err(_) => {}
                    }
                    false
                }
            }
        });
    }

    /// Begins the paths that are missing.
    fn open_missing(
        &self,
        leading: &[&Interface],
        uses: &mut Uses,
        opening: &mut JoinSet<(String, Result<OpenedPath, OpenPathError>)>,
        cost: &mut impl FnMut(&Interface) -> Option<PathCost>,
    ) {
        for interface in leading {
            if uses.contains_key(&interface.name) {
                continue;
            }
            let Some(cost) = cost(interface) else {
                continue;
            };
            let name = interface.name.clone();
            uses.insert(name.clone(), Use::Opening);
            let connection = self.clone();
            opening.spawn(async move {
                let end = LocalEnd::interface(name.clone());
                let opened = connection.open_path_from(end, cost);
                (name, opened.await)
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
    fn a_failure_is_told_once_until_the_interface_works_or_is_gone() {
        let mut told_of = ToldOf::default();
        let [wlan0, wwan0] = ["wlan0", "wwan0"].map(|name| Interface {
            name: name.to_owned(),
            ..Interface::default()
        });
        assert!(told_of.first("wlan0"));
        assert!(!told_of.first("wlan0"));
        assert!(told_of.first("wwan0"));
        told_of.works("wlan0");
        assert!(told_of.first("wlan0"));
        told_of.keep(&[&wlan0, &wwan0]);
        assert!(!told_of.first("wwan0"));
        told_of.keep(&[&wlan0]);
        assert!(!told_of.first("wlan0"));
        assert!(told_of.first("wwan0"));
    }

    #[test]
    fn the_ground_of_a_path_is_an_address_and_a_route() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let both = Interface {
            index: 7,
            addresses: vec![ip("10.0.0.2"), ip("2001:db8::2")],
            routes: vec![(ip("10.0.0.0"), 8), (ip("::"), 0)],
            ..Interface::default()
        };
        let firm = |local, remote| {
            let (local, remote) = (ip(local), ip(remote));
            let on = |index| {
                let ground = Ground {
                    local,
                    remote,
                    index,
                };
                ground.is_firm(&both)
            };
            assert_eq!(on(None), on(Some(7)));
            assert!(!on(Some(8)), "another of the same name");
            on(Some(7))
        };
        assert!(firm("10.0.0.2", "10.1.0.1"));
        assert!(firm("2001:db8::2", "2001:db9::1"));
        assert!(!firm("10.0.0.2", "192.0.2.1"));
        assert!(!firm("10.0.0.3", "10.1.0.1"));
    }

    #[test]
    fn what_has_failed_counts_until_all_has_stood_for_long() {
        let mut retry = Retry::new();
        retry.after = LAST_RETRY;
        let mut now = Instant::now();
        for (stands, after) in [(1, LAST_RETRY), (29, LAST_RETRY), (30, FIRST_RETRY)] {
            retry.on_look(now, true);
            now += Duration::from_secs(stands);
            retry.on_look(now, true);
            retry.on_look(now, false);
            assert_eq!(retry.after, after, "{stands}");
        }
    }

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
