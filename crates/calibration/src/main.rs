//! Calibration: the laboratory's plans on real sockets, through the simulator's links in real time.
//!
//! Purpose: show how far simulated completion times can be trusted, and the kernel's TCP and MPTCP
//! beside.
//! Owns: network namespaces with TUN devices (`place.rs`), the links between them in real time
//! (`emulator.rs`), whether the machine kept up (`lateness.rs`, `witness.rs`), the ends (`quic.rs`,
//! `tcp.rs`, `https.rs`), the comparisons (`measure.rs`, `table.rs`, `several/`).
//! Does not own: what a link does (`tautline-sim`), plans and simulated runs (`tautline-lab`), the
//! stack.
//! Called by: `cargo xtask calibrate`.

#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod conversation;
#[cfg(target_os = "linux")]
mod emulator;
#[cfg(target_os = "linux")]
#[cfg(test)]
mod field_runs;
#[cfg(target_os = "linux")]
mod https;
#[cfg(target_os = "linux")]
mod lateness;
#[cfg(target_os = "linux")]
mod measure;
#[cfg(target_os = "linux")]
mod packet;
#[cfg(target_os = "linux")]
mod place;
#[cfg(target_os = "linux")]
mod quic;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod several;
#[cfg(target_os = "linux")]
mod system;
#[cfg(target_os = "linux")]
mod table;
#[cfg(target_os = "linux")]
mod task;
#[cfg(target_os = "linux")]
mod tcp;
#[cfg(target_os = "linux")]
mod witness;

#[cfg(target_os = "linux")]
mod command;

/// Of a request, as in the laboratory's workloads.
#[cfg(target_os = "linux")]
const REQUEST_BYTES: usize = 25;

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    command::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("*skipped*: network namespaces need Linux");
}
