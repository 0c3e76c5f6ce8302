//! What can happen to a table, and what becomes of a claim.

use crate::domain::End;

/// Something that can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    /// The agent asks, with this id (of two), in this session.
    Raise {
        id: u64,
        session: usize,
    },
    /// A caller chooses for the n-th request ever raised.
    Begin {
        request: usize,
        option: usize,
    },
    /// The n-th claim ever made is recorded, or is not.
    Recorded {
        claim: usize,
        ok: bool,
    },
    /// The writer writes everything.
    Write,
    /// The writer writes a part of the first answer.
    WritePart,
    /// Nothing of an answer was written for too long, or no more of it.
    Overdue,
    /// The agent takes a request back.
    Withdraw {
        id: u64,
    },
    /// A caller cancels the n-th request.
    CancelRequest {
        request: usize,
    },
    StartTurn,
    EndTurn,
    CancelSession,
    Stop,
    Expire,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Recording,
    Delivering,
    Accepted,
    Released,
    Beaten(End),
    Indeterminate,
}
