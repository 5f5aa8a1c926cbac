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

/// What of a fault's field lies within what was set at a related path; empty for the whole of it.
pub(super) fn beyond(field: &str, path: &str) -> String {
    let is_way = |part: &str| ["up", "down"].contains(&part);
    let (set_way, path_parts) = parts(path);
    let mut way_is_due = set_way.is_some();
    let mut due = path_parts.len();
    let mut left = field
        .split(['.', '['])
        .map(|part| part.trim_end_matches(']'));
    let mut rest = Vec::new();
    for part in &mut left {
        match is_way(part) {
            true if due > 0 || way_is_due => way_is_due = false,
            _ if due > 0 => due -= 1,
            _ => {
                rest.push(part);
                break;
            }
        }
    }
    rest.extend(left);
    rest.join(".")
}

/// Where in the text the deepest known part of `path` stands, from its key to the end of its value.
///
/// What is given for both directions of a link stands there without `up` and `down`, what is given for
/// all paths beside them; what the small version sets stands in `[smoke]`.
pub(super) fn locate(text: &str, path: &str, smoke: bool) -> Option<Range<usize>> {
    let table = DeTable::parse(text).ok()?;
    let table = table.get_ref();
    if smoke && let Some(span) = locate_small(table, path) {
        return Some(span);
    }
    if let Some(key) = path.strip_prefix("smoke.") {
        let small = table.get("smoke")?.get_ref().as_table()?;
        let known = small.iter().find(|(known, _)| known.get_ref() == key);
        return known.map(|(known, _)| known.span());
    }
    let all_paths = |path: &str| {
        let (_, rest) = path.strip_prefix("network.paths.")?.split_once('.')?;
        Some(format!("network.{rest}"))
    };
    let both_ways = |path: &str| {
        let parts = path.split('.');
        let others: Vec<&str> = parts
            .filter(|part| !["up", "down"].contains(part))
            .collect();
        others.join(".")
    };
    let mut best: Option<Found> = None;
    for way in std::iter::once(path.to_owned()).chain(all_paths(path)) {
        for way in [way.clone(), both_ways(&way)] {
            let mut found = None;
            walk(table, &way, &mut found);
            if let Some(found) = found
                && best.as_ref().is_none_or(|best| found.left < best.left)
            {
                best = Some(found);
            }
        }
    }
    best.map(|found| found.span)
}

/// Where `[smoke]` sets what has this path.
fn locate_small(table: &DeTable<'_>, path: &str) -> Option<Range<usize>> {
    let small = table.get("smoke")?.get_ref().as_table()?;
    small.iter().find_map(|(key, value)| {
        if let Some(rest) = after(key.get_ref(), path) {
            let mut found = None;
            descend(value, rest, &mut found);
            return Some(found.map_or_else(|| key.span(), |found| found.span));
        }
        let begun = table.get(path).is_none() && after(path, key.get_ref()).is_some();
        begun.then(|| key.span())
    })
}

struct Found {
    span: Range<usize>,
    /// Parts of the path that were not found.
    left: usize,
}

/// What of a path follows `outer`, if it begins so.
fn after<'a>(outer: &str, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(outer)?;
    match rest.strip_prefix('.') {
        Some(inner) => Some(inner),
        None => (rest.is_empty() || rest.starts_with('[')).then_some(rest),
    }
}

fn found(span: Range<usize>, rest: &str) -> Option<Found> {
    let left = rest.split(['.', '[']).filter(|part| !part.is_empty());
    let left = left.count();
    Some(Found { span, left })
}

fn walk(table: &DeTable<'_>, path: &str, deepest: &mut Option<Found>) {
    // A key may have dots in it: a value of a factor that sets several paths.
    let known = table
        .iter()
        .filter_map(|(key, value)| Some((key, value, after(key.get_ref(), path)?)));
    let Some((key, value, rest)) = known.min_by_key(|(_, _, rest)| rest.len()) else {
        return;
    };
    let key = key.span();
    *deepest = found(key.start..value.span().end.max(key.end), rest);
    descend(value, rest, deepest);
}

fn descend(value: &Spanned<DeValue<'_>>, rest: &str, deepest: &mut Option<Found>) {
    match value.get_ref() {
        DeValue::Table(inner) => walk(inner, rest, deepest),
        DeValue::Array(entries) => {
            let mut all = entries.iter().enumerate();
            let named = all.find_map(|(at, entry)| Some((Some(at), after_name(entry, rest)?)));
            let (at, rest) = named.unwrap_or_else(|| {
                // `links[2]` is how errors name an entry of an array, `links.2` how plans do.
                let number = rest.strip_prefix('[').unwrap_or(rest);
                let end = number.find(['.', '[', ']']).unwrap_or(number.len());
                let (number, rest) = number.split_at(end);
                let rest = rest.strip_prefix(']').unwrap_or(rest);
                (number.parse().ok(), rest.strip_prefix('.').unwrap_or(rest))
            });
            if let Some(entry) = at.and_then(|at: usize| entries.get(at)) {
                *deepest = found(entry.span(), rest);
                descend(entry, rest, deepest);
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
    after(name.as_ref(), path)
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

    /// A value of a factor has a line of its own, and so has what it sets.
    #[test]
    fn paths_lead_to_values_in_arrays() {
        let text = "[[design.factor]]\nname = 'loss'\nvalues = [\n  0,\n  '1 %',\n  { label = 'x',\n\
                    'network.down.loss' = 1,\n'network.outages' = [\n{ start = '1 s' },\n] },\n]\n\
                    [network]\nqueue = 1\npaths = [\n{ name = 'a' },\n]\n";
        let line = |path: &str| {
            let at = locate(text, path, false).unwrap().start;
            text[..at].matches('\n').count() + 1
        };
        assert_eq!(line("design.factor.loss.values"), 3);
        assert_eq!(line("design.factor.loss.values[0]"), 4);
        assert_eq!(line("design.factor[0].values[1]"), 5);
        assert_eq!(line("design.factor.loss.values[2].network.down.loss"), 7);
        assert_eq!(
            line("design.factor.loss.values[2].network.outages.0.start"),
            9
        );
        assert_eq!(line("network.paths.a.up.queue"), 13);
        assert_eq!(line("network.paths.a.up.rate"), 15);
    }

    #[test]
    fn what_lies_within_what_was_set() {
        for (field, path, rest) in [
            ("network.up.loss", "network.loss", ""),
            ("network.up.handover.gap", "network.handover", "gap"),
            (
                "network.down.outages[0].start",
                "network.down",
                "outages.0.start",
            ),
            ("network.up.outages[0].start", "network.outages", "0.start"),
            ("network.paths.a.up.loss", "network.paths.a", "up.loss"),
            ("network", "network.loss", ""),
        ] {
            assert_eq!(beyond(field, path), rest, "{field}, {path}");
        }
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
        let text = format!("{TEXT}[smoke]\n'network.values' = [\n1,\n2,\n]\n");
        let at = locate(&text, "network.values[1]", true).unwrap().start;
        assert_eq!(text[..at].matches('\n').count() + 1, 11);
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
