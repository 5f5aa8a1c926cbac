//! What tables of a plan put in place of a link's fields.
//!
//! Owns: both directions and one, forms that only plans have (shares, percentages), what takes the
//! place of another way to say how fast a link is. Does not own: which tables there are.

use tautline_sim::DirectionConfig;
use toml::{Table, Value};

use super::NetworkError;
use crate::{
    quantity::Share,
    reading::{fields, read},
};

/// Puts the fields of a table into both directions, then those of `up` and `down` into theirs.
pub(super) fn overlay(
    forward: &mut Table,
    backward: &mut Table,
    table: Table,
) -> Result<(), NetworkError> {
    let mut sides = Vec::new();
    let mut both = Table::new();
    for (key, value) in table {
        match key.as_str() {
            "up" | "down" => match value {
                Value::Table(inner) => sides.push((key, inner)),
                _ => {
                    return Err(NetworkError::new(
                        key,
                        "is not a table of one direction's fields",
                    ));
                }
            },
            _ => {
                let value = shorthand(&key, value)?;
                both.insert(key, value);
            }
        }
    }
    layer(forward, both.clone());
    layer(backward, both);
    for (side, inner) in sides {
        known_keys(&inner, &[]).map_err(|e| e.within(&side))?;
        let target = if side == "up" {
            &mut *forward
        } else {
            &mut *backward
        };
        let mut own = Table::new();
        for (key, value) in inner {
            let value = shorthand(&key, value).map_err(|e| e.within(&side))?;
            own.insert(key, value);
        }
        layer(target, own);
    }
    Ok(())
}

/// What each way of saying how fast a link is leaves no room for, when it comes later.
const INSTEAD: [(&str, &[&str]); 5] = [
    ("rate", &["rate_wander", "trace"]),
    ("rate_steps", &["rate_wander", "trace", "coding"]),
    ("rate_wander", &["rate", "rate_steps", "trace", "coding"]),
    ("trace", &["rate", "rate_steps", "rate_wander", "coding"]),
    ("coding", &["rate_steps", "rate_wander", "trace"]),
];

/// Puts fields in place of those that were there. A rate, a trace and so on also takes the place of
/// what else said how fast the link is, unless it stands beside it.
fn layer(target: &mut Table, own: Table) {
    for (key, others) in INSTEAD {
        if own.contains_key(key) {
            for other in others.iter().filter(|other| !own.contains_key(**other)) {
                target.remove(*other);
            }
        }
    }
    target.extend(own);
}

/// Whether every key is a field of one direction of a link, or one of `more`.
pub(super) fn known_keys(table: &Table, more: &[&str]) -> Result<(), NetworkError> {
    let fields = fields::<DirectionConfig>();
    let known = |key: &str| fields.contains(&key) || more.contains(&key);
    let Some(unknown) = table.keys().find(|key| !known(key)) else {
        return Ok(());
    };
    Err(NetworkError {
        field: unknown.clone(),
        problem: "there is no such key".to_owned(),
        names: more.iter().chain(fields).map(|&key| key.into()).collect(),
    })
}

/// Keys of probabilities and other shares of one, wherever in a link they stand.
const SHARES: [&str; 13] = [
    "bad_to_good",
    "corruption",
    "duplication",
    "factor",
    "good_to_bad",
    "lag_loss",
    "loss",
    "loss_bad",
    "loss_good",
    "loss_probability",
    "probability",
    "ripple",
    "share",
];

/// `"5 %"` as 0.05, wherever a share is due.
fn percents(key: &str, value: Value) -> Result<Value, NetworkError> {
    Ok(match value {
        Value::String(text) if SHARES.contains(&key) => {
            let share = read::<Share>(Value::String(text));
            let share = share.map_err(|error| NetworkError::new(key, error.message))?;
            Value::Float(share.0)
        }
        Value::Table(table) => {
            let inner = table.into_iter().map(|(inner, value)| {
                let value = percents(&inner, value).map_err(|error| error.within(key))?;
                Ok((inner, value))
            });
            Value::Table(inner.collect::<Result<Table, NetworkError>>()?)
        }
        Value::Array(entries) => {
            let entries = entries.into_iter().enumerate().map(|(index, entry)| {
                let place = format!("{key}[{index}]");
                percents(&place, entry)
            });
            Value::Array(entries.collect::<Result<_, NetworkError>>()?)
        }
        other => other,
    })
}

/// Percentages as numbers, and a share in place of a loss model.
fn shorthand(key: &str, value: Value) -> Result<Value, NetworkError> {
    let value = percents(key, value)?;
    if !matches!(key, "loss" | "corruption") || value.is_table() {
        return Ok(value);
    }
    let share = read::<Share>(value).map_err(|error| NetworkError::new(key, error.message))?;
    let mut model = Table::new();
    if share.0 > 0.0 {
        model.insert("model".to_owned(), "uniform".into());
        model.insert("probability".to_owned(), share.0.into());
    } else {
        model.insert("model".to_owned(), "none".into());
    }
    Ok(Value::Table(model))
}
