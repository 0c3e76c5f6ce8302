//! What a recording says is to be done and seen, in order.

use acp_bridge::fixture::{EntryKind, Event, ExitStatus, Fixture, Message, Side, Target};
use acp_bridge::id::RpcId;
use acp_bridge::json::{Members, elements};
use acp_bridge::message::{RpcError, code, member};
use acp_bridge::prompt::Prompt;
use serde_json::value::RawValue;

/// One step of driving a recorded agent.
#[derive(Debug)]
pub(super) enum Step {
    /// `session/prompt` with these content blocks.
    Prompt { turn: usize, content: Vec<Box<RawValue>> },
    /// The agent sends this `session/update`.
    Update(Box<RawValue>),
    /// The agent asks: the prompt of this number must be listed.
    Asked(usize),
    /// The client selects an option of that prompt, by this frame.
    Resolve { prompt: usize, option_id: String, frame: Box<RawValue> },
    /// The client answers that prompt `cancelled`, without a cancel of its turn.
    CancelRequest(usize),
    /// `session/cancel`.
    CancelTurn,
    /// The agent ends a turn: with a stop reason, or an error's code.
    TurnEnds { turn: usize, outcome: Result<String, i64> },
    /// `execution/stop`.
    Stop,
    /// A signal from outside.
    Kill { signal: i32, target: Target },
}

/// One prompt of the agent.
#[derive(Debug)]
pub(super) struct Asked {
    /// The frame that asked.
    pub(super) frame: Box<RawValue>,
    /// Our own reading of it.
    pub(super) prompt: Option<Prompt>,
    /// How it must end.
    pub(super) outcome: Outcome,
    /// Whether it can be listed: not, if it came in a turn that was cancelled.
    pub(super) listed: bool,
}

/// What the agent must have got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// This option.
    Selected(String),
    /// `cancelled`.
    Cancelled,
    /// Nothing: the agent died first.
    Expired,
}

/// A recording as steps.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) prompts: Vec<Asked>,
    /// The recorded exit.
    pub(super) exit: Option<ExitStatus>,
}

struct Reading {
    plan: Plan,
    /// Every request of the agent, with the number of its prompt.
    asked: Vec<(RpcId, Option<usize>)>,
    turns: Vec<RpcId>,
    /// Between a cancel and the end of its turn.
    cancelling: bool,
    over: bool,
}

impl Plan {
    /// Reads a recording. The error says which entry no client of ours could have made.
    pub(super) fn of(fixture: &Fixture) -> Result<Self, String> {
        let mut reading = Reading { plan: Self::default(), asked: Vec::new(), turns: Vec::new(), cancelling: false, over: false };
        for (at, entry) in fixture.entries.iter().enumerate() {
            match &entry.kind {
                EntryKind::Frame(Side::Client, frame) => {
                    let next_cancels = fixture.entries[at + 1..].iter().find_map(|e| client_method(&e.kind)).is_some_and(|cancels| cancels);
                    reading.client(frame, next_cancels).map_err(|why| format!("{}: {why}\n  recorded: {frame}", fixture.place(at)))?;
                }
                EntryKind::Frame(Side::Agent, frame) => reading.agent(frame),
                EntryKind::Line(..) => {}
                EntryKind::Event(event) => reading.event(event),
            }
        }
        Ok(reading.plan)
    }
}

/// For a client entry: whether it is a `session/cancel`.
fn client_method(kind: &EntryKind) -> Option<bool> {
    let EntryKind::Frame(Side::Client, frame) = kind else { return None };
    Some(matches!(Message::read(frame.get()), Some(Message::Notification { method }) if method == "session/cancel"))
}

impl Reading {
    fn client(&mut self, frame: &RawValue, next_cancels: bool) -> Result<(), String> {
        match Message::read(frame.get()) {
            Some(Message::Request { id, method }) if method == "session/prompt" => {
                let content = part(frame, &["params", "prompt"]).and_then(|raw| elements(&raw).map(own)).unwrap_or_default();
                self.plan.steps.push(Step::Prompt { turn: self.turns.len(), content });
                self.turns.push(id);
            }
            Some(Message::Notification { method }) if method == "session/cancel" => {
                self.plan.steps.push(Step::CancelTurn);
                self.cancelling = true;
                self.end_open(Outcome::Cancelled);
            }
            Some(Message::Response { id }) => return self.answer(&id, frame, next_cancels),
            _ => {}
        }
        Ok(())
    }

