//! A link in real time between a client's sockets and a server, datagram by datagram.
//!
//! Each datagram is offered to the simulator's line of its direction, and leaves when that says. No
//! privileges are needed: whoever sends to the relay's address sends over the link.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant as Clock},
};

use anyhow::{Context, Result};
use tautline_sim::{Direction, DirectionConfig, Line, LinkConfig, Outcome, QueueSize};
use tautline_transport::{
    time::Instant,
    units::{Ecn, Rate},
};
use tokio::net::UdpSocket;

/// IPv4 and UDP headers.
const HEADERS: u32 = 28;

/// Bytes of UDP payload that a link delivered.
#[derive(Debug, Default)]
pub struct Carried {
    /// To the server.
    pub up: AtomicU64,
    /// To the client.
    pub down: AtomicU64,
}

impl Carried {
    /// To the client, or to the server.
    pub fn towards(&self, client: bool) -> u64 {
        if client { &self.down } else { &self.up }.load(Ordering::Relaxed)
    }
}

/// A link under way. It runs until the program ends.
pub struct Relay {
    /// Where clients send to.
    pub address: SocketAddr,
    pub carried: Arc<Carried>,
}

/// The link: so many bits per second, half the round trip each way, one bandwidth-delay product of
/// queue.
pub fn link(bits_per_second: u64, round_trip: Duration) -> LinkConfig {
    let mut direction = DirectionConfig::default();
    direction.rate = Some(Rate::from_bits_per_second(bits_per_second));
    direction.delay = round_trip / 2;
    direction.queue = QueueSize::Bdp(1.0);
    LinkConfig::symmetric(direction)
}

impl Relay {
    /// A relay at `ip`, to `server`, in a thread of its own.
    pub fn start(ip: Ipv4Addr, server: SocketAddr, link: LinkConfig, seed: u64) -> Result<Self> {
        let near = bind(ip.into())?;
        let far = bind(Ipv4Addr::LOCALHOST.into())?;
        let address = near.local_addr()?;
        let carried = Arc::new(Carried::default());
        let counted = Arc::clone(&carried);
        std::thread::Builder::new()
            .name(format!("relay {ip}"))
            .spawn(move || {
                if let Err(error) = run(near, far, server, &link, seed, &counted) {
                    eprintln!("relay: {error:#}");
                }
            })?;
        Ok(Self { address, carried })
    }
}

fn bind(ip: IpAddr) -> Result<std::net::UdpSocket> {
    let socket = std::net::UdpSocket::bind((ip, 0))
        .with_context(|| format!("cannot bind {ip}: the relays need addresses 127.0.0.x"))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// A datagram on its way; the first to arrive is the greatest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Travelling {
    due: Reverse<(Instant, u64)>,
    to_client: bool,
    bytes: Vec<u8>,
}

fn run(
    near: std::net::UdpSocket,
    far: std::net::UdpSocket,
    server: SocketAddr,
    link: &LinkConfig,
    seed: u64,
    carried: &Carried,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut running = Running {
            near: UdpSocket::from_std(near)?,
            far: UdpSocket::from_std(far)?,
            server,
            client: None,
            lines: [
                line(seed, Direction::Forward, link)?,
                line(seed, Direction::Backward, link)?,
            ],
            start: Clock::now(),
            travelling: BinaryHeap::new(),
            count: 0,
            buffer: vec![0; 65_536],
        };
        loop {
            running.turn(carried).await?;
        }
    })
}

fn line(seed: u64, direction: Direction, link: &LinkConfig) -> Result<Line> {
    let config = match direction {
        Direction::Forward => link.forward.clone(),
        Direction::Backward => link.backward.clone(),
    };
    Ok(Line::new(seed, 0, direction, config, link.round_trip())?)
}

struct Running {
    near: UdpSocket,
    far: UdpSocket,
    server: SocketAddr,
    /// Whoever sent last.
    client: Option<SocketAddr>,
    /// To the server, to the client.
    lines: [Line; 2],
    start: Clock,
    travelling: BinaryHeap<Travelling>,
    count: u64,
    buffer: Vec<u8>,
}

impl Running {
    fn time(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    async fn turn(&mut self, carried: &Carried) -> Result<()> {
        let next = self.travelling.peek().map(|first| first.due.0.0);
        let wait = next.map(|due| due.saturating_since(self.time()));
        tokio::select! {
            ready = self.near.readable() => ready?,
            ready = self.far.readable() => ready?,
            () = tokio::time::sleep(wait.unwrap_or(Duration::from_secs(3600))) => {}
        }
        self.deliver(carried);
        self.read();
        self.deliver(carried);
        Ok(())
    }

    fn read(&mut self) {
        for to_client in [false, true] {
            // Deliveries have their turn in between.
            for _ in 0..64 {
                let socket = if to_client { &self.far } else { &self.near };
                match socket.try_recv_from(&mut self.buffer) {
                    Ok((len, from)) => {
                        if !to_client {
                            self.client = Some(from);
                        }
                        self.offer(to_client, len);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // ICMP's word about an earlier datagram.
                    Err(_) => {}
                }
            }
        }
    }

    fn offer(&mut self, to_client: bool, len: usize) {
        let now = self.time();
        let size = u32::try_from(len)
            .unwrap_or(u32::MAX)
            .saturating_add(HEADERS);
        let record = self.lines[usize::from(to_client)].offer(now, size, Ecn::NotEct);
        if let Outcome::Arrives(due) = record.outcome {
            self.count += 1;
            self.travelling.push(Travelling {
                due: Reverse((due, self.count)),
                to_client,
                bytes: self.buffer[..len].to_vec(),
            });
        }
    }

    fn deliver(&mut self, carried: &Carried) {
        while self
            .travelling
            .peek()
            .is_some_and(|first| first.due.0.0 <= self.time())
        {
            let Some(datagram) = self.travelling.pop() else {
                return;
            };
            let bytes = &datagram.bytes;
            let (socket, to, count) = if datagram.to_client {
                let Some(client) = self.client else { continue };
                (&self.near, client, &carried.down)
            } else {
                (&self.far, self.server, &carried.up)
            };
            // A full buffer drops it, as a network would.
            if socket.try_send_to(bytes, to).is_ok() {
                count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
        }
    }
}
