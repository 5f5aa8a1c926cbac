//! Which laboratory made the results of a folder.
//!
//! Owns: [`MadeBy`], [`RESULTS`]. Does not own: what the results are of (`journal`).

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::stack::Stacks;

/// The generation of figures: to be raised with every change of transport, simulator or laboratory
/// that may change a figure of some cell, so that no campaign mixes two of them.
pub const RESULTS: u32 = 63;

/// The laboratory that made results: no clock, no host, no build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeBy {
    /// Version of `tautline-lab`; empty in folders older than this record.
    pub version: String,
    /// [`RESULTS`] at the time.
    pub results: u32,
    /// By stack, what holds where a plan says nothing.
    pub defaults: BTreeMap<String, BTreeMap<String, String>>,
}

impl fmt::Display for MadeBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.version.is_empty() {
            return f.write_str("a version of tautline-lab from before versions were written down");
        }
        write!(
            f,
            "tautline-lab {} (results {})",
            self.version, self.results
        )
    }
}

impl MadeBy {
    /// This laboratory with these stacks.
    pub fn this(stacks: &Stacks) -> Self {
        let defaults = stacks.names().filter_map(|name| {
            let defaults = stacks.get(name)?.defaults();
            (!defaults.is_empty()).then(|| (name.to_owned(), defaults))
        });
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            results: RESULTS,
            defaults: defaults.collect(),
        }
    }

    /// Whether figures of both can stand in one table as far as versions tell.
    pub fn is_of_this_version(&self) -> bool {
        self.version == env!("CARGO_PKG_VERSION") && self.results == RESULTS
    }

    /// Why cells of `now` cannot join those of `self`, if so.
    pub(super) fn differs_from(&self, now: &Self) -> Option<String> {
        if (&self.version, self.results) != (&now.version, now.results) {
            return Some(format!(
                "it holds results of {self}; this is {now}, whose figures may be others"
            ));
        }
        // A program with more stacks may go on: the plan's are the same.
        let shared = |stack: &&String| now.defaults.contains_key(*stack);
        self.defaults.keys().filter(shared).find_map(|stack| {
            let of = |made: &Self| made.defaults.get(stack).cloned().unwrap_or_default();
            let (then, today) = (of(self), of(now));
            let mut keys = then.keys().chain(today.keys());
            let key = keys.find(|key| then.get(*key) != today.get(*key))?;
            let word = |defaults: &BTreeMap<String, String>| match defaults.get(key) {
                Some(value) => value.clone(),
                None => "not written down".to_owned(),
            };
            Some(format!(
                "the default of {key} of stack {stack} was {} and is {}",
                word(&then),
                word(&today)
            ))
        })
    }
}
