//! `reed-solomon-erasure`, with its feature `simd-accel`. The code is made once; it remembers the
//! matrices that it has inverted, so that a pattern of losses costs an inversion the first time
//! only.

use std::hint::black_box;

use anyhow::{Context, Result};
use reed_solomon_erasure::galois_8::ReedSolomon;

use crate::subject::{SYMBOL, Subject, Symbols};

fn code(symbols: &Symbols) -> Result<ReedSolomon> {
    ReedSolomon::new(symbols.count(), symbols.repairs).context("no such code")
}

pub(crate) fn encode(symbols: &Symbols, _: Vec<Vec<u8>>) -> Result<Box<dyn Subject>> {
    Ok(Box::new(Encode {
        code: code(symbols)?,
        symbols: symbols.clone(),
        repairs: vec![vec![0; SYMBOL]; symbols.repairs],
    }))
}

struct Encode {
    code: ReedSolomon,
    symbols: Symbols,
    repairs: Vec<Vec<u8>>,
}

impl Subject for Encode {
    fn work(&mut self) -> Result<()> {
        self.code
            .encode_sep(black_box(&self.symbols.sources), &mut self.repairs)?;
        black_box(&self.repairs);
        Ok(())
    }

    fn output(&mut self) -> Result<Vec<Vec<u8>>> {
        Ok(self.repairs.clone())
    }
}

/// For any number of losses: it takes all symbols where they lie.
pub(crate) fn decode(symbols: &Symbols, repairs: Vec<Vec<u8>>) -> Result<Box<dyn Subject>> {
    let all = symbols.sources.iter().cloned().chain(repairs);
    Ok(Box::new(Decode {
        code: code(symbols)?,
        symbols: symbols.clone(),
        shards: all.map(Some).collect(),
    }))
}

struct Decode {
    code: ReedSolomon,
    symbols: Symbols,
    shards: Vec<Option<Vec<u8>>>,
}

impl Subject for Decode {
    fn prepare(&mut self) -> Result<()> {
        for i in &self.symbols.lost {
            self.shards[*i] = None;
        }
        Ok(())
    }

    fn work(&mut self) -> Result<()> {
        self.code.reconstruct_data(black_box(&mut self.shards))?;
        Ok(())
    }

    fn output(&mut self) -> Result<Vec<Vec<u8>>> {
        let lost = self.symbols.lost.iter();
        let all: Option<Vec<_>> = lost.map(|i| self.shards[*i].clone()).collect();
        all.context("not everything was rebuilt")
    }
}
