//! What the redundancy scheduler is told and asked.
//!
//! Owns: the view, when it is asked, the bounds of what it may say. Does not own: what it says
//! (`redundancy/`).

use std::ops::Range;

use super::{FecSender, plain::Plain};
use crate::{
    fec::{
        PathOutlook,
        redundancy::{Occasion, Outlook, RedundancyView, before_flight, last_flight},
    },
    message::MessageOutlook,
    time::Instant,
    units::{PacketNumber, PathId},
};

impl FecSender {
    /// Whether a packet that leaves now is protected.
    pub fn protects(&mut self, now: Instant, outlook: Outlook) -> bool {
        self.outlook = outlook;
        if self.paths.is_late(outlook.path) {
            return false;
        }
        let view = self.view(now, Some(outlook.path));
        let protects = self.scheduler.protects(&view);
        self.plain = if protects {
            Plain::default()
        } else {
            Plain::new(self.scheduler.plain_for(&view))
        };
        protects
    }

    /// Whether a packet of up to `bytes` bytes is plain without [`Self::protects`] being asked. Only where
    /// no message has a deadline. `now_waits`: of its path the congestion window and whether that grows with every
    /// acknowledgement, and what waits as in [`Outlook::waiting_bytes`]; looked at where feedback came since.
    #[inline]
    pub fn leaves_plain(
        &mut self,
        bytes: u64,
        now_waits: impl FnOnce() -> (u64, bool, u64),
    ) -> bool {
        if self.plain.is_doubtful() {
            let (congestion_window, slow_start, waiting) = now_waits();
            let flight = last_flight(congestion_window, slow_start, self.window_bytes());
            self.plain.bound(before_flight(waiting, flight));
        }
        self.plain.takes(bytes)
    }

    /// Whether [`Occasion::Feedback`] need be asked, where no message has a deadline.
    pub fn heeds_feedback(&self, now: Instant) -> bool {
        self.held_back || self.scheduler.heeds_feedback(now)
    }

    /// Whether [`Outlook::ends_in`] is of interest.
    pub fn heeds_ends(&self) -> bool {
        self.scheduler.heeds_ends()
    }

    /// A stream may end earlier than the scheduler was told: no packet leaves plain without a question any more.
    pub fn on_new_end(&mut self) {
        self.plain = Plain::default();
    }

    /// `newest`: the path that what is asked about leaves on, or has left on last.
    fn view(&mut self, now: Instant, newest: Option<PathId>) -> RedundancyView {
        let outlook = self.outlook;
        let loss = self.monitors.first();
        let mut view = RedundancyView {
            now,
            held: self.source.encoder.window().len,
            span: u16::try_from(self.source.span()).unwrap_or(u16::MAX),
            sources: self.source.next_id(),
            uncovered: self.source.next_id() - self.queue.covered(),
            in_flight: self.source.in_flight(),
            missing: self.waiting.len() as u64,
            retransmitted: self.stats.retransmitted,
            burst_bytes: self.burst_bytes,
            burst_interval: self.bursts.interval(),
            left_bytes: self.bursts.left_bytes(),
            queued: self.queue.len(),
            repairs_in_flight: self.repairs.in_flight(),
            idle: !self.in_burst,
            held_back: self.held_back,
            flow_window: self.flow_window,
            waiting_bytes: outlook.waiting_bytes,
            window_bytes: self.window_bytes(),
            congestion_window: outlook.congestion_window,
            bytes_in_flight: outlook.bytes_in_flight,
            datagram_bytes: outlook.datagram_bytes,
            slow_start: outlook.slow_start,
            smoothed_rtt: self.path.smoothed_rtt,
            min_rtt: self.path.min_rtt,
            calm_rtt: self.path.calm_rtt,
            probe_timeout: self.path.probe_timeout,
            capacity: self.path.capacity.filter(|_| !outlook.several),
            one_way_delay: outlook.one_way_delay.unwrap_or(self.path.smoothed_rtt / 2),
            expected_losses: self.source.in_flight() as f64 * loss.rate,
            loss,
            by_company: self.company.seen(),
            repair_loss: None,
            several: outlook.several,
            paths: 1,
            strength: self.repairs.strength(),
            deadline: self.outlook.messages.deadline,
            lifetime: self.outlook.messages.lifetime,
            sent_deadline: self.outlook.messages.sent_deadline,
            next_message_at: self.outlook.messages.next_message_at,
            repeats: self.repeats,
            stream_ends: self.stream_ends,
            more_waits: outlook.more_waits,
            ends_in: outlook.ends_in,
        };
        let on = |path| self.source.in_flight_on(path);
        self.paths.describe(newest, &on, &self.monitors, &mut view);
        view
    }

    /// The paths that data may use, before the next question. Fewer than two: there is no choice.
    pub(crate) fn look_at_paths(&mut self, paths: impl Iterator<Item = PathOutlook>) {
        self.paths.set(paths);
    }

    /// The path for the repair symbols that wait, of those that `may` send.
    pub(crate) fn repair_path(&self, may: impl Fn(PathId) -> bool) -> Option<PathId> {
        let on = |path| self.source.in_flight_on(path);
        self.paths.for_repair(&on, &self.monitors, may)
    }

    /// Source symbols that repair symbols under way are likely to rebuild, whichever of them is lost next.
    pub(crate) fn covered(&self) -> Range<u64> {
        let Some((group, repairs)) = self.repairs.under_way() else {
            return 0..0;
        };
        if self.are_likely(self.losses(group) + 1, repairs) {
            group.run().ids()
        } else {
            0..0
        }
    }

