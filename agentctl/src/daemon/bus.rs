//! Events, to everyone who subscribed and may see them.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use uuid::Uuid;

use super::peer::Peer;
use crate::domain::SessionKey;
use crate::wire::{Event, Topic, event_line};

/// The subscribers and the number of the last event.
#[derive(Debug, Default)]
pub struct Bus {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    seq: u64,
    subscribers: Vec<Subscriber>,
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
    /// Of which topics.
    pub topics: HashSet<Topic>,
    /// Only of this task.
    pub task_id: Option<String>,
    /// Only of this session.
    pub session_id: Option<String>,
}

impl Subscriber {
    fn wants(&self, key: &SessionKey, task_id: &str, topic: Topic) -> bool {
        self.owner == key.owner
            && self.topics.contains(&topic)
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
        state.subscribers.retain(|s| s.connection != subscriber.connection);
        state.subscribers.push(subscriber);
    }

    /// Ends the subscription of a connection.
    pub fn unsubscribe(&self, connection: u64) {
        self.state.lock().subscribers.retain(|s| s.connection != connection);
    }

    /// Tells an event of a session to its subscribers, before it returns where they read.
    pub fn publish(&self, key: &SessionKey, task_id: &str, topic: Topic, mut event: Event) {
        let mut state = self.state.lock();
        state.seq += 1;
        let seq = state.seq;
        let mut wanting = state.subscribers.iter().filter(|s| s.wants(key, task_id, topic)).peekable();
        if wanting.peek().is_none() {
            return;
        }
        event.seq = seq;
        event.topic = Some(topic);
        let line = event_line(&event);
        wanting.for_each(|s| s.peer.event(seq, line.clone()));
    }

    /// Whether somebody wants events of this topic.
    pub fn is_wanted(&self, key: &SessionKey, task_id: &str, topic: Topic) -> bool {
        self.state.lock().subscribers.iter().any(|s| s.wants(key, task_id, topic))
    }

    /// Tells a raw event of topic `update` or `frame`, whose payload is spliced in as it is. It is copied once, and only
    /// if somebody asked for it.
    pub fn publish_raw(&self, key: &SessionKey, task_id: &str, execution_id: Uuid, topic: Topic, payload: &[u8]) {
        let mut state = self.state.lock();
        if !state.subscribers.iter().any(|s| s.wants(key, task_id, topic)) {
            return;
        }
        state.seq += 1;
        let seq = state.seq;
        let line = raw_line(seq, key, task_id, execution_id, topic, payload);
        state.subscribers.iter().filter(|s| s.wants(key, task_id, topic)).for_each(|s| s.peer.event(seq, line.clone()));
    }
}

/// Spliced, not serialised: the payload stays as it was sent.
fn raw_line(seq: u64, key: &SessionKey, task_id: &str, execution_id: Uuid, topic: Topic, payload: &[u8]) -> Bytes {
    let text = |s: &str| serde_json::Value::from(s).to_string();
    let (topic, event_type, member) =
        if topic == Topic::Frame { ("frame", "entry", "entry") } else { ("update", "session/update", "frame") };
    let head = format!(
        r#"{{"jsonrpc":"2.0","method":"event","params":{{"seq":{seq},"topic":"{topic}","type":"{event_type}","task_id":{},"session_id":{},"execution_id":"{execution_id}","{member}":"#,
        text(task_id),
        text(&key.session_id),
    );
    let mut line = BytesMut::with_capacity(head.len() + payload.len() + 3);
    line.put_slice(head.as_bytes());
    line.put_slice(payload);
    line.put_slice(b"}}\n");
    line.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_a_line_of_the_event_type_with_the_frame_as_it_was() {
        let key = SessionKey { owner: "0".into(), session_id: "s\"1".into() };
        let line = raw_line(7, &key, "t", Uuid::nil(), Topic::Update, br#"{"x":1.50}"#);
        assert_eq!(line.last(), Some(&b'\n'));
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        let event: Event = serde_json::from_value(value["params"].clone()).unwrap();
        assert_eq!((event.seq, event.session_id.as_deref()), (7, Some("s\"1")));
        assert!(std::str::from_utf8(&line).unwrap().contains(r#""frame":{"x":1.50}}}"#));
        let line = raw_line(8, &key, "t", Uuid::nil(), Topic::Frame, br#"{"at_ms":0.0,"event":"spawned"}"#);
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        let event: Event = serde_json::from_value(value["params"].clone()).unwrap();
        assert_eq!((event.topic, event.entry.unwrap().0.get()), (Some(Topic::Frame), r#"{"at_ms":0.0,"event":"spawned"}"#));
    }
}
