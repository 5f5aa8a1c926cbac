//! HyStart++: leave slow start when the RTT rises, before packets are lost. RFC 9406, but that a round of any length shows
//! that the RTT came down again, and that a queue has to grow with the window: where delays vary by more than the threshold, a
//! round trip that stays long is no full path.

use std::time::Duration;

use super::AckEvent;
use crate::units::PacketNumber;

const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u32 = 8;
/// Growth in conservative slow start is this many times smaller.
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;
/// Full datagrams the window grows by per ACK at most, where packets are not paced.
const L_UNPACED: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Slow start.
    Standard,
    /// Conservative slow start: the RTT rose; watching whether it stays up.
    Conservative {
        /// Smallest RTT of the round in which the rise was seen.
        baseline: Duration,
        /// Rounds spent here, the partial one of the entry included.
        rounds: u32,
        /// The congestion window then, bytes.
        window: u64,
    },
}

/// What an acknowledgement means for the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// Add this many bytes.
    Add(u64),
    /// The pipe is full: slow start is over at the present window.
    Exit,
}

/// RTT rounds of one slow start.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    phase: Phase,
    /// The round ends when this packet number or a later one is acknowledged.
    round_end: Option<PacketNumber>,
    last_round_min: Option<Duration>,
    current_round_min: Option<Duration>,
    samples: u32,
    /// RFC 9406 s4.3: L is infinite where packets are paced.
    paced: bool,
}

impl HyStart {
    pub(super) const fn new(paced: bool) -> Self {
        Self {
            phase: Phase::Standard,
            round_end: None,
            last_round_min: None,
            current_round_min: None,
            samples: 0,
            paced,
        }
    }

    /// Whether growth is throttled because the RTT rose.
    pub(super) const fn is_conservative(&self) -> bool {
        matches!(self.phase, Phase::Conservative { .. })
    }

    /// What round trips were says nothing about those to come: the way back is another one.
    pub(super) fn on_return_path(&mut self) {
        (self.last_round_min, self.current_round_min) = (None, None);
        self.samples = 0;
        self.phase = Phase::Standard;
    }

    /// An acknowledgement in slow start with a window of `window` bytes; `tested` says whether it may grow at all.
    pub(super) fn on_ack(
        &mut self,
        event: &AckEvent,
        window: u64,
        mtu: u64,
        tested: bool,
    ) -> Growth {
        if self.round_end.is_none_or(|end| event.largest_acked >= end)
            && self.start_round(event.next_packet_number, window)
        {
            return Growth::Exit;
        }
        if event.has_rtt_sample {
            let sample = event.rtt.latest;
            self.samples = self.samples.saturating_add(1);
            self.current_round_min =
                Some(self.current_round_min.map_or(sample, |min| min.min(sample)));
            self.judge(window);
        }
        if !tested {
            return Growth::Add(0);
        }
        let acked = if self.paced {
            event.acked_bytes
        } else {
            event.acked_bytes.min(L_UNPACED.saturating_mul(mtu))
        };
        Growth::Add(match self.phase {
            Phase::Standard => acked,
            Phase::Conservative { .. } => acked / CSS_GROWTH_DIVISOR,
        })
    }

    /// Returns whether slow start is over.
    fn start_round(&mut self, next: PacketNumber, window: u64) -> bool {
        let first = self.round_end.is_none();
        self.round_end = Some(next);
        // Also after fewer samples than the RFC asks for: more of them could but lower the minimum. The rounds of a sender
        // that is short of data never have eight, and five of them would end slow start at the window of then.
        self.resume_if_lower();
        self.last_round_min = self.current_round_min.take();
        self.samples = 0;
        let Phase::Conservative {
            baseline,
            rounds,
            window: entry,
        } = &mut self.phase
        else {
            return false;
        };
        *rounds += u32::from(!first);
        if *rounds < CSS_ROUNDS {
            return false;
        }
        // The window is two to three times that of the entry. Had the path been full then, the round trip would have grown as
        // much.
        let has_grown = window >= entry.saturating_mul(3) / 2;
        let is_longer = |min: Duration| min >= baseline.saturating_add(threshold(*baseline));
        if has_grown && self.last_round_min.is_some_and(|min| !is_longer(min)) {
            self.phase = Phase::Standard;
            return false;
        }
        true
    }

    /// Moves between the two phases once a round has enough samples. RFC 9406 s4.2.
    fn judge(&mut self, window: u64) {
        let Some(current) = self.current_round_min else {
            return;
        };
        if self.samples < N_RTT_SAMPLE {
            return;
        }
        match self.phase {
            Phase::Standard => {
                let Some(last) = self.last_round_min else {
                    return;
                };
                if current >= last.saturating_add(threshold(last)) {
                    self.phase = Phase::Conservative {
                        baseline: current,
                        rounds: 0,
                        window,
                    };
                }
            }
            Phase::Conservative { .. } => self.resume_if_lower(),
        }
    }

    /// The rise was noise if the RTT came down again.
    fn resume_if_lower(&mut self) {
        if let Phase::Conservative { baseline, .. } = self.phase
            && self.current_round_min.is_some_and(|min| min < baseline)
        {
            self.phase = Phase::Standard;
        }
    }
}

