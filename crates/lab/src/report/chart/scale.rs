//! Scales of plots: from any values to round numbers on an axis, linear or logarithmic.
//!
//! `axis.rs` is for charts that begin at zero; these need not.

/// How an axis is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Whether zero is on a linear axis.
    pub from_zero: bool,
    /// Whether a logarithmic axis is allowed: taken when all values are positive and the largest
    /// is more than 30 times the smallest.
    pub may_be_log: bool,
    /// Whether it is logarithmic whenever all values are positive.
    pub log: bool,
}

/// Spread from which on a logarithmic axis is easier to read.
const LOG_FROM: f64 = 30.0;

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// What it shows, with its unit.
    pub label: String,
    /// Whether equal distances are equal ratios.
    pub log: bool,
    low: f64,
    high: f64,
    /// Marks: place and text.
    pub ticks: Vec<(f64, String)>,
}

impl Scale {
    /// Around `values`; those that are not finite do not count.
    pub fn fit(
        label: impl Into<String>,
        values: impl IntoIterator<Item = f64>,
        wish: Wish,
        wanted: u32,
    ) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        // Beyond these, differences overflow.
        for value in values {
            if value.is_finite() && value.abs() < 1e300 {
                low = low.min(value);
                high = high.max(value);
            }
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let log = low > 1e-300 && (wish.log || wish.may_be_log && high / low > LOG_FROM);
        let label = label.into();
        if log {
            Self::logarithmic(label, low, high)
        } else {
            Self::linear(label, low, high, wish.from_zero, wanted)
        }
    }

    fn linear(label: String, low: f64, high: f64, from_zero: bool, wanted: u32) -> Self {
        let (mut low, mut high) = if from_zero {
            (low.min(0.0), high.max(0.0))
        } else {
            (low, high)
        };
        if high - low <= high.abs().max(low.abs()) * 1e-9 {
            // All equal: room on both sides.
            let room = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
            (low, high) = (low - room, high + room);
            if from_zero && low < 0.0 && high > 0.0 {
                low = 0.0;
            }
        }
        let raw = (high - low) / f64::from(wanted.max(1));
        let magnitude = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * magnitude)
            .find(|step| *step >= raw * 0.999_999)
            .unwrap_or(10.0 * magnitude);
        let first = (low / step + 1e-6).floor();
        let last = (high / step - 1e-6).ceil().min(first + 1000.0);
        let ticks = (0..=(last - first) as u32)
            .map(|index| {
                let value = (first + f64::from(index)) * step;
                (value, tick_text(value, step))
            })
            .collect();
        Self {
            label,
            log: false,
            low: first * step,
            high: last * step,
            ticks,
        }
    }

    fn logarithmic(label: String, low: f64, high: f64) -> Self {
        let (mut low, mut high) = (low, high);
        if high / low < 1.2 {
            (low, high) = (low / 1.2, high * 1.2);
        }
        // Round numbers on the way, fewer of them over more decades.
        let decades = (high / low).log10();
        let factors: &[f64] = match decades {
            d if d < 1.0 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            d if d < 3.0 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let every = if decades > 9.0 {
            (decades / 6.0) as i32
        } else {
            1
        };
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let mut marks: Vec<f64> = (first..=last)
            .step_by(every.max(1) as usize)
            .flat_map(|power| factors.iter().map(move |f| f * 10f64.powi(power)))
            .filter(|value| value.is_finite() && *value > 0.0)
            .collect();
        // From the mark at or below to that at or above, when that wastes no more than a third.
        let below = marks.iter().copied().rev().find(|m| *m <= low * 1.000_001);
        let above = marks.iter().copied().find(|m| *m >= high * 0.999_999);
        let span = (high / low).ln();
        if let Some(below) = below.filter(|b| (low / b).ln() < span / 3.0) {
            low = below;
        }
        if let Some(above) = above.filter(|a| (a / high).ln() < span / 3.0) {
            high = above;
        }
        marks.retain(|m| (low * 0.999_999..=high * 1.000_001).contains(m));
        Self {
            label,
            log: true,
            low,
            high,
            ticks: marks.into_iter().map(|m| (m, short(m))).collect(),
        }
    }

    /// The same with marks of its own, such as the levels of a factor.
    pub fn with_ticks(mut self, ticks: Vec<(f64, String)>) -> Self {
        self.ticks = ticks;
        self
    }

    /// Where `value` lies between the ends, in 0..=1; what lies outside is at the end.
    pub fn place(&self, value: f64) -> f64 {
        let share = if self.log {
            if value <= 0.0 {
                return 0.0;
            }
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        }
    }
}

fn tick_text(value: f64, step: f64) -> String {
    if value != 0.0 && !(1e-3..1e4).contains(&step) {
        return short(value);
    }
    let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    // Not "-0".
    format!("{:.decimals$}", if value == 0.0 { 0.0 } else { value })
}

/// A number in few characters, up to three significant digits: `1.5`, `20k`, `3M`.
pub fn short(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let size = value.abs();
    let (scaled, suffix) = match size {
        s if s >= 0.999_5e15 || s > 0.0 && s < 1e-4 => return format!("{value:.1e}"),
        s if s >= 0.999_5e12 => (value / 1e12, "T"),
        s if s >= 0.999_5e9 => (value / 1e9, "G"),
        s if s >= 0.999_5e6 => (value / 1e6, "M"),
        s if s >= 0.999_5e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = significant(scaled, 3);
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text}{suffix}")
}

/// `value` with so many significant digits, never in powers of ten unless very large or small.
pub fn significant(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs();
    if !(1e-6..1e12).contains(&size) {
        return format!("{value:.*e}", digits.saturating_sub(1));
    }
    let before = size.log10().floor() as i32;
    let decimals = (digits as i32 - 1 - before).clamp(0, 12) as usize;
    format!("{value:.decimals$}")
}
