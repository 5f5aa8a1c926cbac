//! What happens to a datagram.

/// Towards whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

impl Direction {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ToServer => "to_server",
            Self::ToClient => "to_client",
        }
    }
}

/// The verdict on one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pass,
    Drop,
    /// One byte is changed: at `draw` modulo the length.
    Corrupt {
        draw: u64,
    },
    Duplicate,
}

/// Probabilities per datagram.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) seed: u64,
    pub(crate) drop: f64,
    pub(crate) corrupt: f64,
    pub(crate) duplicate: f64,
    /// No more than this many datagrams in a row are dropped or corrupted.
    pub(crate) burst: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            seed: 1,
            drop: 0.0,
            corrupt: 0.0,
            duplicate: 0.0,
            burst: 3,
        }
    }
}

/// The faults of one direction.
#[derive(Debug)]
pub(crate) struct Lane {
    faults: Faults,
    direction: Direction,
    index: u64,
    row: u64,
}

impl Lane {
    pub(crate) fn new(faults: Faults, direction: Direction) -> Self {
        Self {
            faults,
            direction,
            index: 0,
            row: 0,
        }
    }

    /// Decides about the next datagram.
    pub(crate) fn next(&mut self) -> Fate {
        let key = mix(self.faults.seed ^ ((self.direction as u64) << 63) ^ mix(self.index));
        self.index += 1;
        // 53 bits make every f64 in [0, 1) that has that precision.
        let draw = (key >> 11) as f64 / (1u64 << 53) as f64;
        let Faults {
            drop,
            corrupt,
            duplicate,
            burst,
            ..
        } = self.faults;
        let fate = if draw < drop {
            Fate::Drop
        } else if draw < drop + corrupt {
            Fate::Corrupt { draw: mix(key) }
        } else if draw < drop + corrupt + duplicate {
            Fate::Duplicate
        } else {
            Fate::Pass
        };
        match fate {
            Fate::Drop | Fate::Corrupt { .. } if self.row < burst => {
                self.row += 1;
                fate
            }
            Fate::Duplicate => {
                self.row = 0;
                fate
            }
            _ => {
                self.row = 0;
                Fate::Pass
            }
        }
    }
}

/// The finaliser of SplitMix64: every bit of the result depends on every bit of `x`.
fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(seed: u64, direction: Direction) -> Vec<Fate> {
        let faults = Faults {
            seed,
            drop: 0.1,
            corrupt: 0.1,
            duplicate: 0.1,
            burst: 3,
        };
        let mut lane = Lane::new(faults, direction);
        (0..10_000).map(|_| lane.next()).collect()
    }

    #[test]
    fn faults_repeat_and_differ_by_direction_and_seed() {
        let first = fates(1, Direction::ToServer);
        assert_eq!(first, fates(1, Direction::ToServer));
        assert_ne!(first, fates(1, Direction::ToClient));
        assert_ne!(first, fates(2, Direction::ToServer));
        let dropped = first.iter().filter(|fate| **fate == Fate::Drop).count();
        assert!((800..1200).contains(&dropped), "{dropped}");
    }
}
