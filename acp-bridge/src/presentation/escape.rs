//! Characters that change what is seen: escaped on the socket, visible in terminals.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character is shown escaped: control characters, bidi marks, and characters without a width.
pub fn is_hidden(c: char) -> bool {
    match c {
        ' '..='~' => false,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        _ => matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}'),
    }
}

/// A line of JSON whose strings have every [hidden](is_hidden) character as a `\uXXXX` escape, and whose blanks between
/// tokens are spaces.
///
/// The line must be valid JSON: then such characters stand nowhere but in strings, and the value stays the same.
pub fn escape_json_line(line: &str) -> Cow<'_, str> {
    if line.bytes().all(|b| matches!(b, b' '..=b'~' | b'\n')) {
        return Cow::Borrowed(line);
    }
    escape(
        line,
        |c| c != '\n' && is_hidden(c),
        |out, c| {
            // Raw control characters below 0x20 are blanks: JSON has them in no string.
            if c < ' ' {
                return out.push(' ');
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        },
    )
}

/// A text for one line of a terminal: hidden characters in a visible form, such as `\x1b`, `\n`, `\u{202e}`.
pub fn terminal(text: &str) -> Cow<'_, str> {
    escape(text, is_hidden, visible)
}

/// A text for a terminal, whose line ends and tabs stay.
pub fn terminal_multiline(text: &str) -> Cow<'_, str> {
    escape(text, |c| is_hidden(c) && !matches!(c, '\n' | '\t'), visible)
}

fn visible(out: &mut String, c: char) {
    let _ = match c {
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        '\0'..='\u{7f}' => write!(out, "\\x{:02x}", c as u32),
        _ => write!(out, "\\u{{{:x}}}", c as u32),
    };
}

fn escape(text: &str, hidden: impl Fn(char) -> bool, write: impl Fn(&mut String, char)) -> Cow<'_, str> {
    let Some(first) = text.find(&hidden) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for c in text[first..].chars() {
        if hidden(c) {
            write(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NASTY: &str = "a\u{1b}]52;c;eA==\u{7}\u{202e}b\u{200b}\u{7f}\u{9b}31m\u{2028}\r\n\t\u{feff}\u{e0041}é😀";

    #[test]
    fn a_json_line_keeps_its_value_and_shows_nothing_hidden() {
        let line = serde_json::to_string(&serde_json::json!({ NASTY: [NASTY, 1] })).unwrap();
        let escaped = escape_json_line(&line);
        assert!(!escaped.chars().any(is_hidden), "{escaped}");
        assert!(escaped.contains("\\u202e") && escaped.contains("\\udb40\\udc41") && escaped.contains("é😀"));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), serde_json::from_str::<serde_json::Value>(&line).unwrap());
        assert_eq!(escape_json_line("{\"a\":\t\"b\"\r}\n"), "{\"a\": \"b\" }\n");
        assert!(matches!(escape_json_line("{\"a\": \"b\"}\n"), Cow::Borrowed(_)));
        assert!(matches!(escape_json_line("{\"a\":\"é😀\"}\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn terminals_show_what_is_there() {
        assert_eq!(terminal(NASTY), "a\\x1b]52;c;eA==\\x07\\u{202e}b\\u{200b}\\x7f\\u{9b}31m\\u{2028}\\r\\n\\t\\u{feff}\\u{e0041}é😀");
        assert_eq!(terminal_multiline("a\tb\n\u{1b}c\r"), "a\tb\n\\x1bc\\r");
        assert!(matches!(terminal("plain é"), Cow::Borrowed(_)));
    }
}
