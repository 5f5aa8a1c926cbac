//! A code rate that follows the losses which correction left.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    Occasion, RedundancyFactory, RedundancyScheduler, RedundancyView, Repairs, options::Options,
};
use crate::time::Instant;

/// Bounds of the code rate. Garrido et al. (2019), III-C.
const RATES: RangeInclusive<f64> = 2.0..=255.0;
/// Symbols of a generation: as many as a window may have.
const GENERATIONS: RangeInclusive<u16> = 2..=4095;
/// Generations that a symbol is in, and repair symbols for each.
const EACH: RangeInclusive<u16> = 1..=64;
/// Periods of measurement that may be averaged over.
const PERIODS: usize = 16;

/// `rquic`: after every `Q r` source symbols (the code rate, times the redundancy) `r` repair symbols
/// cover the latest `g = Q r phi`, so that each symbol is in as many generations as the overlap `phi`
/// says: Zverev (2023), equations 3.1 and 3.6, s3.4.1.
///
/// The code rate steers for a residual loss (Garrido et al. 2019, Algorithm 1 and equations 1 and 2;
/// Zverev 2023, s3.4.2): what was sent again, for each that was not, is measured for a time of `T`
/// round trips, and averaged over `N` of them; at the end of each the rate is multiplied by `1 - delta`
/// where it is above `gamma`, else by `1 + delta`. It stays within 2 and 255, and no generation is longer
/// than the congestion window, which would have to open before its repair symbols could leave.
///
/// Where this departs from the text: a period in which nothing was protected tells nothing, and changes
/// nothing. Until `N` periods are over, the mean is that of those there are. A generation that a pause
/// leaves incomplete waits for what comes behind it, as in the text; `tail=on` ends it there. The study
/// uses XOR; any code does here. With a rateless one a loss beyond the repair symbols adds one instead of being sent
/// again (spec, 6.3), and is no residual loss: the rate then rises later than in the text. Losses that were recovered stay losses to congestion control, and
/// repair symbols are within its window; the 2023 design had neither.
#[derive(Clone, Debug, PartialEq)]
pub struct Rquic {
    options: RquicOptions,
    rate: f64,
    /// Residual losses of the latest periods, the newest at `periods - 1` modulo `N`.
    residual: [f64; PERIODS],
    periods: usize,
    period: Option<Period>,
}

/// What was counted when a period began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Period {
    since: Instant,
    sources: u64,
    retransmitted: u64,
}

/// How [`Rquic`] is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RquicOptions {
    /// Source symbols for each repair symbol, to begin with. 2 to 255.
    pub initial: f64,
    /// Residual loss to steer for, a share: 0 to 1.
    pub gamma: f64,
    /// By what share the code rate changes: 0 to 0.99.
    pub delta: f64,
    /// Periods to average over, `N`: 1 to 16.
    pub periods: usize,
    /// Round trips that a period takes, `T`: 0.1 to 1000.
    pub round_trips: f64,
    /// Symbols that a generation has at most: 2 to 4095.
    pub generation: u16,
    /// Generations that a symbol is in: 1 to 64.
    pub overlap: u16,
    /// Repair symbols for each generation: 1 to 64.
    pub redundancy: u16,
    /// Whether to protect in slow start too.
    pub slow_start: bool,
    /// Whether a pause ends a generation.
    pub tail: bool,
}

impl Default for RquicOptions {
    fn default() -> Self {
        Self {
            initial: 10.0,
            gamma: 0.01,
            delta: 0.33,
            periods: 3,
            round_trips: 3.0,
            generation: 255,
            overlap: 1,
            redundancy: 1,
            slow_start: true,
            tail: false,
        }
    }
}

