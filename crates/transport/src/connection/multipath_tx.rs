//! The pump over several paths: who may carry data, and what goes where.
//!
//! Owns: which paths a scheduler is asked about, the order of data and of frames that belong to one
//! path. Does not own: the choice (`multipath/sched/`), copies on a second path (`copies.rs`), what may leave
//! on one path (`permit.rs`), the packets (`tx.rs`).

use std::time::Duration;

use super::{Connection, path_trace::reason, permit::Permit};
use crate::{
    endpoint::Transmit,
    fec::Occasion,
    multipath::{
        Takes,
        sched::{Choice, PathView, SchedulerView, before_overflow},
    },
    path::Path,
    recovery::Standstill,
    stream::Waiting,
    time::Instant,
    units::{PathId, Rate},
};

/// More waiting bytes than these look all the same to a scheduler.
const FORESEEN: u64 = 64 << 20;

/// For so many of the longest round trips flow control is remembered to have held data back.
const HELD_ROUNDS: u32 = 2;

/// So many packets that never came may be the peer's probes of the path's MTU.
const MTU_PROBES: u64 = 3;

/// When flow control held data back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldBack {
    /// How often it had by now, and when it did last.
    times: u64,
    at: Option<Instant>,
    /// Whether paths were told to send evenly.
    evenly: bool,
}

impl HeldBack {
    fn note(&mut self, now: Instant, times: u64) {
        if self.times != times {
            (self.times, self.at) = (times, Some(now));
        }
    }

    fn within(&self, now: Instant, time: Duration) -> bool {
        self.at.is_some_and(|at| now.saturating_since(at) < time)
    }
}

/// What a datagram may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Whatever waits, up to so many bytes of datagrams at once, of the streams behind so many bytes if there are.
    All { bytes: u64, ahead: u64 },
    /// Likewise, without what is sent again: that waits for another path.
    New { bytes: u64, ahead: u64 },
    /// Data that is pinned to the path, and what belongs to the path.
    Pinned,
    /// Only what belongs to the path, and acknowledgements.
    Own,
}

impl Load {
    /// Anything, as much as window and pacer allow.
    pub(super) const ANY: Self = Self::All {
        bytes: u64::MAX,
        ahead: 0,
    };

    pub(super) const fn all(Choice { bytes, ahead, .. }: Choice) -> Self {
        Self::All { bytes, ahead }
    }

    pub(super) fn takes_data(self) -> bool {
        self != Self::Own
    }

    pub(super) fn limit(self) -> u64 {
        match self {
            Self::All { bytes, .. } | Self::New { bytes, .. } => bytes,
            Self::Pinned | Self::Own => u64::MAX,
        }
    }

    /// Whether what may go on any path may go here.
    pub(super) fn takes_any(self) -> bool {
        matches!(self, Self::All { .. } | Self::New { .. })
    }

    /// Whose data it is on a path.
    pub(super) fn on(self, path: PathId) -> Takes {
        Takes {
            pinned_to: path,
            free: self.takes_any(),
            again: !matches!(self, Self::New { .. }),
            ahead: match self {
                Self::All { ahead, .. } | Self::New { ahead, .. } => ahead,
                Self::Pinned | Self::Own => 0,
            },
        }
    }
}

impl Connection {
    /// Whether more than one path is there to be chosen from.
    pub(super) fn has_choice_of_paths(&self) -> bool {
        self.paths.len() > 1 && self.multipath.is_some()
    }

    /// Where flow control holds data back, what it lets go leaves each path no faster than that delivers. Grants come in
    /// bursts, of what the receiver had waited to put in order: one that stands in a queue holds up what went by
    /// another path, and the receiver's window with it, and makes the next burst. Where that is too slow, flow control holds
    /// back no longer, and it ends.
    pub(super) fn send_grants_evenly(&mut self, now: Instant) {
        let several = self.has_choice_of_paths();
        let Some(multipath) = &mut self.multipath else {
            return;
        };
        let held_back = &mut multipath.held_back;
        held_back.note(now, self.streams.times_held_back());
        let round_trips = self.paths.iter().map(|path| path.recovery.rtt().smoothed());
        let longest = round_trips.max().unwrap_or_default();
        let evenly = several && held_back.within(now, HELD_ROUNDS * longest);
        let before = std::mem::replace(&mut held_back.evenly, evenly);
        // Again and again while it holds: paths may have come.
        if evenly || before {
            for path in self.paths.iter_mut() {
                path.recovery.set_evenly(evenly);
            }
        }
    }

