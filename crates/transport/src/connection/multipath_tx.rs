//! The pump over several paths: who may carry data, and what goes where.
//!
//! Owns: which paths a scheduler is asked about, the order of data and of frames that belong to one
//! path, copies of data on a second path. Does not own: the choice (`multipath/sched/`), what may leave
//! on one path (`permit.rs`), the packets (`tx.rs`).

use std::time::Duration;

use super::{Connection, fates::frame_fates, permit::Permit};
use crate::{
    endpoint::Transmit,
    fec::Occasion,
    multipath::sched::{Choice, PathView, Repeats, SchedulerView},
    path::Path,
    space::SpaceKind,
    time::Instant,
    units::Rate,
};

/// More waiting bytes than these look all the same to a scheduler.
const FORESEEN: u64 = 64 << 20;

/// Of a path that loses this share of its packets, the last data of a transfer is sent on another one
/// too: to find out by a timeout would take several round trips.
const WORTH_A_COPY: f64 = 0.002;

/// A copy is worth its bytes if it comes earlier than the original by a round trip over this.
const GAIN: u32 = 8;

/// So many packets that never came may be the peer's probes of the path's MTU.
const MTU_PROBES: u64 = 3;

/// What a datagram may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// Whatever waits, up to so many bytes of datagrams at once.
    All(u64),
    /// Only what belongs to the path, and acknowledgements.
    Own,
}

impl Load {
    /// Anything, as much as window and pacer allow.
    pub(super) const ANY: Self = Self::All(u64::MAX);

    pub(super) fn takes_data(self) -> bool {
        self != Self::Own
    }

    pub(super) fn limit(self) -> u64 {
        match self {
            Self::All(bytes) => bytes,
            Self::Own => u64::MAX,
        }
    }
}

impl Connection {
    /// Whether more than one path is there to be chosen from.
    pub(super) fn has_choice_of_paths(&self) -> bool {
        self.paths.len() > 1 && self.multipath.is_some()
    }

