//! Box plots.

use super::{
    escape,
    picture::{Panel, clip},
    plot::Room,
    scale::Scale,
    style::{SLOTS, mark},
};
use crate::stats::Spread;

/// Boxes side by side in named groups: whiskers from the 5th to the 95th percentile, boxes between
/// the quartiles, a line at the median, dots for what lies outside.
#[derive(Debug)]
pub struct BoxPlot {
    /// Upwards.
    pub y: Scale,
    /// What the groups are.
    pub x_label: String,
    /// Left to right.
    pub groups: Vec<BoxGroup>,
}

/// Boxes that belong together.
#[derive(Debug)]
pub struct BoxGroup {
    /// Under the group.
    pub name: String,
    /// Palette place, name and spread of each box; `None` where there is no value.
    pub boxes: Vec<(usize, String, Option<Spread>)>,
}

/// Dots drawn at most beside a box.
const MOST_DOTS: usize = 40;

impl Panel for BoxPlot {
    fn draw(&self, width: f64, height: f64) -> String {
        let room = Room::new(width, height, &self.y);
        let mut out = String::new();
        room.frame(&mut out);
        room.x_label(&self.x_label, &mut out);
        let each = room.width / self.groups.len().max(1) as f64;
        for (index, BoxGroup { name, boxes }) in self.groups.iter().enumerate() {
            let middle = room.left + each * (index as f64 + 0.5);
            let step = (each * 0.8 / boxes.len().max(1) as f64).min(46.0);
            let first = middle - step * (boxes.len() as f64 - 1.0) / 2.0;
            for (place, (slot, name, spread)) in boxes.iter().enumerate() {
                let x = first + step * place as f64;
                match spread {
                    Some(spread) => one(&room, *slot, name, spread, x, step * 0.62, &mut out),
                    None => out.push_str(&format!(
                        "<text class=\"bad\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">\u{d7}\
                         <title>{}: no value</title></text>",
                        room.bottom() - 4.0,
                        escape(name)
                    )),
                }
            }
            out.push_str(&format!(
                "<text class=\"tick\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}\
                 </text>",
                room.bottom() + 17.0,
                escape(&clip(name, each - 4.0))
            ));
        }
        out
    }
}

fn one(room: &Room<'_>, slot: usize, name: &str, s: &Spread, x: f64, wide: f64, out: &mut String) {
    let class = slot % SLOTS;
    let (low, lower, median) = (room.y(s.low), room.y(s.lower), room.y(s.median));
    let (upper, high) = (room.y(s.upper), room.y(s.high));
    let (left, right) = (x - wide / 2.0, x + wide / 2.0);
    let (inner, outer) = (x - wide / 4.0, x + wide / 4.0);
    let title = escape(name);
    out.push_str(&format!(
        "<g><title>{title}</title><path class=\"s{class}\" stroke-width=\"1.4\" \
         d=\"M{x:.1} {low:.1}V{lower:.1}M{x:.1} {upper:.1}V{high:.1}\
         M{inner:.1} {low:.1}H{outer:.1}M{inner:.1} {high:.1}H{outer:.1}\"/>\
         <rect class=\"s{class} b{class}\" stroke-width=\"1.4\" x=\"{left:.1}\" y=\"{upper:.1}\" \
         width=\"{wide:.1}\" height=\"{:.1}\"/>\
         <path class=\"s{class}\" stroke-width=\"3\" d=\"M{left:.1} {median:.1}H{right:.1}\"/>",
        (lower - upper).max(0.5)
    ));
    out.push_str(&mark(slot, x, median));
    let stride = s.outside.len().div_ceil(MOST_DOTS).max(1);
    for value in s.outside.iter().step_by(stride) {
        out.push_str(&format!(
            "<circle class=\"f{class}\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"1.6\"/>",
            room.y(*value)
        ));
    }
    out.push_str("</g>");
}
