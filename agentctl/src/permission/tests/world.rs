//! A table with an owner and a writer that do what the real ones do, and the invariants checked at every step.

use std::collections::{BTreeMap, HashMap, HashSet};

use acp_bridge::id::RpcId;
use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::super::{Begun, Delivery, Ended, Offer, Refusal, Table, Unanswered};
use super::op::{Fate, Op};
use crate::domain::End;

/// The acp session that is known, and one that is not.
pub(super) const SESSIONS: [&str; 2] = ["known", "stranger"];
/// The options of every request; the last stands twice.
pub(super) const OPTIONS: [&str; 3] = ["allow", "reject", "twice"];

#[derive(Debug)]
pub(super) struct Claim {
    pub(super) request: usize,
    pub(super) option: usize,
    pub(super) fate: Fate,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: Uuid,
    agent_id: u64,
    pub(super) pending_id: String,
    pub(super) end: Option<End>,
    /// What the agent got for it.
    pub(super) answers: Vec<Value>,
}

pub(super) struct World {
    table: Table<usize>,
    pub(super) requests: Vec<Request>,
    pub(super) claims: Vec<Claim>,
    claim_ids: Vec<Uuid>,
    /// Answers that are with the writer.
    queue: Vec<(Value, Delivery)>,
    part: Option<(Value, Delivery)>,
    broken: bool,
    over: bool,
    stopped: bool,
    turn: Option<bool>,
    cap: usize,
}

impl World {
    pub(super) fn new(cap: usize) -> Self {
        let mut table = Table::new(cap);
        table.know_session(SESSIONS[0]);
        Self {
            table,
            requests: Vec::new(),
            claims: Vec::new(),
            claim_ids: Vec::new(),
            queue: Vec::new(),
            part: None,
            broken: false,
            over: false,
            stopped: false,
            turn: None,
            cap,
        }
    }

    /// Whether an event can happen and change something.
    pub(super) fn enabled(&self, op: Op) -> bool {
        match op {
            _ if self.over => {
                matches!(op, Op::Begin { request, .. } if request < self.requests.len())
                    || matches!(op, Op::Recorded { claim, .. } if self.is(claim, Fate::Recording))
            }
            Op::Raise { .. } | Op::Stop | Op::Expire => true,
            Op::Begin { request, .. } | Op::CancelRequest { request } => request < self.requests.len(),
            Op::Recorded { claim, .. } => self.is(claim, Fate::Recording),
            Op::Write => !self.broken && (self.part.is_some() || !self.queue.is_empty()),
            Op::WritePart => !self.broken && self.part.is_none() && !self.queue.is_empty(),
            Op::Overdue => self.part.is_some() || !self.queue.is_empty(),
            Op::Withdraw { .. } => !self.requests.is_empty(),
            Op::StartTurn => self.turn.is_none(),
            Op::EndTurn | Op::CancelSession => self.turn.is_some() || (op == Op::CancelSession && !self.requests.is_empty()),
        }
    }

    fn is(&self, claim: usize, fate: Fate) -> bool {
        self.claims.get(claim).is_some_and(|c| c.fate == fate)
    }

