//! `proxy/start`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Exit;

/// Params of `proxy/start`. The first message of its connection, sent with three descriptors (`SCM_RIGHTS`): the editor's
/// stdin, stdout and stderr for the agent.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxyParams {
    /// The agent's command: a path, or a name to be found in `PATH`.
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Names to remove from it.
    #[serde(default)]
    pub strip_env: Vec<String>,
    /// Working directory, absolute.
    pub cwd: String,
    /// File mode creation mask.
    pub umask: u32,
    /// Soft and hard limit of each resource, in the order of the kernel's numbers.
    pub limits: Vec<(u64, u64)>,
    /// The task.
    pub task_id: String,
    /// The session; a new one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Tell the events of topic `frame` on this connection, from the agent's start on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub record: bool,
}

/// Result of `proxy/start`, when the agent has ended.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProxyResult {
    /// The execution.
    pub execution_id: String,
    /// Its task.
    pub task_id: String,
    /// Its session.
    pub session_id: String,
    /// How its leader ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
