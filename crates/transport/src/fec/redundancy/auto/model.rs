//! What repair symbols may be expected to do: the numbers behind `auto`.
//!
//! Owns: the chance that so many repair symbols rebuild all that is lost of so many packets, under
//! Gilbert's model of losses.
//! Does not own: what that is worth and costs (`mod.rs`), what is known of losses
//! (`loss_monitor.rs`).

use smallvec::SmallVec;

use crate::fec::{LossEstimate, Strength};

/// Repair symbols that are weighed at most, at a time.
pub(super) const MOST: usize = 24;
/// Packets that are weighed together at most: no window is longer.
const LONGEST: u64 = 4_095;
/// What is less likely is left out.
const NEGLIGIBLE: f64 = 1e-15;
/// Packets that the estimate of a new path counts for.
const PRIOR_PACKETS: f64 = 50.0;
/// Losses among these.
const PRIOR_LOSSES: f64 = 0.5;
/// Losses followed by a packet whose fate is known, and arrivals among these packets.
const PRIOR_AFTER_LOSS: (f64, f64) = (1.0, 0.7);
/// A standard deviation of the chance of an arrival after a loss that is as good as none.
const SURE: f64 = 0.05;
/// Packets that the estimate of all states counts for where that of congestion is asked for.
const PRIOR_STATE: f64 = 100.0;

/// Gilbert's model: a chain of packets, each lost or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Chain {
    /// A loss after an arrival.
    pub(super) p: f64,
    /// An arrival after a loss.
    pub(super) q: f64,
}

impl Chain {
    /// What `loss` tells, with what is assumed where it tells little: half a loss in 50 packets, and less the more are
    /// known, since most paths that lost none of them lose none at all; of one loss, of two while none is known, 0.3
    /// followed by another.
    /// `forecast`: for the state of the queue now, else on average; `bursts`: with runs of losses, else each for itself.
    pub(super) fn of(loss: &LossEstimate, forecast: bool, bursts: bool) -> Self {
        let rate = Self::rate_of(loss, forecast);
        let (arrivals, known) = after_loss(loss);
        Self::new(rate, if bursts { arrivals / known } else { 1.0 - rate })
    }

    /// As [`Self::of`], for what is not known of the length of runs: few losses say little of it, and long
    /// runs are what more repair symbols are for. Two chains, each with how likely it is: they have
    /// the mean, variance and skewness of what is known (a beta distribution; Gauss's quadrature).
    pub(super) fn likely(loss: &LossEstimate, forecast: bool, bursts: bool) -> [(f64, Self); 2] {
        let mean = Self::of(loss, forecast, bursts);
        let (arrivals, known) = after_loss(loss);
        let lost = known - arrivals;
        let first = lost / known;
        let second = first * (lost + 1.0) / (known + 1.0);
        let third = second * (lost + 2.0) / (known + 2.0);
        let variance = second - first * first;
        if !bursts || variance < SURE * SURE {
            return [(1.0, mean), (0.0, mean)];
        }
        let sum = (third - first * second) / variance;
        let product = sum * first - second;
        let half = (sum * sum / 4.0 - product).max(0.0).sqrt();
        let (low, high) = (sum / 2.0 - half, sum / 2.0 + half);
        let weight = ((first - low) / (high - low)).clamp(0.0, 1.0);
        let rate = Self::rate_of(loss, forecast);
        [
            (1.0 - weight, Self::new(rate, 1.0 - low)),
            (weight, Self::new(rate, 1.0 - high)),
        ]
    }

    fn new(rate: f64, q: f64) -> Self {
        let q = q.clamp(0.05, 1.0);
        let p = (rate * q / (1.0 - rate)).clamp(0.0, 1.0);
        Self { p, q }
    }

