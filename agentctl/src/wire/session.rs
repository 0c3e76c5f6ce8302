//! `session/*`.

use super::Raw;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Params of `session/prompt`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptParams {
    /// The session.
    pub session_id: String,
    /// One of the agent's own sessions; the one that `execution/start` opened if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acp_session_id: Option<String>,
    /// The prompt as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Or as ACP content blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Vec<Raw>>,
    /// Whose; the caller's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Result of `session/prompt`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PromptResult {
    /// The agent's reason to stop: `end_turn`, `cancelled`, ...
    pub stop_reason: String,
}

/// Params of `session/reset`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResetParams {
    /// The session.
    pub session_id: String,
    /// Which of the agent's own sessions is given up; the one that prompts go to if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acp_session_id: Option<String>,
    /// Whose; the caller's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Result of `session/reset`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResetResult {
    /// The agent's new session, to which prompts go from now on.
    pub acp_session_id: String,
}

/// Params of `session/cancel`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelParams {
    /// The session.
    pub session_id: String,
    /// One of the agent's own sessions; the one that `execution/start` opened if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acp_session_id: Option<String>,
    /// Whose; the caller's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Result of `session/cancel`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CancelResult {
    /// Whether a turn was running.
    pub turn_running: bool,
    /// Permission requests that were answered `cancelled`.
    pub cancelled: usize,
}
