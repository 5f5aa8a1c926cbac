//! How a figure is printed: `.2`, `~3`, `.1%`, or as it stands on its page.

use anyhow::{Context, Result, bail};

/// What stands before a placeholder's path.
#[derive(Clone, Copy, Default)]
pub(super) struct Format {
    pub(super) pick: Pick,
    pub(super) end: End,
    digits: Option<Digits>,
    percent: bool,
}

/// Which of several figures.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Pick {
    /// There must be one alone.
    #[default]
    Only,
    Least,
    Greatest,
}

/// What of a cell such as `36.00 [35.37, 36.19]`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum End {
    /// What stands before the bracket.
    #[default]
    Value,
    /// The lower end of its interval.
    Low,
    High,
}

#[derive(Clone, Copy)]
enum Digits {
    Decimals(usize),
    Significant(usize),
}

/// More than pages have.
const MOST_DIGITS: usize = 9;

impl Format {
    /// Takes `word` if it is one of a format's; says whether it was.
    pub(super) fn take(&mut self, word: &str) -> Result<bool> {
        match word {
            "min" => self.pick = Pick::Least,
            "max" => self.pick = Pick::Greatest,
            "low" => self.end = End::Low,
            "high" => self.end = End::High,
            _ if word.starts_with(['.', '~']) => {
                let number = word.trim_start_matches(['.', '~']);
                let (number, percent) = match number.strip_suffix('%') {
                    Some(number) => (number, true),
                    None => (number, false),
                };
                let digits: usize = number
                    .parse()
                    .ok()
                    .filter(|digits| *digits <= MOST_DIGITS)
                    .with_context(|| format!("`{word}` is no format such as .2, ~3 or .1%"))?;
                self.percent = percent;
                self.digits = Some(match word.starts_with('~') {
                    true if digits == 0 => bail!("`{word}` asks for no digit at all"),
                    true => Digits::Significant(digits),
                    false => Digits::Decimals(digits),
                });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `text` is how the page has the value, if one cell of it has.
    pub(super) fn print(&self, value: f64, text: Option<&str>) -> Result<String> {
        let Some(digits) = self.digits else {
            let text = text.context("a quotient needs a format, such as .2 or ~3")?;
            return Ok(grouped(text));
        };
        let value = if self.percent { value * 100.0 } else { value };
        let text = match digits {
            Digits::Decimals(decimals) => format!("{value:.decimals$}"),
            Digits::Significant(digits) => significant(value, digits),
        };
        let unit = if self.percent { " %" } else { "" };
        Ok(format!("{}{unit}", grouped(&text)))
    }
}

/// 0.98214 is 0.982 with three, 16.504 is 16.5; what stands before the point is shown whole, 1917 is 1917.
fn significant(value: f64, digits: usize) -> String {
    // The exponent after rounding to so many: 9.996 is 10.0 with three.
    let rounded = format!("{value:.*e}", digits.saturating_sub(1));
    let exponent = rounded.split_once('e').map(|(_, exponent)| exponent);
    let exponent: i32 = exponent.and_then(|e| e.parse().ok()).unwrap_or_default();
    let digits = i32::try_from(digits).unwrap_or_default();
    let decimals = usize::try_from(digits - 1 - exponent).unwrap_or_default();
    format!("{value:.decimals$}")
}

/// 10000 is 10,000.
fn grouped(text: &str) -> String {
    let start = text.len() - text.trim_start_matches(['-', '+']).len();
    let whole = text.get(start..).unwrap_or_default();
    let whole = whole.chars().take_while(char::is_ascii_digit).count();
    let mut out = String::with_capacity(text.len() + whole / 3);
    for (at, c) in text.chars().enumerate() {
        let left = (start + whole).saturating_sub(at);
        if at > start && left > 0 && left.is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}