    fn rate_of(loss: &LossEstimate, forecast: bool) -> f64 {
        let packets = sound(loss.packets);
        let lost = sound(loss.rate).min(1.0) * packets;
        let assumed = PRIOR_LOSSES * PRIOR_PACKETS / (packets + PRIOR_PACKETS);
        let all = (lost + assumed) / (packets + PRIOR_PACKETS);
        let (losses, of) = (sound(loss.now.0), sound(loss.now.1));
        let rate = match (forecast, loss.tense) {
            (false, _) => all,
            // Congestion costs at least what is lost anyway.
            (true, true) => (losses + all * PRIOR_STATE) / (of + PRIOR_STATE),
            // What congestion cost says nothing of a time without.
            (true, false) => {
                let assumed = all.min(PRIOR_LOSSES / PRIOR_PACKETS);
                (losses + assumed * PRIOR_PACKETS) / (of + PRIOR_PACKETS)
            }
        };
        rate.clamp(0.0, 0.5)
    }

    /// Share of packets lost.
    pub(super) fn rate(self) -> f64 {
        if self.p > 0.0 {
            self.p / (self.p + self.q)
        } else {
            0.0
        }
    }

    /// The chance that a packet is lost which leaves `later` packets after a lost one: the run may last.
    pub(super) fn after_loss(self, later: u64) -> f64 {
        let memory = (1.0 - self.p - self.q).max(0.0);
        let rate = self.rate();
        rate + (1.0 - rate) * memory.powf(later.max(1) as f64)
    }

    /// As [`Odds::rescued`] with repair symbols that fare as packets do.
    #[cfg(test)]
    pub(super) fn rescued(self, packets: u64, known: u64, strength: Strength) -> [f64; MOST + 1] {
        Odds::alike(self, strength).rescued(packets, known, MOST)
    }

    /// As [`Odds::late`] with repair symbols that fare as packets do.
    #[cfg(test)]
    pub(super) fn late(self, packets: u64, messages: u64, strength: Strength) -> [f64; MOST + 1] {
        Odds::alike(self, strength).late(packets, messages)
    }

    /// What exceeds the table is beyond help.
    fn start(self, known: u64) -> Ends {
        let (mut arrived, mut lost) = ([0.0; MOST + 1], [0.0; MOST + 1]);
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        let rate = self.rate();
        if let (Some(first), Some(then)) = (arrived.get_mut(known), lost.get_mut(known)) {
            (*first, *then) = (1.0 - rate, rate);
        }
        (arrived, lost)
    }
}

/// What becomes of packets, and of repair symbols behind them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Odds {
    /// Packets.
    pub(super) chain: Chain,
    /// What the chain may be, with how likely that is: [`Chain::likely`].
    pub(super) likely: [(f64, Chain); 2],
    /// Repair symbols, where they take another path than most of the packets: what happened to these says
    /// nothing of them then.
    pub(super) elsewhere: Option<Chain>,
    /// What repair symbols rebuild.
    pub(super) strength: Strength,
}

impl Odds {
    /// Repair symbols go behind packets on one path.
    #[cfg(test)]
    fn alike(chain: Chain, strength: Strength) -> Self {
        Self {
            chain,
            likely: [(1.0, chain), (0.0, chain)],
            elsewhere: None,
            strength,
        }
    }

    /// What becomes of repair symbols.
    pub(super) fn repair_chain(self) -> Chain {
        self.elsewhere.unwrap_or(self.chain)
    }

    /// For 0 to `most` repair symbols, [`MOST`] at most, sent behind `packets` packets, of which `known` more are
    /// known to be lost: the chance that something is lost, and all of it rebuilt. A repair symbol that is
    /// lost does nothing. Work: at most [`LONGEST`] times `most`, and `most` cubed, twice.
    pub(super) fn rescued(self, packets: u64, known: u64, most: usize) -> [f64; MOST + 1] {
        let mut rescued = [0.0; MOST + 1];
        // More losses than repair symbols are not rebuilt.
        self.play_likely(packets, known, most.min(MOST), |repairs, outcome| {
            // Nothing is lost: nothing to rescue.
            if outcome.losses > 0
                && let Some(rescued) = rescued.get_mut(repairs)
            {
                *rescued += outcome.chance * outcome.rebuilt;
            }
        });
        rescued
    }

