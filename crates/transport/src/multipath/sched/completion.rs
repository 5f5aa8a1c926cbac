//! `earliest-completion`, `auto` and `redundant`: schedulers that ask when data would arrive.
//!
//! The model: path i delivers what leaves at time t at t + d_i, where d_i is half its smoothed round
//! trip and the queue before it. In t seconds it takes X_i(t) bytes: its rate where there is a queue,
//! its room at once and then its rate where there is none, or, while its window doubles every round
//! trip, its room and twice the window per doubling; never more than its pacer lets leave. With W bytes
//! waiting (and where flow control holds data back, those that it will let go for what is under way), all are delivered by the earliest T at which the X_i(T - d_i) add up to W, and path i's part
//! of them is X_i(T - d_i). A path that could not deliver anything by T is left alone: whatever it
//! carried would come after everything else. Asked anew before every batch, the parts correct
//! themselves. This is the water-filling behind Wu, chapter 4 (eq. 4.1-4.10), with the growth of the
//! window in it, and with a doubt about what grows: beside the best path, one in slow start is expected
//! as late as if it did no more than it has done, and where it tries much more than that, beside one that is faster for
//! certain, as if its queue dropped what it carries.

use std::{cell::LazyCell, f64::consts::LN_2, time::Duration};

use smallvec::SmallVec;

use super::{
    Choice, MOST_DOUBT, PathView, Repeats, Scheduler, SchedulerView, min_rtt::whole, ready, wanted,
};
use crate::congestion::USUAL_PACKETS;

/// Halvings of the search for T: from an hour to below a millisecond's hundredth.
const STEPS: u32 = 40;
/// The search ends at this many seconds.
const PRECISION: f64 = 1e-5;
/// More than rounding makes of a number.
const SURELY: f64 = 1.001;
/// No transfer is planned beyond this.
const HORIZON: f64 = 3_600.0;
/// A window that doubles more often than this is no forecast any more.
const MAX_DOUBLINGS: f64 = 10.0;
/// How uncertain arrivals are is no more than this part of the shortest round trip: what round trips differ by
/// beyond that is a queue of our own, and accounted for.
const UNCERTAIN: u32 = 8;
/// A wait that comes seldom and is long is worse than its mean says: whoever waits for messages feels the
/// longest. With 1, two equal Wi-Fi paths of which one stands still a twentieth of the time share messages
/// 31 to 69, and the 99th percentile is thrice that of the steady path alone; with 8 it is that.
const STANDSTILL: f64 = 8.0;
/// Packets that a pacer lets leave together.
const BATCH: u64 = 2;
/// A receive window is tight that is less than so many times what the paths hold. Any queue on one of them is missing on
/// another then, so that every datagram has its path chosen for itself.
const TIGHT: f64 = 1.5;

/// Slow start overfills a queue with more than so many times what the path holds in flight...
const OVERFILLS: f64 = 1.5;
/// ...and twice that after so many round trips of it: a queue empties meanwhile, but jitter that passed for one stays, and
/// who never tries more never finds out.
const PATIENCE: f64 = 8.0;

/// More in flight than so many times what is proven may be more than a path and its queue hold.
const RISKY: f64 = 1.5;
/// What is dropped there arrives so many round trips later.
const REPAIRED: f64 = 2.0;
/// It need not be risked where another path delivers more than so many times what is proven.
const LESSER: f64 = 4.0;

/// What one path can do, in seconds and bytes.
struct Course {
    delay: f64,
    /// Bytes that may leave at once.
    room: f64,
    /// Bytes a second after that.
    rate: f64,
    /// Window and round trip, while it doubles.
    doubling: Option<(f64, f64)>,
    /// Seconds for which the pacer lets nothing leave, the bytes that leave together then, and bytes a second.
    held: f64,
    batch: f64,
    pace: f64,
    /// What leaves only makes the queue longer.
    queues: bool,
    /// Slow start has put so much into the queue that more would be dropped, and hold up the rest; what has
    /// passed before is not, however long the queue that jitter makes believe. The first path is filled all
    /// the same, if there is none that delivers twice as much.
    overfills: bool,
}

impl Course {
    /// `standstill`: how many times the wait that it may expect is held against the path.
    fn new(path: &PathView, standstill: f64) -> Self {
        let rtt = path.recent_rtt.as_secs_f64().max(1e-6);
        let window = path.window.max(path.datagram) as f64;
        let (delay, queues) = path.delay_and_queue();
        Self {
            // What is lost arrives two round trips later, and what meets a standstill after that.
            delay: delay.as_secs_f64()
                + 2.0 * path.loss * rtt
                + standstill * path.standstill.mean_wait.as_secs_f64(),
            room: path.takes() as f64,
            rate: path.rate.bits_per_second() as f64 / 8.0,
            doubling: (path.slow_start && path.capacity.is_none()).then_some((window, rtt)),
            held: path.wait.as_secs_f64(),
            batch: (BATCH * path.datagram) as f64,
            pace: path.pacing.bits_per_second() as f64 / 8.0,
            queues,
            overfills: path.slow_start
                && path.in_flight > path.most_passed
                && path.capacity.is_some_and(|capacity| {
                    let holds = capacity.bytes_in(path.min_rtt) as f64;
                    let patience = f64::from(path.rounds_exceeded) / PATIENCE;
                    path.in_flight as f64 > OVERFILLS * holds * patience.min(MAX_DOUBLINGS).exp2()
                }),
        }
    }

