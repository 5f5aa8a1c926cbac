//! `earliest-completion`, `auto` and `redundant`: schedulers that ask when data would arrive.
//!
//! The model: path i delivers what leaves at time t at t + d_i, where d_i is half its smoothed round
//! trip and the queue before it. In t seconds it takes X_i(t) bytes: its rate where there is a queue,
//! its room at once and then its rate where there is none, or, while its window doubles every round
//! trip, its room and twice the window per doubling; never more than its pacer lets leave. With W bytes waiting, all are delivered by the
//! earliest T at which the X_i(T - d_i) add up to W, and path i's part of them is X_i(T - d_i). A path
//! that could not deliver anything by T is left alone: whatever it carried would come after everything
//! else. Asked anew before every batch, the parts correct themselves. This is the water-filling behind
//! Wu, chapter 4 (eq. 4.1-4.10), with the growth of the window in it, and with a doubt about what grows:
//! beside the best path, one in slow start is expected as late as if it did no more than it has done.

use std::{f64::consts::LN_2, time::Duration};

use smallvec::SmallVec;

use super::{Choice, PathView, Repeats, Scheduler, SchedulerView, min_rtt::whole, ready, wanted};

/// Halvings of the search for T: from an hour to below a millisecond's hundredth.
const STEPS: u32 = 40;
/// No transfer is planned beyond this.
const HORIZON: f64 = 3_600.0;
/// A window that doubles more often than this is no forecast any more.
const MAX_DOUBLINGS: f64 = 10.0;
/// Packets that a path takes before anything is known of it. RFC 9002 s7.2.
const FIRST_WINDOW: u64 = 10;
/// No more than so many round trips are doubted.
const MOST_DOUBT: f64 = 2.0;
/// How uncertain arrivals are is no more than this part of the shortest round trip: what round trips differ by
/// beyond that is a queue of our own, and accounted for.
const UNCERTAIN: u32 = 8;
/// Packets that a pacer lets leave together.
const BATCH: u64 = 2;

/// What one path can do, in seconds and bytes.
struct Course {
    delay: f64,
    /// Bytes that may leave at once.
    room: f64,
    /// Bytes a second after that.
    rate: f64,
    /// Window and round trip, while it doubles.
    doubling: Option<(f64, f64)>,
    /// Bytes that the pacer lets leave at once, and a second.
    batch: f64,
    pace: f64,
    /// What leaves only makes the queue longer.
    queues: bool,
    /// Slow start has put so much into the queue that more would be dropped, and hold up the rest. The
    /// first path is filled all the same, if there is none that delivers twice as much.
    overfills: bool,
}

impl Course {
    fn new(path: &PathView) -> Self {
        let rtt = path.recent_rtt.as_secs_f64().max(1e-6);
        let window = path.window.max(path.datagram) as f64;
        Self {
            // What is lost arrives two round trips later.
            delay: path.one_way_delay().as_secs_f64() + 2.0 * path.loss * rtt,
            room: path.room() as f64,
            rate: path.rate.bits_per_second() as f64 / 8.0,
            doubling: (path.slow_start && path.capacity.is_none()).then_some((window, rtt)),
            batch: (BATCH * path.datagram) as f64,
            pace: path.pacing.bits_per_second() as f64 / 8.0,
            queues: path.queues(),
            overfills: path.slow_start
                && path.capacity.is_some_and(|capacity| {
                    let holds = capacity.bytes_in(path.min_rtt);
                    path.in_flight > holds.saturating_add(holds / 2)
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
        taken.min(self.batch + self.pace * paced)
    }
}

/// Bytes that a path has shown that it can deliver within a round trip, while slow start tries what it can.
fn proven(path: &PathView) -> Option<u64> {
    let tries = path.slow_start && path.capacity.is_none();
    tries.then(|| path.most_passed.max(FIRST_WINDOW * path.datagram))
}

/// How much later data may arrive than expected that leaves while more is in flight than is proven: as much
/// as if the path did no more. Its queue would be seen only a round trip from now.
fn doubt(path: &PathView) -> f64 {
    proven(path).map_or(0.0, |proven| {
        let beyond = path.in_flight as f64 / proven as f64 - 1.0;
        path.min_rtt.as_secs_f64() * beyond.clamp(0.0, MOST_DOUBT)
    })
}

/// Data on a path beside the best one must be sure to arrive in time. The best is the one that would be the first to
/// have delivered everything if none did more than is proven.
fn doubt_all_but_the_best(paths: &mut [(&PathView, Course)], bytes: f64) {
    if paths.iter().all(|(path, _)| doubt(path) == 0.0) {
        return;
    }
    let alone = |(path, course): &(&PathView, Course)| {
        let rtt = path.min_rtt.as_secs_f64().max(1e-6);
        let rate = proven(path).map_or(course.rate, |proven| proven as f64 / rtt);
        course.delay + doubt(path) + bytes / rate.max(1.0)
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

/// When `bytes` could all be delivered over some paths, in seconds from now.
fn completion<'a>(courses: impl Iterator<Item = &'a Course> + Clone, bytes: f64) -> f64 {
    let (mut low, mut high) = (0.0, HORIZON);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        let delivered: f64 = courses.clone().map(|course| course.delivered(middle)).sum();
        if delivered >= bytes {
            high = middle;
        } else {
            low = middle;
        }
        if high - low < 1e-5 {
            break;
        }
    }
    high
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
        spread(view, Duration::ZERO)
    }
}

/// The ready path by which data arrives first, if a part of what waits falls to it. A path other than the
/// fastest must be `margin` earlier with what it carries than the others would be with everything.
fn spread(view: &SchedulerView<'_>, margin: Duration) -> Option<Choice> {
    let mut paths: SmallVec<[(&PathView, Course); 8]> =
        wanted(view).map(|path| (path, Course::new(path))).collect();
    let bytes = view.waiting.max(1) as f64;
    doubt_all_but_the_best(&mut paths, bytes);
    paths.sort_by(|(_, a), (_, b)| a.delay.total_cmp(&b.delay));
    // What is under way arrives before what is sent now, and lets the receiver's window move, too.
    let in_flight: f64 = paths.iter().map(|(path, _)| path.in_flight as f64).sum();
    let rates = paths.iter().map(|(_, course)| course.rate);
    let best_rate = rates.fold(0.0, f64::max);
    let end = completion(paths.iter().map(|(_, course)| course), bytes);
    let chosen = paths
        .iter()
        .enumerate()
        .find_map(|(index, (path, course))| {
            if !path.may_send {
                return None;
            }
            let part = course.delivered(end);
            if course.overfills && (index > 0 || 2.0 * course.rate < best_rate) {
                return None;
            }
            if index > 0 {
                let others = || {
                    let others = paths
                        .iter()
                        .enumerate()
                        .filter(move |(other, _)| *other != index);
                    others.map(|(_, (_, course))| course)
                };
                let useful = part >= path.datagram.min(view.waiting) as f64
                    && course.delay + margin.as_secs_f64() < completion(others(), bytes)
                    && !(view.more_follows && holds_up(others(), course, bytes + in_flight));
                if !useful {
                    return None;
                }
            }
            Some((path, part))
        });
    let (path, part) = chosen?;
    Some(Choice {
        path: path.id,
        bytes: (part as u64).clamp(path.datagram, path.room().max(path.datagram)),
    })
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
        spread(view, margin.unwrap_or_default())
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
