//! Messages with deadlines: as few repair symbols as possible, as late as possible.

use std::time::Duration;

use super::{Flec, Sequence, Slot, UseCase};
use crate::{
    fec::{Occasion, RedundancyView, redundancy::options::Options},
    time::Instant,
};

/// Bursts or messages that are remembered; further ones share the latest.
const BURSTS: usize = 16;
/// The text's epsilon, unless another is given: what timers and queues may take.
const MARGIN: Duration = Duration::from_millis(5);
/// The text's theta, unless another is given: a fifth of the window is left to messages to come.
const RESERVE: f64 = 1.25;

/// `flec-message`: the anchors for delay-constrained messages of Michel (2023), s5.7.1.3: `ds()` is
/// minus the loss rate, `FECPattern()` is Algorithm 4. Once the application has sent all it has, repair
/// symbols cover what is open, but no earlier than they must to meet the next deadline, if another
/// message is to come until then, so that both share them. What was acknowledged until then costs
/// none.
///
/// Deadlines and the time of the next message come from messages, where the application sends such.
/// Without them every burst is covered at its end, which is the study's variant "NO-API"; `api=off`
/// asks for that. `deadline=` and `interval=` take every burst for a message that is worth something
/// for so long, and that another follows after so long.
///
/// Algorithm 4 counts a repair symbol as sent before it asks, in line 16, whether the application is
/// limited and the window has room, and would never send what these forbid once; here they are asked
/// first. Its loop runs at every slot, here a timer stands for the slots of silence.
/// The text gives no value for epsilon and theta. The one-way delay is half a round trip where no
/// receive timestamps tell, as in the text.
pub type Message = Flec<Messaging>;

/// The anchors of [`Message`].
#[derive(Clone, Debug, PartialEq)]
pub struct Messaging {
    options: Terms,
    sequence: Sequence,
    bursts: Bursts,
    due: Option<Instant>,
}

/// What is known of messages without being told by messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Whether deadlines of messages are heeded.
    pub api: bool,
    /// For how long a burst is worth something.
    pub deadline: Option<Duration>,
    /// The time from the beginning of a burst to that of the next.
    pub interval: Option<Duration>,
    /// How much earlier than they must repair symbols leave. The text's epsilon.
    pub margin: Duration,
    /// What the congestion window must be of the bytes in flight, at least. The text's theta.
    pub reserve: f64,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            api: true,
            deadline: None,
            interval: None,
            margin: MARGIN,
            reserve: RESERVE,
        }
    }
}

/// Bursts or messages of which nothing is covered, oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bursts {
    all: [Burst; BURSTS],
    len: usize,
    /// When the newest of all began.
    newest: Option<Instant>,
    /// Whether the next symbol begins one.
    over: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Burst {
    /// The ID of its first symbol.
    first: u64,
    began: Instant,
    /// The deadline of the message that it is, if it is one that has one.
    deadline: Option<Instant>,
}

impl Bursts {
    fn on_symbol(&mut self, burst: Burst) {
        let over = std::mem::take(&mut self.over);
        let of_latest = self.open().last().and_then(|latest| latest.deadline);
        let another_message = burst.deadline.is_some() && burst.deadline != of_latest;
        if !over && self.len > 0 && !another_message {
            return;
        }
        self.newest = Some(burst.began);
        if let Some(entry) = self.all.get_mut(self.len) {
            *entry = burst;
            self.len += 1;
        }
    }

    /// Everything below `open` has arrived.
    fn forget(&mut self, open: u64) {
        // All but the last that begins there or before are over.
        let begun = self.open().iter().take_while(|burst| burst.first <= open);
        let gone = begun.count().saturating_sub(1);
        self.all.rotate_left(gone);
        self.len -= gone;
    }

    fn open(&self) -> &[Burst] {
        self.all.get(..self.len).unwrap_or_default()
    }
}

