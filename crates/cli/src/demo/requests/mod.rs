//! Small requests over links where a code may help: what erasure correction buys, what it costs, and
//! where it does nothing.
//!
//! Purpose: a bulk transfer has the next packets to show a loss; the last packets of a small answer
//! have nobody behind them. That is where repair symbols earn something, so that is what is shown.
//! Owns: the programs (`client`), one connection's requests and the sums over many (here), the words
//! and figures (`tell`).
//! Does not own: the network (`super::network`), when repair symbols are sent (`tautline-transport`).

mod client;
mod tell;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use tautline_lab::stats;
use tautline_sim::{Direction, LinkConfig, RunEnd, links, quic::QuicHost};
use tautline_transport::{connection::Connection, multipath::MultipathConfig, time::Instant};

pub(super) use self::tell::{Answers, answers, definitions, section, text};
use super::{
    apps::{FileServer, sender_now},
    network::{self, Network},
    payload::Payload,
};
use crate::failure::{Failure, Outcome};
use client::RequestClient;

/// Bytes of an answer, if the file has as many.
pub(super) const ANSWER_BYTES: u64 = 50_000;
/// Requests on one connection; the next ones go on a new one, with a seed of its own.
pub(super) const PER_CONNECTION: usize = 10;
/// A server looks at itself for pictures; here nobody draws it.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// Requests on one connection over one link, or several at once.
pub(super) struct Job {
    fec: Option<String>,
    controller: String,
    seed: u64,
    links: Vec<LinkConfig>,
    payload: Payload,
    count: usize,
    everything: Arc<AtomicU64>,
}

/// What all requests over one link gave, one way or the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tally {
    /// Requests to be made.
    pub(super) wanted: usize,
    /// From each request to the last byte of its answer, in milliseconds, in the order made.
    pub(super) millis: Vec<f64>,
    /// What failed, once each.
    pub(super) problems: Vec<String>,
    /// The server's packets that the link dropped, by its loss model or by a full queue.
    pub(super) dropped: u64,
    /// UDP payload bytes that the server sent.
    pub(super) bytes: u64,
    /// Stream bytes that the server sent again.
    pub(super) retransmitted: u64,
    /// Repair symbols that the server sent.
    pub(super) repairs: u64,
    /// Lost packets whose content the client recovered.
    pub(super) recovered: u64,
    /// Repair symbols that arrived and told nothing new.
    pub(super) wasted: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.wanted += other.wanted;
        self.millis.extend(other.millis);
        for problem in other.problems {
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        self.dropped += other.dropped;
        self.bytes += other.bytes;
        self.retransmitted += other.retransmitted;
        self.repairs += other.repairs;
        self.recovered += other.recovered;
        self.wasted += other.wasted;
    }

    /// Requests that were answered, every byte right.
    pub(super) fn answered(&self) -> usize {
        self.millis.len()
    }

    /// Median, 95th and 99th percentile in milliseconds. An unanswered request counts as slower than
    /// all others, so that a failure cannot make a percentile look better.
    pub(super) fn percentiles(&self) -> [Option<f64>; 3] {
        let slower = self.wanted.saturating_sub(self.millis.len());
        if slower == 0 {
            return match stats::quantiles(&self.millis, [0.5, 0.95, 0.99]) {
                Some(all) => all.map(Some),
                None => [None; 3],
            };
        }
        let sorted = stats::sorted(&self.millis);
        [0.5, 0.95, 0.99].map(|share: f64| {
            let rank = (share * self.wanted as f64).ceil() as usize;
            sorted.get(rank.saturating_sub(1)).copied()
        })
    }
}

/// One link, plain and with erasure correction.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) link: String,
    pub(super) config: LinkConfig,
    pub(super) plain: Tally,
    /// `None` if erasure correction was not asked for.
    pub(super) coded: Option<Tally>,
}

/// Requests over all links.
#[derive(Debug)]
pub(super) struct Requests {
    /// What is asked for.
    pub(super) payload: Payload,
    pub(super) controller: String,
    /// The redundancy scheduler.
    pub(super) fec: Option<String>,
    pub(super) links: Vec<Compared>,
}

impl Requests {
    /// Requests that were to be made.
    pub(super) fn wanted(&self) -> usize {
        self.tallies().map(|tally| tally.wanted).sum()
    }

    /// Requests without a right answer.
    pub(super) fn failed(&self) -> usize {
        self.tallies()
            .map(|tally| tally.wanted.saturating_sub(tally.answered()))
            .sum()
    }

    fn tallies(&self) -> impl Iterator<Item = &Tally> {
        self.links
            .iter()
            .flat_map(|it| std::iter::once(&it.plain).chain(&it.coded))
    }

    /// Everything still to be done, each to be run on its own.
    pub(super) fn jobs(
        &self,
        seed: u64,
        count: usize,
        everything: &Arc<AtomicU64>,
    ) -> Vec<(usize, Job)> {
        let mut jobs = Vec::new();
        for (link, compared) in self.links.iter().enumerate() {
            let arms = [Some(None), self.fec.clone().map(Some)];
            for fec in arms.into_iter().flatten() {
                for first in (0..count).step_by(PER_CONNECTION) {
                    let job = Job::new(
                        std::slice::from_ref(&compared.config),
                        (self.controller.clone(), fec.clone()),
                        seed.wrapping_add((first / PER_CONNECTION) as u64),
                        &self.payload,
                        PER_CONNECTION.min(count - first),
                        everything,
                    );
                    jobs.push((link, job));
                }
            }
        }
        jobs
    }

