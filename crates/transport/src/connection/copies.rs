//! Copies: what is under way on one path and leaves on another one, too.
//!
//! Owns: which packets are worth a copy, and which path carries it. Does not own: whether a scheduler wants any
//! ([`Repeats`]), what becomes of a copy that is lost (`fates.rs`), the packets (`tx.rs`).

use std::time::Duration;

use smallvec::SmallVec;

use super::{
    Connection, fates::frame_fates, fec_paths::Covered, multipath_tx::Load, permit::Permit,
};
use crate::{
    endpoint::Transmit,
    fec::FecSender,
    multipath::{
        PathStatus,
        sched::{Choice, PathView, Repeats},
    },
    path::Path,
    recovery::Overdue,
    space::{SentPacket, SpaceKind},
    time::Instant,
};

/// Of a path that loses this share of its packets, the last data of a transfer is sent on another one
/// too: to find out by a timeout would take several round trips.
const WORTH_A_COPY: f64 = 0.002;

/// A copy is worth its bytes if it comes earlier than the original by a round trip over this.
const GAIN: u32 = 8;

/// Of what is overdue so many bytes are sent again, and this part of all that was sent, so that a link that is nearly full is
/// not filled up by what it only delivers late.
const OVERDUE_BYTES: u64 = 32_000;
const OVERDUE_PART: u64 = 32;

/// Where nothing was worth a copy it is not looked for again for so long, if nothing but data came, and nothing was sent.
const LOOKS: Duration = Duration::from_millis(1);

/// What is sent again since its acknowledgement is overdue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OverdueCopies {
    /// When what is under way longest will be.
    next: Option<Instant>,
    bytes: u64,
    /// Of a look in vain: until when it holds, and for how many packets under way.
    in_vain: Option<(Instant, usize)>,
}

impl OverdueCopies {
    pub(super) fn timer(&self) -> Option<Instant> {
        self.next
    }

    /// What is overdue leaves with the next datagrams, if it may.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        self.in_vain = None;
        self.next = self.next.filter(|at| *at > now);
    }

    /// Something came that may make a copy worth its bytes.
    pub(super) fn look_again(&mut self) {
        self.in_vain = None;
    }

    /// Whether to look for what is worth a copy would be in vain, as it has just been. Nothing was sent if as many
    /// packets are `under_way`: fewer are so only after an acknowledgement or a timeout.
    fn is_in_vain(&self, now: Instant, under_way: usize) -> bool {
        self.in_vain
            .is_some_and(|(until, then)| now < until && then == under_way)
    }

    /// Whether there may be more after `sent` bytes of everything.
    fn affords_more(&self, sent: u64) -> bool {
        self.bytes < OVERDUE_BYTES.saturating_add(sent / OVERDUE_PART)
    }
}

/// Why packets under way on one path are worth a copy on another, or on the same one.
#[derive(Clone, Copy, Debug)]
struct Worth {
    now: Instant,
    /// Whatever they are.
    all: bool,
    /// The path stands still now and then.
    still: bool,
    /// The path loses packets, of which codes protect some.
    lossy: bool,
    /// Those that take `usual` and so come after `late`.
    late: Option<(Duration, Instant)>,
    /// Those whose acknowledgement is.
    overdue: Option<Overdue>,
}

impl Worth {
    fn is_late(&self, sent: Instant) -> bool {
        self.late.is_some_and(|(usual, late)| sent + usual > late)
    }

    fn is_overdue(&self, packet: &SentPacket) -> bool {
        self.overdue.is_some_and(|rule| rule.at(packet) <= self.now)
    }

    /// Whether a packet that left at `sent` left too early, as all before it.
    fn is_too_early(&self, sent: Instant) -> bool {
        let any = self.all || self.still || self.lossy || self.overdue.is_some();
        !any && !self.is_late(sent)
    }
}

impl Connection {
    /// Copies of what is under way, where they help; only asked when nothing else waits.
    pub(super) fn transmit_copies(
        &mut self,
        now: Instant,
        buf: &mut [u8],
        max_segments: usize,
    ) -> Option<Transmit> {
        let outstanding = |path: &Path| path.space.sent.eliciting_outstanding();
        let under_way = self.paths.iter().map(outstanding).sum();
        let overdue = self.multipath.as_ref().map(|multipath| &multipath.overdue);
        if overdue.is_some_and(|overdue| overdue.is_in_vain(now, under_way)) {
            return None;
        }
        // What is handed over may need no copy by now; each packet is handed over once.
        while let Some(choice) = self.repeat(now) {
            let transmit = self.transmit_handed_over(now, choice, buf, max_segments);
            if transmit.is_some() {
                return transmit;
            }
        }
        self.await_overdue(now);
        // Who waits for its pacer says so again each time.
        let waits = self.paths.iter().any(|path| path.pacing_until.is_some());
        if let Some(multipath) = self.multipath.as_mut().filter(|_| !waits) {
            multipath.overdue.in_vain = Some((now + LOOKS, under_way));
        }
        None
    }

