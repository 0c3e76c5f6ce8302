//! `agentctl run` at a terminal: turn after turn, what the agent does, and its questions asked inline.
//!
//! One loop takes in what the daemon says, what is typed and which signals come. The rules of a question are in
//! [`question`]; a request that is answered elsewhere ends its question, which then says by whom.

mod progress;
mod question;
mod show;
mod terminal;

use std::collections::{HashMap, VecDeque};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use acp_bridge::presentation::{Redactor, terminal as visible};
use nix::sys::signal::Signal;
use serde_json::value::RawValue;

pub(super) use progress::Progress;
use question::{Act, Questions, render};
use show::Show;
use terminal::{Terminal, block_signals, paint, watch};

use super::CliError;
use crate::client::{Caller, Client, ClientError, Incoming};
use crate::code::Code;
use crate::wire::{
    CancelParams, Event, ExecutionParams, Failure, Permission, PermissionCancelParams, PermissionListParams, PermissionListResult,
    PromptParams, PromptResult, ResolveParams, StartResult, State, StopResult, Topic,
};

/// What the loop waits for.
enum Input {
    Daemon(Result<Incoming, ClientError>),
    /// When it was typed counts, not when there is time for it.
    Typed(Vec<u8>, Instant),
    Signal(Signal),
}

/// A call whose answer has not come.
enum Call {
    Turn,
    /// Its request, and the name of the chosen option.
    Resolve(String, String),
    CancelRequest(String),
    List,
    /// Its failure is told, its result needs no words.
    Other,
    Stop,
}

/// Drives a started agent from the terminal until the person, the agent or its one turn ends it.
pub(super) fn converse(mut client: Client, started: StartResult, redactor: Redactor, first: Option<String>) -> Result<ExitCode, CliError> {
    let signals = block_signals();
    let terminal = Terminal::open().map_err(anyhow::Error::from)?;
    let topics = Some(vec![Topic::Update, Topic::Permission, Topic::Session, Topic::Execution]);
    super::events::subscribe(&mut client, None, Some(&started.session_id), topics)?;
    let (to, inputs) = channel();
    watch(signals, &to);
    let caller = client.forward(move |incoming| to.send(Input::Daemon(incoming)).is_ok());
    let mut person = Person {
        caller,
        calls: HashMap::new(),
        terminal,
        show: Show::new(redactor),
        questions: Questions::default(),
        one_turn: first.is_some(),
        next: first.into_iter().collect(),
        started,
        line: String::new(),
        turn: false,
        interrupted: false,
        over: None,
        status: 0,
    };
    person.run(&inputs)
}

struct Person {
    caller: Caller,
    calls: HashMap<u64, Call>,
    terminal: Terminal,
    show: Show,
    questions: Questions,
    one_turn: bool,
    /// Prompts that were typed and not sent.
    next: VecDeque<String>,
    started: StartResult,
    /// The beginning of a line.
    line: String,
    /// Whether a turn is running.
    turn: bool,
    /// Whether Ctrl-C was the last thing.
    interrupted: bool,
    /// Why it is over, for the person.
    over: Option<String>,
    /// The status to exit with.
    status: u8,
}

impl Person {
    fn run(&mut self, inputs: &Receiver<Input>) -> Result<ExitCode, CliError> {
        self.call("permission/list", &self.list_params(), Call::List)?;
        self.go_on()?;
        while self.over.is_none() {
            self.ask();
            match inputs.recv() {
                Ok(Input::Daemon(incoming)) => self.incoming(incoming?)?,
                Ok(Input::Typed(bytes, at)) => self.typed(&bytes, at)?,
                Ok(Input::Signal(signal)) => self.signal(signal)?,
                Err(_) => break,
            }
        }
        self.terminal.read_lines();
        if let Some(why) = self.over.take().filter(|why| !why.is_empty()) {
            self.terminal.tell(&why);
        }
        self.stop(inputs)?;
        Ok(ExitCode::from(self.status))
    }

    /// Ends the agent, and waits for that. A further Ctrl-C leaves the rest to the daemon, to which the agent is bound.
    fn stop(&mut self, inputs: &Receiver<Input>) -> Result<(), CliError> {
        let params = ExecutionParams { execution_id: Some(self.started.execution_id.clone()), ..Default::default() };
        self.call("execution/stop", &params, Call::Stop)?;
        loop {
            match inputs.recv() {
                Ok(Input::Daemon(incoming)) => {
                    if let Incoming::Answer(id, outcome) = incoming?
                        && matches!(self.calls.remove(&id), Some(Call::Stop))
                    {
                        if let Ok(result) = outcome
                            && let Ok(result) = serde_json::from_str::<StopResult>(result.get())
                        {
                            super::stop::warn_of_survivors(&result);
                        }
                        return Ok(());
                    }
                }
                Ok(Input::Signal(Signal::SIGINT)) | Err(_) => return Ok(()),
                Ok(_) => {}
            }
        }
    }

