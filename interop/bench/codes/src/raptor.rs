//! `raptorq`. The plan of operations is made once and used again. An encoder belongs to a block's
//! bytes, so that making it is the work; a decoder is made beforehand and takes packets as they
//! come, copied beforehand, as it wants to own them.

use std::hint::black_box;

use anyhow::{Context, Result};
use raptorq::{
    EncodingPacket, ObjectTransmissionInformation, PayloadId, SourceBlockDecoder,
    SourceBlockEncoder, SourceBlockEncodingPlan,
};

use crate::subject::{SYMBOL, Subject, Symbols};

fn config(symbols: &Symbols) -> ObjectTransmissionInformation {
    let bytes = symbols.count() * SYMBOL;
    ObjectTransmissionInformation::new(bytes as u64, SYMBOL as u16, 1, 1, 1)
}

pub(crate) fn encode(symbols: &Symbols, _: Vec<Vec<u8>>) -> Result<Box<dyn Subject>> {
    Ok(Box::new(Encode {
        config: config(symbols),
        plan: SourceBlockEncodingPlan::generate(u16::try_from(symbols.count())?),
        data: symbols.concatenated(),
        repairs: u32::try_from(symbols.repairs)?,
        packets: Vec::new(),
    }))
}

struct Encode {
    config: ObjectTransmissionInformation,
    plan: SourceBlockEncodingPlan,
    data: Vec<u8>,
    repairs: u32,
    packets: Vec<EncodingPacket>,
}

impl Subject for Encode {
    fn work(&mut self) -> Result<()> {
        let data = black_box(&self.data);
        let encoder = SourceBlockEncoder::with_encoding_plan(0, &self.config, data, &self.plan);
        self.packets = encoder.repair_packets(0, self.repairs);
        Ok(())
    }

    fn output(&mut self) -> Result<Vec<Vec<u8>>> {
        let packets = self.packets.iter();
        Ok(packets.map(|packet| packet.data().to_vec()).collect())
    }
}

pub(crate) fn decode(symbols: &Symbols, repairs: Vec<Vec<u8>>) -> Result<Box<dyn Subject>> {
    make(symbols, repairs, false)
}

pub(crate) fn last(symbols: &Symbols, repairs: Vec<Vec<u8>>) -> Result<Box<dyn Subject>> {
    make(symbols, repairs, true)
}

fn make(symbols: &Symbols, repairs: Vec<Vec<u8>>, last: bool) -> Result<Box<dyn Subject>> {
    let packet = |(i, data): (usize, &Vec<u8>)| {
        EncodingPacket::new(PayloadId::new(0, i as u32), data.clone())
    };
    let repairs = (symbols.count()..).zip(&repairs);
    Ok(Box::new(Decode {
        config: config(symbols),
        sources: symbols.received().map(packet).collect(),
        repairs: repairs.map(packet).collect(),
        symbols: symbols.clone(),
        last,
        decoder: None,
        given: Vec::new(),
        data: Vec::new(),
    }))
}

struct Decode {
    config: ObjectTransmissionInformation,
    sources: Vec<EncodingPacket>,
    repairs: Vec<EncodingPacket>,
    symbols: Symbols,
    /// Whether the source symbols arrive before the work.
    last: bool,
    decoder: Option<SourceBlockDecoder>,
    /// What arrives during the work.
    given: Vec<EncodingPacket>,
    data: Vec<u8>,
}

impl Subject for Decode {
    fn prepare(&mut self) -> Result<()> {
        let bytes = (self.symbols.count() * SYMBOL) as u64;
        let mut decoder = SourceBlockDecoder::new(0, &self.config, bytes);
        self.given.clone_from(&self.repairs);
        if self.last {
            decoder.decode(self.sources.clone());
        } else {
            self.given.extend_from_slice(&self.sources);
        }
        self.decoder = Some(decoder);
        Ok(())
    }

    fn work(&mut self) -> Result<()> {
        let decoder = self.decoder.as_mut().context("not prepared")?;
        let decoded = decoder.decode(black_box(self.given.drain(..)));
        self.data = decoded.context("this many symbols do not suffice")?;
        Ok(())
    }

    fn output(&mut self) -> Result<Vec<Vec<u8>>> {
        let symbol = |i: &usize| self.data[i * SYMBOL..(i + 1) * SYMBOL].to_vec();
        Ok(self.symbols.lost.iter().map(symbol).collect())
    }
}
