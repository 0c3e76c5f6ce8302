//! What the agent sends, line by line.

use std::sync::LazyLock;

use acp_bridge::envelope::{self, Message, Refusal};
use acp_bridge::fixture::Side;
use acp_bridge::id::RpcId;
use acp_bridge::message::{self, code};
use memchr::memmem::Finder;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::task::Task;
use crate::limits::REFUSAL_BYTES;
use crate::permission::Table;
use crate::wire::Topic;

/// What a tool call's update has in it; any letter of it may be written as an escape.
static TOOL_CALL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"tool_call"));
static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\\u"));

impl Task {
    /// One whole line of stdout.
    pub(super) fn line(&mut self, line: &[u8]) {
        self.passed(Side::Agent, line);
        match envelope::peek(line) {
            Ok(message) => {
                self.count(|c| c.messages += 1);
                self.message(line, message);
            }
            Err(Refusal::Blank) => self.count(|c| c.noise += 1),
            Err(Refusal::Noise) => self.noise(line),
            Err(refusal @ Refusal::Unreadable) => {
                self.count(|c| c.unreadable += 1);
                self.report(refusal.to_string());
            }
            Err(refusal @ Refusal::Ambiguous(_)) => {
                self.count(|c| c.ambiguous += 1);
                self.report(refusal.to_string());
            }
        }
    }

    /// A line over the frame cap, dropped unread.
    pub(super) fn too_long(&mut self, bytes: u64) {
        self.count(|c| c.too_long += 1);
        self.report(format!("a line of {bytes} bytes is over the frame cap and was dropped"));
    }

    /// The stream ended within a line.
    pub(super) fn unfinished_line(&mut self) {
        self.count(|c| c.unreadable += 1);
        self.report("stdout ended within a line".to_owned());
    }

    fn message(&mut self, line: &[u8], message: Message<'_>) {
        match message {
            Message::Response { id, outcome } if self.editor.is_some() => {
                self.agent_answered_editor(&id, outcome);
                self.pass_on(line);
            }
            Message::Response { id, outcome } => self.answered(&id, outcome),
            Message::Request { id, method, params } if method == "session/request_permission" => {
                self.permission_requested(id, params, line);
            }
            Message::Request { id, .. } if self.editor.is_some() => self.pass_request(&id, line),
            Message::Request { id, method, .. } => {
                self.count(|c| c.not_served += 1);
                let method: String = method.chars().take(128).collect();
                self.refuse(&id, code::METHOD_NOT_FOUND, &format!("method not found: {method}"));
            }
            Message::Notification { method, params } => match &*method {
                "session/update" => {
                    self.update(line, params);
                    self.pass_on(line);
                }
                "$/cancel_request" => self.withdrawn(params, line),
                // Notifications that we don't know ask for nothing.
                _ => self.pass_on(line),
            },
        }
    }

    fn update(&mut self, line: &[u8], params: Option<&RawValue>) {
        // Decoding every update would cost as much as all the rest of the path.
        if (TOOL_CALL.find(line).is_some() || ESCAPE.find(line).is_some())
            && !self.is_replaying()
            && let Some(report) = self.tools.update(params)
        {
            self.witness_report(&report);
        }
        self.hub.bus.publish_raw(&self.exec.key, &self.exec.task_id, self.exec.id, Topic::Update, line.trim_ascii_end());
    }

    /// To the editor, if there is one.
    fn pass_on(&mut self, line: &[u8]) {
        if let Some(editor) = &mut self.editor {
            editor.send(line);
        }
    }

    fn withdrawn(&mut self, params: Option<&RawValue>, line: &[u8]) {
        let Some(id) = message::cancelled_request(params) else { return self.pass_on(line) };
        let alias = self.editor.as_ref().and_then(|editor| editor.ledger.alias(&id).cloned());
        self.pass_withdrawal(alias.as_ref(), line);
        let is_it = |table: &Table<_>, request: Uuid| table.by_agent_id(&id) == Some(request);
        self.end_requests("withdrawn_by_agent", is_it, |table| table.withdraw(&id).into_iter().collect());
        self.flush();
    }

    /// Answers a request with an error. An agent that doesn't read can't make us keep more than a bound.
    pub(super) fn refuse(&mut self, id: &RpcId, code: i32, text: &str) {
        // The id means this request now, whatever becomes of it.
        self.replaced(id);
        if self.outbox.urgent_bytes() > REFUSAL_BYTES {
            return self.count(|c| c.answers_dropped += 1);
        }
        self.outbox.push_urgent(message::error(id, code, text), None);
        self.flush();
    }
}
