//! How packets get lost on a path: how many, and how many in a row.
//!
//! Owns: [`LossMonitor`], which sees the fate of every ack-eliciting packet of one path in the order
//! of sending, and [`LossEstimate`], what can be said from that.
//! Does not own: which packets are lost (`recovery/`).
//!
//! The model is Gilbert's: after a packet that arrived the next is lost with probability `p`, after
//! a lost one the next arrives with probability `q`. Old packets count ever less, with a half-life of
//! about [`MEMORY`] packets.

use std::{ops::Range, time::Duration};

use super::{
    LossMemory,
    pending::{Front, Pending},
};
use crate::units::PacketNumber;

/// Packets after which what was seen counts little, about.
const MEMORY: f64 = 2000.0;
/// What remains of a count after a packet more.
const FADE: f64 = 1.0 - std::f64::consts::LN_2 / MEMORY;
/// 95 % of a normal distribution lie within so many standard deviations.
const Z: f64 = 1.96;

/// What is known of a path's losses. All shares are `0..=1`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LossEstimate {
    /// Packets that the estimate rests on, old ones counted less; 0: nothing is known.
    pub packets: f64,
    /// Share of packets lost.
    pub rate: f64,
    /// Where that share lies with 95 % confidence (Wilson's interval, as if losses were
    /// independent): from.
    pub rate_low: f64,
    /// To.
    pub rate_high: f64,
    /// Gilbert's `p`: probability of a loss after an arrival.
    pub loss_after_arrival: f64,
    /// Gilbert's `q`: probability of an arrival after a loss; 1 while no loss was seen.
    pub arrival_after_loss: f64,
    /// Losses in a row, on average; 0 while none was seen.
    pub burst_mean: f64,
    /// Their standard deviation.
    pub burst_deviation: f64,
    /// Runs of losses that these rest on, old ones counted less.
    pub bursts: f64,
    /// Share of protected packets that were lost and not recovered.
    pub residual: f64,
    /// Protected packets that this rests on, old ones counted less.
    pub symbols: f64,
    /// Losses that were followed by a packet whose fate is known, old ones counted less: what
    /// `arrival_after_loss` rests on.
    pub after_loss: f64,
    /// Whether the queue is about as full now as when packets were lost before: see [`Forecast`].
    pub tense: bool,
    /// Losses among the packets that left while that was as it is now, and those packets; old ones
    /// counted less.
    pub now: (f64, f64),
    /// The same of those that left while no congestion was forecast.
    pub calm: (f64, f64),
}

/// With how much confidence: intervals that hold the true value in 95 of 100 cases, as if losses, runs and symbols came
/// independently of each other. Each is all there is while nothing is known.
impl LossEstimate {
    /// Where [`Self::loss_after_arrival`] lies: from, to.
    pub fn loss_after_arrival_within(&self) -> (f64, f64) {
        let arrivals = self.packets * (1.0 - self.rate);
        wilson(self.loss_after_arrival * arrivals, arrivals)
    }

    /// Where [`Self::arrival_after_loss`] lies: from, to.
    pub fn arrival_after_loss_within(&self) -> (f64, f64) {
        wilson(self.arrival_after_loss * self.after_loss, self.after_loss)
    }

    /// Where [`Self::burst_mean`] lies: from 1, to infinity while nothing is known.
    pub fn burst_mean_within(&self) -> (f64, f64) {
        if self.bursts <= 0.0 {
            return (1.0, f64::INFINITY);
        }
        let spread = Z * self.burst_deviation / self.bursts.sqrt();
        let low = (self.burst_mean - spread).max(1.0);
        (low, self.burst_mean + spread)
    }

    /// Where [`Self::residual`] lies: from, to.
    pub fn residual_within(&self) -> (f64, f64) {
        wilson(self.residual * self.symbols, self.symbols)
    }
}

/// Of a path that lost so many packets, old ones counted less, it is known that it loses some.
pub(super) const KNOWN_LOSSES: f64 = 0.5;

/// Whether a round-trip time means that a queue stands: it is longer than the shortest by an eighth, or 2 ms.
pub(super) fn queue_stands(rtt: Duration, min: Duration) -> bool {
    rtt.saturating_sub(min) > (min / 8).max(Duration::from_millis(2))
}

