//! Two ends of ours without secrets, driven by a script.
//!
//! Purpose: reach every room with any order of calls, losses, forged frames and time.
//! Owns: the target [`pair`], its scripts ([`Setup`] and [`Op`]s), and what is checked:
//! no panic; timers that come due are dealt with; output ends; buffers keep their limits; a server
//! sends no more than three times what it got from an unproven address; events have an order; and
//! as long as nothing was forged, bytes arrive once, in order and all of them, whatever was lost,
//! reordered, repeated or moved. In the end every connection drains.
//! Does not own: null TLS (`null_tls.rs`).
//! To add an operation: a line in `ops.rs` (at the end: codes are part of the corpus) and an arm
//! in `run.rs`.

mod addresses;
mod edit;
mod finale;
mod inject;
mod model;
mod ops;
mod random;
mod run;
mod setup;
mod world;

pub(crate) use edit::{NO_SESSION, REMOVE_ALL, REMOVE_NONE};
pub(crate) use ops::Op;
pub use random::honest_script;
pub(crate) use setup::{ERASURE, Setup, end, shared};
pub(crate) use world::World;

use super::{Coverage, input::Input};

/// Operations of one script; more are ignored.
const MAX_OPS: usize = 400;

/// Runs a script: a [`Setup`], then [`Op`]s to the end of the input.
pub fn pair(data: &[u8]) {
    run_pair(data, None);
}

/// A script in words, one operation a line.
pub fn describe_pair(data: &[u8]) -> String {
    let mut input = Input::new(data);
    let setup: Setup = input.take();
    let mut text = format!("{setup:?}\n");
    while !input.is_empty() {
        let op: Op = input.take();
        text.push_str(&format!("{op:?}\n"));
    }
    text
}

/// Runs a script and notes in `coverage` what it reached.
pub fn run_pair(data: &[u8], coverage: Option<&Coverage>) {
    let mut input = Input::new(data);
    let setup: Setup = input.take();
    let mut world = World::new(setup, coverage.cloned());
    world.connect();
    world.settle();
    let mut batch = 0;
    for _ in 0..MAX_OPS {
        if input.is_empty() {
            break;
        }
        world.run(&input.take(), &mut batch);
    }
    world.finish();
}
