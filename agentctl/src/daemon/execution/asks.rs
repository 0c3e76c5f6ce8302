//! What we ask of the agent, and the start of an execution.

use std::collections::HashMap;
use std::path::Path;

use acp_bridge::id::RpcId;
use acp_bridge::message::{self, AgentInfo, RpcError};
use acp_bridge::prompt::MAX_ID_BYTES;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::task::Task;
use crate::code::Code;
use crate::wire::{AcpSession, AgentDescription, AgentError, AuthMethod, Event, Failure, StartResult, State, Topic};

/// Our requests that the agent has not answered yet. Our ids are a space of their own, from 0.
#[derive(Debug, Default)]
pub(super) struct Asks {
    next: u64,
    open: HashMap<u64, Ask>,
    deadline: Option<Instant>,
    auth_methods: Vec<AuthMethod>,
    /// The acp session that goes on, if the agent can do that.
    earlier: Option<String>,
    /// The agent serves `session/load`.
    loads: bool,
    reset: Option<Reset>,
}

/// A new acp session has been asked for.
#[derive(Debug)]
struct Reset {
    given_up: String,
    deadline: Instant,
    reply: oneshot::Sender<Result<String, Failure>>,
}

#[derive(Debug)]
enum Ask {
    Initialize,
    Session(AcpSession),
    Reset,
    Prompt { acp_session_id: String },
}

impl Asks {
    /// With an acp session that is to go on.
    pub(super) fn of_session(earlier: Option<String>) -> Self {
        Self { earlier, ..Self::default() }
    }

    fn open(&mut self, ask: Ask) -> RpcId {
        let id = self.next;
        self.next += 1;
        self.open.insert(id, ask);
        RpcId::from_u64(id)
    }

    /// The id of a `session/prompt`.
    pub(super) fn prompt(&mut self, acp_session_id: &str) -> RpcId {
        self.open(Ask::Prompt { acp_session_id: acp_session_id.to_owned() })
    }

    /// When the agent's answer to the start is overdue.
    pub(super) fn deadline(&self) -> Option<Instant> {
        [self.deadline, self.reset.as_ref().map(|reset| reset.deadline)].into_iter().flatten().min()
    }
}

impl Task {
    /// The first thing that an agent hears.
    pub(super) fn initialize(&mut self) {
        let id = self.asks.open(Ask::Initialize);
        self.asks.deadline = Some(Instant::now() + self.hub.settings.initialize_wait);
        self.outbox.push_bulk(message::initialize(&id, "agentctl", env!("CARGO_PKG_VERSION")));
        self.flush();
    }

    /// The agent answered one of our requests, or something that we never asked.
    pub(super) fn answered(&mut self, id: &RpcId, outcome: Result<&RawValue, &RawValue>) {
        match id.as_u64().and_then(|id| self.asks.open.remove(&id)) {
            None => self.count(|c| c.unmatched += 1),
            Some(Ask::Initialize) => self.initialized(outcome),
            Some(Ask::Session(how)) => self.session_opened(how, outcome),
            Some(Ask::Reset) => self.session_reset(outcome),
            Some(Ask::Prompt { acp_session_id }) => self.turn_answered(&acp_session_id, outcome),
        }
    }

    pub(super) fn ask_timers(&mut self, now: Instant) {
        if let Some(reset) = self.asks.reset.take_if(|reset| reset.deadline <= now) {
            self.asks.open.retain(|_, ask| !matches!(ask, Ask::Reset));
            let _ = reset.reply.send(Err(Failure::because(Code::SessionNewFailed, "The agent did not answer `session/new` in time.")));
        }
        if self.asks.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        self.asks.deadline = None;
        let seconds = self.hub.settings.initialize_wait.as_secs();
        self.fail_start(if self.asks.open.values().any(|ask| matches!(ask, Ask::Initialize)) {
            Failure::because(Code::InitializeTimeout, format!("The agent did not answer `initialize` within {seconds} s."))
        } else {
            Failure::because(Code::SessionNewFailed, format!("The agent did not answer `session/new` within {seconds} s."))
        });
    }

