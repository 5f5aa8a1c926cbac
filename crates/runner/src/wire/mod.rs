//! The wire between two processes: the simulator's link, run in real time between UDP sockets.
//!
//! Purpose: impair datagrams exactly as the simulator does in the tests (rate, delay, drop-tail
//! queue, loss, corruption, MTU, outages, rebinding), from the same [`Scenario`].
//! Owns: which socket stands for which simulated address ([`Place`]), the thread that keeps the
//! simulated clock with the real one, what was seen at both ends ([`Capture`]).
//! Does not own: what the link does (`tautline-sim`), the sockets (`socket.rs`).
//!
//! The client's process talks to a *front* socket per server address. A datagram from there enters
//! the simulated link at the client's end; where it leaves, a socket of ours that stands for the
//! client's address (as the NAT shows it) sends it to the server's process. A rebound client thus
//! reaches the server from another port or, for IPv4, from another address of 127.0.0.0/8.

mod gateway;
mod socket;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant as Clock},
};

use tautline_sim::{Datagram, HostId, World, interop::Scenario};
use tautline_transport::{time::Instant, units::Ecn};

use gateway::Gateway;
use socket::{Arrived, Origin, Socket};

/// How long the thread sleeps when nothing is on the wire.
const IDLE: Duration = Duration::from_millis(100);
/// The client's addresses on the simulated side.
const CLIENT_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const CLIENT_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));

/// An address of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Where it is on the simulated wire.
    pub(crate) simulated: SocketAddr,
    /// Where the server's process listens.
    pub(crate) real: SocketAddr,
    /// Whether what goes there is kept, or only counted.
    pub(crate) watched: bool,
}

/// Towards whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToServer,
    ToClient,
}

/// A datagram as it passed one end of the link. Addresses are those of the simulated side.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) time: Duration,
    pub(crate) way: Way,
    pub(crate) src: SocketAddr,
    pub(crate) dst: SocketAddr,
    pub(crate) ecn: Ecn,
    pub(crate) payload: Vec<u8>,
}

/// What passed both ends of the link, each in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    /// At the client: what it sent, and what came to it.
    pub(crate) left: Vec<Seen>,
    /// At the server.
    pub(crate) right: Vec<Seen>,
    /// Arrivals at the client that were only counted: time and bytes of UDP payload.
    pub(crate) beside: Vec<(Duration, usize)>,
    /// The longest time that the thread came too late, which adds to the link's delay.
    pub(crate) latest: Duration,
}

/// A wire that runs.
pub(crate) struct Wire {
    fronts: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Capture>,
}

/// Sockets that clients talk to, before the wire runs: servers want to know their addresses.
pub(crate) struct Fronts(Vec<(Place, Socket)>);

impl Fronts {
    /// One socket for each place, in the place's address family.
    pub(crate) fn bind(places: &[Place]) -> io::Result<Self> {
        let bind = |place: &Place| {
            let ip = loopback(place.simulated);
            Ok((*place, Socket::bind(SocketAddr::new(ip, 0))?))
        };
        Ok(Self(places.iter().map(bind).collect::<io::Result<_>>()?))
    }

    /// Where clients reach each place.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|(_, front)| front.local()).collect()
    }

    /// Starts the wire. Its clock starts with the first datagram of a client.
    pub(crate) fn run(self, scenario: Scenario, seed: u64) -> io::Result<Wire> {
        let fronts = self.addresses();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("wire".into())
            .spawn(move || Running::new(self.0, scenario, seed, told).run())?;
        Ok(Wire {
            fronts,
            stop,
            thread,
        })
    }
}

impl Wire {
    /// Where clients reach each place.
    pub(crate) fn fronts(&self) -> &[SocketAddr] {
        &self.fronts
    }

    /// Stops and tells what was seen.
    pub(crate) fn finish(self) -> Capture {
        self.stop.store(true, Ordering::Release);
        // A panic in there is a bug of ours and has been printed.
        self.thread.join().unwrap_or_default()
    }
}

