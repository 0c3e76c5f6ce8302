//! What is shown and recorded of a request.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use acp_bridge::json;
use acp_bridge::presentation::{Redactor, present};
use acp_bridge::prompt::{Prompt, ToolCall};
use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::Execution;
use crate::audit::RequestRow;
use crate::domain::timestamp_text;
use crate::wire::{Action, Permission, PermissionOption, PermissionStatus, Raw};

/// What is kept of a live request: a snapshot of the moment it was read.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) shown: Arc<Permission>,
    request_id: Uuid,
    created_at: Timestamp,
    exec: Arc<Execution>,
    /// What is shown, as JSON: made once, however often it is listed.
    json: OnceLock<Box<RawValue>>,
    /// Made after the first subscribers were told.
    row: OnceLock<Arc<RequestRow>>,
}

impl Request {
    /// Projects a prompt as it is read.
    pub(super) fn new(
        exec: &Arc<Execution>,
        redactor: &Redactor,
        request_id: Uuid,
        pending_id: &str,
        prompt: &Prompt,
        earlier: Option<&ToolCall>,
    ) -> Self {
        let view = present(prompt, earlier, redactor);
        let created_at = Timestamp::now();
        let options = view
            .options
            .into_iter()
            .map(|o| PermissionOption {
                option_id: o.option_id,
                name: o.name,
                kind: Raw(o.kind.unwrap_or_else(|| RawValue::NULL.to_owned())),
                selectable: o.selectable,
            })
            .collect();
        let shown = Permission {
            task_id: exec.task_id.clone(),
            session_id: exec.key.session_id.clone(),
            execution_id: exec.id.to_string(),
            acp_session_id: prompt.acp_session_id.clone(),
            request_id: request_id.to_string(),
            pending_id: pending_id.to_owned(),
            // Not an identity of ours, so it may be changed to protect a secret.
            tool_call_id: prompt.tool_call.id.as_ref().map(|id| redactor.text(id).text),
            title: view.title,
            action: Action(view.action),
            options,
            created_at: timestamp_text(created_at),
            status: PermissionStatus::Pending,
        };
        let (json, row) = (OnceLock::new(), OnceLock::new());
        Self { shown: Arc::new(shown), request_id, created_at, exec: exec.clone(), json, row }
    }

    /// What is recorded of it.
    pub(super) fn row(&self) -> Arc<RequestRow> {
        let Self { shown, exec, .. } = self;
        let row = || RequestRow {
            request_id: self.request_id,
            execution_id: exec.id,
            session: exec.key.clone(),
            task_id: exec.task_id.clone(),
            acp_session_id: shown.acp_session_id.clone(),
            pending_id: shown.pending_id.clone(),
            tool_call_id: shown.tool_call_id.clone(),
            created_at: self.created_at,
            title: shown.title.clone(),
            action: json::to_text(&shown.action),
            options: json::to_text(&shown.options),
        };
        self.row.get_or_init(|| Arc::new(row())).clone()
    }

    fn json(&self) -> &RawValue {
        self.json.get_or_init(|| serde_json::value::to_raw_value(&*self.shown).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }
}

/// A live request as it is listed: written as a [`Permission`].
#[derive(Debug)]
pub struct Listed {
    pub(super) request: Arc<Request>,
    /// A caller is answering it.
    pub(super) is_resolving: bool,
}

impl Listed {
    /// By which lists are ordered: as `created_at`, which shows milliseconds, and `request_id` are.
    pub fn order(&self) -> (i64, Uuid) {
        (self.request.created_at.as_millisecond(), self.request.request_id)
    }
}

impl Serialize for Listed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_resolving {
            return Permission { status: PermissionStatus::Resolving, ..(*self.request.shown).clone() }.serialize(serializer);
        }
        self.request.json().serialize(serializer)
    }
}

impl JsonSchema for Listed {
    fn schema_name() -> Cow<'static, str> {
        Permission::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Permission::json_schema(generator)
    }
}
