//! A plan as a tree of values, with paths into it and back to its text.
//!
//! A path is dotted: `flow.main.workload.bytes`. In an array of tables an entry is named by its
//! `name`, or by its position.

use std::ops::Range;

use toml::{
    Spanned, Table, Value,
    de::{DeTable, DeValue},
};

use super::error::PlanError;

/// Why a path leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blocked {
    /// The part of the path that is to blame.
    wrong: String,
    problem: String,
    /// What could stand there.
    names: Vec<String>,
}

impl Blocked {
    /// As an error of the field that has `path`.
    pub(super) fn told(self, field: &str, path: &str) -> PlanError {
        let problem = format!("{path:?} leads nowhere: {}", self.problem);
        PlanError::new(field, problem).with_names(&self.wrong, &self.names)
    }
}

/// Sets the value at `path`, making tables on the way.
pub(super) fn set(table: &mut Table, path: &str, value: Value) -> Result<(), Blocked> {
    let Some((first, rest)) = path.split_once('.') else {
        table.insert(path.to_owned(), value);
        return Ok(());
    };
    let no_keys = |what: &str| Blocked {
        wrong: what.to_owned(),
        problem: format!("`{what}` has no keys of its own"),
        names: Vec::new(),
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
                .or_else(|| name.parse().ok().filter(|at| *at < entries.len()));
            let Some(entry) = position.and_then(|at| entries.get_mut(at)) else {
                let names = entries.iter().filter_map(|entry| entry.get("name"));
                return Err(Blocked {
                    wrong: name.to_owned(),
                    problem: format!("no entry of `{first}` is called `{name}`"),
                    names: names.filter_map(Value::as_str).map(str::to_owned).collect(),
                });
            };
            match entry {
                Value::Table(entry) if !rest.is_empty() => set(entry, rest, value),
                entry if rest.is_empty() => {
                    *entry = value;
                    Ok(())
                }
                _ => Err(no_keys(name)),
            }
        }
        _ => Err(no_keys(first)),
    }
}

/// Whether a fault at `field` may come from what was set at `path`: one lies within the other. What
/// is set for both directions of a link shows in one of them.
pub(super) fn related(field: &str, path: &str) -> bool {
    let ((way, field_parts), (set_way, path_parts)) = (parts(field), parts(path));
    let ways_meet = way.is_none() || set_way.is_none() || way == set_way;
    let within = field_parts.iter().zip(&path_parts).all(|(a, b)| a == b);
    !field.is_empty() && ways_meet && within
}

/// Whether a field and a path that are related are the same, but for the direction of a link.
pub(super) fn is_same(field: &str, path: &str) -> bool {
    parts(field).1 == parts(path).1
}

/// The direction of a link that a path names, and its other parts.
fn parts(path: &str) -> (Option<&str>, Vec<&str>) {
    let all = || path.split(['.', '[']);
    let is_way = |part: &&str| ["up", "down"].contains(part);
    let others = all().filter(|part| !is_way(part));
    let others = others.map(|part| part.trim_end_matches(']')).collect();
    (all().find(is_way), others)
}

fn is_named(entry: &Value, name: &str) -> bool {
    entry.get("name").and_then(Value::as_str) == Some(name)
}

