//! `control/*`.

use super::Raw;
use crate::code::Code;
use crate::domain::ActorKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Params of `control/hello`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HelloParams {
    /// The version that the client speaks: 1.
    pub protocol_version: u32,
    /// A personal access token: from then on the connection has its owner's rights, and no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The client's name, for the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

/// Result of `control/hello`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct HelloResult {
    /// The version that the daemon speaks.
    pub protocol_version: u32,
    /// The daemon.
    pub server: ServerInfo,
    /// As whom the client is known.
    pub principal: PrincipalInfo,
}

/// The daemon's name and version.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ServerInfo {
    /// `agentctl`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Who a client is.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PrincipalInfo {
    /// The user.
    pub user_id: String,
    /// How that was proven.
    pub kind: ActorKind,
    /// Whether it may start and control executions.
    pub operator: bool,
}

/// Result of `control/describe`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DescribeResult {
    /// The version of this protocol.
    pub protocol_version: u32,
    /// Every method.
    pub methods: Vec<MethodInfo>,
    /// The params of an `event` notification.
    pub event: Raw,
    /// Every stable code.
    pub codes: Vec<CodeInfo>,
}

/// One method.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MethodInfo {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Who may call it.
    pub access: Access,
    /// JSON Schema of its params.
    pub params: Raw,
    /// JSON Schema of its result.
    pub result: Raw,
}

/// Who may call a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Everybody whom the socket serves, supervised agents too.
    Anyone,
    /// The operator, and whoever has an owner's token: each sees what is its own.
    Owner,
    /// The daemon's own user without a token.
    Operator,
}

/// One stable code.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CodeInfo {
    /// Its text.
    pub code: Code,
    /// What happened.
    pub meaning: String,
    /// What to do.
    pub hint: String,
    /// The command line's exit status.
    pub exit_status: u8,
}

/// Result of `control/status`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StatusResult {
    /// The daemon.
    pub server: ServerInfo,
    /// Its process.
    pub pid: u32,
    /// When it started.
    pub started_at: String,
    /// Live executions.
    pub executions: usize,
    /// The most of them.
    pub max_executions: usize,
    /// Open connections.
    pub connections: usize,
    /// Counters of the audit.
    pub audit: Raw,
}

/// Result of `control/shutdown`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ShutdownResult {
    /// Live executions that are being stopped.
    pub stopping: usize,
}
