//! How an agent behaves: it is started, made to ask, answered, cancelled and left alone, each time anew.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use acp_bridge::fixture::{Entry, EntryKind, Message, Side};
use acp_bridge::id::RpcId;
use acp_bridge::json::Members;
use acp_bridge::presentation::Redactor;
use acp_bridge::prompt::Prompt;
use anyhow::Context as _;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::client::{Client, ClientError, Incoming};
use crate::code::Code;
use crate::private_daemon::PrivateDaemon;
use crate::wire::{
    AgentDescription, CancelParams, CancelResult, ExecutionInfo, ExecutionParams, Permission, PermissionCancelParams,
    PermissionCancelResult, PermissionListParams, PermissionListResult, PromptParams, PromptResult, ResolveParams, ResolveResult,
    StartParams, StartResult, StopResult, Witness,
};

/// After the first prompt, the time in which a second one may come before the first is answered.
const TOGETHER: Duration = Duration::from_secs(2);

/// What to examine, and how.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// What it is asked to do.
    pub prompt: String,
    /// Choose what allows once, instead of what rejects once.
    pub allow: bool,
    /// The longest wait for anything.
    pub timeout: Duration,
}

/// What was found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Card {
    /// What the agent says of itself.
    pub agent: AgentDescription,
    /// From its start to its answer to `initialize`.
    pub initialize_ms: Option<f64>,
    /// From that to its answer to `session/new`.
    pub session_new_ms: Option<f64>,
    /// Prompts of the turn.
    pub prompts: Vec<Asked>,
    /// Whether a second prompt came before the first was answered; `None` if there was no second one.
    pub concurrent: Option<bool>,
    /// How the turn ended after the answers.
    pub stop_reason: Option<String>,
    /// What the witness counted in that turn.
    pub witness: Witness,
    /// What became of a cancel while a prompt waited.
    pub on_cancel: Option<Cancelled>,
    /// What it does when its stdin is closed while it is idle.
    pub on_stdin_closed: Option<Ended>,
}

/// One prompt.
#[derive(Debug, Clone, Serialize)]
pub struct Asked {
    /// Its JSON-RPC id: `string`, `number` or another.
    pub id_type: &'static str,
    /// Whether an update told of its tool call before it.
    pub tool_call_before: bool,
    /// Whether it has a `rawInput` that is not empty.
    pub raw_input: bool,
    /// ACP's kind of its tool.
    pub kind: Option<String>,
    /// Ids and kinds of its options, in order.
    pub options: Vec<(String, Option<String>)>,
}

/// What became of a cancel.
#[derive(Debug, Clone, Serialize)]
pub struct Cancelled {
    /// How the turn ended; an error's message otherwise.
    pub stop_reason: String,
    /// After so many milliseconds.
    pub after_ms: f64,
    /// Whether the agent withdrew its prompt by `$/cancel_request`, though it had its answer.
    pub withdrew: bool,
}

/// How an agent ended.
#[derive(Debug, Clone, Serialize)]
pub struct Ended {
    /// `closed_stdin` if that was enough, else `sigterm` or `sigkill`.
    pub by: String,
    /// After so many milliseconds.
    pub after_ms: f64,
    /// Processes of it that had to be killed besides its leader.
    pub killed: usize,
    /// Processes that were left.
    pub left: usize,
}

/// Examines an agent. It is answered with an offered option that rejects (or, if that is wanted, allows) once, else cancelled.
///
/// # Errors
/// It does not start, or what must come does not come in time.
pub fn examine(wanted: &Wanted) -> anyhow::Result<Card> {
    let daemon = PrivateDaemon::start()?;
    let mut card = Card::default();
    asked(&daemon, wanted, &mut card)?;
    if !card.prompts.is_empty() {
        card.on_cancel = Some(cancelled(&daemon, wanted)?);
    }
    card.on_stdin_closed = Some(Session::start(&daemon, wanted)?.end()?);
    daemon.end()?;
    Ok(card)
}

fn asked(daemon: &PrivateDaemon, wanted: &Wanted, card: &mut Card) -> anyhow::Result<()> {
    let mut session = Session::start(daemon, wanted)?;
    card.agent = session.started.agent.clone();
    (card.initialize_ms, card.session_new_ms) = session.start_times();
    let turn = session.prompt(&wanted.prompt)?;
    let mut first = None;
    let mut answered = 0;
    let outcome = loop {
        if let Some(outcome) = session.answer_within(turn, Duration::from_millis(20))? {
            break outcome;
        }
        session.in_time(wanted)?;
        let live = session.live()?;
        if live.is_empty() {
            continue;
        }
        let since = *first.get_or_insert_with(Instant::now);
        // The first answer waits, so that a second prompt can show itself.
        if answered == 0 && live.len() < 2 && since.elapsed() < TOGETHER {
            continue;
        }
        if answered == 0 && live.len() > 1 {
            card.concurrent = Some(true);
        }
        for permission in &live {
            session.answer(permission, wanted.allow)?;
            answered += 1;
        }
    };
    card.stop_reason = Some(outcome);
    card.prompts = session.prompts(&wanted.env);
    if card.prompts.len() > 1 {
        card.concurrent.get_or_insert(false);
    }
    card.witness = session.info()?.witness;
    session.end().map(drop)
}

