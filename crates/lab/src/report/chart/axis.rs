//! Axes: round numbers for ticks, and the mapping from values to places in a picture.

/// Ticks from zero to at least a given value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ticks {
    /// Distance between two ticks: 1, 2 or 5 times a power of ten.
    pub(super) step: f64,
    /// Ticks above zero.
    pub(super) count: u32,
}

impl Ticks {
    /// About `wanted` ticks over `0..=max`. A `max` that is not a positive number counts as 1.
    pub(super) fn new(max: f64, wanted: u32) -> Self {
        let max = if max.is_finite() && max > 0.0 {
            max
        } else {
            1.0
        };
        let raw = max / f64::from(wanted.max(1));
        let magnitude = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * magnitude)
            .find(|step| *step >= raw * 0.999_999)
            .unwrap_or(10.0 * magnitude);
        // A value a hair above a tick (rounding) needs no further tick.
        let count = (max / step - 1e-6).ceil().clamp(1.0, 1000.0) as u32;
        Self { step, count }
    }

    /// The last tick.
    pub(super) fn top(&self) -> f64 {
        self.step * f64::from(self.count)
    }

    /// All ticks with their labels, zero first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (f64, String)> + '_ {
        (0..=self.count).map(|index| {
            let value = self.step * f64::from(index);
            (value, self.label(value))
        })
    }

    /// `value` with as many decimals as tell two ticks apart.
    fn label(&self, value: f64) -> String {
        let decimals = (-self.step.log10().floor()).clamp(0.0, 9.0) as usize;
        format!("{value:.decimals$}")
    }
}

/// The rectangle in which values are drawn, in picture units, and what its edges stand for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    /// The value at the right edge; the left is zero.
    pub(super) x_max: f64,
    /// The value at the upper edge; the lower is zero.
    pub(super) y_max: f64,
}

impl Frame {
    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Where `value` stands from the left of the picture.
    pub(super) fn x(&self, value: f64) -> f64 {
        self.left + self.width * value / self.x_max
    }

    /// Where `value` stands from the top of the picture; far above the frame it stops just outside.
    pub(super) fn y(&self, value: f64) -> f64 {
        self.bottom() - self.height * (value / self.y_max).clamp(0.0, 1.2)
    }

    /// Horizontal grid lines with labels on the left.
    pub(super) fn y_grid(&self, ticks: &Ticks, out: &mut String) {
        for (value, label) in ticks.iter() {
            if value > self.y_max * 1.000_001 {
                break;
            }
            let (left, right, y) = (self.left, self.right(), self.y(value));
            let class = if value == 0.0 { "axis" } else { "grid" };
            out.push_str(&format!(
                "<path class=\"{class}\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                left - 7.0,
                y + 4.0,
            ));
        }
    }

    /// Small marks with labels below.
    pub(super) fn x_marks(&self, ticks: &Ticks, out: &mut String) {
        for (value, label) in ticks.iter() {
            if value > self.x_max * 1.000_001 {
                break;
            }
            let (x, bottom) = (self.x(value), self.bottom());
            out.push_str(&format!(
                "<path class=\"axis\" d=\"M{x:.1} {bottom:.1}v4\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                bottom + 17.0,
            ));
        }
    }
}
