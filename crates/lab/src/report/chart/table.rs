//! Tables, for pages, terminals and Markdown.

use super::escape;

/// Rows and columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The columns, left to right.
    pub columns: Vec<Column>,
    /// The rows, each with as many cells as there are columns.
    pub rows: Vec<Row>,
}

/// A column's heading.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub title: String,
    /// The unit of its values; empty for none.
    pub unit: String,
    /// Which side its values stand on.
    pub align: Align,
}

impl Column {
    /// A column of texts.
    pub fn text(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            unit: String::new(),
            align: Align::Left,
        }
    }

    /// A column of numbers.
    pub fn number(title: impl Into<String>, unit: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            unit: unit.into(),
            align: Align::Right,
        }
    }
}

/// Which side of a column values stand on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// Whether a line parts it from the row above.
    pub begins_group: bool,
    /// Its cells.
    pub cells: Vec<Cell>,
}

impl Row {
    /// A row, parted from the one above when it `begins_group`.
    pub fn new(begins_group: bool, cells: Vec<Cell>) -> Self {
        Self {
            begins_group,
            cells,
        }
    }
}

/// One value.
#[derive(Clone, Debug)]
pub struct Cell {
    /// As shown.
    pub text: String,
    /// Whether it tells of a failure.
    pub bad: bool,
}

impl Cell {
    /// A value.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            bad: false,
        }
    }

    /// A failure.
    pub fn bad(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            bad: true,
        }
    }
}

impl Table {
    /// The table for a terminal: padded columns, a blank line between groups.
    pub fn to_text(&self) -> String {
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let cells = self.rows.iter().filter_map(|row| row.cells.get(index));
                let widest = cells.map(|cell| cell.text.chars().count()).max();
                let heading = column
                    .title
                    .chars()
                    .count()
                    .max(column.unit.chars().count());
                heading.max(widest.unwrap_or(0))
            })
            .collect();
        let mut out = String::new();
        self.text_line(
            self.columns.iter().map(|column| column.title.as_str()),
            &widths,
            &mut out,
        );
        self.text_line(
            self.columns.iter().map(|column| column.unit.as_str()),
            &widths,
            &mut out,
        );
        for (index, row) in self.rows.iter().enumerate() {
            if row.begins_group && index > 0 {
                out.push('\n');
            }
            self.text_line(
                row.cells.iter().map(|cell| cell.text.as_str()),
                &widths,
                &mut out,
            );
        }
        out
    }

    fn text_line<'a>(
        &self,
        texts: impl Iterator<Item = &'a str>,
        widths: &[usize],
        out: &mut String,
    ) {
        let mut line = String::new();
        for ((text, column), &width) in texts.zip(&self.columns).zip(widths) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            match column.align {
                Align::Left => line.push_str(&format!("{text:<width$}")),
                Align::Right => line.push_str(&format!("{text:>width$}")),
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }

    /// The table as HTML, in a box that scrolls when the page is narrow.
    pub(super) fn to_html(&self) -> String {
        let mut out = String::from("<div class=\"scroll\"><table><thead><tr>");
        for column in &self.columns {
            let unit = match column.unit.as_str() {
                "" => String::new(),
                unit => format!("<small>{}</small>", escape(unit)),
            };
            out.push_str(&format!(
                "<th{}>{}{unit}</th>",
                class(column.align, false),
                escape(&column.title)
            ));
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            out.push_str(if row.begins_group {
                "<tr class=\"g\">"
            } else {
                "<tr>"
            });
            for (cell, column) in row.cells.iter().zip(&self.columns) {
                let class = match column.align {
                    // Sentences may break; numbers and names do not.
                    Align::Left if cell.text.len() > 30 => " class=\"t\"",
                    align => class(align, cell.bad),
                };
                out.push_str(&format!("<td{class}>{}</td>", escape(&cell.text)));
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
        out
    }
}

fn class(align: Align, bad: bool) -> &'static str {
    match (align, bad) {
        (Align::Left, false) => "",
        (Align::Left, true) => " class=\"bad\"",
        (Align::Right, false) => " class=\"r\"",
        (Align::Right, true) => " class=\"r bad\"",
    }
}
