//! Overlapping generations: from which overhead on everything arrives, and how much later.
//!
//! `cargo run --release -p tautline-codes --example generations [experiments]`
//!
//! Zverev (2023), s3.2: 2,000 source symbols in time slots, and after every `g / overlap` of them so many
//! repair symbols over the latest `g`; both are lost alike, nothing is sent again, and the decoder
//! remembers all. An experiment succeeds if every source symbol arrives or is rebuilt. *Saturation
//! overhead*: the least share of repair symbols among all symbols (eq. 3.4) that bisection finds with which each of so many
//! experiments (100, unless told otherwise) does. *Delay*: time slots from a source symbol to the moment at which it and
//! all before it are there, on average, at that overhead.
//!
//! Here RLC over GF(2^8) at full density. Repeatable: the losses are those of fixed seeds.

use std::{env::args, error::Error, process::ExitCode};

use tautline_codes::{
    CodingWindow, Decoder, Encoder, Limits, RepairId,
    rlc::{DensityThreshold, Field, Rlc},
};

const SYMBOLS: u64 = 2_000;
const OVERLAPS: [u64; 5] = [1, 2, 4, 8, 16];
const GENERATIONS: [u64; 2] = [64, 256];
/// More repair symbols than this many for each source symbol are not tried.
const MOST: u64 = 2;

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

    /// Eq. 3.3 and 3.4.
    fn overhead(self) -> f64 {
        let coded = (SYMBOLS.div_ceil(self.block()) + self.overlap - 1) * self.repairs;
        coded as f64 / (coded + SYMBOLS) as f64
    }

    /// The mean delay in time slots, or `None` if a symbol stays lost.
    fn play(self, mut channel: Channel) -> Result<Option<f64>, Box<dyn Error>> {
        let code = Rlc::new(Field::Gf256, DensityThreshold::FULL);
        let limits = Limits::new(SYMBOLS as u16, 1)?.with_equations(SYMBOLS as u16)?;
        let (mut encoder, mut decoder) = (Encoder::new(limits), Decoder::new(limits));
        let mut payload = vec![0; limits.repair_bytes()];
        // When each source symbol left, and the first of those that are not in order yet.
        let (mut left, mut delivered, mut delay) = (Vec::new(), 0, 0);
        let (mut slot, mut key) = (0_u64, 0);
        let ends = (SYMBOLS..)
            .step_by(self.block() as usize)
            .take(self.overlap as usize);
        let blocks = (1..SYMBOLS.div_ceil(self.block())).map(|block| block * self.block());
        for end in blocks.chain(ends) {
            while encoder.next_id() < end.min(SYMBOLS) {
                let id = encoder.push(&[0])?;
                left.push(slot);
                slot += 1;
                if channel.arrives() {
                    decoder.source(id, &[0])?;
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
                let len = encoder.repair(&code, id, &mut payload)?;
                (slot, key) = (slot + 1, key + 1);
                if channel.arrives() {
                    decoder.repair(&code, id, &payload[..len])?;
                }
            }
            while decoder.next_recovered().is_some() {}
            in_order(&mut decoder, &left, slot, &mut delivered, &mut delay);
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

/// The mean delay over all experiments, or `None` if one of them fails.
fn all(setup: Setup, losses: Losses, experiments: u64) -> Result<Option<f64>, Box<dyn Error>> {
    let mut sum = 0.0;
    for seed in 0..experiments {
        let Some(delay) = setup.play(Channel::new(losses, seed))? else {
            return Ok(None);
        };
        sum += delay;
    }
    Ok(Some(sum / experiments as f64))
}

fn study(experiments: u64) -> Result<(), Box<dyn Error>> {
    println!(
        "Saturation overhead (repair symbols per generation), and mean delay in time slots:\n"
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
                while high - low > 1 {
                    let repairs = u64::midpoint(low, high);
                    match all(setup(repairs), losses, experiments)? {
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

fn main() -> ExitCode {
    let experiments = args().nth(1).map_or(Ok(100), |arg| arg.parse());
    let Ok(experiments @ 1..) = experiments else {
        eprintln!("how many experiments? A whole number from 1 on");
        return ExitCode::FAILURE;
    };
    match study(experiments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