impl Rquic {
    pub(super) const NAME: &'static str = "rquic";
    pub(super) const USAGE: &'static str = "rquic or rquic:initial=10,gamma=1,delta=33,periods=3,\
        rtts=3,generation=255,overlap=1,redundancy=1,slow-start=on,tail=off (gamma in percent, 0 to 100, \
        delta in percent, 0 to 99, initial 2 to 255, periods 1 to 16, rtts 0.1 to 1000, generation 2 to 4095, \
        overlap and redundancy 1 to 64)";
    pub(super) const KEYS: &'static [&'static str] = &[
        "initial",
        "gamma",
        "delta",
        "periods",
        "rtts",
        "generation",
        "overlap",
        "redundancy",
        "slow-start",
        "tail",
    ];

    pub(super) fn parse(options: &Options<'_>) -> Option<Self> {
        let default = RquicOptions::default();
        let parsed = RquicOptions {
            initial: options.number("initial", default.initial, RATES)?,
            gamma: options.number("gamma", 1.0, 0.0..=100.0)? / 100.0,
            delta: options.number("delta", 33.0, 0.0..=99.0)? / 100.0,
            periods: options.count("periods", 3, 1..=16)?.into(),
            round_trips: options.number("rtts", default.round_trips, 0.1..=1000.0)?,
            generation: options.count("generation", default.generation, GENERATIONS)?,
            overlap: options.count("overlap", default.overlap, EACH)?,
            redundancy: options.count("redundancy", default.redundancy, EACH)?,
            slow_start: options.switch("slow-start", default.slow_start)?,
            tail: options.switch("tail", default.tail)?,
        };
        options.are_by_key().then(|| Self::new(parsed))
    }

    /// With these options; what is out of its bounds is set to the nearest bound.
    pub fn new(options: RquicOptions) -> Self {
        let sane = |value: f64, default: f64| if value.is_finite() { value } else { default };
        let within =
            |value: u16, range: RangeInclusive<u16>| value.clamp(*range.start(), *range.end());
        let options = RquicOptions {
            initial: sane(options.initial, 10.0).clamp(*RATES.start(), *RATES.end()),
            gamma: sane(options.gamma, 0.01).clamp(0.0, 1.0),
            delta: sane(options.delta, 0.33).clamp(0.0, 0.99),
            periods: options.periods.clamp(1, PERIODS),
            round_trips: sane(options.round_trips, 3.0).clamp(0.1, 1000.0),
            generation: within(options.generation, GENERATIONS),
            overlap: within(options.overlap, EACH),
            redundancy: within(options.redundancy, EACH),
            ..options
        };
        Self {
            options,
            rate: options.initial,
            residual: [0.0; PERIODS],
            periods: 0,
            period: None,
        }
    }

    /// The code rate `Q`: source symbols for each repair symbol.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    fn is_on(&self, view: &RedundancyView) -> bool {
        self.options.slow_start || !view.slow_start
    }

    /// Ends the period if it is over, and sets the code rate.
    fn measure(&mut self, view: &RedundancyView) {
        if view.smoothed_rtt.is_zero() {
            return;
        }
        let begun = Period {
            since: view.now,
            sources: view.sources,
            retransmitted: view.retransmitted,
        };
        let period = *self.period.get_or_insert(begun);
        // Bounded: no more than a thousand round trips.
        let length = view
            .smoothed_rtt
            .min(Duration::from_secs(60))
            .mul_f64(self.options.round_trips);
        if view.now < period.since + length {
            return;
        }
        self.period = Some(begun);
        let sent = view.sources.saturating_sub(period.sources);
        let again = view.retransmitted.saturating_sub(period.retransmitted);
        if sent == 0 {
            return;
        }
        // Equation 1. What was sent again may have been sent for the first time long ago.
        let once = sent.saturating_sub(again).max(1);
        let slot = self.periods % self.options.periods;
        if let Some(residual) = self.residual.get_mut(slot) {
            *residual = again as f64 / once as f64;
        }
        self.periods += 1;
        // Equation 2.
        let known = self.periods.min(self.options.periods);
        let sum: f64 = self.residual.iter().take(known).sum();
        let change = if sum / known as f64 > self.options.gamma {
            1.0 - self.options.delta
        } else {
            1.0 + self.options.delta
        };
        self.rate *= change;
    }

    /// Holds the code rate within its bounds and the congestion window.
    fn bound(&mut self, view: &RedundancyView) {
        let datagrams = view.congestion_window as f64 / view.datagram_bytes.max(1) as f64;
        let per_rate = f64::from(self.options.redundancy) * f64::from(self.options.overlap);
        let most = (datagrams / per_rate).clamp(*RATES.start(), *RATES.end());
        self.rate = self.rate.clamp(*RATES.start(), most);
    }

    /// Source symbols between repair symbols: `g / phi`, with equation 3.6 for `g`.
    fn block(&self) -> u64 {
        let options = &self.options;
        let overlap = f64::from(options.overlap);
        let generation = (self.rate * f64::from(options.redundancy) * overlap).floor();
        let generation = generation.min(f64::from(options.generation));
        // Casts of floats saturate.
        ((generation / overlap) as u64).max(1)
    }
}

