//! The table of one execution's live requests.

use std::collections::{HashMap, VecDeque};

use acp_bridge::id::RpcId;
use uuid::Uuid;

use super::outcome::{Begun, Ended, Raised, Refusal, Refused, Unanswered};
use super::right::{Delivery, Right};
use super::turns::{TurnId, Turns};
use crate::domain::End;
use crate::limits::RESET_SESSIONS;

/// One choice of a request, as far as the table decides by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Its exact id.
    pub option_id: String,
    /// Whether that id names exactly this option.
    pub selectable: bool,
}

/// The live requests of one execution. `P` is what its owner keeps of each for showing it.
#[derive(Debug)]
pub struct Table<P> {
    live: HashMap<Uuid, Entry<P>>,
    by_agent_id: HashMap<RpcId, Uuid>,
    by_pending_id: HashMap<String, Uuid>,
    /// Claims whose request ended under them, until their owner asks.
    orphaned: HashMap<Uuid, End>,
    turns: Turns,
    cap: usize,
    /// The execution is being stopped.
    stopped: bool,
    /// A session's history is being told.
    replaying: bool,
    /// Sessions that were given up, oldest first.
    given_up: VecDeque<String>,
}

#[derive(Debug)]
struct Entry<P> {
    agent_id: RpcId,
    pending_id: String,
    acp_session: Option<String>,
    turn: Option<TurnId>,
    offers: Vec<Offer>,
    state: State,
    shown: P,
}

#[derive(Debug)]
enum State {
    Pending(Right),
    /// A claim is being recorded, or is recorded and not yet with the writer.
    Claimed(Uuid, Right),
    /// The right is with the writer.
    Delivering(Uuid),
}

impl<P: Clone> Table<P> {
    /// An empty table for at most `cap` live requests.
    pub fn new(cap: usize) -> Self {
        Self {
            live: HashMap::new(),
            by_agent_id: HashMap::new(),
            by_pending_id: HashMap::new(),
            orphaned: HashMap::new(),
            turns: Turns::default(),
            cap,
            stopped: false,
            replaying: false,
            given_up: VecDeque::new(),
        }
    }

    /// Takes a request in. `request_id` is new; `made_up` names it where the agent's id can't; `show` makes what is
    /// kept of it, given the `pending_id` that names it to callers.
    ///
    /// Ends that beat an undelivered claim (this, [`withdraw`](Self::withdraw), [`cancel_session`](Self::cancel_session),
    /// [`end_turn`](Self::end_turn), [`cancel_all`](Self::cancel_all)) presume that their caller has
    /// [put back](Self::put_back) what the writer could give back.
    ///
    /// # Errors
    /// The request is not listed and is to be answered `cancelled`.
    pub fn raise(
        &mut self,
        request_id: Uuid,
        agent_id: RpcId,
        acp_session: Option<String>,
        offers: Vec<Offer>,
        made_up: &str,
        show: impl FnOnce(&str) -> P,
    ) -> Result<Raised<P>, Box<Refused<P>>> {
        let replaced = self.by_agent_id.get(&agent_id).copied().and_then(|older| self.end_unless_delivering(older, End::Replaced));
        let pending_id = match agent_id.pending_text() {
            Some(text) if !self.by_pending_id.contains_key(text) => text.to_owned(),
            _ => made_up.to_owned(),
        };
        let shown = show(&pending_id);
        let right = Right::new(request_id, agent_id.clone());
        let turn = self.turns.of_request(acp_session.as_deref());
        let why = match turn {
            _ if self.stopped => Some(Refusal::Stopped),
            _ if self.replaying => Some(Refusal::Replayed),
            _ if acp_session.as_ref().is_some_and(|session| self.given_up.contains(session)) => Some(Refusal::SessionReset),
            Some(turn) if turn.cancelled => Some(Refusal::TurnCancelled),
            _ if self.live.len() >= self.cap => Some(Refusal::TooMany),
            _ => None,
        };
        if let Some(why) = why {
            return Err(Box::new(Refused { right, why, shown, replaced }));
        }
        self.by_agent_id.insert(agent_id.clone(), request_id);
        self.by_pending_id.insert(pending_id.clone(), request_id);
        let entry = Entry {
            agent_id,
            pending_id,
            acp_session,
            turn: turn.map(|turn| turn.id),
            offers,
            state: State::Pending(right),
            shown: shown.clone(),
        };
        self.live.insert(request_id, entry);
        Ok(Raised { shown, replaced })
    }

    /// `pending` -> `resolving`: the race between callers, won once.
    ///
    /// # Errors
    /// Nothing changed.
    pub fn begin(&mut self, request_id: Uuid, pending_id: &str, option_id: &str, claim_id: Uuid) -> Result<Begun, Unanswered> {
        let entry = self.pending(request_id, pending_id)?;
        let option = entry.offers.iter().position(|o| o.selectable && o.option_id == option_id).ok_or(Unanswered::OptionNotOffered)?;
        entry.claim(claim_id);
        Ok(Begun { option })
    }

