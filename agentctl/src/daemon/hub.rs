//! Tasks, sessions and executions, and who may see them. Everything that changes or shows them goes through here.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use acp_bridge::process::Guard;
use dashmap::DashMap;
use jiff::Timestamp;
use nix::sys::resource::{Resource, getrlimit};
use parking_lot::Mutex;
use uuid::Uuid;

use super::bus::Bus;
use super::execution::Execution;
use super::token::Tokens;
use crate::audit::Audit;
use crate::code::Code;
use crate::domain::SessionKey;
use crate::limits::{ID_BYTES, KEPT_EXECUTIONS, SPARE_DESCRIPTORS};
use crate::wire::Failure;

/// What can be set when the daemon is started.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Live executions at once.
    pub max_executions: usize,
    /// Time for an agent's answer to `initialize`, and then to `session/new`.
    pub initialize_wait: Duration,
    /// Bytes of one frame of an agent.
    pub frame_cap: usize,
}

/// The daemon's shared state.
#[derive(Debug)]
pub struct Hub {
    /// What was set.
    pub settings: Settings,
    /// The durable record.
    pub audit: Audit,
    /// Personal access tokens.
    pub tokens: Arc<Tokens>,
    /// Events.
    pub bus: Bus,
    /// Starts agents, and ends them when this process can't.
    guard: Mutex<Arc<Guard>>,
    /// The daemon's environment without what agents never see.
    pub environment: BTreeMap<String, String>,
    /// The daemon's user.
    pub user_id: String,
    /// When it started.
    pub started_at: Timestamp,
    /// Open connections.
    pub connections: AtomicUsize,
    /// Calls that are being carried out.
    pub calls: AtomicUsize,
    /// Connections that were refused because they came from inside an agent.
    pub refused_visitors: AtomicU64,
    /// Asked to end: nothing new is started.
    pub shutdown: tokio_util::sync::CancellationToken,
    sessions: DashMap<SessionKey, Session>,
    executions: DashMap<Uuid, Arc<Execution>>,
    ended: Mutex<VecDeque<Uuid>>,
    live: AtomicUsize,
}

/// A session, which belongs to one task for ever.
#[derive(Debug, Clone)]
struct Session {
    task_id: String,
    live: Option<Uuid>,
    generation: u64,
}

/// A session's place for a live execution; given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    hub: Arc<Hub>,
    key: SessionKey,
    /// The execution for which it is.
    pub execution_id: Uuid,
    /// The how-manieth of its session.
    pub generation: u64,
    /// Whether the session begins with this execution.
    new_session: bool,
    kept: bool,
}

/// What keeps a session from a new execution.
#[derive(Debug)]
pub enum Unavailable {
    /// For the caller.
    Failure(Failure),
    /// It has a live execution.
    Busy(Option<Arc<Execution>>),
}

/// Parts of a [`Hub`] that are made before it.
#[derive(Debug)]
pub struct Parts {
    /// See [`Hub::settings`].
    pub settings: Settings,
    /// See [`Hub::audit`].
    pub audit: Audit,
    /// See [`Hub::tokens`].
    pub tokens: Tokens,
    /// See [`Hub::guard`].
    pub guard: Guard,
    /// See [`Hub::environment`].
    pub environment: BTreeMap<String, String>,
    /// See [`Hub::user_id`].
    pub user_id: String,
    /// Sessions of earlier daemons, with their tasks.
    pub sessions: Vec<(SessionKey, String)>,
}

impl Hub {
    /// A hub with no execution.
    pub fn new(parts: Parts) -> Arc<Self> {
        let sessions = parts.sessions.into_iter().map(|(key, task_id)| (key, Session { task_id, live: None, generation: 0 })).collect();
        Arc::new(Self {
            settings: parts.settings,
            audit: parts.audit,
            tokens: Arc::new(parts.tokens),
            bus: Bus::default(),
            guard: Mutex::new(Arc::new(parts.guard)),
            environment: parts.environment,
            user_id: parts.user_id,
            started_at: Timestamp::now(),
            connections: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            refused_visitors: AtomicU64::new(0),
            shutdown: tokio_util::sync::CancellationToken::new(),
            sessions,
            executions: DashMap::new(),
            ended: Mutex::default(),
            live: AtomicUsize::new(0),
        })
    }

