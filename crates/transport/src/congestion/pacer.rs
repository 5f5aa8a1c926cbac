//! When packets may leave: spread over time at a rate, in batches the network card can take.

use std::time::Duration;

use crate::{time::Instant, units::Rate};

/// Below this speed no more than two packets ever leave back to back.
const SLOW: Rate = Rate::from_bits_per_second(1_000_000);
/// Debt is paid off at this speed at least, so that a rate of zero does not stop a path.
const SLOWEST: Rate = Rate::from_bytes_per_second(1_000);
/// A batch is about this much of the rate.
const BATCH_TIME: Duration = Duration::from_millis(1);
/// The most a batch may be: what segmentation offload takes in one call.
const MAX_BATCH: u64 = 64 * 1024;
/// Waking up late earns this much time at most. Less than a packet's worth at low rates: then the
/// next wait is shorter by it, for the debt counts in bytes.
const LATE_CREDIT: Duration = Duration::from_millis(1);
/// After a pause of the application, as many packets as this may leave at once...
const RESTART_PACKETS: u64 = 10;
/// ...if they are no more than this much of the rate.
const RESTART_TIME: Duration = Duration::from_millis(5);

/// The speed for a controller that has a window but no rate of its own: 1.25 windows per round
/// trip, 2 in slow start. RFC 9002 s7.7.
///
/// [`Rate::MAX`] when `round_trip` is zero. Before the first RTT sample there is nothing to
/// derive a rate from: send the initial window unpaced, as RFC 9002 s7.7 allows.
pub fn fallback_rate(window: u64, round_trip: Duration, slow_start: bool) -> Rate {
    let gain = if slow_start { 2.0 } else { 1.25 };
    Rate::from_bytes_over(window, round_trip).mul_f64(gain)
}

/// Spreads packets over time.
///
/// Counts a debt in bytes that each packet raises and time pays off at the current rate. At no
/// debt a batch may start; until it is used up packets leave back to back. Time beyond the debt
/// is credit, kept within narrow limits: a timer that fires late must not cause a burst.
#[derive(Clone, Debug)]
pub struct Pacer {
    mtu: u64,
    /// Bytes owed (positive) or in hand (negative), as of `at`.
    debt: f64,
    at: Instant,
    /// Bytes that may still leave in the batch under way.
    batch_left: u64,
    /// When that batch was granted.
    batch_at: Instant,
    /// Whether the sender had something to send and was told to wait.
    waiting: bool,
    /// Whether nothing left yet: the path starts as after a pause.
    fresh: bool,
}

impl Pacer {
    /// A pacer that owes nothing. `mtu`: bytes of UDP payload in a full datagram.
    pub fn new(now: Instant, mtu: u64) -> Self {
        Self {
            mtu: mtu.clamp(1, MAX_MTU),
            debt: 0.0,
            at: now,
            batch_left: 0,
            batch_at: now,
            waiting: false,
            fresh: true,
        }
    }

    /// The path's datagram size changed.
    pub fn on_mtu(&mut self, mtu: u64) {
        self.mtu = mtu.clamp(1, MAX_MTU);
    }

    /// When `bytes` may leave; `None` means now.
    pub fn next_send_time(&mut self, now: Instant, bytes: u64, rate: Rate) -> Option<Instant> {
        self.settle(now, rate);
        // What a batch was granted for is back to back, and at the rate of then.
        self.batch_left = if now.saturating_since(self.batch_at) < BATCH_TIME {
            self.batch_left.min(self.batch_bytes(rate, None, self.mtu))
        } else {
            0
        };
        if self.batch_left >= bytes && bytes > 0 {
            return None;
        }
        // Less than a byte of debt is rounding.
        if self.debt < 1.0 {
            self.batch_left = self.batch_bytes(rate, None, self.mtu).max(bytes);
            self.batch_at = now;
            self.waiting = false;
            return None;
        }
        self.waiting = true;
        let wait = self.debt / rate.max(SLOWEST).bytes_per_second() as f64;
        // Rounded up, so that the timer does not fire a nanosecond early and again.
        Some(now + Duration::from_nanos((wait * 1e9).ceil() as u64))
    }

    /// `bytes` left.
    pub fn on_sent(&mut self, now: Instant, bytes: u64, rate: Rate) {
        self.settle(now, rate);
        self.owe(bytes);
    }