    /// The claim could not be recorded, or nothing of its frame could be written and the writer gave the right
    /// back: `resolving` -> `pending`. False if the request had ended.
    pub fn release(&mut self, request_id: Uuid, claim_id: Uuid) -> bool {
        self.orphaned.remove(&claim_id);
        let Some(entry) = self.live.get_mut(&request_id) else { return false };
        let mut released = false;
        entry.replace_state(|state| match state {
            State::Claimed(claim, right) if claim == claim_id => {
                released = true;
                State::Pending(right)
            }
            state => state,
        });
        released
    }

    /// The claim is recorded: takes the right to answer, for the writer.
    ///
    /// # Errors
    /// The request ended before, in this way; there is nothing to send.
    pub fn take(&mut self, request_id: Uuid, claim_id: Uuid) -> Result<Right, End> {
        if let Some(end) = self.orphaned.remove(&claim_id) {
            return Err(end);
        }
        let entry = self.live.get_mut(&request_id).ok_or(End::Expired)?;
        let mut taken = None;
        entry.replace_state(|state| match state {
            State::Claimed(claim, right) if claim == claim_id => {
                taken = Some(right);
                State::Delivering(claim)
            }
            state => state,
        });
        taken.ok_or(End::Expired)
    }

    /// The writer gave the right back unused: the claim stands and the request can end otherwise.
    pub fn put_back(&mut self, delivery: Delivery) {
        let claim_id = delivery.claim_id();
        if let Some(entry) = self.live.get_mut(&delivery.request_id())
            && matches!(entry.state, State::Delivering(claim) if claim == claim_id)
        {
            entry.state = State::Claimed(claim_id, delivery.into_right());
        }
    }

    /// The frame was handed to the kernel in full.
    pub fn delivered(&mut self, delivery: &Delivery) -> Option<Ended<P>> {
        self.end_delivery(delivery, End::Resolved)
    }

    /// A part of the frame was written and no more can be, or the agent's stdin is gone.
    pub fn undeliverable(&mut self, delivery: &Delivery) -> Option<Ended<P>> {
        self.end_delivery(delivery, End::Expired)
    }

    /// The agent took the request back. Nothing, if it is unknown or its answer is on its way.
    pub fn withdraw(&mut self, agent_id: &RpcId) -> Option<Ended<P>> {
        let request_id = *self.by_agent_id.get(agent_id)?;
        self.end_unless_delivering(request_id, End::Withdrawn)
    }

    /// The agent used the id of a live request for something else than a prompt that can be read.
    pub fn replace(&mut self, agent_id: &RpcId) -> Option<Ended<P>> {
        let request_id = *self.by_agent_id.get(agent_id)?;
        self.end_unless_delivering(request_id, End::Replaced)
    }

    /// A caller cancels one pending request.
    ///
    /// # Errors
    /// Nothing changed.
    pub fn cancel_request(&mut self, request_id: Uuid, pending_id: &str) -> Result<Ended<P>, Unanswered> {
        self.pending(request_id, pending_id)?;
        self.end(request_id, End::Cancelled).ok_or(Unanswered::NotLive)
    }

    /// A session is about to be cancelled: ends its live requests and those of its running turn; later ones
    /// of that turn are refused until it ends.
    pub fn cancel_session(&mut self, acp_session: &str) -> Vec<Ended<P>> {
        let turn = self.turns.cancel(acp_session);
        self.end_all(End::Cancelled, |entry| entry.acp_session.as_deref() == Some(acp_session) || (turn.is_some() && entry.turn == turn))
    }

    /// A turn starts in an acp session, which is known from now on; `None` if one runs there.
    pub fn start_turn(&mut self, acp_session: &str) -> Option<TurnId> {
        self.turns.start(acp_session)
    }

    /// An acp session of ours.
    pub fn know_session(&mut self, acp_session: &str) {
        self.turns.know(acp_session);
    }

    /// Whether a session's history is being told: what asks meanwhile is history, too, and refused.
    pub fn replay(&mut self, replaying: bool) {
        self.replaying = replaying;
    }

    /// See [`replay`](Self::replay).
    pub fn is_replaying(&self) -> bool {
        self.replaying
    }

    /// A session without a running turn is given up for a new one: its live requests end, later ones are refused.
    pub fn give_up_session(&mut self, acp_session: &str) -> Vec<Ended<P>> {
        if self.given_up.len() == RESET_SESSIONS {
            self.given_up.pop_front();
        }
        self.given_up.push_back(acp_session.to_owned());
        self.end_all(End::Cancelled, |entry| entry.acp_session.as_deref() == Some(acp_session))
    }

