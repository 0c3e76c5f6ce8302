//! Secrets that are known by the name before them: `KEY=value`, `"key": "value"`, headers, query parameters.

use std::ops::Range;

use memchr::memchr2;

use super::lexed::{Lexed, Word};
use super::names::{Secrecy, looks_random, query_secrecy, secrecy};
use super::plain::{expression, is_reference, is_word, literal};
use super::spans::{MARKER, Spans};

/// Words before the secret in `Authorization`; they stay.
const SCHEMES: &[&str] = &["basic", "bearer", "token", "digest", "negotiate", "apikey", "bot", "key", "aws4-hmac-sha256", "dpop"];
/// Finds the values of secret names; every byte is looked at a fixed number of times.
pub(super) fn scan(text: &str, spans: &mut Spans) {
    scan_for(text, spans, |_| true);
}

/// Finds the values of cookie headers only, which a shell would split.
pub(super) fn scan_cookies(text: &str, spans: &mut Spans) {
    scan_for(text, spans, |name| name.header == Header::Cookie);
}

fn scan_for(text: &str, spans: &mut Spans, wanted: impl Fn(&Name) -> bool) {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(at) = memchr2(b'=', b':', &bytes[from..]) {
        let at = from + at;
        from = at + 1;
        if bytes[at] == b':' && bytes.get(from) == Some(&b':') {
            from += 1;
            continue;
        }
        if bytes[at] == b':' && bytes[from..].starts_with(b"//") {
            continue;
        }
        let Some(name) = Name::before(text, at).filter(&wanted) else { continue };
        if let Some(end) = value(text, at, &name, spans) {
            from = from.max(end);
        }
    }
}

/// A name that says something about the value after it.
struct Name {
    /// How much it says.
    secrecy: Secrecy,
    /// The header that it is, if its value has a form of its own.
    header: Header,
    /// Whether it stands in quotes, as in JSON.
    quoted: bool,
    /// The quote right before an unquoted name: the pair as a whole stands in quotes.
    enclosed: Option<u8>,
}

#[derive(PartialEq, Eq)]
enum Header {
    Authorization,
    Cookie,
    No,
}

impl Name {
    fn before(text: &str, at: usize) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut end = at;
        while end > 0 && at - end < 8 && matches!(bytes[end - 1], b' ' | b'\t') {
            end -= 1;
        }
        let mut quoted = false;
        if end > 0 && bytes[end - 1] == b']' {
            end -= 1;
        }
        if end > 0 && is_quote(bytes[end - 1]) {
            quoted = true;
            end -= 1;
            while end > 0 && at - end < 16 && bytes[end - 1] == b'\\' {
                end -= 1;
            }
        }
        let start = end - bytes[..end].iter().rev().take_while(|b| b.is_ascii_alphanumeric() || b"_-.".contains(b)).count();
        if start == end {
            return None;
        }
        let name = &text[start..end];
        let before = start.checked_sub(1).map(|i| bytes[i]);
        // A pattern that looks for a line, as in `grep '^password:'`; what a shell says if `${TOKEN:?is not set}`.
        if before == Some(b'^') || before == Some(b'{') && bytes[at..].starts_with(b":?") {
            return None;
        }
        let secrecy = match before {
            Some(b'?' | b'&') => query_secrecy(name),
            // `API key: ...`
            Some(b' ') if name.eq_ignore_ascii_case("key") => {
                let words = bytes[..start - 1].iter().rev().take_while(|b| b.is_ascii_alphabetic()).take(16).count();
                secrecy(&format!("{}_{name}", &text[start - 1 - words..start - 1]))
            }
            _ => secrecy(name),
        };
        let lower = &name.to_ascii_lowercase();
        let header = match bytes[at] {
            _ if quoted => Header::No,
            _ if lower.ends_with("authorization") => Header::Authorization,
            b':' if lower.ends_with("cookie") => Header::Cookie,
            _ => Header::No,
        };
        (secrecy != Secrecy::No).then(|| Self { secrecy, header, quoted, enclosed: before.filter(|b| is_quote(*b) && !quoted) })
    }
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

