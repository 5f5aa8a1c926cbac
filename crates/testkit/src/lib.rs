//! What tests of several crates share. Never a dependency of anything that ships.

pub mod apps;
pub mod bars;
pub mod cross;
pub mod figure;
pub mod fuzz;
pub mod http3;
pub mod null_tls;
pub mod pair;
pub mod trace;

pub use tautline_sim::tls;
