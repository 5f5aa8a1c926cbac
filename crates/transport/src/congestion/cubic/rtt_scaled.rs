//! `cubic-rtt-scaled`: CUBIC that backs off by as much as the round trip has grown.
//!
//! A queue that overflows was full before, so a loss at a round trip near the minimum is taken for
//! the link's and not for congestion. The idea is that of Kim et al. for New Reno ("Congestion
//! control for coded transport layers", 2014: on loss the window is multiplied by `RTTmin / RTT`),
//! here on CUBIC. It is a control for the study of forward error correction: what does a scheme
//! that hides losses gain over a controller that judges them?
//!
//! On each congestion event by loss, with `RTT` smoothed and `RTTmin` the smallest of the path's
//! life:
//!
//! ```text
//! factor = clamp(RTTmin / RTT, 0.7, 1)
//! ```
//!
//! - Never below CUBIC's own 0.7, which holds from a queue of 3/7 of the path's delay on.
//! - Above 0.95 the event is none: no reduction, no new curve, no recovery period, slow start goes
//!   on. Were it only "no reduction", each random loss would restart the curve and forbid growth
//!   for a round trip, and a path with several losses per round trip would stand still.
//! - In between the window, the threshold and the curve's start are `factor` times the window.
//! - CE marks and persistent congestion are answered as `cubic` does: they are no guess.
//!
//! Known for: taking more than its share beside loss-based flows where queues are short (below
//! 3/7 of the delay it backs off less than they do), and not backing off at all where they are
//! shorter than a twentieth.

use super::BETA;
use crate::congestion::RttView;

/// Above this share of the window there is nothing to reduce.
const NO_QUEUE: f64 = 0.95;

/// What a loss at these round trips multiplies the window by; `None`: it does not count.
pub(super) fn factor(rtt: &RttView) -> Option<f64> {
    if rtt.smoothed.is_zero() {
        return Some(BETA);
    }
    let factor = rtt.min.as_secs_f64() / rtt.smoothed.as_secs_f64();
    (factor <= NO_QUEUE).then(|| factor.max(BETA))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::test_link::ms;

    #[test]
    fn back_off_follows_the_queue() {
        let at = |smoothed| {
            factor(&RttView {
                latest: ms(smoothed),
                adjusted: ms(smoothed),
                smoothed: ms(smoothed),
                min: ms(100),
            })
        };
        assert_eq!(at(100), None);
        assert_eq!(at(105), None);
        assert!((at(110).unwrap() - 1.0 / 1.1).abs() < 1e-12);
        assert!((at(125).unwrap() - 0.8).abs() < 1e-12);
        assert_eq!(at(143), Some(BETA));
        assert_eq!(at(1_000), Some(BETA));
        assert_eq!(at(0), Some(BETA));
    }
}
