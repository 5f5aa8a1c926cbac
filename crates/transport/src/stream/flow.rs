//! Flow control of the connection and of each stream. RFC 9000 s4.

use std::time::Duration;

use crate::{config::WindowConfig, time::Instant};

/// Round trips shorter than this count as this long: below, what keeps an application from
/// reading is the operating system's scheduling, not the network.
const SHORTEST_TUNING_RTT: Duration = Duration::from_millis(2);

/// A window above this is taken for one that does not hold senders back.
const AMPLE: u64 = 8 << 20;

/// Bytes that two datagrams bring, about: fewer are not worth a grant.
const WORTH_A_GRANT: u64 = 2_900;

/// The largest value a limit can have on the wire.
const MAX_LIMIT: u64 = (1 << 62) - 1;

/// What the peer may send: a window that grows with the speed at which the application reads.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveWindow {
    /// Offset (or sum of offsets) the peer may reach.
    granted: u64,
    /// Bytes the application took, or that were discarded.
    consumed: u64,
    /// Bytes offered beyond what was consumed.
    window: u64,
    max_window: u64,
    /// When measuring began, and what was consumed then.
    mark: Option<(Instant, u64)>,
}

impl ReceiveWindow {
    pub(crate) fn new(config: WindowConfig) -> Self {
        let window = config.initial.min(MAX_LIMIT);
        Self {
            granted: window,
            consumed: 0,
            window,
            max_window: config.max.clamp(window, MAX_LIMIT),
            mark: None,
        }
    }

    pub(crate) fn granted(&self) -> u64 {
        self.granted
    }

    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// The application took (or nobody wants) `bytes` more.
    pub(crate) fn consume(&mut self, bytes: u64) {
        self.consumed = self.consumed.saturating_add(bytes);
    }

    /// Whether so much was consumed since the last grant that a new one is due: half of a window that still grows
    /// with need or is large, a thirty-second of others, but what two datagrams bring at least, if that is not above an
    /// eighth.
    ///
    /// A window that grows, or is large, seldom holds anybody back. One that does is used by the sender as it is granted: with
    /// parts of `1/n`, a round trip passes for `1 - 1/n` of a window or less, in bursts of a part, which one of several
    /// paths takes whole.
    pub(crate) fn wants_grant(&self) -> bool {
        let ample = self.window < self.max_window || self.window > AMPLE;
        let part = if ample {
            self.window / 2
        } else {
            (self.window / 32).max(WORTH_A_GRANT.min(self.window / 8))
        };
        self.next_grant().saturating_sub(self.granted) >= part.max(1)
    }

    /// Raises the limit to what may be offered now and returns it.
    pub(crate) fn grant(&mut self) -> u64 {
        self.granted = self.granted.max(self.next_grant());
        self.granted
    }

    /// Called as data arrives. Doubles the window when a quarter of it was read within one round
    /// trip, so that in the end it holds at least four bandwidth-delay products.
    ///
    /// Four, because grants come by the half window, a sender may fill the path and a queue as long,
    /// data behind a lost packet waits a round trip to be read, and a sender in slow start doubles
    /// its rate before the next measurement.
    ///
    /// Measured at arrivals, not at reads: a slow reader whose window is full must not look fast.
    pub(crate) fn tune(&mut self, now: Instant, rtt: Duration) -> bool {
        let Some((since, consumed)) = self.mark else {
            self.mark = Some((now, self.consumed));
            return false;
        };
        let fast = self.consumed.saturating_sub(consumed) >= (self.window / 4).max(1);
        let over = now.saturating_since(since) > rtt.max(SHORTEST_TUNING_RTT);
        if fast || over {
            self.mark = Some((now, self.consumed));
        }
        if !fast || over || self.window >= self.max_window {
            return false;
        }
        self.window = self.window.saturating_mul(2).min(self.max_window);
        true
    }

    /// Makes the window at least `bytes`, as far as the configuration lets.
    pub(crate) fn raise_window(&mut self, bytes: u64) {
        self.window = self.window.max(bytes.min(self.max_window));
    }

    fn next_grant(&self) -> u64 {
        self.consumed.saturating_add(self.window).min(MAX_LIMIT)
    }
}

/// What we may send, and what we told the peer about being held back.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendCredit {
    /// The peer's limit.
    pub(crate) max: u64,
    /// How much of it is used.
    pub(crate) used: u64,
    /// The limit that the last *_BLOCKED frame named, plus one; 0: none yet.
    reported: u64,
}

impl SendCredit {
    pub(crate) fn new(max: u64) -> Self {
        Self {
            max,
            used: 0,
            reported: 0,
        }
    }

    pub(crate) fn available(&self) -> u64 {
        self.max.saturating_sub(self.used)
    }

    /// Takes a new limit; whether it is higher.
    pub(crate) fn raise(&mut self, max: u64) -> bool {
        let higher = max > self.max;
        self.max = self.max.max(max);
        higher
    }