    /// As `transmit`, with several paths.
    pub(super) fn transmit_over_paths(
        &mut self,
        now: Instant,
        buf: &mut [u8],
        max_segments: usize,
    ) -> Option<Transmit> {
        for index in 0..self.paths.len() {
            let Some(path) = self.paths.at_mut(index) else {
                continue;
            };
            path.pacing_until = None;
            let (id, abandoned) = (path.id, path.is_abandoned());
            if !abandoned && let Some(transmit) = self.transmit_off_path(now, id, buf) {
                return Some(transmit);
            }
        }
        if let Some(transmit) = self.transmit_data(now, buf, max_segments) {
            return Some(transmit);
        }
        for index in 0..self.paths.len() {
            let Some(path) = self.paths.at(index) else {
                continue;
            };
            if path.is_abandoned() {
                continue;
            }
            let (id, until) = (path.id, path.pacing_until);
            let transmit = self.transmit_on_path(now, id, buf, max_segments, Load::Own);
            if transmit.is_some() {
                return transmit;
            }
            if let Some(path) = self.paths.get_mut(id) {
                // What belongs to the path waits for nothing that data does not wait for.
                path.pacing_until = until;
            }
        }
        None
    }

    /// Data on the path that the scheduler chooses.
    fn transmit_data(
        &mut self,
        now: Instant,
        buf: &mut [u8],
        max_segments: usize,
    ) -> Option<Transmit> {
        self.go_on_handing_over();
        if self.fec.has_repairs()
            && let Some(transmit) = self.transmit_repairs_over_paths(now, buf, max_segments)
        {
            return Some(transmit);
        }
        let pinned = self.has_pinned_data();
        if pinned && let Some(multipath) = &mut self.multipath {
            multipath.pinned_first ^= true;
            if multipath.pinned_first
                && let Some(transmit) = self.transmit_pinned(now, buf, max_segments)
            {
                return Some(transmit);
            }
        }
        if self.has_free_data() {
            // A choice that leads to nothing (a frame that does not fit) is not asked for again.
            for _ in 0..self.paths.len() {
                let Some((choice, load)) = self.choose_load(now) else {
                    break;
                };
                if let Some(transmit) = self.transmit_choice(now, choice, load, buf, max_segments) {
                    return Some(transmit);
                }
                if !self.has_free_data() {
                    break;
                }
            }
        }
        if pinned && let Some(transmit) = self.transmit_pinned(now, buf, max_segments) {
            return Some(transmit);
        }
        if self.has_free_data() || self.fec.has_repairs() || pinned && self.waits_for_pin() {
            self.note_unused_paths(now);
            return None;
        }
        // The pump runs dry.
        if self.fec.sender.is_some() && self.choose_path(now, None).is_some() {
            self.ask_for_redundancy(now, Occasion::BurstEnd);
            if self.fec.has_repairs()
                && let Some(transmit) = self.transmit_repairs_over_paths(now, buf, max_segments)
            {
                return Some(transmit);
            }
        }
        let copies = self.transmit_copies(now, buf, max_segments);
        if copies.is_none() {
            self.note_unused_paths(now);
        }
        copies
    }

    pub(super) fn transmit_choice(
        &mut self,
        now: Instant,
        choice: Choice,
        load: Load,
        buf: &mut [u8],
        max_segments: usize,
    ) -> Option<Transmit> {
        let transmit = self.transmit_on_path(now, choice.path, buf, max_segments, load)?;
        if let Some(multipath) = &mut self.multipath {
            multipath
                .scheduler
                .on_sent(choice.path, transmit.len as u64);
        }
        Some(transmit)
    }

    /// Whether anything but streams and datagrams waits that any path may carry.
    pub(super) fn has_control_data(&self) -> bool {
        self.control.has_frames()
            || self.fec.owes_window()
            || self.crypto.data.has_pending()
            || self.streams.has_control()
            || self
                .multipath
                .as_ref()
                .is_some_and(|multipath| multipath.has_frames())
            || self.paths.len() > 1 && self.paths.iter().any(Path::needs_introduction)
    }

