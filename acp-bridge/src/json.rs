//! Objects of foreign JSON, read one level deep without interpreting their values.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of one JSON object, in order, duplicates included; values stay raw text.
#[derive(Debug)]
pub struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// Why [`Members`] can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The text is JSON, but no object.
    #[error("is not a JSON object")]
    NotAnObject,
    /// The text is an object whose member names are no Unicode text, or no JSON at all.
    #[error("is not readable JSON")]
    Unreadable,
}

impl<'a> Members<'a> {
    /// Reads an object.
    pub fn read(raw: &'a RawValue) -> Result<Self, ReadError> {
        Self::read_str(raw.get())
    }

    /// Reads an object from text.
    pub fn read_str(text: &'a str) -> Result<Self, ReadError> {
        match serde_json::from_str(text) {
            Ok(members) => Ok(members),
            Err(_) if text.trim_start().starts_with('{') => Err(ReadError::Unreadable),
            Err(_) => Err(ReadError::NotAnObject),
        }
    }

    /// The value of `name`; the last one, if there are several.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// The value of `name` if it is a string of Unicode text.
    pub fn string(&self, name: &str) -> Option<String> {
        string(self.get(name)?)
    }

    /// The first member name that stands twice.
    pub fn duplicate(&self) -> Option<&str> {
        // Objects of the wire have a handful of members; a set pays only for large ones.
        if self.0.len() <= 16 {
            return self.0.iter().enumerate().find(|(i, (key, _))| self.0[..*i].iter().any(|(k, _)| k == key)).map(|(_, (key, _))| &**key);
        }
        let mut seen = std::collections::HashSet::new();
        self.0.iter().find(|(key, _)| !seen.insert(&**key)).map(|(key, _)| &**key)
    }

    /// The members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(key, value)| (&**key, *value))
    }
}

/// The decoded text of a JSON string; `None` for any other value and for lone surrogates.
pub fn string(raw: &RawValue) -> Option<String> {
    raw.get().starts_with('"').then(|| serde_json::from_str(raw.get()).ok()).flatten()
}

/// The elements of a JSON array; `None` for any other value.
pub fn elements(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(key) = map.next_key::<Key<'de>>()? {
                    members.push((key.0, map.next_value::<&'de RawValue>()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// A member name, borrowed where it has no escapes.
#[derive(Deserialize)]
pub(crate) struct Key<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// The JSON text of one of our own types, whose serialisation can't fail: they have text keys only.
pub fn to_text<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Whether `text` is one JSON value.
pub fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_order_and_duplicates() {
        let m = Members::read_str(r#"{"b":1,"a":{"x":1.50},"b":2}"#).unwrap();
        assert_eq!(m.duplicate(), Some("b"));
        assert_eq!(m.get("b").unwrap().get(), "2");
        assert_eq!(m.get("a").unwrap().get(), r#"{"x":1.50}"#);
        assert_eq!(m.iter().map(|(k, _)| k).collect::<Vec<_>>(), ["b", "a", "b"]);
    }

    #[test]
    fn an_escaped_name_is_the_same_name() {
        assert_eq!(Members::read_str(r#"{"id":1,"\u0069d":2}"#).unwrap().duplicate(), Some("id"));
    }

    #[test]
    fn what_is_no_object_says_so() {
        assert_eq!(Members::read_str("[1]").unwrap_err(), ReadError::NotAnObject);
        assert_eq!(Members::read_str(r#"{"\ud800":1}"#).unwrap_err(), ReadError::Unreadable);
    }
}