/// The loopback address that stands for addresses of this family.
fn loopback(like: SocketAddr) -> IpAddr {
    if like.is_ipv4() {
        Ipv4Addr::LOCALHOST.into()
    } else {
        Ipv6Addr::LOCALHOST.into()
    }
}

struct Running {
    fronts: Vec<(Place, Arc<Socket>)>,
    /// Sockets that stand for the client's addresses, as the server sees them.
    backs: BTreeMap<SocketAddr, Arc<Socket>>,
    /// The real addresses given to simulated ones of the client.
    back_ips: BTreeMap<IpAddr, IpAddr>,
    world: World,
    client: HostId,
    server: HostId,
    scenario: Option<Scenario>,
    origin: Option<Clock>,
    arrived: mpsc::Receiver<Arrived>,
    sender: mpsc::Sender<Arrived>,
    stop: Arc<AtomicBool>,
    capture: Capture,
}

impl Running {
    fn new(
        fronts: Vec<(Place, Socket)>,
        scenario: Scenario,
        seed: u64,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let mut world = World::new(seed);
        let any = |ip: IpAddr| SocketAddr::new(ip, 0);
        let client = world.add_host([any(CLIENT_V4), any(CLIENT_V6)], Gateway::boxed());
        let mut ips: Vec<_> = fronts
            .iter()
            .map(|(place, _)| place.simulated.ip())
            .collect();
        ips.sort();
        ips.dedup();
        let ips: Vec<_> = ips.into_iter().map(any).collect();
        let server = world.add_host(ips, Gateway::boxed());
        let (sender, arrived) = mpsc::channel();
        let fronts = fronts
            .into_iter()
            .enumerate()
            .map(|(index, (place, front))| {
                let front = Arc::new(front);
                front.listen(Origin::Front(index), &sender, &stop);
                (place, front)
            });
        Self {
            fronts: fronts.collect(),
            backs: BTreeMap::new(),
            back_ips: BTreeMap::new(),
            world,
            client,
            server,
            scenario: Some(scenario),
            origin: None,
            arrived,
            sender,
            stop,
            capture: Capture::default(),
        }
    }

    fn run(mut self) -> Capture {
        while !self.stop.load(Ordering::Acquire) {
            if let Ok(arrived) = self.arrived.recv_timeout(self.time_to_wait()) {
                self.take(arrived);
                while let Ok(arrived) = self.arrived.try_recv() {
                    self.take(arrived);
                }
            }
            self.keep_up(now());
        }
        self.capture
    }

    fn time_to_wait(&self) -> Duration {
        let (Some(origin), Some(next)) = (self.origin, self.world.next_event()) else {
            return IDLE;
        };
        let due = origin + next.since_origin();
        due.saturating_duration_since(now()).min(IDLE)
    }

    /// Puts a datagram from a socket into the world, at the time it came.
    fn take(&mut self, arrived: Arrived) {
        if self.origin.is_none() {
            self.origin = Some(arrived.time);
            if let Some(scenario) = self.scenario.take() {
                scenario.install(&mut self.world, self.client, self.server);
            }
        }
        self.keep_up(arrived.time);
        let (host, src, dst) = match arrived.origin {
            Origin::Front(index) => {
                let Some((place, _)) = self.fronts.get(index) else {
                    return;
                };
                let ip = if arrived.from.is_ipv4() {
                    CLIENT_V4
                } else {
                    CLIENT_V6
                };
                let inner = SocketAddr::new(ip, arrived.from.port());
                (self.client, inner, place.simulated)
            }
            Origin::Back(outer) => {
                let mut places = self.fronts.iter().map(|(place, _)| place);
                let Some(place) = places.find(|place| place.real == arrived.from) else {
                    return;
                };
                (self.server, place.simulated, outer)
            }
        };
        let datagram = Datagram {
            src,
            dst,
            ecn: arrived.ecn,
            payload: arrived.payload,
        };
        self.note(&datagram, matches!(arrived.origin, Origin::Front(_)));
        self.world
            .node_mut::<Gateway>(host)
            .outgoing
            .push_back(datagram);
        self.keep_up(arrived.time);
    }

