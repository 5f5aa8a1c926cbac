//! Equations in missing symbols, in reduced echelon form.
//!
//! Owns: [`System`]. Does not own: which symbol a column stands for, beyond where the oldest
//! stands (`origin`; columns go up from there and around); what is known.
//!
//! Invariants: each equation has a pivot, the oldest missing symbol in it, with coefficient 1; no
//! other equation has a coefficient there. So equations are independent, there are at most as
//! many as missing symbols, and the oldest missing symbol of all stands in one at most.

use crate::{gf256, symbol::Buffer};

/// Coefficients counted at a time: so few that a byte holds their number, with which compilers count
/// a vector at once. With short symbols all else is little beside it.
const COUNTED: usize = 192;

/// One equation: the sum of `coefficients` times missing symbols is `data`.
#[derive(Debug)]
struct Equation {
    /// By column; the whole width of the window.
    coefficients: Vec<u8>,
    data: Buffer,
    pivot: usize,
    /// Coefficients that are not zero.
    weight: usize,
}

impl Equation {
    fn at(&self, column: usize) -> u8 {
        self.coefficients.get(column).copied().unwrap_or_default()
    }

    fn count_weight(&mut self) {
        let one = |count: u8, c: &u8| count.wrapping_add(u8::from(*c != 0));
        let parts = self.coefficients.chunks(COUNTED);
        self.weight = parts
            .map(|part| usize::from(part.iter().fold(0, one)))
            .sum();
    }

    /// Adds `c` times another equation and returns the byte operations that took.
    fn add(&mut self, other: &Self, c: u8) -> usize {
        gf256::mul_add(&mut self.coefficients, &other.coefficients, c);
        self.count_weight();
        add(&mut self.data, &other.data, c)
    }

    /// Divides by the coefficient of the pivot; as [`Self::add`].
    fn normalise(&mut self) -> usize {
        let c = self.at(self.pivot);
        if c == 1 {
            return 0;
        }
        let inverse = gf256::inv(c);
        gf256::mul_assign(&mut self.coefficients, inverse);
        let data = self.data.sum(0);
        gf256::mul_assign(data, inverse);
        data.len()
    }
}

/// Adds `c` times `src` and returns the byte operations that took.
fn add(dst: &mut Buffer, src: &Buffer, c: u8) -> usize {
    gf256::mul_add(dst.sum(src.len()), src.padded(), c);
    src.padded().len()
}

/// The oldest column with a coefficient.
fn oldest(row: &[u8], origin: usize) -> Option<usize> {
    let (wrapped, ahead) = row.split_at_checked(origin)?;
    let first = |part: &[u8]| part.iter().position(|c| *c != 0);
    first(ahead).map(|i| i + origin).or_else(|| first(wrapped))
}

/// The equations of a decoder.
#[derive(Debug)]
pub(super) struct System {
    equations: Vec<Equation>,
    /// By column: the equation whose pivot stands there.
    pivots: Vec<Option<u16>>,
    /// Of the equation being added: what it takes of others, and its own pivot.
    taken: Vec<(u16, u8)>,
    pivot: usize,
    /// Coefficients to use again.
    spare: Vec<Vec<u8>>,
    byte_operations: u64,
}

