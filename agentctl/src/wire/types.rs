//! Params and results of the methods, and events.

use std::collections::BTreeMap;

use acp_bridge::presentation::Action as BridgeAction;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::code::Code;
use crate::domain::{ActorKind, ClaimResult, End, Source};

/// No params.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// Any JSON, passed on as it was written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(pub Box<RawValue>);

impl JsonSchema for Raw {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AnyJson".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        true.into()
    }
}

/// An allowlisted projection of what an agent wants to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Action(pub BridgeAction);

impl JsonSchema for Action {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Action".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "type": "object",
            "required": ["type", "redacted"],
            "properties": {
                "type": {"enum": ["command", "file_write", "file_read", "network", "mcp_tool", "other"]},
                "description": {"type": "string"},
                "command": {"type": "string"},
                "cwd": {"type": "string"},
                "path": {"type": "string"},
                "paths": {"type": "array", "items": {"type": "string"}},
                "diffs": {"type": "object", "properties": {
                    "count": {"type": "integer"}, "lines_new": {"type": "integer"}, "lines_old": {"type": "integer"}}},
                "destination": {"type": "string"},
                "server": {"type": "string"},
                "tool": {"type": "string"},
                "redacted": {"type": "boolean"},
                "incomplete": {"type": "boolean"},
                "truncated": {"type": "boolean"},
                "full_length": {"type": "integer"}
            }
        })
    }
}

// ---- control

/// Params of `control/hello`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HelloParams {
    /// The version that the client speaks: 1.
    pub protocol_version: u32,
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
    /// JSON Schema of its params.
    pub params: Raw,
    /// JSON Schema of its result.
    pub result: Raw,
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

// ---- executions

/// Params of `execution/start`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartParams {
    /// The agent's command: a path, or a name to be found in `PATH`.
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment to add.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Start from an empty environment instead of the daemon's.
    #[serde(default)]
    pub clear_env: bool,
    /// Names to remove.
    #[serde(default)]
    pub strip_env: Vec<String>,
    /// Working directory, absolute.
    pub cwd: String,
    /// The task.
    pub task_id: String,
    /// The session; a new one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// End a live execution of that session first.
    #[serde(default)]
    pub replace: bool,
    /// End the execution with this connection.
    #[serde(default)]
    pub bind: bool,
    /// For whom; the caller if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Result of `execution/start`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StartResult {
    /// The execution.
    pub execution_id: String,
    /// Its task.
    pub task_id: String,
    /// Its session.
    pub session_id: String,
    /// Its leader's process.
    pub pid: i32,
    /// The agent's own session.
    pub acp_session_id: String,
    /// What the agent says of itself.
    pub agent: AgentDescription,
}

/// What an agent says of itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AgentDescription {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// One way to log in to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuthMethod {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// An agent's JSON-RPC error, redacted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentError {
    /// Its code.
    pub code: i64,
    /// Its message.
    pub message: String,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It exited.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

/// Params of `execution/list`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionListParams {
    /// Only of this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Only of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Of whom; the caller if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Names an execution, or the live one of a session.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionParams {
    /// The execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// Or the session whose live execution is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Whose; the caller's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Result of `execution/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionListResult {
    /// The executions, oldest first; ended ones too, as long as they are remembered.
    pub executions: Vec<ExecutionInfo>,
}

/// The state of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The agent has not opened its session yet.
    Starting,
    /// Up and ready.
    Running,
    /// It closed its stdout, or its leader is gone.
    Draining,
    /// It is being stopped.
    Stopping,
    /// It has ended.
    Exited,
    /// It keeps failing and is not started again.
    Parked,
    /// It did not end a cancelled turn in time, or stopped reading within an answer.
    Wedged,
}

/// One execution.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionInfo {
    /// Its id.
    pub execution_id: String,
    /// Its task.
    pub task_id: String,
    /// Its session.
    pub session_id: String,
    /// Its state.
    pub state: State,
    /// Its leader's process, while it lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// The how-manieth of its session, from 1.
    pub generation: u64,
    /// The command line, redacted.
    pub command: String,
    /// Its working directory.
    pub cwd: String,
    /// What the agent says of itself.
    pub agent: AgentDescription,
    /// The acp session that `execution/start` opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acp_session_id: Option<String>,
    /// When it was started.
    pub started_at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// How its leader ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Live permission requests.
    pub pending: usize,
    /// What it sent and what became of it.
    pub counters: Counters,
}

