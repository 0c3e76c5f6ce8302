//! The JSON-RPC envelope of a line: looked at, never rewritten.
//!
//! Only `id`, `method` and whether there is a result or an error are read; `params` stays raw text. A line
//! that two parsers could read as two different messages is [`Refusal::Ambiguous`] and must go nowhere.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::id::RpcId;
use crate::json::Key;

/// A line that is a JSON-RPC message.
#[derive(Debug)]
pub enum Message<'a> {
    /// Asks for an answer.
    Request {
        /// Its id, in the sender's id space.
        id: RpcId,
        /// The decoded method name.
        method: Cow<'a, str>,
        /// Absent or any JSON value.
        params: Option<&'a RawValue>,
    },
    /// Asks for nothing.
    Notification {
        /// The decoded method name.
        method: Cow<'a, str>,
        /// Absent or any JSON value.
        params: Option<&'a RawValue>,
    },
    /// Answers a request of ours.
    Response {
        /// The id of that request.
        id: RpcId,
        /// `result` (also `null`) or `error`.
        outcome: Result<&'a RawValue, &'a RawValue>,
    },
}

/// Why a line is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing but white space.
    #[error("the line is blank")]
    Blank,
    /// A log line, banner, scalar, array, or an object that is no JSON-RPC message.
    #[error("the line is not a JSON-RPC message")]
    Noise,
    /// The line begins an object but is broken JSON, has bytes that are not UTF-8, or names a method with an id or a
    /// version that JSON-RPC 2.0 does not have.
    #[error("the line is not a readable JSON-RPC message")]
    Unreadable,
    /// Two parsers could see two different messages: {0}.
    #[error("the line is ambiguous: {0}")]
    Ambiguous(&'static str),
}

/// Looks at a line (without its newline).
pub fn peek(line: &[u8]) -> Result<Message<'_>, Refusal> {
    let text = match std::str::from_utf8(line) {
        Ok(text) => text,
        Err(_) if line.first() == Some(&b'{') => return Err(Refusal::Unreadable),
        Err(_) => return Err(Refusal::Noise),
    };
    let text = text.strip_suffix('\r').unwrap_or(text);
    let start = text.trim_ascii_start();
    if !start.starts_with('{') {
        return Err(if start.is_empty() { Refusal::Blank } else { Refusal::Noise });
    }
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|_| Refusal::Unreadable)?;
    let message = envelope.classify()?;
    // A reader that also ends lines at CR would see other messages here.
    if memchr::memchr(b'\r', text.as_bytes()).is_some() {
        return Err(Refusal::Ambiguous("it has a carriage return inside"));
    }
    Ok(message)
}

/// The same message under another id: nothing but the bytes of the id differ. `None` if it is no message with an id.
pub fn with_id(line: &[u8], id: &RpcId) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(line).ok()?;
    let envelope: Envelope<'_> = serde_json::from_str(text).ok()?;
    let old = envelope.id?.get();
    let start = (old.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    Some([line.get(..start)?, id.raw().as_bytes(), line.get(start + old.len()..)?].concat())
}

#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    ambiguous: Option<&'static str>,
}

impl<'a> Envelope<'a> {
    fn classify(self) -> Result<Message<'a>, Refusal> {
        let version = match self.jsonrpc {
            None => None,
            Some(raw) if raw.get() == "\"2.0\"" => Some(()),
            // It may ask: refused, but not silently.
            Some(_) if self.method.is_some() => return Err(Refusal::Unreadable),
            Some(_) => return Err(Refusal::Noise),
        };
        if self.method.is_none() && self.result.is_none() && self.error.is_none() {
            return Err(Refusal::Noise);
        }
        if let Some(why) = self.ambiguous {
            return Err(Refusal::Ambiguous(why));
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                let method = text(method).ok_or(Refusal::Noise)?;
                match self.id.map(RpcId::from_raw) {
                    Some(Some(id)) => Ok(Message::Request { id, method, params: self.params }),
                    Some(None) => Err(Refusal::Unreadable),
                    None => Ok(Message::Notification { method, params: self.params }),
                }
            }
            (None, result, error) => {
                // To answer takes more than to ask: a log object with an `id` and an `error` is no response.
                let id = self.id.and_then(RpcId::from_raw).filter(|_| version.is_some()).ok_or(Refusal::Noise)?;
                match (result, error) {
                    (Some(result), None) => Ok(Message::Response { id, outcome: Ok(result) }),
                    (None, Some(error)) => Ok(Message::Response { id, outcome: Err(error) }),
                    _ => Err(Refusal::Ambiguous("it has both a result and an error")),
                }
            }
            (Some(_), ..) => Err(Refusal::Ambiguous("it has both a method and a result or error")),
        }
    }
}

fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|t| t.0)
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EnvelopeVisitor;
        impl<'de> Visitor<'de> for EnvelopeVisitor {
            type Value = Envelope<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut envelope = Envelope::default();
                let mut others: HashSet<Cow<'de, str>> = HashSet::new();
                while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
                    let slot = match &*key {
                        "jsonrpc" => &mut envelope.jsonrpc,
                        "id" => &mut envelope.id,
                        "method" => &mut envelope.method,
                        "params" => &mut envelope.params,
                        "result" => &mut envelope.result,
                        "error" => &mut envelope.error,
                        other => {
                            if is_case_variant(other) {
                                envelope.ambiguous = Some("it has a case variant of an envelope member");
                            } else if others.contains(&key) {
                                envelope.ambiguous = Some("a member stands twice");
                            }
                            map.next_value::<IgnoredAny>()?;
                            others.insert(key);
                            continue;
                        }
                    };
                    if slot.replace(map.next_value()?).is_some() {
                        envelope.ambiguous = Some("a member stands twice");
                    }
                }
                // A case variant alone (`Method` without `method`) is a message to a lenient parser.
                if envelope.ambiguous.is_some() && envelope.method.is_none() && envelope.result.is_none() && envelope.error.is_none() {
                    envelope.method = others.iter().any(|k| k.eq_ignore_ascii_case("method")).then_some(RawValue::NULL);
                }
                Ok(envelope)
            }
        }
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

fn is_case_variant(key: &str) -> bool {
    ["jsonrpc", "id", "method", "params", "result", "error"].iter().any(|name| key.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> Refusal {
        peek(line.as_bytes()).map(|m| format!("{m:?}")).expect_err(line)
    }

    #[test]
    fn the_three_kinds() {
        assert!(
            matches!(peek(br#"{"jsonrpc":"2.0","id":1,"method":"a/b","params":{"x":1e3}}"#), Ok(Message::Request { method, params: Some(p), .. }) if method == "a/b" && p.get() == r#"{"x":1e3}"#)
        );
        assert!(matches!(peek(br#"{"method":"m","jsonrpc":"2.0"}"#), Ok(Message::Notification { params: None, .. })));
        assert!(matches!(peek(br#"{"jsonrpc":"2.0","id":"x","error":{}}"#), Ok(Message::Response { outcome: Err(_), .. })));
    }

    #[test]
    fn under_another_id_all_other_bytes_stay() {
        let id = RpcId::from_raw(&serde_json::from_str::<Box<RawValue>>("\"x\"").unwrap()).unwrap();
        let line = b" {\"id\" : 1.50e3 ,\"params\":{\"id\":1.50e3},\"method\":\"m\"}\r";
        assert_eq!(with_id(line, &id).unwrap(), b" {\"id\" : \"x\" ,\"params\":{\"id\":1.50e3},\"method\":\"m\"}\r");
        assert_eq!(with_id(b"{\"method\":\"m\"}", &id), None);
    }

    #[test]
    fn null_is_told_from_absent() {
        assert!(
            matches!(peek(br#"{"jsonrpc":"2.0","id":1,"result":null}"#), Ok(Message::Response { outcome: Ok(r), .. }) if r.get() == "null")
        );
        assert!(matches!(peek(br#"{"jsonrpc":"2.0","id":null,"method":"m"}"#), Ok(Message::Request { id, .. }) if id.raw() == "null"));
    }

    #[test]
    fn an_escaped_method_name_is_decoded() {
        let line = br#"{"jsonrpc":"2.0","id":1,"m\u0065thod":"session\u002frequest_permission"}"#;
        assert!(matches!(peek(line), Ok(Message::Request { method, .. }) if method == "session/request_permission"));
    }

    #[test]
    fn noise_is_never_a_message() {
        for line in [
            "hello",
            "\u{1b}[1mhi",
            "42",
            "\"x\"",
            "null",
            "[1,2]",
            r#"[{"jsonrpc":"2.0","id":1,"result":1}]"#,
            r#"{"id":3,"level":"info"}"#,
            r#"{"id":3,"error":"refused"}"#,
            r#"{"id":3,"result":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}",
            "{}",
        ] {
            assert_eq!(refused(line), Refusal::Noise, "{line}");
        }
        for line in ["", " ", "\r", " \t\r"] {
            assert_eq!(refused(line), Refusal::Blank);
        }
        for line in [
            r#"{"jsonrpc":"1.0","id":3,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#,
            "{",
            r#"{"id":1"#,
            r#"{"a":1} x"#,
            r#"{"\ud800":1}"#,
        ] {
            assert_eq!(refused(line), Refusal::Unreadable, "{line}");
        }
        assert_eq!(peek(b"{\"id\":\"\xff\"}").unwrap_err(), Refusal::Unreadable);
        assert_eq!(peek(b"\xff\xfe").unwrap_err(), Refusal::Noise);
    }

    #[test]
    fn what_two_parsers_could_read_differently_is_ambiguous() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","m\u0065thod":"n"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","Method":"n"}"#,
            r#"{"jsonrpc":"2.0","id":1,"Method":"n"}"#,
            r#"{"jsonrpc":"2.0","id":1,"ID":1,"result":3}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","x":1,"x":2}"#,
            "{\"jsonrpc\":\"2.0\",\r\"id\":1,\"method\":\"m\"}",
        ] {
            assert!(matches!(refused(line), Refusal::Ambiguous(_)), "{line}");
        }
    }

    #[test]
    fn crlf_ends_a_line() {
        assert!(peek(b"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}\r").is_ok());
    }

    #[test]
    fn a_request_without_the_version_still_asks() {
        assert!(matches!(peek(br#"{"id":1,"method":"session/request_permission"}"#), Ok(Message::Request { .. })));
    }

    #[test]
    fn deep_nesting_is_just_raw_text() {
        let line = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert!(peek(line.as_bytes()).is_ok());
    }
}
