//! From a spawned process to the task that owns it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use acp_bridge::frame::LineReader;
use acp_bridge::outbox::Outbox;
use acp_bridge::presentation::Redactor;
use acp_bridge::process::{Leader, Spawned};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::asks::Asks;
use super::claims::Claims;
use super::editor::Editor;
use super::report::Stderr;
use super::stop::Stop;
use super::task::{Idle, Task};
use super::tools::ToolCalls;
use super::witness::Observed;
use super::{Execution, Started, Status};
use crate::daemon::hub::Hub;
use crate::domain::SessionKey;
use crate::limits;
use crate::permission::Table;
use crate::wire::{AcpSession, AgentDescription, Counters, StartParams, State, Witness};

/// What is known when an agent's process has been spawned.
pub struct Launch {
    /// Its execution's id.
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
    /// When it was started.
    pub started_at: Timestamp,
    /// What it is started with.
    pub recipe: Arc<StartParams>,
    /// Knows its environment's secrets.
    pub redactor: Redactor,
    /// Its process.
    pub process: Spawned,
    /// Who initializes it and opens its sessions.
    pub client: Client,
}

/// Who speaks to an agent.
#[derive(Debug)]
pub enum Client {
    /// We do. Gets the outcome of `initialize` and `session/new`; when that is a failure, the agent's tree has ended. The acp
    /// session, if any, is to go on.
    Us(oneshot::Sender<Started>, Option<String>),
    /// An editor does.
    Editor(Box<Editor>),
}

/// Starts the task of a spawned agent.
///
/// # Errors
/// Its pipes can't be waited for; the process is being ended.
pub fn launch(hub: &Arc<Hub>, launch: Launch) -> io::Result<Arc<Execution>> {
    let Launch { id, key, task_id, generation, command, cwd, started_at, recipe, redactor, process, client } = launch;
    let (ready, acp_session, editor) = match client {
        Client::Us(ready, acp_session) => (Some(ready), acp_session, None),
        Client::Editor(editor) => (None, None, Some(editor)),
    };
    let (commands, queue) = mpsc::unbounded_channel();
    let execution = Arc::new(Execution {
        id,
        key,
        task_id,
        generation,
        command,
        shown_cwd: redactor.text(&cwd).text,
        cwd,
        started_at,
        proxied: editor.is_some(),
        recipe: editor.is_none().then(|| recipe.clone()),
        no_restart: CancellationToken::new(),
        tree: process.leader.tree,
        redactor: Mutex::new(redactor.clone()),
        commands,
        status: Mutex::new(Status {
            state: State::Starting,
            pid: Some(process.leader.pid.as_raw()),
            agent: AgentDescription::default(),
            acp_session_id: None,
            acp_session: AcpSession::New,
            restart: None,
            asked: false,
            ended_at: None,
            exit: None,
            reason: None,
            pending: 0,
            counters: Counters::default(),
            witness: Witness::default(),
            stop: None,
            stderr: None,
        }),
        ended: CancellationToken::new(),
    });
    // On an error the leader is dropped, which ends it.
    let stdin = pipe::Sender::from_owned_fd(process.stdin)?;
    let stdout = pipe::Receiver::from_owned_fd(process.stdout)?;
    let stderr = pipe::Receiver::from_owned_fd(process.stderr)?;
    let leader = process.leader;
    // In a box: what moves into a future is otherwise kept there twice.
    let task = Box::new(Task {
        hub: hub.clone(),
        exec: execution.clone(),
        commands: queue,
        stdin: Some(stdin),
        stdout: Some(stdout),
        stderr: Some(stderr),
        leader_exit: Some(leader.watch()),
        leader: leader.clone(),
        reader: LineReader::new(hub.settings.frame_cap),
        outbox: Outbox::default(),
        table: Table::new(limits::LIVE_PROMPTS),
        claims: Claims::default(),
        asks: Asks::of_session(acp_session),
        idle: recipe.idle_stop_s.map(Idle::after),
        turns: HashMap::new(),
        tools: ToolCalls::default(),
        witness: Observed::default(),
        redactor,
        err: Stderr::default(),
        noise: String::new(),
        editor,
        ready,
        stop: Stop::default(),
        in_a_row: 0,
    });
    let (hub, exec) = (hub.clone(), execution.clone());
    let running = tokio::spawn(task.run());
    tokio::spawn(supervise(running, hub, exec, leader));
    Ok(execution)
}

/// Waits for a task; a panic in it ends this execution with a clear state, and nothing else.
async fn supervise(task: JoinHandle<()>, hub: Arc<Hub>, exec: Arc<Execution>, leader: Leader) {
    if task.await.is_err() {
        tracing::error!(execution_id = %exec.id, "the task of an execution panicked; its agent is ended");
        let tree = leader.end().await;
        super::stop::record_end(&hub, &exec, "internal error", tree, "sigkill", &exec.redactor.lock().clone());
        hub.execution_ended(&exec);
    }
    exec.ended.cancel();
}
