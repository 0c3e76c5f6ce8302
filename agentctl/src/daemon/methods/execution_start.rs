//! `execution/start`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use acp_bridge::presentation::{MARKER, Redactor};
use acp_bridge::process::{Inherited, SpawnError, Spec};
use jiff::Timestamp;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::Method;
use crate::audit::ExecutionStarted;
use crate::code::Code;
use crate::daemon::bus::{Subscriber, Topics};
use crate::daemon::execution::{Client, Execution, Launch, launch};
use crate::daemon::hub::{Hub, Reservation, Unavailable, check_id, is_ours};
use crate::daemon::restart;
use crate::daemon::server::Connection;
use crate::daemon::visitor::MARK;
use crate::domain::SessionKey;
use crate::limits::TREE_LOOK;
use crate::wire::{Access, Failure, StartParams, StartResult, Topic};

pub(super) struct Start;

impl Method for Start {
    const NAME: &'static str = "execution/start";
    const ACCESS: Access = Access::Operator;
    const ABOUT: &'static str = "Starts an agent for a session, initializes it and opens an ACP session; answers when it is ready.";
    type Params = StartParams;
    type Result = StartResult;

    async fn call(connection: &Arc<Connection>, params: StartParams) -> Result<StartResult, Failure> {
        let hub = &connection.hub;
        check(&params)?;
        let owner = super::owner(connection, params.owner.clone())?;
        let session_id = params.session_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
        let key = SessionKey { owner, session_id };
        let reservation = reserve(hub, &key, &params).await?;
        // Who starts a session anew does not want what waits to be started again.
        hub.executions(&key.owner, None, Some(&key.session_id)).iter().for_each(|earlier| earlier.no_restart.cancel());
        if params.record {
            if key.owner != connection.actor().user_id {
                return Err(Failure::params("record: what an agent of another owner says is not the caller's"));
            }
            subscribe(connection, &key, [Topic::Frame, Topic::Execution].into_iter().collect());
        }
        let (ready, answer) = oneshot::channel();
        let bind = params.bind;
        // A restart replaces nobody.
        let recipe = StartParams { replace: false, ..params };
        let execution = start(hub, reservation, key, Arc::new(recipe), Client::Us(ready, None), None).await?;
        if bind {
            bind_to(connection, &execution).await;
        }
        let started = answer.await.unwrap_or_else(|_| Err(Code::AgentExited.into()))?;
        restart::keep(hub.clone(), execution);
        Ok(started)
    }
}

/// Subscribes the connection to what happens in a session.
pub(super) fn subscribe(connection: &Connection, key: &SessionKey, topics: Topics) {
    connection.hub.bus.subscribe(Subscriber {
        peer: connection.peer.clone(),
        connection: connection.id,
        owner: key.owner.clone(),
        grant: None,
        topics,
        task_id: None,
        session_id: Some(key.session_id.clone()),
    });
}

pub(super) fn check(params: &StartParams) -> Result<(), Failure> {
    check_id("task_id", &params.task_id)?;
    if let Some(session_id) = &params.session_id {
        check_id("session_id", session_id)?;
    }
    let texts = std::iter::once(&params.command).chain(&params.args).chain(std::iter::once(&params.cwd)).chain(params.env.values());
    if texts.into_iter().any(|text| text.contains('\0')) {
        return Err(Failure::params("command, args, cwd and env can't hold NUL characters"));
    }
    if params.bind && !params.restart.is_never() {
        return Err(Failure::params("restart: what is bound to a connection is not started again"));
    }
    if let Some(name) = params.env.keys().chain(&params.strip_env).find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        return Err(Failure::params(format!("{name:?} is no name of an environment variable")));
    }
    Ok(())
}

/// Takes the session's place, ending what has it if the caller wants that.
pub async fn reserve(hub: &Arc<Hub>, key: &SessionKey, params: &StartParams) -> Result<Reservation, Failure> {
    loop {
        match hub.reserve(key, &params.task_id) {
            Ok(reservation) => return Ok(reservation),
            Err(Unavailable::Failure(failure)) => return Err(failure),
            Err(Unavailable::Busy(Some(live))) if params.replace => {
                live.stop("replaced").await;
                live.ended.cancelled().await;
            }
            Err(Unavailable::Busy(Some(_))) => return Err(Failure::because(Code::SessionBusy, "The session has a live execution.")),
            Err(Unavailable::Busy(None)) => {
                return Err(Failure::because(Code::SessionBusy, "An execution of the session is being started."));
            }
        }
    }
}

