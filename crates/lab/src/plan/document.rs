//! A plan as a tree of values, with paths into it and back to its text.
//!
//! A path is dotted: `flow.main.workload.bytes`. In an array of tables an entry is named by its
//! `name`, or by its position.

use std::ops::Range;

use toml::{
    Spanned, Table, Value,
    de::{DeTable, DeValue},
};

/// Sets the value at `path`, making tables on the way; false when the way is blocked.
pub(super) fn set(table: &mut Table, path: &str, value: Value) -> bool {
    let Some((first, rest)) = path.split_once('.') else {
        table.insert(path.to_owned(), value);
        return true;
    };
    let inner = table
        .entry(first.to_owned())
        .or_insert_with(|| Value::Table(Table::new()));
    match inner {
        Value::Table(inner) => set(inner, rest, value),
        Value::Array(entries) => {
            let (name, rest) = rest.split_once('.').unwrap_or((rest, ""));
            let position = entries
                .iter()
                .position(|entry| is_named(entry, name))
                .or_else(|| name.parse().ok());
            match position.and_then(|at| entries.get_mut(at)) {
                Some(Value::Table(entry)) if !rest.is_empty() => set(entry, rest, value),
                Some(entry) if rest.is_empty() => {
                    *entry = value;
                    true
                }
                _ => false,
            }
        }
        _ => false,
    }
}

fn is_named(entry: &Value, name: &str) -> bool {
    entry.get("name").and_then(Value::as_str) == Some(name)
}

/// Where in the text the deepest known part of `path` stands.
///
/// What is given for both directions of a link stands there without `up` and `down`, what only
/// the small version sets stands in `[smoke]`.
pub(super) fn locate(text: &str, path: &str) -> Option<Range<usize>> {
    let table = DeTable::parse(text).ok()?;
    let both = path.replace(".up.", ".").replace(".down.", ".");
    let mut best: Option<Found> = None;
    for way in [path, &both] {
        let mut found = None;
        walk(table.get_ref(), way, 1, &mut found);
        if found.as_ref().map(|f| f.depth) > best.as_ref().map(|f| f.depth) {
            best = found;
        }
    }
    if best.is_none() {
        walk(table.get_ref(), &format!("smoke.{path}"), 1, &mut best);
    }
    best.map(|found| found.span)
}

struct Found {
    span: Range<usize>,
    /// Parts of the path that were found.
    depth: usize,
}

fn walk(table: &DeTable<'_>, path: &str, depth: usize, found: &mut Option<Found>) {
    let (first, rest) = match path.split_once('.') {
        Some((first, rest)) => (first, rest),
        None => (path, ""),
    };
    // `links[2]` is how errors name an entry of an array.
    let (first, index) = match first.split_once('[') {
        Some((first, index)) => (first, index.trim_end_matches(']').parse::<usize>().ok()),
        None => (first, None),
    };
    let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == first) else {
        return;
    };
    *found = Some(Found {
        span: key.span(),
        depth,
    });
    descend(value, rest, index, depth + 1, found);
}

fn descend(
    value: &Spanned<DeValue<'_>>,
    rest: &str,
    index: Option<usize>,
    depth: usize,
    found: &mut Option<Found>,
) {
    match value.get_ref() {
        DeValue::Table(inner) if !rest.is_empty() => walk(inner, rest, depth, found),
        DeValue::Array(entries) => {
            let (at, rest) = match index {
                Some(index) => (Some(index), rest),
                None => {
                    let (name, rest) = rest.split_once('.').unwrap_or((rest, ""));
                    let named = |entry: &Spanned<DeValue<'_>>| match entry.get_ref() {
                        DeValue::Table(table) => table.iter().any(|(key, value)| {
                            key.get_ref() == "name"
                                && matches!(value.get_ref(), DeValue::String(text) if text == name)
                        }),
                        _ => false,
                    };
                    (
                        entries.iter().position(named).or_else(|| name.parse().ok()),
                        rest,
                    )
                }
            };
            if let Some(entry) = at.and_then(|at| entries.get(at)) {
                *found = Some(Found {
                    span: entry.span(),
                    depth,
                });
                if let DeValue::Table(inner) = entry.get_ref()
                    && !rest.is_empty()
                {
                    walk(inner, rest, depth + 1, found);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = 'x'\n[network]\nlink = 'geo'\n\n[[flow]]\nname = 'main'\n\
                        workload = { kind = 'bulk', bytes = '1 MB' }\n";

    #[test]
    fn paths_reach_into_arrays_by_name() {
        let mut table: Table = TEXT.parse().unwrap();
        assert!(set(&mut table, "flow.main.workload.bytes", "2 MB".into()));
        assert!(set(&mut table, "network.down.rate", "1 Mb/s".into()));
        assert!(!set(&mut table, "flow.other.count", 2.into()));
        assert!(!set(&mut table, "title.inner", 2.into()));
        assert_eq!(table["flow"][0]["workload"]["bytes"].as_str(), Some("2 MB"));
        assert_eq!(table["network"]["down"]["rate"].as_str(), Some("1 Mb/s"));
    }

    #[test]
    fn paths_lead_back_to_lines() {
        let line = |path: &str| {
            let at = locate(TEXT, path).unwrap().start;
            TEXT[..at].matches('\n').count() + 1
        };
        assert_eq!(line("network.link"), 3);
        assert_eq!(line("network.qeue"), 2);
        assert_eq!(line("flow.main.workload.bytes"), 7);
        assert_eq!(line("flow[0].name"), 6);
        assert_eq!(locate(TEXT, "nothing"), None);
    }
}
