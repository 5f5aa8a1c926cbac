//! What a placeholder's path picks from the pages.
//!
//! Owns the meaning of a path: `page > section > label > ... > column`, with `*`, ` or ` and ` / `. How its figure is
//! printed is `figure`; where it stands in a document is `template`.

use std::{cmp::Reverse, collections::BTreeMap};

use anyhow::{Context, Result, bail};

use super::{
    figure::End,
    page::{Page, Section, Table, bare, is_named},
};

/// So many names an error lists before it says how many more there are.
const LISTED: usize = 16;

/// The pages by name.
pub(super) type Pages = BTreeMap<String, Page>;

/// One cell, and the path that names it alone.
#[derive(Clone)]
struct Cell {
    path: Vec<String>,
    text: String,
}

/// A number with what it was read from.
pub(super) struct Figure {
    pub(super) value: f64,
    /// As it stands on the page, if it is a single cell or fact.
    pub(super) text: Option<String>,
    /// The path that names it alone.
    pub(super) from: String,
}

/// All figures that `path` names; at least one.
pub(super) fn figures(pages: &Pages, path: &[String], end: End) -> Result<Vec<Figure>> {
    let quotient = path.iter().filter(|part| part.contains(" / ")).count();
    if quotient > 1 {
        bail!("a quotient (` / `) can stand in one part of a path only");
    }
    if quotient > 0 && end != End::Value {
        bail!("a quotient has no interval");
    }
    let mut above = Vec::new();
    let mut below = None;
    for (at, part) in path.iter().enumerate() {
        match part.split_once(" / ") {
            Some((first, second)) => {
                above.push(first.trim().to_owned());
                below = Some((at, second.trim().to_owned()));
            }
            None => above.push(part.clone()),
        }
    }
    let figures: Result<Vec<Figure>> = cells(pages, &above)?
        .into_iter()
        .map(|cell| match &below {
            None => single(cell, end),
            Some((at, part)) => quotient_of(pages, cell, *at, part),
        })
        .collect();
    let figures = figures?;
    if figures.is_empty() {
        bail!("nothing is selected");
    }
    Ok(figures)
}

fn single(cell: Cell, end: End) -> Result<Figure> {
    let from = cell.path.join(" > ");
    let (value, text) = number(&cell.text, end).with_context(|| from.clone())?;
    Ok(Figure {
        value,
        text: Some(text),
        from,
    })
}

/// `cell` by the cell that differs from it in part `at` alone.
fn quotient_of(pages: &Pages, cell: Cell, at: usize, part: &str) -> Result<Figure> {
    let mut path = cell.path.clone();
    if let Some(place) = path.get_mut(at) {
        *place = part.to_owned();
    }
    let below = cells(pages, &path)?;
    let [below] = below.as_slice() else {
        bail!(
            "what is divided by must be one cell; {} are `{}`",
            below.len(),
            path.join(" > ")
        );
    };
    let from = format!("{} / {part}", cell.path.join(" > "));
    let (above, _) = number(&cell.text, End::Value).with_context(|| cell.path.join(" > "))?;
    let (below, _) = number(&below.text, End::Value).with_context(|| path.join(" > "))?;
    if below == 0.0 {
        bail!("{from} divides by 0");
    }
    Ok(Figure {
        value: above / below,
        text: None,
        from,
    })
}

/// The number that a cell begins with, before its interval or remark, or an end of the interval; and its text. A per
/// cent is a hundredth.
fn number(cell: &str, end: End) -> Result<(f64, String)> {
    let text = match end {
        End::Value => {
            let ends = [" [", " (", " of "].iter().filter_map(|end| cell.find(end));
            cell.get(..ends.min().unwrap_or(cell.len()))
        }
        End::Low | End::High => {
            let interval = cell
                .split_once('[')
                .and_then(|(_, rest)| rest.split_once(']'))
                .and_then(|(interval, _)| interval.split_once(", "))
                .with_context(|| format!("`{cell}` has no interval"))?;
            Some(if end == End::Low {
                interval.0
            } else {
                interval.1
            })
        }
    };
    let text = text.unwrap_or(cell).trim();
    let (digits, unit) = match text.strip_suffix('%') {
        Some(digits) => (digits.trim(), 0.01),
        None => (text, 1.0),
    };
    // `parse` takes `inf` and `nan` too.
    let plain = digits.chars().all(|c| "0123456789.-+eE".contains(c));
    let value: Option<f64> = digits.parse().ok().filter(|_| plain);
    let value = value.filter(|value| value.is_finite());
    let value = value.with_context(|| format!("`{cell}` is not a number"))?;
    Ok((value * unit, text.to_owned()))
}

fn cells(pages: &Pages, path: &[String]) -> Result<Vec<Cell>> {
    let mut found = Vec::new();
    let Some((page, rest)) = path.split_first() else {
        bail!("an empty path");
    };
    for name in alternatives(page) {
        let page = pages.get(name);
        let page = page.with_context(|| {
            format!(
                "there is no page `{name}`; there are {}",
                near(name, pages.keys())
            )
        })?;
        found.extend(in_page(page, rest)?);
    }
    Ok(found)
}

