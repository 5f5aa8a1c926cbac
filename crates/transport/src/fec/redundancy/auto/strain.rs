//! Whether repair symbols for deadlines would come at the expense of the messages that they are for.
//!
//! Owns: [`Strain`], which sees messages wait for the congestion window, and a queue that grows by repair symbols.
//! Does not own: how many deadlines call for (`deadlines.rs`), what losses are forecast (`fec/loss_monitor.rs`).

use std::time::Duration;

use super::{lately::Lately, shy::Shy};
use crate::{fec::redundancy::RedundancyView, time::Instant};

/// For how long the shortest queue is remembered, twice. A path whose delay rises for other reasons is then
/// known to have.
const BASE: Duration = Duration::from_secs(5);
/// For how long it is remembered what messages make of it alone, twice: less than a queue of repair symbols is given to empty.
const ALONE: Duration = Duration::from_secs(1);
/// A queue is too long that takes such a part of the time that a message has beyond the way.
const PART: u32 = 5;
/// Nor is one seen that is shorter.
const LEAST: Duration = Duration::from_millis(2);
/// As many other packets for each repair symbol of this connection, at most, come to a queue that grows by repair symbols.
const OTHERS: f64 = 4.0;
/// A queue that would be longer than what left could make it has stood for so long, and is no chance.
const STANDS: Duration = Duration::from_secs(1);
/// For how long none leaves once several at a time filled a queue, which is given to empty: from then on half as many
/// leave at a time.
const PAUSE: Duration = Duration::from_secs(2);
/// For how long so few do: frames that fill the window of a connection's first seconds say little of the rest.
const FEWER: Duration = Duration::from_secs(16);

/// What messages suffer for their protection.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Strain {
    /// When something waited for the congestion window last.
    full: Option<Instant>,
    /// Bytes of the burst that leaves, and of the one before.
    burst: (u64, u64),
    /// Round trips as short as they lately became.
    standing: Lately,
    /// The shortest of those.
    base: Lately,
    /// The longest of those where messages left without repair symbols, lately, and what it was last: a slow link takes
    /// so long for the messages themselves.
    alone: (Lately, Duration),
    /// When repair symbols were asked for last, and how many at a time at most since they filled a queue.
    used: Option<(Instant, u16)>,
    /// Seconds that the link takes for a packet, at most, where delays vary.
    packet: Option<f64>,
    /// When the queue was last short, and repair symbols since then.
    short: Option<Instant>,
    since_short: u32,
    /// Repair symbols filled a queue, and it has not emptied.
    filled: bool,
    /// None leaves that filled a queue.
    shy: Shy,
    /// At most so many at a time, until then.
    most: Option<(Instant, u16)>,
}

impl Strain {
    /// How long a queue has to stand to be one: messages of all sizes have left meanwhile.
    fn period(view: &RedundancyView) -> Duration {
        view.lifetime
            .unwrap_or_default()
            .max(view.smoothed_rtt.saturating_mul(2))
    }

    /// Delays vary on the way, whose link takes at most so many seconds for a packet; `None` if they do not as far as is known.
    pub(super) fn on_link(&mut self, packet: Option<f64>) {
        self.packet = packet;
    }

    /// Sees how the path is. Whether repair symbols have just filled a queue.
    pub(super) fn note(&mut self, view: &RedundancyView) -> bool {
        let (now, period) = (view.now, Self::period(view));
        let room = view.congestion_window.saturating_sub(view.bytes_in_flight);
        if view.waiting_bytes > 0 && room < view.datagram_bytes.saturating_mul(2) {
            self.full = Some(now);
        }
        if view.burst_bytes < self.burst.0 {
            self.burst.1 = self.burst.0;
        }
        self.burst.0 = view.burst_bytes;
        let (shortest, longest) = (<Duration as Ord>::min, <Duration as Ord>::max);
        let standing = self.standing.note(now, view.calm_rtt, period / 2, shortest);
        let base = self.base.note(now, standing, BASE, shortest);
        let used = self.used.map(|(at, _)| at);
        let lately = Self::is_within(used, now, period.saturating_mul(2));
        // Round trips of several paths do not tell what messages take of one.
        if !lately && !view.several {
            // What repair symbols filled may not have emptied.
            let filled = self.shy.is_remembered(now);
            let (alone, level) = &mut self.alone;
            let news = alone.note(now, standing, ALONE, longest);
            *level = if filled { news.min(*level) } else { news };
        }
        let queue = standing.saturating_sub(base.max(self.alone.1));
        let time = view.lifetime.unwrap_or_default();
        let limit = (time.saturating_sub(base / 2) / PART).max(LEAST);
        if queue <= limit / 2 {
            self.filled = false;
            (self.short, self.since_short) = (Some(now), 0);
        } else if queue > limit && !self.filled && lately && self.is_of_packets(now, limit / 2) {
            self.filled = true;
            self.on_filled(now, view.several);
            return true;
        }
        false
    }

