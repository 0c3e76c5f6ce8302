//! Permission requests: raised, listed, claimed, delivered, ended.

use std::sync::Arc;

use acp_bridge::id::RpcId;
use acp_bridge::message::code;
use acp_bridge::prompt::Prompt;
use jiff::Timestamp;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::claims::{Answerer, InFlight};
use super::request::{Listed, Request};
use super::task::Task;
use super::{Choice, Command, ResolveError};
use crate::audit::{self, ClaimError, Ending};
use crate::code::Code;
use crate::domain::{Actor, Claim, ClaimResult, End};
use crate::limits::DELIVERY_WAIT;
use crate::permission::{Delivery, Ended, Offer, Raised, Refusal, Table, Unanswered};
use crate::relay::What;
use crate::wire::{Event, EventResolution, Failure, Raw, ResolveResult, Topic};

impl Task {
    /// The agent asks. The request is registered before anything else is done.
    pub(super) fn permission_requested(&mut self, id: RpcId, params: Option<&RawValue>, line: &[u8]) {
        let prompt = match Prompt::read(params) {
            Ok(prompt) => prompt,
            Err(error) => {
                self.count(|c| c.prompts_invalid += 1);
                self.report(format!("a permission prompt was refused: {error}"));
                return self.refuse(&id, code::INVALID_PARAMS, &error.to_string());
            }
        };
        // Ordered by time: cheaper to index, and still unique.
        let request_id = Uuid::now_v7();
        let made_up = format!("agentctl-{}", Uuid::new_v4());
        let offers = prompt.options.iter().map(|o| Offer { option_id: o.id.clone(), selectable: o.selectable }).collect();
        let back = self.take_back(|table, older| table.by_agent_id(&id) == Some(older));
        let earlier = self.tools.get(prompt.acp_session_id.as_deref(), prompt.tool_call.id.as_deref());
        let (exec, redactor) = (&self.exec, &self.redactor);
        let keep = |pending_id: &str| Arc::new(Request::new(exec, redactor, request_id, pending_id, &prompt, earlier));
        let raised = self.table.raise(request_id, id.clone(), prompt.acp_session_id.clone(), offers, &made_up, keep);
        match raised {
            Ok(Raised { shown, replaced }) => {
                self.count(|c| c.prompts += 1);
                self.witness_asked(request_id, &prompt);
                self.settle(back, replaced.into_iter().collect(), "replaced_by_agent");
                let asked = self.ask_editor(&id, What::Prompt(request_id), line);
                let event = self.event("requested", &shown);
                let told = self.tell(Topic::Permission, Event { permission: Some(shown.shown.clone()), ..event });
                if told || asked {
                    self.witness.told(request_id);
                }
                self.hub.audit.request_seen(shown.row());
            }
            Err(refused) => {
                self.count(|c| c.prompts_refused += 1);
                self.witness_asked(request_id, &prompt);
                self.witness.ended(request_id, false);
                self.settle(back, refused.replaced.into_iter().collect(), "replaced_by_agent");
                // It sees what the agent wrote, and that it need not answer.
                self.ask_editor(&id, What::Prompt(request_id), line);
                self.close_for_editor(request_id, true);
                // Too many are only counted: an agent must not fill the disk with them.
                let reason = match refused.why {
                    Refusal::TurnCancelled => Some("turn_cancelled"),
                    Refusal::Stopped => Some("stopped"),
                    Refusal::Replayed => Some("replayed"),
                    Refusal::SessionReset => Some("session_reset"),
                    Refusal::TooMany => None,
                };
                if let Some(reason) = reason {
                    self.hub.audit.request_seen(refused.shown.row());
                    self.hub.audit.request_ended(request_id, Ending { end: End::Cancelled, reason: reason.into() }, Timestamp::now());
                }
                if self.outbox.urgent_bytes() > crate::limits::REFUSAL_BYTES {
                    self.count(|c| c.answers_dropped += 1);
                } else {
                    self.outbox.push_urgent(refused.right.cancelled(), None);
                }
            }
        }
        self.flush();
    }

    /// Every live request.
    pub(super) fn list(&mut self) -> Vec<Listed> {
        self.witness.listed();
        self.table.iter().map(|(_, is_resolving, request)| Listed { request: request.clone(), is_resolving }).collect()
    }

    /// A caller chose an option: steps 2 to 6 of resolving.
    pub(super) fn resolve(&mut self, choice: Choice, actor: Actor, reply: oneshot::Sender<Result<ResolveResult, ResolveError>>) {
        if let Err((unanswered, Answerer::Caller(reply))) = self.claim(choice, actor, Answerer::Caller(reply)) {
            let _ = reply.send(Err(ResolveError::Unanswered(unanswered)));
        }
    }

