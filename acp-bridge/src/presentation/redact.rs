//! Redaction of one text.

use std::fmt;
use std::sync::Arc;

use memchr::memmem;

use super::names::{Secrecy, secrecy};
use super::spans::{MARKER, Spans, floor, replace, without};
use super::{flags, lexer, pairs, positions, tokens};

/// The most bytes of a shown text.
pub const MAX_SHOWN: usize = 4 * 1024;
/// The most bytes of a text that are looked at to show its beginning.
pub const MAX_ANALYSED: usize = 64 * 1024;
/// Shorter values of secret names are not looked for elsewhere: they would match ordinary words.
const MIN_VALUE: usize = 8;
/// Command lines in command lines, as in `sh -c "sh -c '...'"`.
const MAX_DEPTH: usize = 3;
/// A text that still changes after so many rounds is not shown.
const MAX_ROUNDS: usize = 6;

/// A text that may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The text, bounded and without secrets.
    pub text: String,
    /// Whether something was taken out.
    pub redacted: bool,
    /// The full length in bytes, if the text was cut.
    pub full_length: Option<usize>,
}

/// Takes secrets out of texts: those that their shape or their name tells, and the values it was given.
#[derive(Clone, Default)]
pub struct Redactor {
    values: Arc<Vec<memmem::Finder<'static>>>,
}

/// Tells how many values are known, never one of them.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("values", &self.values.len()).finish()
    }
}

/// What a text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Command,
}

