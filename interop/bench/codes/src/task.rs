//! The tasks, and who takes part.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::{
    erasure, ours, raptor, rlnc, simd,
    subject::{Subject, Symbols},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Task {
    /// All 8 repair symbols of 32 source symbols, from the bytes.
    Encode,
    /// 8 losses of 32, from the bytes of 24 source symbols and 8 repair symbols.
    Decode,
    /// One loss of 100, when everything but the repair symbol is there.
    One,
}

/// Makes a subject that does the task on these symbols, given the repair symbols (none are for
/// encoding).
type Make = fn(&Symbols, Vec<Vec<u8>>) -> Result<Box<dyn Subject>>;

/// Somebody who takes part.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    task: Task,
    encode: Make,
    /// For encoding, how what was made is checked.
    decode: Make,
}

impl Task {
    pub(crate) const ALL: [Self; 3] = [Self::Encode, Self::Decode, Self::One];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Encode => "encode",
            Self::Decode => "decode",
            Self::One => "one",
        }
    }

    fn symbols(self) -> Symbols {
        match self {
            // The last ones, as `rlnc` cannot use a source symbol behind one that it lacks.
            Self::Encode | Self::Decode => Symbols::new(32, 8),
            Self::One => Symbols::new(100, 1),
        }
    }

    /// Ours first, then the crate that ratios are to, then others.
    pub(crate) fn entries(self) -> Vec<Entry> {
        let entry = |name, encode, decode| Entry {
            name,
            task: self,
            encode,
            decode,
        };
        let mut all = match self {
            Self::Encode => vec![
                entry("ours: rlc", ours::encode_rlc, ours::decode_rlc),
                entry("ours: reed-solomon", ours::encode_rs, ours::decode_rs),
                entry(
                    "ours: reed-solomon, block",
                    ours::encode_block,
                    ours::decode_block,
                ),
                entry("ours: rlc, sums only", ours::sum_rlc, ours::decode_rlc),
                entry(
                    "ours: reed-solomon, sums only",
                    ours::sum_rs,
                    ours::decode_rs,
                ),
            ],
            Self::Decode => vec![
                entry("ours: rlc", ours::encode_rlc, ours::decode_rlc),
                entry("ours: reed-solomon", ours::encode_rs, ours::decode_rs),
                entry(
                    "ours: reed-solomon, block",
                    ours::encode_block,
                    ours::decode_block,
                ),
            ],
            Self::One => vec![
                entry("exclusive or", ours::parity, ours::exclusive_or),
                entry("ours: rlc", ours::encode_rlc, ours::last_rlc),
                entry("ours: reed-solomon", ours::encode_rs, ours::last_rs),
            ],
        };
        let is_one = self == Self::One;
        let pick = |all: Make, last: Make| if is_one { last } else { all };
        all.extend([
            entry(
                "reed-solomon-simd",
                simd::encode,
                pick(simd::decode, simd::last),
            ),
            entry("rlnc", rlnc::encode, pick(rlnc::decode, rlnc::last)),
            entry(
                "raptorq",
                raptor::encode,
                pick(raptor::decode, raptor::last),
            ),
            entry("reed-solomon-erasure", erasure::encode, erasure::decode),
        ]);
        all
    }

    pub(crate) fn entry(self, name: &str) -> Result<Entry> {
        let mut entries = self.entries().into_iter();
        let found = entries.find(|entry| entry.name == name);
        found.with_context(|| format!("nobody of that name: {name}"))
    }
}

impl Entry {
    /// The subject, once it has been seen to do what it should.
    pub(crate) fn verified(&self) -> Result<Box<dyn Subject>> {
        self.try_verified()
            .with_context(|| format!("{} ({})", self.name, self.task.name()))
    }

    fn try_verified(&self) -> Result<Box<dyn Subject>> {
        let symbols = self.task.symbols();
        let mut encoder = (self.encode)(&symbols, Vec::new())?;
        encoder.prepare()?;
        encoder.work()?;
        let repairs = encoder.output()?;
        ensure!(
            repairs.len() == symbols.repairs,
            "{} repair symbols",
            repairs.len()
        );
        let mut decoder = (self.decode)(&symbols, repairs)?;
        // Twice, as what was left behind by one time must not help the next.
        for _ in 0..2 {
            decoder.prepare()?;
            decoder.work()?;
            symbols.check(&decoder.output()?)?;
        }
        Ok(match self.task {
            Task::Encode => encoder,
            Task::Decode | Task::One => decoder,
        })
    }
}
