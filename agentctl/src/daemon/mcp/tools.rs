//! What the tools take and give: exactly this, and no id or mark that only the control socket has.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::wire::{Action, Permission, PermissionListResult, PermissionOption, PermissionStatus, Raw, ResolveParams, ResolveResult};

/// The name of the tool that lists.
pub(super) const LIST: &str = "list_pending_agent_permissions";
/// The name of the tool that answers.
pub(super) const RESOLVE: &str = "resolve_agent_permission";

/// Input of the tool that lists.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListInput {
    /// The task.
    pub(super) task_id: String,
    /// Only of this session of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<String>,
}

/// Output of the tool that lists.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Listed {
    /// The task.
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    /// The requests that can be answered now, by `created_at`, then `request_id`; never cut.
    permissions: Vec<Pending>,
    /// How many.
    #[schemars(schema_with = "count")]
    total: usize,
}

/// A number without schemars' own `format`, which validators of clients don't know.
fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 0})
}

/// One request that can be answered now.
#[derive(Debug, Serialize, JsonSchema)]
struct Pending {
    /// Its task.
    task_id: String,
    /// Its session.
    session_id: String,
    /// Our id of it, unique per prompt.
    request_id: String,
    /// The agent's id of it.
    pending_id: String,
    /// The agent's tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    /// The tool call's title, redacted.
    title: String,
    /// What it wants to do.
    action: Action,
    /// The agent's options in its order.
    options: Vec<Choice>,
    /// When it was read.
    created_at: String,
    /// `pending`.
    status: PermissionStatus,
}

/// One option.
#[derive(Debug, Serialize, JsonSchema)]
struct Choice {
    /// Its exact id.
    option_id: String,
    /// Its label, redacted.
    name: String,
    /// Its kind as the agent sent it.
    kind: Raw,
}

impl From<PermissionListResult> for Listed {
    fn from(list: PermissionListResult) -> Self {
        let pending = list.permissions.into_iter().filter(|p| p.status == PermissionStatus::Pending);
        let permissions: Vec<Pending> = pending.map(Pending::from).collect();
        Self { task_id: list.task_id, total: permissions.len(), permissions }
    }
}

impl From<Permission> for Pending {
    fn from(p: Permission) -> Self {
        Self {
            task_id: p.task_id,
            session_id: p.session_id,
            request_id: p.request_id,
            pending_id: p.pending_id,
            tool_call_id: p.tool_call_id,
            title: p.title,
            action: p.action,
            options: p.options.into_iter().map(Choice::from).collect(),
            created_at: p.created_at,
            status: p.status,
        }
    }
}

impl From<PermissionOption> for Choice {
    fn from(option: PermissionOption) -> Self {
        Self { option_id: option.option_id, name: option.name, kind: option.kind }
    }
}

/// The two tools.
pub(super) fn all() -> Vec<Tool> {
    let list = ToolAnnotations::from_raw(Some("Pending agent permissions".into()), Some(true), Some(false), Some(true), Some(false));
    let resolve =
        ToolAnnotations::from_raw(Some("Answer an agent's permission request".into()), Some(false), Some(true), Some(false), Some(true));
    vec![
        Tool::new(
            LIST,
            "Lists the permission requests of a task's coding agents that wait for an answer: what each agent wants to do, and the options it offers.",
            Arc::default(),
        )
        .with_input_schema::<ListInput>()
        .with_output_schema::<Listed>()
        .with_annotations(list),
        Tool::new(
            RESOLVE,
            "Answers one listed request with one of its options, once. Give all five ids exactly as listed. To refuse, choose a reject option. \
             Only answer as the person whom you act for has decided.",
            Arc::default(),
        )
        .with_input_schema::<ResolveParams>()
        .with_output_schema::<ResolveResult>()
        .with_annotations(resolve),
    ]
}