    fn initialized(&mut self, outcome: Result<&RawValue, &RawValue>) {
        self.asks.deadline = None;
        if self.stop.is_begun() {
            return;
        }
        let info = match outcome {
            Ok(result) => AgentInfo::read(result),
            Err(error) => return self.fail_start(self.agent_error(Code::InitializeFailed, "initialize", error)),
        };
        if info.protocol_version != Some(u64::from(message::PROTOCOL_VERSION)) {
            let theirs = info.protocol_version.map_or("none".to_owned(), |v| v.to_string());
            return self.fail_start(Failure::because(
                Code::ProtocolVersionUnsupported,
                format!("The agent speaks ACP version {theirs}; agentctl speaks version {}.", message::PROTOCOL_VERSION),
            ));
        }
        let shown = |text: Option<String>| text.map(|text| self.redactor.text(&text).text);
        self.described(&info);
        self.asks.auth_methods = info
            .auth_methods
            .into_iter()
            .map(|(id, name)| AuthMethod { id: shown(Some(id)).unwrap_or_default(), name: shown(name) })
            .collect();
        self.asks.loads = info.loads;
        let how = if info.resumes { AcpSession::Resumed } else { self.next_best() };
        self.open_session(how);
    }

    /// How to open a session where resuming can't be done.
    fn next_best(&self) -> AcpSession {
        if self.asks.loads { AcpSession::Loaded } else { AcpSession::New }
    }

    fn open_session(&mut self, how: AcpSession) {
        let earlier = self.asks.earlier.clone().filter(|_| how != AcpSession::New);
        let how = if earlier.is_some() { how } else { AcpSession::New };
        let id = self.asks.open(Ask::Session(how));
        self.asks.deadline = Some(Instant::now() + self.hub.settings.initialize_wait);
        let (cwd, earlier) = (Path::new(&self.exec.cwd), earlier.unwrap_or_default());
        let frame = match how {
            AcpSession::New => message::session_new(&id, cwd),
            AcpSession::Loaded => message::session_load(&id, &earlier, cwd),
            AcpSession::Resumed => message::session_resume(&id, &earlier, cwd),
        };
        // What is told until the answer comes is history.
        self.table.replay(how != AcpSession::New);
        self.outbox.push_bulk(frame);
        self.flush();
    }

    /// Whether the agent tells a session's history again.
    pub(super) fn is_replaying(&self) -> bool {
        self.table.is_replaying()
    }

    /// The agent told what it is.
    pub(super) fn described(&self, info: &AgentInfo) {
        let shown = |text: &Option<String>| text.as_ref().map(|text| self.redactor.text(text).text);
        let agent = AgentDescription { name: shown(&info.name), title: shown(&info.title), version: shown(&info.version) };
        self.exec.status.lock().agent = agent;
    }

    fn session_opened(&mut self, how: AcpSession, outcome: Result<&RawValue, &RawValue>) {
        self.asks.deadline = None;
        self.table.replay(false);
        if self.stop.is_begun() {
            return;
        }
        if how != AcpSession::New {
            let Some(earlier) = self.asks.earlier.take_if(|_| outcome.is_ok()) else {
                // It is gone, or can't be gone on with in this way.
                let next = if how == AcpSession::Resumed { self.next_best() } else { AcpSession::New };
                return self.open_session(next);
            };
            return self.is_ready(how, earlier);
        }
        let acp_session_id = match outcome.map(|result| message::member(result, "sessionId")) {
            Ok(Some(id)) if id.len() <= MAX_ID_BYTES => id,
            Ok(Some(_)) => {
                return self.fail_start(Failure::because(Code::SessionNewFailed, "The agent names its session by more than 4 KiB."));
            }
            Ok(None) => {
                return self.fail_start(Failure::because(Code::SessionNewFailed, "The agent's answer to `session/new` names no session."));
            }
            Err(error) if RpcError::read(error).code == message::code::AUTH_REQUIRED => {
                let methods = std::mem::take(&mut self.asks.auth_methods);
                let failure = self.agent_error(Code::AuthenticationRequired, "session/new", error);
                return self.fail_start(failure.with(|data| data.auth_methods = methods));
            }
            Err(error) => return self.fail_start(self.agent_error(Code::SessionNewFailed, "session/new", error)),
        };
        self.is_ready(how, acp_session_id);
    }

