//! One transfer: one link, one controller, with erasure correction or without, one seed.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use tautline_sim::{
    Direction, DirectionConfig, DirectionStats, LinkConfig, PAYLOAD_SHARE, RunEnd, links,
    quic::QuicHost,
};
use tautline_transport::{connection::Connection, fec::FecStats, time::Instant};

use super::{
    apps::{FileClient, FileServer, SenderView, sender_now},
    network::{self, Network},
    payload::Payload,
};
use crate::{
    checksum::Digest,
    failure::{Failure, Outcome},
};

/// A transfer to be made.
pub(super) struct Cell {
    link: String,
    controller: String,
    /// The redundancy scheduler; `None` is plain QUIC.
    fec: Option<String>,
    seed: u64,
    config: LinkConfig,
    payload: Payload,
    everything: Arc<AtomicU64>,
}

/// A moment of a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Since `connect()`.
    pub(super) at: Duration,
    /// Application bytes delivered in order so far.
    pub(super) delivered: u64,
    /// Congestion window of the sender in bytes.
    pub(super) window: Option<u64>,
    /// Smoothed round-trip time at the sender.
    pub(super) rtt: Option<Duration>,
}

/// A transfer that was made, or tried.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) link: String,
    pub(super) controller: String,
    pub(super) seed: u64,
    pub(super) config: LinkConfig,
    /// Application bytes delivered.
    pub(super) delivered: u64,
    /// From `connect()` to the last byte at the application.
    pub(super) completion: Option<Duration>,
    /// From `connect()` to the end of the client's handshake.
    pub(super) handshake: Option<Duration>,
    /// SHA-256 of what arrived, and whether it is that of what was sent.
    pub(super) digest: Option<Digest>,
    pub(super) verified: bool,
    /// Why it failed.
    pub(super) problem: Option<String>,
    /// The sender at the end.
    pub(super) sender: Option<SenderView>,
    /// What erasure correction did at the receiver.
    pub(super) receiver_fec: FecStats,
    /// What the link did to the sender's packets.
    pub(super) wire: DirectionStats,
    /// SHA-256 over every packet on the link, with times.
    pub(super) trace: Option<String>,
    /// Between two samples.
    pub(super) interval: Duration,
    pub(super) samples: Vec<Sample>,
}

impl Measured {
    /// Whether every byte came and was right.
    pub(super) fn succeeded(&self) -> bool {
        self.verified
    }

    /// Rate of the link from server to client in IP bits per second.
    pub(super) fn capacity(&self) -> f64 {
        capacity(&self.config.backward)
    }

    /// `R`: the most application bits per second.
    pub(super) fn bound(&self) -> f64 {
        bound(&self.config.backward)
    }

    /// From `connect()` to the last byte at the application.
    pub(super) fn seconds(&self) -> Option<f64> {
        self.completion.map(|time| time.as_secs_f64())
    }

    /// Application bits delivered per second from `connect()` to the last byte.
    pub(super) fn goodput(&self) -> Option<f64> {
        let seconds = self.seconds()?;
        (seconds > 0.0).then(|| self.delivered as f64 * 8.0 / seconds)
    }

    /// Goodput / capacity; `None` where the link has no rate of its own (what it carries follows from its delays).
    pub(super) fn utilisation(&self) -> Option<f64> {
        let capacity = Some(self.capacity()).filter(|capacity| capacity.is_finite());
        Some(self.goodput()? / capacity?)
    }
}

/// Rate of one direction in IP bits per second.
pub(super) fn capacity(direction: &DirectionConfig) -> f64 {
    direction
        .rate
        .map_or(f64::INFINITY, |rate| rate.bits_per_second() as f64)
}

/// `R` of one direction in bits per second.
pub(super) fn bound(direction: &DirectionConfig) -> f64 {
    PAYLOAD_SHARE * capacity(direction) * (1.0 - direction.loss.mean_rate())
}

impl Cell {
    /// A transfer of `payload` over the named link; `everything` grows with each byte delivered.
    pub(super) fn new(
        link: &str,
        controller: &str,
        fec: Option<&str>,
        seed: u64,
        payload: &Payload,
        everything: Arc<AtomicU64>,
    ) -> Outcome<Self> {
        let config = links::by_name(link)
            .ok_or_else(|| Failure::new(format!("no link is called {link}")))?;
        Ok(Self {
            link: link.to_owned(),
            controller: controller.to_owned(),
            fec: fec.map(str::to_owned),
            seed,
            config,
            payload: payload.clone(),
            everything,
        })
    }

