//! Round-trip time. RFC 9002 s5.

use std::time::Duration;

use super::GRANULARITY;

/// Samples that are remembered.
const NEWEST: usize = 3;

/// Smoothed round-trip time and its variation.
#[derive(Clone, Copy, Debug)]
pub struct RttEstimator {
    initial: Duration,
    latest: Duration,
    smoothed: Duration,
    variance: Duration,
    /// As it was before the newest sample.
    variance_before: Duration,
    min: Duration,
    has_sample: bool,
    /// The newest samples without the peer's delay.
    newest: [Duration; NEWEST],
    /// The next sample replaces the minimum.
    restart_min: bool,
    /// Kept: each packet asks for it more than once.
    pto_base: Duration,
}

impl RttEstimator {
    /// No sample yet; `initial` stands in. RFC 9002 s6.2.2.
    pub fn new(initial: Duration) -> Self {
        Self {
            initial,
            latest: initial,
            smoothed: initial,
            variance: initial / 2,
            variance_before: initial / 2,
            min: initial,
            has_sample: false,
            newest: [initial; NEWEST],
            restart_min: false,
            pto_base: pto_base(initial, initial / 2),
        }
    }

    /// The value assumed before the first sample.
    pub fn initial(&self) -> Duration {
        self.initial
    }

    /// The newest sample, ACK Delay included.
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// Exponentially smoothed, gain 1/8.
    pub fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// Mean deviation, gain 1/4.
    pub fn variance(&self) -> Duration {
        self.variance
    }

    /// The mean deviation before the newest sample: by this, that one may be unusual.
    pub(super) fn variance_before(&self) -> Duration {
        self.variance_before
    }

    /// The smallest sample on this network path; the initial value before the first.
    pub fn min(&self) -> Duration {
        self.min
    }

    /// Whether any sample was taken.
    pub fn has_sample(&self) -> bool {
        self.has_sample
    }

    /// The round trip now, without the peer's delay: the smaller of the two newest samples, so that a
    /// single straggler counts for nothing.
    pub fn recent(&self) -> Duration {
        let [newest, before, ..] = self.newest;
        newest.min(before)
    }

    /// The round trip over which a window is paced: the smoothed one, but no more than half again of the longer of the two
    /// newest samples. What a path that stood still adds to the former lasts for many samples, and the window would leave at
    /// a part of the rate that it is for. One short sample tells nothing: where delays vary, windows would leave in bursts.
    pub(super) fn paced_over(&self) -> Duration {
        let longer = self.longer();
        self.smoothed.min(longer.saturating_add(longer / 2))
    }

    /// The larger of the two newest samples, without the peer's delay.
    pub(super) fn longer(&self) -> Duration {
        let [newest, before, ..] = self.newest;
        newest.max(before)
    }

    /// The smallest of the three newest samples, without the peer's delay: a queue that stands lifts all of
    /// them, jitter does not.
    pub fn calm(&self) -> Duration {
        let [first, rest @ ..] = self.newest;
        rest.into_iter().fold(first, Duration::min)
    }

    /// The newest sample, without the peer's delay.
    pub fn newest(&self) -> Duration {
        self.newest[0]
    }

    /// A probe timeout without max_ack_delay and backoff: srtt + max(4 rttvar, 1 ms).
    #[inline]
    pub fn pto_base(&self) -> Duration {
        self.pto_base
    }

    /// The network may be another one after an outage: forget the minimum. RFC 9002 s5.2.
    pub(super) fn restart_min(&mut self) {
        self.restart_min = true;
    }

    /// `estimate` stands in until the first sample; nothing after it.
    pub(super) fn assume(&mut self, estimate: Duration) {
        if !self.has_sample {
            let initial = self.initial;
            *self = Self::new(estimate.max(GRANULARITY));
            self.initial = initial;
        }
    }

    /// Takes a sample. `ack_delay` is what may be subtracted: zero for Initial packets, capped by
    /// the peer's max_ack_delay once the handshake is confirmed. RFC 9002 s5.3.
    pub(super) fn update(&mut self, sample: Duration, ack_delay: Duration) {
        // Two clock readings may be equal; a zero RTT would make rates infinite.
        let sample = sample.max(Duration::from_micros(1));
        self.latest = sample;
        if !self.has_sample {
            self.has_sample = true;
            self.min = sample;
            self.smoothed = sample;
            self.variance = sample / 2;
            self.variance_before = self.variance;
            self.newest = [sample; NEWEST];
            self.pto_base = pto_base(self.smoothed, self.variance);
            return;
        }
        // min_rtt takes the raw sample. s5.2.
        self.min = if self.restart_min {
            sample
        } else {
            self.min.min(sample)
        };
        self.restart_min = false;
        // Never less than the minimum, s5.3. A sample that would be keeps its minimum rather than all that the peer held
        // back: the answer to a small packet is sooner there than that to the full ones which the minimum comes from.
        let adjusted = sample.saturating_sub(ack_delay).max(self.min);
        self.newest.rotate_right(1);
        self.newest[0] = adjusted;
        let deviation = self.smoothed.abs_diff(adjusted);
        self.variance_before = self.variance;
        self.variance = self.variance / 4 * 3 + deviation / 4;
        self.smoothed = self.smoothed / 8 * 7 + adjusted / 8;
        self.pto_base = pto_base(self.smoothed, self.variance);
    }
}

fn pto_base(smoothed: Duration, variance: Duration) -> Duration {
    smoothed.saturating_add(variance.saturating_mul(4).max(GRANULARITY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_standstill_added_does_not_slow_the_pacer() {
        let ms = Duration::from_millis;
        let mut rtt = RttEstimator::new(ms(333));
        assert_eq!(rtt.paced_over(), ms(333));
        for sample in [40, 50, 200, 190] {
            rtt.update(ms(sample), Duration::ZERO);
        }
        assert_eq!(
            rtt.paced_over(),
            rtt.smoothed(),
            "a queue as well as a standstill"
        );
        rtt.update(ms(40), Duration::ZERO);
        assert_eq!(rtt.paced_over(), rtt.smoothed(), "may be chance");
        rtt.update(ms(42), Duration::ZERO);
        assert!(rtt.smoothed() > ms(63));
        assert_eq!(rtt.paced_over(), ms(63));
    }

    /// Jitter lifts some samples, a queue that stands all of them.
    #[test]
    fn calm_is_the_least_of_the_newest() {
        let ms = Duration::from_millis;
        let mut rtt = RttEstimator::new(ms(333));
        let after = |rtt: &mut RttEstimator, sample| {
            rtt.update(ms(sample), Duration::ZERO);
            (rtt.recent(), rtt.calm())
        };
        assert_eq!(after(&mut rtt, 50), (ms(50), ms(50)));
        assert_eq!(after(&mut rtt, 80), (ms(50), ms(50)));
        assert_eq!(after(&mut rtt, 90), (ms(80), ms(50)));
        assert_eq!(after(&mut rtt, 85), (ms(85), ms(80)));
        assert_eq!(after(&mut rtt, 60), (ms(60), ms(60)));
    }
}