    fn is_ready(&mut self, how: AcpSession, acp_session_id: String) {
        self.table.know_session(&acp_session_id);
        let agent = {
            let mut status = self.exec.status.lock();
            status.acp_session_id = Some(acp_session_id.clone());
            status.acp_session = how;
            status.agent.clone()
        };
        self.set_state(State::Running, None);
        if let Some(ready) = self.ready.take() {
            let _ = ready.send(Ok(StartResult {
                execution_id: self.exec.id.to_string(),
                task_id: self.exec.task_id.clone(),
                session_id: self.exec.key.session_id.clone(),
                pid: self.leader.pid.as_raw(),
                acp_session_id,
                acp_session: how,
                agent,
            }));
        }
    }

    /// Opens a new acp session in place of one.
    pub(super) fn reset(&mut self, given_up: Option<String>, reply: oneshot::Sender<Result<String, Failure>>) {
        let given_up = match self.acp_session(given_up) {
            Ok(id) => id,
            Err(failure) => return drop(reply.send(Err(failure))),
        };
        let busy = |text: &str| Err(Failure::because(Code::SessionBusy, text));
        if self.turns.contains_key(&given_up) {
            return drop(reply.send(busy("A turn of this session is running; cancel it first.")));
        }
        if self.asks.reset.is_some() {
            return drop(reply.send(busy("The session is being reset.")));
        }
        let id = self.asks.open(Ask::Reset);
        self.asks.reset = Some(Reset { given_up, deadline: Instant::now() + self.hub.settings.initialize_wait, reply });
        self.outbox.push_bulk(message::session_new(&id, Path::new(&self.exec.cwd)));
        self.flush();
    }

    fn session_reset(&mut self, outcome: Result<&RawValue, &RawValue>) {
        let Some(Reset { given_up, reply, .. }) = self.asks.reset.take() else { return };
        let new = match outcome.map(|result| message::member(result, "sessionId").filter(|id| id.len() <= MAX_ID_BYTES)) {
            Ok(Some(id)) => id,
            Ok(None) => {
                let text = "The agent's answer to `session/new` names no session, or by more than 4 KiB.";
                return drop(reply.send(Err(Failure::because(Code::SessionNewFailed, text))));
            }
            Err(error) => return drop(reply.send(Err(self.agent_error(Code::SessionNewFailed, "session/new", error)))),
        };
        self.end_requests("session_reset", |_, _| true, |table| table.give_up_session(&given_up));
        self.table.know_session(&new);
        self.flush();
        {
            let mut status = self.exec.status.lock();
            if status.acp_session_id.as_ref() == Some(&given_up) {
                status.acp_session_id = Some(new.clone());
                status.acp_session = AcpSession::New;
            }
        }
        self.tell(Topic::Session, Event { event_type: "session_reset".into(), acp_session_id: Some(new.clone()), ..Event::default() });
        let _ = reply.send(Ok(new));
    }

    /// The start has failed: the agent is ended, then the starter hears why.
    fn fail_start(&mut self, failure: Failure) {
        self.stop.failure = Some(failure);
        self.begin_stop("start failed");
    }

    /// A failure that carries the agent's own error.
    pub(super) fn agent_error(&self, code: Code, method: &str, error: &RawValue) -> Failure {
        let error = RpcError::read(error);
        let message = self.redactor.text(&error.message).text;
        Failure::because(code, format!("The agent answered `{method}` with error {}: {message}", error.code))
            .with(|data| data.agent_error = Some(AgentError { code: error.code, message: message.clone() }))
    }
}
