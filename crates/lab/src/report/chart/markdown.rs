//! A report as Markdown: what a page says, with its pictures as files beside it.

use super::{Align, Block, Part, Report, Table, parts};

/// The report; `figures` is the folder of its pictures as the text refers to it.
pub(super) fn render(report: &Report, figures: &str) -> String {
    let mut out = format!("# {}\n\n", text(&report.title));
    paragraph(&report.lead, &mut out);
    for section in &report.sections {
        out.push_str(&format!("## {}\n\n", text(&section.heading)));
        for block in &section.blocks {
            self::block(block, figures, &mut out);
        }
    }
    paragraph(&report.footer, &mut out);
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

fn paragraph(words: &str, out: &mut String) {
    if !words.is_empty() {
        out.push_str(&text(words));
        out.push_str("\n\n");
    }
}

fn block(block: &Block, figures: &str, out: &mut String) {
    match block {
        Block::Heading(words) => out.push_str(&format!("### {}\n\n", text(words))),
        Block::Text(words) => paragraph(words, out),
        Block::List(items) => {
            for item in items {
                out.push_str(&format!("- {}\n", text(item)));
            }
            out.push('\n');
        }
        Block::Code(code) => {
            // A fence longer than any in the text.
            let fence = "`".repeat(longest_run(code).max(2) + 1);
            out.push_str(&format!("{fence}sh\n{}\n{fence}\n\n", code.trim_end()));
        }
        Block::Definitions(entries) => {
            for (term, words) in entries {
                out.push_str(&format!("- **{}**: {}\n", text(term), text(words)));
            }
            out.push('\n');
        }
        Block::Table(table) => self::table(table, out),
        Block::Picture(picture) => out.push_str(&format!(
            "![{}]({figures}/{}.svg)\n\n",
            text(&picture.title),
            picture.file
        )),
        // Without a picture these say nothing.
        Block::Legend(_) | Block::Bars(_) | Block::Lines(_) => {}
    }
}

fn table(table: &Table, out: &mut String) {
    out.push('|');
    for column in &table.columns {
        let unit = match column.unit.as_str() {
            "" => String::new(),
            unit => format!(" ({})", text(unit)),
        };
        out.push_str(&format!(" {}{unit} |", text(&column.title)));
    }
    out.push_str("\n|");
    for column in &table.columns {
        out.push_str(match column.align {
            Align::Left => "---|",
            Align::Right => "---:|",
        });
    }
    out.push('\n');
    for row in &table.rows {
        out.push('|');
        for cell in &row.cells {
            let words = text(&cell.text);
            if cell.bad && !words.is_empty() {
                out.push_str(&format!(" **{words}** |"));
            } else {
                out.push_str(&format!(" {words} |"));
            }
        }
        out.push('\n');
    }
    out.push('\n');
}

/// `words` on one line, with what Markdown and HTML give a meaning made plain, but for code.
fn text(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    for part in parts(words) {
        match part {
            Part::Code(code) => out.push_str(&format!("`{code}`")),
            Part::Plain(words) => plain(&words, &mut out),
        }
    }
    out.trim().to_owned()
}

fn plain(words: &str, out: &mut String) {
    let mut coming = words.chars().peekable();
    while let Some(c) = coming.next() {
        match c {
            // Only these make a link of brackets.
            ']' if matches!(coming.peek(), Some('(' | '[' | ':')) => out.push_str("\\]"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '|' | '~' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_whitespace() => {
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            c if c.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
}

fn longest_run(code: &str) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in code.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn code_stays_code_and_the_rest_is_plain() {
        for (words, markdown) in [
            (
                "as `cubic`, `a < b` and `x*`",
                "as `cubic`, `a < b` and `x*`",
            ),
            ("a < b, x* and c_d", "a &lt; b, x\\* and c_d"),
            ("one ` alone, `` none", "one \\` alone, \\`\\` none"),
            ("`a | b` is a cell's end", "\\`a \\| b\\` is a cell's end"),
            ("` a` and\n`b", "\\` a\\` and \\`b"),
        ] {
            assert_eq!(text(words), markdown, "{words}");
        }
    }
}
