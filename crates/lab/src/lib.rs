//! The laboratory: experiments on simulated networks, reproducible to the byte.
//!
//! Purpose: from a plan (TOML) to rows, statistics and figures, with the real transport in virtual
//! time.
//! Owns: plans and designs, workloads, stacks under test, runs, metrics, tables, reports.
//! Does not own: the network in virtual time (`tautline-sim`), the transport.

pub mod bundled;
pub mod campaign;
pub mod metric;
pub mod names;
pub mod outcome;
pub mod plan;
pub mod quantity;
mod reading;
pub mod report;
pub mod run;
pub mod scene;
pub mod session;
pub mod stack;
pub mod stats;
pub mod table;
pub mod workload;
