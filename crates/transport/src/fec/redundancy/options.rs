//! Options as they are written behind a scheduler's name.
//!
//! Owns: splitting `5,4` and `initial=10,slow-start=off`, numbers and switches in ranges.
//! Does not own: which options a scheduler has (`registry.rs`).

use std::{cell::OnceCell, fmt::Display, ops::RangeInclusive, str::FromStr};

/// Options of one scheduler: numbers by their place first, then `key=value` pairs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Options<'a> {
    by_place: Vec<u32>,
    by_key: Vec<(&'a str, &'a str)>,
    refused: OnceCell<Refused>,
}

/// A value that its option does not take.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refused {
    /// Which option.
    pub(super) key: &'static str,
    /// What was written behind the `=`.
    pub(super) given: String,
    /// What may be.
    pub(super) takes: String,
}

impl<'a> Options<'a> {
    /// `None` for what is neither, for a place behind a key, and for a key that comes twice.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let mut options = Self::default();
        let items = text.split(',').filter(|_| !text.trim().is_empty());
        for item in items {
            if let Some((key, value)) = item.split_once('=') {
                let (key, value) = (key.trim(), value.trim());
                if options.value(key).is_some() {
                    return None;
                }
                options.by_key.push((key, value));
            } else if options.by_key.is_empty() {
                options.by_place.push(item.trim().parse().ok()?);
            } else {
                return None;
            }
        }
        Some(options)
    }

    /// The numbers without a key; `None` if there are keys.
    pub(super) fn places(&self) -> Option<&[u32]> {
        self.by_key.is_empty().then_some(&self.by_place)
    }

    /// The numbers without a key, whatever keys follow.
    pub(super) fn before_keys(&self) -> &[u32] {
        &self.by_place
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.by_place.is_empty() && self.by_key.is_empty()
    }

    /// Whether none is a number without a key.
    pub(super) fn are_by_key(&self) -> bool {
        self.by_place.is_empty()
    }

    /// The first key that is not among these.
    pub(super) fn unknown(&self, keys: &[&str]) -> Option<&'a str> {
        let mut given = self.by_key.iter().map(|(key, _)| *key);
        given.find(|key| !keys.contains(key))
    }

    /// Whether this key is given.
    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    fn value(&self, key: &str) -> Option<&'a str> {
        let found = self.by_key.iter().find(|(known, _)| *known == key);
        found.map(|(_, value)| *value)
    }

    /// The first value that was refused.
    pub(super) fn refused(&self) -> Option<&Refused> {
        self.refused.get()
    }

    fn refuse<T>(&self, key: &'static str, given: &str, takes: String) -> Option<T> {
        self.refused.get_or_init(|| Refused {
            key,
            given: given.to_owned(),
            takes,
        });
        None
    }

    /// A number; `default` if it is not given, `None` if it is none or out of its range.
    pub(super) fn number(
        &self,
        key: &'static str,
        default: f64,
        range: RangeInclusive<f64>,
    ) -> Option<f64> {
        self.within(key, default, range, "a number")
    }

    /// A whole number, in the same way.
    pub(super) fn count(
        &self,
        key: &'static str,
        default: u16,
        range: RangeInclusive<u16>,
    ) -> Option<u16> {
        self.within(key, default, range, "a whole number")
    }

    fn within<T: Display + FromStr + PartialOrd>(
        &self,
        key: &'static str,
        default: T,
        range: RangeInclusive<T>,
        what: &str,
    ) -> Option<T> {
        let Some(text) = self.value(key) else {
            return Some(default);
        };
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.or_else(|| {
            let takes = format!("{what} from {} to {}", range.start(), range.end());
            self.refuse(key, text, takes)
        })
    }

    /// `on` or `off`.
    pub(super) fn switch(&self, key: &'static str, default: bool) -> Option<bool> {
        match self.value(key) {
            None => Some(default),
            Some("on") => Some(true),
            Some("off") => Some(false),
            Some(other) => self.refuse(key, other, "on or off".to_owned()),
        }
    }
}

/// Which of these names is most like `given`: fewest letters to add, to drop or to change, at most half of
/// them.
pub(super) fn nearest<'a>(given: &str, names: &[&'a str]) -> Option<&'a str> {
    let far = names.iter().map(|name| (distance(given, name), *name));
    let (distance, near) = far.min_by_key(|(distance, _)| *distance)?;
    (2 * distance <= given.len().max(near.len())).then_some(near)
}

/// Levenshtein's distance, of the first 64 letters.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, b) in b.chars().take(64).enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (a, above) in a.iter().zip(row.iter().skip(1)) {
            let changed = diagonal + usize::from(*a != b);
            left = changed.min(left + 1).min(above + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_keys() {
        assert!(Options::parse("").unwrap().is_empty());
        let options = Options::parse("3, 2").unwrap();
        assert_eq!(options.places(), Some(&[3, 2][..]));
        let options = Options::parse("gamma = 0.5,slow-start=off,rtts=4").unwrap();
        assert!(options.are_by_key() && options.places().is_none());
        assert_eq!(options.number("gamma", 1.0, 0.0..=100.0), Some(0.5));
        assert_eq!(options.number("delta", 33.0, 0.0..=99.0), Some(33.0));
        assert_eq!(options.number("gamma", 1.0, 1.0..=2.0), None);
        assert_eq!(options.switch("slow-start", true), Some(false));
        assert_eq!(options.switch("gamma", true), None);
        assert_eq!(options.count("rtts", 3, 1..=9), Some(4));
        assert_eq!(options.count("gamma", 3, 1..=9), None);
        assert_eq!(options.unknown(&["gamma", "slow-start", "rtts"]), None);
        assert_eq!(options.unknown(&["gamma"]), Some("slow-start"));
        for text in ["a", "a=1,2", "a=1,a=2", "1,,2", "-1"] {
            assert_eq!(Options::parse(text), None, "{text}");
        }
        let options = Options::parse("gamma=nan,delta=inf").unwrap();
        assert_eq!(options.number("gamma", 1.0, 0.0..=100.0), None);
        assert_eq!(options.number("delta", 1.0, 0.0..=100.0), None);
        // The first that was refused is what the user is told of.
        let refused = Refused {
            key: "gamma",
            given: "nan".to_owned(),
            takes: "a number from 0 to 100".to_owned(),
        };
        assert_eq!(options.refused(), Some(&refused));
    }

    #[test]
    fn the_name_that_was_meant() {
        let names = ["initial", "gamma", "slow-start"];
        for (given, meant) in [
            ("intial", "initial"),
            ("gama", "gamma"),
            ("slowstart", "slow-start"),
        ] {
            assert_eq!(nearest(given, &names), Some(meant));
        }
        assert_eq!(nearest("x", &[]), None);
        assert_eq!(nearest("frobnicate", &names), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
