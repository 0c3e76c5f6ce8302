//! One execution: one run of one agent process, owned by one task.
//!
//! Everybody else holds an [`Execution`] and sends it [`Command`]s; the task does one at a time, so what it
//! owns (table, outbox, turns) needs no lock.

mod asks;
mod claims;
mod editor;
mod inbound;
mod launch;
mod prompts;
mod ready;
mod record;
mod relay;
mod report;
mod request;
mod stop;
mod task;
mod tools;
mod turns;
mod witness;

use std::sync::Arc;

use acp_bridge::presentation::Redactor;
use acp_bridge::process::Tree;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::hub::Hub;
use super::restart::plan::Ended;
use crate::audit::ClaimError;
use crate::domain::{Actor, SessionKey, timestamp_text};
use crate::permission::Unanswered;
use crate::wire::{
    self, AcpSession, AgentDescription, CancelResult, Counters, Event, ExecutionInfo, Exit, Failure, ResolveResult, RestartInfo,
    StartParams, StartResult, State, StderrResult, StopResult, Topic,
};

pub use editor::Editor;
pub use launch::{Client, Launch, launch};
pub use request::Listed;

/// What can be asked of an execution. Dropping the reply does not undo the work.
#[derive(Debug)]
pub enum Command {
    /// Every live request.
    List {
        /// Gets them in no order.
        reply: oneshot::Sender<Vec<Listed>>,
    },
    /// Answer a request with one of its options.
    Resolve {
        /// Which, and with what.
        choice: Choice,
        /// By whom.
        actor: Actor,
        /// Gets the outcome once it is durable.
        reply: oneshot::Sender<Result<ResolveResult, ResolveError>>,
    },
    /// Cancel one pending request.
    CancelRequest {
        /// Which.
        request_id: Uuid,
        /// The agent's id of it.
        pending_id: String,
        /// Gets the outcome.
        reply: oneshot::Sender<Result<(), Unanswered>>,
    },
    /// The audit has written a claim, or has not.
    ClaimDone {
        /// The claim.
        claim_id: Uuid,
        /// Whether it is durable.
        result: Result<(), ClaimError>,
    },
    /// Start a turn.
    Prompt {
        /// One of the agent's sessions; `None` for the first one.
        acp_session_id: Option<String>,
        /// ACP content blocks.
        prompt: Box<RawValue>,
        /// Gets the stop reason when the turn ends.
        reply: oneshot::Sender<Result<String, Failure>>,
    },
    /// Cancel a turn.
    CancelTurn {
        /// One of the agent's sessions; `None` for the first one.
        acp_session_id: Option<String>,
        /// Gets what was cancelled.
        reply: oneshot::Sender<Result<CancelResult, Failure>>,
    },
    /// A new acp session in the same process.
    Reset {
        /// The one that is given up; `None` for the one that prompts go to.
        acp_session_id: Option<String>,
        /// Gets its id.
        reply: oneshot::Sender<Result<String, Failure>>,
    },
    /// End the agent with its whole tree.
    Stop {
        /// Why, for the audit.
        reason: &'static str,
        /// Whether that is a failure of the agent, after which it may be started again.
        failed: bool,
        /// Gets what it took.
        reply: oneshot::Sender<StopResult>,
    },
    /// End it at once.
    Abandon {
        /// Why.
        reason: &'static str,
    },
    /// Recent stderr.
    Stderr {
        /// At most this many bytes, from the end.
        max_bytes: usize,
        /// Gets it.
        reply: oneshot::Sender<StderrResult>,
    },
}

/// Which request is to be answered with which option.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Our id of it.
    pub request_id: Uuid,
    /// The agent's id of it.
    pub pending_id: String,
    /// The option, exactly.
    pub option_id: String,
}

/// Why a request was not answered.
#[derive(Debug)]
pub enum ResolveError {
    /// The table says no.
    Unanswered(Unanswered),
    /// With its stable code.
    Failed(Failure),
}

/// An execution as everybody else sees it.
#[derive(Debug)]
pub struct Execution {
    /// Its id.
    pub id: Uuid,
    /// Its session.
    pub key: SessionKey,
    /// Its task.
    pub task_id: String,
    /// The how-manieth of its session.
    pub generation: u64,
    /// The command line, redacted.
    pub command: String,
    /// Its working directory.
    pub cwd: String,
    /// The same, redacted.
    pub shown_cwd: String,
    /// When it was started.
    pub started_at: Timestamp,
    /// Whether an editor has its turns.
    pub proxied: bool,
    /// Its processes.
    tree: Tree,
    redactor: Mutex<Redactor>,
    /// What it was started with; `None` if it can't be started again.
    pub recipe: Option<Arc<StartParams>>,
    /// Nobody wants its restart any more.
    pub no_restart: CancellationToken,
    commands: mpsc::UnboundedSender<Command>,
    status: Mutex<Status>,
    /// Cancelled when it has ended and nothing of it will change any more.
    pub ended: CancellationToken,
}

