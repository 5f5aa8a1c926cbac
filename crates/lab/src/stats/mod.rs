//! Statistics over cells: what stands between rows and the sentences of a report.
//!
//! Owns: location and spread ([`mean`], [`median`], [`quantiles`], [`Ecdf`]), intervals
//! ([`Bootstrap`]), comparisons ([`paired`], [`welch`]), rank correlation ([`spearman`]).
//! Does not own: what is computed in a run (`metric`), which cells are compared (`report`).
//!
//! Values that are not finite are left out everywhere; of nothing there is no statistic (`None`).
//! Nothing here draws from a clock or from the system: a bootstrap states its seed.

mod bootstrap;
mod location;
mod paired;
mod rank;
mod welch;

pub use self::{
    bootstrap::{Bootstrap, Interval},
    location::{Ecdf, Spread, mean, median, quantiles, ratio_of_medians, sorted, variance},
    paired::{Comparison, Pair, geometric_mean, paired},
    rank::{ranks, spearman},
    welch::{Welch, incomplete_beta, welch},
};

#[cfg(test)]
mod tests;
