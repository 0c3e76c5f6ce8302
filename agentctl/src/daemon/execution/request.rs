//! What is shown and recorded of a request.

use std::sync::Arc;

use acp_bridge::json;
use acp_bridge::presentation::{Redactor, present};
use acp_bridge::prompt::{Prompt, ToolCall};
use jiff::Timestamp;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::Execution;
use crate::audit::RequestRow;
use crate::domain::timestamp_text;
use crate::wire::{Action, Permission, PermissionOption, PermissionStatus, Raw};

/// What is kept of a live request: a snapshot of the moment it was read.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) shown: Permission,
    pub(super) row: Arc<RequestRow>,
}

impl Request {
    /// Projects a prompt as it is read.
    pub(super) fn new(
        exec: &Execution,
        redactor: &Redactor,
        request_id: Uuid,
        pending_id: &str,
        prompt: &Prompt,
        earlier: Option<&ToolCall>,
    ) -> Self {
        // Not an identity of ours, so it may be changed to protect a secret.
        let tool_call_id = prompt.tool_call.id.as_ref().map(|id| redactor.text(id).text);
        let view = present(prompt, earlier, redactor);
        let created_at = Timestamp::now();
        let options: Vec<PermissionOption> = view
            .options
            .into_iter()
            .map(|o| PermissionOption {
                option_id: o.option_id,
                name: o.name,
                kind: Raw(o.kind.unwrap_or_else(|| RawValue::NULL.to_owned())),
                selectable: o.selectable,
            })
            .collect();
        let row = RequestRow {
            request_id,
            execution_id: exec.id,
            session: exec.key.clone(),
            task_id: exec.task_id.clone(),
            acp_session_id: prompt.acp_session_id.clone(),
            pending_id: pending_id.to_owned(),
            tool_call_id: tool_call_id.clone(),
            created_at,
            title: view.title.clone(),
            action: json::to_text(&view.action),
            options: json::to_text(&options),
        };
        let shown = Permission {
            task_id: exec.task_id.clone(),
            session_id: exec.key.session_id.clone(),
            execution_id: exec.id.to_string(),
            acp_session_id: prompt.acp_session_id.clone(),
            request_id: request_id.to_string(),
            pending_id: pending_id.to_owned(),
            tool_call_id,
            title: view.title,
            action: Action(view.action),
            options,
            created_at: timestamp_text(created_at),
            status: PermissionStatus::Pending,
        };
        Self { shown, row: Arc::new(row) }
    }
}
