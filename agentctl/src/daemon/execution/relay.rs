//! What passes between an editor and its agent: forwarded byte for byte, but for what the table decides.

use acp_bridge::envelope::{self, Message, Refusal};
use acp_bridge::id::RpcId;
use acp_bridge::message::{self, AgentInfo, Outcome, code};
use acp_bridge::prompt::MAX_ID_BYTES;
use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::Choice;
use super::claims::Answerer;
use super::editor::Asked;
use super::task::Task;
use crate::audit::FailedAttempt;
use crate::code::Code;
use crate::limits::EDITOR_ASKS;
use crate::permission::{Ended, Unanswered};
use crate::relay::{Answer, What};
use crate::wire::State;

impl Task {
    /// One whole line of the editor.
    pub(super) fn editor_line(&mut self, line: &[u8]) {
        match envelope::peek(line) {
            Ok(message) => {
                self.count(|c| c.editor_messages += 1);
                match message {
                    Message::Response { id, outcome } => return self.editor_answers(&id, outcome, line),
                    Message::Request { id, method, params } => self.editor_asks(id, &method, params),
                    Message::Notification { method, params } if method == "session/cancel" => self.editor_cancels(session_of(params)),
                    Message::Notification { .. } => {}
                }
                self.outbox.push_bulk(frame(line));
            }
            Err(refusal) => {
                self.count(|c| c.editor_dropped += 1);
                if matches!(refusal, Refusal::Unreadable | Refusal::Ambiguous(_)) {
                    self.report(format!("of the editor: {refusal}"));
                }
            }
        }
    }

    /// Turns and sessions are read from what the editor asks.
    fn editor_asks(&mut self, id: RpcId, method: &str, params: Option<&RawValue>) {
        if let Some(params) = params.filter(|_| message::names_servers(method)) {
            self.redactor = std::mem::take(&mut self.redactor).with_mcp_servers(params);
            *self.exec.redactor.lock() = self.redactor.clone();
        }
        let asked = match method {
            "initialize" => Asked::Initialize,
            "session/new" | "session/fork" => Asked::Session(None),
            "session/load" | "session/resume" => Asked::Session(session_of(params)),
            "session/prompt" => match session_of(params) {
                Some(session) if self.can_track() && self.begin_turn(&session, None) => Asked::Turn(session),
                _ => return,
            },
            // Acts like a cancel.
            "session/close" | "session/delete" => return self.editor_cancels(session_of(params)),
            _ => return,
        };
        if self.can_track()
            && let Some(editor) = &mut self.editor
        {
            editor.asked.insert(id, asked);
        }
    }

    /// Whether one more answer to the editor can be waited for.
    fn can_track(&self) -> bool {
        self.editor.as_ref().is_some_and(|editor| editor.asked.len() < EDITOR_ASKS)
    }

    /// The live requests of a session are answered `cancelled`, in the same write as the frame that follows. What the editor
    /// answered before its cancel stays before it.
    fn editor_cancels(&mut self, acp_session_id: Option<String>) {
        let Some(session) = acp_session_id else { return };
        self.end_requests("turn_cancelled", |_, _| false, |table| table.cancel_session(&session));
        self.turn_cancelled(&session);
    }

    /// The editor answers something that the agent asked.
    fn editor_answers(&mut self, id: &RpcId, outcome: Result<&RawValue, &RawValue>, line: &[u8]) {
        let Some(editor) = &mut self.editor else { return };
        let (what, rewrite) = match editor.ledger.answer(id) {
            Answer::To { what, rewrite } => (what, rewrite),
            Answer::Nothing | Answer::Late => return self.count(|c| c.editor_dropped += 1),
        };
        let answer = rewrite.and_then(|id| envelope::with_id(line, &id)).map_or_else(|| frame(line), |line| frame(&line));
        match what {
            What::Other => self.outbox.push_bulk(answer),
            What::Prompt(request_id) => self.editor_decides(request_id, outcome, answer),
        }
    }

