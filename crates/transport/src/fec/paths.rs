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
    /// Smallest of the newest samples of it.
    pub calm_rtt: Duration,
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

    /// The chance that a repair symbol right behind the source symbols is lost in the run that took one of them, whichever
    /// that is: runs go on with packets, and most of these left some packets ago.
    fn in_one_run(&self) -> f64 {
        let ends = self.loss.arrival_after_loss.clamp(1e-3, 1.0);
        let (again, packets) = (1.0 - ends, self.sources.max(1.0));
        let all = again * (1.0 - again.powf(packets)) / ends;
        all / packets
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

    /// Whether packets may overtake each other by as much as paths differ.
    pub(super) fn are_several(&self) -> bool {
        self.0.len() > 1
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

    /// The losses of the joint window as if it went over one path. `None` where no paths are known to choose from.
    /// `newest`: the path of the latest source symbol.
    pub(super) fn loss(
        &self,
        newest: PathId,
        on: &dyn Fn(PathId) -> u64,
        monitors: &Monitors,
    ) -> Option<LossEstimate> {
        let mut parts = self.parts(on, monitors);
        let joins = parts.iter().any(|part| part.path.id == newest);
        weigh(&mut parts, Some(newest).filter(|_| joins));
        let all: f64 = parts.iter().map(|part| part.sources).sum();
        (!parts.is_empty()).then(|| mixture(&parts, all))
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
        view.expected_losses = parts.iter().map(|part| part.sources * part.loss.rate).sum();
        weigh(&mut parts, newest);
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
        view.calm_rtt = mean(|path| path.calm_rtt);
        view.probe_timeout = mean(|path| path.probe_timeout);
    }
}

/// Where nothing is under way yet, it will be where the latest left; on any path where that is unknown.
fn weigh(parts: &mut [Part], newest: Option<PathId>) {
    let all: f64 = parts.iter().map(|part| part.sources).sum();
    for part in parts {
        if all <= 0.0 && newest.is_none_or(|newest| newest == part.path.id) {
            part.sources = 1.0;
        }
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
        let again = known * part.in_one_run() + ASSUMED_PACKETS * TOGETHER;
        let together = again / (known + ASSUMED_PACKETS);
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
    let counted = |of: &dyn Fn(&LossEstimate) -> (f64, f64)| {
        let packets = known(&|loss| of(loss).1);
        let rate = sum(&|part| match of(&part.loss) {
            (losses, packets) if packets > 0.0 => losses / packets,
            _ => 0.0,
        });
        (rate * packets, packets)
    };
    LossEstimate {
        packets: known(&|loss| loss.packets),
        rate: sum(&|part| part.loss.rate),
        rate_low: sum(&|part| part.loss.rate_low),
        rate_high: sum(&|part| part.loss.rate_high),
        loss_after_arrival: sum(&|part| part.loss.loss_after_arrival),
        arrival_after_loss: of_losses(&|loss| loss.arrival_after_loss, 1.0),
        burst_mean: of_losses(&|loss| loss.burst_mean, 0.0),
        burst_deviation: of_losses(&|loss| loss.burst_deviation, 0.0),
        bursts: sum(&|part| part.loss.bursts),
        residual: sum(&|part| part.loss.residual),
        symbols: sum(&|part| part.loss.symbols),
        after_loss: sum(&|part| part.loss.after_loss),
        tense: parts
            .iter()
            .any(|part| part.sources > 0.0 && part.loss.tense),
        now: counted(&|loss| loss.now),
        calm: counted(&|loss| loss.calm),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn path(id: u32, way: u32) -> PathOutlook {
        PathOutlook {
            id: PathId(id),
            smoothed_rtt: 2 * way * MS,
            min_rtt: 2 * way * MS,
            calm_rtt: 2 * way * MS,
            probe_timeout: 3 * way * MS,
            one_way_delay: way * MS,
            congestion_window: 50_000,
            bytes_in_flight: 10_000,
            datagram_bytes: 1_250,
            slow_start: false,
        }
    }

    fn paths(all: &[PathOutlook]) -> Paths {
        let mut paths = Paths::default();
        paths.set(all.iter().copied());
        paths
    }

    /// A path that lost every `nth` of its packets so far; none with 0.
    fn lossy(monitors: &mut Monitors, id: u32, nth: u64) {
        let monitor = monitors.of(PathId(id));
        for number in 0..2_000 {
            monitor.on_sent(number);
            if nth > 0 && number % nth == 0 {
                monitor.on_lost(number);
            } else {
                monitor.on_acked(number);
            }
        }
        monitor.review();
    }

    fn on(counts: &'static [u64]) -> impl Fn(PathId) -> u64 {
        move |id| counts.get(id.0 as usize).copied().unwrap_or(0)
    }

    #[test]
    fn repair_goes_where_the_sources_did_not() {
        let monitors = Monitors::default();
        let two = paths(&[path(0, 50), path(1, 50)]);
        let chosen = |counts, may: fn(PathId) -> bool| two.for_repair(&on(counts), &monitors, may);
        assert_eq!(chosen(&[10, 0], |_| true), Some(PathId(1)));
        assert_eq!(chosen(&[0, 10], |_| true), Some(PathId(0)));
        // The same, if it is the only one with room; none without.
        assert_eq!(chosen(&[10, 0], |id| id == PathId(0)), Some(PathId(0)));
        assert_eq!(chosen(&[10, 0], |_| false), None);
    }

    #[test]
    fn a_longer_or_lossier_way_must_be_worth_it() {
        let mut monitors = Monitors::default();
        let chosen = |ways: [u32; 2], monitors: &Monitors| {
            let two = paths(&[path(0, ways[0]), path(1, ways[1])]);
            two.for_repair(&on(&[10, 0]), monitors, |_| true)
        };
        assert_eq!(chosen([50, 55], &monitors), Some(PathId(1)));
        assert_eq!(chosen([50, 80], &monitors), Some(PathId(0)));
        lossy(&mut monitors, 0, 50);
        lossy(&mut monitors, 1, 2);
        assert_eq!(chosen([50, 50], &monitors), Some(PathId(0)));
    }

    #[test]
    fn a_run_of_losses_is_over_for_most_of_what_left_before() {
        let mut monitors = Monitors::default();
        // Runs of two on average on the path of most packets; the other one is a third longer, and loses as many.
        for id in [0, 1] {
            let monitor = monitors.of(PathId(id));
            for number in 0..2_000 {
                monitor.on_sent(number);
                if number % 100 < 2 {
                    monitor.on_lost(number);
                } else {
                    monitor.on_acked(number);
                }
            }
            monitor.review();
        }
        let two = paths(&[path(0, 150), path(1, 200)]);
        let chosen = |counts| two.for_repair(&on(counts), &monitors, |_| true);
        assert_eq!(chosen(&[20, 0]), Some(PathId(0)));
        // Right behind one packet it goes on.
        assert_eq!(chosen(&[1, 0]), Some(PathId(1)));
    }

    #[test]
    fn a_path_that_comes_too_late_leaves_the_window() {
        let monitors = Monitors::default();
        let far = paths(&[path(0, 20), path(1, 200)]);
        assert!(far.is_late(PathId(1)) && !far.is_late(PathId(0)));
        assert_eq!(
            far.for_repair(&on(&[10, 10]), &monitors, |_| true),
            Some(PathId(0))
        );
        assert_eq!(
            far.for_repair(&on(&[10, 10]), &monitors, |id| id == PathId(1)),
            None
        );
        let near = paths(&[path(0, 20), path(1, 60)]);
        assert!(!near.is_late(PathId(1)));
        // Whoever is alone is never late, nor is a path that nobody told of.
        let alone = paths(&[path(1, 200)]);
        assert!(!alone.is_late(PathId(1)) && !alone.is_late(PathId(7)));
    }

    #[test]
    fn each_path_is_expected_to_lose_its_share() {
        let mut monitors = Monitors::default();
        lossy(&mut monitors, 0, 0);
        lossy(&mut monitors, 1, 20);
        let mut view = RedundancyView::default();
        let two = paths(&[path(0, 50), path(1, 60)]);
        two.describe(None, &on(&[30, 10]), &monitors, &mut view);
        assert!((view.expected_losses - 0.5).abs() < 0.01, "{view:?}");
        assert!((view.loss.rate - 0.0125).abs() < 1e-3, "{:?}", view.loss);
        assert_eq!((view.paths, view.congestion_window), (2, 100_000));
        // Nearly all of what is lost is lost on the path of 120 ms.
        assert!(view.smoothed_rtt > 110 * MS, "{:?}", view.smoothed_rtt);
        // Repair symbols take the path that loses nothing, as most packets do.
        assert!(view.repair_loss.is_none());
        assert_eq!(view.one_way_delay, 50 * MS);
        // Who asks for the losses alone is told the same; with nothing under way, those of the newest path.
        let rate = |newest, counts| {
            let loss = two.loss(PathId(newest), &on(counts), &monitors);
            loss.unwrap().rate
        };
        assert_eq!(rate(0, &[30, 10]), view.loss.rate);
        assert!(rate(0, &[]) < 1e-3 && (rate(1, &[]) - 0.05).abs() < 1e-3);
        assert!((rate(7, &[]) - 0.025).abs() < 1e-3);
        two.describe(Some(PathId(0)), &on(&[5, 30]), &monitors, &mut view);
        assert!(view.repair_loss.is_some_and(|loss| loss.rate < 1e-3));
        assert_eq!(view.smoothed_rtt, 100 * MS);
    }

    #[test]
    fn without_several_paths_nothing_is_told() {
        let mut view = RedundancyView::default();
        let monitors = Monitors::default();
        Paths::default().describe(None, &on(&[1]), &monitors, &mut view);
        let none = Paths::default().loss(PathId(0), &on(&[1]), &monitors);
        assert!(none.is_none());
        assert_eq!((view.paths, view.smoothed_rtt), (0, Duration::ZERO));
        assert_eq!(
            Paths::default().for_repair(&on(&[1]), &monitors, |_| true),
            None
        );
    }

    #[test]
    fn odd_paths_are_harmless() {
        let monitors = Monitors::default();
        let mut endless = path(0, 1);
        (endless.smoothed_rtt, endless.one_way_delay) = (Duration::MAX, Duration::MAX);
        for all in [[endless, path(1, 0)], [endless, endless]] {
            for counts in [&[0, 0], &[u64::MAX / 2, u64::MAX / 2]] {
                let mut view = RedundancyView::default();
                paths(&all).describe(None, &on(counts), &monitors, &mut view);
                assert!(
                    paths(&all)
                        .for_repair(&on(counts), &monitors, |_| true)
                        .is_some()
                );
            }
        }
    }
}
