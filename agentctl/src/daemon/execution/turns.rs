//! Turns: `session/prompt` and `session/cancel`.

use acp_bridge::message;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::task::Task;
use crate::code::Code;
use crate::limits::{CANCEL_WAIT, PROMPT_BACKLOG};
use crate::wire::{CancelResult, Event, Failure, State, Topic};

/// A turn that the agent has not ended yet.
#[derive(Debug)]
pub(super) struct RunningTurn {
    /// `None` for a turn of the editor.
    reply: Option<oneshot::Sender<Result<String, Failure>>>,
    /// When it should have ended after a cancel.
    pub(super) deadline: Option<Instant>,
    /// It has not.
    overdue: bool,
    cancelled: bool,
}

impl RunningTurn {
    /// Whether it was cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// Tells its caller that no answer will come.
    pub(super) fn fail(self, failure: Failure) {
        self.end(Err(failure));
    }

    fn end(self, result: Result<String, Failure>) {
        if let Some(reply) = self.reply {
            let _ = reply.send(result);
        }
    }
}

impl Task {
    /// Starts a turn; `reply` is told when it ends.
    pub(super) fn prompt(&mut self, acp_session_id: Option<String>, prompt: &RawValue, reply: oneshot::Sender<Result<String, Failure>>) {
        let acp_session_id = match self.acp_session(acp_session_id) {
            Ok(id) => id,
            Err(failure) => return drop(reply.send(Err(failure))),
        };
        if self.turns.contains_key(&acp_session_id) {
            return drop(reply.send(Err(Failure::because(Code::SessionBusy, "A turn of this session is running."))));
        }
        let waiting = self.outbox.bulk_bytes();
        if waiting > 0 && waiting + prompt.get().len() > PROMPT_BACKLOG {
            let text = format!("{waiting} bytes of earlier turns wait for the agent, which does not read them.");
            return drop(reply.send(Err(Failure::because(Code::LimitReached, text))));
        }
        self.begin_turn(&acp_session_id, Some(reply));
        let id = self.asks.prompt(&acp_session_id);
        self.outbox.push_bulk(message::session_prompt(&id, &acp_session_id, prompt));
        self.flush();
    }

    /// A turn begins in an acp session; false if one runs there.
    pub(super) fn begin_turn(&mut self, acp_session_id: &str, reply: Option<oneshot::Sender<Result<String, Failure>>>) -> bool {
        if self.table.start_turn(acp_session_id).is_none() {
            return false;
        }
        self.turns.insert(acp_session_id.to_owned(), RunningTurn { reply, deadline: None, overdue: false, cancelled: false });
        let acp_session_id = Some(acp_session_id.to_owned());
        self.tell(Topic::Session, Event { event_type: "turn_started".into(), acp_session_id, ..Event::default() });
        true
    }

    /// Cancels a turn: its requests are answered `cancelled`, then the agent hears of it, in one write.
    pub(super) fn cancel_turn(&mut self, acp_session_id: Option<String>) -> Result<CancelResult, Failure> {
        let acp_session_id = self.acp_session(acp_session_id)?;
        let cancelled = self.end_requests("turn_cancelled", |_, _| true, |table| table.cancel_session(&acp_session_id));
        let cancel = message::session_cancel(&acp_session_id);
        // A cancel must not overtake the prompt that it cancels.
        if self.outbox.has_unsent_bulk() {
            self.outbox.push_bulk(cancel);
        } else {
            self.outbox.push_urgent(cancel, None);
        }
        let turn_running = self.turn_cancelled(&acp_session_id);
        self.flush();
        Ok(CancelResult { turn_running, cancelled })
    }

    /// The turn of an acp session, if one runs, is to end soon.
    pub(super) fn turn_cancelled(&mut self, acp_session_id: &str) -> bool {
        let turn = self.turns.get_mut(acp_session_id);
        let running = turn.is_some();
        if let Some(turn) = turn {
            turn.cancelled = true;
            turn.deadline.get_or_insert(Instant::now() + CANCEL_WAIT);
        }
        running
    }

    /// The agent answered `session/prompt`.
    pub(super) fn turn_answered(&mut self, acp_session_id: &str, outcome: Result<&RawValue, &RawValue>) {
        self.end_requests("turn_ended", |table, id| table.is_of_turn(id, acp_session_id), |table| table.end_turn(acp_session_id));
        let stop_reason = outcome.ok().and_then(|result| message::member(result, "stopReason"));
        self.witness_turn_ended(acp_session_id, stop_reason.as_deref());
        self.flush();
        let result = match outcome.map(|_| stop_reason) {
            Ok(Some(reason)) => Ok(self.redactor.text(&reason).text),
            Ok(None) => Err(Failure::because(Code::PromptFailed, "The agent's answer to `session/prompt` names no stop reason.")),
            Err(error) => Err(self.agent_error(Code::PromptFailed, "session/prompt", error)),
        };
        self.tell(
            Topic::Session,
            Event {
                event_type: "turn_ended".into(),
                acp_session_id: Some(acp_session_id.to_owned()),
                stop_reason: result.as_ref().ok().cloned(),
                reason: result.as_ref().err().map(|failure| failure.message.clone()),
                ..Event::default()
            },
        );
        if let Some(turn) = self.turns.remove(acp_session_id) {
            turn.end(result);
        }
        if self.is_wedged() && self.stdin.is_some() && !self.turns.values().any(|turn| turn.overdue) {
            self.set_state(State::Running, None);
        }
    }

    pub(super) fn turn_timers(&mut self, now: Instant) {
        let mut overdue = false;
        for turn in self.turns.values_mut() {
            let late = turn.deadline.take_if(|deadline| *deadline <= now).is_some();
            turn.overdue |= late;
            overdue |= late;
        }
        if overdue && !self.stop.is_begun() {
            let reason = format!("a cancelled turn did not end within {} s", CANCEL_WAIT.as_secs());
            self.set_state(State::Wedged, Some(reason));
        }
    }

    /// The acp session that a caller means.
    pub(super) fn acp_session(&self, given: Option<String>) -> Result<String, Failure> {
        if self.editor.is_some() {
            return Err(Code::ExecutionProxied.into());
        }
        if self.stop.is_begun() || self.stdin.is_none() || !self.is_open() {
            return Err(Failure::because(Code::NoLiveExecution, "The execution is ending."));
        }
        let opened = self.exec.status.lock().acp_session_id.clone();
        let opened = opened.ok_or_else(|| Failure::because(Code::SessionBusy, "The agent is still starting."))?;
        Ok(given.unwrap_or(opened))
    }
}