/// What changes of an execution.
#[derive(Debug, Clone)]
struct Status {
    state: State,
    pid: Option<i32>,
    agent: AgentDescription,
    acp_session_id: Option<String>,
    acp_session: AcpSession,
    restart: Option<RestartInfo>,
    /// It was ended because somebody wanted that.
    asked: bool,
    ended_at: Option<Timestamp>,
    exit: Option<Exit>,
    reason: Option<String>,
    pending: usize,
    counters: Counters,
    witness: wire::Witness,
    stop: Option<StopResult>,
    /// The end of its stderr, once it has ended.
    stderr: Option<StderrResult>,
}

/// The outcome of a start.
pub type Started = Result<StartResult, Failure>;

impl Execution {
    /// Sends a command; false if the execution has ended.
    pub fn send(&self, command: Command) -> bool {
        self.commands.send(command).is_ok()
    }

    /// What it looks like now.
    pub fn info(&self) -> ExecutionInfo {
        let status = self.status.lock().clone();
        ExecutionInfo {
            execution_id: self.id.to_string(),
            task_id: self.task_id.clone(),
            session_id: self.key.session_id.clone(),
            state: status.state,
            pid: status.pid,
            generation: self.generation,
            command: self.command.clone(),
            cwd: self.shown_cwd.clone(),
            proxied: self.proxied,
            agent: status.agent,
            acp_session_id: status.acp_session_id,
            acp_session: status.acp_session,
            restart: status.restart,
            started_at: timestamp_text(self.started_at),
            ended_at: status.ended_at.map(timestamp_text),
            exit: status.exit,
            reason: status.reason,
            pending: status.pending,
            processes: None,
            counters: status.counters,
            witness: status.witness,
        }
    }

    /// Its processes now, each followed by its children; none once it has ended. Reads `/proc`: not for the reactor's thread.
    pub fn processes(&self) -> Vec<wire::TreeProcess> {
        let redactor = self.redactor.lock().clone();
        let shown = |process: acp_bridge::process::TreeProcess| wire::TreeProcess {
            pid: process.pid.as_raw(),
            parent: process.parent.as_raw(),
            resident_bytes: process.resident,
            command: redactor.text(&process.command_line).text,
        };
        self.tree.processes().into_iter().map(shown).collect()
    }

    /// What its stop did, once it has ended.
    pub fn stop_result(&self) -> Option<StopResult> {
        self.status.lock().stop.clone()
    }

    /// The end of its stderr, once it has ended.
    pub fn last_stderr(&self) -> Option<StderrResult> {
        self.status.lock().stderr.clone()
    }

    /// How it has ended.
    pub fn how_it_ended(&self) -> Ended {
        let status = self.status.lock();
        match status.exit {
            _ if status.asked => Ended::Asked,
            // One that we had to end although nobody wanted that did not end cleanly.
            Some(Exit::Code(0)) if status.stop.as_ref().is_some_and(|stop| stop.by == "exit") => Ended::Cleanly,
            _ => Ended::Failed,
        }
    }

    /// Whether it waits for its restart.
    pub fn is_to_restart(&self) -> bool {
        self.status.lock().restart.as_ref().is_some_and(|restart| restart.next_at.is_some())
    }

    /// Its own session.
    pub fn acp_session_id(&self) -> Option<String> {
        self.status.lock().acp_session_id.clone()
    }

    /// What is known of its restarts has changed.
    pub fn set_restart(&self, hub: &Hub, restart: RestartInfo) {
        let next_at = restart.next_at.clone();
        self.status.lock().restart = Some(restart);
        if next_at.is_some() {
            self.tell(hub, Topic::Execution, Event { event_type: "restart".into(), next_at, ..Event::default() });
        }
    }

    /// It is not started again by itself.
    pub fn park(&self, hub: &Hub, reason: String) {
        {
            let mut status = self.status.lock();
            status.state = State::Parked;
            status.reason = Some(reason.clone());
        }
        tracing::warn!(execution_id = %self.id, "parked: {reason}");
        self.tell(
            hub,
            Topic::Execution,
            Event { event_type: "state".into(), state: Some(State::Parked), reason: Some(reason), ..Event::default() },
        );
    }

    /// Ends it for going over a limit, which is its own failure.
    pub fn end_for(&self, reason: &'static str) {
        let (reply, _) = oneshot::channel();
        self.send(Command::Stop { reason, failed: true, reply });
    }

    /// Stops it, or waits for its end; `None` if its task failed.
    pub async fn stop(self: &Arc<Self>, reason: &'static str) -> Option<StopResult> {
        let (reply, answer) = oneshot::channel();
        self.no_restart.cancel();
        if self.send(Command::Stop { reason, failed: false, reply })
            && let Ok(result) = answer.await
        {
            return Some(result);
        }
        self.ended.cancelled().await;
        self.stop_result()
    }
}