impl System {
    pub(super) fn new(width: usize) -> Self {
        Self {
            equations: Vec::new(),
            pivots: vec![None; width],
            taken: Vec::new(),
            pivot: 0,
            spare: Vec::new(),
            byte_operations: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.equations.len()
    }

    pub(super) fn byte_operations(&self) -> u64 {
        self.byte_operations
    }

    /// Takes from `row` what the equations already say. If something is left, which it tells, the
    /// row has a pivot of its own and is to be given to [`Self::insert`].
    pub(super) fn reduce(&mut self, row: &mut [u8], origin: usize) -> bool {
        self.taken.clear();
        // Pivots stand in no other equation: what one takes away changes no other's share.
        for (equation, index) in self.equations.iter().zip(0..) {
            let c = row.get(equation.pivot).copied().unwrap_or_default();
            if c != 0 {
                gf256::mul_add(row, &equation.coefficients, c);
                self.taken.push((index, c));
            }
        }
        let pivot = oldest(row, origin);
        self.pivot = pivot.unwrap_or_default();
        pivot.is_some()
    }

    /// Adds the equation that [`Self::reduce`] was just called for: `data` is its right side, from
    /// which `known` symbols times their coefficients are still to be subtracted.
    pub(super) fn insert<'a>(
        &mut self,
        row: &[u8],
        mut data: Buffer,
        known: impl Iterator<Item = (&'a Buffer, u8)>,
    ) {
        self.byte_operations += add_all(&mut data, known) as u64;
        let equations = &self.equations;
        let others = self.taken.iter().filter_map(|(index, c)| {
            let equation = equations.get(usize::from(*index))?;
            Some((&equation.data, *c))
        });
        self.byte_operations += add_all(&mut data, others) as u64;

        let mut coefficients = self.spare.pop().unwrap_or_default();
        coefficients.clear();
        coefficients.extend_from_slice(row);
        let mut equation = Equation {
            coefficients,
            data,
            pivot: self.pivot,
            weight: 0,
        };
        equation.count_weight();
        self.push(equation);
    }

    /// Learns the symbol of a column. Returns a buffer if an equation has nothing left to say.
    pub(super) fn substitute(
        &mut self,
        column: usize,
        symbol: &Buffer,
        origin: usize,
    ) -> Option<Buffer> {
        for equation in &mut self.equations {
            let c = equation.at(column);
            if c != 0 {
                self.byte_operations += add(&mut equation.data, symbol, c) as u64;
                if let Some(cell) = equation.coefficients.get_mut(column) {
                    *cell = 0;
                    equation.weight -= 1;
                }
            }
        }
        // An equation that has lost its pivot needs another, or is empty; its right side should
        // then be zero, but a symbol that is known anyway is not worth an error.
        let mut equation = self.remove(column)?;
        match oldest(&equation.coefficients, origin) {
            Some(pivot) => {
                equation.pivot = pivot;
                self.push(equation);
                None
            }
            None => Some(self.recycle(equation)),
        }
    }

    /// Takes an equation with a single symbol out: its column, and the symbol.
    pub(super) fn take_solved(&mut self) -> Option<(usize, Buffer)> {
        let solved = self.equations.iter().find(|e| e.weight == 1)?.pivot;
        let equation = self.remove(solved)?;
        Some((solved, self.recycle(equation)))
    }

    /// Forgets the symbol of a column, which must be the oldest that is missing, with the equation
    /// that says anything about it, whose buffer it returns.
    pub(super) fn forget(&mut self, column: usize) -> Option<Buffer> {
        let equation = self.remove(column)?;
        debug_assert!(self.equations.iter().all(|e| e.at(column) == 0));
        Some(self.recycle(equation))
    }

    /// Drops the equation of the oldest missing symbol.
    pub(super) fn drop_oldest(&mut self, origin: usize) -> Option<Buffer> {
        // The width is a power of two.
        let mask = self.pivots.len() - 1;
        let age = |e: &&Equation| e.pivot.wrapping_sub(origin) & mask;
        let pivot = self.equations.iter().min_by_key(age)?.pivot;
        let equation = self.remove(pivot)?;
        Some(self.recycle(equation))
    }

    /// Adds an equation whose pivot is set and which has no other equation's pivot.
    fn push(&mut self, mut equation: Equation) {
        let mut operations = equation.normalise();
        for other in &mut self.equations {
            let c = other.at(equation.pivot);
            if c != 0 {
                operations += other.add(&equation, c);
            }
        }
        self.byte_operations += operations as u64;
        self.point_at(equation.pivot, self.equations.len());
        self.equations.push(equation);
    }

    /// Removes the equation whose pivot stands at `column`.
    fn remove(&mut self, column: usize) -> Option<Equation> {
        let index = usize::from(self.pivots.get_mut(column)?.take()?);
        let equation = self.equations.swap_remove(index);
        if let Some(pivot) = self.equations.get(index).map(|moved| moved.pivot) {
            self.point_at(pivot, index);
        }
        Some(equation)
    }

    /// Equations are at most as many as columns, which 16 bits count.
    fn point_at(&mut self, column: usize, index: usize) {
        if let Some(pivot) = self.pivots.get_mut(column) {
            *pivot = u16::try_from(index).ok();
        }
    }

    fn recycle(&mut self, equation: Equation) -> Buffer {
        self.spare.push(equation.coefficients);
        equation.data
    }
}

/// Adds all terms and returns the byte operations that took.
fn add_all<'a>(dst: &mut Buffer, mut terms: impl Iterator<Item = (&'a Buffer, u8)>) -> usize {
    const GATHERED: usize = 64;
    let mut operations = 0;
    loop {
        let mut srcs: [&[u8]; GATHERED] = [&[]; GATHERED];
        let mut coefficients = [0; GATHERED];
        let (mut count, mut len) = (0, 0);
        let places = srcs.iter_mut().zip(coefficients.iter_mut());
        for ((src, coefficient), (term, c)) in places.zip(terms.by_ref()) {
            (*src, *coefficient) = (term.padded(), c);
            operations += term.padded().len();
            len = len.max(term.len());
            count += 1;
        }
        let (Some(srcs), Some(coefficients)) = (srcs.get(..count), coefficients.get(..count))
        else {
            return operations;
        };
        if srcs.is_empty() {
            return operations;
        }
        gf256::mul_add_many(dst.sum(len), srcs, coefficients);
    }
}