/// Where in the text the deepest known part of `path` stands.
///
/// What is given for both directions of a link stands there without `up` and `down`; what the small
/// version sets stands in `[smoke]`.
pub(super) fn locate(text: &str, path: &str, smoke: bool) -> Option<Range<usize>> {
    let table = DeTable::parse(text).ok()?;
    if smoke
        && let Some((_, small)) = table
            .get_ref()
            .iter()
            .find(|(key, _)| key.get_ref() == "smoke")
        && let DeValue::Table(small) = small.get_ref()
        && let Some((key, _)) = small.iter().find(|(key, _)| {
            let key: &str = key.get_ref();
            let within = |outer: &str, inner: &str| {
                let rest = inner.strip_prefix(outer);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            };
            within(key, path) || table.get_ref().get(path).is_none() && within(path, key)
        })
    {
        return Some(key.span());
    }
    if let Some(key) = path.strip_prefix("smoke.") {
        let small = table.get_ref().get("smoke")?.get_ref().as_table()?;
        let known = small.iter().find(|(known, _)| known.get_ref() == key);
        return known.map(|(known, _)| known.span());
    }
    let parts = path.split('.');
    let both: Vec<&str> = parts
        .filter(|part| !["up", "down"].contains(part))
        .collect();
    let mut best: Option<Found> = None;
    for way in [path, &both.join(".")] {
        let mut found = None;
        walk(table.get_ref(), way, 1, &mut found);
        if found.as_ref().map(|f| f.depth) > best.as_ref().map(|f| f.depth) {
            best = found;
        }
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
                    let mut all = entries.iter().enumerate();
                    let named = all.find_map(|(at, it)| Some((Some(at), after_name(it, rest)?)));
                    named.unwrap_or_else(|| {
                        let (number, rest) = rest.split_once('.').unwrap_or((rest, ""));
                        (number.parse().ok(), rest)
                    })
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

/// What of a path that begins with an entry's name, which may have dots in it, follows it.
fn after_name<'a>(entry: &Spanned<DeValue<'_>>, path: &'a str) -> Option<&'a str> {
    let DeValue::Table(table) = entry.get_ref() else {
        return None;
    };
    let (_, name) = table.iter().find(|(key, _)| key.get_ref() == "name")?;
    let DeValue::String(name) = name.get_ref() else {
        return None;
    };
    let rest = path.strip_prefix(name.as_ref())?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('.')
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
        set(&mut table, "flow.main.workload.bytes", "2 MB".into()).unwrap();
        set(&mut table, "network.down.rate", "1 Mb/s".into()).unwrap();
        let blocked = set(&mut table, "flow.mian.count", 2.into()).unwrap_err();
        assert_eq!(blocked.names, ["main"]);
        let blocked = set(&mut table, "title.inner", 2.into()).unwrap_err();
        assert_eq!(blocked.wrong, "title");
        assert_eq!(table["flow"][0]["workload"]["bytes"].as_str(), Some("2 MB"));
        assert_eq!(table["network"]["down"]["rate"].as_str(), Some("1 Mb/s"));
    }

    #[test]
    fn paths_lead_back_to_lines() {
        let line = |path: &str| {
            let at = locate(TEXT, path, false).unwrap().start;
            TEXT[..at].matches('\n').count() + 1
        };
        assert_eq!(line("network.link"), 3);
        assert_eq!(line("network.qeue"), 2);
        assert_eq!(line("flow.main.workload.bytes"), 7);
        assert_eq!(line("flow[0].name"), 6);
        assert_eq!(line("network.up.link"), 3);
        assert_eq!(line("network.down"), 2);
        assert_eq!(locate(TEXT, "nothing", false), None);
    }

    #[test]
    fn what_the_small_version_sets_stands_there() {
        let text = format!("{TEXT}[smoke]\n'run.seeds' = 0\n'flow.main.workload' = 3\n");
        let line = |path: &str, smoke| {
            let at = locate(&text, path, smoke).unwrap().start;
            text[..at].matches('\n').count() + 1
        };
        assert_eq!(line("run.seeds", true), 9);
        assert_eq!(line("flow.main.workload.bytes", true), 10);
        assert_eq!(line("flow.main.workload.bytes", false), 7);
        assert_eq!(line("smoke.run.seeds", true), 9);
    }

    #[test]
    fn faults_are_related_to_what_was_set() {
        assert!(related("network.up.loss", "network.loss"));
        assert!(related("network.up.jitter.spread", "network.jitter"));
        assert!(related("network", "network.loss"));
        assert!(related("network.links[0].rate", "network.links.0.rate"));
        assert!(!related("network.up.loss", "network.queue"));
        assert!(!related("network.up.loss", "network.down.loss"));
        assert!(!related("", "network.queue"));
    }
}
