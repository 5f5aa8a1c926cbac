//! A page of results as `tautline lab report` writes it: its headings, its tables and what it says of itself.
//!
//! Owns how a page is read. Does not know what a template asks of it: that is `select`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

/// `docs/results/NAME/README.md`.
pub(super) struct Page {
    pub(super) name: String,
    /// What the page says of its campaign as a whole, by the word that asks for it.
    pub(super) facts: BTreeMap<&'static str, String>,
    pub(super) sections: Vec<Section>,
}

/// A heading, and the tables between it and the next one of any level.
pub(super) struct Section {
    pub(super) heading: String,
    pub(super) tables: Vec<Table>,
}

/// Columns that are aligned to the left and stand before all others label a row; the others are figures.
pub(super) struct Table {
    pub(super) labels: usize,
    pub(super) columns: Vec<String>,
    /// Each as long as `columns`.
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn label_columns(&self) -> &[String] {
        self.columns.get(..self.labels).unwrap_or_default()
    }

    pub(super) fn figure_columns(&self) -> &[String] {
        self.columns.get(self.labels..).unwrap_or_default()
    }
}

/// A heading or a column, as it stands or without the unit or remark in brackets behind it.
pub(super) fn is_named(text: &str, name: &str) -> bool {
    text == name || bare(text) == name
}

/// `completion_s (s)` without ` (s)`.
pub(super) fn bare(text: &str) -> &str {
    match text.find(" (") {
        Some(at) if text.ends_with(')') => text.get(..at).unwrap_or(text),
        _ => text,
    }
}

impl Page {
    pub(super) fn parse(name: &str, text: &str) -> Result<Self> {
        let mut page = Self {
            name: name.to_owned(),
            facts: BTreeMap::new(),
            sections: Vec::new(),
        };
        let mut lines = text.lines().enumerate().peekable();
        let mut fence: Option<usize> = None;
        while let Some((number, line)) = lines.next() {
            let ticks = line.chars().take_while(|c| *c == '`').count();
            if ticks >= 3 {
                fence = match fence {
                    Some(opened) if ticks >= opened => None,
                    None => Some(ticks),
                    still => still,
                };
            }
            if fence.is_some() {
                continue;
            }
            if let Some(heading) = heading(line) {
                page.sections.push(Section {
                    heading: unescaped(heading),
                    tables: Vec::new(),
                });
            } else if line.starts_with('|') && lines.peek().is_some_and(|(_, next)| is_rule(next)) {
                let rule = lines.next().map(|(_, rule)| rule).unwrap_or_default();
                let mut rows = Vec::new();
                while let Some((number, row)) = lines.next_if(|(_, row)| row.starts_with('|')) {
                    rows.push((number + 1, row));
                }
                let table = table(line, rule, &rows)
                    .with_context(|| format!("page {name}, the table at line {}", number + 1))?;
                let section = page.sections.last_mut();
                let section =
                    section.with_context(|| format!("page {name}: a table before any heading"))?;
                section.tables.push(table);
            } else {
                page.learn(line);
            }
        }
        Ok(page)
    }

    /// Takes what a line tells of the campaign, if it does.
    fn learn(&mut self, line: &str) {
        if let Some(cells) = line.strip_prefix("- **cells**: ") {
            // "2480 = 20 points x 4 solutions x 31 repetitions"
            let words: Vec<&str> = cells.split_whitespace().collect();
            self.know("cells", words.first());
            for pair in words.windows(2) {
                match pair {
                    [number, "points"] => self.know("points", Some(number)),
                    [number, "solutions"] => self.know("solutions", Some(number)),
                    [number, "repetitions"] => self.know("repetitions", Some(number)),
                    _ => {}
                }
            }
        } else if line.starts_with("- **made by**: ") {
            let number = line.split("(results ").nth(1);
            let number = number.and_then(|rest| rest.split(')').next());
            self.know("results", number.as_ref());
        } else if line.contains(" ended ok, ") {
            let number = line.split(" ended ok, ").nth(1);
            let number = number.and_then(|rest| rest.split_whitespace().next());
            self.know("failed", number.as_ref());
        }
    }

    fn know(&mut self, what: &'static str, number: Option<&&str>) {
        if let Some(number) = number.filter(|number| number.parse::<u64>().is_ok()) {
            self.facts.insert(what, (*number).to_owned());
        }
    }
}

fn heading(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    rest.strip_prefix(' ')
        .filter(|_| (1..=6).contains(&level))
        .map(str::trim)
}

fn is_rule(line: &str) -> bool {
    line.starts_with('|') && line.contains('-') && line.chars().all(|c| "|-: ".contains(c))
}

fn table(header: &str, rule: &str, rows: &[(usize, &str)]) -> Result<Table> {
    let columns = cells(header);
    let aligned = cells(rule);
    if aligned.len() != columns.len() {
        bail!(
            "{} columns have a heading and {} an alignment",
            columns.len(),
            aligned.len()
        );
    }
    let labels = aligned
        .iter()
        .take_while(|cell| !cell.ends_with(':'))
        .count();
    let mut table = Table {
        labels,
        columns,
        rows: Vec::new(),
    };
    for (number, row) in rows {
        let row = cells(row);
        if row.len() != table.columns.len() {
            bail!(
                "line {number} has {} cells, the heading {}",
                row.len(),
                table.columns.len()
            );
        }
        table.rows.push(row);
    }
    Ok(table)
}

/// The cells of a row as a reader sees them: without what marks them bold, a bar or an angle in them unescaped.
fn cells(line: &str) -> Vec<String> {
    let mut cells = Vec::new();
    let mut cell = String::new();
    let mut characters = line
        .trim()
        .strip_prefix('|')
        .unwrap_or(line)
        .chars()
        .peekable();
    while let Some(c) = characters.next() {
        match c {
            '\\' if characters.peek() == Some(&'|') => {
                cell.push('|');
                characters.next();
            }
            '|' => cells.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    if !cell.trim().is_empty() {
        cells.push(cell);
    }
    cells
        .iter()
        .map(|cell| unescaped(cell.trim().trim_matches('*').trim()))
        .collect()
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}