/// Spawns an agent and hands it to its execution's task.
pub async fn start(
    hub: &Arc<Hub>,
    reservation: Reservation,
    key: SessionKey,
    params: Arc<StartParams>,
    client: Client,
    inherited: Option<Inherited>,
) -> Result<Arc<Execution>, Failure> {
    let id = reservation.execution_id;
    let env = environment(hub, &params, id);
    let redactor = Redactor::new(env.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let command = redactor.command(&shown_command(&params)).map_or_else(|| MARKER.to_owned(), |shown| shown.text);
    let started_at = Timestamp::now();
    let spec = Spec { command: params.command.clone(), args: params.args.clone(), env, cwd: PathBuf::from(&params.cwd), inherited };
    let process = hub.guard().spawn(spec).await.map_err(|error| spawn_failure(&error, &redactor))?;
    hub.audit.session(key.clone(), params.task_id.clone(), started_at);
    hub.audit.execution_started(ExecutionStarted {
        execution_id: id,
        session: key.clone(),
        agent: command.clone(),
        pid: process.leader.pid.as_raw().cast_unsigned(),
        at: started_at,
    });
    let about = Launch {
        id,
        key,
        task_id: params.task_id.clone(),
        generation: reservation.generation,
        command,
        cwd: params.cwd.clone(),
        started_at,
        recipe: params.clone(),
        redactor,
        process,
        client,
    };
    let execution = launch(hub, about).map_err(|error| Failure::because(Code::Internal, format!("The agent can't be watched: {error}")))?;
    reservation.keep(&execution);
    if params.max_memory_bytes.is_some() || params.max_processes.is_some() {
        tokio::spawn(watch(execution.clone(), params));
    }
    Ok(execution)
}

/// Ends an execution with the connection of who started it.
pub(super) async fn bind_to(connection: &Connection, execution: &Arc<Execution>) {
    if !connection.bind(execution.id) {
        execution.stop("its starter's connection closed").await;
    }
}

/// Ends an execution that goes over its limits.
async fn watch(execution: Arc<Execution>, params: Arc<StartParams>) {
    loop {
        tokio::select! {
            () = execution.ended.cancelled() => return,
            () = tokio::time::sleep(TREE_LOOK) => {}
        }
        let looked = execution.clone();
        let processes = tokio::task::spawn_blocking(move || looked.processes()).await.unwrap_or_default();
        let resident: u64 = processes.iter().map(|process| process.resident_bytes).sum();
        if params.max_memory_bytes.is_some_and(|most| resident > most) {
            tracing::warn!(execution_id = %execution.id, resident, "over its limit of memory; it is ended");
            return execution.end_for("over its limit of memory");
        }
        if params.max_processes.is_some_and(|most| processes.len() as u64 > most) {
            tracing::warn!(execution_id = %execution.id, processes = processes.len(), "over its limit of processes; it is ended");
            return execution.end_for("over its limit of processes");
        }
    }
}

/// The agent's whole environment.
fn environment(hub: &Hub, params: &StartParams, id: Uuid) -> BTreeMap<String, String> {
    let mut env = if params.clear_env { BTreeMap::new() } else { hub.environment.clone() };
    env.extend(params.env.iter().filter(|(name, _)| !is_ours(name)).map(|(name, value)| (name.clone(), value.clone())));
    for name in &params.strip_env {
        env.remove(name);
    }
    env.insert(MARK.into(), id.to_string());
    env
}

fn shown_command(params: &StartParams) -> String {
    shell_words::join(std::iter::once(&params.command).chain(&params.args))
}

fn spawn_failure(error: &SpawnError, redactor: &Redactor) -> Failure {
    let code = match error {
        SpawnError::CommandNotFound(_) => Code::CommandNotFound,
        SpawnError::CommandNotExecutable(..) => Code::CommandNotExecutable,
        SpawnError::CwdNotFound(_) => Code::CwdNotFound,
        SpawnError::System(_) => Code::Internal,
    };
    let mut text = redactor.text(&error.to_string()).text;
    if let Some(first) = text.get(..1) {
        let first = first.to_ascii_uppercase();
        text.replace_range(..1, &first);
    }
    Failure::because(code, format!("{text}."))
}
