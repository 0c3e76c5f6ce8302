//! What passes between us and the agent, for who records it: topic `frame`.

use std::time::Duration;

use acp_bridge::fixture::{Entry, EntryKind, Event, Side};
use acp_bridge::json;
use jiff::Timestamp;

use super::Execution;
use super::task::Task;
use crate::daemon::hub::Hub;
use crate::wire::Topic;

impl Task {
    /// A line of one side has passed.
    pub(super) fn passed(&self, side: Side, line: &[u8]) {
        if self.exec.is_recorded(&self.hub) {
            self.exec.publish_entry(&self.hub, &Entry::sent(self.exec.age(), side, line));
        }
    }

    /// Something happened to the process.
    pub(super) fn happened(&self, event: Event) {
        self.exec.happened(&self.hub, event);
    }
}

impl Execution {
    /// Something happened to the process.
    pub(super) fn happened(&self, hub: &Hub, event: Event) {
        if self.is_recorded(hub) {
            self.publish_entry(hub, &Entry::at(self.age(), EntryKind::Event(event)));
            hub.bus.flush();
        }
    }

    fn is_recorded(&self, hub: &Hub) -> bool {
        hub.bus.is_wanted(&self.key, &self.task_id, Topic::Frame)
    }

    fn publish_entry(&self, hub: &Hub, entry: &Entry) {
        hub.bus.publish_raw(&self.key, &self.task_id, self.id, Topic::Frame, json::to_text(entry).as_bytes());
    }

    fn age(&self) -> Duration {
        Timestamp::now().duration_since(self.started_at).try_into().unwrap_or_default()
    }
}