    fn call<P: serde::Serialize>(&mut self, method: &str, params: &P, call: Call) -> Result<(), ClientError> {
        let id = self.caller.send(method, params)?;
        self.calls.insert(id, call);
        Ok(())
    }

    /// Between two turns: the next prompt is sent, or asked for.
    fn go_on(&mut self) -> Result<(), ClientError> {
        if self.turn || self.over.is_some() {
            return Ok(());
        }
        let Some(text) = self.next.pop_front() else {
            self.terminal.prompt(&paint("1", "> "));
            return Ok(());
        };
        self.turn = true;
        let session_id = self.started.session_id.clone();
        let params = PromptParams { session_id, acp_session_id: None, text: Some(text), prompt: None, owner: None };
        self.call("session/prompt", &params, Call::Turn)
    }

    /// Shows the question that is due: during a turn at once; else the person is writing and must ask for it.
    fn ask(&mut self) {
        if self.questions.is_shown() {
            return;
        }
        if self.turn {
            self.show_question();
        } else if self.terminal.reads_keys() {
            // A question outside a turn was answered: the person writes again.
            self.terminal.read_lines();
            self.terminal.prompt(&paint("1", "> "));
        }
    }

    fn show_question(&mut self) {
        let Some(permission) = self.questions.first() else { return self.terminal.read_lines() };
        let text = render(permission, self.questions.len(), Terminal::width(), false);
        self.terminal.read_keys();
        self.terminal.tell(&text);
        self.questions.shown(Instant::now());
    }

    fn incoming(&mut self, incoming: Incoming) -> Result<(), ClientError> {
        match incoming {
            Incoming::Event(event) => self.event(*event),
            Incoming::Answer(id, outcome) => match (self.calls.remove(&id), outcome) {
                (Some(Call::Turn), outcome) => self.turn_ended(outcome),
                (Some(Call::List), Ok(result)) => {
                    self.listed(&result);
                    Ok(())
                }
                (Some(Call::Resolve(request_id, name)), Ok(_)) => {
                    self.questions.remove(&request_id);
                    self.terminal.tell(&format!("  answered: {}", visible(&name)));
                    Ok(())
                }
                (Some(Call::CancelRequest(request_id)), Ok(_)) => {
                    self.questions.remove(&request_id);
                    self.terminal.tell("  the request was cancelled");
                    Ok(())
                }
                (Some(Call::Resolve(request_id, _) | Call::CancelRequest(request_id)), Err(failure)) => {
                    self.not_answered(&request_id, &failure);
                    Ok(())
                }
                (Some(_), Err(failure)) => {
                    self.terminal.tell(&format!("agentctl: {}", super::output::describe(&failure)));
                    Ok(())
                }
                _ => Ok(()),
            },
        }
    }

    fn event(&mut self, event: Event) -> Result<(), ClientError> {
        if let Some(frame) = &event.frame {
            self.show.frame(frame.0.get(), &mut self.terminal);
        } else if event.count.is_some() {
            // Events were lost: what waits is asked for anew.
            self.call("permission/list", &self.list_params(), Call::List)?;
        } else if let Some(permission) = event.permission {
            self.raised(*permission);
        } else if event.state == Some(State::Exited) && event.execution_id.as_deref() == Some(&self.started.execution_id) {
            self.status = if self.turn { 1 } else { self.status };
            self.over = Some(format!("the agent ended: {}", visible(event.reason.as_deref().unwrap_or_default())));
        } else if let Some(request_id) = event.request_id.as_deref()
            && matches!(event.event_type.as_str(), "resolved" | "cancelled" | "withdrawn" | "replaced" | "expired")
        {
            self.ended(request_id, &event);
        }
        Ok(())
    }

    fn raised(&mut self, permission: Permission) {
        let title = visible(&permission.title).into_owned();
        self.questions.add(permission);
        if !self.turn && !self.questions.is_shown() {
            self.terminal.tell(&paint("1;33", &format!("? The agent asks: {title}; press Enter on an empty line to answer it")));
        }
    }

    /// A request has ended. If that was not this surface's doing, it says whose.
    fn ended(&mut self, request_id: &str, event: &Event) {
        let ours = self.calls.values().any(|call| matches!(call, Call::Resolve(id, _) | Call::CancelRequest(id) if id == request_id));
        if ours {
            return;
        }
        let Some(shown) = self.questions.remove(request_id) else { return };
        self.terminal.tell(&match &event.resolution {
            Some(r) => {
                let (who, through, option) = (visible(&r.actor_user_id), r.source.as_str(), visible(&r.option_id));
                format!("  answered elsewhere, by user {who} through {through}: {option}")
            }
            None => format!("  the request ended: {}", event.event_type),
        });
        if shown && self.questions.first().is_none() {
            self.terminal.read_lines();
        }
    }