impl Messaging {
    /// With these terms.
    pub fn new(options: Terms) -> Self {
        Self {
            options,
            sequence: Sequence::default(),
            bursts: Bursts::default(),
            due: None,
        }
    }

    /// `nextDL`: the earliest deadline of what is not covered that can still be met.
    fn next_deadline(&self, view: &RedundancyView) -> Option<Instant> {
        let deadlines = self.bursts.open().iter().filter_map(|burst| {
            let of_burst = || Some(burst.began + self.options.deadline?);
            burst.deadline.or_else(of_burst)
        });
        let arrival = view.now + view.one_way_delay;
        deadlines.filter(|deadline| *deadline >= arrival).min()
    }

    /// `nextMsg`: the time until the next message; `None` is for ever.
    fn next_message(&self, view: &RedundancyView) -> Option<Duration> {
        let known = view.next_message_at.filter(|_| self.options.api);
        let of_burst = || Some(self.bursts.newest? + self.options.interval?);
        let at = known.or_else(of_burst)?;
        Some(at.saturating_since(view.now))
    }

    /// Lines 1 and 2. Sets the time by which it must be done where it can wait.
    fn must_protect(&mut self, view: &RedundancyView) -> bool {
        self.due = None;
        let Some(deadline) = self.next_deadline(view) else {
            return true;
        };
        let Some(next) = self.next_message(view) else {
            return true;
        };
        let under_way = view.one_way_delay + self.options.margin;
        if view.now + under_way + next >= deadline {
            return true;
        }
        self.due = Some(view.now + deadline.saturating_since(view.now + under_way));
        false
    }
}

impl Message {
    pub(in super::super) const NAME: &'static str = "flec-message";
    pub(in super::super) const USAGE: &'static str = "flec-message or \
        flec-message:deadline=MS,interval=MS,epsilon=5,theta=1.25,api=on (MS 0.001 to 60000, epsilon in ms, \
        0 to 60000, theta 1 to 100)";
    pub(in super::super) const KEYS: &'static [&'static str] =
        &["deadline", "interval", "epsilon", "theta", "api"];

    pub(in super::super) fn parse(options: &Options<'_>) -> Option<Self> {
        let time = |key, default, least| {
            let millis = options.number(key, default, least..=60_000.0)?;
            Some(Duration::from_micros((millis * 1e3) as u64))
        };
        let given = |time: Duration| Some(time).filter(|time| !time.is_zero());
        let least = |key| if options.has(key) { 0.001 } else { 0.0 };
        let terms = Terms {
            api: options.switch("api", true)?,
            deadline: given(time("deadline", 0.0, least("deadline"))?),
            interval: given(time("interval", 0.0, least("interval"))?),
            margin: time("epsilon", MARGIN.as_secs_f64() * 1e3, 0.0)?,
            reserve: options.number("theta", RESERVE, 1.0..=100.0)?,
        };
        let message = Self::new(Messaging::new(terms));
        options.are_by_key().then_some(message)
    }
}

