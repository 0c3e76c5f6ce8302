//! What is to be written to an agent: urgent frames before bulk ones, each whole or taken back.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::Bytes;

/// The most frames handed to the kernel in one call.
const BATCH: usize = 64;

/// Frames waiting for an agent's stdin.
///
/// A frame may carry a tag, which comes back when the frame was written in full, or when it is
/// [taken back](Outbox::take_back). An urgent frame overtakes bulk ones, between frames only.
#[derive(Debug)]
pub struct Outbox<T> {
    /// The frame of which a part has been written, and how much of it.
    current: Option<(Frame<T>, usize)>,
    urgent: VecDeque<Frame<T>>,
    bulk: VecDeque<Frame<T>>,
    urgent_bytes: usize,
    bulk_bytes: usize,
}

#[derive(Debug)]
struct Frame<T> {
    bytes: Bytes,
    tag: Option<T>,
}

/// How far a write came.
#[derive(Debug)]
pub struct Written<T> {
    /// The frames that are now with the kernel in full, in order, with their tags.
    pub done: Vec<(Bytes, Option<T>)>,
    /// What stopped it; `None` when everything was written. `WouldBlock` is no failure.
    pub stopped: Option<io::Error>,
}

/// What became of an attempt to take a frame back.
#[derive(Debug, PartialEq, Eq)]
pub enum TakeBack<T> {
    /// Nothing of it had been written; it is gone from the queue.
    Taken(T),
    /// A part of it has been written.
    Partial,
    /// No frame with such a tag waits.
    Absent,
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        Self { current: None, urgent: VecDeque::new(), bulk: VecDeque::new(), urgent_bytes: 0, bulk_bytes: 0 }
    }
}

impl<T> Outbox<T> {
    /// Queues a frame (with its newline) ahead of all bulk frames.
    pub fn push_urgent(&mut self, bytes: Bytes, tag: Option<T>) {
        self.urgent_bytes += bytes.len();
        self.urgent.push_back(Frame { bytes, tag });
    }

    /// Queues a frame (with its newline) behind everything else.
    pub fn push_bulk(&mut self, bytes: Bytes) {
        self.push_in_order(bytes, None);
    }

    /// Queues a frame (with its newline) behind everything else, with a tag. It keeps its place among the bulk frames, so
    /// [`take_back_all`](Self::take_back_all) leaves it there unless told otherwise.
    pub fn push_in_order(&mut self, bytes: Bytes, tag: Option<T>) {
        self.bulk_bytes += bytes.len();
        self.bulk.push_back(Frame { bytes, tag });
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.current.is_none() && self.urgent.is_empty() && self.bulk.is_empty()
    }

    /// Whether a bulk frame waits of which nothing has been written.
    pub fn has_unsent_bulk(&self) -> bool {
        !self.bulk.is_empty()
    }

    /// Bytes of the urgent frames of which nothing has been written.
    pub fn urgent_bytes(&self) -> usize {
        self.urgent_bytes
    }

    /// Bytes of the bulk frames of which nothing has been written.
    pub fn bulk_bytes(&self) -> usize {
        self.bulk_bytes
    }

    /// Takes the first frame back whose tag `is_it`, unless a part of it has been written.
    pub fn take_back(&mut self, is_it: impl Fn(&T) -> bool) -> TakeBack<T> {
        if self.current.as_ref().and_then(|(frame, _)| frame.tag.as_ref()).is_some_and(&is_it) {
            return TakeBack::Partial;
        }
        for (queue, bytes) in [(&mut self.urgent, &mut self.urgent_bytes), (&mut self.bulk, &mut self.bulk_bytes)] {
            let at = queue.iter().position(|frame| frame.tag.as_ref().is_some_and(&is_it));
            if let Some(Frame { bytes: taken, tag: Some(tag) }) = at.and_then(|at| queue.remove(at)) {
                *bytes -= taken.len();
                return TakeBack::Taken(tag);
            }
        }
        TakeBack::Absent
    }

    /// Gives everything up: the tag of the frame of which a part was written, and those of the unwritten ones.
    pub fn abandon(&mut self) -> (Option<T>, Vec<T>) {
        (self.urgent_bytes, self.bulk_bytes) = (0, 0);
        let waiting = self.urgent.drain(..).chain(self.bulk.drain(..));
        (self.current.take().and_then(|(frame, _)| frame.tag), waiting.filter_map(|frame| frame.tag).collect())
    }

    /// Takes back every tagged frame of which nothing was written: the urgent ones, and those that keep their place for
    /// whose tag `also` holds.
    pub fn take_back_all(&mut self, also: impl Fn(&T) -> bool) -> Vec<T> {
        let mut taken = take_tagged(&mut self.urgent, &mut self.urgent_bytes, |_| true);
        taken.extend(take_tagged(&mut self.bulk, &mut self.bulk_bytes, also));
        taken
    }

    /// Writes until everything is written or `write` stops. Nothing is ever written twice.
    pub fn write(&mut self, mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>) -> Written<T> {
        let mut done = Vec::new();
        while !self.is_empty() {
            let mut slices = Vec::with_capacity(self.frames().take(BATCH).count() + 1);
            if let Some((frame, written)) = &self.current {
                slices.push(IoSlice::new(&frame.bytes[*written..]));
            }
            slices.extend(self.frames().take(BATCH).map(|frame| IoSlice::new(&frame.bytes)));
            match write(&slices) {
                Ok(0) => return Written { done, stopped: Some(io::ErrorKind::WriteZero.into()) },
                Ok(written) => self.advance(written, &mut done),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Written { done, stopped: Some(error) },
            }
        }
        Written { done, stopped: None }
    }