    /// Steps 3 to 6: the in-memory race, then the durable claim.
    pub(super) fn claim(&mut self, choice: Choice, actor: Actor, answerer: Answerer) -> Result<Uuid, (Unanswered, Answerer)> {
        let claim_id = Uuid::new_v4();
        let begun = match self.table.begin(choice.request_id, &choice.pending_id, &choice.option_id, claim_id) {
            Ok(begun) => begun,
            Err(unanswered) => return Err((unanswered, answerer)),
        };
        let Some(request) = self.table.get(choice.request_id).cloned() else { return Err((Unanswered::NotLive, answerer)) };
        let option_kind = request.shown.options.get(begun.option).map_or_else(|| RawValue::NULL.to_owned(), |o| o.kind.0.clone());
        let claim = Claim {
            claim_id,
            request_id: choice.request_id,
            pending_id: choice.pending_id.clone(),
            actor: actor.clone(),
            option_id: choice.option_id.clone(),
            option_kind: option_kind.get().to_owned(),
            selected_at: Timestamp::now(),
        };
        let exec = self.exec.clone();
        self.hub.audit.claim(claim, request.row(), move |result| {
            exec.send(Command::ClaimDone { claim_id, result });
        });
        let resolution = event_resolution(&actor, &choice.option_id, &option_kind);
        let event = self.event("resolving", &request);
        self.tell(Topic::Permission, Event { resolution: Some(resolution), ..event });
        self.claims.0.insert(claim_id, InFlight { choice, actor, option_kind, answerer, deadline: None });
        Ok(claim_id)
    }

    /// The claim is on disk, or is not: step 7.
    pub(super) fn claim_done(&mut self, claim_id: Uuid, result: Result<(), ClaimError>) {
        let Some(request_id) = self.claims.0.get(&claim_id).map(|claim| claim.choice.request_id) else { return };
        match result {
            Ok(()) => {
                self.deliver(request_id, claim_id);
                self.flush();
            }
            Err(error) => {
                tracing::warn!(%request_id, "a claim could not be recorded: {error}");
                let failure = Failure::because(Code::PermissionAuditFailed, format!("The answer could not be recorded: {error}"));
                self.release(claim_id, failure);
            }
        }
    }

    /// Gives the answer of a recorded claim to the writer, or finds that its request has ended.
    pub(super) fn deliver(&mut self, request_id: Uuid, claim_id: Uuid) {
        match self.table.take(request_id, claim_id) {
            Ok(right) => {
                crate::failpoint::hit("deliver.before");
                let Some(claim) = self.claims.0.get_mut(&claim_id) else { return };
                match &claim.answerer {
                    Answerer::Caller(_) => {
                        claim.deadline.get_or_insert(Instant::now() + DELIVERY_WAIT);
                        let (frame, delivery) = right.select(claim_id, &claim.choice.option_id);
                        self.outbox.push_urgent(frame, Some(delivery));
                    }
                    // It keeps its place among the editor's frames, as long as that takes.
                    Answerer::Editor(frame) => self.outbox.push_in_order(frame.clone(), Some(right.select_by(claim_id))),
                }
            }
            Err(end) => {
                let result = if end == End::Expired { ClaimResult::Expired } else { ClaimResult::Stale };
                self.claim_failed(claim_id, result, Some(end), None);
            }
        }
    }

    /// The answer was handed to the kernel in full.
    pub(super) fn delivered(&mut self, delivery: &Delivery) {
        let ended = self.table.delivered(delivery);
        let Some(claim) = self.claims.0.remove(&delivery.claim_id()) else { return };
        let InFlight { choice, actor, option_kind, answerer, .. } = claim;
        let resolution = event_resolution(&actor, &choice.option_id, &option_kind);
        let success = ResolveResult {
            task_id: self.exec.task_id.clone(),
            session_id: self.exec.key.session_id.clone(),
            request_id: choice.request_id.to_string(),
            pending_id: choice.pending_id,
            option_id: choice.option_id,
            option_kind: Raw(option_kind),
            source: actor.source,
            status: End::Resolved,
        };
        let finish = audit::Finish {
            claim_id: delivery.claim_id(),
            request_id: delivery.request_id(),
            result: ClaimResult::Accepted,
            ending: Some(Ending { end: End::Resolved, reason: "answered".into() }),
            at: Timestamp::now(),
        };
        self.hub.audit.finish(finish, move |result| {
            let Answerer::Caller(reply) = answerer else {
                return result.unwrap_or_else(|error| tracing::warn!("the end of an editor's claim could not be recorded: {error}"));
            };
            let _ = reply.send(result.map(|()| success).map_err(|error| {
                let text = format!("The answer was handed to the agent, but that could not be recorded: {error}");
                ResolveError::Failed(Failure::because(Code::PermissionAuditFailed, text))
            }));
        });
        self.witness.ended(delivery.request_id(), resolution.option_kind.0.get().starts_with("\"allow"));
        if let Some(ended) = ended {
            self.close_for_editor(ended.request_id, true);
            let event = self.event("resolved", &ended.shown);
            self.tell(Topic::Permission, Event { resolution: Some(resolution), ..event });
        }
    }