    /// Lets it happen, then checks every invariant.
    pub(super) fn step(&mut self, op: Op) {
        let newest: Vec<(usize, bool)> = self.table.iter().map(|(_, resolving, request)| (*request, resolving)).collect();
        match op {
            Op::Raise { id, session } => self.raise(id, session),
            Op::Begin { request, option } => self.begin(request, option, &newest),
            Op::Recorded { claim, ok: true } => self.deliver(claim),
            Op::Recorded { claim, ok: false } => {
                self.table.release(self.requests[self.claims[claim].request].id, self.claim_ids[claim]);
                self.claims[claim].fate = Fate::Released;
            }
            Op::Write => self.write(),
            Op::WritePart => self.part = Some(self.queue.remove(0)),
            Op::Overdue => self.overdue(),
            Op::Withdraw { id } => {
                let newest = self.requests.iter().rposition(|r| r.agent_id == id).filter(|n| self.requests[*n].end.is_none());
                self.ends(|table| table.withdraw(&RpcId::from_u64(id)).into_iter().collect());
                // An id names the newest request that has it; only an answer on its way can't be beaten.
                if let Some(newest) = newest {
                    let written = self.part.as_ref().is_some_and(|(_, delivery)| delivery.request_id() == self.requests[newest].id);
                    assert_eq!(self.requests[newest].end, (!written).then_some(End::Withdrawn));
                }
            }
            Op::CancelRequest { request } => {
                let (id, pending) = (self.requests[request].id, self.requests[request].pending_id.clone());
                if let Ok(ended) = self.table.cancel_request(id, &pending) {
                    self.ended(vec![ended]);
                }
            }
            Op::StartTurn => {
                assert!(self.table.start_turn(SESSIONS[0]).is_some());
                self.turn = Some(false);
            }
            Op::EndTurn => {
                self.ends(|table| table.end_turn(SESSIONS[0]));
                self.turn = None;
            }
            Op::CancelSession => {
                self.ends(|table| table.cancel_session(SESSIONS[0]));
                self.turn = self.turn.map(|_| true);
            }
            Op::Stop => {
                self.ends(Table::cancel_all);
                self.stopped = true;
            }
            Op::Expire => self.expire(),
        }
        self.check();
    }

    fn raise(&mut self, id: u64, session: usize) {
        let (number, request_id) = (self.requests.len(), Uuid::from_u128(1 + self.requests.len() as u128));
        let mut offers: Vec<Offer> = OPTIONS.iter().map(|o| Offer { option_id: (*o).into(), selectable: *o != "twice" }).collect();
        offers.push(Offer { option_id: "twice".into(), selectable: false });
        let back = self.take_back();
        let mut pending_id = String::new();
        let full = self.table.len();
        let made_up = format!("made-up-{number}");
        let raised = self.table.raise(request_id, RpcId::from_u64(id), Some(SESSIONS[session].into()), offers, &made_up, |pending| {
            pending_id = pending.to_owned();
            number
        });
        self.requests.push(Request { id: request_id, agent_id: id, pending_id, end: None, answers: Vec::new() });
        match raised {
            Ok(raised) => {
                assert!(self.turn != Some(true) && !self.stopped, "raised within a cancelled turn, or a stop");
                self.ended(raised.replaced.into_iter().collect());
            }
            Err(refused) => {
                match refused.why {
                    Refusal::TurnCancelled => assert_eq!(self.turn, Some(true)),
                    Refusal::TooMany => assert!(full >= self.cap),
                    Refusal::Stopped => assert!(self.stopped),
                    Refusal::Replayed | Refusal::SessionReset => panic!("nobody did that"),
                }
                self.ended(refused.replaced.into_iter().collect());
                self.requests[number].end = Some(End::Cancelled);
                self.answer(number, &refused.right.cancelled());
            }
        }
        self.requeue(back);
    }

    fn begin(&mut self, request: usize, option: usize, newest: &[(usize, bool)]) {
        let claim_id = Uuid::from_u128(1000 + self.claims.len() as u128);
        let (id, pending, end) = (self.requests[request].id, self.requests[request].pending_id.clone(), self.requests[request].end);
        assert_ne!(self.table.begin(id, "not-its-pending-id", OPTIONS[option], claim_id), Ok(Begun { option }));
        let outcome = self.table.begin(id, &pending, OPTIONS[option], claim_id);
        let resolving = newest.iter().find(|(number, _)| *number == request).map(|(_, resolving)| *resolving);
        let expected = match (end, resolving, OPTIONS[option]) {
            (Some(_), ..) | (_, None, _) => Err(Unanswered::NotLive),
            (_, Some(true), _) => Err(Unanswered::InProgress),
            (.., "twice") => Err(Unanswered::OptionNotOffered),
            _ => Ok(Begun { option }),
        };
        assert_eq!(outcome, expected, "begin of request {request}");
        if outcome.is_ok() {
            self.claims.push(Claim { request, option, fate: Fate::Recording });
            self.claim_ids.push(claim_id);
        }
        // Invariant 4: no other request changed.
        for (_, resolving, number) in self.table.iter().filter(|(_, _, number)| **number != request) {
            assert!(newest.contains(&(*number, resolving)), "a call for {request} changed {number}");
        }
    }

