//! `cargo xtask interop`: being built.

use anyhow::{Result, bail};
use clap::Args;

#[derive(Args)]
pub(crate) struct Options {}

pub(crate) fn run(_options: &Options) -> Result<()> {
    bail!("not there yet")
}
