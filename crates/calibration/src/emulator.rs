//! Links in real time: packets from one place to the other, as the simulator's links decide.
//!
//! Owns: the thread between the TUN devices ([`Emulator`]) and what it saw ([`Report`]). Does not
//! own: any decision about a packet (`tautline_sim::Line`); places (`place.rs`).
//!
//! Each packet is stamped when it is read, offered to the [`Line`] of its direction, and written to
//! the link's other device when the time has come that the line named. How much later than that it was
//! written is its lateness.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fs::File,
    io::{ErrorKind, Read, Write},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant as Clock},
};

use anyhow::{Context, Result, bail};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tautline_sim::{Direction, DirectionStats, Line, LinkConfig, Outcome};
use tautline_transport::time::Instant;

use crate::{
    clock::now,
    lateness::Lateness,
    packet,
    place::Place,
    system::{self, Favour},
};

/// More than the MTU, so that a packet that should have been cut is seen.
const PACKET_BYTES: usize = 65_536;
/// Packets read from one device before deliveries have their turn again.
const READ_AT_ONCE: usize = 64;

/// What went over a link.
#[derive(Clone, Debug)]
pub(crate) struct LinkReport {
    /// From the client; what was delivered is not counted.
    pub(crate) up: DirectionStats,
    /// To the client.
    pub(crate) down: DirectionStats,
}

/// What the emulator saw.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) lateness: Lateness,
    /// Of each link.
    pub(crate) links: Vec<LinkReport>,
    /// Bytes of the largest IP packet.
    pub(crate) largest: usize,
    /// Packets that are not IPv4, or that a kernel did not take back.
    pub(crate) refused: u64,
    pub(crate) favour: Favour,
    /// Processor time of its thread, and how long that ran.
    pub(crate) busy: Duration,
    pub(crate) ran: Duration,
}

/// A link between two places: what it does, and its number in the network, which its losses depend on.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) number: usize,
    pub(crate) config: LinkConfig,
}

/// Links that run.
pub(crate) struct Emulator {
    stop: OwnedFd,
    thread: Option<JoinHandle<Result<Report>>>,
}

impl Emulator {
    /// Starts the links between two places, client first. Their clock starts with the first packet.
    pub(crate) fn start(
        near: Arc<Place>,
        far: Arc<Place>,
        wires: &[Wire],
        seed: u64,
    ) -> Result<Self> {
        // Lines stay in the thread that made them; what is wrong with a link shows here.
        lines(wires, seed)?;
        let wires = wires.to_vec();
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let told = stop.try_clone()?;
        let thread = thread::Builder::new()
            .name("emulator".to_owned())
            .spawn(move || Running::new([near, far], lines(&wires, seed)?, told).run())?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Stops and tells what was seen.
    pub(crate) fn finish(mut self) -> Result<Report> {
        let thread = self.tell().context("the emulator was stopped before")?;
        thread
            .join()
            .unwrap_or_else(|_| bail!("the emulator's thread failed"))
    }

    fn tell(&mut self) -> Option<JoinHandle<Result<Report>>> {
        let thread = self.thread.take()?;
        // An event counter takes 8 bytes at any time.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        Some(thread)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if let Some(thread) = self.tell() {
            let _ = thread.join();
        }
    }
}

/// Both directions of every link, the client's first.
fn lines(wires: &[Wire], seed: u64) -> Result<Vec<[Line; 2]>> {
    let both = |Wire { number, config }: &Wire| {
        let round_trip = config.round_trip();
        let line = |direction, config| Line::new(seed, *number, direction, config, round_trip);
        Ok([
            line(Direction::Forward, config.forward.clone())?,
            line(Direction::Backward, config.backward.clone())?,
        ])
    };
    wires.iter().map(both).collect()
}

/// A packet under way; the first to arrive is the greatest.
struct Travelling {
    /// When, and which among those of that moment.
    due: Reverse<(Instant, u64)>,
    /// The index of its link, and of the place it goes to.
    link: usize,
    to: usize,
    bytes: Vec<u8>,
}

