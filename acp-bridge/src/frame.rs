//! Bytes of a stream cut into lines, with bounded memory whatever the peer sends.

use std::cell::Cell;

/// The most bytes of one frame, without its newline, unless a caller sets another cap.
pub const DEFAULT_FRAME_CAP: usize = 64 * 1024 * 1024;

/// A buffer that grew beyond this is given back after the line that needed it.
const KEEP_CAPACITY: usize = 64 * 1024;
/// The largest buffer that is kept for whoever needs one next: making a large one anew for each line costs more than
/// filling it.
const SPARE_CAPACITY: usize = 2 * 1024 * 1024;

/// A line of which so little came at first is likely to be short.
const SHORT: usize = 16 * 1024;

thread_local! {
    /// The buffer of the last long line.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What [`LineReader::feed`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A whole line without its newline, at most the cap long.
    Whole(&'a [u8]),
    /// A line over the cap, dropped unread. The stream goes on behind its newline.
    TooLong {
        /// Its length without the newline.
        bytes: u64,
    },
}

/// Cuts a byte stream into lines.
///
/// Lines that lie within one chunk are not copied; of an unfinished line at most the cap is kept.
#[derive(Debug)]
pub struct LineReader {
    cap: usize,
    partial: Vec<u8>,
    /// Length so far of a line that is over the cap.
    dropping: Option<u64>,
}

impl LineReader {
    /// A reader of lines of at most `cap` bytes.
    pub fn new(cap: usize) -> Self {
        Self { cap, partial: Vec::new(), dropping: None }
    }

    /// Takes the next bytes of the stream and hands on every line that they complete.
    pub fn feed(&mut self, chunk: &[u8], mut on_line: impl FnMut(Line<'_>)) {
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (head, tail) = rest.split_at(end);
            rest = &tail[1..];
            self.complete(head, &mut on_line);
        }
        self.keep(rest);
    }

    /// Whether the stream stands within a line.
    pub fn is_within_line(&self) -> bool {
        self.dropping.is_some() || !self.partial.is_empty()
    }

    fn complete(&mut self, head: &[u8], on_line: &mut impl FnMut(Line<'_>)) {
        if let Some(before) = self.dropping.take() {
            return on_line(Line::TooLong { bytes: before + head.len() as u64 });
        }
        let length = self.partial.len() + head.len();
        if length > self.cap {
            on_line(Line::TooLong { bytes: length as u64 });
        } else if self.partial.is_empty() {
            on_line(Line::Whole(head));
        } else {
            self.partial.extend_from_slice(head);
            on_line(Line::Whole(&self.partial));
        }
        self.clear();
    }

    fn keep(&mut self, rest: &[u8]) {
        if let Some(length) = &mut self.dropping {
            *length += rest.len() as u64;
        } else if self.partial.len() + rest.len() > self.cap {
            self.dropping = Some((self.partial.len() + rest.len()) as u64);
            self.clear();
        } else {
            if self.partial.capacity() == 0 && rest.len() > SHORT {
                self.partial = SPARE.take();
            }
            self.partial.extend_from_slice(rest);
        }
    }

    fn clear(&mut self) {
        self.partial.clear();
        if self.partial.capacity() > KEEP_CAPACITY {
            let buffer = std::mem::take(&mut self.partial);
            if buffer.capacity() <= SPARE_CAPACITY {
                SPARE.set(buffer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(cap: usize, chunks: &[&[u8]]) -> Vec<Result<Vec<u8>, u64>> {
        let mut reader = LineReader::new(cap);
        let mut found = Vec::new();
        for chunk in chunks {
            reader.feed(chunk, |line| {
                found.push(match line {
                    Line::Whole(bytes) => Ok(bytes.to_vec()),
                    Line::TooLong { bytes } => Err(bytes),
                });
            });
            assert!(reader.partial.len() <= cap);
        }
        found
    }

    #[test]
    fn under_at_and_over_the_cap() {
        assert_eq!(lines(4, &[b"abc\nabcd\nabcde\nx\n"]), [Ok(b"abc".to_vec()), Ok(b"abcd".to_vec()), Err(5), Ok(b"x".to_vec())]);
    }

    #[test]
    fn a_line_that_never_ends_holds_no_memory() {
        let mut reader = LineReader::new(10);
        for _ in 0..1000 {
            reader.feed(&[b'x'; 4096], |_| panic!("no line ended"));
            assert!(reader.partial.capacity() <= 4096);
        }
        let mut seen = Vec::new();
        reader.feed(b"\nok\n", |line| seen.push(format!("{line:?}")));
        assert_eq!(seen, ["TooLong { bytes: 4096000 }", "Whole([111, 107])"]);
    }

    #[test]
    fn a_large_buffer_is_given_back() {
        let mut reader = LineReader::new(DEFAULT_FRAME_CAP);
        reader.feed(&vec![b'x'; 1 << 20], |_| {});
        reader.feed(b"\n", |_| {});
        assert_eq!(reader.partial.capacity(), 0);
    }

    proptest! {
        #[test]
        fn the_chunks_make_no_difference(bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), Just(b'\r')], 0..200), cuts in proptest::collection::vec(0usize..200, 0..20)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            let singles: Vec<&[u8]> = bytes.chunks(1).collect();
            let whole = lines(7, &[&bytes]);
            prop_assert_eq!(&lines(7, &chunks), &whole);
            prop_assert_eq!(&lines(7, &singles), &whole);
        }
    }
}