fn cancelled(daemon: &PrivateDaemon, wanted: &Wanted) -> anyhow::Result<Cancelled> {
    let mut session = Session::start(daemon, wanted)?;
    let turn = session.prompt(&wanted.prompt)?;
    while session.live()?.is_empty() {
        session.in_time(wanted)?;
        if session.answer_within(turn, Duration::from_millis(20))?.is_some() {
            anyhow::bail!("it asked in one turn and not in the next");
        }
    }
    let begun = Instant::now();
    let params = CancelParams { session_id: session.started.session_id.clone(), acp_session_id: None, owner: None };
    session.calls.call::<_, CancelResult>("session/cancel", &params)?;
    let stop_reason = loop {
        if let Some(outcome) = session.answer_within(turn, Duration::from_millis(20))? {
            break outcome;
        }
        if begun.elapsed() > wanted.timeout {
            break "none: the turn did not end".into();
        }
    };
    let after_ms = begun.elapsed().as_secs_f64() * 1000.0;
    let withdrew = session.frames.iter().any(|(_, side, frame)| {
        *side == Side::Agent && matches!(Message::read(frame.get()), Some(Message::Notification { method }) if method == "$/cancel_request")
    });
    session.end()?;
    Ok(Cancelled { stop_reason, after_ms, withdrew })
}

/// One run of the agent: one connection gets the frames, another makes calls.
struct Session {
    frames_from: Client,
    calls: Client,
    started: StartResult,
    begun: Instant,
    /// When, who, what.
    frames: Vec<(f64, Side, Box<RawValue>)>,
    outcome: Option<String>,
    _folder: tempfile::TempDir,
}

