//! `agentctl run` at a terminal: turn after turn, what the agent does, and its questions asked inline.
//!
//! One loop takes in what the daemon says, what is typed and which signals come. The rules of a question are in
//! [`question`]; a request that is answered elsewhere ends its question, which then says by whom.

mod answers;
mod progress;
mod question;
mod show;
mod terminal;

use std::collections::{HashMap, HashSet, VecDeque};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

use acp_bridge::presentation::{Redactor, terminal as visible};
use nix::sys::signal::Signal;
use serde_json::value::RawValue;

pub(super) use progress::Progress;
use question::Questions;
use show::Show;
use terminal::{Terminal, block_signals, paint, watch};

use super::CliError;
use crate::client::{Caller, Client, ClientError, Incoming};
use crate::code::Code;
use crate::wire::{
    CancelParams, Event, ExecutionInfo, ExecutionParams, Failure, PromptParams, PromptResult, StartResult, State, StopResult, Topic,
};

/// What waits for the loop: while a terminal stands still the daemon is not read, which it notices.
const INPUTS: usize = 64;

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
    /// What waited when it was asked for.
    List(Vec<String>),
    Get,
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
    let (to, inputs) = sync_channel(INPUTS);
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
        ended_meanwhile: HashSet::new(),
        over: None,
        status: 0,
    };
    let outcome = person.run(&inputs);
    // Nobody takes them from here on: they end this command as usual.
    let _ = signals.thread_unblock();
    outcome
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
    /// Requests that ended while our answer to them was under way.
    ended_meanwhile: HashSet<String>,
    /// Why it is over, for the person.
    over: Option<String>,
    /// The status to exit with.
    status: u8,
}

impl Person {
    fn run(&mut self, inputs: &Receiver<Input>) -> Result<ExitCode, CliError> {
        self.list()?;
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

    fn incoming(&mut self, incoming: Incoming) -> Result<(), ClientError> {
        match incoming {
            Incoming::Event(event) => self.event(*event),
            Incoming::Answer(id, outcome) => match (self.calls.remove(&id), outcome) {
                (Some(Call::Turn), outcome) => self.turn_ended(outcome),
                (Some(Call::List(waited)), Ok(result)) => {
                    self.listed(&result, &waited);
                    Ok(())
                }
                (Some(Call::Get), Ok(result)) => {
                    if let Ok(info) = serde_json::from_str::<ExecutionInfo>(result.get())
                        && info.state == State::Exited
                    {
                        self.agent_ended(info.reason.as_deref());
                    }
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
            // Events were lost: what waits is asked for anew, and whether the agent is there.
            self.list()?;
            let params = ExecutionParams { execution_id: Some(self.started.execution_id.clone()), ..Default::default() };
            self.call("execution/get", &params, Call::Get)?;
        } else if let Some(permission) = event.permission {
            self.raised(Arc::unwrap_or_clone(permission));
        } else if event.state == Some(State::Exited) && event.execution_id.as_deref() == Some(&self.started.execution_id) {
            self.agent_ended(event.reason.as_deref());
        } else if let Some(request_id) = event.request_id.as_deref()
            && matches!(event.event_type.as_str(), "resolved" | "cancelled" | "withdrawn" | "replaced" | "expired")
        {
            self.ended(request_id, &event);
        }
        Ok(())
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

    fn agent_ended(&mut self, reason: Option<&str>) {
        self.status = if self.turn { 1 } else { self.status };
        self.over = Some(format!("the agent ended: {}", visible(reason.unwrap_or_default())));
    }
}
