//! Line charts.

use super::{
    axis::{Frame, Ticks},
    escape,
    style::{SLOTS, mark},
};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 290.0;

/// One line over a common x axis; both axes start at zero.
#[derive(Debug)]
pub struct LineChart {
    /// What is shown, without its unit.
    pub title: String,
    /// How it was measured; a short line under the title.
    pub note: String,
    /// What the x axis shows, with its unit.
    pub x_label: String,
    /// The unit of the y axis.
    pub y_unit: String,
    /// Nothing above this value is drawn; `None` shows everything. The note should say so.
    pub y_limit: Option<f64>,
    /// The lines.
    pub series: Vec<Series>,
    /// Levels to compare with.
    pub references: Vec<Reference>,
}

/// One line.
#[derive(Debug)]
pub struct Series {
    /// What it is; shown when the line is pointed at.
    pub name: String,
    /// Its place in the palette. The same thing has the same place in every chart of a report.
    pub slot: usize,
    /// Points in order of x. A y that is not finite interrupts the line.
    pub points: Vec<(f64, f64)>,
}

/// A dashed line at one level.
#[derive(Debug)]
pub struct Reference {
    /// Written on it.
    pub label: String,
    /// The level.
    pub value: f64,
    /// Whether the label stands below the line, out of the way of curves above it.
    pub label_below: bool,
}

impl LineChart {
    /// The largest values of both axes.
    fn extent(&self) -> (f64, f64) {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = points()
            .map(|point| point.0)
            .filter(|x| x.is_finite())
            .fold(0.0, f64::max);
        // Room for the label above a level.
        let levels = self
            .references
            .iter()
            .map(|reference| reference.value * 1.08);
        let y = points().map(|point| point.1).chain(levels);
        let y = y.filter(|y| y.is_finite()).fold(0.0, f64::max);
        let y = self.y_limit.map_or(y, |limit| limit.min(y));
        (if x > 0.0 { x } else { 1.0 }, y)
    }

    /// The chart as a `<figure>`; `id` is unique in the page.
    pub(super) fn to_html(&self, id: usize) -> String {
        let (x_max, y_max) = self.extent();
        let y_ticks = Ticks::new(y_max, 5);
        let frame = Frame {
            left: 52.0,
            top: 24.0,
            width: WIDTH - 52.0 - 16.0,
            height: HEIGHT - 24.0 - 42.0,
            x_max,
            y_max: if self.y_limit.is_some() {
                y_max
            } else {
                y_ticks.top()
            },
        };
        // Marks on the upper edge stay whole unless something is to be cut off there.
        let above = if self.y_limit.is_some() { 1.0 } else { 6.0 };
        let mut svg = String::new();
        frame.y_grid(&y_ticks, &mut svg);
        frame.x_marks(&Ticks::new(x_max, 7), &mut svg);
        svg.push_str(&format!(
            "<text class=\"unit\" x=\"{:.1}\" y=\"14\" text-anchor=\"end\">{}</text>\
             <text class=\"unit\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <clipPath id=\"k{id}\"><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
             height=\"{:.1}\"/></clipPath>",
            frame.left - 7.0,
            escape(&self.y_unit),
            frame.left + frame.width / 2.0,
            HEIGHT - 6.0,
            escape(&self.x_label),
            frame.left - 5.0,
            frame.top - above,
            frame.width + 10.0,
            frame.height + above + 5.0,
        ));
        svg.push_str(&format!("<g clip-path=\"url(#k{id})\">"));
        for (index, series) in self.series.iter().enumerate() {
            // Lines that lie on each other all stay visible.
            let below = (self.series.len() - index - 1).min(3) as f64;
            series.draw(&frame, 1.7 + 0.8 * below, &mut svg);
        }
        svg.push_str("</g>");
        for reference in &self.references {
            reference.draw(&frame, &mut svg);
        }
        let note = match self.note.as_str() {
            "" => String::new(),
            note => format!("<small>{}</small>", escape(note)),
        };
        let title = escape(&self.title);
        format!(
            "<figure><figcaption>{title} ({}){note}</figcaption>\
             <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">{svg}</svg>\
             </figure>",
            escape(&self.y_unit),
        )
    }
}

impl Series {
    fn draw(&self, frame: &Frame, width: f64, out: &mut String) {
        let mut path = String::new();
        let mut pen_down = false;
        let mut last = None;
        for &(x, y) in &self.points {
            if !x.is_finite() || !y.is_finite() {
                pen_down = false;
                continue;
            }
            let (x, y) = (frame.x(x), frame.y(y));
            let command = if pen_down { 'L' } else { 'M' };
            path.push_str(&format!("{command}{x:.1} {y:.1}"));
            pen_down = true;
            last = Some((x, y));
        }
        out.push_str(&format!(
            "<path class=\"s{}\" stroke-width=\"{width:.1}\" d=\"{path}\"><title>{}</title></path>",
            self.slot % SLOTS,
            escape(&self.name)
        ));
        if let Some((x, y)) = last {
            out.push_str(&mark(self.slot, x, y));
        }
    }
}

impl Reference {
    fn draw(&self, frame: &Frame, out: &mut String) {
        if !self.value.is_finite() || self.value > frame.y_max {
            return;
        }
        let y = frame.y(self.value);
        let (left, right) = (frame.left, frame.right());
        out.push_str(&format!(
            "<path class=\"rule\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>\
             <text class=\"ref\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left + 5.0,
            if self.label_below { y + 15.0 } else { y - 5.0 },
            escape(&self.label)
        ));
    }
}
