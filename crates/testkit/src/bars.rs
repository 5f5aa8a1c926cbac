//! What a congestion controller must show on a link: goodput under loss, shares, recovery of
//! capacity, mice.
//!
//! Owns: one function per figure, each a single run of [`Trial`]. Does not own: medians over seeds,
//! bars (tests and examples set them).

use std::time::Duration;

use tautline_sim::{LinkConfig, LossModel, PAYLOAD_SHARE};
use tautline_transport::congestion::SharedControllerFactory;

use crate::figure::{Flow, Report, Trial};

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn flow(congestion: &SharedControllerFactory) -> Flow {
    Flow::endless("newreno").with(congestion.clone())
}

/// `link`, losing this share of packets each way.
#[must_use]
pub fn lossy(mut link: LinkConfig, loss: f64) -> LinkConfig {
    let model = if loss > 0.0 {
        LossModel::uniform(loss)
    } else {
        LossModel::None
    };
    link.forward.loss = model.clone();
    link.backward.loss = model;
    link
}

/// The round trip of an empty link.
pub fn round_trip(link: &LinkConfig) -> Duration {
    link.forward.delay + link.backward.delay
}

/// Goodput of one download from `connect()` on, as a share of R, and packets the queue dropped.
pub fn goodput(
    seed: u64,
    link: &LinkConfig,
    loss: f64,
    congestion: &SharedControllerFactory,
    duration: Duration,
) -> (f64, u64) {
    let report = Trial::of(seed, lossy(link.clone(), loss), [flow(congestion)]).run(duration);
    let share = report.utilisation() / PAYLOAD_SHARE / (1.0 - loss);
    (share, report.down.dropped.queue)
}

/// Several downloads on one link.
#[derive(Clone, Debug)]
pub struct Shares {
    /// Goodputs of the interval in bits per second, in the order of the flows.
    pub rates: Vec<f64>,
    /// Jain's index over them.
    pub jain: f64,
    /// Their sum as a share of the link's rate.
    pub used: f64,
    /// Packets the queue dropped in the whole run.
    pub queue_drops: u64,
}

impl Shares {
    fn of(report: &Report, from: Duration, to: Duration) -> Self {
        let rates: Vec<f64> = report
            .flows
            .iter()
            .map(|flow| flow.goodput(from, to))
            .collect();
        let used = rates.iter().sum::<f64>() / report.bits_per_second();
        Self {
            rates,
            jain: report.jain(from, to),
            used,
            queue_drops: report.down.dropped.queue,
        }
    }

    /// The share of the flow with this index.
    pub fn share(&self, index: usize) -> f64 {
        self.rates.get(index).copied().unwrap_or_default() / self.rates.iter().sum::<f64>()
    }
}

/// Downloads that begin `gap` after each other; shares between `from` and `to`.
pub fn shares(
    seed: u64,
    link: &LinkConfig,
    flows: &[SharedControllerFactory],
    gap: Duration,
    from: Duration,
    to: Duration,
) -> Shares {
    let flows = (0u32..)
        .zip(flows)
        .map(|(index, congestion)| flow(congestion).starting(gap * index));
    Shares::of(&Trial::of(seed, link.clone(), flows).run(to), from, to)
}

/// `flows` downloads, of which all but the first are closed at 60 s: round trips from then until
/// the first one has received 90 % of the link's rate (application bytes) for a round trip.
/// Infinite when it never does within 60 s.
pub fn recovery_rounds(
    seed: u64,
    link: &LinkConfig,
    flows: usize,
    congestion: &SharedControllerFactory,
) -> f64 {
    let stop = secs(60);
    let flows = (0..flows).map(|index| {
        let flow = flow(congestion).starting(Duration::from_millis(500) * index as u32);
        if index == 0 {
            flow
        } else {
            flow.stopping(stop)
        }
    });
    let rtt = round_trip(link);
    let mut trial = Trial::of(seed, link.clone(), flows);
    trial.step = rtt / 6;
    let report = trial.run(secs(120));
    let wanted = 0.9 * report.bits_per_second();
    let Some(left) = report.flows.first() else {
        return f64::INFINITY;
    };
    let window = trial.step * 6;
    let reached = left.history.iter().map(|sample| sample.at.since_origin());
    reached
        .filter(|at| *at >= stop + window)
        .find(|at| left.goodput(*at - window, *at) >= wanted)
        .map_or(f64::INFINITY, |at| {
            (at - stop).as_secs_f64() / rtt.as_secs_f64()
        })
}

/// Seconds that a download of 1 MB takes, begun 30 to 80 s, by seed, after an endless one: how long it
/// takes depends on where in its cycle the endless one is.
pub fn mouse(
    seed: u64,
    link: &LinkConfig,
    elephant: &SharedControllerFactory,
    mouse: &SharedControllerFactory,
) -> f64 {
    let start = secs(30) + Duration::from_millis(seed % 20 * 2_600);
    let flows = [flow(elephant), flow(mouse).starting(start).of(1_000_000)];
    let report = Trial::of(seed, link.clone(), flows).run(start + secs(60));
    let finished = report.flows.get(1).and_then(|flow| flow.finished);
    finished.map_or(f64::INFINITY, |at| {
        (at.since_origin() - start).as_secs_f64()
    })
}
