//! Somebody at a task.

use anyhow::{Result, ensure};

/// One maker's way to do a task, over and over.
pub(crate) trait Subject {
    /// What the interface wants anew before each time, where it lets that be had beforehand. Not
    /// timed.
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// The task, once.
    fn work(&mut self) -> Result<()>;

    /// The symbols that the task is about: repair symbols made, or source symbols rebuilt. Not
    /// timed.
    fn output(&mut self) -> Result<Vec<Vec<u8>>>;
}

/// The symbols of a task.
#[derive(Clone, Debug)]
pub(crate) struct Symbols {
    pub(crate) sources: Vec<Vec<u8>>,
    /// Which of them are lost, when it comes to decoding.
    pub(crate) lost: Vec<usize>,
    /// How many repair symbols there are.
    pub(crate) repairs: usize,
}

/// The last byte of every symbol: what `rlnc` marks a block's end with. So its blocks need no byte
/// more than others', and its pieces are no longer than symbols.
pub(crate) const BLOCK_END: u8 = 0x81;

/// Bytes of a symbol.
pub(crate) const SYMBOL: usize = 1200;

impl Symbols {
    /// The last `lost` of `count` are lost, and as many repair symbols are there.
    pub(crate) fn new(count: usize, lost: usize) -> Self {
        Self {
            sources: (0..count).map(|i| bytes(i as u64)).collect(),
            lost: (count - lost..count).collect(),
            repairs: lost,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.sources.len()
    }

    /// The symbols that arrive, and their numbers.
    pub(crate) fn received(&self) -> impl Iterator<Item = (usize, &Vec<u8>)> {
        let all = self.sources.iter().enumerate();
        all.filter(|(i, _)| !self.lost.contains(i))
    }

    pub(crate) fn slices(&self) -> Vec<&[u8]> {
        self.sources.iter().map(Vec::as_slice).collect()
    }

    /// One source after the other.
    pub(crate) fn concatenated(&self) -> Vec<u8> {
        self.sources.concat()
    }

    /// Whether these are the lost symbols, in order.
    pub(crate) fn check(&self, rebuilt: &[Vec<u8>]) -> Result<()> {
        let lost = self.lost.iter().map(|i| &self.sources[*i]);
        ensure!(
            lost.eq(rebuilt),
            "what was rebuilt is not what was lost ({} symbols of {})",
            rebuilt.len(),
            self.lost.len()
        );
        Ok(())
    }
}

/// A symbol without structure, but for its last byte.
fn bytes(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let mut symbol: Vec<u8> = (0..SYMBOL).map(|_| next()).collect();
    symbol[SYMBOL - 1] = BLOCK_END;
    symbol
}
