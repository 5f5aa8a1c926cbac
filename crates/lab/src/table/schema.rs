//! The written schema: what each column of each table says.

use std::io::{self, Write};

use super::{Kind, Table};

/// Writes the columns of several tables as Markdown.
///
/// # Errors
/// As the writer.
pub fn write_schema(tables: &[(&str, &str, &Table)], mut out: impl Write) -> io::Result<()> {
    writeln!(out, "# What the columns say\n")?;
    writeln!(
        out,
        "The same for `.csv` and `.parquet`. A missing value is empty (CSV) or null (Parquet): the \
         run does not have it.\n"
    )?;
    for (file, about, table) in tables {
        writeln!(out, "## `{file}`\n\n{about}\n")?;
        writeln!(out, "| column | type | unit | meaning | in the papers |")?;
        writeln!(out, "|---|---|---|---|---|")?;
        for column in &table.columns {
            let kind = match column.kind {
                Kind::Text => "text",
                Kind::Integer => "int64",
                Kind::Number => "double",
            };
            writeln!(
                out,
                "| `{}` | {kind} | {} | {} | {} |",
                column.name,
                column.unit,
                column.meaning.replace('|', "\\|"),
                column.paper
            )?;
        }
        writeln!(out)?;
    }
    out.flush()
}
