//! The three rules: how a window grows and shrinks beside those of the other paths.
//!
//! Owns: formulas of numbers, nothing that lasts.
//!
//! Windows are counted in datagrams and round trips in seconds, as the documents do. What they add to a
//! window per acknowledged packet is divided here by NewReno's 1 / w.

use super::SiblingView;
use crate::congestion::newreno::LOSS_REDUCTION;

/// A round trip below this cannot be told from none.
const SHORTEST_RTT: f64 = 1e-6;

/// Which increase is linked how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Lia,
    Olia,
    Balia,
}

/// What a rule says until the next look at the siblings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Response {
    /// Growth in congestion avoidance over NewReno's; below zero the window shrinks.
    pub(super) gain: f64,
    /// Share of the window that outlives congestion.
    pub(super) kept: f64,
}

impl Response {
    /// Of a path without siblings: NewReno's.
    pub(super) const ALONE: Self = Self {
        gain: 1.0,
        kept: LOSS_REDUCTION,
    };
}

/// A path as the formulas see it.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// Window in datagrams, one at least.
    window: f64,
    rtt: f64,
    between_losses: f64,
}

impl Member {
    fn of(view: &SiblingView) -> Self {
        // RFC 6356 s3.1: what an application leaves unused carries nothing.
        let used = if view.app_limited {
            view.window.min(view.in_flight)
        } else {
            view.window
        };
        Self {
            window: (used as f64 / view.datagram.max(1) as f64).max(1.0),
            rtt: view.rtt.as_secs_f64().max(SHORTEST_RTT),
            between_losses: view.between_losses as f64,
        }
    }

    /// Datagrams per second.
    fn rate(&self) -> f64 {
        self.window / self.rtt
    }

    /// OLIA's measure of a path's quality.
    fn quality(&self) -> f64 {
        self.between_losses / (self.rtt * self.rtt)
    }
}

impl Rule {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Lia => "lia",
            Self::Olia => "olia",
            Self::Balia => "balia",
        }
    }

    pub(super) fn response(self, own: &SiblingView, siblings: &[SiblingView]) -> Response {
        let own = Member::of(own);
        let sharing = siblings.iter().filter(|sibling| sibling.shared);
        let mut all: Vec<Member> = sharing.map(Member::of).collect();
        if all.is_empty() {
            return Response::ALONE;
        }
        all.push(own);
        let sum: f64 = all.iter().map(Member::rate).sum();
        match self {
            Self::Lia => Response {
                gain: linked(own, &all, sum),
                ..Response::ALONE
            },
            Self::Olia => Response {
                gain: (own.rate() / sum).powi(2) + opportunistic(own, &all),
                ..Response::ALONE
            },
            Self::Balia => balanced(own, &all, sum),
        }
    }
}

/// RFC 6356 s3: the increase is min(alpha / `w_total`, 1 / `w_i`) per packet, with
/// alpha = `w_total` * max(`w_i` / `rtt_i`^2) / (sum `w_i` / `rtt_i`)^2.
fn linked(own: Member, all: &[Member], sum: f64) -> f64 {
    let best = all.iter().map(|path| path.rate() / path.rtt);
    let best = best.fold(0.0, f64::max);
    (own.window * best / (sum * sum)).min(1.0)
}

/// OLIA's second term times the window: what is taken from the paths with the largest windows goes to
/// better paths with smaller ones.
fn opportunistic(own: Member, all: &[Member]) -> f64 {
    let best = all.iter().map(Member::quality).fold(0.0, f64::max);
    let largest = all.iter().map(|path| path.window).fold(0.0, f64::max);
    let is_best = |path: &Member| path.quality() >= best;
    // Windows that differ by less than a datagram are equal.
    let is_largest = |path: &Member| path.window > largest - 1.0;
    let overlooked = |path: &&Member| is_best(path) && !is_largest(path);
    let count = all.len() as f64;
    let better = all.iter().filter(overlooked).count();
    if better == 0 {
        0.0
    } else if overlooked(&&own) {
        1.0 / (count * better as f64)
    } else if is_largest(&own) {
        let large = all.iter().filter(|path| is_largest(path)).count();
        -1.0 / (count * large.max(1) as f64)
    } else {
        0.0
    }
}

