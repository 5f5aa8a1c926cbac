//! Overlapping generations: from which overhead on everything arrives and how much later, and how often with less.
//!
//! `cargo run --release -p tautline-codes --example generations [experiments]`
//!
//! Zverev (2023), s3.2: 2,000 source symbols in time slots, and after every `g / overlap` of them so many
//! repair symbols over the latest `g`; both are lost alike, nothing is sent again, and the decoder
//! remembers all. An experiment succeeds if every source symbol arrives or is rebuilt. *Saturation
//! overhead*: the least share of repair symbols among all symbols (eq. 3.4) that bisection finds with which each of so many
//! experiments (100, unless told otherwise) does. *Delay*: time slots from a source symbol to the moment at which it and
//! all before it are there, on average, at that overhead. *Reception probability*: the share of experiments that succeed
//! (eq. 3.2), of fewer (40, unless told otherwise), at fixed overheads.
//!
//! Here RLC over GF(2^8) at full density. Repeatable: the losses are those of fixed seeds.

use std::{env::args, error::Error, process::ExitCode};

use tautline_codes::{
    CodingWindow, Decoder, Limits, RepairId,
    rlc::{DensityThreshold, Field, Rlc},
};

const SYMBOLS: u64 = 2_000;
const OVERLAPS: [u64; 5] = [1, 2, 4, 8, 16];
const GENERATIONS: [u64; 2] = [64, 256];
/// More repair symbols than this many for each source symbol are not tried.
const MOST: u64 = 2;
/// Where the reception probability is looked at.
const OVERHEADS: [f64; 6] = [0.02, 0.05, 0.1, 0.15, 0.2, 0.3];
/// Experiments for a saturation overhead.
const SATURATION: u64 = 100;
/// Experiments for a reception probability: fewer, as there are more of them to find.
const RECEPTION: u64 = 40;

/// Which symbols are lost: Gilbert's chain.
#[derive(Clone, Copy)]
struct Losses {
    name: &'static str,
    /// A loss after an arrival.
    p: f64,
    /// An arrival after a loss.
    q: f64,
}

const LOSSES: [Losses; 4] = [
    Losses {
        name: "1 %",
        p: 0.01,
        q: 0.99,
    },
    Losses {
        name: "5 %",
        p: 0.05,
        q: 0.95,
    },
    Losses {
        name: "10 %",
        p: 0.1,
        q: 0.9,
    },
    Losses {
        name: "10 % in runs of 5",
        p: 1.0 / 45.0,
        q: 0.2,
    },
];

/// Losses as they come; xorshift64*, which is enough for losses.
struct Channel {
    losses: Losses,
    state: u64,
    lost: bool,
}

impl Channel {
    fn new(losses: Losses, seed: u64) -> Self {
        let state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut channel = Self {
            losses,
            state,
            lost: false,
        };
        // The chain has forgotten where it began.
        (0..100).for_each(|_| _ = channel.arrives());
        channel
    }

    fn arrives(&mut self) -> bool {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let bits = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        let chance = bits as f64 / (1_u64 << 53) as f64;
        let change = if self.lost {
            self.losses.q
        } else {
            self.losses.p
        };
        self.lost ^= chance < change;
        !self.lost
    }
}

#[derive(Clone, Copy)]
struct Setup {
    generation: u64,
    overlap: u64,
    /// Repair symbols for each generation.
    repairs: u64,
}

impl Setup {
    fn block(self) -> u64 {
        self.generation / self.overlap
    }

    /// Times at which repair symbols are sent.
    fn generations(self) -> u64 {
        SYMBOLS.div_ceil(self.block()) + self.overlap - 1
    }

    /// Eq. 3.3 and 3.4.
    fn overhead(self) -> f64 {
        let coded = self.generations() * self.repairs;
        coded as f64 / (coded + SYMBOLS) as f64
    }

    /// With the most repair symbols that stay within an overhead.
    fn within(self, overhead: f64) -> Self {
        let coded = SYMBOLS as f64 * overhead / (1.0 - overhead);
        let repairs = (coded / self.generations() as f64) as u64;
        Self { repairs, ..self }
    }

    /// The mean delay in time slots, or `None` if a symbol stays lost.
    fn play(self, mut channel: Channel) -> Result<Option<f64>, Box<dyn Error>> {
        let code = Rlc::new(Field::Gf256, DensityThreshold::FULL);
        let limits = Limits::new(SYMBOLS as u16, 1)?.with_equations(SYMBOLS as u16)?;
        let mut decoder = Decoder::new(limits);
        // Source symbols are empty, so that repair symbols are zeros and need no encoder: here only
        // coefficients matter.
        let (source, repair) = ([0; 0], [0; 2]);
        // When each source symbol left, and the first of those that are not in order yet.
        let (mut left, mut delivered, mut delay) = (Vec::new(), 0, 0);
        let (mut slot, mut key) = (0_u64, 0);
        let ends = (SYMBOLS..)
            .step_by(self.block() as usize)
            .take(self.overlap as usize);
        let blocks = (1..SYMBOLS.div_ceil(self.block())).map(|block| block * self.block());
        for end in blocks.chain(ends) {
            for id in left.len() as u64..end.min(SYMBOLS) {
                left.push(slot);
                slot += 1;
                if channel.arrives() {
                    decoder.source(id, &source)?;
                }
                in_order(&mut decoder, &left, slot, &mut delivered, &mut delay);
            }
            // The last generations end behind the last symbol.
            let first = end.saturating_sub(self.generation);
            let len = end.min(SYMBOLS).saturating_sub(first) as u16;
            for _ in 0..self.repairs {
                let id = RepairId {
                    window: CodingWindow { first, len },
                    key,
                };
                (slot, key) = (slot + 1, key + 1);
                if channel.arrives() {
                    decoder.repair(&code, id, &repair)?;
                }
            }
            while decoder.next_recovered().is_some() {}
            in_order(&mut decoder, &left, slot, &mut delivered, &mut delay);
            // Hopeless: each missing symbol that no later repair symbol covers needs an equation, and
            // later ones say nothing about it.
            let missing = (delivered as u64..first).filter(|id| decoder.symbol(*id).is_none());
            if missing.count() > decoder.equations() {
                return Ok(None);
            }
        }
        let all = delivered == left.len();
        Ok(all.then_some(delay as f64 / SYMBOLS as f64))
    }
}

