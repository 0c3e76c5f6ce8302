//! Splits a command line as a shell does, far enough that quoting can't hide a secret.

use std::ops::Range;

use super::lexed::{Lexed, Origin, Word};

/// Splits a command line; `None` if its quoting has no end.
pub(super) fn strict(text: &str) -> Option<Lexed> {
    let mut lexer = Lexer::new(text)?;
    while let Some(byte) = lexer.peek(0) {
        match byte {
            b' ' | b'\t' | b'\r' => lexer.blank(1),
            b'\n' => {
                lexer.end_command(1);
                lexer.here_documents()?;
            }
            b';' | b'|' | b'&' | b'(' | b')' => lexer.end_command(1),
            b'`' => lexer.end_command(1),
            b'<' if lexer.text.as_bytes()[lexer.at..].starts_with(b"<<<") => lexer.blank(3),
            b'<' if lexer.peek(1) == Some(b'<') => lexer.here_document(),
            b'<' | b'>' => lexer.blank(1),
            b'#' if !lexer.in_word => {
                let len = lexer.text[lexer.at..].find('\n').unwrap_or(lexer.text.len() - lexer.at);
                lexer.lexed.other.push(lexer.at..lexer.at + len);
                lexer.blank(len);
            }
            b'\'' => {
                let len = lexer.text[lexer.at + 1..].find('\'')?;
                lexer.quote(1, len, 1, false)?;
            }
            b'$' if matches!(lexer.peek(1), Some(b'\'')) => {
                let len = ansi_end(&lexer.text[lexer.at + 2..])?;
                lexer.ansi(len)?;
            }
            b'$' if matches!(lexer.peek(1), Some(b'"')) => {
                let len = double_end(&lexer.text[lexer.at + 2..])?;
                lexer.quote(2, len, 1, true)?;
            }
            b'"' => {
                let len = double_end(&lexer.text[lexer.at + 1..])?;
                lexer.quote(1, len, 1, true)?;
            }
            b'\\' => lexer.escape(),
            _ => lexer.char(0),
        }
    }
    if !lexer.pending.is_empty() {
        return None;
    }
    lexer.end_word();
    Some(lexer.lexed)
}

/// Splits a text that may be a command line, a part of one, or JSON: blanks split, quotes are left out, escapes are read
/// as whoever prints them would. Never fails on the text's form.
pub(super) fn lenient(text: &str) -> Option<Lexed> {
    let mut lexer = Lexer::new(text)?;
    while let Some(byte) = lexer.peek(0) {
        match byte {
            b'\n' | b';' | b'|' | b'&' | b'(' | b')' => lexer.end_command(1),
            b' ' | b'\t' | b'\r' | b'<' | b'>' => lexer.blank(1),
            b'\\' => lexer.any_escape(),
            b'$' if matches!(lexer.peek(1), Some(b'\'' | b'"')) => lexer.skip(2),
            b'"' | b'\'' | b'`' => lexer.skip(1),
            _ => lexer.char(0),
        }
    }
    lexer.end_word();
    Some(lexer.lexed)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    lexed: Lexed,
    in_word: bool,
    word_start: usize,
    verbatim: bool,
    first: bool,
    /// Here documents whose bodies begin after this line: the word that ends them, whether tabs before it are skipped.
    pending: Vec<(String, bool)>,
}

