//! Events, to everyone who subscribed and may see them.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use parking_lot::Mutex;
use uuid::Uuid;

use super::peer::Peer;
use super::token::Grant;
use crate::domain::SessionKey;
use crate::wire::{Event, Topic, event_line};

/// Raw events that are written together, at most so many bytes of them.
const BATCH: usize = 64 * 1024;

/// The subscribers and the number of the last event.
#[derive(Debug, Default)]
pub struct Bus {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    seq: u64,
    subscribers: Vec<Subscriber>,
    batch: Option<Batch>,
}

/// Topics of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topics(u8);

impl FromIterator<Topic> for Topics {
    fn from_iter<I: IntoIterator<Item = Topic>>(topics: I) -> Self {
        Self(topics.into_iter().fold(0, |set, topic| set | 1 << topic as u8))
    }
}

impl Topics {
    /// Whether this one is among them.
    pub fn contains(self, topic: Topic) -> bool {
        self.0 & 1 << topic as u8 != 0
    }
}

/// Which events a connection asked for.
#[derive(Debug)]
pub struct Subscriber {
    /// The connection.
    pub peer: Arc<Peer>,
    /// The connection's number, by which it is removed.
    pub connection: u64,
    /// Whose events it may see.
    pub owner: String,
    /// By which token, if any: without it, nothing more is told.
    pub grant: Option<Arc<Grant>>,
    /// Of which topics.
    pub topics: Topics,
    /// Only of this task.
    pub task_id: Option<String>,
    /// Only of this session.
    pub session_id: Option<String>,
}

impl Subscriber {
    fn wants(&self, key: &SessionKey, task_id: &str, topic: Topic) -> bool {
        self.topics.contains(topic)
            && self.owner == key.owner
            && self.grant.as_ref().is_none_or(|grant| grant.is_valid())
            && self.task_id.as_deref().is_none_or(|task| task == task_id)
            && self.session_id.as_deref().is_none_or(|session| session == key.session_id)
    }
}

impl Bus {
    /// The number of the last event.
    pub fn seq(&self) -> u64 {
        self.state.lock().seq
    }

    /// Adds a subscriber: it gets every event from now on. An earlier subscription of its connection ends.
    pub fn subscribe(&self, subscriber: Subscriber) {
        let mut state = self.state.lock();
        state.end_batch();
        state.subscribers.retain(|s| s.connection != subscriber.connection);
        state.subscribers.push(subscriber);
    }

    /// Ends the subscription of a connection; whether it had one.
    pub fn unsubscribe(&self, connection: u64) -> bool {
        let mut state = self.state.lock();
        state.end_batch();
        let before = state.subscribers.len();
        state.subscribers.retain(|s| s.connection != connection);
        state.subscribers.len() < before
    }

    /// Tells an event of a session to its subscribers, before it returns where they read; whether there are any.
    pub fn publish(&self, key: &SessionKey, task_id: &str, topic: Topic, mut event: Event) -> bool {
        let mut state = self.state.lock();
        state.flush();
        state.seq += 1;
        let seq = state.seq;
        let mut wanting = state.subscribers.iter().filter(|s| s.wants(key, task_id, topic)).peekable();
        if wanting.peek().is_none() {
            return false;
        }
        event.seq = seq;
        event.topic = Some(topic);
        let line = event_line(&event);
        wanting.for_each(|s| s.peer.events(seq, 1, line.clone()));
        true
    }

    /// Whether somebody wants events of this topic.
    pub fn is_wanted(&self, key: &SessionKey, task_id: &str, topic: Topic) -> bool {
        self.state.lock().subscribers.iter().any(|s| s.wants(key, task_id, topic))
    }

    /// Tells a raw event of topic `update` or `frame`, whose payload is spliced in as it is. It is copied once, and only
    /// if somebody asked for it; it is written with those that follow, at the latest by [`flush`](Self::flush).
    pub fn publish_raw(&self, key: &SessionKey, task_id: &str, execution_id: Uuid, topic: Topic, payload: &[u8]) {
        let mut state = self.state.lock();
        if !state.batch.as_ref().is_some_and(|batch| batch.execution_id == execution_id && batch.topic == topic) {
            if !state.subscribers.iter().any(|s| s.wants(key, task_id, topic)) {
                return;
            }
            state.end_batch();
            state.batch = Some(Batch::new(key, task_id, execution_id, topic));
        }
        state.seq += 1;
        let seq = state.seq;
        if let Some(batch) = &mut state.batch {
            batch.push(seq, payload);
            if batch.lines.len() >= BATCH {
                state.flush();
            }
        }
    }

