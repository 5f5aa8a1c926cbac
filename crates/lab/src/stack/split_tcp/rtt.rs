//! The round-trip time and the retransmission timeout (RFC 6298).
//!
//! Owns: [`Rtt`]. Does not own: timers.

use std::time::Duration;

use tautline_transport::congestion::RttView;

/// As usual for TCP today; RFC 6298 s2.4 says a second.
const LEAST_RTO: Duration = Duration::from_millis(200);
/// RFC 6298 s2.5 allows no lower bound.
const MOST_RTO: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    initial: Duration,
    sampled: Option<Sampled>,
}

#[derive(Clone, Copy, Debug)]
struct Sampled {
    view: RttView,
    variation: Duration,
}

impl Rtt {
    /// `initial` is the timeout before the first sample.
    pub(super) const fn new(initial: Duration) -> Self {
        Self {
            initial,
            sampled: None,
        }
    }

    pub(super) fn add(&mut self, latest: Duration) {
        let Some(sampled) = &mut self.sampled else {
            self.sampled = Some(Sampled {
                view: RttView {
                    latest,
                    adjusted: latest,
                    smoothed: latest,
                    min: latest,
                },
                variation: latest / 2,
            });
            return;
        };
        let view = &mut sampled.view;
        sampled.variation = (sampled.variation * 3 + view.smoothed.abs_diff(latest)) / 4;
        view.smoothed = (view.smoothed * 7 + latest) / 8;
        view.latest = latest;
        view.adjusted = latest;
        view.min = view.min.min(latest);
    }

    pub(super) fn view(&self) -> Option<RttView> {
        self.sampled.map(|sampled| sampled.view)
    }

    /// The timeout after so many in a row.
    pub(super) fn timeout(&self, backoff: u32) -> Duration {
        let base = self.sampled.map_or(self.initial, |sampled| {
            (sampled.view.smoothed + sampled.variation * 4).max(LEAST_RTO)
        });
        let factor = 1u32.checked_shl(backoff.min(16)).unwrap_or(u32::MAX);
        base.saturating_mul(factor).min(MOST_RTO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn timeouts_are_those_of_the_rfc() {
        let mut rtt = Rtt::new(ms(1000));
        assert_eq!(rtt.timeout(0), ms(1000));
        assert_eq!(rtt.timeout(2), ms(4000));
        assert_eq!(rtt.timeout(40), ms(60_000));
        rtt.add(ms(600));
        assert_eq!(rtt.timeout(0), ms(600 + 4 * 300));
        for _ in 0..100 {
            rtt.add(ms(600));
        }
        assert!((ms(600)..ms(602)).contains(&rtt.timeout(0)));
        for _ in 0..100 {
            rtt.add(ms(10));
        }
        assert_eq!(rtt.timeout(0), LEAST_RTO);
        assert_eq!(rtt.view().unwrap().min, ms(10));
    }
}
