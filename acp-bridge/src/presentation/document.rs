//! Redaction of a whole JSON document, such as a recorded frame: it stays the same document, but for the texts in it.

use std::ops::Range;

use serde_json::value::RawValue;

use super::Redactor;
use super::names::{Secrecy, looks_random, secrecy};
use super::spans::MARKER;
use crate::json::{Members, elements, string};

/// What is nested deeper is left out.
const MAX_DEPTH: usize = 64;
/// Members whose text is a command line.
const COMMANDS: &[&str] = &["command", "cmd", "script", "shell_command"];
/// Identities that must stay what they are: an answer names them byte for byte.
const IDENTITIES: &[&str] = &["optionId"];
/// Members that hold words of the protocol, which no name of a person may change.
const WORDS: &[&str] = &["jsonrpc", "method", "type", "kind", "sessionUpdate", "outcome", "status", "stopReason"];

impl Redactor {
    /// A JSON document without the secrets in its strings, each read with the name of its member. `finish` gets every
    /// text after that. Blanks, numbers and the order of members stay as they are; an object with a secret for a name
    /// becomes a string. A text that is no JSON is treated as one string.
    pub fn document(&self, json: &str, finish: &dyn Fn(&str) -> String) -> String {
        let Ok(root) = serde_json::from_str::<&RawValue>(json) else { return finish(&self.long_text(json)) };
        let mut edits = Edits { redactor: self, finish, base: json.as_ptr() as usize, found: Vec::new() };
        edits.value(root, None, false, 0);
        edits.apply(json)
    }
}

struct Edits<'a> {
    redactor: &'a Redactor,
    finish: &'a dyn Fn(&str) -> String,
    /// Where the document begins in memory: its values are parts of it.
    base: usize,
    /// In the order of the document.
    found: Vec<(Range<usize>, String)>,
}

impl Edits<'_> {
    fn value(&mut self, raw: &RawValue, name: Option<&str>, secret: bool, depth: usize) {
        match raw.get().as_bytes().first() {
            Some(b'"') => self.text(raw, name, secret),
            Some(b'{' | b'[') if depth == MAX_DEPTH => self.replace(raw, MARKER),
            Some(b'{') => self.object(raw, depth),
            Some(b'[') => self.list(raw, name, secret, depth),
            _ => {}
        }
    }

    fn object(&mut self, raw: &RawValue, depth: usize) {
        let Ok(members) = Members::read(raw) else { return self.replace(raw, MARKER) };
        // Names are not rewritten: an object that has a secret for a name is left out.
        if members.iter().any(|(name, _)| self.redactor.long_text(name) != name) {
            return self.replace(raw, MARKER);
        }
        // As in `{"name":"API_KEY","value":"..."}`.
        let named = members.string("name");
        for (name, value) in members.iter() {
            let by_name = if name == "value" { named.as_deref().unwrap_or(name) } else { name };
            self.value(value, Some(name), is_secret(by_name, value), depth + 1);
        }
    }

    fn list(&mut self, raw: &RawValue, name: Option<&str>, secret: bool, depth: usize) {
        let Some(values) = elements(raw) else { return self.replace(raw, MARKER) };
        let words: Option<Vec<String>> = values.iter().map(|value| string(value)).collect();
        let shown = words.filter(|words| words.len() > 1 && !secret).and_then(|words| self.arguments(&words));
        for (at, value) in values.iter().enumerate() {
            match &shown {
                Some(shown) => self.replace_text(value, &shown[at]),
                None => self.value(value, name, secret, depth + 1),
            }
        }
    }

    /// The words of a command line where one tells of the next, as in `["--password", "..."]`; `None` if that finds nothing.
    fn arguments(&self, words: &[String]) -> Option<Vec<String>> {
        let line = shell_words::join(words);
        let shown = self.redactor.long_command(&line)?;
        if shown == line {
            return None;
        }
        let shown = shell_words::split(&shown).ok().filter(|shown| shown.len() == words.len());
        Some(shown.unwrap_or_else(|| vec![MARKER.to_owned(); words.len()]))
    }

    fn text(&mut self, raw: &RawValue, name: Option<&str>, secret: bool) {
        if name.is_some_and(|name| IDENTITIES.contains(&name)) {
            return;
        }
        let Some(text) = string(raw) else { return self.replace(raw, MARKER) };
        if secret && !text.is_empty() {
            return self.replace(raw, MARKER);
        }
        let shown = match name {
            Some(name) if COMMANDS.contains(&name) => self.redactor.long_command(&text).unwrap_or_else(|| MARKER.to_owned()),
            _ => self.redactor.long_text(&text),
        };
        let finished = if name.is_some_and(|name| WORDS.contains(&name)) { shown } else { (self.finish)(&shown) };
        if finished != text {
            self.replace(raw, &finished);
        }
    }

    fn replace_text(&mut self, raw: &RawValue, text: &str) {
        self.replace(raw, &(self.finish)(text));
    }

    fn replace(&mut self, raw: &RawValue, text: &str) {
        let start = raw.get().as_ptr() as usize - self.base;
        self.found.push((start..start + raw.get().len(), serde_json::Value::from(text).to_string()));
    }

    fn apply(self, json: &str) -> String {
        let mut out = String::with_capacity(json.len());
        let mut from = 0;
        for (range, text) in self.found {
            out.push_str(&json[from..range.start]);
            out.push_str(&text);
            from = range.end;
        }
        out.push_str(&json[from..]);
        out
    }
}

