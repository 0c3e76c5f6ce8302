//! JSON-RPC ids, compared as typed values and echoed exactly as they were written.

use std::hash::{Hash, Hasher};

use serde_json::value::RawValue;

/// The most bytes of an id that can serve as a `pending_id`.
pub const MAX_PENDING_ID_BYTES: usize = 256;

/// The most bytes of an id, as written; a longer one is unreadable.
pub const MAX_ID_BYTES: usize = 256 * 1024;

/// A JSON-RPC id as its peer wrote it.
///
/// `1`, `1.0` and `"1"` are three different ids; `"a"` and `"\u0061"` are one.
#[derive(Clone, Debug)]
pub struct RpcId {
    raw: Box<str>,
    value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Value {
    Null,
    /// Decoded text.
    Text(Box<str>),
    /// Text that is not Unicode (a lone surrogate escape); compared as written.
    Opaque(Box<str>),
    /// A number without fraction and exponent, as written.
    Integer(Box<str>),
    /// Any other number, as written.
    Number(Box<str>),
}

impl RpcId {
    /// Reads an id; `None` if the JSON value is not a string, a number or `null`, or over [`MAX_ID_BYTES`].
    pub fn from_raw(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        if text.len() > MAX_ID_BYTES {
            return None;
        }
        let value = match text.as_bytes().first()? {
            b'n' => Value::Null,
            b'"' => match serde_json::from_str::<String>(text) {
                Ok(decoded) => Value::Text(decoded.into()),
                Err(_) => Value::Opaque(text.into()),
            },
            b'-' | b'0'..=b'9' if text.bytes().all(|b| b == b'-' || b.is_ascii_digit()) => Value::Integer(text.into()),
            b'-' | b'0'..=b'9' => Value::Number(text.into()),
            _ => return None,
        };
        Some(Self { raw: text.into(), value })
    }

    /// The id of a request of ours.
    pub fn from_u64(id: u64) -> Self {
        let raw: Box<str> = id.to_string().into();
        Self { raw: raw.clone(), value: Value::Integer(raw) }
    }

    /// The id of a request that is passed on under a text of ours, which needs no escapes.
    pub fn from_text(text: &str) -> Self {
        Self { raw: format!("\"{text}\"").into(), value: Value::Text(text.into()) }
    }

    /// The id's JSON text, to be echoed.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The integer, if this is one that fits.
    pub fn as_u64(&self) -> Option<u64> {
        match &self.value {
            Value::Integer(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// The id as the text people see: a string verbatim, an integer in decimal.
    ///
    /// `None` for every other id, one over [`MAX_PENDING_ID_BYTES`] and one with control characters:
    /// the caller makes a text of its own for those.
    pub fn pending_text(&self) -> Option<&str> {
        let text = match &self.value {
            Value::Text(text) | Value::Integer(text) => text,
            Value::Null | Value::Opaque(_) | Value::Number(_) => return None,
        };
        (text.len() <= MAX_PENDING_ID_BYTES && !text.chars().any(char::is_control)).then_some(text)
    }
}

impl PartialEq for RpcId {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for RpcId {}

impl Hash for RpcId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(json: &str) -> RpcId {
        let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
        RpcId::from_raw(&raw).unwrap()
    }

    #[test]
    fn ids_of_different_types_differ() {
        assert_ne!(id("1"), id("\"1\""));
        assert_ne!(id("1"), id("1.0"));
        assert_ne!(id("1"), id("1e0"));
        assert_ne!(id("null"), id("\"null\""));
    }

    #[test]
    fn an_escaped_string_is_the_same_id_and_is_echoed_as_written() {
        assert_eq!(id("\"a\""), id("\"\\u0061\""));
        assert_eq!(id("\"\\u0061\"").raw(), "\"\\u0061\"");
    }

    #[test]
    fn pending_text_is_only_for_strings_and_integers_within_the_limit() {
        assert_eq!(id("5").pending_text(), Some("5"));
        assert_eq!(id("123456789012345678901234567890").pending_text(), Some("123456789012345678901234567890"));
        assert_eq!(id("\"é 1\"").pending_text(), Some("é 1"));
        assert_eq!(id("\"\"").pending_text(), Some(""));
        for other in ["null", "1.5", "1e3", "\"a\\nb\"", "\"\\ud800\""] {
            assert_eq!(id(other).pending_text(), None, "{other}");
        }
        let long = |n: usize| format!("\"{}\"", "x".repeat(n));
        assert!(id(&long(MAX_PENDING_ID_BYTES)).pending_text().is_some());
        assert!(id(&long(MAX_PENDING_ID_BYTES + 1)).pending_text().is_none());
    }

    #[test]
    fn structures_are_no_ids() {
        for json in ["true", "[1]", "{}"] {
            let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
            assert!(RpcId::from_raw(&raw).is_none());
        }
    }
}
