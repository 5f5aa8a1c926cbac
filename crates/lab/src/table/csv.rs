//! Comma-separated values, RFC 4180: a header, `\n` line ends, missing values empty.

use std::io::{self, Write};

use super::{Table, Value};

/// Writes a table. Numbers are written so that they read back to the same value.
///
/// # Errors
/// As the writer.
pub fn write_csv(table: &Table, mut out: impl Write) -> io::Result<()> {
    let names: Vec<String> = table
        .columns
        .iter()
        .map(|column| quoted(&column.name))
        .collect();
    writeln!(out, "{}", names.join(","))?;
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(cell).collect();
        writeln!(out, "{}", cells.join(","))?;
    }
    out.flush()
}

fn cell(value: &Value) -> String {
    match value {
        Value::None(()) => String::new(),
        Value::Integer(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::Text(text) => quoted(text),
    }
}

fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Column, Kind};

    #[test]
    fn what_needs_quotes_has_them() {
        let table = Table {
            columns: vec![
                Column::new("a", Kind::Text, ""),
                Column::new("b", Kind::Number, ""),
            ],
            rows: vec![
                vec![Value::text("x, \"y\""), Value::Number(0.1)],
                vec![Value::NONE, Value::Integer(3)],
            ],
        };
        let mut out = Vec::new();
        write_csv(&table, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "a,b\n\"x, \"\"y\"\"\",0.1\n,3\n"
        );
    }
}