    /// Makes the transfer, in virtual time.
    pub(super) fn run(&self) -> Measured {
        let interval = self.interval();
        let mut measured = self.empty(interval);
        match self.build(interval) {
            Ok(network) => self.drive(network, &mut measured),
            Err(failure) => measured.problem = Some(failure.to_string()),
        }
        measured
    }

    fn empty(&self, interval: Duration) -> Measured {
        Measured {
            link: self.link.clone(),
            controller: self.controller.clone(),
            seed: self.seed,
            config: self.config.clone(),
            delivered: 0,
            completion: None,
            handshake: None,
            digest: None,
            verified: false,
            problem: None,
            sender: None,
            receiver_fec: FecStats::default(),
            wire: DirectionStats::default(),
            trace: None,
            interval,
            samples: Vec::new(),
        }
    }

    /// Seconds that the transfer takes at least, with a start of ten round trips.
    fn expected_seconds(&self) -> f64 {
        let bits = self.payload.len() as f64 * 8.0;
        bits / bound(&self.config.backward) + 10.0 * self.config.round_trip().as_secs_f64()
    }

    /// A round time of which about 150 make an expected transfer.
    fn interval(&self) -> Duration {
        let wanted = self.expected_seconds() / 150.0;
        let steps = (0..7).flat_map(|power| [1, 2, 5].map(|digit| digit * 10u64.pow(power)));
        let fitting = steps
            .take_while(|millis| *millis as f64 / 1000.0 <= wanted)
            .last();
        Duration::from_millis(fitting.unwrap_or(1))
    }

    fn build(&self, interval: Duration) -> Outcome<Network> {
        let transport = network::transport_with(&self.controller, self.fec.as_deref())?;
        let everything = Arc::clone(&self.everything);
        let client = |config, server| FileClient::new(config, server, interval, everything);
        let server = FileServer::new(self.payload.data.clone(), interval);
        let mut network = network::build(
            self.seed,
            std::slice::from_ref(&self.config),
            transport,
            client,
            server,
        )?;
        network.world.enable_hash();
        Ok(network)
    }

    fn drive(&self, network: Network, measured: &mut Measured) {
        let Network {
            mut world,
            client,
            server,
            links,
        } = network;
        let limit = Duration::from_secs_f64(60.0 + 50.0 * self.expected_seconds());
        let end = world.run_while(
            |world| !world.node::<QuicHost<FileClient>>(client).app().is_over(),
            Instant::ZERO + limit,
        );
        let host = world.node::<QuicHost<FileClient>>(client);
        let receiver = host.app();
        measured.receiver_fec = receiver
            .connection()
            .and_then(|handle| host.connection(handle))
            .map(Connection::fec_stats)
            .unwrap_or_default();
        let sender = world.node::<QuicHost<FileServer>>(server);
        measured.delivered = receiver.received;
        measured.handshake = receiver.connected_at.map(Instant::since_origin);
        if let Some((at, digest)) = receiver.finished {
            measured.completion = Some(at.since_origin());
            measured.digest = Some(digest);
            measured.verified = digest == self.payload.digest;
        }
        measured.problem = match (&receiver.problem, end) {
            (Some(problem), _) => Some(problem.clone()),
            (None, _) if measured.verified => None,
            (None, _) if measured.digest.is_some() => {
                Some("the bytes that arrived are not those that were sent".to_owned())
            }
            (None, RunEnd::Stuck) => Some("the simulation came to a standstill".to_owned()),
            (None, _) => Some(format!(
                "not done after {} simulated seconds",
                limit.as_secs()
            )),
        };
        measured.sender = sender_now(sender);
        measured.samples = samples(receiver, sender.app(), measured);
        if let Some(link) = links.first() {
            measured.wire = world.link_stats(*link, Direction::Backward);
        }
        measured.trace = world
            .trace_hash()
            .map(|hash| hash.iter().map(|byte| format!("{byte:02x}")).collect());
    }
}

/// Both ends' views side by side, and the end of the transfer as the last sample.
fn samples(client: &FileClient, server: &FileServer, measured: &Measured) -> Vec<Sample> {
    let sample = |at, delivered, view: Option<SenderView>| Sample {
        at,
        delivered,
        window: view.map(|view| view.path.congestion.window),
        // Before the first measurement it is a guess.
        rtt: view
            .filter(|view| view.path.recovery.packets_acked > 0)
            .map(|view| view.path.rtt),
    };
    let mut at = Duration::ZERO;
    let mut samples = Vec::with_capacity(client.views.len() + 1);
    for (index, delivered) in client.views.iter().enumerate() {
        let view = server.views.get(index).copied().flatten();
        samples.push(sample(at, *delivered, view));
        at += measured.interval;
    }
    if let Some(completion) = measured.completion {
        samples.push(sample(completion, measured.delivered, measured.sender));
    }
    samples
}
