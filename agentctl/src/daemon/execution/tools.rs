//! Tool calls that the agent announced, to complete the prompts that name them.

use std::collections::VecDeque;

use acp_bridge::json::Members;
use acp_bridge::prompt::{MAX_ID_BYTES, ToolCall};
use serde_json::value::RawValue;

use crate::limits::{TOOL_CALL_BYTES, TOOL_CALLS, TOOL_REPORT_BYTES};

/// What an update tells of a tool call.
pub(super) struct Report {
    pub(super) session: Option<String>,
    pub(super) id: String,
    pub(super) kind: Option<String>,
    pub(super) status: Option<String>,
}

/// The latest tool calls of an execution, by acp session and tool call id.
#[derive(Debug, Default)]
pub(super) struct ToolCalls(VecDeque<(Option<String>, ToolCall)>);

impl ToolCalls {
    /// Takes in the params of a `session/update`, and returns whose tool call it tells of. What is ambiguous or no tool call
    /// is left out; what is too large to be remembered is reported all the same: the output of a tool can be long.
    pub(super) fn update(&mut self, params: Option<&RawValue>) -> Option<Report> {
        let raw = params.filter(|raw| raw.get().len() <= TOOL_REPORT_BYTES)?;
        let params = Members::read(raw).ok()?;
        let update = params.get("update").filter(|_| params.duplicate().is_none())?;
        let members = Members::read(update).ok().filter(|update| update.duplicate().is_none())?;
        if !matches!(members.string("sessionUpdate").as_deref(), Some("tool_call" | "tool_call_update")) {
            return None;
        }
        let id = |members: &Members<'_>, name| members.string(name).filter(|id| id.len() <= MAX_ID_BYTES);
        let session = id(&params, "sessionId");
        let report = Report {
            session: session.clone(),
            id: id(&members, "toolCallId")?,
            kind: members.string("kind"),
            status: members.string("status"),
        };
        if raw.get().len() > TOOL_CALL_BYTES {
            return Some(report);
        }
        let Ok(mut call) = ToolCall::read(update) else { return Some(report) };
        call.meta = None;
        match self.0.iter_mut().find(|(s, known)| *s == session && known.id == call.id) {
            Some((_, known)) => known.merge(call),
            None => {
                if self.0.len() == TOOL_CALLS {
                    self.0.pop_front();
                }
                self.0.push_back((session, call));
            }
        }
        Some(report)
    }

    /// What was told of a tool call.
    pub(super) fn get(&self, session: Option<&str>, id: Option<&str>) -> Option<&ToolCall> {
        self.0.iter().find(|(s, known)| s.as_deref() == session && id.is_some() && known.id.as_deref() == id).map(|(_, call)| call)
    }
}
