//! The terms of a sum whose sources may have different lengths.

/// Sources worked on in one go: with symbols of a packet's size they about fit the first-level
/// cache, and more would not save much of the sums' loads and stores.
pub(super) const BATCH: usize = 32;

/// Sources that still have bytes to add, and their coefficients for `N` destinations.
///
/// The kernels work over the bytes that all slices have. Sources of several lengths are served in
/// as many rounds, each without those that have ended.
pub(super) struct Terms<'s, const N: usize> {
    srcs: [&'s [u8]; BATCH],
    factors: [[u8; N]; BATCH],
    len: usize,
}

impl<'s, const N: usize> Terms<'s, N> {
    /// The first [`BATCH`] terms; those without bytes or with zero coefficients only are left out.
    pub(super) fn new(terms: impl Iterator<Item = (&'s [u8], [u8; N])>) -> Self {
        let mut all = Self {
            srcs: [&[]; BATCH],
            factors: [[0; N]; BATCH],
            len: 0,
        };
        let kept = terms.filter(|(src, factors)| !src.is_empty() && *factors != [0; N]);
        let places = all.srcs.iter_mut().zip(all.factors.iter_mut());
        for ((src, factors), place) in kept.zip(places) {
            (*place.0, *place.1) = (src, factors);
            all.len += 1;
        }
        all
    }

    /// The sources, and their coefficients.
    pub(super) fn slices(&self) -> (&[&'s [u8]], &[[u8; N]]) {
        let srcs = self.srcs.get(..self.len).unwrap_or_default();
        (srcs, self.factors.get(..self.len).unwrap_or_default())
    }

    /// Bytes that all sources and a destination of `dst_len` bytes have; `None` once there are
    /// none.
    pub(super) fn common_len(&self, dst_len: Option<usize>) -> Option<usize> {
        let shortest = self.slices().0.iter().map(|src| src.len()).min()?;
        Some(shortest.min(dst_len?)).filter(|len| *len > 0)
    }

    /// Drops the first `len` bytes of every source, and sources that end there.
    pub(super) fn advance(&mut self, len: usize) {
        let mut kept = 0;
        for i in 0..self.len {
            let src = self.srcs.get(i).and_then(|src| src.get(len..));
            let factors = self.factors.get(i).copied();
            let (Some(src), Some(factors)) = (src.filter(|src| !src.is_empty()), factors) else {
                continue;
            };
            if let (Some(to), Some(to_factors)) =
                (self.srcs.get_mut(kept), self.factors.get_mut(kept))
            {
                (*to, *to_factors) = (src, factors);
                kept += 1;
            }
        }
        self.len = kept;
    }
}