    fn listed(&mut self, result: &RawValue) {
        let Ok(list) = serde_json::from_str::<PermissionListResult>(result.get()) else { return };
        // What was raised after the list was made stays: its event may have come before the list.
        let newest = list.permissions.iter().map(|p| p.created_at.as_str()).max().unwrap_or_default();
        for gone in self.questions.ended(&list.permissions, newest) {
            self.questions.remove(&gone);
        }
        for permission in list.permissions {
            if !self.questions.has(&permission.request_id) {
                self.raised(permission);
            }
        }
    }

    fn not_answered(&mut self, request_id: &str, failure: &Failure) {
        self.terminal.tell(&format!("  not answered: {}", super::output::describe(failure)));
        match failure.stable_code() {
            Some(Code::PermissionAuditFailed | Code::PermissionDeliveryFailed | Code::PermissionResolutionInProgress)
                if failure.data.as_ref().is_none_or(|data| data.end.is_none()) =>
            {
                self.questions.not_taken();
            }
            _ => drop(self.questions.remove(request_id)),
        }
    }

    fn turn_ended(&mut self, outcome: Result<Box<RawValue>, Failure>) -> Result<(), ClientError> {
        self.turn = false;
        self.interrupted = false;
        match outcome {
            Ok(result) => {
                let result: PromptResult = serde_json::from_str(result.get()).map_err(ClientError::Unreadable)?;
                self.status = u8::from(result.stop_reason != "end_turn");
                if result.stop_reason != "end_turn" {
                    self.terminal.tell(&format!("the turn ended: {}", visible(&result.stop_reason)));
                }
            }
            Err(failure) => {
                self.status = 1;
                self.terminal.tell(&format!("agentctl: {}", super::output::describe(&failure)));
                if failure.stable_code() == Some(Code::AgentExited) {
                    self.over = Some(String::new());
                }
            }
        }
        if self.one_turn {
            self.over.get_or_insert_default();
        }
        if self.questions.first().is_none() {
            self.terminal.read_lines();
        }
        self.go_on()
    }

    fn typed(&mut self, bytes: &[u8], at: Instant) -> Result<(), ClientError> {
        self.interrupted = false;
        if self.questions.is_shown() && !bytes.is_empty() {
            return self.key(bytes, at);
        }
        if bytes.is_empty() {
            // Ctrl-D: nothing more will be typed.
            if !self.turn {
                self.over = Some(String::new());
            }
            self.one_turn = true;
            return Ok(());
        }
        self.line += &String::from_utf8_lossy(bytes);
        while let Some((line, rest)) = self.line.split_once('\n') {
            let (line, rest) = (line.trim().to_owned(), rest.to_owned());
            self.line = rest;
            match line.as_str() {
                "" if !self.turn && self.questions.first().is_some() => {
                    self.show_question();
                    return Ok(());
                }
                "" => {}
                _ => self.next.push_back(line),
            }
            self.go_on()?;
        }
        Ok(())
    }

    fn key(&mut self, typed: &[u8], at: Instant) -> Result<(), ClientError> {
        let act = self.questions.key(typed, at);
        let Some(permission) = self.questions.first() else { return Ok(()) };
        let Permission { task_id, session_id, request_id, pending_id, options, .. } = permission.clone();
        match act {
            Act::Choose(option_id) => {
                let name = options.into_iter().find(|o| o.option_id == option_id).map(|o| o.name).unwrap_or_default();
                let call = Call::Resolve(request_id.clone(), name);
                self.call("permission/resolve", &ResolveParams { task_id, session_id, request_id, pending_id, option_id }, call)
            }
            Act::Cancel => {
                let call = Call::CancelRequest(request_id.clone());
                self.call("permission/cancel", &PermissionCancelParams { task_id, session_id, request_id, pending_id }, call)
            }
            Act::View => {
                let text = render(permission, self.questions.len(), Terminal::width(), true);
                self.terminal.tell(&text);
                Ok(())
            }
            Act::Early | Act::Nothing => Ok(()),
        }
    }

    fn signal(&mut self, signal: Signal) -> Result<(), ClientError> {
        match signal {
            Signal::SIGCONT => {
                self.terminal.resume();
                if self.questions.is_shown() {
                    self.show_question();
                    return Ok(());
                }
                self.go_on()
            }
            Signal::SIGINT if self.turn && !self.interrupted => {
                self.interrupted = true;
                self.next.clear();
                self.terminal.tell("cancelling the turn; Ctrl-C again ends the agent");
                let params = CancelParams { session_id: self.started.session_id.clone(), acp_session_id: None, owner: None };
                self.call("session/cancel", &params, Call::Other)
            }
            Signal::SIGINT if !self.turn && !self.interrupted => {
                self.interrupted = true;
                self.line.clear();
                terminal::drop_input();
                self.terminal.tell("Ctrl-C again, or Ctrl-D, ends the agent");
                self.go_on()
            }
            signal => {
                self.status = 128 + u8::try_from(signal as i32).unwrap_or(0);
                self.over = Some("ending the agent".into());
                Ok(())
            }
        }
    }

    fn list_params(&self) -> PermissionListParams {
        PermissionListParams { task_id: Some(self.started.task_id.clone()), session_id: Some(self.started.session_id.clone()) }
    }
}
