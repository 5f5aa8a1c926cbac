//! What a set of equations determines, by plain elimination from scratch with arithmetic of its
//! own: slow, and sharing nothing with the decoder.

use std::collections::BTreeSet;

/// Multiplication modulo x^8 + x^4 + x^3 + x^2 + 1, by long multiplication and division.
fn times(a: u8, b: u8) -> u8 {
    let mut wide: u16 = 0;
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            wide ^= u16::from(a) << bit;
        }
    }
    for bit in (8..16).rev() {
        if wide >> bit & 1 == 1 {
            wide ^= 0x11d << (bit - 8);
        }
    }
    wide as u8
}

fn inverse(a: u8) -> u8 {
    (1..=255).find(|b| times(a, *b) == 1).expect("a is not 0")
}

/// Everything the decoder was told and took.
#[derive(Default)]
pub(crate) struct Oracle {
    received: BTreeSet<u64>,
    equations: Vec<Vec<(u64, u8)>>,
}

impl Oracle {
    pub(crate) fn source(&mut self, id: u64) {
        self.received.insert(id);
    }

    pub(crate) fn repair(&mut self, first: u64, coefficients: &[u8]) {
        let terms = (first..).zip(coefficients.iter().copied());
        self.equations
            .push(terms.filter(|(_, c)| *c != 0).collect());
    }

    /// Every symbol that is determined.
    pub(crate) fn known(&self) -> BTreeSet<u64> {
        let unknown: BTreeSet<u64> = self
            .equations
            .iter()
            .flatten()
            .map(|(id, _)| *id)
            .filter(|id| !self.received.contains(id))
            .collect();
        let columns: Vec<u64> = unknown.into_iter().collect();
        let mut rows: Vec<Vec<u8>> = self
            .equations
            .iter()
            .map(|terms| {
                let coefficient = |id| terms.iter().find(|(i, _)| i == id).map_or(0, |(_, c)| *c);
                columns.iter().map(coefficient).collect()
            })
            .collect();
        let mut rank = 0;
        for column in 0..columns.len() {
            let Some(pivot) = (rank..rows.len()).find(|r| rows[*r][column] != 0) else {
                continue;
            };
            rows.swap(rank, pivot);
            let scale = inverse(rows[rank][column]);
            rows[rank].iter_mut().for_each(|c| *c = times(*c, scale));
            let pivot = rows[rank].clone();
            for (r, row) in rows.iter_mut().enumerate() {
                let c = row[column];
                if r != rank && c != 0 {
                    row.iter_mut()
                        .zip(&pivot)
                        .for_each(|(a, b)| *a ^= times(c, *b));
                }
            }
            rank += 1;
        }
        let mut known = self.received.clone();
        for row in &rows[..rank] {
            let mut terms = row.iter().zip(&columns).filter(|(c, _)| **c != 0);
            if let (Some((_, id)), None) = (terms.next(), terms.next()) {
                known.insert(*id);
            }
        }
        known
    }
}
