//! Erasure correction over several paths: one coding window over those that are about as fast, and the path
//! on which its repair symbols do most good.
//!
//! Owns: [`PathOutlook`], [`Paths`]: which paths leave the joint window, what source symbols of several paths
//! have to expect together, where a repair symbol goes. Does not own: how many there are (`redundancy/`),
//! what may leave on a path (`connection/`), which symbols travel where (`source.rs`).
//! Spec: Zverev (2023), s4.4.3 and s5.4.2.

use std::time::Duration;

use smallvec::SmallVec;

use super::{LossEstimate, monitors::Monitors, redundancy::RedundancyView};
use crate::units::PathId;

/// Round trips from a packet to its retransmission where the time threshold tells. RFC 9002 s6.1.2.
const RETRY: f64 = 9.0 / 8.0;
/// Where nothing was seen of a path, so many of a path's repair symbols are taken to be lost with the
/// source symbols they are for: runs of losses, silences and deaths of a path do not stop at a packet.
const TOGETHER: f64 = 0.15;
/// Of a path that nothing is known of, this share of packets is taken to be lost.
const ASSUMED: f64 = 0.01;
/// Packets that this assumption counts for.
const ASSUMED_PACKETS: f64 = 50.0;

/// A path that data may use, as the connection sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathOutlook {
    /// Which path.
    pub id: PathId,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// Smallest round-trip time.
    pub min_rtt: Duration,
    /// Latest round-trip time.
    pub latest_rtt: Duration,
    /// Probe timeout, without backoff.
    pub probe_timeout: Duration,
    /// What a packet that leaves now takes to the peer.
    pub one_way_delay: Duration,
    /// Bytes.
    pub congestion_window: u64,
    /// Bytes.
    pub bytes_in_flight: u64,
    /// Bytes of a full datagram.
    pub datagram_bytes: u64,
    /// Whether the window grows with every acknowledgement.
    pub slow_start: bool,
}

impl PathOutlook {
    /// Seconds until what is lost here would have come by a retransmission on this path.
    fn retry(&self) -> f64 {
        self.smoothed_rtt.as_secs_f64() * RETRY + self.way()
    }

    fn way(&self) -> f64 {
        self.one_way_delay.as_secs_f64()
    }
}

/// The source symbols under way on a path, and what becomes of them.
#[derive(Clone, Copy, Debug)]
struct Part {
    path: PathOutlook,
    /// Source symbols, at least those that are weighed with if there are none.
    sources: f64,
    loss: LossEstimate,
    /// Probability of a loss.
    rate: f64,
}

impl Part {
    fn expected(&self) -> f64 {
        self.sources * self.rate
    }
}

/// The paths that data may use, as long as there are several paths.
#[derive(Debug, Default)]
pub(super) struct Paths(SmallVec<[PathOutlook; 2]>);

impl Paths {
    pub(super) fn set(&mut self, paths: impl Iterator<Item = PathOutlook>) {
        self.0.clear();
        self.0.extend(paths);
    }

    fn get(&self, id: PathId) -> Option<&PathOutlook> {
        self.0.iter().find(|path| path.id == id)
    }

    /// Whether what leaves on a path comes later than a retransmission of something else on another: a
    /// joint window that it is in would wait for it for longer than erasure correction saves.
    pub(super) fn is_late(&self, id: PathId) -> bool {
        let earliest = self.0.iter().map(PathOutlook::retry);
        let earliest = earliest.fold(f64::INFINITY, f64::min);
        self.get(id).is_some_and(|path| path.way() > earliest)
    }

    fn joint(&self) -> impl Iterator<Item = &PathOutlook> {
        self.0.iter().filter(|path| !self.is_late(path.id))
    }

    /// The joint window, by path.
    fn parts(&self, on: &dyn Fn(PathId) -> u64, monitors: &Monitors) -> SmallVec<[Part; 2]> {
        let parts = self.joint().map(|path| {
            let loss = monitors.get(path.id).map(super::LossMonitor::estimate);
            let loss = loss.unwrap_or_default();
            let packets = loss.packets.max(0.0);
            let lost = loss.rate * packets + ASSUMED * ASSUMED_PACKETS;
            Part {
                path: *path,
                sources: on(path.id) as f64,
                loss,
                rate: (lost / (packets + ASSUMED_PACKETS)).clamp(0.0, 1.0),
            }
        });
        parts.collect()
    }

    /// The path for the next repair symbol, of those that `may`: where it is expected to help soonest, the
    /// chance that it is lost along with what it is for counted in. `None` if none may.
    pub(super) fn for_repair(
        &self,
        on: &dyn Fn(PathId) -> u64,
        monitors: &Monitors,
        may: impl Fn(PathId) -> bool,
    ) -> Option<PathId> {
        let parts = self.parts(on, monitors);
        Some(best(&parts, |part| may(part.path.id))?.path.id)
    }