    /// For 0 to [`MOST`] repair symbols behind `packets` packets with `messages` messages: the share of
    /// messages that miss a packet for good. That many losses as repair symbols cannot rebuild lie
    /// in as many messages, or in all of them.
    pub(super) fn late(self, packets: u64, messages: u64) -> [f64; MOST + 1] {
        let messages = messages.max(1) as f64;
        // What is beyond the table loses them all.
        let mut late = [1.0; MOST + 1];
        self.play_likely(packets, 0, MOST, |repairs, outcome| {
            if let Some(late) = late.get_mut(repairs) {
                let hit = (outcome.losses + outcome.repairs_lost) as f64 / messages;
                let missed = (1.0 - outcome.rebuilt) * hit.min(1.0);
                *late -= outcome.chance * (1.0 - missed);
            }
        });
        late.map(|late| f64::max(late, 0.0))
    }

    /// For 0 to [`MOST`] repair symbols, of which the first is lost with the chance `first_lost`: how likely it is that
    /// they do not rebuild `losses` packets.
    pub(super) fn too_few(self, losses: u64, first_lost: f64) -> [f64; MOST + 1] {
        let mut ends: Ends = ([0.0; MOST + 1], [0.0; MOST + 1]);
        let mut too_few = [1.0; MOST + 1];
        for (repairs, too_few) in too_few.iter_mut().enumerate().skip(1) {
            if repairs == 1 {
                (ends.0[0], ends.1[1]) = (1.0 - first_lost, first_lost);
            } else {
                step(self.repair_chain(), &mut ends, MOST);
            }
            let rebuilt = (0..=repairs).map(|lost| {
                let came = (repairs - lost) as u64;
                sum_at(&ends, lost) * self.strength.chance(losses, came, 0.0)
            });
            *too_few = f64::max(1.0 - rebuilt.sum::<f64>(), 0.0);
        }
        too_few
    }

    /// As [`Self::play`], for each chain that is likely.
    fn play_likely(
        self,
        packets: u64,
        known: u64,
        most: usize,
        mut each: impl FnMut(usize, Outcome),
    ) {
        for (weight, chain) in self.likely {
            if weight > 0.0 {
                Self { chain, ..self }.play(packets, known, most, |repairs, mut outcome| {
                    outcome.chance *= weight;
                    each(repairs, outcome);
                });
            }
        }
    }

    /// Tells `each` of all that can happen to `packets` packets, with `known` more lost before, and to 0
    /// to `most` repair symbols behind them: first how many these are. More losses than `most` are left out.
    fn play(self, packets: u64, known: u64, most: usize, mut each: impl FnMut(usize, Outcome)) {
        let Self {
            chain, strength, ..
        } = self;
        let mut ends = chain.start(known);
        for _ in 0..packets.min(LONGEST) {
            step(chain, &mut ends, most);
        }
        let (arrived, lost) = ends;
        // What becomes of repair symbols does not depend on how many losses there were, but on whether
        // the last packet was one.
        let mut after_arrival = ([0.0; MOST + 1], [0.0; MOST + 1]);
        let mut after_loss = after_arrival;
        (after_arrival.0[0], after_loss.1[0]) = (1.0, 1.0);
        if let Some(elsewhere) = self.elsewhere {
            (after_arrival, after_loss) = (elsewhere.start(0), elsewhere.start(0));
        }
        let repair_chain = self.repair_chain();
        for repairs in 0..=most {
            if repairs > 0 {
                step(repair_chain, &mut after_arrival, most);
                step(repair_chain, &mut after_loss, most);
            }
            let few = |ends: &Ends| (0..=repairs).map(|lost| sum_at(ends, lost)).collect();
            let lost_repairs: [SmallVec<[f64; MOST + 1]>; 2] =
                [few(&after_arrival), few(&after_loss)];
            for (losses, (arrived, lost)) in arrived.iter().zip(&lost).enumerate().take(most + 1) {
                if arrived + lost < NEGLIGIBLE {
                    continue;
                }
                let [after_arrival, after_loss] = &lost_repairs;
                for (repairs_lost, (a, l)) in after_arrival.iter().zip(after_loss).enumerate() {
                    let chance = arrived * a + lost * l;
                    if chance < NEGLIGIBLE {
                        continue;
                    }
                    let came = (repairs - repairs_lost) as u64;
                    each(
                        repairs,
                        Outcome {
                            losses,
                            repairs_lost,
                            chance,
                            rebuilt: strength.chance(losses as u64, came, 1.0 - chain.q),
                        },
                    );
                }
            }
        }
    }
}