    /// Bytes delivered within `seconds`.
    fn delivered(&self, seconds: f64) -> f64 {
        let sending = seconds - self.delay;
        if sending < 0.0 {
            return 0.0;
        }
        let (taken, paced) = match self.doubling {
            Some((window, rtt)) => {
                let doublings = (sending / rtt).min(MAX_DOUBLINGS);
                let beyond = (sending - doublings * rtt).max(0.0);
                let grown = doublings.exp2();
                let taken =
                    self.room + 2.0 * window * (grown - 1.0) + beyond * grown * window / rtt;
                // The pace doubles, too: seconds at today's pace that this is worth.
                (taken, rtt * (grown - 1.0) / LN_2 + beyond * grown)
            }
            None if self.queues => (self.rate * sending, sending),
            None => {
                let room = self.room.min(self.rate * sending.max(self.delay));
                (room + self.rate * sending, sending)
            }
        };
        taken.min((self.batch + self.pace * (paced - self.held)).max(0.0))
    }

    /// Seconds within which `bytes` are delivered for certain: what is at once in the window is left out,
    /// and a window that doubles, with its pace, taken for one that stays. The pacer's wait comes before.
    fn surely(&self, bytes: f64) -> f64 {
        let rate = self
            .doubling
            .map_or(self.rate, |(window, rtt)| window / rtt);
        self.delay + bytes / rate.min(self.pace) + self.held
    }
}

/// Bytes that a path has shown that it can deliver within a round trip, while slow start tries what it can.
fn proven(path: &PathView) -> Option<u64> {
    let tries = path.slow_start && path.capacity.is_none();
    tries.then(|| {
        path.most_passed
            .max(u64::from(USUAL_PACKETS) * path.datagram)
    })
}

/// How much later data may arrive than expected that leaves while more is in flight than is proven: as much
/// as if the path did no more. Its queue would be seen only a round trip from now.
fn doubt(path: &PathView) -> f64 {
    proven(path).map_or(0.0, |proven| {
        let beyond = path.in_flight as f64 / proven as f64 - 1.0;
        path.min_rtt.as_secs_f64() * beyond.clamp(0.0, MOST_DOUBT)
    })
}

/// How much later data arrives if the queue of a path in slow start drops it, where another path delivers `certain`
/// bytes a second: round trips tell of a full queue only when it has overflowed, and of what was dropped there nothing
/// is known before what left ahead of it has passed. A path that has shown more than a part of what the other does is
/// worth that.
fn risk(path: &PathView, certain: f64) -> f64 {
    let Some(proven) = proven(path) else {
        return 0.0;
    };
    let (round_trip, proven) = (path.min_rtt.as_secs_f64(), proven as f64);
    let risky = path.in_flight as f64 > RISKY * proven && LESSER * proven < certain * round_trip;
    if risky { REPAIRED * round_trip } else { 0.0 }
}

/// Data on a path beside the best one must be sure to arrive in time. The best is the one that would be the first to
/// have delivered everything if none did more than is proven; what is in flight beyond that is held against a path
/// only where another has proven what it can.
fn doubt_all_but_the_best(paths: &mut [(&PathView, Course)], bytes: f64) {
    if paths.iter().all(|(path, _)| doubt(path) == 0.0) {
        return;
    }
    let certain = paths.iter().any(|(path, _)| proven(path).is_none());
    let alone = |(path, course): &(&PathView, Course)| {
        let rtt = path.min_rtt.as_secs_f64().max(1e-6);
        let rate = proven(path).map_or(course.rate, |proven| proven as f64 / rtt);
        let doubt = if certain { doubt(path) } else { 0.0 };
        course.delay + doubt + bytes / rate.max(1.0)
    };
    let best = paths
        .iter()
        .min_by(|a, b| alone(a).total_cmp(&alone(b)))
        .map(|(path, _)| path.id);
    for (path, course) in paths {
        if Some(path.id) != best {
            course.delay += doubt(path);
        }
    }
}

