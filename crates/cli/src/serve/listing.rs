//! The page that lists a directory.

use std::fmt::Write;

use super::{
    dates::http_date,
    files::{Entry, MAX_LISTED, encode_segment},
};

/// HTML for the directory at `path` (decoded).
pub(crate) fn page(path: &str, entries: &[Entry], truncated: bool) -> String {
    let title = escape(path);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\n\
         <style>body{{font:16px sans-serif;margin:2em}}td{{padding:.1em 1em .1em 0}}\
         td+td{{text-align:right;color:#666}}</style></head>\n<body><h1>{title}</h1>\n<table>\n"
    );
    if path != "/" {
        page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    for entry in entries {
        let slash = if entry.directory { "/" } else { "" };
        let size = if entry.directory {
            String::new()
        } else {
            entry.len.to_string()
        };
        let modified = entry.modified.and_then(http_date).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "<tr><td><a href=\"./{}{slash}\">{}{slash}</a></td><td>{size}</td><td>{modified}</td></tr>",
            encode_segment(&entry.name),
            escape(&entry.name),
        );
    }
    page.push_str("</table>\n");
    if truncated {
        let _ = writeln!(
            page,
            "<p>Only the first {MAX_LISTED} entries are shown.</p>"
        );
    }
    page.push_str("</body></html>\n");
    page
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_become_markup() {
        let name = "<script>\"&'".to_owned();
        let entries = [Entry {
            name,
            directory: false,
            len: 3,
            modified: None,
        }];
        let page = page("/a<b/", &entries, true);
        assert!(!page.contains("<script>"));
        assert!(page.contains("href=\"./%3Cscript%3E%22%26%27\""));
        assert!(page.contains("/a&lt;b/") && page.contains("../"));
        assert!(page.contains("Only the first"));
    }
}