/// Whether congestion is about to cost packets: the round-trip time is near that at which packets were
/// lost before, or what is filled of the window near what was then, where such losses came with a queue at all. What
/// is lost then follows another rule than what is lost at random (000 s5.4.1 asks for codes when
/// congestion is predicted; here losses are counted apart, so that either rule is learnt).
#[derive(Clone, Copy, Debug, Default)]
struct Forecast {
    min: Duration,
    latest: Duration,
    filled: u64,
    /// Round-trip time and filled window when packets were lost: moving averages.
    rtt_at_loss: Option<Duration>,
    filled_at_loss: u64,
    /// `None` where losses say nothing of the next. Kept, since it changes with losses and each acknowledgement asks.
    near: Option<Near>,
    tense: bool,
}

/// From where on a loss is near.
#[derive(Clone, Copy, Debug)]
struct Near {
    /// Of the round-trip time.
    rise: Duration,
    filled: f64,
}

impl Forecast {
    /// Share of the rise, and of what was filled, from which a loss is near.
    const NEAR: f64 = 0.75;

    fn on_feedback(&mut self, min: Duration, latest: Duration, filled: u64) {
        let same_min = self.min == min;
        (self.min, self.latest, self.filled) = (min, latest, filled);
        if !same_min {
            self.near = self.near();
        }
        self.tense = self.near.is_some_and(|near| {
            latest.saturating_sub(min) >= near.rise || filled as f64 >= near.filled
        });
    }

    fn near(&self) -> Option<Near> {
        let at_loss = self.rtt_at_loss?;
        // Without a queue losses say nothing of the next.
        queue_stands(at_loss, self.min).then(|| Near {
            rise: at_loss.saturating_sub(self.min).mul_f64(Self::NEAR),
            filled: Self::NEAR * self.filled_at_loss as f64,
        })
    }

    /// A packet was lost. True if a queue says that others which left meanwhile met congestion as well:
    /// nothing said so when they left, a round trip ago.
    fn on_loss(&mut self) -> bool {
        let rise = self.latest.saturating_sub(self.min);
        let usual = self.rtt_at_loss.map(|at| at.saturating_sub(self.min));
        let congested = queue_stands(self.latest, self.min)
            && usual.is_none_or(|usual| rise >= usual.mul_f64(Self::NEAR));
        let before = self.rtt_at_loss.unwrap_or(self.latest);
        self.rtt_at_loss = Some((before * 7 + self.latest) / 8);
        self.filled_at_loss = if self.filled_at_loss == 0 {
            self.filled
        } else {
            (self.filled_at_loss * 7 + self.filled) / 8
        };
        self.near = self.near();
        congested
    }
}

/// What outlasts a connection: all but what tells of packets under way, of protection, and of congestion
/// to come. Old packets count less.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    arrivals: f64,
    losses: f64,
    /// Of neighbours, by the fate of the first: how often the second had the other one.
    after_arrival: f64,
    losses_after_arrival: f64,
    after_loss: f64,
    arrivals_after_loss: f64,
    bursts: f64,
    burst_sum: f64,
    burst_squares: f64,
    /// Losses and packets by whether congestion was forecast when they left.
    by_forecast: [(f64, f64); 2],
}

impl Counts {
    /// One packet more: what is not of the forecast becomes older.
    fn fade(&mut self) {
        self.fade_by(FADE);
    }

    fn fade_by(&mut self, share: f64) {
        self.arrivals *= share;
        self.losses *= share;
        self.after_arrival *= share;
        self.losses_after_arrival *= share;
        self.after_loss *= share;
        self.arrivals_after_loss *= share;
        self.bursts *= share;
        self.burst_sum *= share;
        self.burst_squares *= share;
    }

    /// So many packets in a row that arrived, after one that did: at once, since nearly all packets are of
    /// such rows.
    fn arrive(&mut self, packets: usize, tense: bool) {
        let share = FADE.powi(i32::try_from(packets).unwrap_or(i32::MAX));
        // Of a geometric series.
        let fresh = (1.0 - share) / (1.0 - FADE);
        self.fade_by(share);
        self.arrivals += fresh;
        self.after_arrival += fresh;
        let [calm, forecast] = &mut self.by_forecast;
        let (losses, packets) = if tense { forecast } else { calm };
        *packets = *packets * share + fresh;
        *losses *= share;
    }

