//! What came of a run, before any metric.

use std::time::Duration;

use tautline_sim::{Direction, DirectionStats, LinkConfig};
use tautline_transport::time::Instant;

use crate::{
    metric::METRICS,
    outcome::Outcome,
    scene::Scene,
    stack::{PathWire, WireStats},
};

/// A flow at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When.
    pub at: Instant,
    /// Application bytes received in order so far.
    pub received: u64,
    /// The sender's transport.
    pub wire: WireStats,
}

/// What came of one of several paths of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct PathRecord {
    /// The client's place at its near end.
    pub home: String,
    /// Its number.
    pub id: u64,
    /// When the client knew that it could be used.
    pub validated: Option<Instant>,
    /// As the sending end saw it, if it did.
    pub sender: Option<PathWire>,
    /// As the receiving end saw it, if it did.
    pub receiver: Option<PathWire>,
}

/// What came of one connection.
#[derive(Clone, Debug)]
pub struct FlowRecord {
    /// The flow's name.
    pub name: String,
    /// Its place among the scene's flows.
    pub flow: usize,
    /// Whether the cell's metrics count it.
    pub measured: bool,
    /// Whether it was to be cut off rather than to finish.
    pub endless: bool,
    /// Its stack.
    pub stack: String,
    /// Its congestion controller, if one was named.
    pub congestion: Option<String>,
    /// Whether its stack repeats itself.
    pub deterministic: bool,
    /// When the client connected.
    pub start: Instant,
    /// When the client was to close, whatever the workload had done by then.
    pub stop: Option<Instant>,
    /// When the client's handshake was complete.
    pub connected: Option<Instant>,
    /// What the end that receives most has seen.
    pub receiver: Outcome,
    /// Why the connection ended, if by an error at either end.
    pub error: Option<String>,
    /// The sending end's transport at the end.
    pub sender_wire: Option<WireStats>,
    /// The receiving end's transport at the end.
    pub receiver_wire: Option<WireStats>,
    /// The client's places, that of the handshake first.
    pub homes: Vec<String>,
    /// Its paths, where it could have several, in the order in which they were opened.
    pub paths: Vec<PathRecord>,
    /// Whether most of its bytes go from client to server.
    pub up: bool,
    /// Which way most of its bytes cross the link that link metrics are of; `None` if they do not.
    pub direction: Option<Direction>,
    /// Samples from its start on.
    pub history: Vec<Sample>,
    /// Between which times its rate is averaged: the run's.
    pub window: (Duration, Duration),
}

impl FlowRecord {
    /// Application bytes received by then: all, if it was finished; else the last sample at or
    /// before it counts.
    pub fn received_by(&self, at: Duration) -> u64 {
        let at = Instant::ZERO + at;
        if self
            .receiver
            .finished
            .is_some_and(|finished| finished <= at)
        {
            return self.receiver.received_bytes;
        }
        let later = self.history.partition_point(|sample| sample.at <= at);
        later
            .checked_sub(1)
            .and_then(|index| self.history.get(index))
            .map_or(0, |sample| sample.received)
    }

    /// UDP payload bytes that the sender sent over each path.
    pub fn path_bytes(&self) -> impl Iterator<Item = u64> + '_ {
        let sent = |path: &PathRecord| path.sender.map_or(0, |wire| wire.bytes_sent);
        self.paths.iter().map(sent)
    }

    /// When the first data came over another path than the first.
    pub fn second_path(&self) -> Option<Instant> {
        let others = self.paths.iter().filter(|path| path.id > 0);
        others.filter_map(|path| path.receiver?.first_data).min()
    }

    /// Whether it began by the first time and was neither finished nor stopped before the second.
    /// One that failed counts: it got nothing.
    pub fn lasts(&self, (from, to): (Duration, Duration)) -> bool {
        let ended = |at: Option<Instant>| at.is_some_and(|at| at.since_origin() < to);
        self.start.since_origin() <= from && !ended(self.receiver.finished) && !ended(self.stop)
    }

    /// Application bits per second between two times.
    pub fn goodput(&self, (from, to): (Duration, Duration)) -> f64 {
        let bytes = self.received_by(to).saturating_sub(self.received_by(from));
        let seconds = to.saturating_sub(from).as_secs_f64();
        if seconds > 0.0 {
            bytes as f64 * 8.0 / seconds
        } else {
            0.0
        }
    }
}

/// What a direction of a link had done by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Packets that its queue let go.
    pub packets: u64,
    /// Their times together from reaching the queue until the last byte left.
    pub sojourn: Duration,
}

/// What came of one link.
#[derive(Clone, Debug)]
pub struct LinkRecord {
    /// Its name.
    pub name: String,
    /// Whether it is one of several paths side by side, forward being from the clients.
    pub is_path: bool,
    /// What it did at the beginning.
    pub config: LinkConfig,
    /// What it did later.
    pub changes: Vec<(Duration, LinkConfig)>,
    /// Counters from the first place to the second.
    pub forward: DirectionStats,
    /// Counters the other way.
    pub backward: DirectionStats,
    /// When which direction, forward first, had let how much go; of paths side by side alone.
    pub history: Vec<(Instant, [Served; 2])>,
}

