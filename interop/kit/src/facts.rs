//! What a program has to tell about itself at its end.

use std::{collections::BTreeMap, sync::Mutex};

static COUNTS: Mutex<BTreeMap<&str, u64>> = Mutex::new(BTreeMap::new());

/// Counts something; the sum is printed at the end.
pub fn fact(name: &'static str, count: u64) {
    if let Ok(mut counts) = COUNTS.lock() {
        *counts.entry(name).or_default() += count;
    }
}

/// Prints words about something, now.
pub fn note(name: &str, words: &str) {
    println!("NOTE {name} {words}");
}

pub(crate) fn print() {
    if let Ok(counts) = COUNTS.lock() {
        for (name, count) in counts.iter() {
            println!("FACT {name} {count}");
        }
    }
}