/// Takes out the value after the separator at `at`; where to go on.
fn value(text: &str, at: usize, name: &Name, spans: &mut Spans) -> Option<usize> {
    let bytes = text.as_bytes();
    let colon = bytes[at] == b':';
    let mut start = at + 1;
    while start < bytes.len() && start - at < 3 && matches!(bytes[start], b'=' | b'>') {
        start += 1;
    }
    let blank = |b: &u8| matches!(b, b' ' | b'\t') || name.quoted && matches!(b, b'\n' | b'\r');
    start += bytes[start..].iter().take_while(|b| blank(b)).count();
    let first = *bytes.get(start)?;
    if colon && is_position(text, at) || first == b'{' && bytes.get(start + 1).is_none_or(u8::is_ascii_whitespace) {
        return None;
    }
    let spaced = start > at + 1 && (colon || at > 0 && matches!(bytes[at - 1], b' ' | b':'));
    if spaced
        && !name.quoted
        && name.header == Header::No
        && let Some(code) = expression(&text[start..])
    {
        for literal in code.literals {
            take(text, name, start + literal.start, start + literal.end, spans);
        }
        return Some(start + code.len);
    }
    let escapes = bytes[start..].iter().take_while(|b| **b == b'\\').count();
    let backtick = first == b'`' && !name.quoted;
    if !backtick && name.enclosed != Some(first) && bytes.get(start + escapes).is_some_and(|b| is_quote(*b)) {
        let open = start + escapes + 1;
        let mut end = closing(bytes, open, bytes[open - 1], escapes);
        if !name.quoted && escapes == 0 && is_within(text, start) {
            if bytes.get(open).is_none_or(|b| b" \t\n;,)".contains(b)) {
                return Some(open);
            }
            // It may end a text that began before: then what a shell would do next is no value.
            end = open + text[open..end].find([';', '|', '&', '\n', '`']).unwrap_or(end - open);
        }
        if bytes[open - 1] == b'\'' || name.quoted || colon || !is_reference(&text[open..end]) {
            take(text, name, open, if colon || bytes[open - 1] == b'\'' { end } else { literal(text, open, end) }, spans);
        }
        return Some(end);
    }
    if first == b'[' && !text[start..].starts_with(MARKER) {
        let end = memchr::memchr(b']', &bytes[start..]).map_or(bytes.len(), |at| start + at);
        take(text, name, start + 1, end, spans);
        return Some(end);
    }
    if first == b'{' && name.quoted {
        return None;
    }
    if let Some(quote) = name.enclosed
        && let Some(len) = memchr::memchr(quote, &bytes[start..])
        && (colon || !is_script(&text[start..start + len]))
    {
        let end = if quote == b'\'' { start + len } else { literal(text, start, start + len) };
        let start = if name.header == Header::Authorization { after_scheme(text, start) } else { start };
        take(text, name, start, end, spans);
        return Some(end);
    }
    let end = match name.header {
        Header::Authorization => {
            let unquoted = |at: usize| at + usize::from(bytes.get(at).is_some_and(|b| is_quote(*b)) && !is_within(text, at));
            start = unquoted(after_scheme(text, unquoted(start)));
            let mut end = word(bytes, start);
            while end < bytes.len() && end > start && bytes[end - 1] == b',' {
                let next = end + bytes[end..].iter().take_while(|b| **b == b' ').count();
                if next == end || word(bytes, next) == next {
                    break;
                }
                end = word(bytes, next);
            }
            end
        }
        Header::Cookie => {
            let mut end = cookie(text, start);
            while bytes[end..].starts_with(b"; ") {
                let next = cookie(text, end + 2);
                if !bytes[end + 2..next].contains(&b'=') || literal(text, end + 2, next) < next {
                    break;
                }
                end = next;
            }
            end
        }
        Header::No => word(bytes, start),
    };
    let end = if colon && name.quoted { end } else { literal(text, start, end) };
    take(text, name, start, end, spans);
    Some(end.max(start))
}