    /// One loss was none. It is taken for one between arrivals: few are not.
    fn take_back(&mut self) {
        let one = self.losses.min(1.0);
        let less = |count: &mut f64| *count = (*count - one).max(0.0);
        self.arrivals += one;
        for count in [
            &mut self.losses,
            &mut self.losses_after_arrival,
            &mut self.after_loss,
            &mut self.arrivals_after_loss,
            &mut self.bursts,
            &mut self.burst_sum,
            &mut self.burst_squares,
        ] {
            less(count);
        }
        self.after_arrival += one;
        let [calm, tense] = &mut self.by_forecast;
        less(if calm.0 >= tense.0 {
            &mut calm.0
        } else {
            &mut tense.0
        });
    }

    /// In the order of [`LossMemory`].
    fn all(&mut self) -> [&mut f64; LossMemory::COUNTS] {
        let [calm, tense] = &mut self.by_forecast;
        [
            &mut self.arrivals,
            &mut self.losses,
            &mut self.after_arrival,
            &mut self.losses_after_arrival,
            &mut self.after_loss,
            &mut self.arrivals_after_loss,
            &mut self.bursts,
            &mut self.burst_sum,
            &mut self.burst_squares,
            &mut calm.0,
            &mut calm.1,
            &mut tense.0,
            &mut tense.1,
        ]
    }
}

/// Counts the losses of one path.
#[derive(Debug, Default)]
pub struct LossMonitor {
    /// Packets from the oldest whose fate is open on.
    pending: Pending,
    /// Whether the packet before the first of those was lost; `None` at the start.
    before: Option<bool>,
    /// Length of the run of losses that ends there.
    run: f64,
    counts: Counts,
    symbols: f64,
    symbols_missed: f64,
    forecast: Forecast,
    /// Packets that met congestion, as their losses tell, whatever was forecast.
    congested: Range<PacketNumber>,
    /// As computed last; whether congestion was forecast, as of the last review.
    estimate: LossEstimate,
    /// Whether something was learnt since it was computed.
    is_stale: bool,
}

impl LossMonitor {
    /// One that begins with what another learnt before, weighted down.
    pub fn with_memory(memory: &LossMemory) -> Self {
        let mut monitor = Self::default();
        let all = monitor.counts.all().into_iter();
        all.zip(memory.discounted().counts)
            .for_each(|(count, known)| *count = known);
        monitor.review();
        monitor
    }

    /// What another may begin with; `None` as long as this one knows no packet's fate.
    pub fn memory(&self) -> Option<LossMemory> {
        self.before?;
        let mut counts = self.counts;
        let counts = counts.all().map(|count| *count);
        Some(LossMemory { counts })
    }

    /// An ack-eliciting packet left.
    #[inline]
    pub fn on_sent(&mut self, number: PacketNumber) {
        if self.pending.is_full(number) {
            self.make_room(number);
        }
        self.pending.push(number, self.forecast.tense);
    }

    #[cold]
    fn make_room(&mut self, number: PacketNumber) {
        while self.pending.is_full(number) {
            self.pending.settle_oldest();
            self.consume();
        }
    }

    /// A packet was acknowledged.
    #[inline]
    pub fn on_acked(&mut self, number: PacketNumber) {
        self.pending.settle(number, false);
    }

    /// A packet was acknowledged after it had been declared lost: reordering is no loss.
    #[cold]
    pub fn on_late(&mut self, number: PacketNumber) {
        if self.pending.first().is_some_and(|first| first <= number) {
            self.pending.settle(number, false);
        } else {
            self.counts.take_back();
        }
    }

    /// A packet was declared lost.
    pub fn on_lost(&mut self, number: PacketNumber) {
        if self.forecast.on_loss() {
            let end = self.pending.end().unwrap_or(0);
            let within = self.congested.contains(&number);
            let start = if within { self.congested.start } else { number };
            self.congested = start..end;
        }
        self.pending.settle(number, true);
    }

    /// A protected packet's fate is certain: `missed` if it was lost and not recovered.
    pub fn on_symbol(&mut self, missed: bool) {
        self.symbols = fade(self.symbols) + 1.0;
        self.symbols_missed = fade(self.symbols_missed) + f64::from(u8::from(missed));
    }

    /// A symbol that was said to be missed was recovered: the repair symbol had been under way for longer than was waited.
    pub fn on_symbol_after_all(&mut self) {
        self.symbols_missed = (self.symbols_missed - 1.0).max(0.0);
    }

