//! Plots of one quantity over another: lines, steps, points, whiskers.

use super::{
    escape,
    picture::{Panel, clip, text_width},
    scale::Scale,
    style::{SLOTS, mark, stroke},
};

/// Lines over a pair of axes.
#[derive(Debug)]
pub struct Plot {
    /// Left to right.
    pub x: Scale,
    /// Upwards.
    pub y: Scale,
    /// What is drawn, in order.
    pub lines: Vec<Line>,
    /// Levels to compare with.
    pub guides: Vec<Guide>,
}

/// One line.
#[derive(Debug)]
pub struct Line {
    /// What it is; shown when it is pointed at.
    pub name: String,
    /// Its place in the palette.
    pub slot: usize,
    /// How points are joined.
    pub style: Style,
    /// Points in order of x; one that is not finite interrupts the line.
    pub points: Vec<(f64, f64)>,
    /// Bounds: x, lower and upper y.
    pub whiskers: Vec<(f64, f64, f64)>,
}

/// How points are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Straight from mark to mark.
    Marked,
    /// Straight, without marks but for the last.
    Plain,
    /// As a distribution: level, then up; beginning on the x axis.
    Steps,
    /// Not at all.
    Points,
}

/// A dashed line.
#[derive(Debug)]
pub struct Guide {
    /// Written on it.
    pub label: String,
    /// Its place.
    pub value: f64,
    /// Whether it stands on the x axis; else it lies at a height.
    pub upright: bool,
}

/// Room left of, above, right of and below the values.
const LEFT: f64 = 58.0;
const TOP: f64 = 28.0;
const RIGHT: f64 = 14.0;
const BELOW: f64 = 44.0;

/// The axes of a plot or box plot, and where values lie in it.
pub(super) struct Room<'a> {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) y: &'a Scale,
}

impl<'a> Room<'a> {
    pub(super) fn new(width: f64, height: f64, y: &'a Scale) -> Self {
        Self {
            left: LEFT,
            top: TOP,
            width: (width - LEFT - RIGHT).max(10.0),
            height: (height - TOP - BELOW).max(10.0),
            y,
        }
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.bottom() - self.height * self.y.place(value)
    }

    fn x(&self, scale: &Scale, value: f64) -> f64 {
        self.left + self.width * scale.place(value)
    }

    /// Grid lines with the marks of the y axis, the x axis, the y axis' label.
    pub(super) fn frame(&self, out: &mut String) {
        let (left, right) = (self.left, self.left + self.width);
        for (value, label) in &self.y.ticks {
            let y = self.y(*value);
            out.push_str(&format!(
                "<path class=\"grid\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 7.0,
                y + 4.0,
                escape(label)
            ));
        }
        out.push_str(&format!(
            "<path class=\"axis\" d=\"M{left:.1} {:.1}H{right:.1}\"/>\
             <text class=\"unit\" x=\"4\" y=\"12\">{}</text>",
            self.bottom(),
            escape(&clip(&self.y.label, self.width + LEFT))
        ));
    }

    /// Marks and label of the x axis; marks that would run into each other are left out.
    fn x_axis(&self, scale: &Scale, out: &mut String) {
        let mut free = f64::NEG_INFINITY;
        for (value, label) in &scale.ticks {
            let x = self.x(scale, *value);
            let bottom = self.bottom();
            out.push_str(&format!(
                "<path class=\"axis\" d=\"M{x:.1} {bottom:.1}v4\"/>"
            ));
            let half = text_width(label) / 2.0;
            if x - half < free {
                continue;
            }
            free = x + half + 4.0;
            out.push_str(&format!(
                "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 17.0,
                escape(label)
            ));
        }
        self.x_label(&scale.label, out);
    }

    pub(super) fn x_label(&self, label: &str, out: &mut String) {
        out.push_str(&format!(
            "<text class=\"unit\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            self.left + self.width / 2.0,
            self.bottom() + 36.0,
            escape(&clip(label, self.width))
        ));
    }
}