/// Whether a separator is a part of a place in a file: `token.rs:42:9`.
fn is_position(text: &str, at: usize) -> bool {
    let before = text[..at].bytes().rev().take_while(u8::is_ascii_alphanumeric).count();
    let digits = text[at + 1..].bytes().take_while(|b| b.is_ascii_digit() || *b == b':').count();
    let named = secrecy(&text[at - before..at]) != Secrecy::No;
    (1..=4).contains(&before) && digits > 0 && !named && text[..at - before].ends_with('.')
}

/// Whether a quote stands within a quoted text, as in `read -p 'Password: ' x`, or in one with an apostrophe.
fn is_within(text: &str, at: usize) -> bool {
    let quote = text.as_bytes()[at];
    let line = text[..at].bytes().rev().take(256).take_while(|b| *b != b'\n');
    line.filter(|b| *b == quote).count() % 2 == 1
}

/// The closing quote of a value, preceded by as many backslashes as the opening one; the end if there is none.
fn closing(bytes: &[u8], open: usize, quote: u8, escapes: usize) -> usize {
    let mut backslashes = 0;
    for (i, byte) in bytes[open..].iter().enumerate() {
        match *byte {
            b'\\' => backslashes += 1,
            b if b == quote && (if escapes == 0 { backslashes % 2 == 0 || quote == b'`' } else { backslashes <= escapes }) => {
                return open + i - backslashes.min(escapes);
            }
            _ => backslashes = 0,
        }
    }
    bytes.len()
}

/// The end of an unquoted value.
fn word(bytes: &[u8], start: usize) -> usize {
    let start = start.min(bytes.len());
    let stop = |b: &u8| b.is_ascii_whitespace() || is_quote(*b) || b"&;|<>".contains(b);
    start + bytes[start..].iter().take_while(|b| !stop(b)).count()
}

/// The end of a cookie, whose value may be in quotes.
fn cookie(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let end = word(bytes, start);
    if end == start || bytes[end - 1] != b'=' || !bytes.get(end).is_some_and(|b| is_quote(*b)) {
        return end;
    }
    // If the quote ends a text that began before, what touches it belongs to the cookie all the same.
    word(bytes, if is_within(text, end) { end + 1 } else { closing(bytes, end + 1, bytes[end], 0) + 1 })
}

/// The value of a word of a command line that is a pair as a whole, where its value has blanks or quotes: `KEY='a b'`,
/// `'X-Api-Key: a b'`. `script` tells whether the word is a command line itself, as after `sh -c`.
pub(super) fn whole_word(lexed: &Lexed, word: &Word, written: &str, script: bool) -> Option<Range<usize>> {
    let text = lexed.text(word);
    let name_start = text.bytes().take_while(|b| *b == b'-').count();
    let at = memchr2(b'=', b':', text.as_bytes())?;
    let name = text.get(name_start..at)?;
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b)) {
        return None;
    }
    let colon = text.as_bytes()[at] == b':';
    let mut start = at + 1;
    if colon {
        start += text[start..].bytes().take_while(|b| *b == b' ').count();
    }
    let rest = &text[start..];
    let several = rest.bytes().any(|b| b.is_ascii_whitespace() || is_quote(b) || b"&;|<>".contains(&b));
    let secret = match secrecy(name) {
        Secrecy::Strong => true,
        Secrecy::Weak => looks_random(rest),
        Secrecy::No => false,
    };
    if !several || !secret || is_reference(rest) {
        return None;
    }
    let quote = lexed.quoted(word.plain.start + start);
    let value_quoted = quote.is_some() && quote != lexed.quoted(word.plain.start + at);
    if !value_quoted && (script || !colon && is_script(rest)) {
        return None;
    }
    let single = quote.is_some_and(|at| !written.as_bytes()[at..].starts_with(b"\"") && !written.as_bytes()[at..].starts_with(b"$\""));
    let end = if single { text.len() } else { literal(text, start, text.len()) };
    let start = if name.to_ascii_lowercase().ends_with("authorization") { after_scheme(text, start) } else { start };
    (start < end && !is_reference(&text[start..end])).then(|| word.plain.start + start..word.plain.start + end)
}