impl UseCase for Messaging {
    fn name(&self) -> &'static str {
        Message::NAME
    }

    fn look(&mut self, occasion: Occasion, view: &RedundancyView) {
        match occasion {
            Occasion::SlotFree => self.bursts.on_symbol(Burst {
                first: view.sources.saturating_sub(1),
                began: view.now,
                deadline: view.sent_deadline.filter(|_| self.options.api),
            }),
            Occasion::BurstEnd => self.bursts.over = true,
            Occasion::Timer => self.due = None,
            Occasion::Feedback | Occasion::SlotIdle => {}
        }
        if view.span == 0 {
            self.bursts.len = 0;
            self.due = None;
        } else {
            let open = view.sources.saturating_sub(view.span.into());
            self.bursts.forget(open);
        }
    }

    fn fec_pattern(&mut self, slot: &Slot<'_>) -> bool {
        let view = slot.view;
        let has_room =
            view.congestion_window as f64 > self.options.reserve * slot.bytes_in_flight() as f64;
        if !slot.is_application_limited() || !has_room || !self.must_protect(view) {
            return false;
        }
        let most = self.sequence.expected(slot);
        let takes = self.sequence.step(slot, most, false);
        // All of it is covered, or was before.
        self.bursts.len = 0;
        takes
    }

    fn timer(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{idle, view},
        *,
    };
    use crate::fec::{RedundancyScheduler, Repairs};

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32, view: RedundancyView) -> RedundancyView {
        RedundancyView {
            now: Instant::ZERO + ms * MS,
            ..view
        }
    }

    fn message(deadline: u32, interval: u32) -> Message {
        let time = |ms: u32| Some(ms * MS).filter(|time| !time.is_zero());
        Message::new(Messaging::new(Terms {
            deadline: time(deadline),
            interval: time(interval),
            ..Terms::default()
        }))
    }

    /// A burst of `symbols` at `ms`, after which `sources` are sent and `span` are open. What is asked
    /// for at its end.
    fn burst(scheduler: &mut Message, ms: u32, symbols: u64, sources: u64, span: u16) -> Repairs {
        for sent in (0..symbols).rev() {
            let view = at(ms, view(sources - sent, span, 0.02));
            assert_eq!(scheduler.ask(Occasion::SlotFree, &view).count, 0);
        }
        let end = at(ms, idle(view(sources, span, 0.02)));
        scheduler.ask(Occasion::BurstEnd, &end)
    }

    #[test]
    fn without_deadlines_every_burst_is_covered_at_its_end() {
        let mut scheduler = message(0, 0);
        assert_eq!(burst(&mut scheduler, 0, 5, 5, 5).count, 1);
        assert_eq!(scheduler.timer(), None);
        assert_eq!(burst(&mut scheduler, 33, 5, 10, 10).count, 1);
        // The same where nobody knows whether another message follows.
        let mut scheduler = message(250, 0);
        assert_eq!(burst(&mut scheduler, 0, 5, 5, 5).count, 1);
    }

    #[test]
    fn messages_until_the_deadline_share_a_repair_symbol() {
        // 50 ms one way, 5 ms margin: the first must be covered by 195 ms.
        let mut scheduler = message(250, 33);
        for frame in 0..5u32 {
            let sources = u64::from(frame + 1) * 2;
            let repairs = burst(&mut scheduler, 33 * frame, 2, sources, sources as u16);
            assert_eq!(repairs.count, 0, "frame {frame}");
            assert_eq!(scheduler.timer(), Some(Instant::ZERO + 195 * MS));
        }
        // Another frame at 198 ms would be too late.
        let repairs = burst(&mut scheduler, 165, 2, 12, 12);
        assert_eq!(
            repairs,
            Repairs {
                count: 1,
                window: 12,
                behind: 0,
            }
        );
        assert_eq!(scheduler.timer(), None);
        // The next one begins anew.
        assert_eq!(burst(&mut scheduler, 198, 2, 14, 14).count, 0);
        assert_eq!(scheduler.timer(), Some(Instant::ZERO + (198 + 195) * MS));
    }

    #[test]
    fn what_does_not_come_is_not_waited_for() {
        let mut scheduler = message(250, 33);
        assert_eq!(burst(&mut scheduler, 0, 2, 2, 2).count, 0);
        let late = |ms| at(ms, idle(view(2, 2, 0.02)));
        assert_eq!(scheduler.ask(Occasion::SlotIdle, &late(100)).count, 0);
        assert_eq!(scheduler.ask(Occasion::Timer, &late(195)).count, 1);
        assert_eq!(scheduler.ask(Occasion::SlotIdle, &late(196)).count, 0);
    }

    #[test]
    fn what_has_arrived_is_not_covered() {
        let mut scheduler = message(250, 33);
        assert_eq!(burst(&mut scheduler, 0, 2, 2, 2).count, 0);
        // The first two symbols are acknowledged when the third frame ends.
        assert_eq!(burst(&mut scheduler, 33, 2, 4, 4).count, 0);
        assert_eq!(burst(&mut scheduler, 66, 2, 6, 4).count, 0);
        assert_eq!(scheduler.timer(), Some(Instant::ZERO + (33 + 195) * MS));
        let all = at(110, idle(view(6, 0, 0.02)));
        assert_eq!(scheduler.ask(Occasion::Feedback, &all).count, 0);
        assert_eq!(scheduler.timer(), None);
    }

    /// A message of one symbol at `ms` with this deadline, another to come at `next`, `open` of all so
    /// far open. What is asked for at its end.
    fn told(scheduler: &mut Message, ms: u32, deadline: u32, next: u32, open: u16) -> u16 {
        let view = RedundancyView {
            // Of a message that is covered already: not the one to meet.
            deadline: Some(Instant::ZERO),
            sent_deadline: Some(Instant::ZERO + deadline * MS),
            next_message_at: Some(Instant::ZERO + next * MS),
            ..at(ms, view(open.into(), open, 0.02))
        };
        let count = scheduler.ask(Occasion::SlotFree, &view).count;
        count + scheduler.ask(Occasion::BurstEnd, &idle(view)).count
    }

    #[test]
    fn deadlines_of_messages_go_before_those_of_bursts() {
        for (terms, first) in [(0, 0), (10_000, 0)] {
            let mut scheduler = message(terms, 0);
            assert_eq!(told(&mut scheduler, 0, 150, 40, 1), first);
            assert_eq!(scheduler.timer(), Some(Instant::ZERO + 95 * MS));
            // The second is more urgent; the third can wait for a fourth no more.
            assert_eq!(told(&mut scheduler, 40, 140, 60, 2), 0);
            assert_eq!(scheduler.timer(), Some(Instant::ZERO + 85 * MS));
            assert_eq!(told(&mut scheduler, 60, 300, 90, 3), 1);
            // All three are covered; the fourth has a deadline of its own.
            assert_eq!(told(&mut scheduler, 90, 350, 120, 4), 0);
            assert_eq!(scheduler.timer(), Some(Instant::ZERO + 295 * MS));
        }
        let mut deaf = Message::new(Messaging::new(Terms {
            api: false,
            ..Terms::default()
        }));
        assert_eq!(told(&mut deaf, 0, 150, 40, 1), 1);
        // One that cannot be met any more is none.
        let mut scheduler = message(0, 0);
        assert_eq!(told(&mut scheduler, 101, 150, 110, 1), 1);
    }

    #[test]
    fn window_and_flow_control_have_to_leave_room() {
        let end = idle(view(4, 4, 0.02));
        for (view, count) in [
            (end, 1),
            (
                RedundancyView {
                    bytes_in_flight: 96_000,
                    ..end
                },
                0,
            ),
            (
                RedundancyView {
                    held_back: true,
                    ..end
                },
                0,
            ),
        ] {
            let mut scheduler = message(0, 0);
            assert_eq!(scheduler.ask(Occasion::BurstEnd, &view).count, count);
            // What was not sent then is sent when it may.
            assert_eq!(scheduler.ask(Occasion::SlotIdle, &end).count, 1 - count);
        }
    }

    #[test]
    fn more_bursts_than_are_remembered() {
        let mut scheduler = message(60_000, 1);
        for frame in 0..100u32 {
            let sources = u64::from(frame) + 1;
            assert_eq!(
                burst(&mut scheduler, frame, 1, sources, sources as u16).count,
                0
            );
        }
        assert_eq!(scheduler.timer(), Some(Instant::ZERO + 59_945 * MS));
        let most = at(100, idle(view(100, 1, 0.02)));
        scheduler.ask(Occasion::SlotIdle, &most);
        assert_eq!(scheduler.timer(), Some(Instant::ZERO + 59_960 * MS));
    }
}