fn is_secret(name: &str, value: &RawValue) -> bool {
    match secrecy(name) {
        Secrecy::Strong => true,
        Secrecy::Weak => string(value).is_some_and(|text| looks_random(&text)),
        Secrecy::No => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(json: &str) -> String {
        let redactor = Redactor::new([("DB_PASSWORD", "known\"value123")]);
        let out = redactor.document(json, &|text| text.replace("/root/", "/home/user/"));
        assert_eq!(redactor.document(&out, &str::to_owned), out, "idempotent");
        serde_json::from_str::<&RawValue>(&out).unwrap();
        out
    }

    #[test]
    fn a_document_without_secrets_stays_byte_for_byte() {
        let json =
            r#" { "id" : 1e0, "big":123456789012345678901,"t":"a\u0062 \ud83d\ude00", "max_tokens": 5,"n":null,"l":[1,"a","ls -la"] }"#;
        assert_eq!(redacted(json), json);
    }

    #[test]
    fn secrets_are_found_by_member_by_neighbour_by_shape_and_by_value() {
        for (json, wanted) in [
            (r#"{"apiKey":"abc"}"#, r#"{"apiKey":"[redacted]"}"#),
            (r#"{"env":[{"name":"API_KEY","value":"abc"}]}"#, r#"{"env":[{"name":"API_KEY","value":"[redacted]"}]}"#),
            (r#"{"headers":[{"name":"Authorization","value":"x y"}]}"#, r#"{"headers":[{"name":"Authorization","value":"[redacted]"}]}"#),
            (r#"{"argv":["mysql","--password","abc"]}"#, r#"{"argv":["mysql","--password","[redacted]"]}"#),
            (r#"{"command":"curl -u bob:pw x"}"#, r#"{"command":"curl -u bob:[redacted] x"}"#),
            (r#"{"command":"echo 'open"}"#, r#"{"command":"[redacted]"}"#),
            (r#"{"t":"it is known\"value123."}"#, r#"{"t":"it is [redacted]."}"#),
            (r#"{"t":"it is kno\u0077n\"value123."}"#, r#"{"t":"it is [redacted]."}"#),
            (r#"{"known\"value123":1}"#, r#""[redacted]""#),
            (r#"{"a":{"known\"value123":1}}"#, r#"{"a":"[redacted]"}"#),
            (r#"{"t":"\ud800"}"#, r#"{"t":"[redacted]"}"#),
            (r#"{"optionId":"known\"value123 \ud800"}"#, r#"{"optionId":"known\"value123 \ud800"}"#),
            (r#"{"cwd":"/root/x"}"#, r#"{"cwd":"/home/user/x"}"#),
            ("not json, token=abcdefgh12345678", "not json, token=[redacted]"),
        ] {
            assert_eq!(if json.starts_with('n') { Redactor::default().document(json, &str::to_owned) } else { redacted(json) }, wanted);
        }
    }

    #[test]
    fn what_is_nested_too_deep_is_left_out() {
        let json = format!("{}\"known\\\"value123\"{}", r#"{"a":"#.repeat(80), "}".repeat(80));
        assert!(!redacted(&json).contains("known"));
    }
}
