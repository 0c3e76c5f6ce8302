//! A command line that was split, and where each part of it was written.

use std::ops::Range;

/// A command line without its quoting.
#[derive(Debug, Default)]
pub(super) struct Lexed {
    /// The words without quotes and escapes, between them one blank.
    pub(super) plain: String,
    /// For each byte of `plain`, where it was written.
    pub(super) origin: Vec<Origin>,
    /// The quoted parts, with their quotes, in order.
    pub(super) quoted: Vec<Range<usize>>,
    /// The words.
    pub(super) words: Vec<Word>,
    /// Parts that are no words: comments, bodies of here documents.
    pub(super) other: Vec<Range<usize>>,
}

/// A word of a command line.
#[derive(Debug)]
pub(super) struct Word {
    /// Where it is in `plain`.
    pub(super) plain: Range<usize>,
    /// Whether a command begins here.
    pub(super) first: bool,
    /// Whether it was written as it reads.
    pub(super) verbatim: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub(super) start: u32,
    pub(super) end: u32,
    /// Index of the quoted part plus one; 0 outside.
    pub(super) quoted: u32,
}

impl Lexed {
    /// The part of the command line that `plain[range]` was written as; quoted parts that it only touches are in it as a whole.
    pub(super) fn origin(&self, range: Range<usize>) -> Option<Range<usize>> {
        let first = self.origin.get(range.start)?;
        let last = self.origin.get(range.end.checked_sub(1)?)?;
        let part = |origin: &Origin| origin.quoted.checked_sub(1).and_then(|i| self.quoted.get(i as usize));
        if first.quoted == last.quoted && first.quoted != 0 {
            return Some(first.start as usize..last.end as usize);
        }
        Some(part(first).map_or(first.start as usize, |q| q.start)..part(last).map_or(last.end as usize, |q| q.end))
    }

    /// Where the quoted part begins that `plain[at]` is in.
    pub(super) fn quoted(&self, at: usize) -> Option<usize> {
        let part = self.origin.get(at)?.quoted.checked_sub(1)?;
        self.quoted.get(part as usize).map(|part| part.start)
    }

    /// Whether quoted parts are known; of a text that was read leniently none is.
    pub(super) fn has_quotes(&self) -> bool {
        !self.quoted.is_empty()
    }

    /// The quotes themselves, in order.
    pub(super) fn quotes(&self, text: &str) -> Vec<Range<usize>> {
        let ends =
            |part: &Range<usize>| [part.start..part.start + 1 + usize::from(text[part.start..].starts_with('$')), part.end - 1..part.end];
        self.quoted.iter().flat_map(ends).collect()
    }

    /// Where a shell runs a command within the text that this was read from: `$(...)` and what is in backticks, the
    /// outermost ones, in order.
    pub(super) fn substitutions(&self, text: &str) -> Vec<Range<usize>> {
        let bytes = text.as_bytes();
        let mut verbatim =
            self.quoted.iter().filter(|part| text[part.start..].starts_with(['\'']) || text[part.start..].starts_with("$'")).peekable();
        let mut found = Vec::new();
        let (mut start, mut depth, mut at) = (0, 0_usize, 0);
        while at < bytes.len() {
            while verbatim.next_if(|part| part.end <= at).is_some() {}
            if let Some(part) = verbatim.next_if(|part| part.start <= at) {
                at = part.end;
                continue;
            }
            let opens = bytes[at..].starts_with(b"$(") || depth > 0 && bytes[at] == b'(';
            if opens && depth == 0 {
                start = at;
            }
            at += match bytes[at] {
                b'\\' => 2,
                b'`' if depth == 0 => {
                    let len = memchr::memchr(b'`', &bytes[at + 1..]).map_or(bytes.len() - at, |len| len + 2);
                    found.push(at..at + len);
                    len
                }
                b'$' if opens => {
                    depth += 1;
                    2
                }
                b'(' if opens => {
                    depth += 1;
                    1
                }
                b')' if depth > 0 => {
                    depth -= 1;
                    if depth == 0 {
                        found.push(start..at + 1);
                    }
                    1
                }
                _ => 1,
            };
        }
        if depth > 0 {
            found.push(start..bytes.len());
        }
        found
    }

    /// The text of a word.
    pub(super) fn text(&self, word: &Word) -> &str {
        &self.plain[word.plain.clone()]
    }
}
