//! Values of plans as types, and where in a value the fault is.
//!
//! Owns: [`read`], [`fields`]. Does not own: words for faults (`plan::error`), lines (`plan`).

use std::fmt;

use serde::{Deserialize, Deserializer, de, forward_to_deserialize_any};
use toml::Value;

/// What serde says, and where from the value's root; empty for the value as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misread {
    pub(crate) field: String,
    pub(crate) message: String,
}

/// Reads a value as a type. Inside an enum that is told apart by one of its keys (a loss model),
/// the fault is placed at the enum.
pub(crate) fn read<T: for<'de> Deserialize<'de>>(value: Value) -> Result<T, Misread> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let field = match error.path().to_string() {
            whole if whole == "." => String::new(),
            field => field,
        };
        Misread {
            field,
            message: error.inner().message().trim().to_owned(),
        }
    })
}

/// The keys that a struct has in plans.
pub(crate) fn fields<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    match T::deserialize(Asked) {
        Err(Answer(fields)) => fields,
        Ok(_) => &[],
    }
}

/// A source that holds nothing, and listens to what is asked for.
struct Asked;

#[derive(Debug)]
struct Answer(&'static [&'static str]);

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Answer {}

impl de::Error for Answer {
    fn custom<T: fmt::Display>(_message: T) -> Self {
        Self(&[])
    }
}

impl<'de> Deserializer<'de> for Asked {
    type Error = Answer;

    fn deserialize_any<V: de::Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Answer> {
        Err(Answer(&[]))
    }

    fn deserialize_struct<V: de::Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Answer> {
        Err(Answer(fields))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use tautline_sim::DirectionConfig;

    use super::*;

    #[test]
    fn faults_have_a_place() {
        let place = |text: &str| {
            let value = toml::from_str::<Value>(text).unwrap();
            read::<DirectionConfig>(value).unwrap_err().field
        };
        assert_eq!(place("queue = 'long'"), "queue");
        assert_eq!(
            place("jitter = { spread = '1 ms', order = 'fife' }"),
            "jitter.order"
        );
        assert_eq!(
            place("outages = [{ start = '1 s', duration = 2 }]"),
            "outages[0].duration"
        );
    }

    #[test]
    fn structs_tell_their_keys() {
        let known = fields::<DirectionConfig>();
        assert!(known.contains(&"rate") && known.contains(&"drop_packets"));
        assert!(fields::<String>().is_empty());
    }
}
