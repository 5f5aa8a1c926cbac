//! A quality of experience for a watched video, between 1 (bad) and 5 (excellent).
//!
//! The score is in the *style* of ITU-T P.1203 (10/2017), mode 0: it is made of bit rates,
//! resolutions, the initial loading delay and stalls, put together in the order of P.1203.3. It is
//! **not** P.1203 and claims no conformance: short-term quality and the penalty for changes are
//! formulas of our own, audio is left out, and so are the Recommendation's negative bias, its
//! random forest (a quarter of its result) and its last linear mapping. Figures compare solutions
//! with each other; they are no prediction of what an audience would say.
//!
//! With T the seconds of media shown, for each segment shown (`t` its middle in media seconds, `d`
//! its seconds):
//!
//! 1. **Short-term quality** V (ours): bpp = bit rate / (width x height x frames per second);
//!    s = pixels of the display / pixels of the representation, at least 1;
//!    V = 1 + 4 x 1 / (1 + (0.02 / bpp)^1.2) x max(0, 1 - 0.45 log10 s).
//!    The first factor is compression: one half at 0.02 bits a pixel, 0.87 at 0.1, as expected of
//!    H.264. The second is enlargement: 0.84 for 720 lines on 1080, 0.57 for 360. Chosen so that a
//!    common ladder spreads from 2.5 (240 lines) to 4.5 (1080 lines).
//! 2. **Over time**: Q = sum(w d V) / sum(w d), w = w1 w2; w1 = t1 + t2 exp((t / T) / t3), what was
//!    seen last counts more; w2 = t4 - t5 V, what was bad counts more. The constants t1 to t5 are
//!    those of P.1203.3.
//! 3. **Changes** (ours): Q is lowered by 0.1 for each point of V that the picture changes up or
//!    down a minute, by 0.5 at most.
//! 4. **Stalls**: SI = exp(-n / s1) exp(-(L / T) / s2); n is the number of stalls, L the seconds
//!    of standing still, weighted: a stall at media second p by c + (1 - c) 2^(-(T - p) / 10), the
//!    initial loading delay by one third. s1, s2 and c are those of P.1203.3; its third factor,
//!    for the mean interval between stalls, is left out because it rewards stalls that bunch.
//! 5. **Score** = 1 + (Q - 1) SI.
//!
//! Exponentials and logarithms may differ in the last digit from one machine to another.

/// A stretch of one representation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shown {
    /// Seconds of media.
    pub(super) seconds: f64,
    /// Bits per second.
    pub(super) bitrate: f64,
    /// Pixels of a picture.
    pub(super) pixels: f64,
}

/// A watched video.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Watched<'a> {
    /// What was shown, in order.
    pub(super) shown: &'a [Shown],
    /// Seconds from the wish to the first moving picture.
    pub(super) initial_delay: f64,
    /// Media second and seconds of standing still.
    pub(super) stalls: &'a [(f64, f64)],
    /// Pixels of the display.
    pub(super) display: f64,
    /// Frames per second.
    pub(super) frame_rate: f64,
}

const BPP_AT_HALF: f64 = 0.02;
const BPP_POWER: f64 = 1.2;
const ENLARGEMENT: f64 = 0.45;
const CHANGE: f64 = 0.1;
const MOST_FOR_CHANGES: f64 = 0.5;
const INITIAL_DELAY_WEIGHT: f64 = 1.0 / 3.0;
/// ITU-T P.1203.3: weights of quality over time.
const T: [f64; 5] = [
    0.006_666_200_279_438_48,
    0.000_040_401_884_027_372_9,
    0.156_497_800_436_237,
    0.143_179_744_942_738,
    0.023_864_156_451_887_6,
];
/// ITU-T P.1203.3: impact of the number and of the length of stalls.
const S: [f64; 2] = [9.351_586_84, 0.918_908_15];
/// ITU-T P.1203.3: what is left of a stall's weight when it is long ago, and its half-life.
const C: f64 = 0.484_128_79;
const HALF_LIFE: f64 = 10.0;