/// Bytes delivered within `time` by a path that does no more than it has shown.
fn shown(path: &PathView, course: &Course, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    let delivered = course.delivered(seconds);
    if course.doubling.is_none() {
        return delivered;
    }
    let took = path.smoothed_rtt.max(path.recent_rtt).as_secs_f64();
    let rate = path.most_passed as f64 / took.max(1e-6);
    delivered.min(rate * (seconds - course.delay).max(0.0))
}

/// Bytes delivered over some paths within `seconds`.
fn delivered<'a>(courses: impl Iterator<Item = &'a Course>, seconds: f64) -> f64 {
    courses.map(|course| course.delivered(seconds)).sum()
}

/// When `bytes` could all be delivered over some paths, in seconds from now; late by less than
/// [`PRECISION`].
fn completion<'a>(courses: impl Iterator<Item = &'a Course> + Clone, bytes: f64) -> f64 {
    let (mut low, mut high) = (0.0, HORIZON);
    // By then one path alone has delivered them.
    let alone = courses.clone().map(|course| course.surely(bytes));
    let surely = SURELY * alone.fold(f64::INFINITY, f64::min);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if middle > surely || delivered(courses.clone(), middle) >= bytes {
            high = middle;
        } else {
            low = middle;
        }
        if high - low < PRECISION {
            break;
        }
    }
    high
}

/// Whether [`completion`] comes after `seconds`; the search itself decides only what is close.
fn completes_after<'a>(
    courses: impl Iterator<Item = &'a Course> + Clone,
    bytes: f64,
    seconds: f64,
) -> bool {
    if seconds < HORIZON && delivered(courses.clone(), seconds) < bytes {
        return true;
    }
    delivered(courses.clone(), seconds - 2.0 * PRECISION) < bytes
        && seconds < completion(courses, bytes)
}

/// Everything waiting is spread so that its last byte arrives as early as it can.
#[derive(Debug, Default)]
pub(super) struct EarliestCompletion;

impl EarliestCompletion {
    pub(super) const NAME: &'static str = "earliest-completion";
}

impl Scheduler for EarliestCompletion {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(&mut self, view: &SchedulerView<'_>) -> Option<Choice> {
        spread(view, Duration::ZERO, STANDSTILL)
    }
}

/// The ready path by which data arrives first, if a part of what waits falls to it. A path other than the
/// fastest must be `margin` earlier with what it carries than the others would be with everything.
fn spread(view: &SchedulerView<'_>, margin: Duration, standstill: f64) -> Option<Choice> {
    let mut paths: SmallVec<[(&PathView, Course); 8]> = wanted(view)
        .map(|path| (path, Course::new(path, standstill)))
        .collect();
    let in_flight: f64 = paths.iter().map(|(path, _)| path.in_flight as f64).sum();
    let waiting = view.waiting.max(1) as f64;
    let window = waiting + in_flight;
    // What waits is only what the receiver has let go so far: as much as is under way follows while that arrives.
    let bytes = if view.held_back && view.more_follows {
        window
    } else {
        waiting
    };
    doubt_all_but_the_best(&mut paths, bytes);
    paths.sort_by(|(_, a), (_, b)| a.delay.total_cmp(&b.delay));
    let rates = paths.iter().map(|(_, course)| course.rate);
    let best_rate = rates.fold(0.0, f64::max);
    let certain = paths.iter().filter(|(path, _)| proven(path).is_none());
    let certain = certain.map(|(_, course)| course.rate).fold(0.0, f64::max);
    let all = || paths.iter().map(|(_, course)| course);
    // Seldom needed to the hundredth of a millisecond.
    let end = LazyCell::new(|| completion(all(), bytes));
    // Whether by then this much of everything has fallen to a path.
    let falls_to = |course: &Course, part: u64| {
        delivered(all(), SURELY * course.surely(part as f64 + 1.0)) < bytes
            || course.delivered(*end) >= part as f64
    };
    let chosen = paths
        .iter()
        .enumerate()
        .find_map(|(index, (path, course))| {
            if !path.may_send || path.is_full() {
                return None;
            }
            if course.overfills && (index > 0 || 2.0 * course.rate < best_rate) {
                return None;
            }
            let mut ahead = 0.0;
            if index > 0 {
                let rest = || {
                    let rest = paths.iter().enumerate().filter(move |(it, _)| *it != index);
                    rest.map(|(_, other)| other)
                };
                let others = || rest().map(|(_, course)| course);
                // What follows makes good use of what slow start finds out.
                let risk = if view.more_follows {
                    0.0
                } else {
                    risk(path, certain)
                };
                let surely = course.delay + margin.as_secs_f64() + risk;
                let useful = falls_to(course, path.datagram.min(view.waiting))
                    && completes_after(others(), bytes, surely)
                    && !(view.more_follows && holds_up(others(), course, window));
                if !useful {
                    return None;
                }
                // A window that the receiver opens bit by bit is for the streams in their order.
                if !view.held_back {
                    let arrives = path.one_way_delay().saturating_sub(margin);
                    let each = rest().map(|(path, course)| shown(path, course, arrives));
                    ahead = each.sum();
                }
            }
            Some((path, course, ahead))
        });
    let (path, course, ahead) = chosen?;
    let most = path.takes().max(path.datagram);
    let bytes = if view.held_back && is_tight(&paths, window) {
        path.datagram
    } else if falls_to(course, most) {
        most
    } else {
        (course.delivered(*end) as u64).clamp(path.datagram, most)
    };
    Some(Choice {
        path: path.id,
        bytes,
        ahead: ahead as u64,
    })
}

