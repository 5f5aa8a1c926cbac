//! `cargo xtask interop`: our client and our server against other implementations.
//!
//! Purpose: one table that shows, cell by cell, what works between us and strangers' programs.
//! Owns: the cases (`case.rs`), the peers (`peer/`), running one cell (`cell.rs`), judging it
//! (`evidence.rs`), the document (`document.rs`), installing what is missing (`install.rs`), two
//! paths at once with noq (`multipath.rs`).
//! Does not own: the programs themselves (`interop/` at the root, a workspace of its own).
//!
//! A cell runs a server, a client, and `interop-proxy` between them. It is a tick when every
//! file that arrived has the SHA-256 of the file that was asked for *and* the proxy or an end
//! saw that what the case is about did happen.
//! To add a case: a variant and its row in `case.rs`. To add a peer: a row in `peer/mod.rs`.

mod case;
mod cell;
mod document;
mod evidence;
mod files;
mod install;
mod multipath;
mod peer;
mod process;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use self::{
    case::Case,
    cell::{Cell, Outcome, Side},
    document::Table,
    install::Workshop,
};
use crate::tools::root;

#[derive(Args)]
pub(crate) struct Options {
    /// Only these peers (several times or comma-separated).
    #[arg(long, value_delimiter = ',')]
    peer: Vec<String>,
    /// Only these cases.
    #[arg(long, value_delimiter = ',')]
    case: Vec<String>,
    /// Only with our end as this: `client` or `server`.
    #[arg(long)]
    ours: Option<String>,
    /// Keep logs, qlog files and keys of every cell, and say where.
    #[arg(long)]
    keep: bool,
    /// Use what was built before.
    #[arg(long)]
    no_build: bool,
    /// List peers and cases.
    #[arg(long)]
    list: bool,
    /// Instead of all that: two paths (RFC 10069) with noq over two emulated links; writes
    /// docs/interop-multipath.md. Takes two minutes.
    #[arg(long)]
    multipath: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.list {
        println!("peers: {}", names(peer::ALL.iter().map(|peer| peer.name)));
        println!("cases: {}", names(Case::ALL.iter().map(|case| case.name())));
        return Ok(());
    }
    if options.multipath {
        return multipath::run(!options.no_build);
    }
    let peers = chosen(peer::ALL, &options.peer, |peer| peer.name)?;
    let cases = chosen(Case::ALL, &options.case, |case| case.name())?;
    let sides: &[Side] = match options.ours.as_deref() {
        None => &[Side::Client, Side::Server],
        Some("client") => &[Side::Client],
        Some("server") => &[Side::Server],
        Some(other) => bail!("--ours is `client` or `server`, not {other}"),
    };
    let whole = options.peer.is_empty() && options.case.is_empty() && options.ours.is_none();

    let workshop = Workshop::open(!options.no_build)?;
    workshop.build_ours()?;
    let folder = files::Folder::new(options.keep)?;
    folder.make_served_files()?;
    let mut table = Table::default();
    for peer in peers {
        let ready = peer.install(&workshop);
        if let Err(reason) = &ready {
            println!("{}: not run: {reason:#}", peer.name);
        }
        for &side in sides {
            for &case in &cases {
                let outcome = match (&ready, peer.lacks(case, side)) {
                    (_, Some(reason)) => Outcome::Blank(reason.to_owned()),
                    (Err(reason), None) => Outcome::Absent(format!("{reason:#}")),
                    (Ok(()), None) => Cell {
                        peer,
                        side,
                        case,
                        workshop: &workshop,
                    }
                    .run(&folder),
                };
                println!(
                    "{:9} {:6} {:12} {outcome}",
                    peer.name,
                    side.name(),
                    case.name()
                );
                table.add(peer, side, case, outcome);
            }
        }
        table.version(peer, peer.version(&workshop));
    }
    println!("\n{}", table.text());
    if whole {
        let file = root().join("docs").join("interop.md");
        std::fs::write(&file, table.document())?;
        println!("written: docs/interop.md");
    }
    if let Some(kept) = folder.kept() {
        println!("kept: {}", PathBuf::from(kept).display());
    }
    table.verdict()
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn chosen<T: Copy>(
    all: &'static [T],
    wanted: &[String],
    name: impl Fn(&T) -> &'static str,
) -> Result<Vec<T>> {
    for wanted in wanted {
        if !all.iter().any(|one| name(one) == wanted) {
            bail!(
                "there is no {wanted}; there are {}",
                names(all.iter().map(&name))
            );
        }
    }
    let keep = |one: &&T| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name(one));
    Ok(all.iter().filter(keep).copied().collect())
}
