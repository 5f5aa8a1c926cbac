//! The page around the parts.

use super::{
    Block, LegendEntry, Part, Report, escape, parts,
    style::{SLOTS, mark, sheet, stroke},
};

pub(super) fn render(report: &Report) -> String {
    let title = escape(&report.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{}</style></head>\n<body>\n<h1>{title}</h1>\n\
         <p class=\"lead\">{}</p>\n",
        sheet(),
        prose(&report.lead)
    );
    let mut charts = 0;
    for section in &report.sections {
        out.push_str(&format!("<section><h2>{}</h2>\n", escape(&section.heading)));
        for block in &section.blocks {
            out.push_str(&self::block(block, &mut charts));
            out.push('\n');
        }
        out.push_str("</section>\n");
    }
    out.push_str(&format!(
        "<footer>{}</footer>\n</body></html>\n",
        escape(&report.footer)
    ));
    out
}

/// `charts` counts the line charts of the page so far.
fn block(block: &Block, charts: &mut usize) -> String {
    match block {
        Block::Heading(text) => format!("<h3>{}</h3>", escape(text)),
        Block::List(items) => {
            let item = |item: &String| format!("<li>{}</li>", prose(item));
            let items: String = items.iter().map(item).collect();
            format!("<ul>{items}</ul>")
        }
        Block::Picture(picture) => picture.to_html(),
        Block::Text(text) => format!("<p>{}</p>", prose(text)),
        Block::Code(text) => format!("<pre>{}</pre>", escape(text)),
        Block::Definitions(entries) => {
            let entries: String = entries
                .iter()
                .map(|(term, text)| format!("<dt>{}</dt><dd>{}</dd>", escape(term), prose(text)))
                .collect();
            format!("<dl>{entries}</dl>")
        }
        Block::Table(table) => table.to_html(),
        Block::Legend(entries) => {
            let entries: String = entries.iter().map(legend_entry).collect();
            format!("<ul class=\"legend\">{entries}</ul>")
        }
        Block::Bars(chart) => chart.to_html(),
        Block::Lines(lines) => {
            let figures: String = lines
                .iter()
                .map(|chart| {
                    *charts += 1;
                    chart.to_html(*charts)
                })
                .collect();
            format!("<div class=\"charts\">{figures}</div>")
        }
    }
}

fn prose(words: &str) -> String {
    let html = |part| match part {
        Part::Code(code) => format!("<code>{}</code>", escape(&code)),
        Part::Plain(words) => escape(&words),
    };
    parts(words).into_iter().map(html).collect()
}

fn legend_entry(entry: &LegendEntry) -> String {
    format!(
        "<li><svg class=\"key\" viewBox=\"0 0 34 14\" aria-hidden=\"true\">\
         <path class=\"s{}\"{} d=\"M1 7H33\"/>{}</svg>{}</li>",
        entry.slot % SLOTS,
        stroke(entry.slot),
        mark(entry.slot, 17.0, 7.0),
        escape(&entry.name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_in_prose_is_marked() {
        let cases = [
            (
                "as `a < b`, and `c`",
                "as <code>a &lt; b</code>, and <code>c</code>",
            ),
            ("one ` alone, `` none", "one ` alone, `` none"),
            ("", ""),
        ];
        for (words, html) in cases {
            assert_eq!(prose(words), html);
        }
    }
}