impl PartialEq for Travelling {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Travelling {}

impl PartialOrd for Travelling {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Travelling {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.due.cmp(&other.due)
    }
}

struct Running {
    places: [Arc<Place>; 2],
    lines: Vec<[Line; 2]>,
    stop: OwnedFd,
    origin: Option<Clock>,
    travelling: BinaryHeap<Travelling>,
    count: u64,
    buffer: Vec<u8>,
    lateness: Lateness,
    largest: usize,
    refused: u64,
}

impl Running {
    fn new(places: [Arc<Place>; 2], lines: Vec<[Line; 2]>, stop: OwnedFd) -> Self {
        Self {
            places,
            lines,
            stop,
            origin: None,
            travelling: BinaryHeap::new(),
            count: 0,
            buffer: vec![0; PACKET_BYTES],
            lateness: Lateness::default(),
            largest: 0,
            refused: 0,
        }
    }

    fn run(mut self) -> Result<Report> {
        let favour = system::run_first();
        let (started, already) = (now(), system::thread_time());
        while !self.wait()? {
            self.deliver();
            for link in 0..self.lines.len() {
                for from in 0..2 {
                    self.read(link, from)?;
                }
            }
            self.deliver();
        }
        let end = self.time(now());
        let of_each = |[up, down]: &[Line; 2]| LinkReport {
            up: up.stats(end),
            down: down.stats(end),
        };
        Ok(Report {
            links: self.lines.iter().map(of_each).collect(),
            busy: system::thread_time().saturating_sub(already),
            ran: now().saturating_duration_since(started),
            lateness: self.lateness,
            largest: self.largest,
            refused: self.refused,
            favour,
        })
    }

    /// The link's time at a moment.
    fn time(&self, at: Clock) -> Instant {
        let origin = self.origin.unwrap_or(at);
        Instant::ZERO + at.saturating_duration_since(origin)
    }

    /// Waits for packets or for the time of the next delivery. True when it is time to stop.
    fn wait(&self) -> Result<bool> {
        let next = self.travelling.peek().map(|packet| {
            let Reverse((due, _)) = packet.due;
            due.saturating_since(self.time(now()))
        });
        let timeout = next.map(Timespec::try_from).transpose()?;
        let ends = self.places.iter().flat_map(|place| &place.wires);
        let mut watched: Vec<PollFd<'_>> =
            ends.map(|wire| PollFd::new(wire, PollFlags::IN)).collect();
        watched.push(PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN));
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(watched
            .last()
            .is_some_and(|stop| !stop.revents().is_empty()))
    }

    /// Takes what the kernel at one end of a link wants to send.
    fn read(&mut self, link: usize, from: usize) -> Result<()> {
        for _ in 0..READ_AT_ONCE {
            let mut wire: &File = &self.places[from].wires[link];
            match wire.read(&mut self.buffer) {
                Ok(len) => self.take(link, from, len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot read from a TUN device"),
            }
        }
        Ok(())
    }

    fn take(&mut self, link: usize, from: usize, len: usize) {
        let at = now();
        self.origin.get_or_insert(at);
        let time = self.time(at);
        let bytes = self.buffer.get(..len).unwrap_or_default();
        if !packet::is_ipv4(bytes) {
            self.refused += 1;
            return;
        }
        self.largest = self.largest.max(len);
        let ecn = packet::ecn(bytes);
        let size = u32::try_from(len).unwrap_or(u32::MAX);
        let record = self.lines[link][from].offer(time, size, ecn);
        let Outcome::Arrives(due) = record.outcome else {
            return;
        };
        let mut bytes = bytes.to_vec();
        if record.ecn != ecn {
            packet::set_ecn(&mut bytes, record.ecn);
        }
        if record.corrupted {
            packet::corrupt(&mut bytes);
        }
        for _ in 0..=record.copies {
            self.count += 1;
            self.travelling.push(Travelling {
                due: Reverse((due, self.count)),
                link,
                to: 1 - from,
                bytes: bytes.clone(),
            });
        }
    }

    /// Hands over what is due.
    fn deliver(&mut self) {
        while let Some(packet) = self.travelling.peek() {
            let Reverse((due, _)) = packet.due;
            let time = self.time(now());
            if due > time {
                break;
            }
            self.lateness.record(time.saturating_since(due));
            let Some(packet) = self.travelling.pop() else {
                break;
            };
            let mut wire: &File = &self.places[packet.to].wires[packet.link];
            if wire.write(&packet.bytes).is_err() {
                self.refused += 1;
            }
        }
    }
}