impl RedundancyScheduler for Rquic {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn protects(&self, view: &RedundancyView) -> bool {
        self.is_on(view)
    }

    fn ask(&mut self, occasion: Occasion, view: &RedundancyView) -> Repairs {
        self.measure(view);
        self.bound(view);
        let ends = self.options.tail && occasion == Occasion::BurstEnd && view.uncovered > 0;
        let complete = view.uncovered >= self.block();
        if !(self.is_on(view) && (ends || complete)) {
            return Repairs::NONE;
        }
        let before = self.block() * u64::from(self.options.overlap - 1);
        let window = view.uncovered.saturating_add(before);
        Repairs {
            count: self.options.redundancy,
            window: u16::try_from(window).unwrap_or(u16::MAX),
            behind: 0,
        }
    }
}

impl RedundancyFactory for Rquic {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn build(&self) -> Box<dyn RedundancyScheduler> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(ms: u64, sources: u64, uncovered: u64) -> RedundancyView {
        RedundancyView {
            now: Instant::ZERO + Duration::from_millis(ms),
            sources,
            uncovered,
            held: 256,
            congestion_window: 1_200_000,
            datagram_bytes: 1_200,
            smoothed_rtt: Duration::from_millis(100),
            ..RedundancyView::default()
        }
    }

    fn rquic(change: impl FnOnce(&mut RquicOptions)) -> Rquic {
        let mut options = RquicOptions::default();
        change(&mut options);
        Rquic::new(options)
    }

    #[test]
    fn a_generation_and_its_repair_symbols() {
        let mut rquic = rquic(|_| {});
        for uncovered in 0..10 {
            let asked = rquic.ask(Occasion::SlotFree, &view(0, uncovered, uncovered));
            assert_eq!(asked, Repairs::NONE);
        }
        let repairs = Repairs {
            count: 1,
            window: 10,
            behind: 0,
        };
        assert_eq!(rquic.ask(Occasion::SlotFree, &view(0, 10, 10)), repairs);
        // An end that is no end of a generation.
        assert_eq!(rquic.ask(Occasion::BurstEnd, &view(0, 13, 3)).count, 0);
        let mut tail = self::rquic(|options| options.tail = true);
        let repairs = Repairs {
            count: 1,
            window: 3,
            behind: 0,
        };
        assert_eq!(tail.ask(Occasion::BurstEnd, &view(0, 13, 3)), repairs);
        assert_eq!(tail.ask(Occasion::BurstEnd, &view(0, 13, 0)).count, 0);
    }

    #[test]
    fn generations_overlap() {
        // Figure 3.1: two generations of 8 overlap, with 2 repair symbols each: Q = 2, and
        // repair symbols after every 4.
        let mut rquic = rquic(|options| {
            options.initial = 2.0;
            options.overlap = 2;
            options.redundancy = 2;
        });
        assert_eq!(rquic.ask(Occasion::SlotFree, &view(0, 3, 3)).count, 0);
        let repairs = Repairs {
            count: 2,
            window: 8,
            behind: 0,
        };
        assert_eq!(rquic.ask(Occasion::SlotFree, &view(0, 4, 4)), repairs);
        // A generation that may not be longer than 63: 31 symbols lie between them.
        let mut bounded = self::rquic(|options| {
            options.initial = 100.0;
            options.overlap = 2;
            options.generation = 63;
        });
        assert_eq!(bounded.ask(Occasion::SlotFree, &view(0, 30, 30)).count, 0);
        assert_eq!(bounded.ask(Occasion::SlotFree, &view(0, 31, 31)).window, 62);
    }