impl Redactor {
    /// A redactor that also knows the values of an execution's environment: those of 8 bytes or more under a
    /// secret-looking name, and passwords in URLs.
    pub fn new<'a>(env: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let values = env.into_iter().filter_map(|(name, value)| secret_of(name, value));
        Self::default().with_values(values)
    }

    /// Adds values that are secret whatever their name is, such as those of MCP headers; shorter ones than 8 bytes are ignored.
    #[must_use]
    pub fn with_values<'a>(self, values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all: Vec<String> = Vec::new();
        for value in values {
            let value = value.trim();
            if value.len() < MIN_VALUE || MARKER.contains(value) {
                continue;
            }
            // As it stands, and as it stands in JSON.
            let json = serde_json::to_string(value).unwrap_or_default();
            let json = json.trim_matches('"');
            if json != value && json.len() >= MIN_VALUE {
                all.push(json.to_owned());
            }
            all.push(value.to_owned());
        }
        all.sort_unstable();
        all.dedup();
        all.retain(|value| !self.values.iter().any(|known| known.needle() == value.as_bytes()));
        if all.is_empty() {
            return self;
        }
        let mut known = Arc::unwrap_or_clone(self.values);
        known.extend(all.iter().map(|value| memmem::Finder::new(value.as_bytes()).into_owned()));
        Self { values: Arc::new(known) }
    }

    /// How many values are known.
    pub(super) fn known(&self) -> usize {
        self.values.len()
    }

    /// A text of any kind, bounded to 4 KiB.
    pub fn text(&self, text: &str) -> Shown {
        self.shown(text, Form::Text).unwrap_or_else(nothing)
    }

    /// A long text, such as stderr: redacted, not cut.
    pub fn long_text(&self, text: &str) -> String {
        match self.stable(text, Form::Text) {
            Ok(None) => text.to_owned(),
            Ok(Some(changed)) => changed,
            Err(Unreadable) => MARKER.to_owned(),
        }
    }

    /// A command line of a shell, bounded to 4 KiB; `None` if its quoting can't be read: then it must not be shown.
    pub fn command(&self, command: &str) -> Option<Shown> {
        self.shown(command, Form::Command)
    }

    /// A long command line: redacted, not cut; `None` if its quoting can't be read: then it must not be shown.
    pub(super) fn long_command(&self, command: &str) -> Option<String> {
        Some(self.stable(command, Form::Command).ok()?.unwrap_or_else(|| command.to_owned()))
    }

    fn shown(&self, text: &str, form: Form) -> Option<Shown> {
        if text.len() <= MAX_SHOWN {
            return match self.stable(text, form) {
                Ok(None) => Some(Shown { text: text.to_owned(), redacted: false, full_length: None }),
                Ok(Some(changed)) if changed.len() <= MAX_SHOWN => Some(Shown { text: changed, redacted: true, full_length: None }),
                Ok(Some(changed)) => Some(self.cut(changed, true, text.len())),
                Err(Unreadable) => None,
            };
        }
        let head = self.head(text);
        let mut form = form;
        if head.len() < text.len() && form == Form::Command {
            // Of a cut command the quoting may have no end, though the whole has one: its head is read as a text.
            lexer::strict(text)?;
            form = Form::Text;
        }
        match self.stable(head, form) {
            // What was taken out made it short enough: then it is whole, and stays a command line.
            Ok(Some(changed)) if head.len() == text.len() && changed.len() <= MAX_SHOWN => {
                Some(Shown { text: changed, redacted: true, full_length: None })
            }
            Ok(changed) => {
                let redacted = changed.is_some() || self.hides(text, head.len());
                Some(self.cut(changed.unwrap_or_else(|| head.to_owned()), redacted, text.len()))
            }
            Err(Unreadable) => None,
        }
    }

    /// The part of a long text that is looked at: it ends between two words and not in a known value.
    fn head<'a>(&self, text: &'a str) -> &'a str {
        let mut end = text.len();
        if end > MAX_ANALYSED {
            end = floor(text, MAX_ANALYSED);
            end = text[..end].rfind(char::is_whitespace).unwrap_or(end);
            for value in self.values.iter() {
                let len = value.needle().len();
                let window = end.saturating_sub(len)..text.len().min(end + len);
                if let Some(at) = value.find(&text.as_bytes()[window.clone()])
                    && window.start + at < end
                {
                    end = floor(text, window.start + at);
                }
            }
        }
        &text[..end]
    }

    /// Whether the head of a text ends in front of a known value.
    fn hides(&self, text: &str, end: usize) -> bool {
        self.values.iter().any(|value| text.as_bytes()[end..].starts_with(value.needle()))
    }

    /// Cuts a redacted text so that redacting the rest again changes nothing.
    fn cut(&self, mut text: String, redacted: bool, full: usize) -> Shown {
        let mut full_length = (full > MAX_ANALYSED).then_some(full);
        for _ in 0..MAX_ROUNDS {
            if text.len() > MAX_SHOWN {
                full_length = Some(full);
                let mut end = floor(&text, MAX_SHOWN);
                let near = floor(&text, end.saturating_sub(MARKER.len()));
                if let Some(at) = memmem::rfind(&text.as_bytes()[near..text.len().min(end + MARKER.len())], MARKER.as_bytes())
                    && near + at < end
                    && near + at + MARKER.len() > end
                {
                    end = near + at;
                }
                text.truncate(end);
            }
            match self.stable(&text, Form::Text) {
                Ok(None) => return Shown { text, redacted, full_length },
                Ok(Some(changed)) => text = changed,
                Err(Unreadable) => break,
            }
        }
        Shown { text: MARKER.to_owned(), redacted: true, full_length: None }
    }

    /// Redacts until nothing changes; `Ok(None)` if nothing changes at all.
    fn stable(&self, text: &str, form: Form) -> Result<Option<String>, Unreadable> {
        let mut changed: Option<String> = None;
        for _ in 0..MAX_ROUNDS {
            let now = changed.as_deref().unwrap_or(text);
            let mut spans = Spans::new();
            match form {
                Form::Text => self.text_spans(now, &mut spans),
                Form::Command => self.command_spans(now, 0, true, &mut spans).ok_or(Unreadable)?,
            }
            match replace(now, spans) {
                Some(next) => changed = Some(next),
                None => return Ok(changed),
            }
        }
        Err(Unreadable)
    }

    /// What is a secret wherever it stands.
    fn known_spans(&self, text: &str, spans: &mut Spans) {
        tokens::scan(text, spans);
        for value in self.values.iter() {
            spans.extend(value.find_iter(text.as_bytes()).map(|at| at..at + value.needle().len()));
        }
    }

    fn text_spans(&self, text: &str, spans: &mut Spans) {
        self.known_spans(text, spans);
        pairs::scan(text, spans);
        let bytes = text.as_bytes();
        let quoting = memchr::memchr3(b'"', b'\'', b'\\', bytes).is_some();
        let flag = |at: usize| at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
        if (quoting || memchr::memchr_iter(b'-', bytes).any(flag) || positions::may_tell(text))
            && let Some(lexed) = lexer::lenient(text)
        {
            flags::scan(&lexed, text, spans);
            let mut found = Spans::new();
            if quoting {
                self.known_spans(&lexed.plain, &mut found);
                for word in lexed.words.iter().filter(|word| !word.verbatim) {
                    let mut inner = Spans::new();
                    pairs::scan(lexed.text(word), &mut inner);
                    found.extend(inner.into_iter().map(|span| word.plain.start + span.start..word.plain.start + span.end));
                }
            }
            spans.extend(found.into_iter().filter_map(|range| lexed.origin(range)));
        }
    }

    /// The spans of a command line. What it runs in the middle of a secret stays visible: `TOKEN="a$(rm -rf ~)"`.
    /// `None` if the outermost command line can't be read.
    fn command_spans(&self, text: &str, depth: usize, runs: bool, spans: &mut Spans) -> Option<()> {
        let Some(lexed) = lexer::strict(text) else { return (depth > 0).then_some(()) };
        let mut all = std::mem::take(spans);
        if depth == 0 {
            self.known_spans(text, &mut all);
            pairs::scan_cookies(text, &mut all);
            // Escapes that not the shell reads but what it runs: `printf '\x73k-...'`.
            if let Some(lexed) = memchr::memchr(b'\\', text.as_bytes()).and_then(|_| lexer::lenient(text)) {
                flags::scan(&lexed, text, &mut all);
                let mut found = Spans::new();
                self.known_spans(&lexed.plain, &mut found);
                all.extend(found.into_iter().filter_map(|range| lexed.origin(range)));
            }
            // These were found without a look at quotes: without them the rest could not be read any more.
            all = without(all, &lexed.quotes(text));
        }
        flags::scan(&lexed, text, &mut all);
        let mut found = Spans::new();
        if depth > 0 || lexed.plain != text {
            self.known_spans(&lexed.plain, &mut found);
        }
        // Whether the next word is a command line itself, as after `sh -c`.
        let mut script = false;
        for word in &lexed.words {
            let plain = lexed.text(word);
            if !word.verbatim {
                found.extend(pairs::whole_word(&lexed, word, text, script));
            }
            let single = lexed.quoted(word.plain.start).is_some_and(|at| text[at..].starts_with('\''));
            let word_runs = script || !single;
            script = plain.starts_with('-') && plain.ends_with('c');
            let mut inner = Spans::new();
            pairs::scan(plain, &mut inner);
            if !word.verbatim && depth < MAX_DEPTH && plain.bytes().any(|b| b.is_ascii_whitespace() || matches!(b, b'"' | b'\'' | b'\\')) {
                self.command_spans(plain, depth + 1, word_runs, &mut inner)?;
            }
            found.extend(inner.into_iter().map(|span| word.plain.start + span.start..word.plain.start + span.end));
        }
        all.extend(found.into_iter().filter_map(|range| lexed.origin(range)));
        for range in &lexed.other {
            let mut inner = Spans::new();
            self.text_spans(&text[range.clone()], &mut inner);
            all.extend(inner.into_iter().map(|span| range.start + span.start..range.start + span.end));
        }
        *spans = if runs { without(all, &lexed.substitutions(text)) } else { all };
        Some(())
    }
}

/// A text that can't be shown.
struct Unreadable;

fn nothing() -> Shown {
    Shown { text: MARKER.to_owned(), redacted: true, full_length: None }
}

/// The secret of a variable of an environment: its value if its name says so, or the password of a URL in it.
pub(super) fn secret_of<'a>(name: &str, value: &'a str) -> Option<&'a str> {
    let secret = match secrecy(name) {
        Secrecy::Strong => true,
        Secrecy::Weak => super::names::looks_random(value),
        Secrecy::No => false,
    };
    if secret { Some(value) } else { url_password(value) }
}

/// The password of a URL such as `postgres://user:password@host/`.
fn url_password(value: &str) -> Option<&str> {
    let rest = &value[value.find("://")? + 3..];
    let user = &rest[..rest.rfind('@')?];
    Some(&user[user.find(':')? + 1..])
}