    fn editor_decides(&mut self, request_id: Uuid, outcome: Result<&RawValue, &RawValue>, answer: Bytes) {
        let (Some(request), Some(editor)) = (self.table.get(request_id).cloned(), &self.editor) else { return };
        let (pending_id, actor) = (request.shown.pending_id.clone(), editor.actor.clone());
        let mut option = None;
        let (reason, verbatim) = match outcome.map(Outcome::read) {
            Ok(Outcome::Selected(option_id)) => {
                let choice = Choice { request_id, pending_id: pending_id.clone(), option_id: option_id.clone() };
                option = Some(option_id);
                match self.claim(choice, actor.clone(), Answerer::Editor(answer.clone())) {
                    Ok(claim_id) => {
                        if let Some(editor) = &mut self.editor {
                            editor.claim = Some(claim_id);
                        }
                        return;
                    }
                    Err((Unanswered::OptionNotOffered, _)) => ("editor_option_not_offered", false),
                    Err(_) => ("", false),
                }
            }
            Ok(Outcome::Cancelled) => ("cancelled_by_editor", true),
            Ok(Outcome::Malformed) => ("editor_answer_malformed", false),
            Err(_) => ("editor_answered_error", false),
        };
        let code = match self.table.cancel_request(request_id, &pending_id) {
            Ok(Ended { end, right, .. }) => {
                let answer = right.map(|right| if verbatim { right.spend(answer) } else { right.cancelled() });
                if let Some(answer) = answer {
                    // In its place among the editor's frames.
                    self.outbox.push_bulk(answer);
                }
                self.request_ended(request_id, end, &request, reason);
                if !verbatim {
                    self.report(format!(
                        "the editor's answer to a permission request can't be used ({reason}); the agent was told `cancelled`"
                    ));
                }
                (reason == "editor_option_not_offered").then_some(Code::PermissionOptionNotOffered)
            }
            Err(_) => {
                self.report("the editor's answer to a permission request came second; it was dropped".to_owned());
                Some(Code::PermissionResolutionInProgress)
            }
        };
        if let (Some(code), Some(_)) = (code, &option) {
            let session = self.exec.key.clone();
            let code = code.as_str();
            self.hub.audit.attempt(FailedAttempt { request_id, session, code, pending_id, option_id: option, actor, at: Timestamp::now() });
        }
    }

    /// Passes a request of the agent on to the editor. False if that is not possible.
    pub(super) fn ask_editor(&mut self, id: &RpcId, what: What, line: &[u8]) -> bool {
        let Some(editor) = &mut self.editor else { return false };
        match editor.ledger.ask(id, what) {
            Ok(None) => editor.send(line),
            Ok(Some(alias)) => editor.send(envelope::with_id(line, &alias).as_deref().unwrap_or_default()),
            Err(_) => {
                self.report("the editor owes too many answers; a request was not passed on to it".to_owned());
                return false;
            }
        }
        true
    }

    /// Passes a request on that only the editor can answer.
    pub(super) fn pass_request(&mut self, id: &RpcId, line: &[u8]) {
        self.replaced(id);
        if !self.ask_editor(id, What::Other, line) {
            self.refuse(id, code::INTERNAL_ERROR, "the editor owes too many answers");
        }
    }

    /// Passes a withdrawal on, under the id by which the editor knows what is withdrawn.
    pub(super) fn pass_withdrawal(&mut self, alias: Option<&RpcId>, line: &[u8]) {
        if let Some(editor) = &mut self.editor {
            match alias {
                None => editor.send(line),
                Some(id) => editor.send(message::cancel_request(id).trim_ascii_end()),
            }
        }
    }

    /// A request has ended: the editor's answer is not wanted any more. It is told, unless it knows.
    pub(super) fn close_for_editor(&mut self, request_id: Uuid, tell: bool) {
        if let Some(editor) = &mut self.editor
            && let Some(id) = editor.ledger.close(request_id).filter(|_| tell)
        {
            editor.send(message::cancel_request(&id).trim_ascii_end());
        }
    }

    /// The agent answered the editor.
    pub(super) fn agent_answered_editor(&mut self, id: &RpcId, outcome: Result<&RawValue, &RawValue>) {
        let Some(asked) = self.editor.as_mut().and_then(|editor| editor.asked.remove(id)) else { return };
        match asked {
            Asked::Turn(session) => self.turn_answered(&session, outcome),
            Asked::Initialize => {
                if let Ok(result) = outcome {
                    self.described(&AgentInfo::read(result));
                    self.set_state(State::Running, None);
                }
            }
            Asked::Session(given) => {
                let Ok(result) = outcome else { return };
                if let Some(session) = session_of(Some(result)).or(given) {
                    self.table.know_session(&session);
                    self.exec.status.lock().acp_session_id.get_or_insert(session);
                }
            }
        }
    }
}

/// The acp session that params or a result name.
fn session_of(raw: Option<&RawValue>) -> Option<String> {
    message::member(raw?, "sessionId").filter(|id| id.len() <= MAX_ID_BYTES)
}

/// A line with its newline.
fn frame(line: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(line.len() + 1);
    frame.put_slice(line);
    frame.put_u8(b'\n');
    frame.freeze()
}