    /// Takes in what the jobs of [`Self::jobs`] gave, in their order.
    pub(super) fn take(&mut self, jobs: &[(usize, Job)], tallies: Vec<Tally>) {
        for ((link, job), tally) in jobs.iter().zip(tallies) {
            if let Some(link) = self.links.get_mut(*link) {
                match job.fec {
                    None => link.plain.add(tally),
                    Some(_) => link.coded.get_or_insert_default().add(tally),
                }
            }
        }
    }

    /// Requests for the beginning of `payload` over `links`; nothing is done yet.
    pub(super) fn new(
        payload: &Payload,
        controller: &str,
        fec: Option<&str>,
        links: &[String],
    ) -> Outcome<Self> {
        let compared = |link: &String| {
            let config = links::by_name(link)
                .ok_or_else(|| Failure::new(format!("no link is called {link}")))?;
            Ok(Compared {
                link: link.clone(),
                config,
                plain: Tally::default(),
                coded: None,
            })
        };
        Ok(Self {
            payload: payload.beginning(ANSWER_BYTES),
            controller: controller.to_owned(),
            fec: fec.map(str::to_owned),
            links: links.iter().map(compared).collect::<Outcome<_>>()?,
        })
    }
}

impl Job {
    /// `count` requests for `payload` over all `links`, with a controller and maybe a redundancy
    /// scheduler.
    pub(super) fn new(
        links: &[LinkConfig],
        (controller, fec): (String, Option<String>),
        seed: u64,
        payload: &Payload,
        count: usize,
        everything: &Arc<AtomicU64>,
    ) -> Self {
        Self {
            fec,
            controller,
            seed,
            links: links.to_vec(),
            payload: payload.clone(),
            count,
            everything: Arc::clone(everything),
        }
    }

    /// Bytes that it moves.
    pub(super) fn bytes(&self) -> u64 {
        self.payload.len() * self.count as u64
    }

    /// Makes the requests, in virtual time.
    pub(super) fn run(&self) -> Tally {
        let mut tally = Tally {
            wanted: self.count,
            ..Tally::default()
        };
        match self.build() {
            Ok(network) => self.drive(network, &mut tally),
            Err(failure) => tally.problems.push(failure.to_string()),
        }
        tally
    }

    fn build(&self) -> Outcome<Network> {
        let mut transport = network::transport_with(&self.controller, self.fec.as_deref())?;
        if self.links.len() > 1 {
            transport.multipath = Some(MultipathConfig::default());
        }
        let ways = network::ways(self.links.len());
        let everything = Arc::clone(&self.everything);
        let (digest, count) = (self.payload.digest, self.count);
        let client = |config, _| RequestClient::new(config, ways, digest, count, everything);
        let server = FileServer::new(self.payload.data.clone(), NEVER);
        network::build(self.seed, &self.links, transport, client, server)
    }

    fn drive(&self, network: Network, tally: &mut Tally) {
        let Network {
            mut world,
            client,
            server,
            links,
        } = network;
        // Generous: who needs longer hangs.
        let limit = Duration::from_secs(60 + 120 * self.count as u64);
        let end = world.run_while(
            |world| {
                let host = world.node::<QuicHost<RequestClient>>(client);
                !host.app().is_over()
            },
            Instant::ZERO + limit,
        );
        let host = world.node::<QuicHost<RequestClient>>(client);
        let receiver = host.app();
        tally.millis = receiver
            .times
            .iter()
            .map(|time| time.as_secs_f64() * 1e3)
            .collect();
        match (&receiver.problem, end) {
            (Some(problem), _) => tally.problems.push(problem.clone()),
            (None, _) if receiver.is_over() => {}
            (None, RunEnd::Stuck) => {
                let problem = "the simulation came to a standstill";
                tally.problems.push(problem.to_owned());
            }
            (None, _) => {
                let limit = limit.as_secs();
                let problem = format!("not done after {limit} simulated seconds");
                tally.problems.push(problem);
            }
        }
        let fec = receiver
            .connection()
            .and_then(|handle| host.connection(handle))
            .map(Connection::fec_stats)
            .unwrap_or_default();
        (tally.recovered, tally.wasted) = (fec.recovered, fec.wasted);
        if let Some(sender) = sender_now(world.node::<QuicHost<FileServer>>(server)) {
            tally.bytes = sender.connection.bytes_sent;
            tally.retransmitted = sender.streams.retransmitted_bytes;
            tally.repairs = sender.fec.repairs_sent;
        }
        let dropped = links
            .iter()
            .map(|link| world.link_stats(*link, Direction::Backward).dropped.total());
        tally.dropped = dropped.sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(wanted: usize, millis: &[f64]) -> Tally {
        Tally {
            wanted,
            millis: millis.to_vec(),
            ..Tally::default()
        }
    }

    #[test]
    fn an_unanswered_request_is_the_slowest() {
        let millis: Vec<f64> = (1..=100).map(f64::from).collect();
        let [median, p95, _] = tally(100, &millis).percentiles();
        assert!((50.0..=51.0).contains(&median.unwrap()));
        assert!((95.0..=96.0).contains(&p95.unwrap()));
        // Ten of 110 failed: the 95th percentile is not known.
        let [median, p95, p99] = tally(110, &millis).percentiles();
        assert_eq!((median, p95, p99), (Some(55.0), None, None));
        assert_eq!(tally(1, &[]).percentiles(), [None; 3]);
    }

    #[test]
    fn sums_keep_each_problem_once() {
        let mut sum = tally(1, &[2.0]);
        let failed = Tally {
            wanted: 1,
            problems: vec!["gone".to_owned()],
            ..Tally::default()
        };
        sum.add(failed.clone());
        sum.add(failed);
        assert_eq!((sum.wanted, sum.answered()), (3, 1));
        assert_eq!(sum.problems, ["gone"]);
    }
}