/// Chances by losses so far: of a packet that arrived in the end, and of one that was lost.
type Ends = ([f64; MOST + 1], [f64; MOST + 1]);

/// Something that can happen.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Packets lost, those known before among them.
    losses: usize,
    repairs_lost: usize,
    /// How likely that is.
    chance: f64,
    /// How likely it is that the other repair symbols then rebuild all.
    rebuilt: f64,
}

/// One more packet, as far as `most` losses.
fn step(chain: Chain, (arrived, lost): &mut Ends, most: usize) {
    let (mut from_arrived, mut from_lost) = (0.0, 0.0);
    for (arrived, lost) in arrived.iter_mut().zip(lost.iter_mut()).take(most + 1) {
        let (a, l) = (*arrived, *lost);
        *arrived = a * (1.0 - chain.p) + l * chain.q;
        // Of those with one loss less.
        *lost = from_arrived * chain.p + from_lost * (1.0 - chain.q);
        (from_arrived, from_lost) = (a, l);
    }
}

fn sum_at((arrived, lost): &Ends, losses: usize) -> f64 {
    let at = |chances: &[f64; MOST + 1]| chances.get(losses).copied().unwrap_or(0.0);
    at(arrived) + at(lost)
}

/// Arrivals after a loss, and losses followed by a packet whose fate is known, with those that are assumed.
fn after_loss(loss: &LossEstimate) -> (f64, f64) {
    let known = sound(loss.after_loss);
    let arrivals = known * sound(loss.arrival_after_loss).min(1.0);
    // While none is known it counts twice: as one loss it stands for single ones and runs of nearly five, as two for single
    // ones and runs of three, which a repair symbol or two more make good for.
    let weight = 1.0 + (1.0 + known).powi(-4);
    let (of, arrived) = PRIOR_AFTER_LOSS;
    (arrivals + weight * arrived, known + weight * of)
}

