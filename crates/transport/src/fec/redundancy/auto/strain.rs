//! Whether repair symbols for deadlines would come at the expense of the messages that they are for.
//!
//! Owns: [`Strain`], which sees messages wait for the congestion window, and a queue that grows by repair symbols.
//! Does not own: how many deadlines call for (`deadlines.rs`), what losses are forecast (`fec/loss_monitor.rs`).

use std::time::Duration;

use crate::{fec::redundancy::RedundancyView, time::Instant};

/// For how long the shortest queue is remembered, twice. A path whose delay rises for other reasons is then
/// known to have.
const BASE: Duration = Duration::from_secs(5);
/// A queue is too long that takes this part of the time that a message has beyond the way.
const PART: u32 = 5;
/// Nor is one seen that is shorter.
const LEAST: Duration = Duration::from_millis(2);
/// For how long no repair symbol leaves once they filled a queue, and at most: four times as long each time that they do
/// again.
const SHY: Duration = Duration::from_secs(4);
const MOST_SHY: Duration = Duration::from_secs(64);

/// The smallest of what was seen in a period and in the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Lowest {
    now: Option<Duration>,
    before: Option<Duration>,
    since: Option<Instant>,
}

impl Lowest {
    /// Takes in a value; the smallest of this period, or while that is young, of the one before too.
    fn note(&mut self, now: Instant, value: Duration, period: Duration) -> Duration {
        let since = *self.since.get_or_insert(now);
        let age = now.saturating_since(since);
        if age >= period {
            // Nothing of the period before counts if nothing came meanwhile.
            self.before = self.now.take().filter(|_| age < period.saturating_mul(2));
            self.since = Some(now);
        }
        let low = self.now.map_or(value, |low| low.min(value));
        self.now = Some(low);
        match self.before {
            Some(before) if age >= period || age < period / 2 => low.min(before),
            _ => low,
        }
    }
}

/// What messages suffer for their protection.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Strain {
    /// When something waited for the congestion window last.
    full: Option<Instant>,
    /// Round trips as short as they lately became.
    standing: Lowest,
    /// The shortest of those.
    base: Lowest,
    /// When a repair symbol was asked for last.
    used: Option<Instant>,
    /// Repair symbols filled a queue, and it has not emptied.
    filled: bool,
    /// None until then, and for how long that was.
    shy: Option<(Instant, Duration)>,
}

impl Strain {
    /// How long a queue has to stand to be one: messages of all sizes have left meanwhile.
    fn period(view: &RedundancyView) -> Duration {
        view.lifetime
            .unwrap_or_default()
            .max(view.smoothed_rtt.saturating_mul(2))
    }

    /// Sees how the path is.
    pub(super) fn note(&mut self, view: &RedundancyView) {
        let (now, period) = (view.now, Self::period(view));
        let room = view.congestion_window.saturating_sub(view.bytes_in_flight);
        if view.waiting_bytes > 0 && room < view.datagram_bytes.saturating_mul(2) {
            self.full = Some(now);
        }
        let standing = self.standing.note(now, view.calm_rtt, period / 2);
        let base = self.base.note(now, standing, BASE);
        let queue = standing.saturating_sub(base);
        let time = view.lifetime.unwrap_or_default();
        let limit = (time.saturating_sub(base / 2) / PART).max(LEAST);
        if queue <= limit / 2 {
            self.filled = false;
        } else if queue > limit
            && !self.filled
            && Self::is_within(self.used, now, period.saturating_mul(2))
        {
            self.filled = true;
            let shy = match self.shy {
                Some((until, shy)) if now < until + MOST_SHY => (shy * 4).min(MOST_SHY),
                _ => SHY,
            };
            self.shy = Some((now + shy, shy));
        }
    }

    fn is_within(at: Option<Instant>, now: Instant, period: Duration) -> bool {
        at.is_some_and(|at| now.saturating_since(at) < period)
    }

    /// Whether so many repair symbols that are due would make messages late: these wait for the congestion window
    /// as it is, or the next one would, or a queue grew by repair symbols not long ago.
    pub(super) fn forbids(&self, view: &RedundancyView, count: u16) -> bool {
        let takes = u64::from(count).saturating_mul(view.datagram_bytes);
        let next = view
            .bytes_in_flight
            .saturating_add(takes)
            .saturating_add(view.burst_bytes);
        next > view.congestion_window
            || Self::is_within(self.full, view.now, Self::period(view))
            || self.shy.is_some_and(|(until, _)| view.now < until)
    }

    /// Repair symbols leave.
    pub(super) fn on_repairs(&mut self, now: Instant) {
        self.used = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{at, view},
        *,
    };

    /// 25 ms one way, messages of 24 ms on the link every 40 ms, 100 ms to come; a queue of so much longer.
    fn now(ms: u64, queue: u64) -> RedundancyView {
        RedundancyView {
            now: at(ms),
            smoothed_rtt: Duration::from_millis(74 + queue),
            calm_rtt: Duration::from_millis(74 + queue),
            min_rtt: Duration::from_millis(50),
            lifetime: Some(Duration::from_millis(100)),
            ..view(4, 0.02)
        }
    }

    #[test]
    fn a_queue_of_repair_symbols_stops_them_for_longer_each_time() {
        let mut strain = Strain::default();
        let mut stops = Vec::new();
        let (mut queue, mut forbidden_since) = (0.0, None);
        for ms in (0..120_000).step_by(10) {
            let view = now(ms, queue as u64);
            strain.note(&view);
            if strain.forbids(&view, 1) {
                forbidden_since.get_or_insert(ms);
                queue = f64::max(queue - 4.0, 0.0);
            } else {
                if let Some(since) = forbidden_since.take() {
                    stops.push(ms - since);
                }
                strain.on_repairs(view.now);
                queue += 1.0;
            }
            assert!(queue < 30.0, "{ms}: {queue}");
        }
        assert_eq!(stops[..3], [4_000, 16_000, 64_000]);
    }

    #[test]
    fn messages_of_many_sizes_and_others_queues_are_no_strain() {
        let mut strain = Strain::default();
        for ms in (0..20_000).step_by(10) {
            // Every fifth message is six times as long.
            let view = now(ms, if ms / 40 % 5 == 0 { 100 } else { 0 });
            strain.note(&view);
            assert!(!strain.forbids(&view, 1), "{ms}");
            strain.on_repairs(view.now);
        }
        let mut strain = Strain::default();
        for ms in (0..20_000).step_by(10) {
            let view = now(ms, if ms > 5_000 { 60 } else { 0 });
            strain.note(&view);
            assert!(!strain.forbids(&view, 1), "none was sent: {ms}");
        }
    }

    #[test]
    fn what_waits_for_the_window_goes_first() {
        let mut strain = Strain::default();
        let mut view = now(1_000, 0);
        view.bytes_in_flight = view.congestion_window - view.datagram_bytes;
        strain.note(&view);
        assert!(!strain.forbids(&view, 1), "nothing waits");
        view.waiting_bytes = 1;
        strain.note(&view);
        assert!(strain.forbids(&view, 1));
        view.now = at(1_100);
        assert!(strain.forbids(&view, 1), "nor just after");
        view.now = at(1_200);
        assert!(!strain.forbids(&view, 1));
    }
}
