//! Self-contained HTML reports: text, tables and charts in one file.
//!
//! Purpose: turn figures into a page that opens anywhere, also without a network, and reads well
//! in light, dark and print.
//! Owns: [`Report`] and its parts, their HTML and inline SVG, colours, axis ticks, and the plain
//! text form of a [`Table`].
//! Does not own: what the figures mean (the caller writes definitions beside them).
//! Called by: `demo`.
//! To add a variant: a kind of content is one file here, a [`Block`] variant and its arm in
//! `page.rs`.

mod axis;
mod bars;
mod lines;
mod page;
mod style;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use bars::{BarChart, BarGroup};
pub(crate) use lines::{LineChart, Reference, Series};
pub(crate) use table::{Align, Cell, Column, Row, Table};

/// One page.
#[derive(Debug)]
pub(crate) struct Report {
    /// Heading and window title.
    pub(crate) title: String,
    /// A sentence or two under the heading.
    pub(crate) lead: String,
    /// The body, in order.
    pub(crate) sections: Vec<Section>,
    /// Last line of the page.
    pub(crate) footer: String,
}

impl Report {
    /// The page as one HTML document without any reference to another file.
    pub(crate) fn to_html(&self) -> String {
        page::render(self)
    }
}

/// A part of the page under a heading of its own.
#[derive(Debug)]
pub(crate) struct Section {
    /// The heading.
    pub(crate) heading: String,
    /// What stands under it, in order.
    pub(crate) blocks: Vec<Block>,
}

/// One piece of content. All texts are plain; markup in them is shown, not obeyed.
#[derive(Debug)]
pub(crate) enum Block {
    /// A paragraph.
    Text(String),
    /// A command or other text to be copied.
    Code(String),
    /// Terms and what they mean.
    Definitions(Vec<(String, String)>),
    /// Rows and columns.
    Table(Table),
    /// What colours and marks stand for in the charts that follow.
    Legend(Vec<LegendEntry>),
    /// Groups of bars, over the whole width.
    Bars(BarChart),
    /// Charts side by side.
    Lines(Vec<LineChart>),
}

/// What one colour and mark stands for.
#[derive(Clone, Debug)]
pub(crate) struct LegendEntry {
    /// The name of the series.
    pub(crate) name: String,
    /// Its place in the palette; see [`Series::slot`].
    pub(crate) slot: usize,
}

/// `text` with the characters that HTML gives a meaning replaced.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
