//! Whole blocks of equally long slices, encoded and rebuilt in one call.

use core::fmt;

use super::{MAX_SYMBOLS, coefficient};
use crate::gf256;

/// Why a block cannot be encoded or rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockError {
    /// No source symbols, or more than 256 symbols together.
    Size {
        /// Source symbols.
        sources: usize,
        /// Repair symbols.
        repairs: usize,
    },
    /// Symbols are not all of the same length.
    Lengths,
    /// Fewer repair symbols arrived than source symbols are missing.
    TooFew {
        /// Source symbols missing.
        missing: usize,
        /// Repair symbols there.
        repairs: usize,
    },
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { sources, repairs } => write!(
                f,
                "block of {sources} source and {repairs} repair symbols; 1 to 256 together"
            ),
            Self::Lengths => write!(f, "symbols of a block differ in length"),
            Self::TooFew { missing, repairs } => {
                write!(
                    f,
                    "{missing} source symbols missing, {repairs} repair symbols there"
                )
            }
        }
    }
}

impl core::error::Error for BlockError {}

fn check_size(sources: usize, repairs: usize) -> Result<(), BlockError> {
    if sources == 0 || sources.saturating_add(repairs) > MAX_SYMBOLS {
        return Err(BlockError::Size { sources, repairs });
    }
    Ok(())
}

/// Coefficients of some source symbols (columns) in some repair symbols (rows), row by row.
/// Both are below 256 by the check above.
fn matrix(rows: &[usize], columns: &[usize]) -> Vec<u8> {
    let cell = |j: &usize, i: &usize| coefficient(*i as u8, *j as u8);
    rows.iter()
        .flat_map(|j| columns.iter().map(move |i| cell(j, i)))
        .collect()
}

/// Overwrites `repairs` with the repair symbols of the block.
///
/// Shape: up to 256 slices together, all of one length.
///
/// # Errors
/// [`BlockError::Size`], [`BlockError::Lengths`]; nothing is then written.
pub fn encode(sources: &[&[u8]], repairs: &mut [&mut [u8]]) -> Result<(), BlockError> {
    check_size(sources.len(), repairs.len())?;
    let len = sources.first().map_or(0, |source| source.len());
    if sources.iter().any(|source| source.len() != len)
        || repairs.iter().any(|repair| repair.len() != len)
    {
        return Err(BlockError::Lengths);
    }
    let rows: Vec<usize> = (0..repairs.len()).collect();
    let columns: Vec<usize> = (0..sources.len()).collect();
    for repair in repairs.iter_mut() {
        repair.fill(0);
    }
    gf256::mul_add_matrix(repairs, sources, &matrix(&rows, &columns));
    Ok(())
}

/// Fills the missing source symbols in.
///
/// Shape: `sources[i]` is `None` where symbol `i` is missing; `repairs` are pairs of a repair
/// symbol's index and its bytes, in any order; all of one length. Repair symbols beyond those
/// needed are not read.
///
/// # Errors
/// [`BlockError`]; `sources` is then unchanged. An index that stands twice counts once.
pub fn reconstruct(
    sources: &mut [Option<Vec<u8>>],
    repairs: &[(u8, &[u8])],
) -> Result<(), BlockError> {
    let mut rows: Vec<(usize, &[u8])> = Vec::with_capacity(repairs.len());
    for (index, bytes) in repairs {
        let index = usize::from(*index);
        check_size(sources.len(), index + 1)?;
        if rows.iter().all(|(seen, _)| *seen != index) {
            rows.push((index, bytes));
        }
    }
    check_size(sources.len(), 0)?;
    let (known, missing): (Vec<usize>, Vec<usize>) =
        (0..sources.len()).partition(|i| sources.get(*i).is_some_and(Option::is_some));
    if missing.len() > rows.len() {
        return Err(BlockError::TooFew {
            missing: missing.len(),
            repairs: rows.len(),
        });
    }
    rows.truncate(missing.len());
    let known_symbols: Vec<&[u8]> = sources.iter().flatten().map(Vec::as_slice).collect();
    let mut lengths = known_symbols
        .iter()
        .chain(rows.iter().map(|(_, bytes)| bytes))
        .map(|bytes| bytes.len());
    let len = lengths.next().unwrap_or_default();
    if lengths.any(|other| other != len) {
        return Err(BlockError::Lengths);
    }

    // Repair symbols less what is known of them: right sides of a system in what is missing.
    let indices: Vec<usize> = rows.iter().map(|(index, _)| *index).collect();
    let mut sides: Vec<Vec<u8>> = rows.iter().map(|(_, bytes)| bytes.to_vec()).collect();
    let mut slices: Vec<&mut [u8]> = sides.iter_mut().map(Vec::as_mut_slice).collect();
    gf256::mul_add_matrix(&mut slices, &known_symbols, &matrix(&indices, &known));

    let inverse = invert(matrix(&indices, &missing), missing.len());
    let sides: Vec<&[u8]> = sides.iter().map(Vec::as_slice).collect();
    let mut rebuilt = vec![vec![0; len]; missing.len()];
    let mut slices: Vec<&mut [u8]> = rebuilt.iter_mut().map(Vec::as_mut_slice).collect();
    gf256::mul_add_matrix(&mut slices, &sides, &inverse);
    for (i, symbol) in missing.into_iter().zip(rebuilt) {
        if let Some(source) = sources.get_mut(i) {
            *source = Some(symbol);
        }
    }
    Ok(())
}

/// The inverse of an `n` by `n` matrix that has one, by Gauss and Jordan. Every square part of
/// the code's matrix has one.
fn invert(matrix: Vec<u8>, n: usize) -> Vec<u8> {
    // Each row with its row of the identity behind it.
    let mut rows: Vec<Vec<u8>> = Vec::with_capacity(n);
    for (j, row) in matrix.chunks(n.max(1)).enumerate() {
        let mut wide = row.to_vec();
        wide.extend((0..n).map(|i| u8::from(i == j)));
        rows.push(wide);
    }
    let at = |row: &[u8], i: usize| row.get(i).copied().unwrap_or_default();
    for i in 0..n {
        let Some(pivot) = (i..n).find(|j| rows.get(*j).is_some_and(|row| at(row, i) != 0)) else {
            continue;
        };
        rows.swap(i, pivot);
        let (above, rest) = rows.split_at_mut(i);
        let Some((row, below)) = rest.split_first_mut() else {
            continue;
        };
        let scale = gf256::inv(at(row, i));
        gf256::mul_assign(row, scale);
        for other in above.iter_mut().chain(below) {
            let c = at(other, i);
            gf256::mul_add(other, row, c);
        }
    }
    let halves = rows.iter().filter_map(|row| row.get(n..));
    halves.flatten().copied().collect()
}