    /// Whether a *_BLOCKED frame is due: once per limit. RFC 9000 s4.1.
    pub(crate) fn should_report(&self) -> bool {
        self.available() == 0 && self.reported <= self.max
    }

    /// A *_BLOCKED frame names the current limit.
    pub(crate) fn on_reported(&mut self) {
        self.reported = self.max.saturating_add(1);
    }

    /// Whether the peer was told that the present limit holds us back.
    pub(crate) fn is_reported(&self) -> bool {
        self.reported > self.max
    }

    /// The *_BLOCKED frame was lost; it is due again if it still holds.
    pub(crate) fn on_report_lost(&mut self) {
        self.reported = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn grants_when_so_much_is_consumed() {
        // An eighth, two datagrams, a thirty-second.
        for (size, part) in [(800, 100), (55_000, 2_900), (320_000, 10_000)] {
            let mut window = ReceiveWindow::new(WindowConfig::fixed(size));
            window.consume(part - 1);
            assert!(!window.wants_grant());
            window.consume(1);
            assert!(window.wants_grant());
            assert_eq!(window.grant(), size + part);
            assert!(!window.wants_grant());
        }
    }

    /// A sender that is always held back gets a window a round trip, but for what waits to be granted.
    #[test]
    fn a_fixed_window_is_used_whole() {
        const RTT: u64 = 100;
        const PACKET: u64 = 1_200;
        for packets in [10, 33, 64, 99, 150] {
            let size = packets * PACKET + 700;
            let mut window = ReceiveWindow::new(WindowConfig::fixed(size));
            let (mut limit, mut sent) = (size, 0);
            // What arrives at the receiver, and which limits at the sender, in order of time.
            let mut data = std::collections::VecDeque::new();
            let mut grants = std::collections::VecDeque::new();
            let rounds = 50;
            for now in 0..RTT * rounds {
                while grants.front().is_some_and(|(at, _)| *at <= now) {
                    limit = grants.pop_front().unwrap().1;
                }
                // Twice as fast as the window would need.
                for _ in 0..packets.div_ceil(RTT) * 2 {
                    let bytes = PACKET.min(limit - sent);
                    if bytes > 0 {
                        sent += bytes;
                        data.push_back((now + RTT / 2, bytes));
                    }
                }
                while data.front().is_some_and(|(at, _)| *at <= now) {
                    window.consume(data.pop_front().unwrap().1);
                    if window.wants_grant() {
                        grants.push_back((now + RTT / 2, window.grant()));
                    }
                }
            }
            let share = sent as f64 / (size * rounds) as f64;
            let least = if packets < 30 { 0.75 } else { 0.88 };
            assert!(share > least, "{packets}: {share}");
        }
    }

    #[test]
    fn fast_reader_doubles_up_to_the_maximum() {
        let rtt = Duration::from_millis(100);
        let mut window = ReceiveWindow::new(WindowConfig {
            initial: 100,
            max: 350,
        });
        assert!(!window.tune(at(0), rtt));
        window.consume(25);
        assert!(window.tune(at(99), rtt));
        assert_eq!(window.window(), 200);
        // The wider window is offered at once.
        assert!(window.wants_grant());
        assert_eq!(window.grant(), 225);
        window.consume(50);
        assert!(window.tune(at(150), rtt));
        assert_eq!(window.window(), 350);
        window.consume(175);
        assert!(!window.tune(at(160), rtt));
    }

    #[test]
    fn slow_reader_keeps_its_window() {
        let rtt = Duration::from_millis(100);
        let mut window = ReceiveWindow::new(WindowConfig {
            initial: 100,
            max: 1000,
        });
        window.tune(at(0), rtt);
        for round in 1..10 {
            window.consume(25);
            assert!(!window.tune(at(round * 101), rtt));
        }
        assert_eq!(window.window(), 100);
    }

    #[test]
    fn slow_start_is_seen_though_it_began_slowly() {
        let rtt = Duration::from_millis(100);
        let mut window = ReceiveWindow::new(WindowConfig {
            initial: 1_000,
            max: 100_000,
        });
        let mut rate = 10;
        for round in 0..9 {
            for part in 0..10 {
                window.tune(at(round * 100 + part * 10), rtt);
                window.consume(rate / 10);
            }
            rate *= 2;
        }
        // The last round brought 2,560.
        assert!(window.window() >= 4 * 2_560, "{}", window.window());
    }

    #[test]
    fn blocked_is_reported_once_per_limit() {
        let mut credit = SendCredit {
            max: 10,
            ..SendCredit::default()
        };
        assert!(!credit.should_report());
        credit.used = 10;
        assert!(credit.should_report());
        credit.on_reported();
        assert!(!credit.should_report());
        credit.on_report_lost();
        assert!(credit.should_report());
        credit.on_reported();
        assert!(!credit.raise(10));
        assert!(credit.raise(12));
        credit.used = 12;
        assert!(credit.should_report());
    }
}