    /// What starts agents.
    pub fn guard(&self) -> Arc<Guard> {
        self.guard.lock().clone()
    }

    /// The guard is gone; agents are started by another one.
    pub fn replace_guard(&self, guard: Guard) {
        *self.guard.lock() = Arc::new(guard);
    }

    /// Step 1: the session, if it belongs to that owner and task. Foreign ids look like unknown ones.
    ///
    /// # Errors
    /// `task_or_session_not_found`.
    pub fn authorise(&self, owner: &str, task_id: &str, session_id: &str) -> Result<SessionKey, Failure> {
        self.authorise_scope(owner, Some(task_id), Some(session_id))?;
        Ok(SessionKey { owner: owner.to_owned(), session_id: session_id.to_owned() })
    }

    /// Checks that what a caller names is its own; `None` names everything of it.
    ///
    /// # Errors
    /// `task_or_session_not_found`.
    pub fn authorise_scope(&self, owner: &str, task_id: Option<&str>, session_id: Option<&str>) -> Result<(), Failure> {
        let mut found = true;
        if let Some(session_id) = session_id {
            let key = SessionKey { owner: owner.to_owned(), session_id: session_id.to_owned() };
            found &= self.sessions.get(&key).is_some_and(|session| task_id.is_none_or(|task| session.task_id == task));
        } else if let Some(task_id) = task_id {
            found &= self.sessions.iter().any(|entry| entry.key().owner == owner && entry.value().task_id == task_id);
        }
        if found { Ok(()) } else { Err(Code::TaskOrSessionNotFound.into()) }
    }

    /// The session of that name, if it belongs to that owner.
    ///
    /// # Errors
    /// `task_or_session_not_found`.
    pub fn session_of(&self, owner: &str, session_id: &str) -> Result<SessionKey, Failure> {
        self.authorise_scope(owner, None, Some(session_id))?;
        Ok(SessionKey { owner: owner.to_owned(), session_id: session_id.to_owned() })
    }

    /// The live execution of a session. Nothing is started for it.
    pub fn live(&self, key: &SessionKey) -> Option<Arc<Execution>> {
        let id = self.sessions.get(key)?.live?;
        self.execution(id)
    }

    /// An execution, live or remembered.
    pub fn execution(&self, id: Uuid) -> Option<Arc<Execution>> {
        self.executions.get(&id).map(|entry| entry.value().clone())
    }

    /// The executions of an owner, oldest first.
    pub fn executions(&self, owner: &str, task_id: Option<&str>, session_id: Option<&str>) -> Vec<Arc<Execution>> {
        let mut found: Vec<Arc<Execution>> = self
            .executions
            .iter()
            .map(|entry| entry.value().clone())
            .filter(|e| e.key.owner == owner && task_id.is_none_or(|t| t == e.task_id) && session_id.is_none_or(|s| s == e.key.session_id))
            .collect();
        found.sort_by_key(|e| (e.started_at, e.id));
        found
    }

    /// Every live execution.
    pub fn all_live(&self) -> Vec<Arc<Execution>> {
        self.executions.iter().map(|entry| entry.value().clone()).filter(|e| !e.ended.is_cancelled()).collect()
    }