/// A count; 0 for what is none.
fn sound(count: f64) -> f64 {
    if count.is_finite() {
        count.max(0.0)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn independent_losses_are_binomial() {
        let chain = Chain { p: 0.1, q: 0.9 };
        let rescued = chain.rescued(10, 0, Strength::Any);
        let choose =
            |n: u32, k: u32| (0..k).fold(1.0, |c, i| c * f64::from(n - i) / f64::from(i + 1));
        for repairs in 0..6 {
            let n = 10 + repairs;
            let at_most: f64 = (0..=repairs)
                .map(|k| choose(n, k) * 0.1_f64.powi(k as i32) * 0.9_f64.powi((n - k) as i32))
                .sum();
            // What is lost of the repair symbols alone is nothing to rescue.
            let idle: f64 = 0.9_f64.powi(10);
            assert!((rescued[repairs as usize] - (at_most - idle)).abs() < 1e-12);
            // One message: late if anything stays lost.
            let late = chain.late(10, 1, Strength::Any)[repairs as usize];
            assert!((late - (1.0 - at_most)).abs() < 1e-12);
        }
        assert_eq!(rescued[0], 0.0);
    }

    #[test]
    fn as_many_repair_symbols_as_losses_must_arrive() {
        let odds = Odds::alike(Chain { p: 0.1, q: 0.9 }, Strength::Any);
        let few = odds.too_few(1, 0.1);
        assert_eq!(few[0], 1.0);
        for (repairs, few) in few.iter().enumerate().take(5) {
            assert!(
                (few - 0.1_f64.powi(repairs as i32)).abs() < 1e-12,
                "{repairs}"
            );
        }
        let few = odds.too_few(2, 0.1);
        assert_eq!((few[0], few[1]), (1.0, 1.0));
        assert!((few[2] - (1.0 - 0.81)).abs() < 1e-12);
        assert!((few[3] - (0.001 + 3.0 * 0.01 * 0.9)).abs() < 1e-12);
        // In a run they fall together.
        let runs = Odds::alike(Chain { p: 0.01, q: 0.3 }, Strength::Any);
        let few = runs.too_few(1, 0.03);
        assert!((few[3] - 0.03 * 0.7 * 0.7).abs() < 1e-12);
        assert!(few.windows(2).all(|pair| pair[1] <= pair[0]));
    }

    #[test]
    fn a_run_is_forgotten_packet_by_packet() {
        // Runs of three, one packet in fifty.
        let runs = Chain {
            p: 1.0 / 147.0,
            q: 1.0 / 3.0,
        };
        assert!((runs.after_loss(1) - 2.0 / 3.0).abs() < 1e-9);
        // Two steps: lost and lost again, or through an arrival.
        let two = 2.0 / 3.0 * (2.0 / 3.0) + 1.0 / 3.0 / 147.0;
        assert!((runs.after_loss(2) - two).abs() < 1e-9);
        assert!((runs.after_loss(1_000) - runs.rate()).abs() < 1e-9);
        assert!((runs.after_loss(u64::MAX) - runs.rate()).abs() < 1e-9);
        let single = Chain { p: 0.1, q: 0.9 };
        assert!((single.after_loss(1) - 0.1).abs() < 1e-9);
        // An arrival after each loss is no more than that.
        assert!(Chain { p: 0.5, q: 1.0 }.after_loss(1) >= 0.0);
    }

    /// The sums against a chain played out.
    #[test]
    fn runs_of_losses_as_played_out() {
        let seed = 11;
        let mut rng = Rng::from_u64(seed);
        let chain = Chain { p: 0.05, q: 0.4 };
        let (packets, known, rounds) = (20, 1, 200_000);
        let mut counts = [0_u32; 9];
        for _ in 0..rounds {
            let mut lost = rng.unit_f64() < chain.rate();
            let mut losses = known;
            let mut step = || {
                let change = if lost { chain.q } else { chain.p };
                lost ^= rng.unit_f64() < change;
                u64::from(lost)
            };
            losses += (0..packets).map(|_| step()).sum::<u64>();
            for repairs in 0..counts.len() as u64 {
                if repairs > 0 {
                    losses += step();
                }
                counts[repairs as usize] += u32::from(losses <= repairs);
            }
        }
        let rescued = chain.rescued(packets, known, Strength::Any);
        for (repairs, count) in counts.into_iter().enumerate() {
            let share = f64::from(count) / f64::from(rounds);
            let expected = rescued[repairs];
            assert!(
                (share - expected).abs() < 0.005,
                "{repairs}: {share} {expected}, seed {seed}"
            );
        }
    }

    #[test]
    fn repair_symbols_elsewhere_are_lost_there() {
        let (lossy, calm) = (Chain { p: 0.1, q: 0.3 }, Chain { p: 0.0, q: 1.0 });
        let odds = |elsewhere| Odds {
            elsewhere,
            ..Odds::alike(lossy, Strength::Any)
        };
        let (same, other) = (odds(None).late(10, 1), odds(Some(calm)).late(10, 1));
        assert_eq!(same[0], other[0]);
        // Every one of them arrives: only more losses than there are of them hurt.
        let more_than_one: f64 = 1.0 - 0.75 * 0.9_f64.powi(10);
        assert!(
            other[1] < same[1] && other[1] < more_than_one,
            "{same:?} {other:?}"
        );
        // Runs of losses end with the path: what was lost last says nothing of the repair symbols.
        let alike = odds(Some(lossy)).late(1, 1);
        assert!(alike[1] < odds(None).late(1, 1)[1]);
    }

    #[test]
    fn hopeless_and_empty_cases() {
        let chain = Chain { p: 0.1, q: 0.9 };
        assert_eq!(chain.rescued(0, 0, Strength::Any), [0.0; MOST + 1]);
        let of_none = chain.late(0, 0, Strength::Any);
        assert!(of_none[0] <= chain.rate() && of_none[1] < 0.02);
        assert_eq!(chain.rescued(5, 1_000, Strength::Any), [0.0; MOST + 1]);
        let perfect = Chain { p: 0.0, q: 1.0 };
        assert_eq!(perfect.late(200, 5, Strength::Any), [0.0; MOST + 1]);
        assert_eq!(perfect.rescued(200, 0, Strength::Any), [0.0; MOST + 1]);
    }

    #[test]
    fn messages_share_a_loss_that_hits_one_of_them() {
        let chain = Chain { p: 0.02, q: 0.98 };
        let one = chain.late(10, 1, Strength::Any);
        let ten = chain.late(10, 10, Strength::Any);
        assert!((0.18..0.19).contains(&one[0]), "{one:?}");
        assert!((ten[0] - 0.02).abs() < 1e-9, "{ten:?}");
        for late in [one, ten] {
            assert!(late[..12].is_sorted_by(|a, b| a >= b), "{late:?}");
        }
        assert_eq!(ten.iter().position(|late| *late < 1e-3), Some(2));
    }

    /// The two chains against the moments of the beta distribution that they stand for.
    #[test]
    fn what_is_not_known_of_runs_is_two_chains() {
        let of = |after_loss: f64, arrival_after_loss: f64| LossEstimate {
            packets: 1_000.0,
            rate: 0.02,
            now: (20.0, 1_000.0),
            arrival_after_loss,
            after_loss,
            ..LossEstimate::default()
        };
        for loss in [LossEstimate::default(), of(4.0, 0.5), of(20.0, 0.9)] {
            let mean = Chain::of(&loss, true, true);
            let likely = Chain::likely(&loss, true, true);
            let moment = |power| -> f64 {
                let of = |(weight, chain): (f64, Chain)| weight * (1.0 - chain.q).powi(power);
                likely.into_iter().map(of).sum()
            };
            let (arrivals, known) = after_loss(&loss);
            let lost = known - arrivals;
            let mut expected = 1.0;
            for (power, more) in [(1, 0.0), (2, 1.0), (3, 2.0)] {
                expected *= (lost + more) / (known + more);
                assert!((moment(power) - expected).abs() < 1e-9, "{power} {loss:?}");
            }
            assert!((moment(0) - 1.0).abs() < 1e-12);
            for (_, chain) in likely {
                assert!((chain.rate() - mean.rate()).abs() < 1e-9, "as many losses");
            }
            // Without runs there is nothing to be unsure of.
            let single = Chain::of(&loss, true, false);
            assert_eq!(Chain::likely(&loss, true, false)[0], (1.0, single));
        }
        let known = of(1_000.0, 0.4);
        let mean = Chain::of(&known, true, true);
        assert_eq!(Chain::likely(&known, true, true)[0], (1.0, mean));
    }

    #[test]
    fn fewer_are_weighed_the_same() {
        let odds = Odds::alike(Chain { p: 0.05, q: 0.4 }, Strength::Any);
        let all = odds.rescued(20, 1, MOST);
        for most in [0, 1, 6, MOST, usize::MAX] {
            let few = odds.rescued(20, 1, most);
            let weighed = most.min(MOST) + 1;
            assert_eq!(few[..weighed], all[..weighed], "{most}");
            assert!(few[weighed..].iter().all(|chance| *chance == 0.0));
        }
    }

    #[test]
    fn what_is_assumed_of_runs_counts_twice_while_no_loss_is_known() {
        let mut loss = LossEstimate {
            arrival_after_loss: 0.5,
            ..LossEstimate::default()
        };
        assert_eq!(after_loss(&loss), (1.4, 2.0));
        let [_, (_, long)] = Chain::likely(&loss, true, true);
        assert!((2.9..3.4).contains(&(1.0 / long.q)), "{long:?}");
        loss.after_loss = 3.0;
        let (arrivals, known) = after_loss(&loss);
        assert!((known - 4.0).abs() < 0.01 && (arrivals - 2.2).abs() < 0.01);
    }

    #[test]
    fn what_is_not_known_is_assumed() {
        let new = Chain::of(&LossEstimate::default(), true, true);
        assert!((new.rate() - 0.01).abs() < 1e-9 && new.q < 1.0);
        let mut loss = LossEstimate {
            packets: 2_000.0,
            rate: 0.0,
            ..LossEstimate::default()
        };
        assert!(Chain::of(&loss, true, true).rate() < 0.001);
        // Lossy on the whole, but not in the state that the queue is in now.
        (loss.rate, loss.now) = (0.02, (0.0, 1_000.0));
        assert!(Chain::of(&loss, true, true).rate() < 0.002);
        assert!(Chain::of(&loss, false, true).rate() > 0.015);
    }
}
