//! `audit/*`.

use super::{Finding, Raw, Witness};
use crate::domain::{ActorKind, ClaimResult, End, Source};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Params of `audit/list`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditListParams {
    /// Only of this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Only of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Only this request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// At most this many, 1 to 1000; 100 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Result of `audit/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AuditListResult {
    /// Newest first.
    pub records: Vec<AuditRecord>,
    /// The cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What is recorded of one request.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AuditRecord {
    /// Its task.
    pub task_id: String,
    /// Its session.
    pub session_id: String,
    /// Its execution.
    pub execution_id: String,
    /// The agent's own session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acp_session_id: Option<String>,
    /// Our id of it.
    pub request_id: String,
    /// The agent's id of it.
    pub pending_id: String,
    /// The agent's tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The tool call's title, redacted.
    pub title: String,
    /// What it wanted to do; `null` if that was dropped over the execution's audit limit.
    pub action: Raw,
    /// The agent's options.
    pub options: Raw,
    /// When it was read.
    pub created_at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// Why it ended so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<String>,
    /// Every claim.
    pub resolutions: Vec<AuditResolution>,
    /// Attempts that failed.
    pub failed_attempts: FailedAttempts,
}

/// One claim.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AuditResolution {
    /// Unique per attempt.
    pub claim_id: String,
    /// The caller.
    pub actor_user_id: String,
    /// How that was proven.
    pub actor_kind: ActorKind,
    /// The surface.
    pub source: Source,
    /// The chosen option.
    pub option_id: String,
    /// Its kind as the JSON that was sent.
    pub option_kind: Raw,
    /// When it was chosen.
    pub selected_at: String,
    /// When the outcome was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalized_at: Option<String>,
    /// The outcome.
    pub result: ClaimResult,
}

/// Attempts to answer a request that failed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FailedAttempts {
    /// How many.
    pub count: u64,
    /// The recorded ones, at most 32.
    pub last: Vec<FailedAttempt>,
}

/// One failed attempt.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FailedAttempt {
    /// Its stable code.
    pub code: String,
    /// As given, cut.
    pub pending_id: String,
    /// As given, cut; absent for an attempt to cancel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// The caller.
    pub actor_user_id: String,
    /// How that was proven.
    pub actor_kind: ActorKind,
    /// The surface.
    pub source: Source,
    /// When.
    pub at: String,
}

/// Params of `audit/witness`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditWitnessParams {
    /// Only of this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Only of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// At most this many executions, 1 to 1000; 100 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Result of `audit/witness`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AuditWitnessResult {
    /// Executions of which there is something to tell, newest first.
    pub executions: Vec<WitnessRecord>,
    /// The cursor of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What the witness of one execution counted and found.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WitnessRecord {
    /// The execution.
    pub execution_id: String,
    /// Its task.
    pub task_id: String,
    /// Its session.
    pub session_id: String,
    /// When it was started.
    pub started_at: String,
    /// The counts.
    pub witness: Witness,
    /// The first findings.
    pub findings: Vec<Finding>,
}
