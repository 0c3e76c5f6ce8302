//! What stands where a secret would and is none: plain words, references, and source code, which names a secret without
//! holding it.

use std::ops::Range;

use super::names::{Secrecy, looks_random, secrecy};

/// Values that are no secret under any name.
const WORDS: &[&str] = &[
    "true",
    "false",
    "null",
    "nil",
    "none",
    "yes",
    "no",
    "on",
    "off",
    "undefined",
    "inherit",
    "include",
    "omit",
    "required",
    "optional",
    "enabled",
    "disabled",
    "always",
    "never",
    "string",
    "str",
    "bool",
    "boolean",
    "number",
    "bytes",
    "&str",
    "int",
    "u8",
    "u16",
    "u32",
    "u64",
    "usize",
];
/// Words before an expression.
const KEYWORDS: &[&str] = &["await ", "new ", "yield ", "&mut ", "&"];
/// Objects whose members are names. What is a member of anything else could be a value with dots in it.
const OBJECTS: &[&str] = &[
    "self", "this", "cls", "process", "env", "os", "config", "cfg", "settings", "options", "opts", "args", "params", "props", "request",
    "req", "response", "res", "ctx", "context", "state", "secrets", "vars", "var", "local", "module", "github", "inputs", "import",
];
/// Ends of names of types.
const TYPES: &[&str] = &["Token", "Secret", "Password", "Key", "Credential", "Credentials", "Cookie", "String"];
/// The longest expression that is looked at.
const MAX_EXPRESSION: usize = 512;

/// Whether a value is a plain word.
pub(super) fn is_word(value: &str) -> bool {
    WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// The end of what is there of a value: where a shell puts the output of a command, it is no secret but something that runs.
/// `abc$(date)` is `abc`.
pub(super) fn literal(text: &str, start: usize, end: usize) -> usize {
    let value = &text.as_bytes()[start..end];
    value.windows(2).position(|pair| pair[0] == b'`' || pair == b"$(").map_or(end, |at| start + at)
}

/// Whether a value is only the name of a variable: `$TOKEN`, `${TOKEN}`, `${TOKEN:?missing}`, `$a->b`, `$A[`.
pub(super) fn is_reference(value: &str) -> bool {
    if is_template(value) {
        return true;
    }
    let Some(name) = value.strip_prefix('$') else { return false };
    let name = match name.strip_prefix('{') {
        // What follows `:?` is what the shell says without it; its blanks may have cut it.
        Some(braced) => match braced.split_once(":?").map(|(name, _)| name).or_else(|| braced.strip_suffix('}')) {
            Some(name) => name,
            None => return false,
        },
        None => name.trim_end_matches('['),
    };
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.replace("->", ".").bytes().all(is_path)
}

/// Whether a value is what a template puts a variable for: `{{ token }}`, `${{ secrets.TOKEN }}`.
fn is_template(value: &str) -> bool {
    let inner = value.trim_start_matches('$').strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    inner.map(str::trim).is_some_and(|name| !name.is_empty() && name.bytes().all(is_path) && !looks_random(name))
}

fn is_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')
}

/// A part of a program at the beginning of a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expression {
    /// Its length.
    pub(super) len: usize,
    /// Its string literals that are no names: they may be secrets.
    pub(super) literals: Vec<Range<usize>>,
}

/// Reads a template, a call, a member of a known object, a constant or a type; `None` if the text may begin with a value.
pub(super) fn expression(text: &str) -> Option<Expression> {
    let head = &text[..super::spans::floor(text, MAX_EXPRESSION)];
    let line = head.lines().next().unwrap_or_default();
    if line.starts_with("{{") || line.starts_with("${{") {
        let len = line.find("}}")? + 2;
        return is_template(&line[..len]).then(|| Expression { len, ..Expression::default() });
    }
    let mut found = Expression::default();
    while let Some(word) = KEYWORDS.iter().find(|word| line[found.len..].starts_with(**word)) {
        found.len += word.len();
    }
    let mut called = false;
    let mut names: Vec<&str> = Vec::new();
    let mut scoped = false;
    loop {
        let rest = &line[found.len..];
        let len = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$')).count();
        let name = &rest[..len];
        if len == 0 || name.starts_with(|c: char| c.is_ascii_digit()) || looks_random(name) {
            return None;
        }
        names.push(name);
        found.len += len;
        while let Some(len) = brackets(line, found.len, &mut found.literals) {
            called = true;
            found.len += len;
        }
        let rest = &line[found.len..];
        let Some(next) = ["::", "?.", ".", "->"].iter().find(|next| rest.starts_with(**next)) else { break };
        scoped |= *next == "::";
        found.len += next.len();
    }
    let rest = &line[found.len..];
    let ends = rest.bytes().next().is_none_or(|b| b.is_ascii_whitespace() || b",;)}?".contains(&b));
    if called || scoped {
        return (called || ends).then_some(found);
    }
    let [first, .., last] = names[..] else {
        let name = names[0];
        let generic = rest.starts_with('<') && rest.contains('>');
        let is_type = name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.bytes().all(|b| b.is_ascii_alphabetic())
            && (generic || ends && TYPES.iter().any(|end| name.ends_with(end)));
        return is_type.then_some(found);
    };
    let constant = last.contains('_') && last.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    (ends && (constant || OBJECTS.contains(&first))).then_some(found)
}