    fn next_frame(&mut self) -> Option<Frame<T>> {
        let urgent = self.urgent.pop_front();
        self.urgent_bytes -= urgent.as_ref().map_or(0, |frame| frame.bytes.len());
        urgent.or_else(|| {
            let bulk = self.bulk.pop_front();
            self.bulk_bytes -= bulk.as_ref().map_or(0, |frame| frame.bytes.len());
            bulk
        })
    }

    fn frames(&self) -> impl Iterator<Item = &Frame<T>> {
        self.urgent.iter().chain(&self.bulk)
    }

    fn advance(&mut self, mut written: usize, done: &mut Vec<(Bytes, Option<T>)>) {
        while written > 0 {
            let Some((frame, before)) = self.current.take().or_else(|| self.next_frame().map(|frame| (frame, 0))) else {
                return;
            };
            let left = frame.bytes.len() - before;
            if written < left {
                self.current = Some((frame, before + written));
                return;
            }
            written -= left;
            done.push((frame.bytes, frame.tag));
        }
    }
}

/// Takes the frames out of a queue that have such a tag.
fn take_tagged<T>(queue: &mut VecDeque<Frame<T>>, bytes: &mut usize, is_it: impl Fn(&T) -> bool) -> Vec<T> {
    if !queue.iter().any(|frame| frame.tag.as_ref().is_some_and(&is_it)) {
        return Vec::new();
    }
    let (taken, rest): (VecDeque<_>, _) = std::mem::take(queue).into_iter().partition(|frame| frame.tag.as_ref().is_some_and(&is_it));
    *queue = rest;
    *bytes -= taken.iter().map(|frame| frame.bytes.len()).sum::<usize>();
    taken.into_iter().filter_map(|frame| frame.tag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    /// Writes at most `room` bytes in all.
    fn write(outbox: &mut Outbox<u8>, mut room: usize) -> (String, Vec<u8>) {
        let mut out = Vec::new();
        let written = outbox.write(|slices| {
            if room == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let all: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
            let n = all.len().min(room);
            room -= n;
            out.extend_from_slice(&all[..n]);
            Ok(n)
        });
        (String::from_utf8(out).unwrap(), written.done.into_iter().filter_map(|(_, tag)| tag).collect())
    }

    #[test]
    fn urgent_overtakes_between_frames_only() {
        let mut outbox = Outbox::default();
        outbox.push_bulk(frame("bulk1\n"));
        outbox.push_bulk(frame("bulk2\n"));
        assert_eq!(write(&mut outbox, 3), ("bul".into(), vec![]));
        outbox.push_urgent(frame("u\n"), Some(1));
        assert_eq!(write(&mut outbox, 100), ("k1\nu\nbulk2\n".into(), vec![1]));
        assert!(outbox.is_empty());
        assert_eq!(outbox.urgent_bytes(), 0);
    }

    #[test]
    fn a_frame_is_taken_back_only_unwritten() {
        let mut outbox = Outbox::default();
        outbox.push_urgent(frame("abc\n"), Some(1));
        outbox.push_urgent(frame("def\n"), Some(2));
        assert_eq!(outbox.take_back(|t| *t == 2), TakeBack::Taken(2));
        assert_eq!(write(&mut outbox, 1), ("a".into(), vec![]));
        assert_eq!(outbox.take_back(|t| *t == 1), TakeBack::Partial);
        assert_eq!(write(&mut outbox, 9), ("bc\n".into(), vec![1]));
        assert_eq!(outbox.take_back(|t| *t == 1), TakeBack::Absent);
    }

    #[test]
    fn a_tagged_frame_in_order_overtakes_nothing_and_can_be_taken_back() {
        let mut outbox = Outbox::default();
        outbox.push_bulk(frame("bulk\n"));
        outbox.push_in_order(frame("answer1\n"), Some(1));
        outbox.push_in_order(frame("answer2\n"), Some(2));
        outbox.push_urgent(frame("urgent\n"), Some(3));
        assert_eq!(outbox.take_back_all(|_| false), [3]);
        assert_eq!(outbox.take_back_all(|t| *t == 1), [1]);
        assert_eq!(outbox.bulk_bytes(), 13);
        assert_eq!(write(&mut outbox, 100), ("bulk\nanswer2\n".into(), vec![2]));
        assert_eq!(outbox.bulk_bytes(), 0);
        outbox.push_in_order(frame("answer3\n"), Some(4));
        assert_eq!((outbox.abandon(), outbox.bulk_bytes()), ((None, vec![4]), 0));
    }

    #[test]
    fn what_waits_together_leaves_in_one_write() {
        let mut outbox: Outbox<u8> = Outbox::default();
        outbox.push_urgent(frame("cancelled\n"), None);
        outbox.push_urgent(frame("cancel\n"), None);
        let mut calls = 0;
        outbox.write(|slices| {
            calls += 1;
            Ok(slices.iter().map(|s| s.len()).sum())
        });
        assert_eq!(calls, 1);
    }

    #[test]
    fn every_cut_gives_the_same_bytes() {
        for room in 1..12 {
            let mut outbox = Outbox::default();
            outbox.push_urgent(frame("ab\n"), Some(1));
            outbox.push_bulk(frame("cdef\n"));
            let mut all = String::new();
            let mut tags = Vec::new();
            while !outbox.is_empty() {
                let (out, done) = write(&mut outbox, room);
                all += &out;
                tags.extend(done);
            }
            assert_eq!((all.as_str(), tags), ("ab\ncdef\n", vec![1]));
        }
    }
}
