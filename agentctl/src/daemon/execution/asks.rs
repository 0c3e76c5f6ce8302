//! What we ask of the agent, and the start of an execution.

use std::collections::HashMap;
use std::path::Path;

use acp_bridge::id::RpcId;
use acp_bridge::message::{self, AgentInfo, RpcError};
use acp_bridge::prompt::MAX_ID_BYTES;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::task::Task;
use crate::code::Code;
use crate::wire::{AgentDescription, AgentError, AuthMethod, Failure, StartResult, State};

/// Our requests that the agent has not answered yet. Our ids are a space of their own, from 0.
#[derive(Debug, Default)]
pub(super) struct Asks {
    next: u64,
    open: HashMap<u64, Ask>,
    deadline: Option<Instant>,
    auth_methods: Vec<AuthMethod>,
}

#[derive(Debug)]
enum Ask {
    Initialize,
    SessionNew,
    Prompt { acp_session_id: String },
}

impl Asks {
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
        self.deadline
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
            Some(Ask::SessionNew) => self.session_opened(outcome),
            Some(Ask::Prompt { acp_session_id }) => self.turn_answered(&acp_session_id, outcome),
        }
    }

    pub(super) fn ask_timers(&mut self, now: Instant) {
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
        let id = self.asks.open(Ask::SessionNew);
        self.asks.deadline = Some(Instant::now() + self.hub.settings.initialize_wait);
        self.outbox.push_bulk(message::session_new(&id, Path::new(&self.exec.cwd)));
        self.flush();
    }

    /// The agent told what it is.
    pub(super) fn described(&self, info: &AgentInfo) {
        let shown = |text: &Option<String>| text.as_ref().map(|text| self.redactor.text(text).text);
        let agent = AgentDescription { name: shown(&info.name), title: shown(&info.title), version: shown(&info.version) };
        self.exec.status.lock().agent = agent;
    }

    fn session_opened(&mut self, outcome: Result<&RawValue, &RawValue>) {
        self.asks.deadline = None;
        if self.stop.is_begun() {
            return;
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
        self.table.know_session(&acp_session_id);
        let agent = {
            let mut status = self.exec.status.lock();
            status.acp_session_id = Some(acp_session_id.clone());
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
                agent,
            }));
        }
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