    /// A recorded claim: to the writer, or told how its request ended.
    fn deliver(&mut self, claim: usize) {
        let Claim { request, option, .. } = self.claims[claim];
        match self.table.take(self.requests[request].id, self.claim_ids[claim]) {
            Ok(right) => {
                let (frame, delivery) = right.select(self.claim_ids[claim], OPTIONS[option]);
                self.queue.push((serde_json::from_slice(&frame).unwrap(), delivery));
                self.claims[claim].fate = Fate::Delivering;
            }
            Err(end) => self.claims[claim].fate = Fate::Beaten(end),
        }
    }

    fn write(&mut self) {
        let queue: Vec<_> = self.part.take().into_iter().chain(std::mem::take(&mut self.queue)).collect();
        for (frame, delivery) in queue {
            let claim = self.claim_of(&delivery);
            self.claims[claim].fate = Fate::Accepted;
            let request = self.claims[claim].request;
            self.requests[request].answers.push(frame);
            let ended = self.table.delivered(&delivery);
            self.ended(ended.into_iter().collect());
        }
    }

    fn overdue(&mut self) {
        if let Some((frame, delivery)) = self.part.take() {
            // The agent has a part of it: nobody can know. Its stdin is of no use any more.
            let claim = self.claim_of(&delivery);
            self.claims[claim].fate = Fate::Indeterminate;
            let request = self.claims[claim].request;
            self.requests[request].answers.push(frame);
            let ended = self.table.undeliverable(&delivery);
            self.ended(ended.into_iter().collect());
            self.broken = true;
            return self.expire();
        }
        let (_, delivery) = self.queue.remove(0);
        let claim = self.claim_of(&delivery);
        self.table.put_back(delivery);
        assert!(self.table.release(self.requests[self.claims[claim].request].id, self.claim_ids[claim]));
        self.claims[claim].fate = Fate::Released;
    }

    fn expire(&mut self) {
        if let Some(part) = self.part.take() {
            let claim = self.claim_of(&part.1);
            self.claims[claim].fate = Fate::Indeterminate;
            let request = self.claims[claim].request;
            self.requests[request].answers.push(part.0);
            let ended = self.table.undeliverable(&part.1);
            self.ended(ended.into_iter().collect());
        }
        for (_, delivery) in std::mem::take(&mut self.queue) {
            let claim = self.claim_of(&delivery);
            self.claims[claim].fate = Fate::Beaten(End::Expired);
            let ended = self.table.undeliverable(&delivery);
            self.ended(ended.into_iter().collect());
        }
        let ended = self.table.expire_all();
        self.ended(ended);
        self.over = true;
    }

    /// An end that beats an undelivered claim.
    fn ends(&mut self, end: impl FnOnce(&mut Table<usize>) -> Vec<Ended<usize>>) {
        let back = self.take_back();
        let ended = end(&mut self.table);
        self.ended(ended);
        self.requeue(back);
    }

    fn take_back(&mut self) -> Vec<usize> {
        let queue = std::mem::take(&mut self.queue);
        let claims = queue.iter().map(|(_, delivery)| self.claim_of(delivery)).collect();
        queue.into_iter().for_each(|(_, delivery)| self.table.put_back(delivery));
        claims
    }