    /// Wakes up again when what is under way longest on a path is overdue.
    fn await_overdue(&mut self, now: Instant) {
        let announced = self.peer_max_ack_delay();
        let overdue = |path: &Path| {
            let acks = path.ack_frequency.peer_acks(announced);
            let rules = [true, false].map(|here| path.recovery.overdue(here, acks));
            let begins = rules.iter().filter_map(|rule| rule.begins(&path.space));
            begins.filter(|at| *at > now).min()
        };
        let working = || self.paths.iter().filter(|path| path.is_at_work());
        let next = if self.affords_overdue() && working().count() > 1 {
            working().filter_map(overdue).min()
        } else {
            None
        };
        if let Some(multipath) = &mut self.multipath {
            let repeats = multipath.scheduler.repeats() == Repeats::Late;
            multipath.overdue.next = next.filter(|_| repeats);
        }
    }

    /// What [`Self::repeat`] has handed over.
    fn transmit_handed_over(
        &mut self,
        now: Instant,
        choice: Choice,
        buf: &mut [u8],
        max_segments: usize,
    ) -> Option<Transmit> {
        let end = |connection: &Self| {
            let path = connection.paths.get(choice.path);
            path.map(|path| path.space.sent.end())
        };
        let first = end(self);
        self.fec.copying = true;
        let load = Load::all(choice);
        let transmit = self.transmit_choice(now, choice, load, buf, max_segments);
        self.fec.copying = false;
        if let Some(path) = self.paths.get_mut(choice.path)
            && let Some(first) = first
            && path.space.sent.end() > first
        {
            path.space.sent.mark_copies(first);
        }
        transmit
    }

    /// Whether the loss of what another path carries as well calls for it once more: nothing waits for the room
    /// that this takes, and the copy may have met a full queue, too. Codes take care of their own.
    pub(super) fn repeats_what_was_copied(&self) -> bool {
        self.paths.len() > 1
            && !self.is_coded()
            && !self.streams.has_data()
            && !self.streams.is_held_back()
    }

    /// Whether something under way is protected.
    fn is_coded(&self) -> bool {
        let sender = self.fec.sender.as_deref();
        sender.is_some_and(FecSender::is_open)
    }

    /// Nothing waits: hands what is under way on one path to another where the copy helps. The path for
    /// the copy.
    fn repeat(&mut self, now: Instant) -> Option<Choice> {
        let repeats = self.multipath.as_ref()?.scheduler.repeats();
        let rests = |path: &Path| path.space.sent.eliciting_outstanding() == 0;
        if repeats == Repeats::Never || self.paths.iter().all(rests) {
            return None;
        }
        let views = self.path_views(now);
        let ready = self.paths_for_copies(now, &views);
        let mut overdue_bytes: u64 = 0;
        let mut found = None;
        let mut copied: SmallVec<[u64; 8]> = SmallVec::new();
        let pairs = ready
            .iter()
            .flat_map(|by| views.iter().map(move |from| (by, from)));
        for ((by, silent), from) in pairs {
            let Some(worth) = self.worth_a_copy(now, repeats, from, by, *silent) else {
                continue;
            };
            let Some(path) = self.paths.get_mut(from.id) else {
                continue;
            };
            let newest = path.space.last_eliciting_sent;
            if newest.is_none_or(|sent| worth.is_too_early(sent)) {
                // No need to look at each packet.
                continue;
            }
            let covered = Covered::by(self.fec.sender.as_deref());
            let mut fates = frame_fates!(self, path, Instant::ZERO, copies: true);
            let notices = fates.streams.notices_len();
            let handed = path.recovery.repeat(
                &mut path.space,
                by.datagram,
                |packet| worth.is_too_early(packet.sent()),
                |packet, symbol| {
                    let unprotected = worth.lossy && !covered.contains(symbol);
                    let picked =
                        worth.all || worth.still || unprotected || worth.is_late(packet.sent());
                    let overdue = !picked && worth.is_overdue(packet);
                    if overdue {
                        overdue_bytes += u64::from(packet.bytes);
                    }
                    copied.extend(symbol.filter(|_| picked || overdue));
                    picked || overdue
                },
                &mut fates,
            );
            fates.streams.forget_losses(notices);
            self.apply_deferred(SpaceKind::Data, None);
            if handed > 0 {
                self.stats.bytes_repeated += handed;
                found = Some(Choice {
                    path: by.id,
                    bytes: by.datagram,
                    ahead: 0,
                });
                break;
            }
        }
        self.keep_views(views);
        if let Some(multipath) = &mut self.multipath {
            multipath.overdue.bytes += overdue_bytes;
        }
        if let Some(sender) = self.fec.sender.as_deref_mut() {
            copied.into_iter().for_each(|id| sender.on_copied(id));
        }
        found
    }

