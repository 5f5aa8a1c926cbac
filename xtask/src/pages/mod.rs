//! `cargo xtask pages`: documents that compare campaigns, from templates and from the campaigns' pages.
//!
//! A page (`docs/results/NAME/README.md`) is what `tautline lab report` wrote of one plan. A document that speaks of
//! many, such as `docs/results/fec.md`, would be stale with the next run of any, were its figures copied by hand:
//! `docs/results/fec.template.md` has a placeholder for each, and this command puts the figures in.
//!
//! A placeholder is a path, after the format that its figure is to have:
//!
//! - `{fec-buffer > completion_s > bbr3-taut > 0.5 % > 70 kB > auto}`: page, section by its heading, every label of
//!   the row, column. Units and remarks in brackets behind a heading or a column's name can be left out. The number
//!   of labels tells tables of one section apart: `... > completion_s against plain > auto > geometric mean`,
//!   `... > completion_s against plain > loss > 2 % > auto`.
//! - ` or ` between alternatives and `*` for any can stand in every part, with `min` or `max` before the path.
//! - ` / ` in one part divides: `> auto / plain` two columns of a row, `> asymmetric / standard > ...` two rows.
//! - `..` repeats what the placeholder before it has there, in the same paragraph or the same row of a table:
//!   `{.. > 2 % > 70 kB > auto}`.
//! - `{fec-buffer > repetitions}`, `results`, `cells`, `points`, `solutions` or `failed`: what the page says of itself.
//!
//! Formats: `.2` decimals, `~3` significant digits, `.1%` per cent with its sign; without one the figure stands as on
//! its page. What stands before a cell's bracket is its number; `low` and `high` before the path take the ends of the
//! interval in it. A brace itself is written twice.

mod figure;
mod page;
mod select;
mod template;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use self::{page::Page, select::Pages};
use crate::tools::{relative, root};

const ENDING: &str = ".template.md";

#[derive(Args)]
pub(crate) struct Options {
    /// Write nothing; fail if a document is not what its template gives.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = root().join("docs").join("results");
    if options.check {
        return check(&folder);
    }
    for (path, text) in documents(&folder)? {
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", relative(&path)))?;
        println!("wrote {}", relative(&path));
    }
    Ok(())
}

/// Fails if a document in `folder` is not what its template gives.
fn check(folder: &Path) -> Result<()> {
    for (path, text) in documents(folder)? {
        let there = std::fs::read_to_string(&path).with_context(|| {
            format!(
                "cannot read {}; `cargo xtask pages` writes it",
                relative(&path)
            )
        })?;
        if let Some((line, has, gives)) = first_difference(&there, &text) {
            bail!(
                "{} differs from what its template and the pages give, first in line {line}: it has\n  {has}\nand \
                 they give\n  {gives}\nRun `cargo xtask pages`, and read what it changed.",
                relative(&path)
            );
        }
    }
    Ok(())
}

/// Each document's path and what its template gives.
fn documents(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let pages = read_pages(folder)?;
    let templates = entries(folder)?.into_iter().filter_map(|path| {
        Some((
            path.file_name()?.to_str()?.strip_suffix(ENDING)?.to_owned(),
            path,
        ))
    });
    templates
        .map(|(name, path)| {
            let template = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", relative(&path)))?;
            let text = template::fill(&template, &pages).with_context(|| relative(&path))?;
            let head = format!(
                "<!-- Made by `cargo xtask pages` from {name}{ENDING} and the pages beside it; do not edit. -->\n\n"
            );
            Ok((folder.join(format!("{name}.md")), head + &text))
        })
        .collect()
}

/// The pages of all campaigns in `folder`.
fn read_pages(folder: &Path) -> Result<Pages> {
    let mut pages = Pages::new();
    for campaign in entries(folder)? {
        let path = campaign.join("README.md");
        if !path.is_file() {
            continue;
        }
        let name = campaign.file_name().unwrap_or_default().to_string_lossy();
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", relative(&path)))?;
        pages.insert(name.clone().into_owned(), Page::parse(&name, &text)?);
    }
    Ok(pages)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot list {}", relative(folder)))?;
    let paths: std::io::Result<Vec<PathBuf>> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
    let mut paths = paths?;
    paths.sort();
    Ok(paths)
}

/// The first line that differs, its number from 1 on, and both its texts.
fn first_difference<'a>(there: &'a str, wanted: &'a str) -> Option<(usize, &'a str, &'a str)> {
    if there == wanted {
        return None;
    }
    let mut lines = (there.lines(), wanted.lines());
    for number in 1.. {
        match (lines.0.next(), lines.1.next()) {
            // Only the end of the last line can differ then.
            (None, None) => return Some((number, "", "")),
            (has, gives) if has != gives => {
                return Some((
                    number,
                    has.unwrap_or("(its end)"),
                    gives.unwrap_or("(their end)"),
                ));
            }
            _ => {}
        }
    }
    None
}
