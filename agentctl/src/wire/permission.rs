//! `permission/*`.

use super::{Action, Raw};
use crate::domain::{End, Source};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Params of `permission/list`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionListParams {
    /// Only of this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Only of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Result of `permission/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PermissionListResult")]
pub struct PermissionListResult<P = Permission> {
    /// The task, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The live requests by `created_at`, then `request_id`; never cut.
    pub permissions: Vec<P>,
    /// How many.
    pub total: usize,
}

/// One live request.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Permission {
    /// Its task.
    pub task_id: String,
    /// Its session.
    pub session_id: String,
    /// Its execution.
    pub execution_id: String,
    /// The agent's own session, as the agent named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acp_session_id: Option<String>,
    /// Our id of it, unique per prompt.
    pub request_id: String,
    /// The agent's id of it, as text.
    pub pending_id: String,
    /// The agent's tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The tool call's title, redacted.
    pub title: String,
    /// What it wants to do.
    pub action: Action,
    /// The agent's options in its order.
    pub options: Vec<PermissionOption>,
    /// When it was read.
    pub created_at: String,
    /// Whether it can be answered now.
    pub status: PermissionStatus,
}

/// One option of a request.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PermissionOption {
    /// Its exact id.
    pub option_id: String,
    /// Its label, redacted.
    pub name: String,
    /// Its kind as the JSON that was sent; `null` if missing.
    pub kind: Raw,
    /// False if its id can't select it: it stands twice, or is no Unicode text.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub selectable: bool,
}

fn yes() -> bool {
    true
}

/// The status of a live request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PermissionStatus {
    /// It waits for an answer.
    Pending,
    /// A caller is answering it.
    Resolving,
}

/// Params of `permission/resolve`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveParams {
    /// Its task.
    pub task_id: String,
    /// Its session.
    pub session_id: String,
    /// Our id of it.
    pub request_id: String,
    /// The agent's id of it.
    pub pending_id: String,
    /// The chosen option, exactly.
    pub option_id: String,
}

/// Result of `permission/resolve`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResolveResult {
    /// Its task.
    pub task_id: String,
    /// Its session.
    pub session_id: String,
    /// Our id of it.
    pub request_id: String,
    /// The agent's id of it.
    pub pending_id: String,
    /// The chosen option.
    pub option_id: String,
    /// Its kind as the JSON that was sent; `null` if missing.
    pub option_kind: Raw,
    /// The surface through which it was chosen.
    pub source: Source,
    /// `resolved`.
    pub status: End,
}

/// Params of `permission/cancel`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionCancelParams {
    /// Its task.
    pub task_id: String,
    /// Its session.
    pub session_id: String,
    /// Our id of it.
    pub request_id: String,
    /// The agent's id of it.
    pub pending_id: String,
}

/// Result of `permission/cancel`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PermissionCancelResult {
    /// Its task.
    pub task_id: String,
    /// Its session.
    pub session_id: String,
    /// Our id of it.
    pub request_id: String,
    /// The agent's id of it.
    pub pending_id: String,
    /// `cancelled`.
    pub status: End,
}