/// Whether the receiver's window is hardly more than what the paths hold.
fn is_tight(paths: &[(&PathView, Course)], window: f64) -> bool {
    let products = paths
        .iter()
        .map(|(path, course)| course.rate * path.min_rtt.as_secs_f64());
    window < TIGHT * products.sum::<f64>()
}

/// Whether faster paths would have sent all `bytes` of the receiver's window before what goes on `slow` is there
/// and has let the receiver's window move: then they would have to wait for it.
fn holds_up<'a>(others: impl Iterator<Item = &'a Course>, slow: &Course, bytes: f64) -> bool {
    let faster = others.filter(|course| course.delay < slow.delay);
    let meanwhile: f64 = faster
        .map(|course| course.delivered(slow.delay + 2.0 * course.delay))
        .sum();
    meanwhile > bytes
}

/// As `earliest-completion`, with what goes on a slower path being sure to arrive before the rest;
/// and what is under way at the end is sent again where a copy would come first.
#[derive(Debug, Default)]
pub(super) struct Auto {}

impl Auto {
    pub(super) const NAME: &'static str = "auto";
}

impl Scheduler for Auto {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(&mut self, view: &SchedulerView<'_>) -> Option<Choice> {
        let uncertain = |path: &PathView| path.rtt_variance.min(path.min_rtt / UNCERTAIN);
        let margin = wanted(view).map(uncertain).max();
        // What any path carries is copied to another one then, and meets a standstill only where both do.
        let copied = wanted(view).all(|path| {
            let mut others = wanted(view).filter(|other| other.id != path.id);
            others.any(|other| path.is_outrun_by(other))
        });
        let standstill = if copied { 0.0 } else { STANDSTILL };
        spread(view, margin.unwrap_or_default(), standstill)
    }

    fn repeats(&self) -> Repeats {
        Repeats::Late
    }
}

/// Everything on every path: the first copy counts.
#[derive(Debug, Default)]
pub(super) struct Redundant;

impl Redundant {
    pub(super) const NAME: &'static str = "redundant";
}

impl Scheduler for Redundant {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(&mut self, view: &SchedulerView<'_>) -> Option<Choice> {
        let path = ready(view).min_by_key(|path| path.smoothed_rtt)?;
        Some(whole(path))
    }

    fn repeats(&self) -> Repeats {
        Repeats::All
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn course(rng: &mut Rng) -> Course {
        let rtt = 0.001 + rng.unit_f64();
        Course {
            delay: rng.unit_f64() * 0.3,
            room: rng.unit_f64() * 100_000.0,
            rate: rng.below(3) as f64 * rng.unit_f64() * 1e7,
            doubling: rng
                .chance(0.3)
                .then(|| (1_200.0 + rng.unit_f64() * 1e5, rtt)),
            held: 0.01 * rng.unit_f64(),
            batch: 2_400.0,
            pace: rng.below(3) as f64 * rng.unit_f64() * 1e7,
            queues: rng.chance(0.5),
            overfills: false,
        }
    }

    /// The search without what is known beforehand.
    fn searched(courses: &[Course], bytes: f64) -> f64 {
        let (mut low, mut high) = (0.0, HORIZON);
        while high - low >= PRECISION {
            let middle = f64::midpoint(low, high);
            if delivered(courses.iter(), middle) >= bytes {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }

    #[test]
    fn what_is_known_beforehand_changes_no_answer() {
        let mut rng = Rng::from_u64(5);
        for _ in 0..2_000 {
            let courses: Vec<Course> = (0..rng.below(4)).map(|_| course(&mut rng)).collect();
            let bytes = 10_f64.powf(8.0 * rng.unit_f64());
            let end = searched(&courses, bytes);
            assert_eq!(completion(courses.iter(), bytes), end);
            let close = end + (rng.unit_f64() - 0.5) * 1e-4;
            for seconds in [rng.unit_f64(), close, end, HORIZON] {
                let after = completes_after(courses.iter(), bytes, seconds);
                assert_eq!(after, seconds < end, "{seconds} and {end}");
            }
            for course in &courses {
                let by = SURELY * course.surely(bytes);
                assert!(by > HORIZON || course.delivered(by) >= bytes);
            }
        }
    }
}