    /// A caller cancels one pending request.
    pub(super) fn cancel_request(&mut self, request_id: Uuid, pending_id: &str) -> Result<(), Unanswered> {
        let ended = self.table.cancel_request(request_id, pending_id)?;
        self.settle(Vec::new(), vec![ended], "cancelled_by_caller");
        self.flush();
        Ok(())
    }

    /// Ends requests by something that beats an undelivered claim. Answers that are not yet with the kernel are
    /// taken back for it, of the editor's only those to requests for which `in_order_too` holds; callers' answers whose
    /// request stays are queued again. Returns how many ended.
    pub(super) fn end_requests(
        &mut self,
        reason: &'static str,
        in_order_too: impl Fn(&Table<Arc<Request>>, Uuid) -> bool,
        end: impl FnOnce(&mut Table<Arc<Request>>) -> Vec<Ended<Arc<Request>>>,
    ) -> usize {
        let back = self.take_back(in_order_too);
        let ended = end(&mut self.table);
        let count = ended.len();
        self.settle(back, ended, reason);
        count
    }

    /// The execution's output has ended: nothing can be answered any more.
    pub(super) fn expire_requests(&mut self, reason: &'static str) {
        self.give_up_writing(ClaimResult::Expired, reason);
    }

    /// The execution is over: claims that the audit has not answered yet end behind their own record, unread.
    pub(super) fn end_claims(&mut self) {
        let claims: Vec<(Uuid, Uuid)> = self.claims.0.iter().map(|(id, claim)| (claim.choice.request_id, *id)).collect();
        for (request_id, claim_id) in claims {
            // Every request has ended, so each is told how.
            self.deliver(request_id, claim_id);
        }
    }

    /// The agent's stdin is gone: nothing can be answered any more.
    pub(super) fn stdin_gone(&mut self) {
        if !self.outbox.is_empty() || !self.table.is_empty() {
            self.give_up_writing(ClaimResult::Failed, "stdin_gone");
        }
        // What an editor closed has no meaning but its own: the agent may go on.
        let by_editor = self.editor.as_ref().is_some_and(|editor| editor.is_silent());
        if self.is_open() && !self.stop.is_begun() && !self.is_wedged() && !by_editor {
            self.drain("the agent closed its stdin");
        }
    }

    /// After a change of the table: answers what is to be answered, records and tells every end, and queues the
    /// answers again whose request is still there.
    pub(super) fn settle(&mut self, back: Vec<(Uuid, Uuid)>, ended: Vec<Ended<Arc<Request>>>, reason: &'static str) {
        for Ended { request_id, end, right, shown } in ended {
            match (right, end) {
                (Some(right), End::Withdrawn) => self.outbox.push_urgent(right.withdrawn(), None),
                (Some(right), _) => self.outbox.push_urgent(right.cancelled(), None),
                (None, _) => {}
            }
            self.request_ended(request_id, end, &shown, reason);
        }
        for (request_id, claim_id) in back {
            self.deliver(request_id, claim_id);
        }
    }

    /// Tells and records the end of a request that no answer was given to.
    pub(super) fn request_ended(&mut self, request_id: Uuid, end: End, request: &Request, reason: &'static str) {
        self.witness.ended(request_id, false);
        // The editor knows of its own cancel and sees the agent's withdrawal; after the end of the agent it sees that.
        self.close_for_editor(request_id, !matches!(end, End::Withdrawn | End::Expired) && reason != "turn_cancelled");
        let event = self.event(end.as_str(), request);
        self.tell(Topic::Permission, Event { reason: Some(reason.into()), ..event });
        self.hub.audit.request_ended(request_id, Ending { end, reason: reason.into() }, Timestamp::now());
    }

    /// The agent uses an id for something else than a prompt that can be listed.
    pub(super) fn replaced(&mut self, id: &RpcId) {
        let back = self.take_back(|table, older| table.by_agent_id(id) == Some(older));
        let ended = self.table.replace(id);
        self.settle(back, ended.into_iter().collect(), "replaced_by_agent");
        if let Some(editor) = &mut self.editor {
            editor.ledger.supersede(id);
        }
    }

    pub(super) fn event(&self, event_type: &str, request: &Request) -> Event {
        Event {
            event_type: event_type.into(),
            acp_session_id: request.shown.acp_session_id.clone(),
            request_id: Some(request.shown.request_id.clone()),
            pending_id: Some(request.shown.pending_id.clone()),
            ..Event::default()
        }
    }
}

fn event_resolution(actor: &Actor, option_id: &str, option_kind: &RawValue) -> EventResolution {
    EventResolution {
        actor_user_id: actor.user_id.clone(),
        actor_kind: actor.kind,
        source: actor.source,
        option_id: option_id.to_owned(),
        option_kind: Raw(option_kind.to_owned()),
    }
}
