//! `execution/*`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Whether it is started again when it ends; not together with `bind`.
    #[serde(default, skip_serializing_if = "RestartPolicy::is_never")]
    pub restart: RestartPolicy,
    /// Ends it once no turn ran, no request was live and it said nothing for so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_stop_s: Option<u64>,
    /// Ends it when its processes together have more resident bytes than this; looked at every 250 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_memory_bytes: Option<u64>,
    /// Ends it when it has more processes than this; looked at every 250 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_processes: Option<u64>,
    /// Tell the session's events of topics `frame` and `execution` on this connection, from the agent's start on. Replaces its
    /// subscription.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub record: bool,
    /// For whom; the caller if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// When an agent that has ended is started again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RestartPolicy {
    /// Never.
    #[default]
    Never,
    /// When it ended by itself with another status than 0, or by a signal.
    OnFailure,
    /// When it ended by itself.
    Always,
}

impl RestartPolicy {
    /// Whether nothing is to be started again.
    pub fn is_never(&self) -> bool {
        *self == Self::Never
    }
}

/// What is known of restarts of an execution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestartInfo {
    /// When it is started again.
    pub policy: RestartPolicy,
    /// How often its session's agent was, since somebody last started it.
    pub count: usize,
    /// When the next one is due, if it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<String>,
}

/// How an execution came to its acp session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AcpSession {
    /// By `session/new`.
    #[default]
    New,
    /// The session of the execution before, by `session/load`.
    Loaded,
    /// The same, by `session/resume`.
    Resumed,
}

/// Result of `execution/start` and `execution/restart`.
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
    /// Whether that is a new one.
    #[serde(default)]
    pub acp_session: AcpSession,
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
    /// Tell the processes of each, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub processes: bool,
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
    /// Whether an editor has its turns (`proxy/start`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proxied: bool,
    /// What the agent says of itself.
    pub agent: AgentDescription,
    /// The acp session that was opened first.
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
    /// Whether its acp session is a new one.
    #[serde(default)]
    pub acp_session: AcpSession,
    /// Restarts, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartInfo>,
    /// Live permission requests.
    pub pending: usize,
    /// Its processes, each followed by its children; only if asked for, and while it lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<TreeProcess>>,
    /// What it sent and what became of it.
    pub counters: Counters,
    /// What the wire tells about tools that ran.
    pub witness: Witness,
}

/// What the wire tells about tools that ran after they were asked for, before, or without. Tools that an agent does not report
/// are invisible, and a tool's kind is the agent's claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Witness {
    /// Tools that ran after their approval.
    pub waited: u64,
    /// Tools that completed while their prompt waited for an answer.
    pub ran_before_answer: u64,
    /// Approved tools that had not run when their turn ended.
    pub never_ran: u64,
    /// Tools that edit or execute and completed without any prompt.
    pub unasked: u64,
    /// Prompts that nobody has listed or been told of for a minute.
    pub unlisted: u64,
}

/// Something that the witness has found.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// When.
    pub at: String,
    /// What.
    pub oddity: Oddity,
    /// The agent's own session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acp_session_id: Option<String>,
    /// The agent's id of the tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Our id of the request, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The tool call's title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its kind: the agent's claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// What the witness can find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Oddity {
    /// A tool completed while its prompt waited for an answer.
    RanBeforeAnswer,
    /// An approved tool had not run when its turn ended.
    NeverRan,
    /// A tool that edits or executes completed without any prompt.
    Unasked,
    /// Nobody has listed a prompt, or been told of it, for a minute.
    Unlisted,
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
    /// JSON-RPC messages of the editor of a proxied execution.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub editor_messages: u64,
    /// Lines and answers of the editor that were not passed on: no messages, too late, or to nothing that was asked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub editor_dropped: u64,
    /// Bytes of stderr.
    pub stderr_bytes: u64,
    /// The first lines of noise, cut and redacted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noise_samples: Vec<String>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Result of `execution/stop`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct StopResult {
    /// The execution.
    pub execution_id: String,
    /// How its leader ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// What it took: `exit` (it ended by itself), `closed_stdin`, `sigterm` or `sigkill`.
    pub by: String,
    /// Processes that were there when the stop began, its leader too, and ended without being killed.
    pub ended: Vec<ProcessInfo>,
    /// Further processes that had to be killed.
    pub killed: Vec<ProcessInfo>,
    /// Processes that are still there.
    pub survivors: Vec<ProcessInfo>,
    /// Whether nothing of it is left, for sure.
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

/// One process of a running agent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TreeProcess {
    /// Its number.
    pub pid: i32,
    /// The number of its parent; of the leader, and of one that lost its parent, that of the agent's keeper, which is not listed.
    pub parent: i32,
    /// Its resident memory, what it shares with other processes too.
    pub resident_bytes: u64,
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