    /// Whether a queue that has grown by so much may be what left since it was short, rather than a delay that varies.
    fn is_of_packets(&self, now: Instant, grown: Duration) -> bool {
        let stands = self
            .short
            .is_none_or(|at| now.saturating_since(at) >= STANDS);
        let take = |packet| f64::from(self.since_short) * (1.0 + OTHERS) * packet;
        stands
            || self
                .packet
                .is_none_or(|packet| take(packet) >= grown.as_secs_f64())
    }

    fn on_filled(&mut self, now: Instant, several: bool) {
        let fewer = self
            .used
            .as_mut()
            .map_or(0, |(_, count)| std::mem::take(count) / 2);
        if fewer > 0 && !several {
            self.most = Some((now + FEWER, fewer));
            self.shy.pause(now, PAUSE);
        } else {
            self.shy.give_up(now);
        }
    }

    fn is_within(at: Option<Instant>, now: Instant, period: Duration) -> bool {
        at.is_some_and(|at| now.saturating_since(at) < period)
    }

    /// How many of so many repair symbols that are due may leave without making messages late: none while these wait
    /// for the congestion window, or the next one would, nor not long after they filled a queue.
    pub(super) fn allows(&self, view: &RedundancyView, count: u16) -> u16 {
        let (now, period) = (view.now, Self::period(view));
        if self.shy.is_now(now) || Self::is_within(self.full, now, period) {
            return 0;
        }
        let most = self.most.filter(|(until, _)| now < *until);
        let count = most.map_or(count, |(_, most)| count.min(most));
        let takes = u64::from(count).saturating_mul(view.datagram_bytes);
        let burst = if view.several {
            view.burst_bytes
        } else {
            self.burst.0.max(self.burst.1)
        };
        let next = view
            .bytes_in_flight
            .saturating_add(takes)
            .saturating_add(burst);
        if next > view.congestion_window {
            return 0;
        }
        count
    }

    /// So many repair symbols leave.
    pub(super) fn on_repairs(&mut self, now: Instant, count: u16) {
        let most = self.used.map_or(0, |(_, count)| count);
        self.used = Some((now, count.max(most)));
        self.since_short = self.since_short.saturating_add(count.into());
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{at, view},
        *,
    };
    use crate::rng::Rng;

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

    fn forbids(strain: &Strain, view: &RedundancyView) -> bool {
        strain.allows(view, 1) == 0
    }

    #[test]
    fn a_queue_of_repair_symbols_stops_them_for_longer_each_time() {
        let mut strain = Strain::default();
        let mut stops = Vec::new();
        let (mut queue, mut forbidden_since) = (0.0, None);
        for ms in (0..120_000).step_by(10) {
            let view = now(ms, queue as u64);
            strain.note(&view);
            if forbids(&strain, &view) {
                forbidden_since.get_or_insert(ms);
                queue = f64::max(queue - 4.0, 0.0);
            } else {
                if let Some(since) = forbidden_since.take() {
                    stops.push(ms - since);
                }
                strain.on_repairs(view.now, 1);
                queue += 1.0;
            }
            assert!(queue < 30.0, "{ms}: {queue}");
        }
        assert_eq!(stops[..3], [4_000, 16_000, 64_000]);
    }

    #[test]
    fn several_at_a_time_become_fewer_before_none_leave() {
        let mut strain = Strain::default();
        let mut queue = 0.0;
        let mut counts = Vec::new();
        for ms in (0..FEWER.as_millis() as u64).step_by(10) {
            let view = now(ms, queue as u64);
            strain.note(&view);
            let count = strain.allows(&view, 4);
            queue = f64::max(queue - 1.0, 0.0);
            if count > 0 {
                strain.on_repairs(view.now, count);
                // There is room for one each time.
                queue += f64::from(count);
                counts.push(count);
            }
        }
        counts.dedup();
        assert_eq!(counts, [4, 2, 1]);
    }

