//! Parts of a text that are taken out.

use std::ops::Range;

use memchr::memmem;

/// What stands where something was taken out.
pub const MARKER: &str = "[redacted]";

/// Byte ranges of one text, in no order; they may overlap.
pub(super) type Spans = Vec<Range<usize>>;

/// The text without the spans; `None` if that changes nothing.
pub(super) fn replace(text: &str, mut spans: Spans) -> Option<String> {
    spans.retain(|span| span.start < span.end);
    if spans.is_empty() {
        return None;
    }
    let markers: Vec<usize> = memmem::find_iter(text.as_bytes(), MARKER).collect();
    for span in &mut spans {
        span.start = floor(text, span.start);
        span.end = ceil(text, span.end);
    }
    // What was taken out already stays as it is, whatever a secret's text is.
    spans.retain(|span| {
        let before = markers.partition_point(|at| *at <= span.start);
        before == 0 || span.end > markers[before - 1] + MARKER.len()
    });
    if spans.is_empty() {
        return None;
    }
    spans.sort_unstable_by_key(|span| span.start);
    let mut out = String::with_capacity(text.len());
    let mut shown = 0;
    let mut hidden: Option<usize> = None;
    for span in spans {
        match hidden {
            Some(end) if span.start <= end => {
                shown = shown.max(span.end);
                hidden = Some(end.max(span.end));
            }
            _ => {
                out.push_str(&text[shown..span.start]);
                out.push_str(MARKER);
                shown = span.end;
                hidden = Some(span.end);
            }
        }
    }
    out.push_str(&text[shown..]);
    (out != text).then_some(out)
}

/// The spans without those parts, unless they begin in one. Both in the bytes of one text; `kept` in order.
pub(super) fn without(spans: Spans, kept: &[Range<usize>]) -> Spans {
    if kept.is_empty() {
        return spans;
    }
    let mut rest = Spans::new();
    for mut span in spans {
        let first = kept.partition_point(|part| part.start < span.start);
        for part in kept[first..].iter().take_while(|part| part.start < span.end) {
            rest.push(span.start..part.start);
            span.start = part.end.min(span.end);
        }
        rest.push(span);
    }
    rest
}

/// The greatest character boundary at or before `at`.
pub(super) fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The least character boundary at or after `at`.
pub(super) fn ceil(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_and_touching_spans_are_one() {
        assert_eq!(replace("abcdefgh", vec![4..6, 1..3, 2..4]).as_deref(), Some("a[redacted]gh"));
        assert_eq!(replace("abcdefgh", vec![0..1, 7..8]).as_deref(), Some("[redacted]bcdefg[redacted]"));
    }

    #[test]
    fn what_is_kept_splits_a_span() {
        assert_eq!(without(vec![0..9, 2..5, 4..7], &[1..2, 3..6, 8..9]), vec![0..1, 2..3, 6..8, 9..9, 2..3, 5..5, 4..7]);
    }

    #[test]
    fn markers_and_characters_stay_whole() {
        assert_eq!(replace("x[redacted]y", vec![2..10, 1..11]), None);
        assert_eq!(replace("aéb", Spans::from([2..3, 1..2])).as_deref(), Some("a[redacted]b"));
    }
}