    /// As [`Self::on_sent`] within a batch: at the time of the last call no rate is needed. False,
    /// and nothing happens, at any other time.
    pub fn on_sent_at_once(&mut self, now: Instant, bytes: u64) -> bool {
        let at_once = now == self.at && !self.fresh;
        if at_once {
            self.owe(bytes);
        }
        at_once
    }

    fn owe(&mut self, bytes: u64) {
        self.debt += bytes as f64;
        self.batch_left = self.batch_left.saturating_sub(bytes);
    }

    /// Bytes that should leave in one segmentation batch: about a millisecond of `rate`, or
    /// `quantum` where the controller has its own; at least one packet (two from 1 Mb/s on), at
    /// most 64 KiB, whole packets.
    pub fn batch_bytes(&self, rate: Rate, quantum: Option<u64>, mtu: u64) -> u64 {
        let mtu = mtu.clamp(1, MAX_MTU);
        let wanted = quantum.unwrap_or_else(|| rate.bytes_in(BATCH_TIME));
        if rate < SLOW {
            return if quantum.is_some_and(|quantum| quantum >= 2 * mtu) {
                2 * mtu
            } else {
                mtu
            };
        }
        // Rounded up at low rates, where 1.9 packets would make batches of one.
        let packets = (wanted / mtu).max(2).min((MAX_BATCH / mtu).max(1));
        packets * mtu
    }

    /// Pays off debt with the time since the last call.
    fn settle(&mut self, now: Instant, rate: Rate) {
        let elapsed = now.saturating_since(self.at);
        self.at = self.at.max(now);
        let paid = rate.max(SLOWEST).bytes_per_second() as f64 * elapsed.as_secs_f64();
        let limit = -self.credit_limit(rate);
        if std::mem::take(&mut self.fresh) {
            self.debt = limit;
            return;
        }
        // The limit holds for what is earned now; credit in hand stays, unless the path is slow.
        let floor = if rate < SLOW {
            limit
        } else {
            limit.min(self.debt)
        };
        self.debt = (self.debt - paid).max(floor);
    }

    /// Bytes that time without sending may earn.
    fn credit_limit(&self, rate: Rate) -> f64 {
        if self.waiting {
            return rate.min(MAX_LATE_RATE).bytes_in(LATE_CREDIT) as f64;
        }
        let burst = if rate < SLOW {
            2 * self.mtu
        } else {
            rate.bytes_in(RESTART_TIME)
                .clamp(2 * self.mtu, RESTART_PACKETS * self.mtu)
        };
        // The batch itself may leave at no debt; credit is what goes beyond it.
        burst.saturating_sub(self.batch_bytes(rate, None, self.mtu)) as f64
    }
}

/// The largest UDP payload there is.
const MAX_MTU: u64 = 65_535;