    /// Whether the scheduler means to send repair symbols for a source symbol in time.
    pub(crate) fn is_planned(&self, id: u64) -> bool {
        self.scheduler.plans(id)
    }

    /// What is known of messages now, for whoever is asked next.
    pub fn set_messages(&mut self, messages: MessageOutlook) {
        self.outlook.messages = messages;
    }

    /// Bytes that a coding window of the longest symbols may have.
    fn window_bytes(&self) -> u64 {
        let limits = self.source.encoder.limits();
        let symbols = self.peer.symbols().min(limits.window_symbols().into());
        let bytes = symbols.saturating_mul(self.max_symbol as u64);
        bytes.min(self.peer.bytes())
    }

    /// Nothing is there to send. Whether that is all there is to it: false where something protected is open, so that
    /// [`Self::ask`] is to be asked.
    pub fn on_pause(&mut self) -> bool {
        let nothing_open = !self.in_burst && !self.is_open() && self.waiting.is_empty();
        if nothing_open {
            self.on_dry();
            self.bursts.on_pause();
        }
        nothing_open
    }

    /// Nothing waits to be sent.
    fn on_dry(&mut self) {
        self.outlook.waiting_bytes = 0;
        self.outlook.ends_in = None;
    }

    /// Asks the scheduler, and queues what it wants. Returns how many repair symbols that are, and
    /// over how many source symbols.
    pub fn ask(&mut self, occasion: Occasion, now: Instant) -> Option<(u16, u16)> {
        let pause = occasion == Occasion::BurstEnd;
        let occasion = match occasion {
            Occasion::BurstEnd if !std::mem::take(&mut self.in_burst) => Occasion::SlotIdle,
            occasion => occasion,
        };
        if matches!(occasion, Occasion::BurstEnd | Occasion::SlotIdle) {
            self.on_dry();
        }
        let most = self.room();
        if occasion == Occasion::SlotIdle {
            if pause {
                self.bursts.on_pause();
            }
            if most == 0 {
                return None;
            }
        } else {
            self.asked = Some(now);
        }
        self.plain = Plain::default();
        let newest = (occasion == Occasion::SlotFree).then_some(self.newest);
        let view = self.view(now, newest);
        // Of several paths the slower ones tell later, and copies stand in for symbols.
        if !view.several {
            let source = &self.source;
            let known = source.largest_known();
            self.scheduler.look(now, known, &|id| source.fate(id));
        }
        let wanted = self.scheduler.ask(occasion, &view);
        if occasion == Occasion::BurstEnd {
            self.burst_bytes = 0;
            self.bursts.on_pause();
        }
        let count = wanted.count.min(most);
        let mut window = self
            .source
            .encoder
            .latest(wanted.window.saturating_add(wanted.behind));
        window.len = window.len.saturating_sub(wanted.behind);
        if count == 0 || window.len == 0 {
            return None;
        }
        let saving = self.scheduler.saving();
        self.stats.expected_saving = self.stats.expected_saving.saturating_add(saving);
        self.queue.push(window, count);
        Some((count, window.len))
    }

    /// A probe timeout: nothing tells which packets are missing, so repair symbols over all of them
    /// are better probes than some of them repeated. Makes so many leave, and no others; false if they
    /// would not cover what is in flight on the path from packet `oldest` on.
    pub(crate) fn probe(&mut self, path: PathId, oldest: PacketNumber, count: u16) -> bool {
        let Some(run) = self.source.open_run() else {
            return false;
        };
        let first = self.source.get(run.first);
        let covers = first.is_some_and(|first| first.path == path && first.number <= oldest);
        if count == 0 || !covers || !self.can_add(run) {
            return false;
        }
        self.queue.replace(run, count);
        true
    }

    /// Whether the fate of some source symbol is open.
    pub fn is_open(&self) -> bool {
        self.source.span() > 0
    }

    /// How many repair symbols a scheduler may add: no more than two for each symbol whose fate is
    /// open. What it asks for again and again is bounded by that, and an idle connection falls silent.
    fn room(&self) -> u16 {
        let under_way = self.repairs.in_flight() + u64::from(self.queue.len());
        let open = self.source.in_flight() + self.waiting.len() as u64;
        let room = (2 * open).saturating_sub(under_way);
        let room = u16::try_from(room).unwrap_or(u16::MAX);
        room.min(self.queue.room())
    }

    /// What is known of the path in use, before [`Self::ask`].
    pub fn look(&mut self, outlook: Outlook) {
        self.outlook = Outlook {
            waiting_bytes: self.outlook.waiting_bytes,
            ends_in: self.outlook.ends_in,
            ..outlook
        };
    }

    /// Nothing can be sent: the application has nothing, or flow control holds it back.
    pub fn on_idle(&mut self, held_back: bool) {
        self.held_back = held_back;
        if held_back {
            self.flow_window = Some(self.outlook.bytes_in_flight);
        }
    }

    /// A scheduler that names a time in the past again and again must not hold the driver here.
    pub(super) fn scheduler_timer(&self) -> Option<Instant> {
        let timer = self.scheduler.timer();
        timer.filter(|at| self.asked.is_none_or(|asked| *at > asked))
    }

    /// Whether the scheduler's time has come.
    pub fn wants_to_be_asked(&self, now: Instant) -> bool {
        self.scheduler_timer().is_some_and(|at| at <= now)
    }
}