/// By how much a round trip has to be longer than this one to count as longer. RFC 9406 s4.2.
fn threshold(rtt: Duration) -> Duration {
    (rtt / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::test_link::ack;

    /// Acknowledges packet after packet; each round is `per_round` packets long.
    struct Rounds {
        hystart: HyStart,
        next: u64,
        per_round: u64,
        window: u64,
    }

    impl Rounds {
        fn new() -> Self {
            Self {
                hystart: HyStart::new(true),
                next: 0,
                per_round: 10,
                window: 10_000,
            }
        }

        /// With a window of so many bytes, after a round of 100 ms and one of 120 ms, in which the rise is seen.
        fn after_a_rise(window: u64) -> Self {
            let mut rounds = Self {
                window,
                ..Self::new()
            };
            rounds.round(100);
            rounds.round(120);
            rounds
        }

        fn round(&mut self, rtt_ms: u64) -> Vec<Growth> {
            let first = self.next;
            self.next += self.per_round;
            (first..self.next)
                .map(|number| {
                    let event = ack(number, self.next, 1_000, Duration::from_millis(rtt_ms));
                    let growth = self.hystart.on_ack(&event, self.window, 1_000, true);
                    if let Growth::Add(bytes) = growth {
                        self.window += bytes;
                    }
                    growth
                })
                .collect()
        }
    }

    #[test]
    fn steady_rtt_stays_in_slow_start() {
        let mut rounds = Rounds::new();
        for _ in 0..20 {
            assert!(rounds.round(100).iter().all(|g| *g == Growth::Add(1_000)));
        }
        assert!(!rounds.hystart.is_conservative());
    }

    #[test]
    fn rise_below_threshold_is_ignored_and_above_enters_css() {
        // 100 ms / 8 = 12.5 ms.
        let mut rounds = Rounds::new();
        rounds.round(100);
        rounds.round(112);
        assert!(!rounds.hystart.is_conservative());
        let mut rounds = Rounds::new();
        rounds.round(100);
        let growth = rounds.round(113);
        assert!(rounds.hystart.is_conservative());
        assert_eq!(growth[6], Growth::Add(1_000), "needs eight samples");
        assert_eq!(growth[7], Growth::Add(250));
    }

    #[test]
    fn threshold_is_clamped_to_4_and_16_ms() {
        let mut rounds = Rounds::new();
        rounds.round(10);
        rounds.round(13);
        assert!(
            !rounds.hystart.is_conservative(),
            "3 ms is below the floor of 4 ms"
        );
        rounds.round(17);
        assert!(rounds.hystart.is_conservative());
        let mut rounds = Rounds::new();
        rounds.round(600);
        rounds.round(616);
        assert!(rounds.hystart.is_conservative(), "16 ms suffice at any RTT");
    }

    #[test]
    fn five_rounds_of_css_end_slow_start() {
        // The partial round counts.
        let mut rounds = Rounds::after_a_rise(10_000);
        for rtt in [130, 140, 150, 160] {
            assert!(!rounds.round(rtt).contains(&Growth::Exit));
        }
        assert_eq!(rounds.round(170)[0], Growth::Exit);
    }

    #[test]
    fn a_round_trip_that_does_not_grow_with_the_window_is_no_queue() {
        let mut rounds = Rounds::after_a_rise(1_000);
        let later: Vec<Growth> = (0..5).flat_map(|_| rounds.round(125)).collect();
        assert!(!later.contains(&Growth::Exit));
        assert_eq!(later.last(), Some(&Growth::Add(1_000)));
    }

    #[test]
    fn a_window_that_did_not_grow_tells_nothing_of_a_queue() {
        let mut rounds = Rounds::after_a_rise(1_000_000);
        for _ in 0..4 {
            assert!(!rounds.round(125).contains(&Growth::Exit));
        }
        assert_eq!(rounds.round(125)[0], Growth::Exit);
    }

    #[test]
    fn falling_rtt_resumes_slow_start() {
        let mut rounds = Rounds::new();
        rounds.round(100);
        rounds.round(120);
        assert!(rounds.hystart.is_conservative());
        rounds.round(110);
        assert!(!rounds.hystart.is_conservative());
    }

    #[test]
    fn a_delay_that_passes_does_not_end_the_slow_start_of_a_sender_that_is_short_of_data() {
        let mut rounds = Rounds::new();
        rounds.round(30);
        rounds.round(120);
        assert!(rounds.hystart.is_conservative());
        rounds.per_round = 4;
        let later: Vec<Growth> = (0..8).flat_map(|_| rounds.round(30)).collect();
        assert!(!later.contains(&Growth::Exit));
        assert_eq!(later.last(), Some(&Growth::Add(1_000)));
    }

    #[test]
    fn unpaced_growth_is_limited_to_eight_datagrams() {
        let mut hystart = HyStart::new(false);
        let event = ack(9, 20, 20_000, Duration::from_millis(50));
        assert_eq!(
            hystart.on_ack(&event, 10_000, 1_000, true),
            Growth::Add(8_000)
        );
        assert_eq!(hystart.on_ack(&event, 10_000, 1_000, false), Growth::Add(0));
    }
}
