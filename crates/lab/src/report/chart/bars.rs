//! Groups of bars.

use super::{
    axis::{Frame, Ticks},
    escape,
    style::SLOTS,
};

const WIDTH: f64 = 1140.0;
const HEIGHT: f64 = 300.0;
const WIDEST_BAR: f64 = 54.0;

/// Bars side by side in named groups.
#[derive(Debug)]
pub struct BarChart {
    /// What is shown, without its unit.
    pub title: String,
    /// A short line under the title.
    pub note: String,
    /// The unit of the values.
    pub y_unit: String,
    /// The groups, left to right.
    pub groups: Vec<BarGroup>,
}

/// Bars that belong together.
#[derive(Debug)]
pub struct BarGroup {
    /// Under the group.
    pub name: String,
    /// Palette place and value of each bar; `None` where there is no value.
    pub bars: Vec<(usize, Option<f64>)>,
    /// A level drawn across the group.
    pub bound: Option<f64>,
}

impl BarChart {
    fn largest(&self) -> f64 {
        let values = self.groups.iter().flat_map(|group| {
            let bars = group.bars.iter().filter_map(|bar| bar.1);
            bars.chain(group.bound)
        });
        values.filter(|value| value.is_finite()).fold(0.0, f64::max)
    }

    /// The chart as a `<figure>`.
    pub(super) fn to_html(&self) -> String {
        let ticks = Ticks::new(self.largest(), 5);
        let frame = Frame {
            left: 48.0,
            top: 28.0,
            width: WIDTH - 48.0 - 8.0,
            height: HEIGHT - 28.0 - 30.0,
            x_max: self.groups.len().max(1) as f64,
            y_max: ticks.top(),
        };
        let mut svg = String::new();
        frame.y_grid(&ticks, &mut svg);
        svg.push_str(&format!(
            "<text class=\"unit\" x=\"{:.1}\" y=\"14\" text-anchor=\"end\">{}</text>",
            frame.left - 7.0,
            escape(&self.y_unit)
        ));
        for (index, group) in self.groups.iter().enumerate() {
            group.draw(&frame, index as f64, &mut svg);
        }
        let title = escape(&self.title);
        format!(
            "<figure class=\"wide\"><figcaption>{title} ({})<small>{}</small></figcaption>\
             <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">{svg}</svg>\
             </figure>",
            escape(&self.y_unit),
            escape(&self.note),
        )
    }
}

impl BarGroup {
    /// Draws the group over `index..index + 1` of the x axis.
    fn draw(&self, frame: &Frame, index: f64, out: &mut String) {
        let room = frame.x(1.0) - frame.x(0.0);
        let count = self.bars.len().max(1) as f64;
        let width = (room * 0.72 / count).min(WIDEST_BAR);
        let middle = frame.x(index + 0.5);
        let left = middle - width * count / 2.0;
        for (place, (slot, value)) in self.bars.iter().enumerate() {
            let x = left + width * place as f64;
            let centre = x + width / 2.0;
            let y = frame.y(value.unwrap_or(0.0));
            let label = value.map_or_else(|| "failed".to_owned(), |value| format!("{value:.1}"));
            // A label that would stand on the bound's line stands above it.
            let level = self.bound.map(|bound| frame.y(bound));
            let above = level
                .filter(|level| (y - 19.0..=y).contains(level))
                .unwrap_or(y);
            out.push_str(&format!(
                "<rect class=\"f{}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>\
                 <text class=\"ref\" x=\"{centre:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}\
                 </text>",
                slot % SLOTS,
                x + 1.5,
                (width - 3.0).max(1.0),
                frame.bottom() - y,
                above - 5.0,
            ));
        }
        if let Some(bound) = self.bound {
            let y = frame.y(bound);
            out.push_str(&format!(
                "<path class=\"cap\" d=\"M{:.1} {y:.1}H{:.1}\"/>",
                left - 6.0,
                left + width * count + 6.0
            ));
        }
        out.push_str(&format!(
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            frame.bottom() + 20.0,
            escape(&self.name)
        ));
    }
}