    /// Writes the raw events that wait for others.
    pub fn flush(&self) {
        self.state.lock().flush();
    }
}

impl State {
    fn flush(&mut self) {
        let Some(batch) = self.batch.as_mut().filter(|batch| batch.count > 0) else { return };
        let lines = batch.lines.split().freeze();
        let count = std::mem::take(&mut batch.count);
        for subscriber in self.subscribers.iter().filter(|s| s.wants(&batch.key, &batch.task_id, batch.topic)) {
            subscriber.peer.events(self.seq, count, lines.clone());
        }
    }

    fn end_batch(&mut self) {
        self.flush();
        self.batch = None;
    }
}

/// Raw events of one execution and topic that are written together.
#[derive(Debug)]
struct Batch {
    key: SessionKey,
    task_id: String,
    execution_id: Uuid,
    topic: Topic,
    /// What stands between an event's number and its payload.
    head: String,
    lines: BytesMut,
    count: u64,
}

impl Batch {
    fn new(key: &SessionKey, task_id: &str, execution_id: Uuid, topic: Topic) -> Self {
        let text = |s: &str| serde_json::Value::from(s).to_string();
        let (name, event_type, member) =
            if topic == Topic::Frame { ("frame", "entry", "entry") } else { ("update", "session/update", "frame") };
        let head = format!(
            r#","topic":"{name}","type":"{event_type}","task_id":{},"session_id":{},"execution_id":"{execution_id}","{member}":"#,
            text(task_id),
            text(&key.session_id),
        );
        Self { key: key.clone(), task_id: task_id.to_owned(), execution_id, topic, head, lines: BytesMut::new(), count: 0 }
    }

    /// Spliced, not serialised: the payload stays as it was sent.
    fn push(&mut self, seq: u64, payload: &[u8]) {
        const START: &[u8] = br#"{"jsonrpc":"2.0","method":"event","params":{"seq":"#;
        const END: &[u8] = b"}}\n";
        /// Digits of the largest number.
        const DIGITS: usize = 20;
        let line = START.len() + DIGITS + self.head.len() + payload.len() + END.len();
        if self.lines.capacity() - self.lines.len() < line {
            // Room for the lines that follow, but for one that is alone anyway.
            self.lines.reserve(if line < BATCH { BATCH } else { line });
        }
        self.lines.put_slice(START);
        let _ = write!(self.lines, "{seq}");
        self.lines.put_slice(self.head.as_bytes());
        self.lines.put_slice(payload);
        self.lines.put_slice(END);
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn line(seq: u64, topic: Topic, payload: &[u8]) -> (Bytes, Event) {
        let key = SessionKey { owner: "0".into(), session_id: "s\"1".into() };
        let mut batch = Batch::new(&key, "t", Uuid::nil(), topic);
        batch.push(seq, payload);
        let line = batch.lines.freeze();
        assert_eq!(line.last(), Some(&b'\n'));
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        (line, serde_json::from_value(value["params"].clone()).unwrap())
    }

    #[test]
    fn a_raw_event_is_a_line_of_the_event_type_with_the_payload_as_it_was() {
        for seq in [0, 7, 10, 12_345_678_901, u64::MAX] {
            let (line, event) = line(seq, Topic::Update, br#"{"x":1.50}"#);
            assert_eq!((event.seq, event.session_id.as_deref()), (seq, Some("s\"1")));
            assert!(std::str::from_utf8(&line).unwrap().contains(r#""frame":{"x":1.50}}}"#));
        }
        let (_, event) = line(8, Topic::Frame, br#"{"at_ms":0.0,"event":"spawned"}"#);
        assert_eq!((event.topic, event.entry.unwrap().0.get()), (Some(Topic::Frame), r#"{"at_ms":0.0,"event":"spawned"}"#));
    }

    #[test]
    fn a_set_of_topics_has_what_was_put_in() {
        let topics: Topics = [Topic::Update, Topic::Permission].into_iter().collect();
        assert!(topics.contains(Topic::Update) && topics.contains(Topic::Permission) && !topics.contains(Topic::Session));
    }
}
