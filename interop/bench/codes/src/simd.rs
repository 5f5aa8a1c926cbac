//! `reed-solomon-simd`. Encoder and decoder are made once and used again, as its documentation
//! advises. Taking symbols in is part of either's work, as in its own benchmark: a result uses them
//! up.

use std::hint::black_box;

use anyhow::{Context, Result};
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

use crate::subject::{SYMBOL, Subject, Symbols};

pub(crate) fn encode(symbols: &Symbols, _: Vec<Vec<u8>>) -> Result<Box<dyn Subject>> {
    Ok(Box::new(Encode {
        encoder: ReedSolomonEncoder::new(symbols.count(), symbols.repairs, SYMBOL)?,
        symbols: symbols.clone(),
    }))
}

struct Encode {
    encoder: ReedSolomonEncoder,
    symbols: Symbols,
}

impl Encode {
    fn run(&mut self, mut each: impl FnMut(&[u8])) -> Result<()> {
        for source in &self.symbols.sources {
            self.encoder.add_original_shard(black_box(source))?;
        }
        self.encoder.encode()?.recovery_iter().for_each(&mut each);
        Ok(())
    }
}

impl Subject for Encode {
    fn work(&mut self) -> Result<()> {
        self.run(|repair| {
            black_box(repair);
        })
    }

    fn output(&mut self) -> Result<Vec<Vec<u8>>> {
        let mut repairs = Vec::new();
        self.run(|repair| repairs.push(repair.to_vec()))?;
        Ok(repairs)
    }
}

pub(crate) fn decode(symbols: &Symbols, repairs: Vec<Vec<u8>>) -> Result<Box<dyn Subject>> {
    make(symbols, repairs, false)
}

pub(crate) fn last(symbols: &Symbols, repairs: Vec<Vec<u8>>) -> Result<Box<dyn Subject>> {
    make(symbols, repairs, true)
}

fn make(symbols: &Symbols, repairs: Vec<Vec<u8>>, last: bool) -> Result<Box<dyn Subject>> {
    Ok(Box::new(Decode {
        decoder: ReedSolomonDecoder::new(symbols.count(), symbols.repairs, SYMBOL)?,
        symbols: symbols.clone(),
        repairs,
        last,
    }))
}

struct Decode {
    decoder: ReedSolomonDecoder,
    symbols: Symbols,
    repairs: Vec<Vec<u8>>,
    /// Whether the source symbols arrive before the work.
    last: bool,
}

impl Decode {
    fn receive(&mut self) -> Result<()> {
        for (i, source) in self.symbols.received() {
            self.decoder.add_original_shard(i, black_box(source))?;
        }
        Ok(())
    }

    fn run(&mut self, mut each: impl FnMut((usize, &[u8]))) -> Result<()> {
        if !self.last {
            self.receive()?;
        }
        for (i, repair) in self.repairs.iter().enumerate() {
            self.decoder.add_recovery_shard(i, black_box(repair))?;
        }
        let rebuilt = self.decoder.decode()?;
        rebuilt.restored_original_iter().for_each(&mut each);
        Ok(())
    }
}

impl Subject for Decode {
    fn prepare(&mut self) -> Result<()> {
        if self.last {
            self.receive()?;
        }
        Ok(())
    }

    fn work(&mut self) -> Result<()> {
        self.run(|rebuilt| {
            black_box(rebuilt);
        })
    }

    fn output(&mut self) -> Result<Vec<Vec<u8>>> {
        self.prepare()?;
        let mut rebuilt = Vec::new();
        self.run(|(i, symbol)| rebuilt.push((i, symbol.to_vec())))?;
        let lost = self.symbols.lost.iter();
        let find = |i: &usize| rebuilt.iter().find(|(it, _)| it == i);
        lost.map(|i| Ok(find(i).context("not everything was rebuilt")?.1.clone()))
            .collect()
    }
}
