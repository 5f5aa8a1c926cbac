//! What a perfect code would have to send for messages to be in time.
//!
//! Owns: [`repair_bound`]. Does not own: what codes sent.

use std::time::Duration;

use tautline_sim::LossModel;

use crate::outcome::Item;

/// Share of messages that may come late.
const LATE: f64 = 1e-3;
/// Application bytes of a packet: what is left of 1,452 bytes beside headers.
const PACKET: u64 = 1_400;
/// Round-trip times until a loss is repaired by sending again. RFC 9002 s6.1.2.
const RETRY: f64 = 9.0 / 8.0;
/// Repair symbols for one block at most.
const MOST: usize = 256;

/// Repair packets by packets with data that a code needs which sees all losses at the last moment: for
/// each block of messages whose first one can wait for the last, the fewest repair packets with which
/// one block in 1,000 stays incomplete. 0 where retransmissions, each a round trip and an eighth after
/// the loss, leave no more than that; `None` without deadlines, and where the way alone is longer.
pub(super) fn repair_bound(
    items: &[&Item],
    way: Duration,
    back: Duration,
    loss: &LossModel,
) -> Option<f64> {
    let deadline = items.iter().filter_map(|item| item.deadline).min()?;
    let slack = deadline.checked_sub(way)?;
    let chain = Chain::of(loss);
    let retry = (way + back).as_secs_f64() * RETRY;
    let retries = if retry > 0.0 {
        (slack.as_secs_f64() / retry).floor()
    } else {
        f64::INFINITY
    };
    let of = |item: &Item| item.bytes.div_ceil(PACKET).max(1);
    let all: u64 = items.iter().map(|item| of(item)).sum();
    let of_message = all as f64 / items.len() as f64;
    // Of what is sent for the last time, so much had to be.
    let reached = chain.rate().powf(retries);
    if retries > 0.0 && reached * chain.rate() * of_message <= LATE {
        return Some(0.0);
    }
    let mut sorted: Vec<&Item> = items.to_vec();
    sorted.sort_by_key(|item| item.wanted);
    let (mut packets, mut repairs) = (0, 0);
    let mut rest = sorted.as_slice();
    while let Some(first) = rest.first() {
        let until = first.wanted + slack;
        let block = rest.partition_point(|item| item.wanted <= until).max(1);
        let (now, later) = rest.split_at(block);
        let sent: u64 = now.iter().map(|item| of(item)).sum();
        packets += sent;
        repairs += chain.repairs(sent, LATE / reached);
        rest = later;
    }
    (packets > 0).then(|| reached * repairs as f64 / packets as f64)
}

/// Losses as a chain of two states: lost or not.
#[derive(Clone, Copy, Debug)]
struct Chain {
    /// A loss after an arrival.
    p: f64,
    /// An arrival after a loss.
    q: f64,
}

impl Chain {
    fn of(loss: &LossModel) -> Self {
        let rate = loss.mean_rate().clamp(0.0, 0.99);
        let q = match loss {
            LossModel::Gilbert { mean_burst, .. } => 1.0 / mean_burst.max(1.0),
            LossModel::GilbertElliott {
                bad_to_good,
                loss_good: 0.0,
                loss_bad: 1.0,
                ..
            } => *bad_to_good,
            _ => 1.0 - rate,
        };
        Self {
            p: rate * q / (1.0 - rate),
            q,
        }
    }

    fn rate(self) -> f64 {
        if self.p > 0.0 {
            self.p / (self.p + self.q)
        } else {
            0.0
        }
    }

    /// The fewest repair packets behind `packets` with which more losses than these have a chance of no
    /// more than `late`.
    fn repairs(self, packets: u64, late: f64) -> u64 {
        // Chances by losses so far, of a last packet that arrived, or did not.
        let mut arrived = vec![0.0; MOST + 1];
        let mut lost = arrived.clone();
        (arrived[0], lost[0]) = (1.0 - self.rate(), self.rate());
        for _ in 0..packets {
            self.step(&mut arrived, &mut lost);
        }
        for repairs in 0..MOST {
            let few: f64 = (0..=repairs)
                .map(|losses| arrived[losses] + lost[losses])
                .sum();
            if 1.0 - few <= late {
                return repairs as u64;
            }
            self.step(&mut arrived, &mut lost);
        }
        MOST as u64
    }

    fn step(self, arrived: &mut [f64], lost: &mut [f64]) {
        let (mut from_arrived, mut from_lost) = (0.0, 0.0);
        for (arrived, lost) in arrived.iter_mut().zip(lost.iter_mut()) {
            let (a, l) = (*arrived, *lost);
            *arrived = a * (1.0 - self.p) + l * self.q;
            *lost = from_arrived * self.p + from_lost * (1.0 - self.q);
            (from_arrived, from_lost) = (a, l);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_transport::time::Instant;

    const MS: Duration = Duration::from_millis(1);

    /// A message of so many packets every 10 ms, due after 250.
    fn messages(packets: u64, count: u32) -> Vec<Item> {
        let item = |index: u32| Item {
            deadline: Some(250 * MS),
            ..Item::wanted(packets * PACKET, Instant::ZERO + index * 10 * MS)
        };
        (0..count).map(item).collect()
    }

    fn bound(items: &[Item], way: u32, loss: &LossModel) -> Option<f64> {
        let items: Vec<&Item> = items.iter().collect();
        repair_bound(&items, way * MS, way * MS, loss)
    }

    /// definitions: at 2 % and 99.9 %, about 100, 40, 30, 20, 10 % for 2, 5, 10, 20, 50 packets.
    #[test]
    fn blocks_need_what_the_binomial_says() {
        let loss = LossModel::uniform(0.02);
        for (packets, percent) in [(2, 100), (5, 40), (10, 30), (20, 20), (50, 10)] {
            // One message fills the slack.
            let bound = bound(&messages(packets, 1), 200, &loss).unwrap() * 100.0;
            assert!(
                (bound - f64::from(percent)).abs() <= 3.0,
                "{packets}: {bound}"
            );
        }
        // Six messages share 50 ms.
        let shared = bound(&messages(1, 600), 200, &loss).unwrap();
        let alone = bound(&messages(1, 1), 200, &loss).unwrap();
        assert!(
            (shared - 2.0 / 6.0).abs() < 1e-9 && alone == 1.0,
            "{shared} {alone}"
        );
    }

    #[test]
    fn retransmissions_in_time_need_no_code() {
        let items = messages(3, 10);
        assert_eq!(bound(&items, 5, &LossModel::uniform(0.02)), Some(0.0));
        // None is in time, and next to none is needed: for one packet, not for thirty that share.
        let rare = LossModel::uniform(0.0005);
        assert_eq!(bound(&messages(1, 1), 100, &rare), Some(0.0));
        assert_eq!(bound(&items, 100, &rare), Some(1.0 / 30.0));
        // One is in time, and 8 % of these are lost as well: a little of what was lost before.
        let once = bound(&items, 50, &LossModel::uniform(0.08)).unwrap();
        assert!(once > 0.0 && once < 0.05, "{once}");
        assert_eq!(bound(&items, 300, &LossModel::uniform(0.02)), None);
        assert_eq!(bound(&[], 5, &LossModel::uniform(0.02)), None);
    }

    #[test]
    fn runs_of_losses_need_more() {
        let items = messages(10, 1);
        let runs = LossModel::Gilbert {
            probability: 0.02,
            mean_burst: 3.0,
            max_burst: None,
        };
        let alone = bound(&items, 200, &LossModel::uniform(0.02)).unwrap();
        assert!(bound(&items, 200, &runs).unwrap() > 2.0 * alone);
    }
}