impl Panel for Plot {
    fn draw(&self, width: f64, height: f64) -> String {
        let room = Room::new(width, height, &self.y);
        let mut out = String::new();
        room.frame(&mut out);
        room.x_axis(&self.x, &mut out);
        for guide in &self.guides {
            guide.draw(&room, &self.x, &mut out);
        }
        for (index, line) in self.lines.iter().enumerate() {
            // Lines that lie on each other all stay visible.
            let below = (self.lines.len() - index - 1).min(3) as f64;
            line.draw(&room, &self.x, 1.6 + 0.7 * below, &mut out);
        }
        if self.lines.iter().all(|line| line.points.is_empty()) {
            out.push_str(&format!(
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">no values\
                 </text>",
                room.left + room.width / 2.0,
                room.top + room.height / 2.0
            ));
        }
        out
    }
}

impl Line {
    fn draw(&self, room: &Room<'_>, scale: &Scale, width: f64, out: &mut String) {
        let class = self.slot % SLOTS;
        for &(x, low, high) in &self.whiskers {
            let (x, low, high) = (room.x(scale, x), room.y(low), room.y(high));
            out.push_str(&format!(
                "<path class=\"s{class}\" stroke-width=\"1.2\" d=\"M{x:.1} {low:.1}V{high:.1}\
                 M{:.1} {low:.1}h6M{:.1} {high:.1}h6\"/>",
                x - 3.0,
                x - 3.0
            ));
        }
        let mut path = String::new();
        let mut places = Vec::new();
        let mut pen_down = false;
        for &(x, y) in &self.points {
            if !x.is_finite() || !y.is_finite() {
                pen_down = false;
                continue;
            }
            let (x, y) = (room.x(scale, x), room.y(y));
            match (pen_down, self.style) {
                (true, Style::Steps) => path.push_str(&format!("H{x:.1}V{y:.1}")),
                (false, Style::Steps) => {
                    path.push_str(&format!("M{x:.1} {:.1}V{y:.1}", room.bottom()));
                }
                (true, _) => path.push_str(&format!("L{x:.1} {y:.1}")),
                (false, _) => path.push_str(&format!("M{x:.1} {y:.1}")),
            }
            pen_down = true;
            places.push((x, y));
        }
        let title = escape(&self.name);
        if self.style != Style::Points && !path.is_empty() {
            out.push_str(&format!(
                "<path class=\"s{class}\"{} stroke-width=\"{width:.1}\" d=\"{path}\">\
                 <title>{title}</title></path>",
                stroke(self.slot)
            ));
        }
        let marked: Vec<(f64, f64)> = match self.style {
            Style::Marked | Style::Points => places,
            Style::Plain => places.last().copied().into_iter().collect(),
            // One mark to tell lines apart without colour, each a little elsewhere.
            Style::Steps => {
                let share = 0.5 + 0.07 * (self.slot % 6) as f64;
                let at = (places.len() as f64 * share) as usize;
                places
                    .get(at)
                    .or(places.last())
                    .copied()
                    .into_iter()
                    .collect()
            }
        };
        for (x, y) in marked {
            out.push_str(&mark(self.slot, x, y));
        }
    }
}

impl Guide {
    fn draw(&self, room: &Room<'_>, scale: &Scale, out: &mut String) {
        if !self.value.is_finite() {
            return;
        }
        let (left, top) = (room.left, room.top);
        let (right, bottom) = (left + room.width, room.bottom());
        let (path, x, y) = if self.upright {
            let x = room.x(scale, self.value);
            (format!("M{x:.1} {top:.1}V{bottom:.1}"), x + 4.0, top + 10.0)
        } else {
            let y = room.y(self.value);
            (format!("M{left:.1} {y:.1}H{right:.1}"), left + 5.0, y - 5.0)
        };
        out.push_str(&format!(
            "<path class=\"rule\" d=\"{path}\"/>\
             <text class=\"ref\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
            escape(&self.label)
        ));
    }
}