    /// What a scheduler is told of the joint window. `newest`: the path of the latest source symbol, if it
    /// is about that.
    pub(super) fn describe(
        &self,
        newest: Option<PathId>,
        on: &dyn Fn(PathId) -> u64,
        monitors: &Monitors,
        view: &mut RedundancyView,
    ) {
        if self.0.is_empty() {
            return;
        }
        let mut parts = self.parts(on, monitors);
        let all: f64 = parts.iter().map(|part| part.sources).sum();
        view.expected_losses = parts.iter().map(|part| part.sources * part.loss.rate).sum();
        for part in &mut parts {
            // Where nothing is under way yet, it will be where the latest left.
            if all <= 0.0 && newest.is_none_or(|newest| newest == part.path.id) {
                part.sources = 1.0;
            }
        }
        let Some(repair) = best(&parts, |_| true).copied() else {
            return;
        };
        view.paths = u16::try_from(parts.len()).unwrap_or(u16::MAX);
        let all: f64 = parts.iter().map(|part| part.sources).sum();
        let alone = repair.sources < all / 2.0;
        view.repair_loss = alone.then_some(repair.loss);
        view.one_way_delay = repair.path.one_way_delay;
        view.congestion_window = parts.iter().map(|part| part.path.congestion_window).sum();
        view.bytes_in_flight = parts.iter().map(|part| part.path.bytes_in_flight).sum();
        view.slow_start = parts.iter().any(|part| part.path.slow_start);
        view.datagram_bytes = repair.path.datagram_bytes;
        view.loss = mixture(&parts, all);
        // Where a loss is to be expected is where time is lost.
        let expected: f64 = parts.iter().map(Part::expected).sum();
        let mean = |time: fn(&PathOutlook) -> Duration| {
            let latest = newest.and_then(|newest| self.get(newest));
            latest.map(time).unwrap_or_else(|| {
                let weighted = parts.iter().map(|part| {
                    part.expected() / expected.max(1e-12) * time(&part.path).as_secs_f64()
                });
                Duration::try_from_secs_f64(weighted.sum()).unwrap_or_default()
            })
        };
        view.smoothed_rtt = mean(|path| path.smoothed_rtt);
        view.min_rtt = mean(|path| path.min_rtt);
        view.latest_rtt = mean(|path| path.latest_rtt);
        view.probe_timeout = mean(|path| path.probe_timeout);
    }
}

/// The part on whose path a repair symbol helps soonest: when the last of the source symbols and itself are
/// there, or a retransmission later with the chance that it is lost where one of them is. Of equals that
/// with fewer source symbols.
fn best(parts: &[Part], may: impl Fn(&Part) -> bool) -> Option<&Part> {
    let expected: f64 = parts.iter().map(Part::expected).sum();
    let carrying = parts.iter().filter(|part| part.sources > 0.0);
    let last = carrying
        .clone()
        .map(|part| part.path.way())
        .fold(0.0, f64::max);
    let retry = carrying
        .map(|part| part.path.smoothed_rtt.as_secs_f64() * RETRY)
        .fold(0.0, f64::max);
    let helps = |part: &Part| {
        let own = if expected > 0.0 {
            part.expected() / expected
        } else {
            0.0
        };
        let known = part.loss.after_loss.max(0.0);
        let again = 1.0 - part.loss.arrival_after_loss.clamp(0.0, 1.0);
        let together = (again * known + TOGETHER * ASSUMED_PACKETS) / (known + ASSUMED_PACKETS);
        let lost = own * together.max(part.rate) + (1.0 - own) * part.rate;
        part.path.way().max(last) + lost * retry
    };
    let ready = parts.iter().filter(|part| may(part));
    ready.min_by(|a, b| {
        let by_time = helps(a).total_cmp(&helps(b));
        by_time.then(a.sources.total_cmp(&b.sources))
    })
}

/// The losses of the joint window as if it went over one path.
fn mixture(parts: &[Part], all: f64) -> LossEstimate {
    let weight = |part: &Part| part.sources / all.max(1e-12);
    let sum = |of: &dyn Fn(&Part) -> f64| -> f64 {
        parts.iter().map(|part| weight(part) * of(part)).sum()
    };
    let of_losses = |of: &dyn Fn(&LossEstimate) -> f64, without: f64| {
        let losses = sum(&|part| part.loss.rate);
        if losses > 0.0 {
            sum(&|part| part.loss.rate * of(&part.loss)) / losses
        } else {
            without
        }
    };
    // As many as a share among all of them would be known by as well.
    let known = |packets: &dyn Fn(&LossEstimate) -> f64| {
        let spread: f64 = parts
            .iter()
            .map(|part| weight(part).powi(2) / (packets(&part.loss).max(0.0) + 1.0))
            .sum();
        (1.0 / spread.max(1e-12) - 1.0).max(0.0)
    };
    let now_packets = known(&|loss| loss.now.1);
    let now_rate = sum(&|part| {
        if part.loss.now.1 > 0.0 {
            part.loss.now.0 / part.loss.now.1
        } else {
            0.0
        }
    });
    LossEstimate {
        packets: known(&|loss| loss.packets),
        rate: sum(&|part| part.loss.rate),
        rate_low: sum(&|part| part.loss.rate_low),
        rate_high: sum(&|part| part.loss.rate_high),
        loss_after_arrival: sum(&|part| part.loss.loss_after_arrival),
        arrival_after_loss: of_losses(&|loss| loss.arrival_after_loss, 1.0),
        burst_mean: of_losses(&|loss| loss.burst_mean, 0.0),
        burst_deviation: of_losses(&|loss| loss.burst_deviation, 0.0),
        residual: sum(&|part| part.loss.residual),
        after_loss: sum(&|part| part.loss.after_loss),
        tense: parts
            .iter()
            .any(|part| part.sources > 0.0 && part.loss.tense),
        now: (now_rate * now_packets, now_packets),
    }
}