    /// How many executions live or are being started.
    pub fn live_count(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Takes a session's place for a new execution, and makes the session if there is none.
    ///
    /// # Errors
    /// See [`Unavailable`].
    pub fn reserve(self: &Arc<Self>, key: &SessionKey, task_id: &str) -> Result<Reservation, Unavailable> {
        if self.shutdown.is_cancelled() {
            return Err(Unavailable::Failure(Code::ShuttingDown.into()));
        }
        let execution_id = Uuid::new_v4();
        let new_session = !self.sessions.contains_key(key);
        let mut session =
            self.sessions.entry(key.clone()).or_insert_with(|| Session { task_id: task_id.to_owned(), live: None, generation: 0 });
        if session.task_id != task_id {
            return Err(Unavailable::Failure(Code::TaskOrSessionNotFound.into()));
        }
        if let Some(live) = session.live {
            drop(session);
            return Err(Unavailable::Busy(self.execution(live)));
        }
        let live = self.live.fetch_add(1, Ordering::Relaxed);
        let full = if live >= self.settings.max_executions {
            Some(format!("{live} executions live; --max-executions allows no more."))
        } else {
            self.out_of_descriptors(live)
        };
        if let Some(text) = full {
            self.live.fetch_sub(1, Ordering::Relaxed);
            drop(session);
            if new_session {
                self.sessions.remove(key);
            }
            return Err(Unavailable::Failure(Failure::because(Code::LimitReached, text)));
        }
        session.live = Some(execution_id);
        session.generation += 1;
        let generation = session.generation;
        drop(session);
        Ok(Reservation { hub: self.clone(), key: key.clone(), execution_id, generation, new_session, kept: false })
    }

    /// Why there are not enough descriptors for one more execution: what runs must not be hurt by a start.
    fn out_of_descriptors(&self, live: usize) -> Option<String> {
        // Pipes, the keeper's line, and an editor's three; a connection and its client's pidfd.
        const OF_EXECUTION: usize = 7;
        const OF_CONNECTION: usize = 2;
        let (most, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
        let wanted = (live + 1) * OF_EXECUTION + self.connections.load(Ordering::Relaxed) * OF_CONNECTION;
        (wanted as u64 + SPARE_DESCRIPTORS > most)
            .then(|| format!("{live} executions live; the limit of {most} descriptors allows no more (`ulimit -n` of the daemon)."))
    }

    /// An execution has ended: its session is free.
    pub fn execution_ended(&self, exec: &Execution) {
        if !self.release(&exec.key, exec.id) {
            return;
        }
        let mut ended = self.ended.lock();
        ended.push_back(exec.id);
        if ended.len() > KEPT_EXECUTIONS
            && let Some(oldest) = ended.pop_front()
        {
            self.executions.remove(&oldest);
        }
    }

    /// Nothing new is started from now on; returns what lives.
    pub fn begin_shutdown(&self) -> Vec<Arc<Execution>> {
        self.shutdown.cancel();
        self.all_live()
    }

    fn release(&self, key: &SessionKey, execution_id: Uuid) -> bool {
        let Some(mut session) = self.sessions.get_mut(key) else { return false };
        let held = session.live == Some(execution_id);
        if held {
            session.live = None;
            drop(session);
            self.live.fetch_sub(1, Ordering::Relaxed);
        }
        held
    }
}

impl Reservation {
    /// The execution is there: it holds the place until it ends.
    pub fn keep(mut self, execution: &Arc<Execution>) {
        self.hub.executions.insert(execution.id, execution.clone());
        self.kept = true;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.kept && self.hub.release(&self.key, self.execution_id) && self.new_session {
            // Nothing ran in it: the name is free again, for any task.
            self.hub.sessions.remove_if(&self.key, |_, session| session.live.is_none());
        }
    }
}

/// Checks an owner, task or session id that a caller chose.
///
/// # Errors
/// -32602 naming it.
pub fn check_id(name: &str, id: &str) -> Result<(), Failure> {
    if id.is_empty() || id.len() > ID_BYTES || id.chars().any(char::is_control) {
        return Err(Failure::params(format!("{name} must be 1 to {ID_BYTES} bytes of text without control characters")));
    }
    Ok(())
}

/// The daemon's environment as agents may see it: without the socket's path, our own variables, `NOTIFY_SOCKET` and `LISTEN_*`.
pub fn agent_environment(vars: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    vars.filter(|(name, _)| !is_ours(name)).collect()
}

/// Whether a variable is never shown to agents.
pub fn is_ours(name: &str) -> bool {
    name.starts_with("AGENTCTL_") || name.starts_with("LISTEN_") || name == "NOTIFY_SOCKET"
}