impl Session {
    fn start(daemon: &PrivateDaemon, wanted: &Wanted) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("agentctl-doctor-").tempdir().context("cannot make a temporary folder")?;
        let mut frames_from = daemon.connect()?;
        let calls = daemon.connect()?;
        let mut words = wanted.command.iter().cloned();
        let params = StartParams {
            command: words.next().unwrap_or_default(),
            args: words.collect(),
            env: wanted.env.clone(),
            clear_env: true,
            cwd: folder.path().display().to_string(),
            task_id: "doctor".into(),
            record: true,
            ..StartParams::default()
        };
        let started = frames_from.call("execution/start", &params)?;
        let mut session = Self { frames_from, calls, started, begun: Instant::now(), frames: Vec::new(), outcome: None, _folder: folder };
        session.calls.set_timeout(Some(wanted.timeout))?;
        while let Some(incoming) = session.frames_from.pending() {
            session.take(0, incoming)?;
        }
        Ok(session)
    }

    fn prompt(&mut self, text: &str) -> anyhow::Result<u64> {
        let session_id = self.started.session_id.clone();
        let params = PromptParams { session_id, acp_session_id: None, text: Some(text.to_owned()), prompt: None, owner: None };
        self.begun = Instant::now();
        Ok(self.frames_from.send("session/prompt", &params)?)
    }

    /// Takes in what comes for a while; how the turn ended, once it has.
    fn answer_within(&mut self, turn: u64, wait: Duration) -> anyhow::Result<Option<String>> {
        self.frames_from.set_timeout(Some(wait))?;
        let end = Instant::now() + wait;
        while self.outcome.is_none() && Instant::now() < end {
            match self.frames_from.recv() {
                Ok(incoming) => self.take(turn, incoming)?,
                Err(ClientError::Broken(error))
                    if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
                {
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.frames_from.set_timeout(None)?;
        Ok(self.outcome.take())
    }

    fn take(&mut self, turn: u64, incoming: Incoming) -> anyhow::Result<()> {
        match incoming {
            Incoming::Event(event) => {
                let Some(entry) = event.entry else { return Ok(()) };
                let entry: Entry = serde_json::from_str(entry.0.get()).context("an entry can't be read")?;
                if let EntryKind::Frame(side, frame) = entry.kind {
                    self.frames.push((entry.at_ms, side, frame));
                }
            }
            Incoming::Answer(id, outcome) if id == turn => {
                self.outcome = Some(match outcome {
                    Ok(result) => serde_json::from_str::<PromptResult>(result.get())?.stop_reason,
                    Err(failure) => failure.message,
                });
            }
            Incoming::Answer(..) => {}
        }
        Ok(())
    }

    /// Fails once a turn takes too long.
    fn in_time(&self, wanted: &Wanted) -> anyhow::Result<()> {
        anyhow::ensure!(self.begun.elapsed() < wanted.timeout, "the turn did not end within {} s", wanted.timeout.as_secs());
        Ok(())
    }

    fn live(&mut self) -> anyhow::Result<Vec<Permission>> {
        let params = PermissionListParams { task_id: None, session_id: Some(self.started.session_id.clone()) };
        Ok(self.calls.call::<_, PermissionListResult>("permission/list", &params)?.permissions)
    }

    fn answer(&mut self, p: &Permission, allow: bool) -> anyhow::Result<()> {
        let wanted = if allow { "\"allow_once\"" } else { "\"reject_once\"" };
        let identity = (p.task_id.clone(), p.session_id.clone(), p.request_id.clone(), p.pending_id.clone());
        let (task_id, session_id, request_id, pending_id) = identity;
        let answered = match p.options.iter().find(|o| o.selectable && o.kind.0.get() == wanted) {
            Some(option) => {
                let option_id = option.option_id.clone();
                let params = ResolveParams { task_id, session_id, request_id, pending_id, option_id };
                self.calls.call::<_, ResolveResult>("permission/resolve", &params).map(drop)
            }
            None => {
                let params = PermissionCancelParams { task_id, session_id, request_id, pending_id };
                self.calls.call::<_, PermissionCancelResult>("permission/cancel", &params).map(drop)
            }
        };
        match answered {
            // Of some agents one reject ends the turn, with its other prompts.
            Err(ClientError::Failure(failure)) if failure.stable_code() == Some(Code::PermissionStale) => Ok(()),
            answered => Ok(answered?),
        }
    }

    fn info(&mut self) -> anyhow::Result<ExecutionInfo> {
        Ok(self.calls.call("execution/get", &self.named())?)
    }

    fn named(&self) -> ExecutionParams {
        ExecutionParams { execution_id: Some(self.started.execution_id.clone()), ..ExecutionParams::default() }
    }

    fn end(mut self) -> anyhow::Result<Ended> {
        let begun = Instant::now();
        let result: StopResult = self.calls.call("execution/stop", &self.named())?;
        let left = result.survivors.len();
        Ok(Ended { by: result.by, after_ms: begun.elapsed().as_secs_f64() * 1000.0, killed: result.killed.len(), left })
    }

    /// When the agent answered our first two requests, each from the moment before.
    fn start_times(&self) -> (Option<f64>, Option<f64>) {
        let mut answers = self
            .frames
            .iter()
            .filter(|(_, side, frame)| *side == Side::Agent && matches!(Message::read(frame.get()), Some(Message::Response { .. })));
        let initialize = answers.next().map(|(at, ..)| *at);
        (initialize, answers.next().and_then(|(at, ..)| Some(at - initialize?)))
    }

    /// The prompts of the turn, in order.
    fn prompts(&self, env: &BTreeMap<String, String>) -> Vec<Asked> {
        let redactor = Redactor::new(env.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let mut told: Vec<String> = Vec::new();
        let mut asked = Vec::new();
        for (_, _, frame) in self.frames.iter().filter(|(_, side, _)| *side == Side::Agent) {
            match Message::read(frame.get()) {
                Some(Message::Notification { method }) if method == "session/update" => told.extend(tool_call(frame)),
                Some(Message::Request { id, method }) if method == "session/request_permission" => {
                    let params = Members::read(frame).ok().and_then(|m| m.get("params").map(ToOwned::to_owned));
                    let Ok(prompt) = Prompt::read(params.as_deref()) else { continue };
                    let call = prompt.tool_call;
                    asked.push(Asked {
                        id_type: id_type(&id),
                        tool_call_before: call.id.as_ref().is_some_and(|id| told.contains(id)),
                        raw_input: call.raw_input.is_some_and(|raw| raw.get() != "{}"),
                        kind: call.kind.map(|kind| redactor.text(&kind).text),
                        options: prompt
                            .options
                            .into_iter()
                            .map(|o| (o.id, o.kind.as_ref().map(|kind| redactor.text(kind.get().trim_matches('"')).text)))
                            .collect(),
                    });
                }
                _ => {}
            }
        }
        asked
    }
}

fn id_type(id: &RpcId) -> &'static str {
    match id.raw().as_bytes().first() {
        Some(b'"') => "string",
        Some(b'0'..=b'9' | b'-') => "number",
        _ => "other",
    }
}

/// The tool call that an update tells of.
fn tool_call(frame: &RawValue) -> Option<String> {
    let update = Members::read(Members::read(frame).ok()?.get("params")?).ok()?.get("update")?;
    Members::read(update).ok()?.string("toolCallId")
}