impl<'a> Lexer<'a> {
    fn new(text: &'a str) -> Option<Self> {
        u32::try_from(text.len()).ok()?;
        let mut lexed = Lexed::default();
        lexed.plain.reserve(text.len());
        lexed.origin.reserve(text.len());
        Some(Self { text, at: 0, lexed, in_word: false, word_start: 0, verbatim: true, first: true, pending: Vec::new() })
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn begin(&mut self) {
        if !self.in_word {
            self.in_word = true;
            self.word_start = self.lexed.plain.len();
        }
    }

    fn push(&mut self, c: char, from: Range<usize>, quoted: usize) {
        self.lexed.plain.push(c);
        let origin = Origin { start: from.start as u32, end: from.end as u32, quoted: quoted as u32 };
        self.lexed.origin.extend(std::iter::repeat_n(origin, c.len_utf8()));
    }

    /// Takes one character as it is.
    fn char(&mut self, quoted: usize) {
        let Some(c) = self.text[self.at..].chars().next() else { return };
        self.begin();
        self.push(c, self.at..self.at + c.len_utf8(), quoted);
        self.at += c.len_utf8();
    }

    fn skip(&mut self, len: usize) {
        self.verbatim = false;
        self.at += len;
    }

    fn escape(&mut self) {
        if self.peek(1) == Some(b'\n') {
            return self.skip(2);
        }
        self.begin();
        self.skip(0);
        let Some(c) = self.text[self.at + 1..].chars().next() else { return self.char(0) };
        self.push(c, self.at..self.at + 1 + c.len_utf8(), 0);
        self.at += 1 + c.len_utf8();
    }

    /// Takes an escape of any language: `\x73`, `\u0073`, `\n`, a line that goes on.
    fn any_escape(&mut self) {
        match ansi_escape(&self.text[self.at + 1..]) {
            Some(('\n', 1)) if self.peek(1) == Some(b'\n') => self.skip(2),
            Some((c, used)) if c.is_ascii_control() => self.blank(1 + used),
            Some((c, used)) if used > 1 && self.peek(1).is_some_and(|b| b.is_ascii_alphanumeric()) => {
                self.begin();
                self.push(c, self.at..self.at + 1 + used, 0);
                self.skip(1 + used);
            }
            _ => self.skip(1),
        }
    }

    /// Takes a quoted part: `open` bytes, `len` bytes of content, `close` bytes.
    fn quote(&mut self, open: usize, len: usize, close: usize, escapes: bool) -> Option<()> {
        self.begin();
        self.lexed.quoted.push(self.at..self.at + open + len + close);
        let part = self.lexed.quoted.len();
        self.skip(open);
        let end = self.at + len;
        while self.at < end {
            if escapes && self.peek(0) == Some(b'\\') {
                match self.peek(1)? {
                    b'\n' => {
                        self.skip(2);
                        continue;
                    }
                    c @ (b'"' | b'\\' | b'$' | b'`') => {
                        self.push(c as char, self.at..self.at + 2, part);
                        self.skip(2);
                        continue;
                    }
                    _ => {}
                }
            }
            self.char(part);
        }
        self.skip(close);
        Some(())
    }

    /// Takes `$'...'`, whose content has `len` bytes.
    fn ansi(&mut self, len: usize) -> Option<()> {
        self.begin();
        self.lexed.quoted.push(self.at..self.at + len + 3);
        let part = self.lexed.quoted.len();
        self.skip(2);
        let end = self.at + len;
        while self.at < end {
            if self.peek(0) != Some(b'\\') {
                self.char(part);
                continue;
            }
            let (c, used) = ansi_escape(&self.text[self.at + 1..end])?;
            self.push(c, self.at..self.at + 1 + used, part);
            self.at += 1 + used;
        }
        self.skip(1);
        Some(())
    }

    fn end_word(&mut self) {
        if std::mem::take(&mut self.in_word) {
            let plain = self.word_start..self.lexed.plain.len();
            self.lexed.words.push(Word { plain, first: self.first, verbatim: self.verbatim });
            self.first = false;
        }
        self.verbatim = true;
    }

    fn blank(&mut self, len: usize) {
        self.end_word();
        if len > 0 {
            self.push(' ', self.at..self.at + len, 0);
        }
        self.at += len;
    }

    fn end_command(&mut self, len: usize) {
        self.blank(len);
        self.first = true;
    }

    /// Notes the word that ends a here document: `<<EOF`, `<<-'EOF'`.
    fn here_document(&mut self) {
        let tabs = self.peek(2) == Some(b'-');
        self.blank(if tabs { 3 } else { 2 });
        while self.peek(0) == Some(b' ') {
            self.blank(1);
        }
        let bytes = self.text.as_bytes()[self.at..].iter();
        let len = bytes.take_while(|b| !b.is_ascii_whitespace() && !b"<>;|&()".contains(b)).count();
        let end: String = self.text[self.at..self.at + len].chars().filter(|c| !"\"'\\".contains(*c)).collect();
        // A number there is a shift: `$((1<<2))`.
        if !end.is_empty() && !end.starts_with(|c: char| c.is_ascii_digit()) {
            self.pending.push((end, tabs));
            self.blank(len);
        }
    }

    /// Skips the bodies that begin here; `None` if one has no end.
    fn here_documents(&mut self) -> Option<()> {
        for (end, tabs) in std::mem::take(&mut self.pending) {
            let start = self.at;
            loop {
                let rest = &self.text[self.at..];
                let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
                let text = line.trim_end_matches('\r');
                let ends = (if tabs { text.trim_start_matches('\t') } else { text }) == end;
                if ends {
                    self.lexed.other.push(start..self.at);
                    self.blank(line.len());
                    break;
                }
                if rest.len() == line.len() {
                    return None;
                }
                self.blank(line.len() + 1);
            }
        }
        Some(())
    }
}

/// The length of the content of a `"..."` that began before `text`; `$(...)` in it may hold quotes of its own.
fn double_end(text: &str) -> Option<usize> {
    #[derive(PartialEq)]
    enum In {
        Double,
        Substitution,
    }
    let bytes = text.as_bytes();
    let mut stack = vec![In::Double];
    let mut at = 0;
    while at < bytes.len() {
        let double = *stack.last()? == In::Double;
        match bytes[at] {
            b'\\' => at += 1,
            b'"' if double => {
                stack.pop();
                if stack.is_empty() {
                    return Some(at);
                }
            }
            b'"' => stack.push(In::Double),
            b'$' if double && bytes.get(at + 1) == Some(&b'(') => {
                stack.push(In::Substitution);
                at += 1;
            }
            b'(' if !double => stack.push(In::Substitution),
            b')' if !double => drop(stack.pop()),
            b'\'' if !double => at += 1 + text[at + 1..].find('\'')?,
            _ => {}
        }
        at += 1;
    }
    None
}

fn ansi_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'\'' => return Some(at),
            _ => at += 1,
        }
    }
    None
}

/// Reads what follows a backslash in `$'...'`: the character, and how many bytes it was.
fn ansi_escape(text: &str) -> Option<(char, usize)> {
    let first = text.chars().next()?;
    let digits = |from: usize, most: usize, radix: u32| {
        let len = text[from..].bytes().take(most).take_while(|b| (*b as char).is_digit(radix)).count();
        let code = u32::from_str_radix(&text[from..from + len], radix).ok()?;
        Some((char::from_u32(code).unwrap_or('\u{fffd}'), from + len))
    };
    match first {
        'x' => digits(1, 2, 16),
        'u' => digits(1, 4, 16),
        'U' => digits(1, 8, 16),
        '0'..='7' => digits(0, 3, 8),
        'n' => Some(('\n', 1)),
        't' => Some(('\t', 1)),
        'r' => Some(('\r', 1)),
        'e' | 'E' => Some(('\u{1b}', 1)),
        c => Some((c, c.len_utf8())),
    }
}