/// Counts of what an agent sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// JSON-RPC messages.
    pub messages: u64,
    /// Permission prompts that were listed.
    pub prompts: u64,
    /// Prompts answered `cancelled` at once: their turn was cancelled, or too many were live.
    pub prompts_refused: u64,
    /// Prompts answered -32602 because their params can't be read.
    pub prompts_invalid: u64,
    /// Requests answered -32601.
    pub not_served: u64,
    /// Answers that were dropped because the agent doesn't read them.
    pub answers_dropped: u64,
    /// Responses to nothing that we asked.
    pub unmatched: u64,
    /// Lines that are no JSON-RPC message.
    pub noise: u64,
    /// Lines that begin an object but can't be read.
    pub unreadable: u64,
    /// Lines that two parsers could read differently; dropped.
    pub ambiguous: u64,
    /// Lines over the frame cap; dropped.
    pub too_long: u64,
    /// Bytes of stderr.
    pub stderr_bytes: u64,
    /// The first lines of noise, cut and redacted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noise_samples: Vec<String>,
}

/// Result of `execution/stop`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct StopResult {
    /// The execution.
    pub execution_id: String,
    /// How its leader ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// What it took: `closed_stdin`, `sigterm` or `sigkill`.
    pub by: String,
    /// Further processes that had to be killed.
    pub killed: Vec<ProcessInfo>,
    /// Processes that are still there.
    pub survivors: Vec<ProcessInfo>,
    /// Whether nothing of it is left.
    pub tree_empty: bool,
}

/// One process of an agent's tree.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProcessInfo {
    /// Its number.
    pub pid: i32,
    /// Its command line, cut and redacted.
    pub command: String,
}

/// Params of `execution/stderr`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StderrParams {
    /// The execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// Or the session whose live execution is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// At most this many bytes, from the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
    /// Whose; the caller's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Result of `execution/stderr`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StderrResult {
    /// The execution.
    pub execution_id: String,
    /// Its recent stderr, redacted.
    pub text: String,
    /// Bytes that it wrote in all.
    pub total_bytes: u64,
    /// Whether earlier bytes are missing.
    pub truncated: bool,
    /// What to know before passing it on.
    pub warning: String,
}

// ---- sessions

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

// ---- permissions

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
pub struct PermissionListResult {
    /// The task, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The live requests by `created_at`, then `request_id`; never cut.
    pub permissions: Vec<Permission>,
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

// ---- audit

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

// ---- events

/// A topic of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// `requested`, `resolving`, `resolved`, `cancelled`, `withdrawn`, `replaced`, `expired`, and `pending` when an answer was taken back.
    Permission,
    /// `state`, and `reported` for what the agent sent that can't be used.
    Execution,
    /// `turn_started`, `turn_ended`.
    Session,
    /// The agent's `session/update` frames, raw and unredacted; only when asked for by name.
    Update,
}

/// Params of `event/subscribe`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscribeParams {
    /// `permission`, `execution` and `session` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topics: Option<Vec<Topic>>,
    /// Only of this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Only of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Result of `event/subscribe`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SubscribeResult {
    /// Every event with a greater `seq` will be told.
    pub seq: u64,
}

/// The params of an `event` notification; which members are there depends on `topic` and `type`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number among all events of the daemon; events of others leave holes.
    pub seq: u64,
    /// Its topic; absent for `event_gap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Topic>,
    /// Its type within the topic.
    #[serde(rename = "type")]
    pub event_type: String,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Its execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// The agent's own session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acp_session_id: Option<String>,
    /// Our id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The agent's id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_id: Option<String>,
    /// `requested`: the request as `permission/list` shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Box<Permission>>,
    /// `resolving`, `resolved`: who and what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<EventResolution>,
    /// Why: of an end, a state or a report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `state`: the new state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// `state`: how the leader ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// `turn_ended`: the agent's stop reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// `event_gap`: how many events were dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Topic `update`: the agent's frame as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<Raw>,
}

/// Who chose which option.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EventResolution {
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
}
