//! Tables, and docs/bench.md that keeps the newest of each.

use std::{fs, path::PathBuf};

use anyhow::Result;

use crate::tools::root;

/// What a comparison with a bar says.
pub(super) fn verdict(passed: bool) -> &'static str {
    if passed { "pass" } else { "FAIL" }
}

/// Figures under a heading.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) title: String,
    /// What makes these figures.
    pub(super) command: String,
    /// Markdown.
    pub(super) text: String,
}

/// Columns of text.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(head: Vec<String>) -> Self {
        Self { rows: vec![head] }
    }

    pub(super) fn row(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Aligned, so that it reads well in a terminal too.
    pub(super) fn markdown(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
                .max(3)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            for (column, &width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                // The first column holds names, the others figures.
                text += &match column {
                    0 => format!("| {cell:<width$} |"),
                    _ => format!(" {cell:>width$} |"),
                };
            }
            text.push('\n');
            if index == 0 {
                for (column, &width) in widths.iter().enumerate() {
                    let line = "-".repeat(width);
                    text += &if column == 0 {
                        format!("|-{line}-|")
                    } else {
                        format!("-{line}:|")
                    };
                }
                text.push('\n');
            }
        }
        text
    }
}

const INTRODUCTION: &str = "\
# Bench

Written by `cargo xtask bench`. All stacks ran on the same machine in the same run, release builds \
(thin LTO, one codegen unit), loopback, client and server in processes of their own: UDP payload \
at most 1,452 bytes, AES-128-GCM, X25519, CUBIC (quic-go has NewReno only), windows of 64 MB per \
connection and 32 MB per stream, 7 MB socket buffers asked for, no resumption. Runs are \
interleaved; a figure is the median of its runs, *ours / it* the median of the ratios of runs \
side by side. CPU is user and system time of both ends. The programs are in `interop/bench/`. \
*Codes* has no network; it says itself what ran.
";

/// docs/bench.md, section by section.
#[derive(Debug)]
pub(super) struct Report {
    file: PathBuf,
    sections: Vec<(String, String)>,
    dry: bool,
}

impl Report {
    pub(super) fn open(dry: bool) -> Result<Self> {
        let file = root().join("docs/bench.md");
        let old = fs::read_to_string(&file).unwrap_or_default();
        Ok(Self {
            file,
            sections: parse(&old),
            dry,
        })
    }

    /// Prints a section and puts it in the place of the old one with its first word.
    pub(super) fn put(&mut self, section: &Section) -> Result<()> {
        let Section {
            title,
            command,
            text,
        } = section;
        println!("\n## {title}\n\n{text}");
        let body = format!("`{command}`\n\n{}\n", text.trim_end());
        let key = |title: &str| title.split(':').next().map(str::to_owned);
        match self
            .sections
            .iter_mut()
            .find(|(old, _)| key(old) == key(title))
        {
            Some(old) => *old = (title.clone(), body),
            None => self.sections.push((title.clone(), body)),
        }
        if self.dry {
            return Ok(());
        }
        let sections = self
            .sections
            .iter()
            .map(|(title, body)| format!("\n## {title}\n\n{body}"));
        Ok(fs::write(
            &self.file,
            INTRODUCTION.to_owned() + &sections.collect::<String>(),
        )?)
    }
}

fn parse(text: &str) -> Vec<(String, String)> {
    let sections = text.split("\n## ").skip(1);
    sections
        .filter_map(|section| section.split_once('\n'))
        .map(|(title, body)| (title.to_owned(), format!("{}\n", body.trim())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_survive_being_written_and_read() {
        let text = format!("{INTRODUCTION}\n## A: a\n\n`x`\n\n| t |\n\n## B\n\nb\n");
        let sections = parse(&text);
        assert_eq!(
            sections[0],
            ("A: a".to_owned(), "`x`\n\n| t |\n".to_owned())
        );
        assert_eq!(sections[1], ("B".to_owned(), "b\n".to_owned()));
    }

    #[test]
    fn tables_are_aligned() {
        let mut table = Table::new(vec!["stack".into(), "x".into()]);
        table.row(vec!["a".into(), "12".into()]);
        assert_eq!(
            table.markdown(),
            "| stack |   x |\n|-------|----:|\n| a     |  12 |\n"
        );
    }
}
