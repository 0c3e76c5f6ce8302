//! Every limit of the daemon in one place, with what happens when it is reached.

use std::time::Duration;

/// Live executions: a further start fails with `limit_reached`. Set by `--max-executions`.
pub const MAX_EXECUTIONS: usize = 1024;
/// Ended executions that `ps` still knows: the oldest is forgotten.
pub const KEPT_EXECUTIONS: usize = 1024;
/// Live prompts of one execution: a further one is answered `cancelled` and counted.
pub const LIVE_PROMPTS: usize = 256;
/// Answers to requests that we don't serve, waiting for an agent that doesn't read: further ones are dropped and counted.
pub const REFUSAL_BYTES: usize = 1024 * 1024;
/// Answers of any kind waiting for an agent that doesn't read and keeps asking: it is ended.
pub const UNREAD_BYTES: usize = 32 * 1024 * 1024;
/// Reports of one execution that are logged: further ones are only counted and told as events.
pub const LOGGED_REPORTS: u64 = 100;
/// Bytes of turns waiting for an agent that doesn't read: a further turn is refused with `limit_reached`. One may be over it.
pub const PROMPT_BACKLOG: usize = 16 * 1024 * 1024;
/// Bytes of recent stderr of one execution: the oldest are dropped.
pub const STDERR_RING: usize = 64 * 1024;
/// Bytes of stderr of an ended execution that is remembered.
pub const ENDED_STDERR: usize = 4 * 1024;
/// Lines of noise on stdout kept as samples, and bytes of each: later ones are only counted.
pub const NOISE_SAMPLES: usize = 8;
/// See [`NOISE_SAMPLES`].
pub const NOISE_SAMPLE_BYTES: usize = 256;
/// Tool calls of one execution that are remembered to complete thin prompts: the oldest is forgotten.
pub const TOOL_CALLS: usize = 64;
/// Bytes of one remembered tool call: a larger one is not remembered.
pub const TOOL_CALL_BYTES: usize = 256 * 1024;
/// Bytes of an update of a tool call that the witness looks at: a larger one is invisible to it.
pub const TOOL_REPORT_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of what an editor owes its agent (an answer costs 128 and its id): a further request of the agent is answered with an error.
pub const EDITOR_OWES: usize = 16 * 1024 * 1024;
/// Requests of an editor of which the answers are looked at: turns and sessions of further ones are not known.
pub const EDITOR_ASKS: usize = 4 * 1024;
/// Bytes waiting for an editor that doesn't read: its agent's stdout is not read until it does. One frame may be over it.
pub const EDITOR_BACKLOG: usize = 256 * 1024;
/// Bytes of an editor waiting for an agent that doesn't read: the editor is not read until it does. One frame may be over it.
pub const AGENT_BACKLOG: usize = 256 * 1024;
/// The last stderr of an agent that has ended, waiting for an editor that doesn't read: the rest is dropped.
pub const LAST_STDERR_WAIT: Duration = Duration::from_secs(2);
/// After the end of an editor's input: how often it is looked whether the editor is gone altogether.
pub const HANGUP_LOOK: Duration = Duration::from_millis(250);

/// Tool calls of one execution whose prompts and ends are compared: the oldest is forgotten.
pub const WITNESSED_CALLS: usize = 256;
/// Findings of the witness of one execution that are told and kept: later ones are only counted.
pub const FINDINGS: usize = 64;
/// A prompt that nobody has listed or been told of for so long: the witness says so.
pub const UNLISTED: Duration = Duration::from_secs(60);

/// One line on the control socket, without its newline: a longer one is answered -32700.
pub const CONTROL_LINE: usize = 16 * 1024 * 1024;
/// Connections at once: a further one is told `limit_reached` and closed.
pub const CONNECTIONS: usize = 1024;
/// Descriptors that come with the first message of a connection, to `proxy/start`: any other number is refused (-32602).
pub const LENT: usize = 3;
/// Requests of one connection at once: the connection is not read until one is answered.
pub const CONNECTION_REQUESTS: usize = 1024;
/// Bytes of answers waiting for a client: the connection is not read until it reads.
pub const ANSWER_BACKLOG: usize = 16 * 1024 * 1024;
/// Bytes of events waiting for a client: further ones are dropped and counted, `event_gap` tells.
pub const EVENT_BACKLOG: usize = 2 * 1024 * 1024;

/// Calls of one MCP client that are carried out or whose answers it has not read: it is not read until there are fewer.
pub const MCP_CALLS: usize = 16;

/// Bytes of an owner, task or session id: a longer one is refused (-32602).
pub const ID_BYTES: usize = 256;

/// Tokens at once: a further one is refused with `limit_reached`, unless one has expired and can be forgotten.
pub const TOKENS: usize = 1024;
/// How coarsely the last use of a token is known.
pub const TOKEN_USE_GRAIN: Duration = Duration::from_secs(60 * 60);

/// Delay of the first restart; each further one in a row doubles it.
pub const RESTART_FIRST: Duration = Duration::from_millis(500);
/// The longest delay of a restart.
pub const RESTART_MOST: Duration = Duration::from_secs(60);
/// Who ran so long before it ended begins with the first delay again.
pub const RESTART_WELL: Duration = Duration::from_secs(60);
/// Ends of a session's agent within a time since somebody started it: one more parks it.
pub const RESTARTS_SHORT: (usize, Duration) = (5, Duration::from_secs(10 * 60));
/// See [`RESTARTS_SHORT`].
pub const RESTARTS_LONG: (usize, Duration) = (10, Duration::from_secs(24 * 60 * 60));
/// How often the processes of an execution with limits are looked at: one over a limit is ended.
pub const TREE_LOOK: Duration = Duration::from_millis(250);
/// Descriptors of the daemon that starts leave free: one that would not fails with `limit_reached`.
pub const SPARE_DESCRIPTORS: u64 = 64;
/// Old acp sessions that were reset and whose prompts are refused: the oldest is forgotten.
pub const RESET_SESSIONS: usize = 64;

/// Answer to `initialize`, and then to `session/new`: `initialize_timeout`, `session_new_failed`. Set by `--initialize-timeout`.
pub const INITIALIZE_WAIT: Duration = Duration::from_secs(60);
/// Nothing of an answer written: it is taken back, `permission_delivery_failed`.
pub const DELIVERY_WAIT: Duration = Duration::from_secs(10);
/// End of a turn after its cancel: then the execution is `wedged`.
pub const CANCEL_WAIT: Duration = Duration::from_secs(30);
/// After closing stdin of an agent that is stopped: then SIGTERM to its group.
pub const STOP_EOF_WAIT: Duration = Duration::from_millis(1000);
/// After that SIGTERM: then SIGKILL to its whole tree.
pub const STOP_TERM_WAIT: Duration = Duration::from_millis(1500);
/// Leader gone, stdout silent and no prompt live; or stdout closed and the leader there: then the rest is stopped.
pub const DRAIN_WAIT: Duration = Duration::from_secs(30);