    /// What of the path `from` is worth a copy on `by`, which may be the same, or `silent`.
    fn worth_a_copy(
        &self,
        now: Instant,
        repeats: Repeats,
        from: &PathView,
        by: &PathView,
        silent: bool,
    ) -> Option<Worth> {
        let (all, same) = (repeats == Repeats::All, by.id == from.id);
        let path = self.paths.get(from.id).filter(|_| !all || !same)?;
        let (there, here) = (by.one_way_delay(), from.one_way_delay());
        // While flow control holds more back, what is lost is found out without waiting for a timeout.
        let at_end = !self.streams.is_held_back();
        let usual = from.proven_delay();
        let still = from.is_outrun_by(by);
        // A copy stands for the original, whose own loss then calls for nothing: it must not take
        // longer than finding that out would.
        let soon = there < here + from.recent_rtt / 4;
        let lossy = soon && !silent && from.loss >= WORTH_A_COPY;
        let late = now + there + from.recent_rtt / GAIN;
        let acks = path.ack_frequency.peer_acks(self.peer_max_ack_delay());
        let overdue = path.recovery.overdue(same, acks);
        let begun = || overdue.begins(&path.space).is_some_and(|at| at <= now);
        Some(Worth {
            now,
            all,
            still: still && at_end && !same,
            lossy: lossy && at_end && !same,
            late: (!same && !silent).then_some((usual, late)),
            overdue: (at_end && !silent && !all && self.affords_overdue() && begun())
                .then_some(overdue),
        })
    }

    /// Whether more of what is overdue may be sent again.
    fn affords_overdue(&self) -> bool {
        let stats = self.paths.iter().map(|path| path.recovery.stats());
        let sent = stats.map(|stats| stats.bytes_sent).sum();
        let multipath = self.multipath.as_ref();
        multipath.is_some_and(|multipath| multipath.overdue.affords_more(sent))
    }

    /// The paths that may carry copies now, the fastest first; and, as the last resort, those that are silent but
    /// have stood still before and come back: what waits there goes on as soon as they do.
    fn paths_for_copies(
        &mut self,
        now: Instant,
        views: &[PathView],
    ) -> SmallVec<[(PathView, bool); 4]> {
        let class = |path: &Path| path.cost.cost.class;
        let cheapest = views.first().and_then(|view| self.paths.get(view.id));
        let cheapest = cheapest.map(class);
        let mut ready: SmallVec<[(PathView, bool); 4]> =
            views.iter().map(|view| (*view, false)).collect();
        // With codes the loss of an original calls for nothing, and its copy waits there.
        let coded = self.is_coded();
        for index in 0..self.paths.len() {
            let Some(path) = self.paths.at(index) else {
                continue;
            };
            let id = path.id;
            let comes_back = path.recovery.frequent_standstill(now).is_some();
            let known = views.iter().any(|view| view.id == id);
            if coded || known || !path.is_usable() || !comes_back || Some(class(path)) != cheapest {
                continue;
            }
            let size = self.datagram_size(now, id);
            let may_send = self.permit(now, id, size, false) == Permit::Full;
            if let Some(path) = self.paths.get(id) {
                ready.push((self.view_of(now, path, may_send), true));
            }
        }
        let available = |view: &PathView| view.status == PathStatus::Available;
        let any = views.iter().any(available);
        ready.retain(|(path, _)| {
            // What a queue has just dropped does not go there once more.
            path.may_send && !path.is_full() && (!any || available(path))
        });
        ready.sort_by_key(|(path, silent)| (*silent, path.smoothed_rtt));
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_what_is_overdue_are_a_small_part() {
        let mut copies = OverdueCopies::default();
        assert!(copies.affords_more(0));
        copies.bytes = 40_000;
        assert!(!copies.affords_more(200_000));
        assert!(copies.affords_more(1_000_000));
    }

    #[test]
    fn a_look_in_vain_holds_for_a_while_if_nothing_changes() {
        let start = Instant::from_nanos(5);
        let copies = OverdueCopies {
            in_vain: Some((start + LOOKS, 7)),
            ..OverdueCopies::default()
        };
        assert!(copies.is_in_vain(start + LOOKS / 2, 7));
        assert!(!copies.is_in_vain(start + LOOKS, 7), "too long ago");
        assert!(!copies.is_in_vain(start, 8), "sent at the same instant");
        let (mut fired, mut heard) = (copies, copies);
        fired.on_timeout(start);
        heard.look_again();
        for changed in [fired, heard] {
            assert!(!changed.is_in_vain(start, 7));
        }
    }

    #[test]
    fn a_timer_that_has_fired_is_none() {
        let at = Instant::from_nanos;
        let mut copies = OverdueCopies {
            next: Some(at(5)),
            ..OverdueCopies::default()
        };
        copies.on_timeout(at(4));
        assert_eq!(copies.timer(), Some(at(5)));
        copies.on_timeout(at(5));
        assert_eq!(copies.timer(), None);
    }
}