impl Watched<'_> {
    /// Step 1.
    fn short_term(&self, shown: &Shown) -> f64 {
        let bpp = shown.bitrate / (shown.pixels * self.frame_rate);
        let compression = 1.0 / (1.0 + (BPP_AT_HALF / bpp).powf(BPP_POWER));
        let scale = (self.display / shown.pixels).max(1.0);
        let enlargement = (1.0 - ENLARGEMENT * scale.log10()).max(0.0);
        1.0 + 4.0 * compression * enlargement
    }

    /// The score; 1 when nothing was shown.
    pub(super) fn score(&self) -> f64 {
        let total: f64 = self.shown.iter().map(|shown| shown.seconds).sum();
        if total <= 0.0 {
            return 1.0;
        }
        let [t1, t2, t3, t4, t5] = T;
        let (mut sum, mut weights, mut changes) = (0.0, 0.0, 0.0);
        let (mut begin, mut last) = (0.0, None);
        for shown in self.shown {
            let quality = self.short_term(shown);
            let middle = (begin + shown.seconds / 2.0) / total;
            let weight = (t1 + t2 * (middle / t3).exp()) * (t4 - t5 * quality);
            sum += weight * shown.seconds * quality;
            weights += weight * shown.seconds;
            changes += last.map_or(0.0, |last: f64| (quality - last).abs());
            begin += shown.seconds;
            last = Some(quality);
        }
        let quality = sum / weights - (CHANGE * changes * 60.0 / total).min(MOST_FOR_CHANGES);
        (1.0 + (quality - 1.0) * self.stalling(total)).clamp(1.0, 5.0)
    }

    /// Step 4.
    fn stalling(&self, total: f64) -> f64 {
        let [s1, s2] = S;
        let mut length = self.initial_delay * INITIAL_DELAY_WEIGHT;
        for (position, seconds) in self.stalls {
            let ago = (total - position).max(0.0);
            length += seconds * (C + (1.0 - C) * (-ago / HALF_LIFE).exp2());
        }
        (-(self.stalls.len() as f64) / s1).exp() * (-(length / total) / s2).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LADDER: [(f64, f64, f64); 5] = [
        (426.0, 240.0, 0.4e6),
        (640.0, 360.0, 0.8e6),
        (854.0, 480.0, 1.4e6),
        (1280.0, 720.0, 2.8e6),
        (1920.0, 1080.0, 5e6),
    ];

    fn step(index: usize, seconds: f64) -> Shown {
        let (width, height, bitrate) = LADDER[index];
        Shown {
            seconds,
            bitrate,
            pixels: width * height,
        }
    }

    fn score(shown: &[Shown], initial_delay: f64, stalls: &[(f64, f64)]) -> f64 {
        let watched = Watched {
            shown,
            initial_delay,
            stalls,
            display: 1920.0 * 1080.0,
            frame_rate: 24.0,
        };
        watched.score()
    }

    #[test]
    fn each_step_of_the_ladder_is_better() {
        let scores: Vec<f64> = (0..5)
            .map(|index| score(&[step(index, 60.0)], 1.0, &[]))
            .collect();
        assert!(scores.is_sorted_by(|a, b| a + 0.3 < *b), "{scores:?}");
        assert!((2.4..2.6).contains(&scores[0]), "{scores:?}");
        assert!((4.4..4.6).contains(&scores[4]), "{scores:?}");
        // A higher bit rate in the same resolution, too.
        let mut richer = step(3, 60.0);
        richer.bitrate *= 1.5;
        assert!(score(&[richer], 1.0, &[]) > scores[3]);
    }

    #[test]
    fn more_and_longer_stalls_and_delays_are_worse() {
        let shown = [step(3, 120.0)];
        let mut last = f64::INFINITY;
        for count in 0..10 {
            // As long in all, in more pieces.
            let stalls: Vec<(f64, f64)> = (0..count).map(|i| (10.0 * f64::from(i), 1.0)).collect();
            let now = score(&shown, 1.0, &stalls);
            assert!(now < last, "{count} stalls: {now} after {last}");
            last = now;
        }
        let once = |position, seconds| score(&shown, 1.0, &[(position, seconds)]);
        assert!(once(60.0, 5.0) < once(60.0, 1.0));
        assert!(
            once(119.0, 5.0) < once(10.0, 5.0),
            "what is fresh counts more"
        );
        assert!(score(&shown, 10.0, &[]) < score(&shown, 1.0, &[]));
        assert!(
            score(&shown, 9.0, &[]) > once(60.0, 9.0),
            "waiting beats stalling"
        );
        let endless: Vec<(f64, f64)> = (0..200).map(|i| (0.5 * f64::from(i), 60.0)).collect();
        assert!((1.0..1.01).contains(&score(&shown, 100.0, &endless)));
    }

    #[test]
    fn changes_cost_and_the_end_counts_more() {
        let (low, high) = (step(1, 4.0), step(3, 4.0));
        let often: Vec<Shown> = [low, high].into_iter().cycle().take(30).collect();
        let mut once = vec![low; 15];
        once.extend([high; 15]);
        let mut falling = once.clone();
        falling.reverse();
        assert!(score(&often, 1.0, &[]) < score(&once, 1.0, &[]));
        assert!(score(&falling, 1.0, &[]) < score(&once, 1.0, &[]));
        assert_eq!(score(&[], 1.0, &[]), 1.0);
        assert_eq!(score(&[step(4, 0.0)], 1.0, &[]), 1.0);
    }
}