fn in_page(page: &Page, path: &[String]) -> Result<Vec<Cell>> {
    match path {
        [fact] => {
            let text = page.facts.get(fact.as_str()).with_context(|| {
                format!(
                    "page {} says no `{fact}` of itself; it says {}",
                    page.name,
                    near(fact, page.facts.keys())
                )
            })?;
            Ok(vec![Cell {
                path: vec![page.name.clone(), fact.clone()],
                text: text.clone(),
            }])
        }
        [section, labels @ .., column] if !labels.is_empty() => {
            let mut found = Vec::new();
            for name in alternatives(section) {
                let section = section_of(page, name)?;
                let cells = in_section(section, labels, column).with_context(|| {
                    format!("page {}, section `{}`", page.name, section.heading)
                })?;
                found.extend(cells.into_iter().map(|cell| {
                    let start = [page.name.clone(), name.to_owned()];
                    let path = start.into_iter().chain(cell.path).collect();
                    Cell { path, ..cell }
                }));
            }
            Ok(found)
        }
        _ => bail!(
            "a path is `page > fact` or `page > section > label > ... > column`, with every label"
        ),
    }
}

fn section_of<'a>(page: &'a Page, name: &str) -> Result<&'a Section> {
    let mut matching = page
        .sections
        .iter()
        .filter(|section| is_named(&section.heading, name));
    match (matching.next(), matching.next()) {
        (Some(section), None) => Ok(section),
        (Some(_), Some(_)) => bail!("page {} has more than one section `{name}`", page.name),
        (None, _) => {
            let with_tables = page.sections.iter().filter(|s| !s.tables.is_empty());
            bail!(
                "page {} has no section `{name}`; with tables it has {}",
                page.name,
                near(name, with_tables.map(|section| bare(&section.heading)))
            )
        }
    }
}

/// The cells of the one table of the section that has such labels and such columns.
fn in_section(section: &Section, labels: &[String], column: &str) -> Result<Vec<Cell>> {
    let fitting: Vec<&Table> = section
        .tables
        .iter()
        .filter(|table| table.labels == labels.len())
        .collect();
    if fitting.is_empty() {
        let tables = section.tables.iter();
        bail!(
            "no table has {} labels; rows are labelled by {}",
            labels.len(),
            near("", tables.map(|table| table.label_columns().join(" > ")))
        );
    }
    let mut found: Option<Vec<Cell>> = None;
    let mut missing = None;
    for table in &fitting {
        match in_table(table, labels, column) {
            Ok(cells) if found.is_none() => found = Some(cells),
            Ok(_) => bail!("more than one table has such rows and columns"),
            // A column that is not there says less than a row that is not: such a table was not meant.
            Err(Missing::Column(error)) => missing = missing.or(Some(error)),
            Err(Missing::Row(error)) => missing = Some(error),
        }
    }
    match (found, missing) {
        (Some(cells), _) => Ok(cells),
        (None, Some(error)) => Err(error),
        (None, None) => bail!("it has no table"),
    }
}

enum Missing {
    Column(anyhow::Error),
    Row(anyhow::Error),
}

fn in_table(table: &Table, labels: &[String], column: &str) -> Result<Vec<Cell>, Missing> {
    let columns = columns_of(table, column).map_err(Missing::Column)?;
    let fits = |row: &&Vec<String>| {
        labels.iter().zip(row.iter()).all(|(wanted, label)| {
            wanted == "*" || alternatives(wanted).any(|wanted| wanted == label)
        })
    };
    let rows: Vec<&Vec<String>> = table.rows.iter().filter(fits).collect();
    // Each label named must stand in a row that was found: else an error of spelling would narrow a range unseen.
    for (at, wanted) in labels.iter().enumerate() {
        for wanted in alternatives(wanted).filter(|wanted| *wanted != "*") {
            let named = |row: &&Vec<String>| row.get(at).is_some_and(|label| label == wanted);
            if !rows.iter().any(named) {
                let all = table.rows.iter();
                let all = all.map(|row| row.get(..table.labels).unwrap_or_default().join(" > "));
                return Err(Missing::Row(anyhow::anyhow!(
                    "no row `{}` has `{wanted}`; there are {}",
                    labels.join(" > "),
                    near(&labels.join(" > "), all)
                )));
            }
        }
    }
    let cells = rows.iter().flat_map(|row| {
        columns.iter().filter_map(|(at, name)| {
            let text = row.get(*at)?.clone();
            let path = row.iter().take(table.labels).chain([name]);
            Some(Cell {
                path: path.cloned().collect(),
                text,
            })
        })
    });
    Ok(cells.collect())
}

/// Where the columns stand that `wanted` names, and their names.
fn columns_of(table: &Table, wanted: &str) -> Result<Vec<(usize, String)>> {
    let columns = table.figure_columns();
    let all = columns.iter().enumerate();
    let all = all.map(|(at, column)| (at + table.labels, bare(column).to_owned()));
    if wanted == "*" {
        return Ok(all.collect());
    }
    let mut found = Vec::new();
    for name in alternatives(wanted) {
        let mut matching = all
            .clone()
            .zip(columns)
            .filter(|(_, column)| is_named(column, name));
        match (matching.next(), matching.next()) {
            (Some((one, _)), None) => found.push(one),
            (Some(_), Some(_)) => bail!("more than one column is called `{name}`"),
            (None, _) => bail!(
                "there is no column `{name}`; there are {}",
                near(name, columns.iter().map(|column| bare(column)))
            ),
        }
    }
    Ok(found)
}

fn alternatives(part: &str) -> impl Iterator<Item = &str> {
    part.split(" or ").map(str::trim)
}

/// Names for an error, those first that begin as `wanted` does, and not too many of them.
pub(super) fn near(wanted: &str, names: impl Iterator<Item = impl AsRef<str>>) -> String {
    let alike = |name: &String| {
        let pairs = name.chars().zip(wanted.chars());
        Reverse(pairs.take_while(|(a, b)| a == b).count())
    };
    let mut names: Vec<String> = names.map(|name| name.as_ref().to_owned()).collect();
    names.sort_by_key(alike);
    let more = match names.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(LISTED);
    format!("`{}`{more}", names.join("`, `"))
}
