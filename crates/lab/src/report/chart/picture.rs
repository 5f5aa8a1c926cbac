//! Pictures: panels side by side over one legend, in a page or as a file of its own.

use super::{
    LegendEntry, escape,
    style::{SLOTS, file_sheet, mark, stroke},
};

/// Something drawn into a rectangle.
pub trait Panel: std::fmt::Debug {
    /// SVG elements within `width` x `height`, from 0, 0.
    fn draw(&self, width: f64, height: f64) -> String;
}

/// One picture: what a `<figure>` shows and what a file under `figures/` holds.
#[derive(Debug)]
pub struct Picture {
    /// Name of its file, without folder and ending.
    pub file: String,
    /// What is seen.
    pub title: String,
    /// How it was made; a short line under the title.
    pub note: String,
    /// The panels with their headings, left to right, then down.
    pub panels: Vec<(String, Box<dyn Panel>)>,
    /// Height of a panel in picture units; the picture is [`WIDTH`] wide.
    pub panel_height: f64,
    /// How many panels stand side by side at most.
    pub columns: usize,
    /// What colours and marks stand for.
    pub legend: Vec<LegendEntry>,
}

/// Width of every picture.
pub const WIDTH: f64 = 1140.0;
/// Between panels.
const GAP: f64 = 26.0;
const LEGEND_LINE: f64 = 22.0;

impl Picture {
    /// A picture of one panel.
    pub fn of(file: &str, title: String, note: String, panel: Box<dyn Panel>) -> Self {
        Self {
            file: file_name(file),
            title,
            note,
            panels: vec![(String::new(), panel)],
            panel_height: 360.0,
            columns: 1,
            legend: Vec::new(),
        }
    }

    /// A picture of several.
    pub fn panels(
        file: &str,
        title: String,
        note: String,
        panels: Vec<(String, Box<dyn Panel>)>,
    ) -> Self {
        let columns = match panels.len() {
            0 | 1 => 1,
            2 | 4 => 2,
            _ => 3,
        };
        Self {
            panel_height: if columns == 1 { 360.0 } else { 290.0 },
            columns,
            panels,
            ..Self::of(file, title, note, Box::new(Nothing))
        }
    }

    /// With a legend, unless there is but one entry.
    pub fn with_legend(mut self, legend: Vec<LegendEntry>) -> Self {
        if legend.len() > 1 {
            self.legend = legend;
        }
        self
    }

    /// The elements below `top`, and the height of all.
    fn body(&self, top: f64) -> (String, f64) {
        let mut out = String::new();
        let columns = self.columns.max(1);
        let width = (WIDTH - GAP * (columns - 1) as f64) / columns as f64;
        let mut y = top;
        for row in self.panels.chunks(columns) {
            let heading = row.iter().any(|(heading, _)| !heading.is_empty());
            let above = if heading { 22.0 } else { 0.0 };
            for (column, (heading, panel)) in row.iter().enumerate() {
                let x = (width + GAP) * column as f64;
                if !heading.is_empty() {
                    out.push_str(&format!(
                        "<text class=\"head\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                        x + 4.0,
                        y + 15.0,
                        escape(&clip(heading, width - 8.0))
                    ));
                }
                out.push_str(&format!(
                    "<g transform=\"translate({x:.1} {:.1})\">{}</g>",
                    y + above,
                    panel.draw(width, self.panel_height)
                ));
            }
            y += above + self.panel_height + 8.0;
        }
        let mut x = 8.0;
        if !self.legend.is_empty() {
            y += 6.0;
        }
        for entry in &self.legend {
            let room = 34.0 + 8.0 + text_width(&entry.name) + 22.0;
            if x > 8.0 && x + room > WIDTH {
                x = 8.0;
                y += LEGEND_LINE;
            }
            out.push_str(&format!(
                "<path class=\"s{}\"{} stroke-width=\"2.4\" d=\"M{x:.1} {:.1}h32\"/>{}\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                entry.slot % SLOTS,
                stroke(entry.slot),
                y + 10.0,
                mark(entry.slot, x + 16.0, y + 10.0),
                x + 40.0,
                y + 14.5,
                escape(&entry.name)
            ));
            x += room;
        }
        if !self.legend.is_empty() {
            y += LEGEND_LINE;
        }
        (out, y + 4.0)
    }

    /// The picture as a `<figure>`.
    pub(super) fn to_html(&self) -> String {
        let (body, height) = self.body(0.0);
        let title = escape(&self.title);
        format!(
            "<figure class=\"wide\"><figcaption>{title}{}</figcaption>\
             <svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\">{body}\
             </svg></figure>",
            match self.note.as_str() {
                "" => String::new(),
                note => format!("<small>{}</small>", escape(note)),
            }
        )
    }

    /// The picture as an SVG file, with its title and its colours in it.
    pub fn to_svg(&self) -> String {
        const MARGIN: f64 = 16.0;
        let mut head = String::new();
        let mut y = 24.0;
        head.push_str(&format!(
            "<text class=\"title\" x=\"4\" y=\"{y:.0}\">{}</text>",
            escape(&self.title)
        ));
        for line in wrap(&self.note, WIDTH - 8.0) {
            y += 18.0;
            head.push_str(&format!(
                "<text class=\"tick\" x=\"4\" y=\"{y:.0}\">{}</text>",
                escape(&line)
            ));
        }
        let (body, height) = self.body(y + 16.0);
        let (width, height) = (WIDTH + 2.0 * MARGIN, height + 2.0 * MARGIN);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\"><title>{}</title>\
             <style>{}</style><rect class=\"paper\" width=\"{width:.0}\" height=\"{height:.0}\"/>\
             <g transform=\"translate({MARGIN} {MARGIN})\">{head}{body}</g></svg>\n",
            escape(&self.title),
            file_sheet()
        )
    }
}

#[derive(Debug)]
struct Nothing;

impl Panel for Nothing {
    fn draw(&self, _: f64, _: f64) -> String {
        String::new()
    }
}

/// About how wide a text is: fonts differ, so this errs on the wide side.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 7.1
}

/// `text`, shortened to about `width`.
pub(super) fn clip(text: &str, width: f64) -> String {
    let room = (width / 7.1).max(1.0) as usize;
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(room.saturating_sub(1)).collect();
    short.push('\u{2026}');
    short
}

fn wrap(text: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line) + text_width(word) + 7.0 <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Letters, digits and dashes of `text`.
pub fn file_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars().take(120) {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_alphanumeric() || c == '_' {
            name.push(c);
        } else if !name.ends_with('-') && !name.is_empty() {
            name.push('-');
        }
    }
    let name = name.trim_end_matches('-');
    if name.is_empty() { "figure" } else { name }.to_owned()
}