    /// Whether pinned data waits for the window or pacer of a path that works.
    fn waits_for_pin(&self) -> bool {
        let mut live = self.paths.iter().filter(|path| path.is_at_work());
        live.any(|path| self.has_data_for(path.id, Load::Pinned))
    }

    /// Paths that may send and have nothing to: their rate is the application's. Who waits for its pacer is
    /// not among them; but where that goes as evenly as the path delivers, the window is no limit.
    fn note_unused_paths(&mut self, now: Instant) {
        for path in self.paths.iter_mut().filter(|path| path.is_usable()) {
            if path.pacing_until.is_none() {
                // Start-up by a rate would never end where nothing tells that the path is full.
                let by_rate = path.recovery.congestion().metrics().bandwidth.is_some();
                let starts = by_rate && path.recovery.is_slow_start();
                if !(starts && is_held_by_its_queue(now, path)) {
                    path.recovery.set_app_limited(now);
                }
            } else {
                path.recovery.note_even_pace();
            }
        }
    }

    /// Which path takes what. What was lost holds up everything behind it: it goes first and has a path
    /// chosen for itself alone, and if that is one that may not send yet, only new data goes elsewhere.
    fn choose_load(&mut self, now: Instant) -> Option<(Choice, Load)> {
        // What is most urgent goes first, and so it is for this that a path is chosen.
        let waiting = self.streams.most_urgent();
        let mixed = waiting.filter(|waiting| waiting.is_mixed());
        let Some(mixed) = mixed else {
            let mut choice = self.choose_path(now, waiting)?;
            if waiting.is_some_and(|waiting| waiting.has_lost()) {
                choice.ahead = 0;
            }
            return Some((choice, Load::all(choice)));
        };
        if let Some(choice) = self.choose_path(now, Some(mixed.lost_alone())) {
            let bytes = choice.bytes;
            return Some((choice, Load::All { bytes, ahead: 0 }));
        }
        let choice = self.choose_path(now, Some(mixed))?;
        let Choice { bytes, ahead, .. } = choice;
        Some((choice, Load::New { bytes, ahead }))
    }

    /// Asks the scheduler about the paths that work. `waiting`: in the streams; without any, for a datagram
    /// or a frame.
    fn choose_path(&mut self, now: Instant, waiting: Option<Waiting>) -> Option<Choice> {
        let views = self.path_views(now);
        let (waiting, more_follows) = match waiting {
            Some(waiting) => (waiting.bytes(), waiting.more_follows),
            // Nobody knows, of so many streams.
            None if self.streams.has_free_data() => (FORESEEN, true),
            None => (0, false),
        };
        let view = SchedulerView {
            now,
            paths: &views,
            waiting: waiting.min(FORESEEN),
            more_follows,
            held_back: self
                .multipath
                .as_ref()
                .is_some_and(|multipath| multipath.held_back.evenly),
        };
        let multipath = self.multipath.as_mut()?;
        let choice = if views.is_empty() {
            None
        } else {
            multipath.scheduler.choose(&view)
        };
        let known = choice.filter(|choice| {
            let chosen = views.iter().find(|path| path.id == choice.path);
            chosen.is_some_and(|path| path.may_send)
        });
        if self.observer.is_active() && views.iter().any(|path| path.may_send) {
            let why = match known {
                Some(_) if views.len() == 1 => reason::ONLY,
                Some(_) => reason::SCHEDULER,
                None => reason::WAITS,
            };
            let chosen = known.map(|choice| choice.path);
            self.trace_choice(now, chosen, why, &views, waiting);
        }
        self.keep_views(views);
        if known.is_some() && self.fec.sender.is_some() {
            self.show_paths_to_fec(now);
        }
        known
    }

    /// Keeps the room that views took.
    pub(super) fn keep_views(&mut self, views: Vec<PathView>) {
        if let Some(multipath) = &mut self.multipath {
            multipath.views = views;
        }
    }