    fn answer(&mut self, id: &RpcId, frame: &RawValue, next_cancels: bool) -> Result<(), String> {
        let asked = self.asked.iter().rfind(|(known, _)| known == id).ok_or("it answers nothing that the agent asked")?;
        let Some(number) = asked.1 else {
            // What is not served is refused without being told to.
            let refused = part(frame, &["error"]).is_some_and(|error| RpcError::read(&error).code == i64::from(code::METHOD_NOT_FOUND));
            return if refused { Ok(()) } else { Err("it serves what agentctl's own client never serves".into()) };
        };
        let prompt = &mut self.plan.prompts[number];
        let asked = || format!("; the agent asked: {}", prompt.frame);
        let outcome = part(frame, &["result", "outcome"]).ok_or_else(|| format!("it is no outcome of a permission prompt{}", asked()))?;
        match (member(&outcome, "outcome").as_deref(), member(&outcome, "optionId")) {
            (Some("selected"), Some(option_id)) => {
                prompt.outcome = Outcome::Selected(option_id.clone());
                self.plan.steps.push(Step::Resolve { prompt: number, option_id, frame: frame.to_owned() });
            }
            // Our cancel (or the end of the turn) answers what the recording client answered around or after it.
            (Some("cancelled"), None) if prompt.outcome == Outcome::Cancelled => {}
            (Some("cancelled"), None) => {
                prompt.outcome = Outcome::Cancelled;
                if !next_cancels {
                    self.plan.steps.push(Step::CancelRequest(number));
                }
            }
            _ => return Err(format!("it is neither a selection nor `cancelled`{}", asked())),
        }
        Ok(())
    }

    fn agent(&mut self, frame: &RawValue) {
        match Message::read(frame.get()) {
            Some(Message::Request { id, method }) if method == "session/request_permission" => {
                let params = part(frame, &["params"]);
                let prompt = Prompt::read(params.as_deref()).ok();
                let outcome = if self.cancelling { Outcome::Cancelled } else { Outcome::Expired };
                self.plan.steps.push(Step::Asked(self.plan.prompts.len()));
                self.plan.prompts.push(Asked { frame: frame.to_owned(), prompt, outcome, listed: !self.cancelling });
                self.asked.push((id, Some(self.plan.prompts.len() - 1)));
            }
            Some(Message::Request { id, .. }) => self.asked.push((id, None)),
            Some(Message::Notification { method }) if method == "session/update" => self.plan.steps.push(Step::Update(frame.to_owned())),
            Some(Message::Response { id }) => {
                let Some(turn) = self.turns.iter().position(|turn| *turn == id) else { return };
                let outcome = match part(frame, &["error"]) {
                    Some(error) => Err(RpcError::read(&error).code),
                    None => Ok(part(frame, &["result"]).and_then(|result| member(&result, "stopReason")).unwrap_or_default()),
                };
                self.plan.steps.push(Step::TurnEnds { turn, outcome });
                self.cancelling = false;
                self.end_open(Outcome::Cancelled);
            }
            _ => {}
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            // A second end changes nothing.
            Event::StdinClosed | Event::Killed { .. } if self.over => {}
            Event::StdinClosed => {
                self.over = true;
                self.plan.steps.push(Step::Stop);
                self.end_open(Outcome::Cancelled);
            }
            Event::Killed { signal, target } => {
                self.over = true;
                self.plan.steps.push(Step::Kill { signal: *signal, target: *target });
            }
            Event::Exited(status) => self.plan.exit = Some(*status),
            Event::Spawned | Event::StdoutClosed => {}
        }
    }

    /// Prompts without an answer end so.
    fn end_open(&mut self, outcome: Outcome) {
        for prompt in self.plan.prompts.iter_mut().filter(|p| p.outcome == Outcome::Expired) {
            prompt.outcome = outcome.clone();
        }
    }
}

/// The value at a path of member names.
fn part(raw: &RawValue, path: &[&str]) -> Option<Box<RawValue>> {
    match path {
        [] => Some(raw.to_owned()),
        [name, rest @ ..] => part(Members::read(raw).ok()?.get(name)?, rest),
    }
}

fn own(list: Vec<&RawValue>) -> Vec<Box<RawValue>> {
    list.into_iter().map(ToOwned::to_owned).collect()
}
