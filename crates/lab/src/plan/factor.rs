//! Factors: what varies from point to point, and the values it takes.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, de::Error as _};
use toml::{Table, Value};

/// Something that varies. Exactly one of `values` and `range` is given.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Factor {
    /// Its column.
    pub(super) name: String,
    /// What it sets, as a path into the plan: `network.loss`, `flow.main.workload.bytes`,
    /// `solution.receive_window`, `run.limit`.
    #[serde(default)]
    pub(super) path: Option<String>,
    /// Several paths that get the same value.
    #[serde(default)]
    pub(super) paths: Vec<String>,
    /// The values. One that is a table with a `label` sets each of its other keys as a path.
    #[serde(default, deserialize_with = "some")]
    pub(super) values: Vec<Value>,
    /// From and to, for space-filling designs.
    #[serde(default)]
    pub(super) range: Option<[f64; 2]>,
    /// Whether a range is filled evenly (`linear`) or by orders of magnitude (`log`).
    #[serde(default)]
    pub(super) scale: Scale,
    /// How a number of a range is written: `"{} ms"`. Without it, a number.
    #[serde(default)]
    pub(super) format: Option<String>,
    /// Digits after the point that a number of a range is rounded to.
    #[serde(default = "three")]
    pub(super) digits: usize,
}

/// A list that is given has something in it.
fn some<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Value>, D::Error> {
    let values = Vec::<Value>::deserialize(d)?;
    if values.is_empty() {
        return Err(D::Error::custom("the list is empty: nothing would vary"));
    }
    Ok(values)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Scale {
    #[default]
    Linear,
    Log,
}

const fn three() -> usize {
    3
}

/// One setting of a factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// What tables and figures show.
    pub label: String,
    /// The number behind it, if it is one.
    pub number: Option<f64>,
    /// Paths and their values.
    pub set: Vec<(String, Value)>,
}

impl Level {
    /// Whether a plan's report means this one: by label, else by number.
    pub fn is(&self, wanted: &Value) -> bool {
        self.label == label(wanted) || number(wanted).is_some_and(|n| self.number == Some(n))
    }
}

/// What tables show of a value.
pub(super) fn label(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl Factor {
    /// `listed`: its values stand in the points of a list, and need not stand here too.
    pub(super) fn check(&self, listed: bool) -> Result<(), (String, String)> {
        let wrong = |field: &str, problem: &str| Err((field.to_owned(), problem.to_owned()));
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if self.name.is_empty() || !self.name.chars().all(plain) {
            return wrong("name", "is not made of letters, digits, - and _");
        }
        match (&self.range, self.values.is_empty()) {
            (None, true) if !listed => {
                return wrong("values", "neither `values` nor `range` is given");
            }
            (Some(_), _) if listed => {
                let problem = "a list has no range to fill: its values stand in [[design.point]]";
                return wrong("range", problem);
            }
            (Some(_), false) => return wrong("range", "stands beside `values`; give one of them"),
            (Some([low, high]), _) => {
                if !(low.is_finite() && high.is_finite() && low < high) {
                    return wrong("range", "is not [from, to] with from below to");
                }
                if self.scale == Scale::Log && *low <= 0.0 {
                    return wrong("range", "a logarithmic range begins above 0");
                }
            }
            _ => {}
        }
        if self
            .format
            .as_ref()
            .is_some_and(|text| !text.contains("{}"))
        {
            return wrong("format", "has no {} where the number goes");
        }
        if self.digits > 12 {
            return wrong("digits", "at most 12");
        }
        if let Some((_, label)) = self.repeated() {
            let problem = format!("two are called {label:?}, and nothing would tell them apart");
            return wrong("values", &problem);
        }
        let labelled = |value: &Value| value.get("label").is_some();
        let all_labelled = !self.values.is_empty() && self.values.iter().all(labelled);
        if !self.sets_something() && !all_labelled && !listed {
            return wrong("path", "nothing says what it sets");
        }
        Ok(())
    }

    /// Whether it says what its values set, where they do not say so themselves.
    pub(super) fn sets_something(&self) -> bool {
        self.path.is_some() || !self.paths.is_empty()
    }

    /// The first value that is called as one before it: its position and its label.
    pub(super) fn repeated(&self) -> Option<(usize, String)> {
        let mut labels = BTreeSet::new();
        let labelled = self.levels().into_iter().map(|level| level.label);
        let mut labelled = labelled.enumerate();
        labelled.find(|(_, label)| !labels.insert(label.clone()))
    }

    /// Whether a value sets paths of its own instead of the factor's.
    pub(super) fn is_labelled(value: &Value) -> bool {
        value.get("label").is_some_and(Value::is_str)
    }

    /// The levels of a factor with values.
    pub(super) fn levels(&self) -> Vec<Level> {
        self.values.iter().map(|value| self.level(value)).collect()
    }

    /// The level of a value, which need not be among the listed ones.
    pub(super) fn level(&self, value: &Value) -> Level {
        if let Some(table) = value.as_table()
            && let Some(label) = table.get("label").and_then(Value::as_str)
        {
            let set = table
                .iter()
                .filter(|(key, _)| *key != "label" && *key != "number")
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            return Level {
                label: label.to_owned(),
                number: table.get("number").and_then(number),
                set,
            };
        }
        let label = label(value);
        Level {
            number: number(value).or_else(|| leading_number(&label)),
            label,
            set: self
                .path
                .iter()
                .chain(&self.paths)
                .map(|path| (path.clone(), value.clone()))
                .collect(),
        }
    }

    /// The level at `share` of the way through the range.
    pub(super) fn at(&self, share: f64) -> Level {
        let [low, high] = self.range.unwrap_or_default();
        let value = match self.scale {
            Scale::Linear => low + (high - low) * share,
            Scale::Log => (low.ln() + (high.ln() - low.ln()) * share).exp(),
        };
        let text = format!("{value:.*}", self.digits);
        let rounded: f64 = text.parse().unwrap_or(value);
        let value = match &self.format {
            Some(format) => Value::String(format.replacen("{}", &text, 1)),
            None if self.digits == 0 => Value::Integer(rounded as i64),
            None => Value::Float(rounded),
        };
        Level {
            number: Some(rounded),
            ..self.level(&value)
        }
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(n) => Some(*n as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}

/// The number of `"12.5 ms"`.
fn leading_number(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ')?;
    let plain = unit
        .chars()
        .all(|c| c.is_ascii_alphabetic() || c == '/' || c == '%');
    number.parse().ok().filter(|_| plain)
}

/// A point of a `list` design: values by factor name.
pub(super) type ListedPoint = Table;
