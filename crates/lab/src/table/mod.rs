//! Tables: typed columns with a meaning, rows, and the files they are written to.
//!
//! Owns: [`Column`], [`Value`], [`Table`], CSV (`csv.rs`), Parquet (`parquet.rs`) and the written
//! schema (`schema.rs`). Does not own: which columns a campaign has (`campaign`).

mod csv;
mod parquet;
mod schema;

use serde::{Deserialize, Serialize};

pub use self::{csv::write_csv, parquet::write_parquet, schema::write_schema};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// Whole numbers.
    Integer,
    /// Numbers.
    Number,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds. Every value may be missing.
    pub kind: Kind,
    /// Its unit; empty for text.
    pub unit: String,
    /// What it says, with its formula.
    pub meaning: String,
    /// What the papers call it.
    pub paper: String,
}

impl Column {
    /// A column without a unit.
    pub fn new(name: impl Into<String>, kind: Kind, meaning: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind,
            unit: String::new(),
            meaning: meaning.into(),
            paper: String::new(),
        }
    }
}

/// A value, or none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Missing.
    None(()),
    /// Of an integer column.
    Integer(i64),
    /// Of a number column.
    Number(f64),
    /// Of a text column.
    Text(String),
}

impl Value {
    /// Missing.
    pub const NONE: Self = Self::None(());

    /// A number, unless there is none or it is not finite.
    pub fn number(value: Option<f64>) -> Self {
        match value {
            Some(value) if value.is_finite() => Self::Number(value),
            _ => Self::NONE,
        }
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A whole number; what exceeds 2^63 is that.
    pub fn integer(value: u64) -> Self {
        Self::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// As a number, if it is one.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Number(value) => Some(*value),
            _ => None,
        }
    }

    /// As a text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Rows under columns; every row has as many values as there are columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// The position of a column.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The values of a column.
    pub fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        let position = self.position(name);
        self.rows.iter().filter_map(move |row| row.get(position?))
    }
}
