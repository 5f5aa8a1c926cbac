//! Field runs: plans of the laboratory between two real machines.
//!
//! One machine waits ([`far`]), the other has the plan and makes the rows ([`near`]). Each connection of
//! a run is a QUIC connection of `tautline` over UDP sockets of both, with a workload's half at either
//! end, as the simulator has them.
//!
//! Owns: how a workload's half runs over sockets ([`live`]), the control connection between both
//! machines ([`talk`], [`trust`]), both ends of a run, the campaign. Does not own: plans, workloads, rows
//! (`tautline-lab`), QUIC (`tautline`).

pub mod clock;
pub mod far;
mod forms;
pub mod live;
pub mod near;
mod talk;
#[cfg(test)]
mod tests;
mod trust;

pub use trust::token;
