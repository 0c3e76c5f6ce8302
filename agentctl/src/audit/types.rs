//! What goes into the audit and what comes out of it.

use crate::domain::{Actor, ClaimResult, End, SessionKey};
use jiff::Timestamp;
use std::borrow::Cow;
use uuid::Uuid;

/// A prompt, as it was when its frame was read. Only redacted text belongs in here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRow {
    /// Our id of it.
    pub request_id: Uuid,
    /// The run that asked.
    pub execution_id: Uuid,
    /// Its session.
    pub session: SessionKey,
    /// Its task.
    pub task_id: String,
    /// The agent's own session.
    pub acp_session_id: Option<String>,
    /// The agent's id of the prompt, as text.
    pub pending_id: String,
    /// The tool call it names.
    pub tool_call_id: Option<String>,
    /// When its frame was read.
    pub created_at: Timestamp,
    /// The safe title.
    pub title: String,
    /// The safe projection of what is asked, as JSON.
    pub action: String,
    /// The options as they are shown, as JSON.
    pub options: String,
}

/// A run of an agent that has begun.
#[derive(Debug, Clone)]
pub struct ExecutionStarted {
    /// Its id.
    pub execution_id: Uuid,
    /// Its session.
    pub session: SessionKey,
    /// The agent, as a safe text.
    pub agent: String,
    /// The process.
    pub pid: u32,
    /// When.
    pub at: Timestamp,
}

/// How and why a request left the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The way out.
    pub end: End,
    /// Why, in a word or two of ours.
    pub reason: Cow<'static, str>,
}

/// What became of a claim.
#[derive(Debug, Clone)]
pub struct Finish {
    /// The claim.
    pub claim_id: Uuid,
    /// The request that it was for.
    pub request_id: Uuid,
    /// Its result; [`ClaimResult::Dispatching`] is refused.
    pub result: ClaimResult,
    /// The end of the request, if this ends it; an earlier end stays.
    pub ending: Option<Ending>,
    /// When.
    pub at: Timestamp,
}

/// A call that was refused.
#[derive(Debug, Clone)]
pub struct FailedAttempt {
    /// The request it was about. If that was never seen in this session, the attempt is only counted.
    pub request_id: Uuid,
    /// The session it named.
    pub session: SessionKey,
    /// The stable code of the refusal.
    pub code: &'static str,
    /// The pending id it gave; cut to [`ATTEMPT_TEXT_BYTES`](super::ATTEMPT_TEXT_BYTES) when stored.
    pub pending_id: String,
    /// The option id it gave, if any; cut likewise.
    pub option_id: Option<String>,
    /// Who.
    pub actor: Actor,
    /// When.
    pub at: Timestamp,
}

/// What the start found and put right.
#[derive(Debug, Clone, Default)]
pub struct Recovered {
    /// Claims of an earlier daemon whose delivery nobody knows: now `indeterminate`.
    pub indeterminate_claims: u64,
    /// Requests that were open: now `expired`.
    pub expired_requests: u64,
    /// Requests with an accepted claim and no end: now `resolved`.
    pub resolved_requests: u64,
    /// Executions that had no end.
    pub ended_executions: u64,
    /// Every session that was ever recorded, with its task.
    pub sessions: Vec<(SessionKey, String)>,
}

/// A claim as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// The claim.
    pub claim_id: Uuid,
    /// Who, and through which surface.
    pub actor: Actor,
    /// The chosen option.
    pub option_id: String,
    /// Its `kind`, as the JSON that was sent.
    pub option_kind: String,
    /// When it was chosen.
    pub selected_at: Timestamp,
    /// When its result was known.
    pub finalized_at: Option<Timestamp>,
    /// What became of it.
    pub result: ClaimResult,
}

/// What the audit knows about a request that is not live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastRequest {
    /// The agent's id of it.
    pub pending_id: String,
    /// How it ended; `None` if that is not recorded yet.
    pub end: Option<End>,
    /// The one claim that counts: `accepted`, `dispatching` or `indeterminate`.
    pub resolution: Option<Resolution>,
}

/// A recorded refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The stable code.
    pub code: String,
    /// The pending id it gave.
    pub pending_id: String,
    /// The option id it gave.
    pub option_id: Option<String>,
    /// Who.
    pub actor: Actor,
    /// When.
    pub at: Timestamp,
}