/// Keeps the credit of a very fast path from overflowing.
const MAX_LATE_RATE: Rate = Rate::from_bits_per_second(1_000_000_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u64 = 1_250;

    fn mbps(value: f64) -> Rate {
        Rate::from_bits_per_second((value * 1e6) as u64)
    }

    fn ms(value: u64) -> Instant {
        Instant::from_nanos(value * 1_000_000)
    }

    /// Packets that may leave at `now`, one by one.
    fn burst(pacer: &mut Pacer, now: Instant, rate: Rate) -> u64 {
        let mut packets = 0;
        while pacer.next_send_time(now, MTU, rate).is_none() {
            pacer.on_sent(now, MTU, rate);
            packets += 1;
            assert!(packets < 10_000, "never ends");
        }
        packets
    }

    #[test]
    fn fallback_rates() {
        let rtt = Duration::from_millis(100);
        assert_eq!(
            fallback_rate(100_000, rtt, false).bytes_per_second(),
            1_250_000
        );
        assert_eq!(
            fallback_rate(100_000, rtt, true).bytes_per_second(),
            2_000_000
        );
        assert_eq!(fallback_rate(100_000, Duration::ZERO, true), Rate::MAX);
    }

    #[test]
    fn slow_paths_never_see_more_than_two_packets_at_once() {
        for kbps in [8.0, 64.0, 500.0, 999.0] {
            let rate = mbps(kbps / 1e3);
            let mut pacer = Pacer::new(ms(0), MTU);
            assert!(burst(&mut pacer, ms(0), rate) <= 2);
            // Wake-ups that are punctual, late and very late.
            let mut now = ms(0);
            for late in [0, 1, 3, 50, 5_000, 0, 700] {
                let next = pacer.next_send_time(now, MTU, rate).unwrap();
                now = next + Duration::from_millis(late);
                assert!(
                    (1..=2).contains(&burst(&mut pacer, now, rate)),
                    "{kbps} kb/s"
                );
            }
            // A pause of the application without waiting for the pacer.
            let mut pacer = Pacer::new(ms(0), MTU);
            pacer.on_sent(ms(0), MTU, rate);
            assert!(burst(&mut pacer, ms(100_000), rate) <= 2);
        }
    }

    #[test]
    fn the_long_run_rate_is_exact() {
        for rate in [
            mbps(0.1),
            mbps(1.0),
            mbps(20.0),
            mbps(500.0),
            mbps(10_000.0),
        ] {
            let mut pacer = Pacer::new(ms(0), MTU);
            let mut now = ms(0);
            let mut sent = 0;
            let until = ms(2_000);
            while now < until {
                match pacer.next_send_time(now, MTU, rate) {
                    None => {
                        pacer.on_sent(now, MTU, rate);
                        sent += MTU;
                    }
                    Some(next) => {
                        assert!(next > now);
                        now = next;
                    }
                }
            }
            let wanted = rate.bytes_in(Duration::from_secs(2)) as f64;
            let slack = (RESTART_PACKETS * MTU + MAX_BATCH) as f64;
            assert!(sent as f64 <= wanted + slack, "{rate}: {sent} of {wanted}");
            assert!(
                sent as f64 >= wanted * 0.999 - slack,
                "{rate}: {sent} of {wanted}"
            );
        }
    }

    #[test]
    fn fast_paths_get_full_batches() {
        let pacer = Pacer::new(ms(0), MTU);
        assert_eq!(pacer.batch_bytes(mbps(10_000.0), None, MTU), 52 * MTU);
        assert_eq!(pacer.batch_bytes(Rate::MAX, None, MTU), 52 * MTU);
        assert_eq!(pacer.batch_bytes(mbps(100.0), None, MTU), 10 * MTU);
        assert_eq!(pacer.batch_bytes(mbps(5.0), None, MTU), 2 * MTU);
        assert_eq!(pacer.batch_bytes(mbps(0.5), None, MTU), MTU);
        assert_eq!(pacer.batch_bytes(mbps(0.5), Some(20 * MTU), MTU), 2 * MTU);
        assert_eq!(pacer.batch_bytes(mbps(100.0), Some(4 * MTU), MTU), 4 * MTU);
        assert_eq!(pacer.batch_bytes(mbps(100.0), Some(1 << 40), MTU), 52 * MTU);
        // Asked packet by packet, the pacer still lets a whole batch through, then pauses.
        let rate = mbps(500.0);
        let mut pacer = Pacer::new(ms(0), MTU);
        burst(&mut pacer, ms(0), rate);
        let mut now = ms(0);
        for _ in 0..20 {
            let next = pacer.next_send_time(now, MTU, rate).unwrap();
            assert_eq!(burst(&mut pacer, next, rate), 50);
            now = next;
        }
    }

    /// However late the wake-up, what leaves then is no more than a punctual one's batches and a
    /// millisecond's worth, and the next release comes no earlier than that allows.
    #[test]
    fn late_wake_ups_earn_a_millisecond_at_most() {
        for (megabits, late_us) in [0.1, 1.0, 5.0, 12.0, 20.0, 100.0, 500.0, 5_000.0]
            .into_iter()
            .flat_map(|rate| [0, 100, 900, 1_000, 2_000, 30_000].map(|late| (rate, late)))
        {
            let rate = mbps(megabits);
            let mut pacer = Pacer::new(ms(0), MTU);
            burst(&mut pacer, ms(0), rate);
            for _ in 0..5 {
                let now = pacer.at;
                let due = pacer.next_send_time(now, MTU, rate).unwrap();
                let late = Duration::from_micros(late_us);
                let woken = due + late;
                let sent = burst(&mut pacer, woken, rate) * MTU;
                let next = pacer.next_send_time(woken, MTU, rate).unwrap();
                // On schedule, that much takes this long from when it was due.
                let takes = Duration::from_secs_f64(sent as f64 / rate.bytes_per_second() as f64);
                let earned = late.min(LATE_CREDIT);
                let earliest = woken + takes - earned;
                // Two bytes.
                let rounding = Duration::from_micros(1)
                    + Duration::from_secs_f64(2.0 / rate.bytes_per_second() as f64);
                assert!(
                    next + rounding >= earliest && next <= earliest + rounding,
                    "{megabits} Mb/s, {late_us} us late: {sent} bytes, {next:?} not {earliest:?}"
                );
                let most = rate.bytes_in(earned) + pacer.batch_bytes(rate, None, MTU);
                assert!(
                    sent <= most + MTU,
                    "{megabits} Mb/s, {late_us} us late: {sent}"
                );
            }
        }
    }

    /// A batch is of one moment and one rate: what is left of it does not wait for worse times.
    #[test]
    fn an_unused_batch_expires() {
        let (fast, slow) = (mbps(500.0), mbps(0.5));
        let used_up = || {
            let mut pacer = Pacer::new(ms(0), MTU);
            burst(&mut pacer, ms(0), fast);
            let now = pacer.next_send_time(ms(0), MTU, fast).unwrap();
            assert_eq!(pacer.next_send_time(now, MTU, fast), None);
            pacer.on_sent(now, MTU, fast);
            (pacer, now)
        };
        // The rate falls within the batch...
        let (mut pacer, now) = used_up();
        assert!(burst(&mut pacer, now, slow) <= 2);
        // ... or during a pause.
        let (mut pacer, now) = used_up();
        assert!(burst(&mut pacer, now + Duration::from_secs(1), slow) <= 2);
        // A pause at the same rate leaves what every pause does.
        let (mut pacer, now) = used_up();
        let after = burst(&mut pacer, now + Duration::from_secs(1), fast);
        assert!(after <= 50 + RESTART_PACKETS, "{after}");
    }

    /// Lateness that timers of a millisecond have costs nothing at any rate.
    #[test]
    fn a_millisecond_late_is_still_full_speed() {
        for megabits in [0.1, 1.0, 5.0, 20.0, 500.0] {
            let rate = mbps(megabits);
            let mut pacer = Pacer::new(ms(0), MTU);
            burst(&mut pacer, ms(0), rate);
            let (mut now, mut sent) = (ms(0), 0);
            while now < ms(5_000) {
                let due = pacer.next_send_time(now, MTU, rate).unwrap();
                now = due + Duration::from_millis(1);
                sent += burst(&mut pacer, now, rate) * MTU;
            }
            let wanted = rate.bytes_in(Duration::from_secs(5)) as f64;
            assert!(
                sent as f64 >= 0.98 * wanted - 2.0 * MTU as f64,
                "{megabits}: {sent}"
            );
        }
    }

    #[test]
    fn restart_burst_is_the_initial_window_on_fast_paths_only() {
        for (rate, packets) in [(0.9, 2), (1.0, 2), (10.0, 4), (50.0, 10), (100.0, 10)] {
            let mut pacer = Pacer::new(ms(0), MTU);
            assert_eq!(
                burst(&mut pacer, ms(10_000), mbps(rate)),
                packets,
                "{rate} Mb/s"
            );
        }
    }

    #[test]
    fn a_higher_rate_shortens_a_wait_under_way() {
        let mut pacer = Pacer::new(ms(0), MTU);
        burst(&mut pacer, ms(0), mbps(0.1));
        let slow = pacer.next_send_time(ms(0), MTU, mbps(0.1)).unwrap();
        let fast = pacer.next_send_time(ms(0), MTU, mbps(10.0)).unwrap();
        assert!(fast < slow);
    }

    #[test]
    fn absurd_inputs_do_no_harm() {
        let mut pacer = Pacer::new(Instant::FAR_FUTURE, 0);
        for rate in [Rate::ZERO, Rate::MAX, mbps(1.0)] {
            for now in [ms(0), Instant::FAR_FUTURE] {
                pacer.on_sent(now, u64::MAX / 4, rate);
                pacer.next_send_time(now, u64::MAX, rate);
                pacer.next_send_time(now, 0, rate);
                pacer.batch_bytes(rate, Some(u64::MAX), u64::MAX);
            }
        }
    }
}