impl LinkRecord {
    /// Counters of one direction.
    pub fn stats(&self, direction: Direction) -> &DirectionStats {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    /// Mean time in the queue of the packets that left it in the samples around two times; zero when
    /// none did, `None` where no samples are kept.
    pub fn queueing(
        &self,
        direction: Direction,
        (from, to): (Instant, Instant),
    ) -> Option<Duration> {
        let side = usize::from(direction == Direction::Backward);
        let at = |index: usize| self.history.get(index);
        let before = self.history.partition_point(|(at, _)| *at <= from);
        let after = self.history.partition_point(|(at, _)| *at < to);
        let first = before.checked_sub(1).and_then(at);
        let first = first.map(|(_, served)| served[side]).unwrap_or_default();
        let last = at(after).or(self.history.last())?.1[side];
        let packets = u32::try_from(last.packets - first.packets).unwrap_or(u32::MAX);
        let sojourn = last.sojourn.saturating_sub(first.sojourn);
        Some(sojourn.checked_div(packets).unwrap_or_default())
    }

    /// Capacity of one direction between two times, in bits per second, IP bytes counted: the mean
    /// over time of constant rates, as changed on the way. `None` where the rate varies by itself
    /// other than by a trace, whose mean it is, or has no bound.
    pub fn capacity(&self, direction: Direction, (from, to): (Duration, Duration)) -> Option<f64> {
        let mut sum = 0.0;
        let mut since = from;
        let mut config = &self.config;
        for (at, later) in &self.changes {
            let until = (*at).clamp(since, to);
            sum += constant(config, direction)? * (until - since).as_secs_f64();
            since = until;
            config = later;
        }
        let rest = to.saturating_sub(since).as_secs_f64();
        let whole = to.saturating_sub(from).as_secs_f64();
        let last = constant(config, direction)?;
        if whole > 0.0 {
            Some((sum + last * rest) / whole)
        } else {
            Some(last)
        }
    }
}

/// The rate in bits per second, where it is one number.
fn constant(config: &LinkConfig, direction: Direction) -> Option<f64> {
    let config = match direction {
        Direction::Forward => &config.forward,
        Direction::Backward => &config.backward,
    };
    let varies =
        config.rate_steps.is_some() || config.rate_wander.is_some() || config.coding.is_some();
    let rate = config.mean_rate().filter(|_| !varies)?;
    Some(rate.bits_per_second() as f64)
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Record {
    /// When it was over.
    pub end: Duration,
    /// Between which times rates are averaged.
    pub window: (Duration, Duration),
    /// Every connection, in the order of the scene.
    pub flows: Vec<FlowRecord>,
    /// Every link, in the order of the scene.
    pub links: Vec<LinkRecord>,
    /// Position of the link that link metrics are of.
    pub link: usize,
    /// Events of the simulation; 0 where nothing was simulated.
    pub events: u64,
    /// Whether the simulation could not go on: see [`tautline_sim::RunEnd::Stuck`].
    pub stuck: bool,
    /// What the audit found, if there was one.
    pub violations: Vec<String>,
    /// What of which links' directions the audit could not check.
    pub unchecked: Vec<String>,
}

impl Record {
    /// Of connections alone, which need not have been simulated: no links, no events. Between which times
    /// rates are averaged is the scene's to say.
    pub fn of_flows(scene: &Scene, end: Instant, mut flows: Vec<FlowRecord>) -> Self {
        // Rates of what is finished are averaged over what it took, not to the next sample.
        let finished = flows.iter().filter(|flow| flow.measured);
        let finished = finished.map(|flow| flow.receiver.finished);
        let over = finished
            .reduce(|last, one| Some(last?.max(one?)))
            .flatten()
            .map_or(end, |last| last.min(end));
        // Nor over a time in which nothing was played any more.
        let (from, to) = scene.window_or(over.since_origin());
        let window = (from, to.min(over.since_origin()));
        for flow in &mut flows {
            flow.window = window;
        }
        Self {
            end: end.since_origin(),
            window,
            flows,
            links: Vec::new(),
            link: scene.link,
            events: 0,
            stuck: false,
            violations: Vec::new(),
            unchecked: Vec::new(),
        }
    }

    /// The metric of this name ([`METRICS`]); `None` also when there is no such metric.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let metric = METRICS.iter().find(|metric| metric.name == name)?;
        (metric.compute)(self)
    }

    /// The link that link metrics are of.
    pub fn bottleneck(&self) -> Option<&LinkRecord> {
        self.links.get(self.link)
    }

    /// The connections that count.
    pub fn measured(&self) -> impl Iterator<Item = &FlowRecord> {
        self.flows.iter().filter(|flow| flow.measured)
    }
}