    /// Lets happen what is due at `time`, and sends what left the link.
    fn keep_up(&mut self, time: Clock) {
        let Some(origin) = self.origin else {
            return;
        };
        let now = Instant::ZERO + time.saturating_duration_since(origin);
        if let Some(due) = self.world.next_event().filter(|due| *due <= now) {
            let late = now.saturating_since(due);
            self.capture.latest = self.capture.latest.max(late);
        }
        // Never backwards: datagrams of several sockets may be handed over out of order.
        self.world.run_until(now.max(self.world.now()));
        self.deliver();
    }

    fn deliver(&mut self) {
        if self.world.has_arrivals(self.client) {
            for datagram in
                std::mem::take(&mut self.world.node_mut::<Gateway>(self.client).incoming)
            {
                self.note(&datagram, true);
                let mut fronts = self.fronts.iter();
                if let Some((_, front)) = fronts.find(|(place, _)| place.simulated == datagram.src)
                {
                    let to = SocketAddr::new(loopback(datagram.dst), datagram.dst.port());
                    front.send(to, &datagram);
                }
            }
        }
        if self.world.has_arrivals(self.server) {
            for datagram in
                std::mem::take(&mut self.world.node_mut::<Gateway>(self.server).incoming)
            {
                self.note(&datagram, false);
                let mut places = self.fronts.iter().map(|(place, _)| place);
                let Some(to) = places.find(|place| place.simulated == datagram.dst) else {
                    continue;
                };
                let to = to.real;
                if let Some(back) = self.back(datagram.src) {
                    back.send(to, &datagram);
                }
            }
        }
    }

    /// The socket that stands for `outer`.
    fn back(&mut self, outer: SocketAddr) -> Option<Arc<Socket>> {
        if let Some(back) = self.backs.get(&outer) {
            return Some(Arc::clone(back));
        }
        // 127.0.0.1, then 127.0.0.2 and so on; IPv6 has one address of loopback only.
        let taken = self.back_ips.len() as u8;
        let ip = *self.back_ips.entry(outer.ip()).or_insert(match outer {
            SocketAddr::V4(_) => Ipv4Addr::new(127, 0, 0, taken.saturating_add(1)).into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
        match Socket::bind(SocketAddr::new(ip, 0)) {
            Ok(back) => {
                let back = Arc::new(back);
                back.listen(Origin::Back(outer), &self.sender, &self.stop);
                self.backs.insert(outer, Arc::clone(&back));
                Some(back)
            }
            Err(error) => {
                eprintln!("no socket on {ip} for {outer}: {error}");
                None
            }
        }
    }

    fn note(&mut self, datagram: &Datagram, left: bool) {
        let time = self.world.now().since_origin();
        let is = |address: SocketAddr| {
            let mut places = self.fronts.iter().map(|(place, _)| place);
            places
                .find(move |place| place.simulated == address)
                .copied()
        };
        let (way, place) = match (is(datagram.dst), is(datagram.src)) {
            (Some(place), _) => (Way::ToServer, place),
            (None, Some(place)) => (Way::ToClient, place),
            (None, None) => return,
        };
        if !place.watched {
            if left && way == Way::ToClient {
                self.capture.beside.push((time, datagram.payload.len()));
            }
            return;
        }
        let seen = Seen {
            time,
            way,
            src: datagram.src,
            dst: datagram.dst,
            ecn: datagram.ecn,
            payload: datagram.payload.clone(),
        };
        if left {
            self.capture.left.push(seen);
        } else {
            self.capture.right.push(seen);
        }
    }
}

/// Whether a gateway holds something, asked without waking it.
trait HasArrivals {
    fn has_arrivals(&self, host: HostId) -> bool;
}

impl HasArrivals for World {
    fn has_arrivals(&self, host: HostId) -> bool {
        let gateway = self.try_node::<Gateway>(host);
        gateway.is_some_and(|gateway| !gateway.incoming.is_empty())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a wire between processes runs in real time"
)]
fn now() -> Clock {
    Clock::now()
}
