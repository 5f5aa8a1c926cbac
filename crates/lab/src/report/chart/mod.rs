//! Self-contained HTML reports: text, tables and charts in one file.
//!
//! Purpose: turn figures into a page that opens anywhere, also without a network, and reads well
//! in light, dark and print.
//! Owns: [`Report`] and its parts, their HTML, Markdown and SVG, colours, axis ticks, and the
//! plain text form of a [`Table`].
//! Does not own: what the figures mean (the caller writes definitions beside them).
//! Called by: reports of campaigns; `tautline demo`.
//! To add a variant: a kind of content is one file here, a [`Block`] variant and its arm in
//! `page.rs`.

mod axis;
mod bars;
mod boxes;
mod heat;
mod lines;
mod markdown;
mod page;
mod picture;
mod plot;
mod scale;
mod style;
mod table;
#[cfg(test)]
mod tests;

pub use bars::{BarChart, BarGroup};
pub use boxes::{BoxGroup, BoxPlot};
pub use heat::HeatMap;
pub use lines::{LineChart, Reference, Series};
pub use picture::{Panel, Picture, WIDTH, file_name};
pub use plot::{Guide, Line, Plot, Style};
pub use scale::{Scale, Wish, short, significant};
pub use table::{Align, Cell, Column, Row, Table};

/// One page.
#[derive(Debug)]
pub struct Report {
    /// Heading and window title.
    pub title: String,
    /// A sentence or two under the heading.
    pub lead: String,
    /// The body, in order.
    pub sections: Vec<Section>,
    /// Last line of the page.
    pub footer: String,
}

impl Report {
    /// The page as one HTML document without any reference to another file.
    pub fn to_html(&self) -> String {
        page::render(self)
    }

    /// The same as Markdown, with [`Picture`]s as files in the folder `figures`. Legends, bars and
    /// line charts, which have no file, are left out.
    pub fn to_markdown(&self, figures: &str) -> String {
        markdown::render(self, figures)
    }

    /// The pictures, in order.
    pub fn pictures(&self) -> impl Iterator<Item = &Picture> {
        let blocks = self.sections.iter().flat_map(|section| &section.blocks);
        blocks.filter_map(|block| match block {
            Block::Picture(picture) => Some(picture),
            _ => None,
        })
    }
}

/// A part of the page under a heading of its own.
#[derive(Debug)]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// What stands under it, in order.
    pub blocks: Vec<Block>,
}

/// One piece of content. All texts are plain; markup in them is shown, not obeyed.
#[derive(Debug)]
pub enum Block {
    /// A heading within a section.
    Heading(String),
    /// Points.
    List(Vec<String>),
    /// A picture, over the whole width.
    Picture(Picture),
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
pub struct LegendEntry {
    /// The name of the series.
    pub name: String,
    /// Its place in the palette; see [`Series::slot`].
    pub slot: usize,
}

/// A part of a text.
enum Part {
    Plain(String),
    Code(String),
}

/// A text in parts. Code is what stands between two backticks: not empty, without spaces around it, on one line, without
/// what Markdown's tables give a meaning, and without control characters.
fn parts(words: &str) -> Vec<Part> {
    let is_code = |piece: &str| {
        !piece.is_empty()
            && piece.trim() == piece
            && !piece.contains(|c: char| c == '|' || c.is_control())
    };
    let mut parts = Vec::new();
    let mut pieces = words.split('`').peekable();
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    while let Some(piece) = pieces.next() {
        // A backtick stands before each piece but the first.
        match pieces.next_if(|_| is_code(piece)) {
            Some(after) => {
                parts.push(Part::Plain(std::mem::replace(&mut plain, after.to_owned())));
                parts.push(Part::Code(piece.to_owned()));
            }
            None => {
                plain.push('`');
                plain.push_str(piece);
            }
        }
    }
    parts.push(Part::Plain(plain));
    parts
}

/// `text` with the characters that HTML gives a meaning, or none at all, replaced.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML has no place for them, and an SVG with one cannot be read.
            c if c.is_control() && !matches!(c, '\n' | '\t') => {
                out.push(char::REPLACEMENT_CHARACTER)
            }
            c => out.push(c),
        }
    }
    out
}
