//! One name or several, as plans write them.
//!
//! Owns: [`Names`]. Does not own: what they are names of.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A name, `"a"`, or several, `["a", "b"]`; never none, in the order in which they were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl Names {
    /// All of them, at least one.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The only one, if there is no other.
    pub fn only(&self) -> Option<&str> {
        match self.0.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The first that stands there twice.
    pub fn repeated(&self) -> Option<&str> {
        let before = |at: usize| self.0.get(..at).unwrap_or_default();
        let mut names = self.0.iter().enumerate();
        names
            .find(|(at, name)| before(*at).contains(name))
            .map(|(_, name)| name.as_str())
    }
}

impl From<&str> for Names {
    fn from(name: &str) -> Self {
        Self(vec![name.to_owned()])
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.only() {
            Some(name) => s.serialize_str(name),
            None => self.0.serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Names;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or an array of names")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Names, E> {
                Ok(Names::from(name))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = seq.next_element::<String>()? {
                    names.push(name);
                }
                if names.is_empty() {
                    return Err(de::Error::custom("is empty; give at least one name"));
                }
                Ok(Names(names))
            }
        }
        d.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_or_several() {
        let read = |text: &str| serde_json::from_str::<Names>(text);
        let several = read(r#"["b", "a"]"#).unwrap();
        assert_eq!(several.iter().collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!((several.only(), several.repeated()), (None, None));
        assert_eq!(read(r#""a""#).unwrap().only(), Some("a"));
        assert_eq!(read(r#"["a", "b", "a"]"#).unwrap().repeated(), Some("a"));
        assert!(read("[]").unwrap_err().to_string().contains("at least one"));
        assert!(read("3").unwrap_err().to_string().contains("a name or"));
        for text in [r#""a""#, r#"["a","b"]"#] {
            assert_eq!(serde_json::to_string(&read(text).unwrap()).unwrap(), text);
        }
    }
}
