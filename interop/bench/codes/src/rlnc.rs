//! `rlnc`, without its feature `parallel`. It takes the bytes of a block over without a copy, so
//! that its encoder is made once and making pieces is all the work. A decoder is made beforehand.
//! It knows only coded pieces; source symbols are given to it as pieces with one coefficient that
//! is 1, which is less work for it than pieces of many.

use std::hint::black_box;

use ::rlnc::full::{Decoder, Encoder};
use anyhow::{Context, Result, ensure};
use rand::{SeedableRng, rngs::SmallRng};

use crate::subject::{BLOCK_END, SYMBOL, Subject, Symbols};

pub(crate) fn encode(symbols: &Symbols, _: Vec<Vec<u8>>) -> Result<Box<dyn Subject>> {
    let mut data = symbols.concatenated();
    // The encoder marks the block's end with a byte, which is the one that was there.
    ensure!(data.pop() == Some(BLOCK_END), "symbols end in another byte");
    let encoder = Encoder::new(data, symbols.count())?;
    ensure!(encoder.get_piece_byte_len() == SYMBOL, "pieces are longer");
    Ok(Box::new(Encode {
        pieces: vec![vec![0; encoder.get_full_coded_piece_byte_len()]; symbols.repairs],
        encoder,
        random: SmallRng::seed_from_u64(1),
    }))
}

struct Encode {
    encoder: Encoder,
    random: SmallRng,
    pieces: Vec<Vec<u8>>,
}

impl Subject for Encode {
    fn work(&mut self) -> Result<()> {
        for piece in &mut self.pieces {
            self.encoder.code_with_buf(&mut self.random, piece)?;
        }
        black_box(&self.pieces);
        Ok(())
    }

    fn output(&mut self) -> Result<Vec<Vec<u8>>> {
        Ok(self.pieces.clone())
    }
}

pub(crate) fn decode(symbols: &Symbols, pieces: Vec<Vec<u8>>) -> Result<Box<dyn Subject>> {
    make(symbols, pieces, false)
}

pub(crate) fn last(symbols: &Symbols, pieces: Vec<Vec<u8>>) -> Result<Box<dyn Subject>> {
    make(symbols, pieces, true)
}

fn make(symbols: &Symbols, pieces: Vec<Vec<u8>>, last: bool) -> Result<Box<dyn Subject>> {
    let count = symbols.count();
    let plain = |(i, source): (usize, &Vec<u8>)| {
        let mut piece = vec![0; count];
        piece[i] = 1;
        piece.extend_from_slice(source);
        piece
    };
    Ok(Box::new(Decode {
        sources: symbols.received().map(plain).collect(),
        pieces,
        symbols: symbols.clone(),
        last,
        decoder: None,
        data: Vec::new(),
    }))
}

struct Decode {
    sources: Vec<Vec<u8>>,
    pieces: Vec<Vec<u8>>,
    symbols: Symbols,
    /// Whether the source symbols arrive before the work.
    last: bool,
    decoder: Option<Decoder>,
    data: Vec<u8>,
}

impl Subject for Decode {
    fn prepare(&mut self) -> Result<()> {
        let mut decoder = Decoder::new(SYMBOL, self.symbols.count())?;
        if self.last {
            for source in &self.sources {
                decoder.decode(source)?;
            }
        }
        self.decoder = Some(decoder);
        Ok(())
    }

    fn work(&mut self) -> Result<()> {
        let mut decoder = self.decoder.take().context("not prepared")?;
        if !self.last {
            for source in &self.sources {
                decoder.decode(black_box(source))?;
            }
        }
        for piece in &self.pieces {
            decoder.decode(black_box(piece))?;
        }
        self.data = decoder.get_decoded_data()?;
        Ok(())
    }

    fn output(&mut self) -> Result<Vec<Vec<u8>>> {
        // The decoder has taken the block's last byte for its mark, and away.
        let mut data = self.data.clone();
        data.push(BLOCK_END);
        let symbol = |i: &usize| data[i * SYMBOL..(i + 1) * SYMBOL].to_vec();
        Ok(self.symbols.lost.iter().map(symbol).collect())
    }
}