    /// Code rates at the ends of periods of 300 ms, of which each sends 100 and some of these again.
    fn rates(rquic: &mut Rquic, again: &[u64]) -> Vec<u64> {
        let mut state = view(0, 0, 0);
        rquic.ask(Occasion::SlotFree, &state);
        let rates = again.iter().map(|again| {
            state.now += Duration::from_millis(300);
            state.sources += 100;
            state.retransmitted += again;
            rquic.ask(Occasion::Feedback, &state);
            rquic.rate().round() as u64
        });
        rates.collect()
    }

    #[test]
    fn the_rate_steers_for_the_residual_loss() {
        let mut none = rquic(|_| {});
        let seen = rates(&mut none, &[0; 14]);
        assert_eq!(&seen[..4], [13, 18, 24, 31]);
        assert_eq!(seen[13], 255);
        let mut many = rquic(|_| {});
        assert_eq!(rates(&mut many, &[5; 5]), [7, 4, 3, 2, 2]);
        // 2 % in one period is 0.7 % over three, but more than 1 % over the first two.
        let mut once = rquic(|_| {});
        assert_eq!(rates(&mut once, &[0, 2, 0, 0, 0]), [13, 9, 12, 16, 21]);
        let mut still = rquic(|options| options.delta = 0.0);
        assert_eq!(rates(&mut still, &[50; 3]), [10; 3]);
    }

    #[test]
    fn a_silent_period_changes_nothing() {
        let mut rquic = rquic(|_| {});
        for ms in [0, 400, 10_000] {
            rquic.ask(Occasion::Timer, &view(ms, 7, 0));
        }
        assert_eq!(rquic.rate(), 10.0);
    }

    #[test]
    fn a_generation_fits_the_congestion_window() {
        let mut rquic = rquic(|options| options.initial = 200.0);
        let small = RedundancyView {
            congestion_window: 12_000,
            ..view(0, 10, 10)
        };
        assert_eq!(rquic.ask(Occasion::SlotFree, &small).window, 10);
        for (window, datagram) in [(0, 0), (0, 1200), (u64::MAX, 0)] {
            let odd = RedundancyView {
                congestion_window: window,
                datagram_bytes: datagram,
                ..small
            };
            rquic.ask(Occasion::SlotFree, &odd);
            assert!(RATES.contains(&rquic.rate()));
        }
    }

    #[test]
    fn slow_start_can_be_left_out() {
        let slow = RedundancyView {
            slow_start: true,
            ..view(0, 10, 10)
        };
        let mut on = rquic(|_| {});
        assert!(on.protects(&slow) && on.ask(Occasion::SlotFree, &slow).count == 1);
        let mut off = rquic(|options| options.slow_start = false);
        assert!(!off.protects(&slow) && off.ask(Occasion::SlotFree, &slow).count == 0);
        assert!(off.protects(&view(0, 10, 10)));
    }

    #[test]
    fn odd_options_are_bounded() {
        let mut odd = rquic(|options| {
            *options = RquicOptions {
                initial: f64::NAN,
                gamma: f64::NAN,
                delta: f64::INFINITY,
                periods: 0,
                round_trips: 0.0,
                generation: 0,
                overlap: 0,
                redundancy: 0,
                ..*options
            }
        });
        rates(&mut odd, &[1; 100]);
        assert!(RATES.contains(&odd.rate()));
        let much = rquic(|options| {
            *options = RquicOptions {
                initial: 1e9,
                gamma: 2.0,
                delta: 1.0,
                periods: 17,
                round_trips: 1e9,
                generation: u16::MAX,
                overlap: u16::MAX,
                redundancy: u16::MAX,
                ..*options
            }
        });
        let most = "initial=255,gamma=100,delta=99,periods=16,rtts=1000,generation=4095,overlap=64,redundancy=64";
        let most = Rquic::parse(&Options::parse(most).unwrap());
        assert_eq!(Some(much), most);
    }
}
