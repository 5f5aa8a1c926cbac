//! `tautline-codes`.

use std::hint::black_box;

use anyhow::{Context, Result};
use tautline_codes::{
    CodingWindow, Decoder, Encoder, ErasureCode, Limits, RepairId, gf256,
    reed_solomon::{self, ReedSolomon},
    rlc::Rlc,
};

use crate::subject::{SYMBOL, Subject, Symbols};

type Made = Result<Box<dyn Subject>>;

fn limits(symbols: &Symbols) -> Result<Limits> {
    Ok(Limits::new(
        u16::try_from(symbols.count())?,
        u16::try_from(SYMBOL)?,
    )?)
}

pub(crate) fn encode_rlc(symbols: &Symbols, _: Vec<Vec<u8>>) -> Made {
    encode(Rlc::DENSE, symbols, true)
}

pub(crate) fn encode_rs(symbols: &Symbols, _: Vec<Vec<u8>>) -> Made {
    encode(ReedSolomon, symbols, true)
}

pub(crate) fn sum_rlc(symbols: &Symbols, _: Vec<Vec<u8>>) -> Made {
    encode(Rlc::DENSE, symbols, false)
}

pub(crate) fn sum_rs(symbols: &Symbols, _: Vec<Vec<u8>>) -> Made {
    encode(ReedSolomon, symbols, false)
}

fn encode<C: ErasureCode + 'static>(code: C, symbols: &Symbols, push: bool) -> Made {
    let mut encoder = Encoder::new(limits(symbols)?);
    for source in &symbols.sources {
        encoder.push(source)?;
    }
    Ok(Box::new(Encode {
        code,
        symbols: symbols.clone(),
        encoder,
        push,
        // Two bytes carry the length.
        repairs: vec![vec![0; SYMBOL + 2]; symbols.repairs],
    }))
}

/// Source symbols go into an encoder, repair symbols over all of them come out.
struct Encode<C> {
    code: C,
    symbols: Symbols,
    encoder: Encoder,
    /// Whether taking the symbols in is part of the work; they are held anyway.
    push: bool,
    repairs: Vec<Vec<u8>>,
}

impl<C: ErasureCode> Subject for Encode<C> {
    fn work(&mut self) -> Result<()> {
        if self.push {
            for source in &self.symbols.sources {
                self.encoder.push(black_box(source))?;
            }
        }
        let mut outs: Vec<&mut [u8]> = self.repairs.iter_mut().map(Vec::as_mut_slice).collect();
        let window = self.encoder.window();
        let first = RepairId { window, key: 0 };
        self.encoder.repairs(&self.code, first, &mut outs)?;
        black_box(outs);
        Ok(())
    }

    fn output(&mut self) -> Result<Vec<Vec<u8>>> {
        Ok(self.repairs.clone())
    }
}

pub(crate) fn decode_rlc(symbols: &Symbols, repairs: Vec<Vec<u8>>) -> Made {
    decode(Rlc::DENSE, symbols, repairs, false)
}

pub(crate) fn decode_rs(symbols: &Symbols, repairs: Vec<Vec<u8>>) -> Made {
    decode(ReedSolomon, symbols, repairs, false)
}

pub(crate) fn last_rlc(symbols: &Symbols, repairs: Vec<Vec<u8>>) -> Made {
    decode(Rlc::DENSE, symbols, repairs, true)
}

pub(crate) fn last_rs(symbols: &Symbols, repairs: Vec<Vec<u8>>) -> Made {
    decode(ReedSolomon, symbols, repairs, true)
}

fn decode<C: ErasureCode + 'static>(
    code: C,
    symbols: &Symbols,
    repairs: Vec<Vec<u8>>,
    last: bool,
) -> Made {
    Ok(Box::new(Decode {
        code,
        symbols: symbols.clone(),
        decoder: Decoder::new(limits(symbols)?),
        window: CodingWindow::block(0, u16::try_from(symbols.count())?),
        repairs,
        last,
    }))
}

/// Block after block at one decoder. The bytes stay the same, as neither code's coefficients
/// depend on where a block begins.
struct Decode<C> {
    code: C,
    symbols: Symbols,
    decoder: Decoder,
    window: CodingWindow,
    repairs: Vec<Vec<u8>>,
    /// Whether the source symbols arrive before the work.
    last: bool,
}

impl<C> Decode<C> {
    fn receive(&mut self) -> Result<()> {
        for (i, source) in self.symbols.received() {
            self.decoder.source(self.window.first + i as u64, source)?;
        }
        Ok(())
    }
}