fn in_order(
    decoder: &mut Decoder,
    left: &[u64],
    slot: u64,
    delivered: &mut usize,
    delay: &mut u64,
) {
    while let Some(at) = left.get(*delivered)
        && decoder.symbol(*delivered as u64).is_some()
    {
        *delay += slot - at;
        *delivered += 1;
    }
}

/// The mean delay over the experiments with these seeds, or `None` if one of them fails, which comes
/// first from then on: what failed with more repair symbols mostly fails with fewer.
fn all(setup: Setup, losses: Losses, seeds: &mut [u64]) -> Result<Option<f64>, Box<dyn Error>> {
    let mut sum = 0.0;
    for i in 0..seeds.len() {
        let Some(delay) = setup.play(Channel::new(losses, seeds[i]))? else {
            seeds[..=i].rotate_right(1);
            return Ok(None);
        };
        sum += delay;
    }
    Ok(Some(sum / seeds.len() as f64))
}

/// The share of experiments in which everything arrives or is rebuilt: eq. 3.2.
fn share(setup: Setup, losses: Losses, experiments: u64) -> Result<f64, Box<dyn Error>> {
    let mut succeeded = 0;
    for seed in 0..experiments {
        let delay = setup.play(Channel::new(losses, seed))?;
        succeeded += u64::from(delay.is_some());
    }
    Ok(succeeded as f64 / experiments as f64)
}

fn saturation(experiments: u64) -> Result<(), Box<dyn Error>> {
    println!(
        "Saturation overhead (repair symbols per generation), and mean delay in time slots, \
         {experiments} experiments:\n"
    );
    for generation in GENERATIONS {
        println!(
            "| g = {generation} | {} |",
            LOSSES.map(|losses| losses.name).join(" | ")
        );
        println!("|---|---|---|---|---|");
        for overlap in OVERLAPS {
            print!("| overlap {overlap} |");
            for losses in LOSSES {
                let setup = |repairs| Setup {
                    generation,
                    overlap,
                    repairs,
                };
                // Too few, and enough.
                let (mut low, mut high) = (0, MOST * setup(0).block() + 1);
                let mut delay = None;
                let mut seeds: Vec<u64> = (0..experiments).collect();
                while high - low > 1 {
                    let repairs = u64::midpoint(low, high);
                    match all(setup(repairs), losses, &mut seeds)? {
                        Some(found) => (high, delay) = (repairs, Some(found)),
                        None => low = repairs,
                    }
                }
                match delay {
                    Some(delay) => print!(" {:.3} ({high}), {delay:.1} |", setup(high).overhead()),
                    None => print!(" more than {:.2} |", setup(high - 1).overhead()),
                }
            }
            println!();
        }
        println!();
    }
    Ok(())
}

fn reception(experiments: u64) -> Result<(), Box<dyn Error>> {
    println!(
        "Reception probability (repair symbols per generation) at no more than this overhead, \
         {experiments} experiments; - where that is less than one for each generation:\n"
    );
    for generation in GENERATIONS {
        for losses in LOSSES {
            let overheads = OVERHEADS.map(|overhead| format!("{overhead:.2}"));
            println!(
                "| g = {generation}, {} | {} |",
                losses.name,
                overheads.join(" | ")
            );
            println!("|{}", "---|".repeat(1 + OVERHEADS.len()));
            for overlap in OVERLAPS {
                print!("| overlap {overlap} |");
                // Where overlap is long, one more for each generation is a large step.
                let mut last = (0, 0.0);
                for overhead in OVERHEADS {
                    let setup = Setup {
                        generation,
                        overlap,
                        repairs: 0,
                    };
                    let setup = setup.within(overhead);
                    if setup.repairs == 0 {
                        print!(" - |");
                        continue;
                    }
                    if setup.repairs != last.0 {
                        last = (setup.repairs, share(setup, losses, experiments)?);
                    }
                    print!(" {:.2} ({}) |", last.1, last.0);
                }
                println!();
            }
            println!();
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let told = args().nth(1).map(|arg| arg.parse::<u64>());
    let experiments = match told {
        None => (SATURATION, RECEPTION),
        Some(Ok(told @ 1..)) => (told, told),
        Some(_) => {
            eprintln!("how many experiments? A whole number from 1 on");
            return ExitCode::FAILURE;
        }
    };
    match saturation(experiments.0).and_then(|()| reception(experiments.1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