    /// As `transmit`, with several paths.
    pub(super) fn transmit_over_paths(
        &mut self,
        now: Instant,
        buf: &mut [u8],
        max_segments: usize,
    ) -> Option<Transmit> {
        for index in 0..self.paths.len() {
            let Some(path) = self
                .paths
                .id_at(index)
                .and_then(|id| self.paths.get_mut(id))
            else {
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
            let Some(path) = self.paths.id_at(index).and_then(|id| self.paths.get(id)) else {
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
        let waits = self.has_data() || self.fec.has_repairs();
        if waits {
            // A choice that leads to nothing (a frame that does not fit) is not asked for again.
            for _ in 0..self.paths.len() {
                let Some(choice) = self.choose_path(now) else {
                    break;
                };
                if let Some(transmit) = self.transmit_choice(now, choice, buf, max_segments) {
                    return Some(transmit);
                }
                if !self.has_data() && !self.fec.has_repairs() {
                    break;
                }
            }
        }
        if self.has_data() || self.fec.has_repairs() {
            self.note_unused_paths(now);
            return None;
        }
        // The pump runs dry.
        if self.fec.sender.is_some()
            && let Some(choice) = self.choose_path(now)
        {
            self.ask_for_redundancy(now, Occasion::BurstEnd);
            if self.fec.has_repairs()
                && let Some(transmit) = self.transmit_choice(now, choice, buf, max_segments)
            {
                return Some(transmit);
            }
        }
        if let Some(choice) = self.repeat(now)
            && let Some(transmit) = self.transmit_choice(now, choice, buf, max_segments)
        {
            return Some(transmit);
        }
        self.note_unused_paths(now);
        None
    }

    fn transmit_choice(
        &mut self,
        now: Instant,
        choice: Choice,
        buf: &mut [u8],
        max_segments: usize,
    ) -> Option<Transmit> {
        let load = Load::All(choice.bytes);
        let transmit = self.transmit_on_path(now, choice.path, buf, max_segments, load)?;
        if let Some(multipath) = &mut self.multipath {
            multipath
                .scheduler
                .on_sent(choice.path, transmit.len as u64);
        }
        Some(transmit)
    }

    /// Whether anything waits that any path may carry.
    pub(super) fn has_data(&self) -> bool {
        self.streams.has_data()
            || self.control.has_frames()
            || self.fec.owes_window()
            || self.crypto.data.has_pending()
            || self.streams.has_control()
            || self.datagrams.has_frames()
            || self
                .multipath
                .as_ref()
                .is_some_and(|multipath| multipath.has_frames())
    }

    /// Paths that may send and have nothing to: their rate is the application's.
    fn note_unused_paths(&mut self, now: Instant) {
        for path in self.paths.iter_mut() {
            if path.is_usable() {
                path.recovery.set_app_limited(now);
            }
        }
    }

    /// Asks the scheduler about the paths that work.
    fn choose_path(&mut self, now: Instant) -> Option<Choice> {
        let views = self.path_views(now);
        // What is most urgent goes first, and so it is for this that a path is chosen; without streams,
        // for a datagram or a frame.
        let waiting = self.streams.most_urgent();
        let (waiting, more_follows) = match waiting {
            Some(waiting) => (waiting.bytes(), waiting.more_follows),
            // Nobody knows, of so many streams.
            None if self.streams.has_data() => (FORESEEN, true),
            None => (0, false),
        };
        let view = SchedulerView {
            now,
            paths: &views,
            waiting: waiting.min(FORESEEN),
            more_follows,
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
        multipath.views = views;
        known
    }

    /// The paths that data may use: those that answer, else those that are open, else all.
    fn path_views(&mut self, now: Instant) -> Vec<PathView> {
        let mut views = match &mut self.multipath {
            Some(multipath) => std::mem::take(&mut multipath.views),
            None => Vec::new(),
        };
        views.clear();
        let rank = |path: &Path| {
            if path.is_abandoned() || path.unnamed_until.is_some() {
                0
            } else if !path.is_usable() {
                1
            } else if path.is_silent() {
                2
            } else {
                3
            }
        };
        let best = self.paths.iter().map(rank).max().unwrap_or(0);
        if best == 0 {
            return views;
        }
        for index in 0..self.paths.len() {
            let Some(path) = self.paths.id_at(index).and_then(|id| self.paths.get(id)) else {
                continue;
            };
            if rank(path) < best {
                continue;
            }
            let (id, mtu) = (path.id, usize::from(path.mtu.datagram_size()));
            let may_send = self.permit(now, id, mtu, false) == Permit::Full;
            if let Some(path) = self.paths.get(id) {
                views.push(view_of(path, may_send, self.way_back(path)));
            }
        }
        views
    }

    /// Nothing waits: hands what is under way on one path to another where the copy helps. The path for
    /// the copy.
    fn repeat(&mut self, now: Instant) -> Option<Choice> {
        let repeats = self.multipath.as_ref()?.scheduler.repeats();
        if repeats == Repeats::Never {
            return None;
        }
        let views = self.path_views(now);
        let ready = views.iter().filter(|path| path.may_send);
        let by = ready.min_by_key(|path| path.smoothed_rtt).copied();
        // While flow control holds more back, what is lost is found out without waiting for a timeout.
        let at_end = !self.streams.is_held_back();
        let mut found = None;
        if let Some(by) = by {
            let arrives = now + by.one_way_delay();
            for from in views.iter().filter(|from| from.id != by.id) {
                let Some(path) = self.paths.get_mut(from.id) else {
                    continue;
                };
                let usual = from.one_way_delay();
                // A copy stands for the original, whose own loss then calls for nothing: it must not take
                // longer than finding that out would.
                let soon = by.one_way_delay() < from.one_way_delay() + from.recent_rtt / 4;
                let any = repeats == Repeats::All || soon && at_end && from.loss >= WORTH_A_COPY;
                let mut fates = frame_fates!(self, path, Instant::ZERO);
                let notices = fates.streams.notices_len();
                let handed = path.recovery.hand_over(
                    &mut path.space,
                    by.datagram,
                    |packet| any || packet.sent() + usual > arrives + from.recent_rtt / GAIN,
                    &mut fates,
                );
                fates.streams.forget_losses(notices);
                self.apply_deferred(SpaceKind::Data, None);
                if handed > 0 {
                    self.stats.bytes_repeated += handed;
                    found = Some(Choice {
                        path: by.id,
                        bytes: by.datagram,
                    });
                    break;
                }
            }
        }
        if let Some(multipath) = &mut self.multipath {
            multipath.views = views;
        }
        found
    }
}

fn view_of(path: &Path, may_send: bool, return_delay: Duration) -> PathView {
    let rtt = path.recovery.rtt();
    let (window, smoothed) = (path.recovery.window(), rtt.smoothed());
    let metrics = path.recovery.congestion().metrics();
    let stats = path.recovery.stats();
    let by_window = Rate::from_bytes_over(window, smoothed);
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
        min_rtt: rtt.min(),
        return_delay,
        rtt_variance: rtt.variance(),
        has_rtt: rtt.has_sample(),
        window,
        in_flight: path.recovery.bytes_in_flight(),
        rate: capacity.or(metrics.bandwidth).unwrap_or(by_window),
        capacity,
        slow_start: path.recovery.is_slow_start(),
        datagram: path.mtu.datagram_size().into(),
        loss: share(lost, stats.packets_sent).max(share(missing, received + missing)),
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
