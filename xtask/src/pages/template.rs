//! A template: prose and tables of Markdown with placeholders in braces.
//!
//! Owns their syntax, and the wrapping of the prose once figures are in. What a path means is `select`'s.

use anyhow::{Context, Result, bail};

use super::{
    figure::{Format, Pick},
    select::{Figure, Pages, figures, near},
};

/// Lines of generated prose are wrapped at so many characters.
const WIDTH: usize = 120;

/// The document that `template` gives with `pages`; errors name the template's line.
pub(super) fn fill(template: &str, pages: &Pages) -> Result<String> {
    let mut filled = String::with_capacity(template.len());
    let mut before: Option<Vec<String>> = None;
    for (number, line) in template.lines().enumerate() {
        // A row of a table and a paragraph stand for themselves: what `..` repeats is seen beside it.
        if line.trim().is_empty() || line.starts_with('|') {
            before = None;
        }
        let line = fill_line(line, pages, &mut before)
            .with_context(|| format!("line {} of the template", number + 1))?;
        filled.push_str(&line);
        filled.push('\n');
    }
    Ok(wrap(&filled))
}

fn fill_line(line: &str, pages: &Pages, before: &mut Option<Vec<String>>) -> Result<String> {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['{', '}']) {
        let (text, from) = rest.split_at(at);
        out.push_str(text);
        if let Some(after) = from.strip_prefix("{{").or_else(|| from.strip_prefix("}}")) {
            out.push_str(from.get(..1).unwrap_or_default());
            rest = after;
            continue;
        }
        let inner = from
            .strip_prefix('{')
            .and_then(|inner| inner.split_once('}'));
        let Some((placeholder, after)) = inner else {
            bail!("a brace that opens or closes nothing; a brace itself is written twice");
        };
        let shown =
            print(placeholder, pages, before).with_context(|| format!("{{{placeholder}}}"))?;
        out.push_str(&shown);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn print(placeholder: &str, pages: &Pages, before: &mut Option<Vec<String>>) -> Result<String> {
    let mut format = Format::default();
    let mut rest = placeholder.trim_start();
    loop {
        let word = rest.split_whitespace().next().unwrap_or_default();
        // `..` begins a path, `.2` is a format.
        if word.starts_with("..") || !format.take(word)? {
            break;
        }
        rest = rest.get(word.len()..).unwrap_or_default().trim_start();
    }
    let parts: Vec<String> = rest.split('>').map(|part| part.trim().to_owned()).collect();
    let path = repeated(parts, before.as_deref())?;
    let figures = figures(pages, &path, format.end)?;
    let figure = pick(&figures, format.pick)?;
    let shown = format.print(figure.value, figure.text.as_deref())?;
    *before = Some(path);
    Ok(shown)
}

/// Replaces `..` by what the path before has there, so that both have as many parts.
fn repeated(parts: Vec<String>, before: Option<&[String]>) -> Result<Vec<String>> {
    let Some(at) = parts.iter().position(|part| part == "..") else {
        return Ok(parts);
    };
    let before =
        before.context("`..` has no placeholder before it in this paragraph or row of a table")?;
    let (start, end) = (parts.get(..at), parts.get(at + 1..));
    let (start, end) = (start.unwrap_or_default(), end.unwrap_or_default());
    if end.iter().any(|part| part == "..") {
        bail!("`..` can stand once in a path");
    }
    let kept = before
        .get(at..before.len().saturating_sub(end.len()))
        .filter(|kept| !kept.is_empty())
        .with_context(|| format!("nothing of `{}` is left for `..`", before.join(" > ")))?;
    Ok([start, kept, end].concat())
}

fn pick(figures: &[Figure], pick: Pick) -> Result<&Figure> {
    let by = |a: &&Figure, b: &&Figure| a.value.total_cmp(&b.value);
    let found = match pick {
        Pick::Least => figures.iter().min_by(by),
        Pick::Greatest => figures.iter().max_by(by),
        Pick::Only if figures.len() > 1 => bail!(
            "{} cells are meant, say which, or min or max: {}",
            figures.len(),
            near("", figures.iter().map(|figure| &figure.from))
        ),
        Pick::Only => figures.first(),
    };
    found.context("nothing is selected")
}

/// Wraps paragraphs of prose anew; tables, lists, headings, code and comments stay as they are.
fn wrap(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut paragraph: Vec<&str> = Vec::new();
    let mut fenced = false;
    for line in text.lines().chain([""]) {
        if !fenced && !line.trim().is_empty() && !line.starts_with("```") {
            paragraph.push(line);
            continue;
        }
        let prose = !paragraph.iter().any(|line| begins_block(line));
        if prose && !paragraph.is_empty() {
            wrap_words(&paragraph, &mut out);
        } else {
            paragraph.iter().for_each(|line| push_line(&mut out, line));
        }
        paragraph.clear();
        fenced ^= line.starts_with("```");
        push_line(&mut out, line);
    }
    // The empty line that closed the last paragraph is not the text's.
    out.pop();
    out
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

fn wrap_words(lines: &[&str], out: &mut String) {
    let mut width = 0;
    for word in lines.iter().flat_map(|line| line.split_whitespace()) {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH && !begins_block(word) {
            out.push('\n');
            width = 0;
        }
        if width > 0 {
            out.push(' ');
            width += 1;
        }
        out.push_str(word);
        width += length;
    }
    out.push('\n');
}

/// Whether Markdown may take a line that begins so for something else than prose.
fn begins_block(text: &str) -> bool {
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let listed = number.len() < text.len() && (number.starts_with(". ") || number == ".");
    let marked = ["-", "+", "*", "- ", "+ ", "* "];
    let marked = marked
        .iter()
        .any(|mark| text == *mark || mark.ends_with(' ') && text.starts_with(mark));
    listed || marked || text.starts_with(['|', '#', '>', '<', ' ', '\t', '='])
}