/// The refusals of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailedAttempts {
    /// How many there were.
    pub count: u64,
    /// The first ones and the latest, in order.
    pub last: Vec<Attempt>,
}

/// The end of a recorded request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The way out.
    pub end: End,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: Option<String>,
}

/// Everything about one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Our id of it.
    pub request_id: Uuid,
    /// The run that asked.
    pub execution_id: Uuid,
    /// Its session.
    pub session: SessionKey,
    /// Its task.
    pub task_id: String,
    /// The agent's own session.
    pub acp_session_id: Option<String>,
    /// The agent's id of the prompt.
    pub pending_id: String,
    /// The tool call it names.
    pub tool_call_id: Option<String>,
    /// When it was read.
    pub created_at: Timestamp,
    /// The safe title; `None` if the execution had used up its bytes.
    pub title: Option<String>,
    /// The action, as JSON; `None` likewise.
    pub action: Option<String>,
    /// The options, as JSON; `None` likewise.
    pub options: Option<String>,
    /// Its end.
    pub ended: Option<Ended>,
    /// Every claim, oldest first.
    pub resolutions: Vec<Resolution>,
    /// The refusals.
    pub failed_attempts: FailedAttempts,
}

/// The number of records on a page: 1 to 1000, 100 unless told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSize(u32);

impl PageSize {
    /// `None` if `records` is not in 1..=1000.
    pub fn new(records: u64) -> Option<Self> {
        u32::try_from(records).ok().filter(|n| (1..=1000).contains(n)).map(Self)
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Default for PageSize {
    fn default() -> Self {
        Self(100)
    }
}

/// Where the next page begins. Its text is for us only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor(pub(super) i64);

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "r{}", self.0)
    }
}

impl std::str::FromStr for Cursor {
    type Err = BadCursor;
    fn from_str(text: &str) -> Result<Self, BadCursor> {
        text.strip_prefix('r').and_then(|id| id.parse().ok()).filter(|id| *id > 0).map(Self).ok_or(BadCursor)
    }
}

/// A text that is no cursor of ours.
#[derive(Debug, thiserror::Error)]
#[error("not a cursor of this list")]
pub struct BadCursor;

/// Which records.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Whose; always.
    pub owner: String,
    /// Of this task only.
    pub task_id: Option<String>,
    /// Of this session only.
    pub session_id: Option<String>,
    /// This request only.
    pub request_id: Option<Uuid>,
    /// At most so many.
    pub limit: PageSize,
    /// After an earlier page.
    pub cursor: Option<Cursor>,
}

/// Which executions' witnesses.
#[derive(Debug, Clone, Default)]
pub struct WitnessQuery {
    /// Whose; always.
    pub owner: String,
    /// Of this task only.
    pub task_id: Option<String>,
    /// Of this session only.
    pub session_id: Option<String>,
    /// At most so many executions.
    pub limit: PageSize,
    /// After an earlier page.
    pub cursor: Option<WitnessCursor>,
}

/// Where the next page of witnesses begins. Its text is for us only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessCursor {
    pub(super) started_at: String,
    pub(super) execution_id: String,
}

impl std::fmt::Display for WitnessCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}_{}", self.started_at, self.execution_id)
    }
}

impl std::str::FromStr for WitnessCursor {
    type Err = BadCursor;
    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let (started_at, execution_id) = text.split_once('_').ok_or(BadCursor)?;
        let ours = started_at.parse::<Timestamp>().is_ok() && execution_id.parse::<Uuid>().is_ok();
        ours.then(|| Self { started_at: started_at.to_owned(), execution_id: execution_id.to_owned() }).ok_or(BadCursor)
    }
}

/// One page of witnesses, newest execution first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WitnessPage {
    /// The executions.
    pub executions: Vec<Witnessed>,
    /// Where the next page begins, if there is one.
    pub next: Option<WitnessCursor>,
}

/// What the witness of one execution counted and found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witnessed {
    /// The execution.
    pub execution_id: String,
    /// Its task.
    pub task_id: String,
    /// Its session.
    pub session_id: String,
    /// When it was started.
    pub started_at: String,
    /// The counts, as JSON.
    pub counts: String,
    /// The findings, as JSON.
    pub findings: String,
}

/// One page of records, newest first.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The records.
    pub records: Vec<Record>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}
