//! `ecf` and `blest`: a slow path is left alone where waiting for the fast one is better.

use std::time::Duration;

use super::{Choice, PathView, Scheduler, SchedulerView, min_rtt::whole, ready, wanted};
use crate::time::Instant;

/// The fastest of the wanted paths, and the fastest of those that may send.
fn pair<'a>(view: &'a SchedulerView<'_>) -> Option<(&'a PathView, &'a PathView)> {
    let by_rtt = |path: &&PathView| path.smoothed_rtt;
    let fastest = wanted(view).min_by_key(by_rtt)?;
    let next = ready(view).min_by_key(by_rtt)?;
    Some((fastest, next))
}

/// Earliest completion first (Lim et al., CoNEXT 2017): with k bytes waiting, the slow path is used
/// only if the fast one, first having to make room, would be done with them later.
#[derive(Debug, Default)]
pub(super) struct Ecf {
    /// Whether it waits already: then a little longer, so that it does not swing.
    waiting: bool,
}

impl Ecf {
    pub(super) const NAME: &'static str = "ecf";
    /// How much earlier than the slow path the fast one must be while it waits.
    const BETA: f64 = 0.25;
}

impl Scheduler for Ecf {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(&mut self, view: &SchedulerView<'_>) -> Option<Choice> {
        let (fast, slow) = pair(view)?;
        if fast.id == slow.id {
            return Some(whole(fast));
        }
        let windows = |path: &PathView| view.waiting as f64 / path.window.max(1) as f64;
        let (rtt_f, rtt_s) = (
            fast.smoothed_rtt.as_secs_f64(),
            slow.smoothed_rtt.as_secs_f64(),
        );
        let delta = fast.rtt_variance.max(slow.rtt_variance).as_secs_f64();
        let patience = if self.waiting { 1.0 + Self::BETA } else { 1.0 };
        if (1.0 + windows(fast)) * rtt_f < patience * (rtt_s + delta) {
            // The second question: whether the slow path would be any earlier with its own rounds.
            if windows(slow).ceil() * rtt_s >= 2.0 * rtt_f + delta {
                self.waiting = true;
                return None;
            }
        } else {
            self.waiting = false;
        }
        Some(whole(slow))
    }
}

/// Blocking estimation (Ferlin et al., IFIP Networking 2016): the slow path is used only if, in the
/// time its data takes, the fast one would not run into the receiver's window.
#[derive(Debug)]
pub(super) struct Blest {
    /// Corrects the estimate of what the fast path sends.
    lambda: f64,
    /// When it was corrected last.
    corrected: Option<Instant>,
}

impl Default for Blest {
    fn default() -> Self {
        Self {
            lambda: Self::LEAST,
            corrected: None,
        }
    }
}

impl Blest {
    pub(super) const NAME: &'static str = "blest";
    /// The estimate as it is, and how much more it may be taken for.
    const LEAST: f64 = 1.0;
    const MOST: f64 = 2.0;
    /// What a round trip with blocking adds, and one without takes off.
    const STEP: f64 = 0.05;

    /// Follows the blocking that happens, once per round trip of the slow path, which is how long data there can block.
    fn correct(&mut self, view: &SchedulerView<'_>, slow: &PathView) {
        let due = |last| view.now.saturating_since(last) >= slow.smoothed_rtt;
        if !self.corrected.is_none_or(due) {
            return;
        }
        self.corrected = Some(view.now);
        let step = if view.held_back {
            Self::STEP
        } else {
            -Self::STEP
        };
        self.lambda = (self.lambda + step).clamp(Self::LEAST, Self::MOST);
    }
}

impl Scheduler for Blest {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(&mut self, view: &SchedulerView<'_>) -> Option<Choice> {
        let (fast, slow) = pair(view)?;
        if fast.id == slow.id {
            return Some(whole(fast));
        }
        self.correct(view, slow);
        let rounds = ratio(slow.smoothed_rtt, fast.smoothed_rtt);
        let datagram = fast.datagram as f64;
        let window = fast.window as f64;
        // Congestion avoidance: one datagram a round trip more.
        let sent = rounds * (window + (rounds - 1.0).max(0.0) / 2.0 * datagram);
        let blocked = sent * self.lambda + slow.in_flight as f64 + slow.datagram as f64;
        if view.more_follows && blocked > view.waiting as f64 {
            return None;
        }
        Some(whole(slow))
    }
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64().max(1e-6)
}