impl<C: ErasureCode> Subject for Decode<C> {
    fn prepare(&mut self) -> Result<()> {
        self.window.first = self.window.end();
        if self.last {
            self.receive()?;
        }
        Ok(())
    }

    fn work(&mut self) -> Result<()> {
        if !self.last {
            self.receive()?;
        }
        for (key, repair) in (0..).zip(&self.repairs) {
            let window = self.window;
            let id = RepairId { window, key };
            self.decoder.repair(&self.code, id, black_box(repair))?;
        }
        while let Some(rebuilt) = self.decoder.next_recovered() {
            black_box(rebuilt);
        }
        Ok(())
    }

    fn output(&mut self) -> Result<Vec<Vec<u8>>> {
        let ids = self.symbols.lost.iter();
        let symbols = ids.map(|i| self.decoder.symbol(self.window.first + *i as u64));
        let all: Option<Vec<_>> = symbols.map(|symbol| Some(symbol?.to_vec())).collect();
        all.context("not everything was rebuilt")
    }
}

pub(crate) fn encode_block(symbols: &Symbols, _: Vec<Vec<u8>>) -> Made {
    Ok(Box::new(EncodeBlock {
        symbols: symbols.clone(),
        repairs: vec![vec![0; SYMBOL]; symbols.repairs],
    }))
}

/// Slices in, slices out.
struct EncodeBlock {
    symbols: Symbols,
    repairs: Vec<Vec<u8>>,
}

impl Subject for EncodeBlock {
    fn work(&mut self) -> Result<()> {
        let mut outs: Vec<&mut [u8]> = self.repairs.iter_mut().map(Vec::as_mut_slice).collect();
        reed_solomon::encode(black_box(&self.symbols.slices()), &mut outs)?;
        black_box(outs);
        Ok(())
    }

    fn output(&mut self) -> Result<Vec<Vec<u8>>> {
        Ok(self.repairs.clone())
    }
}

pub(crate) fn decode_block(symbols: &Symbols, repairs: Vec<Vec<u8>>) -> Made {
    Ok(Box::new(DecodeBlock {
        symbols: symbols.clone(),
        sources: symbols.sources.iter().cloned().map(Some).collect(),
        repairs,
    }))
}

struct DecodeBlock {
    symbols: Symbols,
    sources: Vec<Option<Vec<u8>>>,
    repairs: Vec<Vec<u8>>,
}

impl Subject for DecodeBlock {
    fn prepare(&mut self) -> Result<()> {
        for i in &self.symbols.lost {
            self.sources[*i] = None;
        }
        Ok(())
    }

    fn work(&mut self) -> Result<()> {
        let slices = self.repairs.iter().map(Vec::as_slice);
        let repairs: Vec<(u8, &[u8])> = (0..).zip(slices).collect();
        reed_solomon::reconstruct(black_box(&mut self.sources), &repairs)?;
        Ok(())
    }

    fn output(&mut self) -> Result<Vec<Vec<u8>>> {
        let lost = self.symbols.lost.iter();
        let all: Option<Vec<_>> = lost.map(|i| self.sources[*i].clone()).collect();
        all.context("not everything was rebuilt")
    }
}

/// What a sum costs without any product: the parity symbol of all.
pub(crate) fn parity(symbols: &Symbols, _: Vec<Vec<u8>>) -> Made {
    Ok(Box::new(Sum {
        symbols: symbols.sources.clone(),
        sum: vec![0; SYMBOL],
    }))
}

/// The same over what arrived and the parity symbol, which gives what is missing.
pub(crate) fn exclusive_or(symbols: &Symbols, repairs: Vec<Vec<u8>>) -> Made {
    let arrived = symbols.received().map(|(_, source)| source.clone());
    Ok(Box::new(Sum {
        symbols: repairs.into_iter().chain(arrived).collect(),
        sum: vec![0; SYMBOL],
    }))
}

/// The exclusive or of all symbols, by the kernel that our codes use.
struct Sum {
    symbols: Vec<Vec<u8>>,
    sum: Vec<u8>,
}

impl Subject for Sum {
    fn work(&mut self) -> Result<()> {
        let slices: Vec<&[u8]> = self.symbols.iter().map(Vec::as_slice).collect();
        let (first, others) = slices.split_first().context("no symbols")?;
        self.sum.copy_from_slice(first);
        let ones = [1; 128];
        gf256::mul_add_many(black_box(&mut self.sum), others, &ones[..others.len()]);
        Ok(())
    }

    fn output(&mut self) -> Result<Vec<Vec<u8>>> {
        Ok(vec![self.sum.clone()])
    }
}