/// The length of the arguments or the index at a place, and the literals in it.
fn brackets(line: &str, at: usize, literals: &mut Vec<Range<usize>>) -> Option<usize> {
    let bytes = line.as_bytes();
    let open = at + usize::from(bytes[at..].starts_with(b"!(") || bytes[at..].starts_with(b"?["));
    if !matches!(bytes.get(open), Some(b'(' | b'[')) {
        return None;
    }
    let mut depth = 0;
    let mut i = open;
    let before = literals.len();
    while let Some(byte) = bytes.get(i) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' if depth == 1 => return Some(i + 1 - at),
            b')' | b']' => depth -= 1,
            b'"' | b'\'' | b'`' => {
                let end = literal_end(bytes, i + 1, *byte);
                if !is_name(&line[i + 1..end]) {
                    literals.push(i + 1..end);
                }
                i = end;
            }
            _ => {}
        }
        i += 1;
    }
    literals.truncate(before);
    None
}

fn literal_end(bytes: &[u8], from: usize, quote: u8) -> usize {
    let mut i = from;
    while i < bytes.len() && bytes[i] != quote {
        i += 1 + usize::from(bytes[i] == b'\\');
    }
    i.min(bytes.len())
}

/// Whether a literal is the name of a secret, a question for one, or has nothing to hide.
fn is_name(literal: &str) -> bool {
    let name = literal.trim_end_matches([':', ' ', '?', '>']);
    let word = !name.bytes().any(|b| b.is_ascii_digit() || b.is_ascii_whitespace());
    word && (!name.bytes().any(|b| b.is_ascii_alphanumeric()) && name.is_ascii() || secrecy(name) == Secrecy::Strong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_read_and_values_are_not() {
        for (text, len, literals) in [
            ("next_token();", 12, &[][..]),
            ("self.lexer.next_token()?;", 23, &[]),
            ("std::env::var(\"API_KEY\")?;", 24, &[]),
            ("prompt_password(\"Password: \")?;", 29, &[]),
            ("await getToken();", 16, &[]),
            ("Secret::new(\"hunter2\");", 22, &["hunter2"]),
            ("format!(\"{a} b\")", 16, &["{a} b"]),
            ("req.headers.authorization?.split(' ')[1];", 40, &[]),
            ("os.environ[\"API_TOKEN\"]", 23, &[]),
            ("process.env.API_KEY;", 19, &[]),
            ("TokenKind::Eof {", 14, &[]),
            ("String,", 6, &[]),
            ("Option<Token>,", 6, &[]),
            ("${{ secrets.A }} x", 16, &[]),
            ("{{ db_password }}", 17, &[]),
        ] {
            let found = expression(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(
                (found.len, found.literals.iter().map(|l| &text[l.clone()]).collect::<Vec<_>>()),
                (len, literals.to_vec()),
                "{text}"
            );
        }
        for text in
            ["hunter2", "abc.def", "correct", "p4ss(word", "a1b2c3d4e5f60718(x)", "{{0a1b2c3d4e5f6071}}", "${X:-hunter2}", "", "é", "token"]
        {
            assert_eq!(expression(text), None, "{text}");
        }
    }

    #[test]
    fn references() {
        for text in ["$T", "${T}", "${T:?not set}", "$a->b", "$A[", "{{ x }}", "${{ secrets.T }}"] {
            assert!(is_reference(text), "{text}");
        }
        for text in ["$", "$1x", "${T:-abc}", "$T-abc", "{{}}", "T"] {
            assert!(!is_reference(text), "{text}");
        }
    }
}
