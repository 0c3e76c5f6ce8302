//! What the table tells its owner.

use uuid::Uuid;

use super::right::Right;
use crate::domain::End;

/// A request that is now live.
#[derive(Debug)]
pub struct Raised<P> {
    /// What its owner keeps of it.
    pub shown: P,
    /// The live request whose id it took over.
    pub replaced: Option<Ended<P>>,
}

/// A request that was never live: the right is to be answered `cancelled`.
#[derive(Debug)]
pub struct Refused<P> {
    /// Its right.
    pub right: Right,
    /// Why.
    pub why: Refusal,
    /// What its owner would have kept.
    pub shown: P,
    /// The live request whose id it took over.
    pub replaced: Option<Ended<P>>,
}

/// Why a request is not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its turn was cancelled.
    TurnCancelled,
    /// The execution has as many live requests as it may have.
    TooMany,
    /// The execution is being stopped.
    Stopped,
    /// It belongs to a session's history, which is told again.
    Replayed,
    /// Its session was given up for a new one.
    SessionReset,
}

/// A request that left the table.
#[derive(Debug)]
pub struct Ended<P> {
    /// Which.
    pub request_id: Uuid,
    /// How.
    pub end: End,
    /// The right to answer it, if its end says something to the agent and nobody else has it.
    pub right: Option<Right>,
    /// What its owner kept.
    pub shown: P,
}

/// A request that is now claimed.
#[derive(Debug, PartialEq, Eq)]
pub struct Begun {
    /// The position of the chosen option among the offered ones.
    pub option: usize,
}

/// Why a call did not change a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// No such request is live.
    NotLive,
    /// It is live under another `pending_id`.
    PendingIdDiffers,
    /// Another caller holds the claim.
    InProgress,
    /// No selectable option has this id.
    OptionNotOffered,
}