/// BALIA with a = max(x) / `x_i`, x = w / rtt: the increase is
/// (`x_i` / `rtt_i`) / (sum x)^2 * (1 + a) / 2 * (4 + a) / 5 per packet, the reduction
/// `w_i` / 2 * min(a, 1.5).
fn balanced(own: Member, all: &[Member], sum: f64) -> Response {
    let most = all.iter().map(Member::rate).fold(0.0, f64::max);
    let rate = own.rate();
    let share = rate / sum;
    let ratio = most / rate;
    Response {
        // A window grows no faster than one by itself would.
        gain: (share * share * (1.0 + ratio) / 2.0 * (4.0 + ratio) / 5.0).min(1.0),
        kept: 1.0 - (1.0 - LOSS_REDUCTION) * ratio.min(1.5),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MSS: u64 = 1_000;

    fn path(datagrams: u64, rtt_ms: u64) -> SiblingView {
        SiblingView::new(datagrams * MSS, Duration::from_millis(rtt_ms), MSS)
    }

    fn near(is: f64, should: f64) {
        assert!((is - should).abs() < 1e-9, "{is} instead of {should}");
    }

    const ALL: [Rule; 3] = [Rule::Lia, Rule::Olia, Rule::Balia];

    #[test]
    fn alone_and_uncoupled_are_newreno() {
        let mut apart = path(40, 30);
        apart.shared = false;
        for rule in ALL {
            assert_eq!(rule.response(&path(20, 50), &[]), Response::ALONE);
            assert_eq!(rule.response(&path(20, 50), &[apart]), Response::ALONE);
        }
    }

    #[test]
    fn equal_paths_share_one_increase() {
        // x_i / sum = 1/2. LIA: 20 * (20 / 0.01) / (400)^2 = 1/4; OLIA: 1/4; BALIA: 1/4.
        for rule in ALL {
            let response = rule.response(&path(20, 100), &[path(20, 100)]);
            near(response.gain, 0.25);
            near(response.kept, 0.5);
        }
    }

    // RFC 6356 s3.
    #[test]
    fn lia_by_hand() {
        // Rates 10 / 0.1 = 100 and 30 / 0.05 = 600; w / rtt^2: 1,000 and 12,000.
        let (slow, fast) = (path(10, 100), path(30, 50));
        near(
            Rule::Lia.response(&slow, &[fast]).gain,
            10.0 * 12_000.0 / 490_000.0,
        );
        near(
            Rule::Lia.response(&fast, &[slow]).gain,
            30.0 * 12_000.0 / 490_000.0,
        );
        // alpha = 40 * 12,000 / 490,000: what is added per packet is alpha / 40, whatever the path.
        // A large window on a slow path: 100 * 12,000 / (1,000 + 600)^2 is below 1, and with a rate
        // of 100 / 0.4 = 250 it is 100 * 12,000 / 850^2 = 1.66: no more than NewReno.
        near(
            Rule::Lia.response(&path(100, 400), &[path(30, 50)]).gain,
            1.0,
        );
    }

    #[test]
    fn unused_windows_count_by_what_is_in_flight() {
        let mut idle = path(30, 50);
        idle.app_limited = true;
        idle.in_flight = 10 * MSS;
        let own = path(10, 50);
        assert_eq!(
            Rule::Lia.response(&own, &[idle]),
            Rule::Lia.response(&own, &[path(10, 50)])
        );
    }

    #[test]
    fn olia_by_hand() {
        let with = |mut view: SiblingView, bytes: u64| {
            view.between_losses = bytes;
            view
        };
        // The better path has the smaller window: it gets 1 / (2 * 1), the other pays as much.
        let (large, good) = (with(path(30, 100), 100_000), with(path(10, 100), 200_000));
        near(Rule::Olia.response(&good, &[large]).gain, 0.0625 + 0.5);
        near(Rule::Olia.response(&large, &[good]).gain, 0.5625 - 0.5);
        // The larger window is on the better path: nothing moves.
        let (large, poor) = (with(path(30, 100), 200_000), with(path(10, 100), 100_000));
        near(Rule::Olia.response(&poor, &[large]).gain, 0.0625);
        near(Rule::Olia.response(&large, &[poor]).gain, 0.5625);
        // The quality is of bytes over rtt^2: 100,000 / 0.0025 beats 200,000 / 0.01.
        let (large, good) = (with(path(30, 100), 200_000), with(path(10, 50), 100_000));
        let share: f64 = 200.0 / 500.0;
        near(
            Rule::Olia.response(&good, &[large]).gain,
            share * share + 0.5,
        );
        // Three paths, two with the largest windows: each pays 1 / (3 * 2).
        let (a, b, c) = (
            with(path(30, 100), 1_000),
            with(path(30, 100), 1_000),
            with(path(12, 100), 9_000),
        );
        near(
            Rule::Olia.response(&a, &[b, c]).gain,
            (30.0f64 / 72.0).powi(2) - 1.0 / 6.0,
        );
        near(
            Rule::Olia.response(&c, &[a, b]).gain,
            (12.0f64 / 72.0).powi(2) + 1.0 / 3.0,
        );
    }

    #[test]
    fn balia_by_hand() {
        // Rates 100 and 600: (x_i + x_max)(4 x_i + x_max) / (10 (sum x)^2).
        let (slow, fast) = (path(10, 100), path(30, 50));
        let is = Rule::Balia.response(&slow, &[fast]);
        near(is.gain, 700.0 * 1_000.0 / 4_900_000.0);
        near(is.kept, 0.25);
        let is = Rule::Balia.response(&fast, &[slow]);
        near(is.gain, 1_200.0 * 3_000.0 / 4_900_000.0);
        near(is.kept, 0.5);
        // a = 1.2: 0.6 of the window goes.
        let is = Rule::Balia.response(&path(10, 100), &[path(12, 100)]);
        near(is.kept, 0.4);
    }

    #[test]
    fn absurd_numbers_give_sane_ones() {
        let numbers = [0, 1, 1_000, u64::MAX];
        for rule in ALL {
            for window in numbers {
                for nanos in numbers {
                    for other in numbers {
                        let mut own = SiblingView::new(window, Duration::from_nanos(nanos), other);
                        own.between_losses = other;
                        let mut sibling =
                            SiblingView::new(other, Duration::from_nanos(other), window);
                        sibling.app_limited = true;
                        sibling.between_losses = nanos;
                        let is = rule.response(&own, &[sibling; 3]);
                        assert!((-1.0..=2.0).contains(&is.gain), "{rule:?} {is:?}");
                        assert!((0.25..=0.5).contains(&is.kept), "{rule:?} {is:?}");
                    }
                }
            }
        }
    }
}