    /// Whether a live request was raised during the running turn of an acp session.
    pub fn is_of_turn(&self, request_id: Uuid, acp_session: &str) -> bool {
        let turn = self.turns.running(acp_session);
        turn.is_some() && self.live.get(&request_id).is_some_and(|entry| entry.turn == turn)
    }

    /// The turn of an acp session has ended: so do the requests that were raised during it.
    pub fn end_turn(&mut self, acp_session: &str) -> Vec<Ended<P>> {
        match self.turns.end(acp_session) {
            Some(turn) => self.end_all(End::Cancelled, |entry| entry.turn == Some(turn)),
            None => Vec::new(),
        }
    }

    /// The execution is being stopped: every request ends, but for answers on their way; later ones are refused.
    pub fn cancel_all(&mut self) -> Vec<Ended<P>> {
        self.stopped = true;
        self.end_all(End::Cancelled, |_| true)
    }

    /// The execution has ended: nothing can be answered any more.
    pub fn expire_all(&mut self) -> Vec<Ended<P>> {
        let mut ids: Vec<Uuid> = self.live.keys().copied().collect();
        ids.sort_unstable();
        ids.into_iter().filter_map(|id| self.end(id, End::Expired)).collect()
    }

    /// The live requests: id, whether one is `resolving`, and what its owner kept.
    pub fn iter(&self) -> impl Iterator<Item = (Uuid, bool, &P)> {
        self.live.iter().map(|(id, entry)| (*id, !matches!(entry.state, State::Pending(_)), &entry.shown))
    }

    /// The live request that the agent means by an id.
    pub fn by_agent_id(&self, agent_id: &RpcId) -> Option<Uuid> {
        self.by_agent_id.get(agent_id).copied()
    }

    /// What the owner kept of a live request.
    pub fn get(&self, request_id: Uuid) -> Option<&P> {
        self.live.get(&request_id).map(|entry| &entry.shown)
    }

    /// How many requests are live.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Claims whose end is kept until their owner asks.
    #[cfg(test)]
    pub(super) fn orphaned(&self) -> usize {
        self.orphaned.len()
    }

    fn pending(&mut self, request_id: Uuid, pending_id: &str) -> Result<&mut Entry<P>, Unanswered> {
        let entry = self.live.get_mut(&request_id).ok_or(Unanswered::NotLive)?;
        if entry.pending_id != pending_id {
            return Err(Unanswered::PendingIdDiffers);
        }
        match entry.state {
            State::Pending(_) => Ok(entry),
            State::Claimed(..) | State::Delivering(_) => Err(Unanswered::InProgress),
        }
    }

    fn end_delivery(&mut self, delivery: &Delivery, end: End) -> Option<Ended<P>> {
        let entry = self.live.get(&delivery.request_id())?;
        matches!(entry.state, State::Delivering(claim) if claim == delivery.claim_id())
            .then(|| self.end(delivery.request_id(), end))
            .flatten()
    }

    fn end_all(&mut self, end: End, which: impl Fn(&Entry<P>) -> bool) -> Vec<Ended<P>> {
        let mut ids: Vec<Uuid> = self.live.iter().filter(|(_, entry)| which(entry)).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.into_iter().filter_map(|id| self.end_unless_delivering(id, end)).collect()
    }

    fn end_unless_delivering(&mut self, request_id: Uuid, end: End) -> Option<Ended<P>> {
        match self.live.get(&request_id)?.state {
            State::Delivering(_) => None,
            _ => self.end(request_id, end),
        }
    }

    /// The one place where a request leaves the table.
    fn end(&mut self, request_id: Uuid, end: End) -> Option<Ended<P>> {
        let entry = self.live.remove(&request_id)?;
        self.by_pending_id.remove(&entry.pending_id);
        // The id may already name a newer request, if this one's answer was on its way when it was reused.
        if self.by_agent_id.get(&entry.agent_id) == Some(&request_id) {
            self.by_agent_id.remove(&entry.agent_id);
        }
        let right = match entry.state {
            State::Pending(right) => Some(right),
            State::Claimed(claim, right) => {
                self.orphaned.insert(claim, end);
                Some(right)
            }
            State::Delivering(_) => None,
        };
        let right = right.filter(|_| matches!(end, End::Cancelled | End::Withdrawn));
        Some(Ended { request_id, end, right, shown: entry.shown })
    }
}

impl<P> Entry<P> {
    fn claim(&mut self, claim_id: Uuid) {
        self.replace_state(|state| match state {
            State::Pending(right) => State::Claimed(claim_id, right),
            state => state,
        });
    }

    fn replace_state(&mut self, change: impl FnOnce(State) -> State) {
        // A state of no claim stands in for the moment of the change.
        let state = std::mem::replace(&mut self.state, State::Delivering(Uuid::nil()));
        self.state = change(state);
    }
}