    fn requeue(&mut self, back: Vec<usize>) {
        back.into_iter().for_each(|claim| self.deliver(claim));
    }

    fn ended(&mut self, ended: Vec<Ended<usize>>) {
        for Ended { request_id, end, right, shown } in ended {
            assert_eq!(self.requests[shown].id, request_id);
            // Invariant 3.
            assert_eq!(self.requests[shown].end.replace(end), None, "request {shown} ended twice");
            match right {
                Some(right) if end == End::Withdrawn => self.answer(shown, &right.withdrawn()),
                Some(right) => {
                    assert_eq!(end, End::Cancelled);
                    self.answer(shown, &right.cancelled());
                }
                None => assert!(matches!(end, End::Resolved | End::Replaced | End::Expired)),
            }
        }
    }

    fn answer(&mut self, request: usize, frame: &[u8]) {
        self.requests[request].answers.push(serde_json::from_slice(frame).unwrap());
    }

    fn claim_of(&self, delivery: &Delivery) -> usize {
        self.claim_ids.iter().position(|id| *id == delivery.claim_id()).unwrap()
    }

    fn check(&self) {
        let live: HashSet<usize> = self.table.iter().map(|(_, _, number)| *number).collect();
        assert!(live.len() <= self.cap.max(1) + 1);
        let mut names = HashMap::new();
        for (number, request) in self.requests.iter().enumerate() {
            // Invariant 1.
            assert!(request.answers.len() <= 1, "request {number} got {:?}", request.answers);
            // Invariant 5.
            assert_ne!(live.contains(&number), request.end.is_some(), "request {number} is lost or both live and ended");
            if live.contains(&number) {
                assert_eq!(names.insert(&request.pending_id, number), None, "two live requests share a pending id");
            }
            self.check_answer(number, request);
        }
        // Invariant 6: at most one claim of a request counts, and none is left behind its end.
        let mut counting: BTreeMap<usize, usize> = BTreeMap::new();
        for claim in &self.claims {
            *counting.entry(claim.request).or_default() +=
                usize::from(matches!(claim.fate, Fate::Accepted | Fate::Indeterminate | Fate::Delivering));
            if let Fate::Beaten(end) = claim.fate {
                assert_eq!(self.requests[claim.request].end, Some(end), "a claim was told another end than its request's");
            }
        }
        assert!(counting.values().all(|n| *n <= 1), "{:?}", self.claims);
        let recording = self.claims.iter().filter(|c| c.fate == Fate::Recording).count();
        assert!(self.table.orphaned() <= recording, "a claim's end is kept for nobody");
    }

    /// Invariant 2, and that the answer is the one of its end.
    fn check_answer(&self, number: usize, request: &Request) {
        let Some(answer) = request.answers.first() else {
            return assert!(
                !matches!(request.end, Some(End::Resolved | End::Cancelled | End::Withdrawn)),
                "request {number} ended unanswered"
            );
        };
        let outcome = &answer["result"]["outcome"];
        if let Some(option) = outcome["optionId"].as_str() {
            let chosen = |c: &&Claim| c.request == number && matches!(c.fate, Fate::Accepted | Fate::Indeterminate);
            let claim = self.claims.iter().find(chosen).expect("an option that nobody chose");
            assert_eq!((option, option == "twice"), (OPTIONS[claim.option], false));
            let end = if claim.fate == Fate::Accepted { End::Resolved } else { End::Expired };
            assert_eq!(request.end, Some(end));
        } else if answer["error"]["code"] == -32800 {
            assert_eq!(request.end, Some(End::Withdrawn));
        } else {
            assert_eq!((outcome["outcome"].as_str(), request.end), (Some("cancelled"), Some(End::Cancelled)));
        }
    }
}

/// An id of the agent, as JSON.
pub(super) fn rpc_id(json: &str) -> RpcId {
    RpcId::from_raw(&serde_json::from_str::<Box<RawValue>>(json).unwrap()).unwrap()
}