    /// Round trips that vary by 40 ms, as a jitter of 10 ms makes them, over a fast link.
    #[test]
    fn delays_that_vary_are_no_queue_of_repair_symbols() {
        let stops = |packet| {
            let mut strain = Strain::default();
            strain.on_link(packet);
            let seed = 1;
            let mut rng = Rng::from_u64(seed);
            let ticks = (0..60_000).step_by(10);
            let forbidden = ticks.filter(|&ms| {
                let longer = if ms % 2_000 < 100 { 0 } else { rng.below(40) };
                let view = now(ms, longer);
                strain.note(&view);
                let forbids = forbids(&strain, &view);
                if !forbids && ms > 2_000 {
                    strain.on_repairs(view.now, 1);
                }
                forbids
            });
            forbidden.count()
        };
        assert_eq!(stops(Some(1e-5)), 0);
        assert!(stops(None) > 0, "it passes for one where nobody tells");
    }

    #[test]
    fn a_queue_that_stands_is_one_even_where_delays_vary() {
        let mut strain = Strain::default();
        strain.on_link(Some(1e-5));
        for ms in (0..3_300).step_by(10) {
            let view = now(ms, if ms < 2_000 { 0 } else { 60 });
            strain.note(&view);
            if forbids(&strain, &view) {
                assert!((3_000..3_300).contains(&ms), "{ms}");
                return;
            }
            strain.on_repairs(view.now, 1);
        }
        panic!("it went on");
    }

    #[test]
    fn over_several_paths_none_leave_once_they_filled_a_queue() {
        let mut strain = Strain::default();
        let mut several = now(0, 0);
        several.several = true;
        strain.note(&several);
        strain.on_repairs(several.now, 4);
        for ms in (10..400).step_by(10) {
            let view = RedundancyView {
                several: true,
                ..now(ms, 60)
            };
            strain.note(&view);
            strain.on_repairs(view.now, 4);
        }
        let then = |ms| RedundancyView {
            several: true,
            ..now(ms, 0)
        };
        assert_eq!(strain.allows(&then(400), 4), 0);
        assert_eq!(strain.allows(&then(3_000), 4), 0, "longer than a pause");
        assert_eq!(strain.allows(&then(4_400), 4), 4, "as many as before");
    }

    /// The shortest round trip may be that of a packet without a message in it.
    #[test]
    fn what_the_link_takes_for_messages_alone_is_no_queue() {
        let mut strain = Strain::default();
        for ms in (0..20_000).step_by(10) {
            let view = now(ms, if ms % 3_000 < 100 { 0 } else { 24 });
            strain.note(&view);
            assert!(!forbids(&strain, &view), "{ms}");
            if ms > 2_000 {
                strain.on_repairs(view.now, 1);
            }
        }
    }

    #[test]
    fn messages_of_many_sizes_and_others_queues_are_no_strain() {
        let mut strain = Strain::default();
        for ms in (0..20_000).step_by(10) {
            // Every fifth message is six times as long.
            let view = now(ms, if ms / 40 % 5 == 0 { 100 } else { 0 });
            strain.note(&view);
            assert!(!forbids(&strain, &view), "{ms}");
            strain.on_repairs(view.now, 1);
        }
        let mut strain = Strain::default();
        for ms in (0..20_000).step_by(10) {
            let view = now(ms, if ms > 5_000 { 60 } else { 0 });
            strain.note(&view);
            assert!(!forbids(&strain, &view), "none was sent: {ms}");
        }
    }

    #[test]
    fn what_waits_for_the_window_goes_first() {
        let mut strain = Strain::default();
        let mut view = now(1_000, 0);
        view.bytes_in_flight = view.congestion_window - view.datagram_bytes;
        strain.note(&view);
        assert!(!forbids(&strain, &view), "nothing waits");
        view.waiting_bytes = 1;
        strain.note(&view);
        assert!(forbids(&strain, &view));
        view.now = at(1_100);
        assert!(forbids(&strain, &view), "nor just after");
        view.now = at(1_200);
        assert!(!forbids(&strain, &view));
        // The next message may be as large as the one before.
        view.burst_bytes = 2 * view.datagram_bytes;
        strain.note(&view);
        (view.now, view.burst_bytes, view.waiting_bytes) = (at(1_400), 0, 0);
        strain.note(&view);
        view.bytes_in_flight = view.congestion_window - 3 * view.datagram_bytes;
        assert_eq!(strain.allows(&view, 1), 1);
        assert_eq!(strain.allows(&view, 2), 0);
    }
}
