//! The laboratory: experiments on simulated networks, reproducible to the byte.
//!
//! Purpose: from a plan (TOML) to rows, statistics and figures, with the real transport in virtual
//! time.
//! Owns: plans and designs, workloads, stacks under test, runs, metrics, tables, reports.
//! Does not own: the network in virtual time (`tautline-sim`), the transport.
//!
//! # Example
//!
//! A plan's cells, played from code. With a controller of one's own: `examples/my_controller.rs`.
//!
//! ```
//! use tautline_lab::{plan::{Plan, ReadOptions}, run::play, stack::Stacks};
//!
//! let text = r#"
//!     name = "mine"
//!     title = "100 kB over Wi-Fi"
//!     network = { link = "wifi" }
//!     flow = [{ name = "main", workload = { kind = "bulk", bytes = "100 kB" } }]
//!     solution = [{ name = "cubic", congestion = "cubic" }]
//! "#;
//! let stacks = Stacks::default();
//! let plan = Plan::parse(text, ".".as_ref(), &ReadOptions::default(), &stacks)?;
//! for cell in plan.cells() {
//!     let record = play(&plan.scene(&cell, &stacks)?, &stacks, cell.seed)?;
//!     let seconds = record.metric("completion_s").expect("it is finished");
//!     assert!(seconds > 0.065 && seconds < 0.3, "{seconds}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
