//! What is wrong with a plan: the line, the reason, the nearest valid name.

use std::{fmt, ops::Range, path::PathBuf};

use crate::reading::Misread;

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// The plan's file, if it has one.
    pub file: Option<PathBuf>,
    /// The line, from 1, as near to the fault as can be told.
    pub line: Option<usize>,
    /// The dotted path of the field; empty for the plan as a whole.
    pub field: String,
    /// The reason.
    pub problem: String,
    /// What was perhaps meant.
    pub nearest: Option<String>,
    /// What the text has wrong, where that is not the field.
    pub(super) place: Option<Box<Place>>,
}

/// What is said of a key that there is not.
pub(super) const NO_KEY: &str = "there is no such key";

/// The dotted path of a value in the text: that of a factor. In a box, for errors are handed up a long
/// way and most have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place(pub(super) String);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}", file.display())?,
            None => f.write_str("plan")?,
        }
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.problem)?;
        if let Some(nearest) = &self.nearest {
            write!(f, "; did you mean `{nearest}`?")?;
        }
        Ok(())
    }
}

impl std::error::Error for PlanError {}

impl PlanError {
    pub(super) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            file: None,
            line: None,
            field: field.into(),
            problem: problem.into(),
            nearest: None,
            place: None,
        }
    }

    /// Of a value that is not what it should be.
    pub(super) fn misread(field: &str, error: &Misread) -> Self {
        Self::of_serde(&join(field, &error.field), &error.message)
    }

    /// Of a message of serde's: takes the unknown name and the known ones out of it.
    pub(super) fn of_serde(field: &str, message: &str) -> Self {
        let message = message.trim();
        let mut error = Self::new(field, message);
        let mut quoted = message.split('`').skip(1).step_by(2);
        let unknown = message.starts_with("unknown field")
            || message.starts_with("unknown variant")
            || message.starts_with("no variant");
        if unknown && let Some(wrong) = quoted.next() {
            let known: Vec<&str> = quoted.collect();
            error.nearest = nearest(wrong, known.iter().copied());
            if message.starts_with("unknown field") {
                if field.rsplit('.').next() != Some(wrong) {
                    error.field = join(field, wrong);
                }
                error.problem = match known.is_empty() {
                    true => NO_KEY.to_owned(),
                    false => format!("{NO_KEY}; known are {}", known.join(", ")),
                };
            }
        }
        error
    }

    /// Whether the field is one that there is not.
    pub(super) fn is_of_no_key(&self) -> bool {
        self.problem.starts_with(NO_KEY)
    }

    /// With what was perhaps meant among `names`, which are not listed otherwise.
    pub(super) fn with_nearest(mut self, wrong: &str, names: &[String]) -> Self {
        self.nearest = nearest(wrong, names.iter().map(String::as_str));
        self
    }

    /// With what was perhaps meant among `names`, or all of them.
    pub(super) fn with_names(mut self, wrong: &str, names: &[String]) -> Self {
        self.nearest = nearest(wrong, names.iter().map(String::as_str));
        if self.nearest.is_none() && !names.is_empty() {
            self.problem = format!("{}; there are {}", self.problem, names.join(", "));
        }
        self
    }

    /// With the line of a value that stands at `span`, or of what the reason quotes of it.
    pub(super) fn within(mut self, text: &str, span: Range<usize>) -> Self {
        let value = text.get(span.clone()).unwrap_or_default();
        let quoted = self.problem.split('"').nth(1);
        let quoted = quoted.filter(|quoted| !quoted.is_empty());
        let further = quoted.and_then(|quoted| value.find(&format!("\"{quoted}\"")));
        let before = text.get(..span.start + further.unwrap_or(0));
        self.line = before.map(|before| before.matches('\n').count() + 1);
        self
    }

    pub(super) fn at(mut self, text: &str, span: Option<Range<usize>>) -> Self {
        if let Some(span) = span {
            // The value that the reason quotes is nearer to the fault than its section.
            let quoted = self
                .problem
                .split('"')
                .nth(1)
                .filter(|value| !value.is_empty());
            let after = text.get(span.start..).unwrap_or_default();
            let further = quoted
                .and_then(|value| after.find(&format!("\"{value}\"")))
                .unwrap_or(0);
            let before = text.get(..span.start + further).unwrap_or(text);
            self.line = Some(before.matches('\n').count() + 1);
        }
        self
    }
}

/// Two parts of a dotted path.
pub(super) fn join(outer: &str, inner: &str) -> String {
    match (outer.is_empty(), inner.is_empty()) {
        (true, _) => inner.to_owned(),
        (_, true) => outer.to_owned(),
        _ => format!("{outer}.{inner}"),
    }
}

/// The name that needs the fewest changes, if it needs few; else the first that begins so.
pub fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    let length = wrong.chars().count();
    let near = names
        .clone()
        .map(|name| (distance(wrong, name), name))
        .min()
        .filter(|(changes, _)| *changes <= (length / 3).max(2))
        .map(|(_, name)| name);
    let mut begun = names.filter(|name| length > 2 && name.starts_with(wrong));
    near.or_else(|| begun.next()).map(str::to_owned)
}

/// Insertions, deletions and replacements that turn one word into the other; swapped neighbours
/// count once.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let above = &rows[i];
            let mut best = (above[j + 1] + 1)
                .min(row[j] + 1)
                .min(above[j] + usize::from(x != y));
            if i > 0 && j > 0 && a[i - 1] == *y && b[j - 1] == *x {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_near() {
        let names = ["bytes", "direction", "streams"];
        assert_eq!(nearest("byts", names.into_iter()), Some("bytes".into()));
        assert_eq!(nearest("bteys", names.into_iter()), Some("bytes".into()));
        assert_eq!(nearest("colour", names.into_iter()), None);
        assert_eq!(nearest("", names.into_iter()), None);
        assert_eq!(nearest("dir", names.into_iter()), Some("direction".into()));
        assert_eq!(nearest("di", names.into_iter()), None);
    }

    #[test]
    fn serdes_words_become_ours() {
        let error = PlanError::of_serde(
            "flow.main",
            "unknown field `cuont`, expected one of `name`, `count`",
        );
        assert_eq!(error.field, "flow.main.cuont");
        assert_eq!(error.nearest.as_deref(), Some("count"));
        let error = PlanError::of_serde("x", "missing field `bytes`");
        assert_eq!(error.problem, "missing field `bytes`");
    }
}