/// Whether a text that a pair in quotes would end with has more commands in it, or more parameters.
fn is_script(text: &str) -> bool {
    text.contains([';', '|', '&', '\n', '`']) || text.contains("$(")
}

/// The start of the secret of an `Authorization` header.
fn after_scheme(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let letters = bytes[start..].iter().take(20).take_while(|b| b.is_ascii_alphanumeric() || **b == b'-').count();
    let blanks = bytes[start + letters..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    let known = SCHEMES.iter().any(|scheme| text[start..start + letters].eq_ignore_ascii_case(scheme));
    if known && blanks > 0 { start + letters + blanks } else { start }
}

fn take(text: &str, name: &Name, start: usize, end: usize, spans: &mut Spans) {
    if start >= end {
        return;
    }
    let whole = &text[start..end];
    let value = whole.trim_end_matches([',', '}', ')', ']', '$']);
    let plain = value.is_empty() || is_word(value) || !name.quoted && (is_reference(value) || is_reference(whole));
    if !plain && (name.secrecy == Secrecy::Strong || looks_random(value)) {
        spans.push(start..start + value.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presentation::spans::replace;

    fn shown(text: &str) -> String {
        let mut spans = Spans::new();
        scan(text, &mut spans);
        replace(text, spans).unwrap_or_else(|| text.to_owned())
    }

    #[test]
    fn values_of_secret_names_go_and_their_surroundings_stay() {
        for (text, expected) in [
            ("export API_KEY=abc; ls", "export API_KEY=[redacted]; ls"),
            (r#"{"password": "a\"b", "n": 1}"#, r#"{"password": "[redacted]", "n": 1}"#),
            (r#"{\"password\":\"a b\",\"n\":1}"#, r#"{\"password\":\"[redacted]\",\"n\":1}"#),
            ("password: hunter2\nuser: x", "password: [redacted]\nuser: x"),
            ("{password: hunter2}", "{password: [redacted]}"),
            ("curl -H 'Authorization: Bearer abc' u", "curl -H 'Authorization: Bearer [redacted]' u"),
            ("Authorization: Basic abc; rm x", "Authorization: Basic [redacted]; rm x"),
            ("Cookie: a=b; c=d; rm x", "Cookie: [redacted]; rm x"),
            ("\"Cookie: a=b; c=d\" x", "\"Cookie: [redacted]\" x"),
            ("https://h/p?key=1&token=abc&x=1", "https://h/p?key=[redacted]&token=[redacted]&x=1"),
            ("TOKEN=$(cat f) X_TOKEN=$T T=\"$X\"", "TOKEN=$(cat f) X_TOKEN=$T T=\"$X\""),
            ("TOKEN=\"a$(rm -rf ~)\" x", "TOKEN=\"[redacted]$(rm -rf ~)\" x"),
            ("os.environ[\"API_KEY\"] = 'abc d'", "os.environ[\"API_KEY\"] = '[redacted]'"),
            ("API key: abc", "API key: [redacted]"),
            ("Token::new https://x token: true", "Token::new https://x token: true"),
            ("\"secrets.token\": [\"a\", \"b\"]", "\"secrets.token\": [[redacted]]"),
        ] {
            assert_eq!(shown(text), expected);
            assert_eq!(shown(expected), expected);
        }
    }
}
