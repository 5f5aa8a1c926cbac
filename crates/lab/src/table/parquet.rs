//! Apache Parquet. The same table gives the same bytes.

use std::{io::Write, sync::Arc};

use parquet::{
    basic::{Compression, LogicalType, Repetition, Type as Physical},
    data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type},
    errors::ParquetError,
    file::{metadata::KeyValue, properties::WriterProperties, writer::SerializedFileWriter},
    schema::types::Type,
};

use super::{Kind, Table, Value};

/// Rows of one row group.
const GROUP_ROWS: usize = 100_000;

/// Writes a table; the columns' meanings are in the file's metadata.
///
/// # Errors
/// As the writer.
pub fn write_parquet(table: &Table, out: impl Write + Send) -> Result<(), ParquetError> {
    let mut fields = Vec::new();
    for column in &table.columns {
        let physical = match column.kind {
            Kind::Text => Physical::BYTE_ARRAY,
            Kind::Integer => Physical::INT64,
            Kind::Number => Physical::DOUBLE,
        };
        let mut builder = Type::primitive_type_builder(&column.name, physical)
            .with_repetition(Repetition::OPTIONAL);
        if column.kind == Kind::Text {
            builder = builder.with_logical_type(Some(LogicalType::String));
        }
        fields.push(Arc::new(builder.build()?));
    }
    let schema = Type::group_type_builder("row")
        .with_fields(fields)
        .build()?;
    let meanings = table
        .columns
        .iter()
        .map(|column| KeyValue::new(column.name.clone(), column.meaning.clone()))
        .collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_created_by("tautline-lab".to_owned())
        .set_key_value_metadata(Some(meanings))
        .build();
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    for rows in table.rows.chunks(GROUP_ROWS) {
        let mut group = writer.next_row_group()?;
        for (position, column) in table.columns.iter().enumerate() {
            let Some(mut chunk) = group.next_column()? else {
                break;
            };
            let cells = rows.iter().map(|row| row.get(position));
            let present =
                |cell: Option<&Value>| i16::from(!matches!(cell, None | Some(Value::None(()))));
            let levels: Vec<i16> = cells.clone().map(present).collect();
            match column.kind {
                Kind::Text => {
                    let text = |cell: Option<&Value>| match cell {
                        Some(Value::Text(text)) => Some(ByteArray::from(text.as_str())),
                        Some(Value::Integer(n)) => Some(ByteArray::from(n.to_string().as_str())),
                        Some(Value::Number(x)) => Some(ByteArray::from(x.to_string().as_str())),
                        _ => None,
                    };
                    let values: Vec<ByteArray> = cells.filter_map(text).collect();
                    chunk
                        .typed::<ByteArrayType>()
                        .write_batch(&values, Some(&levels), None)?;
                }
                Kind::Integer => {
                    let values: Vec<i64> = cells
                        .zip(&levels)
                        .filter(|(_, level)| **level == 1)
                        .map(|(cell, _)| match cell {
                            Some(Value::Integer(n)) => *n,
                            other => other.and_then(Value::as_number).unwrap_or(0.0) as i64,
                        })
                        .collect();
                    chunk
                        .typed::<Int64Type>()
                        .write_batch(&values, Some(&levels), None)?;
                }
                Kind::Number => {
                    let values: Vec<f64> = cells
                        .zip(&levels)
                        .filter(|(_, level)| **level == 1)
                        .map(|(cell, _)| cell.and_then(Value::as_number).unwrap_or(f64::NAN))
                        .collect();
                    chunk
                        .typed::<DoubleType>()
                        .write_batch(&values, Some(&levels), None)?;
                }
            }
            chunk.close()?;
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use bytes::Bytes;

    use super::*;
    use crate::table::Column;

    fn table() -> Table {
        Table {
            columns: vec![
                Column::new("name", Kind::Text, "a name"),
                Column::new("n", Kind::Integer, "a count"),
                Column::new("x", Kind::Number, "a number"),
            ],
            rows: vec![
                vec![Value::text("a"), Value::Integer(1), Value::Number(0.5)],
                vec![Value::NONE, Value::NONE, Value::NONE],
                vec![Value::text("c"), Value::Integer(-3), Value::Integer(2)],
            ],
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut file = Vec::new();
        write_parquet(&table(), &mut file).unwrap();
        let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
        let rows: Vec<String> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().to_string())
            .collect();
        assert_eq!(
            rows,
            [
                "{name: \"a\", n: 1, x: 0.5}",
                "{name: null, n: null, x: null}",
                "{name: \"c\", n: -3, x: 2.0}"
            ]
        );
    }

    #[test]
    fn the_same_table_gives_the_same_bytes() {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        write_parquet(&table(), &mut a).unwrap();
        write_parquet(&table(), &mut b).unwrap();
        assert_eq!(a, b);
        let empty = Table {
            rows: Vec::new(),
            ..table()
        };
        write_parquet(&empty, Vec::new()).unwrap();
    }
}
