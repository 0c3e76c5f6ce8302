//! Claims whose outcome is not known yet: who waits for it, and how they end without a delivery.

use std::collections::HashMap;
use std::sync::Arc;

use acp_bridge::outbox::TakeBack;
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::request::Request;
use super::task::Task;
use super::{Choice, ResolveError};
use crate::audit::{self, Ending};
use crate::code::Code;
use crate::domain::{Actor, ClaimResult, End};
use crate::permission::{Delivery, Table};
use crate::wire::{Event, Failure, ResolveResult, State, Topic};

/// The claims of this execution whose outcome is not known yet.
#[derive(Debug, Default)]
pub(super) struct Claims(pub(super) HashMap<Uuid, InFlight>);

#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) choice: Choice,
    pub(super) actor: Actor,
    pub(super) option_kind: Box<RawValue>,
    pub(super) answerer: Answerer,
    /// When its frame is taken back if nothing of it was written.
    pub(super) deadline: Option<Instant>,
}

/// Who hears what became of a claim.
#[derive(Debug)]
pub(super) enum Answerer {
    /// A caller of the socket.
    Caller(oneshot::Sender<Result<ResolveResult, ResolveError>>),
    /// The editor, whose own frame this is.
    Editor(Bytes),
}

impl Claims {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.0.values().filter_map(|claim| claim.deadline).min()
    }
}

impl Task {
    /// Nothing of an answer was written for too long: it is taken back. A part of it: nobody can know.
    pub(super) fn delivery_timers(&mut self, now: Instant) {
        let overdue: Vec<Uuid> = self.claims.0.iter().filter(|(_, c)| c.deadline.is_some_and(|d| d <= now)).map(|(id, _)| *id).collect();
        for claim_id in overdue {
            match self.outbox.take_back(|delivery: &Delivery| delivery.claim_id() == claim_id) {
                TakeBack::Taken(delivery) => {
                    self.table.put_back(delivery);
                    let failure = Failure::because(Code::PermissionDeliveryFailed, "The agent does not read its stdin; nothing was sent.");
                    self.finish_claim(claim_id, ClaimResult::Failed, None);
                    self.release(claim_id, failure);
                }
                TakeBack::Partial => {
                    self.set_state(State::Wedged, Some("the agent stopped reading within an answer".into()));
                    self.stdin = None;
                    self.give_up_writing(ClaimResult::Failed, "stdin_stuck");
                }
                TakeBack::Absent => drop(self.claims.0.get_mut(&claim_id).and_then(|claim| claim.deadline.take())),
            }
        }
    }

    /// Takes answers back that are not yet with the kernel; returns request and claim of each. An editor's answer keeps its
    /// place among the editor's frames, so it is taken back only where `in_order_too` says that its request ends.
    pub(super) fn take_back(&mut self, in_order_too: impl Fn(&Table<Arc<Request>>, Uuid) -> bool) -> Vec<(Uuid, Uuid)> {
        let Self { outbox, table, .. } = self;
        let taken = outbox.take_back_all(|delivery: &Delivery| in_order_too(table, delivery.request_id()));
        let mut back = Vec::with_capacity(taken.len());
        for delivery in taken {
            back.push((delivery.request_id(), delivery.claim_id()));
            table.put_back(delivery);
        }
        back
    }

    /// Abandons the outbox: answers of which nothing was written end with `unwritten`, one of which a part was is
    /// `indeterminate`, and every live request expires.
    pub(super) fn give_up_writing(&mut self, unwritten: ClaimResult, reason: &'static str) {
        let (partial, rest) = self.outbox.abandon();
        if let Some(delivery) = partial {
            self.stdin = None;
            self.undeliverable(&delivery, ClaimResult::Indeterminate, reason);
        }
        for delivery in rest {
            self.undeliverable(&delivery, unwritten, reason);
        }
        let ended = self.table.expire_all();
        self.settle(Vec::new(), ended, reason);
    }

    pub(super) fn undeliverable(&mut self, delivery: &Delivery, result: ClaimResult, reason: &'static str) {
        let ended = self.table.undeliverable(delivery);
        self.witness.ended(delivery.request_id(), false);
        self.claim_failed(delivery.claim_id(), result, Some(End::Expired), Some(reason));
        if let Some(ended) = ended {
            let event = self.event("expired", &ended.shown);
            self.tell(Topic::Permission, Event { reason: Some(reason.into()), ..event });
        }
    }

    /// A claim that delivers nothing (any more): its caller is told.
    pub(super) fn claim_failed(&mut self, claim_id: Uuid, result: ClaimResult, end: Option<End>, ending: Option<&'static str>) {
        self.finish_claim(claim_id, result, end.and_then(|end| Some(Ending { end, reason: ending?.into() })));
        if let Some(claim) = self.claims.0.remove(&claim_id) {
            let failure = Failure::of(Code::PermissionDeliveryFailed).with(|data| data.end = end);
            self.tell_failure(claim, failure);
        }
    }

    pub(super) fn finish_claim(&self, claim_id: Uuid, result: ClaimResult, ending: Option<Ending>) {
        let Some(claim) = self.claims.0.get(&claim_id) else { return };
        let request_id = claim.choice.request_id;
        self.hub.audit.finish(audit::Finish { claim_id, request_id, result, ending, at: Timestamp::now() }, move |outcome| {
            if let Err(error) = outcome {
                tracing::warn!(%request_id, "the end of a claim could not be recorded: {error}");
            }
        });
    }

    /// `resolving` -> `pending`: nothing was sent; the caller is told why.
    pub(super) fn release(&mut self, claim_id: Uuid, failure: Failure) {
        let Some(claim) = self.claims.0.remove(&claim_id) else { return };
        if self.table.release(claim.choice.request_id, claim_id)
            && let Some(request) = self.table.get(claim.choice.request_id)
        {
            self.tell(Topic::Permission, self.event("pending", request));
        }
        self.tell_failure(claim, failure);
    }

    fn tell_failure(&self, claim: InFlight, failure: Failure) {
        match claim.answerer {
            Answerer::Caller(reply) => drop(reply.send(Err(ResolveError::Failed(failure)))),
            Answerer::Editor(_) => {
                self.report(format!("the editor's answer to a permission request was not given to the agent: {}", failure.message))
            }
        }
    }
}