    /// How the path does: smallest and latest round-trip time, bytes of the congestion window that are filled.
    pub fn on_path(&mut self, min: Duration, latest: Duration, filled: u64) {
        self.forecast.on_feedback(min, latest, filled);
    }

    /// What could be said at the last [`Self::review`].
    pub fn estimate(&self) -> LossEstimate {
        if self.is_stale {
            self.computed()
        } else {
            self.estimate
        }
    }

    /// The same, kept for whoever asks next.
    pub fn estimate_once(&mut self) -> LossEstimate {
        if std::mem::take(&mut self.is_stale) {
            self.estimate = self.computed();
        }
        self.estimate
    }

    /// Takes in what was heard since the last call. Work: a step for each packet whose fate became
    /// known; the estimate is computed when somebody wants to see it.
    pub fn review(&mut self) {
        self.consume();
        self.is_stale = true;
        self.estimate.tense = self.forecast.tense;
    }

    fn computed(&self) -> LossEstimate {
        let packets = self.counts.arrivals + self.counts.losses;
        let [calm, tense] = self.counts.by_forecast;
        let (rate_low, rate_high) = wilson(self.counts.losses, packets);
        let burst_mean = share(self.counts.burst_sum, self.counts.bursts);
        let burst_variance =
            share(self.counts.burst_squares, self.counts.bursts) - burst_mean * burst_mean;
        LossEstimate {
            packets,
            rate: share(self.counts.losses, packets),
            rate_low,
            rate_high,
            loss_after_arrival: share(self.counts.losses_after_arrival, self.counts.after_arrival),
            arrival_after_loss: if self.counts.after_loss > 0.0 {
                share(self.counts.arrivals_after_loss, self.counts.after_loss)
            } else {
                1.0
            },
            burst_mean,
            burst_deviation: burst_variance.max(0.0).sqrt(),
            bursts: self.counts.bursts,
            symbols: self.symbols,
            residual: share(self.symbols_missed, self.symbols),
            after_loss: self.counts.after_loss,
            now: if self.estimate.tense { tense } else { calm },
            calm,
            ..self.estimate
        }
    }

    /// Counts the packets at the front whose fate is known.
    fn consume(&mut self) {
        while let Some(Front {
            number,
            tense,
            lost,
        }) = self.pending.front()
        {
            if self.before == Some(false) && !lost {
                let run = self.pending.take_arrivals(&self.congested);
                if run > 0 {
                    self.counts.arrive(run, tense);
                    continue;
                }
            }
            self.pending.pop();
            let tense = tense || self.congested.contains(&number);
            let [calm, forecast] = &mut self.counts.by_forecast;
            let (losses, packets) = if tense { forecast } else { calm };
            *packets = fade(*packets) + 1.0;
            *losses = fade(*losses) + f64::from(u8::from(lost));
            self.count(lost);
        }
    }

    fn count(&mut self, lost: bool) {
        self.counts.fade();
        match self.before {
            Some(false) => {
                self.counts.after_arrival += 1.0;
                self.counts.losses_after_arrival += f64::from(u8::from(lost));
            }
            Some(true) => {
                self.counts.after_loss += 1.0;
                self.counts.arrivals_after_loss += f64::from(u8::from(!lost));
            }
            None => {}
        }
        self.before = Some(lost);
        if lost {
            self.counts.losses += 1.0;
            self.run += 1.0;
            return;
        }
        self.counts.arrivals += 1.0;
        if self.run > 0.0 {
            self.counts.bursts += 1.0;
            self.counts.burst_sum += self.run;
            self.counts.burst_squares += self.run * self.run;
            self.run = 0.0;
        }
    }
}

fn fade(sum: f64) -> f64 {
    sum * FADE
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Wilson's score interval of a share.
fn wilson(part: f64, whole: f64) -> (f64, f64) {
    if whole <= 0.0 {
        return (0.0, 1.0);
    }
    let (p, z2) = (part / whole, Z * Z / whole);
    let centre = p + z2 / 2.0;
    let spread = Z * (p * (1.0 - p) / whole + z2 / (4.0 * whole)).sqrt();
    let low = (centre - spread) / (1.0 + z2);
    let high = (centre + spread) / (1.0 + z2);
    (low.clamp(0.0, 1.0), high.clamp(0.0, 1.0))
}
