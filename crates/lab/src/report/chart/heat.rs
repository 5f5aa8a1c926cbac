//! Heat maps of ratios.

use super::{
    escape,
    picture::{Panel, clip},
    scale::short,
};

/// Ratios over two factors; 1 is white.
#[derive(Debug)]
pub struct HeatMap {
    /// What lies along the bottom, with the names of its levels.
    pub x: (String, Vec<String>),
    /// What goes up, with the names of its levels, the lowest first.
    pub y: (String, Vec<String>),
    /// Rows from the lowest, each from the left.
    pub ratios: Vec<Vec<Option<f64>>>,
    /// Whether a ratio above 1 is good; `None` when neither is.
    pub more_is_better: Option<bool>,
}

/// The ratio at which a colour is full.
const FULL: f64 = 2.0;

impl Panel for HeatMap {
    fn draw(&self, width: f64, height: f64) -> String {
        let (columns, rows) = (self.x.1.len().max(1), self.y.1.len().max(1));
        let left = 92.0;
        let (top, below) = (22.0, 44.0);
        let wide = (width - left - 8.0) / columns as f64;
        let high = (height - top - below) / rows as f64;
        let bottom = height - below;
        let mut out = format!(
            "<text class=\"unit\" x=\"4\" y=\"12\">{}</text>\
             <text class=\"unit\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            escape(&clip(&self.y.0, width)),
            left + (width - left) / 2.0,
            bottom + 36.0,
            escape(&clip(&self.x.0, width - left))
        );
        for (row, values) in self.ratios.iter().enumerate() {
            let y = bottom - high * (row as f64 + 1.0);
            for (column, ratio) in values.iter().enumerate() {
                let x = left + wide * column as f64;
                let text = ratio.map_or_else(|| "-".to_owned(), short);
                out.push_str(&format!(
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                     fill=\"{}\"/>",
                    (wide - 1.0).max(0.5),
                    (high - 1.0).max(0.5),
                    self.colour(*ratio)
                ));
                if wide > 30.0 && high > 12.0 {
                    out.push_str(&format!(
                        "<text class=\"on\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}\
                         </text>",
                        x + wide / 2.0,
                        y + high / 2.0 + 4.0
                    ));
                }
            }
        }
        for (row, label) in self.y.1.iter().enumerate() {
            out.push_str(&format!(
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 6.0,
                bottom - high * (row as f64 + 0.5) + 4.0,
                escape(&clip(label, left - 8.0))
            ));
        }
        for (column, label) in self.x.1.iter().enumerate() {
            out.push_str(&format!(
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                left + wide * (column as f64 + 0.5),
                bottom + 17.0,
                escape(&clip(label, wide))
            ));
        }
        out
    }
}

impl HeatMap {
    /// Blue where the solution is better (or, when neither is, lower), orange where it is worse;
    /// both light enough for dark digits on them, on any paper.
    fn colour(&self, ratio: Option<f64>) -> String {
        const NONE: &str = "#bdbdbd";
        let Some(ratio) = ratio.filter(|r| r.is_finite() && *r >= 0.0) else {
            return NONE.to_owned();
        };
        let share = if ratio > 0.0 {
            (ratio.ln() / FULL.ln()).clamp(-1.0, 1.0)
        } else {
            -1.0
        };
        let good = match self.more_is_better {
            Some(true) => share > 0.0,
            _ => share < 0.0,
        };
        let towards: [f64; 3] = if good {
            [92.0, 170.0, 226.0]
        } else {
            [240.0, 156.0, 72.0]
        };
        let [r, g, b] = towards.map(|full| (247.0 + (full - 247.0) * share.abs()).round() as u8);
        format!("#{r:02x}{g:02x}{b:02x}")
    }
}