    /// The paths that data may use: those that answer, else those that are open, else all; and of these the
    /// cheapest.
    pub(super) fn path_views(&mut self, now: Instant) -> Vec<PathView> {
        let mut views = match &mut self.multipath {
            Some(multipath) => std::mem::take(&mut multipath.views),
            None => Vec::new(),
        };
        views.clear();
        let rank = |path: &Path| {
            let state = if path.is_abandoned() || path.unnamed_until.is_some() || path.is_spent() {
                return 0;
            } else if !path.is_usable() {
                1_u16
            } else if path.is_silent() {
                2
            } else {
                3
            };
            state << 8 | u16::from(u8::MAX - path.cost.cost.class)
        };
        let best = self.paths.iter().map(rank).max().unwrap_or(0);
        if best == 0 {
            return views;
        }
        for path in self.paths.iter_mut() {
            path.recovery.look_at_standstills(now);
        }
        let frequent = self.worst_standstill(now);
        for index in 0..self.paths.len() {
            let Some(path) = self.paths.at(index) else {
                continue;
            };
            if rank(path) < best {
                continue;
            }
            let id = path.id;
            let size = self.datagram_size(now, id);
            let may_send = self.permit(now, id, size, false) == Permit::Full;
            if let Some(path) = self.paths.get(id) {
                let mut view = self.view_of(now, path, may_send);
                if let Some(frequent) = frequent {
                    view.standstill = view.standstill.beside(frequent);
                }
                views.push(view);
            }
        }
        views
    }

    /// How the path stands still that does so most, if that is frequent.
    fn worst_standstill(&self, now: Instant) -> Option<Standstill> {
        let usable = self.paths.iter().filter(|path| path.is_usable());
        let frequent = usable.filter_map(|path| path.recovery.frequent_standstill(now));
        frequent.max_by(|a, b| a.share.total_cmp(&b.share))
    }

    /// A path as schedulers see it.
    pub(super) fn view_of(&self, now: Instant, path: &Path, may_send: bool) -> PathView {
        let acks = path.ack_frequency.peer_acks(self.peer_max_ack_delay());
        PathView {
            still_for: path.recovery.stands_still_for(&path.space, now, acks),
            ..view_of(now, path, may_send, self.way_back(path))
        }
    }
}

/// [`Connection::view_of`] as far as the path alone tells.
pub(super) fn view_of(
    now: Instant,
    path: &Path,
    may_send: bool,
    return_delay: Duration,
) -> PathView {
    let rtt = path.recovery.rtt();
    let (window, smoothed) = (path.recovery.window(), rtt.smoothed());
    let metrics = path.recovery.congestion().metrics();
    let stats = path.recovery.stats();
    let by_window = || Rate::from_bytes_over(window, smoothed);
    let capacity = path.recovery.capacity();
    // A single loss among few packets says nothing of a path.
    let lost = path.recovery.lost_without_queue().saturating_sub(1);
    // Whoever sends little learns of losses from what arrives; probes of a size that the path does not
    // take are missing, too.
    let (missing, received) = (path.space.received.missing(), path.space.received.count());
    let missing = missing.saturating_sub(MTU_PROBES);
    PathView {
        id: path.id,
        may_send,
        status: path.status.effective(),
        smoothed_rtt: smoothed,
        recent_rtt: rtt.recent(),
        sampled_in_flight: path.recovery.sampled_in_flight(),
        min_rtt: rtt.min(),
        longest_without_queue: path.recovery.longest_without_queue(),
        standstill: path.recovery.standstill(now),
        still_for: Duration::ZERO,
        return_delay,
        rtt_variance: rtt.variance(),
        has_rtt: rtt.has_sample(),
        window,
        in_flight: path.recovery.bytes_in_flight(),
        rate: capacity.or(metrics.bandwidth).unwrap_or_else(by_window),
        pacing: path.recovery.pacing(),
        wait: path
            .pacing_until
            .map_or(Duration::ZERO, |at| at.saturating_since(now)),
        capacity,
        rounds_exceeded: path.recovery.rounds_exceeded(),
        most_passed: path.recovery.most_passed(),
        overflow: path.recovery.overflow(now),
        slow_start: path.recovery.is_slow_start(),
        datagram: path.mtu.datagram_size().into(),
        loss: share(lost, stats.packets_sent).max(share(missing, received + missing)),
    }
}

/// Whether what its queue holds is under way: that it takes no more is then the path's doing.
fn is_held_by_its_queue(now: Instant, path: &Path) -> bool {
    let datagram = u64::from(path.mtu.datagram_size());
    let in_flight = path.recovery.bytes_in_flight();
    let overflow = path.recovery.overflow(now);
    let full =
        overflow.is_some_and(|overflow| before_overflow(overflow, in_flight, datagram) < datagram);
    full && path.recovery.queue_is_full(now)
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
