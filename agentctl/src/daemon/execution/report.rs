//! What is told of an execution: state, counters, events, stderr.

use std::collections::VecDeque;

use acp_bridge::presentation::Redactor;
use jiff::Timestamp;

use super::task::Task;
use crate::domain::timestamp_text;
use crate::limits::{LOGGED_REPORTS, NOISE_SAMPLE_BYTES, NOISE_SAMPLES, STDERR_RING};
use crate::wire::{Counters, Event, State, StderrResult, Topic};

/// Bytes of the longest secret that is still recognised by its form.
const LONGEST_SECRET: usize = 4096;

/// The end of what the agent wrote on stderr.
#[derive(Debug, Default)]
pub(super) struct Stderr {
    ring: VecDeque<u8>,
    total: u64,
}

impl Stderr {
    /// Keeps the latest bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let bytes = &bytes[bytes.len().saturating_sub(STDERR_RING)..];
        let excess = (self.ring.len() + bytes.len()).saturating_sub(STDERR_RING);
        self.ring.drain(..excess);
        self.ring.extend(bytes);
    }

    /// Bytes written in all.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The last bytes as redacted text, at most `max_bytes` of it. All that is kept is redacted before it is cut: of a
    /// secret at the cut nothing may show. Where the ring has dropped bytes, the rest of that line (else word, else as
    /// much as a secret may have) goes too.
    pub(super) fn tail(&self, redactor: &Redactor, max_bytes: usize) -> String {
        let bytes: Vec<u8> = self.ring.iter().copied().collect();
        let mut kept = &bytes[..];
        if self.total > kept.len() as u64 {
            let near = &kept[..kept.len().min(LONGEST_SECRET)];
            let end = near.iter().position(|b| *b == b'\n').or_else(|| near.iter().position(u8::is_ascii_whitespace));
            kept = &kept[end.map_or(near.len(), |end| end + 1)..];
        }
        let text = redactor.long_text(&String::from_utf8_lossy(kept));
        let mut start = text.len().saturating_sub(max_bytes);
        while !text.is_char_boundary(start) {
            start += 1;
        }
        text[start..].to_owned()
    }
}

impl Task {
    /// Changes the counters.
    pub(super) fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.exec.status.lock().counters);
    }

    /// Keeps a sample of a line that is no message.
    pub(super) fn noise(&mut self, line: &[u8]) {
        self.count(|c| c.noise += 1);
        if self.noise.lines().count() >= NOISE_SAMPLES {
            return;
        }
        let line = String::from_utf8_lossy(line);
        // A secret may go over several lines: all samples are redacted as one text, unless one is longer than any secret.
        let line = if line.len() <= LONGEST_SECRET { line.into_owned() } else { self.redactor.text(&line).text };
        self.noise += &line;
        self.noise.push('\n');
        let cut = |line: &str| line[..line.floor_char_boundary(NOISE_SAMPLE_BYTES)].to_owned();
        let samples = self.redactor.long_text(&self.noise).lines().map(cut).collect();
        self.count(|c| c.noise_samples = samples);
    }

    /// Tells that the agent sent something that can't be used.
    pub(super) fn report(&self, reason: String) {
        let counters = self.exec.status.lock().counters.clone();
        if counters.unreadable + counters.ambiguous + counters.too_long + counters.prompts_invalid <= LOGGED_REPORTS {
            tracing::warn!(execution_id = %self.exec.id, "{reason}");
        }
        self.tell(Topic::Execution, Event { event_type: "reported".into(), reason: Some(reason), ..Event::default() });
    }

    /// Whether it is stuck.
    pub(super) fn is_wedged(&self) -> bool {
        self.exec.status.lock().state == State::Wedged
    }

    /// Changes the state, if it is another one.
    pub(super) fn set_state(&self, state: State, reason: Option<String>) {
        {
            let mut status = self.exec.status.lock();
            if status.state == state {
                return;
            }
            status.state = state;
            status.reason.clone_from(&reason);
        }
        self.tell(Topic::Execution, Event { event_type: "state".into(), state: Some(state), reason, ..Event::default() });
    }

    /// Publishes an event of this execution; whether anybody wanted it.
    pub(super) fn tell(&self, topic: Topic, event: Event) -> bool {
        self.exec.tell(&self.hub, topic, event)
    }

    /// Recent stderr, redacted.
    pub(super) fn stderr_report(&self, max_bytes: usize) -> StderrResult {
        let text = self.err.tail(&self.redactor, max_bytes);
        StderrResult {
            execution_id: self.exec.id.to_string(),
            truncated: self.err.total() > text.len() as u64,
            text,
            total_bytes: self.err.total(),
            warning: "The agent's own output: redacted by known shapes only, it may still hold secrets.".into(),
        }
    }
}

impl super::Execution {
    /// Publishes an event of this execution; whether anybody wanted it.
    pub(super) fn tell(&self, hub: &crate::daemon::hub::Hub, topic: Topic, event: Event) -> bool {
        let event = Event {
            at: Some(timestamp_text(Timestamp::now())),
            task_id: Some(self.task_id.clone()),
            session_id: Some(self.key.session_id.clone()),
            execution_id: Some(self.id.to_string()),
            ..event
        };
        hub.bus.publish(&self.key, &self.task_id, topic, event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_at_the_cut_does_not_show() {
        let mut err = Stderr::default();
        let redactor = Redactor::new([("MY_TOKEN", "supersecretvalue123")]);
        err.push(b"the token supersecretvalue123\n");
        for n in 0..40 {
            let text = err.tail(&redactor, n);
            assert!(text.len() <= n && !text.contains("value123"), "{text}");
        }
        // One of which the ring has dropped the beginning.
        err.push(&[vec![b'a'; STDERR_RING - 12], b" after\n".to_vec()].concat());
        assert!(!err.tail(&redactor, STDERR_RING).contains("ue123"));
    }

    #[test]
    fn stderr_keeps_the_end_and_cuts_between_characters() {
        let mut err = Stderr::default();
        err.push(&vec![b'a'; STDERR_RING]);
        err.push("éb".as_bytes());
        assert_eq!((err.ring.len(), err.total()), (STDERR_RING, STDERR_RING as u64 + 3));
        let redactor = Redactor::default();
        assert_eq!(err.tail(&redactor, STDERR_RING).len(), STDERR_RING - LONGEST_SECRET, "of a word whose beginning is gone");
        err.push("\nx éb".as_bytes());
        assert_eq!(err.tail(&redactor, 2), "b");
        assert_eq!(err.tail(&redactor, 3), "éb");
        err.push(&vec![b'c'; 3 * STDERR_RING]);
        assert_eq!(err.ring.len(), STDERR_RING);
    }
}
