//! `cargo xtask sizes`: what has grown long. A prompt to look, not a rule.

use anyhow::Result;

use crate::tools::{relative, root, rust_files};

/// Lines from which a file that is no test is worth a look, and from which it should be split.
const FILE_REVIEW: usize = 500;
const FILE_SPLIT: usize = 800;
/// The same for functions.
const FUNCTION_REVIEW: usize = 80;
const FUNCTION_SPLIT: usize = 150;

pub(crate) fn run() -> Result<()> {
    let mut files = Vec::new();
    let mut functions = Vec::new();
    for path in rust_files(&root().join("crates"))? {
        let name = relative(&path);
        if is_test(&name) {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let code = text
            .split("\n#[cfg(test)]\nmod ")
            .next()
            .unwrap_or_default();
        let lines = code.lines().count();
        if lines >= FILE_REVIEW {
            files.push((lines, name.clone()));
        }
        functions.extend(
            long_functions(code)
                .into_iter()
                .map(|(lines, what)| (lines, format!("{name}: {what}"))),
        );
    }
    print_list("files", &mut files, FILE_SPLIT);
    print_list("functions", &mut functions, FUNCTION_SPLIT);
    Ok(())
}

fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("tests.rs") || name.contains("/benches/")
}

fn print_list(what: &str, found: &mut [(usize, String)], split: usize) {
    found.sort_unstable_by(|a, b| b.cmp(a));
    println!("long {what}: {}", found.len());
    for (lines, name) in found.iter() {
        let advice = if *lines >= split { "split" } else { "review" };
        println!("  {lines:>5} {advice:<6} {name}");
    }
}

/// Functions of at least [`FUNCTION_REVIEW`] lines, told by the indentation rustfmt gives them.
fn long_functions(code: &str) -> Vec<(usize, String)> {
    let mut open: Option<(usize, usize, String)> = None;
    let mut found = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let text = line.trim_start();
        let starts = text.starts_with("fn ")
            || text.starts_with("pub")
                && text.split('(').next().is_some_and(|h| h.contains(" fn "));
        let starts = starts || text.starts_with("pub(") && text.contains(") fn ");
        match &open {
            None if starts => {
                let name = text.split("fn ").nth(1).unwrap_or_default();
                let name = name.split(['(', '<']).next().unwrap_or_default();
                open = Some((indent, number, name.to_owned()));
            }
            Some((at, since, name)) if indent == *at && text == "}" => {
                let lines = number - since + 1;
                if lines >= FUNCTION_REVIEW {
                    found.push((lines, name.clone()));
                }
                open = None;
            }
            Some((at, ..)) if indent == *at && text.ends_with(';') => open = None,
            _ => {}
        }
    }
    found
}
