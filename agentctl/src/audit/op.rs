//! The messages to the audit thread.

use super::error::{AuditError, ClaimError, LOST};
use super::types::{ExecutionStarted, FailedAttempt, Finish, PastRequest, Query, RequestRow, WitnessPage, WitnessQuery};
use super::{Page, types::Ending};
use crate::domain::{Claim, SessionKey};
use jiff::Timestamp;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use uuid::Uuid;

/// An answer that can also be "lost".
pub(super) trait Lost {
    fn lost() -> Self;
}

impl<T> Lost for Result<T, ClaimError> {
    fn lost() -> Self {
        Err(ClaimError::Unavailable(LOST.to_owned()))
    }
}

impl<T> Lost for Result<T, AuditError> {
    fn lost() -> Self {
        Err(AuditError::Unavailable(LOST.to_owned()))
    }
}

impl Lost for () {
    fn lost() -> Self {}
}

/// A callback that is always called exactly once: if it is dropped instead, it is told that its answer was lost.
pub(super) struct Reply<T: Lost>(Option<Box<dyn FnOnce(T) + Send>>);

impl<T: Lost> Reply<T> {
    pub(super) fn new(done: impl FnOnce(T) + Send + 'static) -> Self {
        Self(Some(Box::new(done)))
    }

    pub(super) fn send(mut self, value: T) {
        self.call(value);
    }

    fn call(&mut self, value: T) {
        if let Some(done) = self.0.take() {
            // A callback's panic is its own: neither its neighbours nor the thread may suffer from it.
            if catch_unwind(AssertUnwindSafe(|| done(value))).is_err() {
                tracing::error!("a callback of the audit panicked");
            }
        }
    }
}

impl<T: Lost> Drop for Reply<T> {
    fn drop(&mut self) {
        self.call(T::lost());
    }
}

/// A row without a reply: kept and tried again if it can't be written.
#[derive(Debug, Clone)]
pub(super) enum Row {
    Session { session: SessionKey, task_id: String, at: Timestamp },
    ExecutionStarted(ExecutionStarted),
    ExecutionEnded { execution_id: Uuid, exit: String, at: Timestamp },
    Seen(Arc<RequestRow>),
    Ended { request_id: Uuid, ending: Ending, at: Timestamp },
    Attempt(FailedAttempt),
    Witness { execution_id: Uuid, counts: String, findings: String },
}

impl Row {
    /// The request that it belongs to: rows of one request keep their order.
    pub(super) fn request(&self) -> Option<Uuid> {
        match self {
            Self::Seen(row) => Some(row.request_id),
            Self::Ended { request_id, .. } => Some(*request_id),
            Self::Attempt(attempt) => Some(attempt.request_id),
            Self::Session { .. } | Self::ExecutionStarted(_) | Self::ExecutionEnded { .. } | Self::Witness { .. } => None,
        }
    }

    /// Whether it may be dropped when too many wait.
    pub(super) fn droppable(&self) -> bool {
        matches!(self, Self::Seen(_) | Self::Attempt(_))
    }

    /// Its bytes in memory, about.
    pub(super) fn weight(&self) -> usize {
        const FIXED: usize = 256;
        FIXED
            + match self {
                Self::Witness { counts, findings, .. } => counts.len() + findings.len(),
                Self::Session { session, task_id, .. } => session.owner.len() + session.session_id.len() + task_id.len(),
                Self::ExecutionStarted(e) => e.agent.len() + e.session.owner.len() + e.session.session_id.len(),
                Self::ExecutionEnded { exit, .. } => exit.len(),
                Self::Seen(row) => row.title.len() + row.action.len() + row.options.len() + row.pending_id.len() + row.task_id.len(),
                Self::Ended { ending, .. } => ending.reason.len(),
                Self::Attempt(a) => a.pending_id.len() + a.option_id.as_ref().map_or(0, String::len),
            }
    }
}

/// A claim on its way to the disk.
pub(super) struct ClaimOp {
    pub(super) claim: Claim,
    pub(super) row: Arc<RequestRow>,
    pub(super) done: Reply<Result<(), ClaimError>>,
}

/// Something that goes into the transaction of everything but claims.
pub(super) enum Change {
    Row(Row),
    Finish(Finish, Reply<Result<(), AuditError>>),
}

impl Change {
    pub(super) fn request(&self) -> Option<Uuid> {
        match self {
            Self::Row(row) => row.request(),
            Self::Finish(finish, _) => Some(finish.request_id),
        }
    }
}

/// Something that sees all that was submitted before it.
pub(super) enum Read {
    Lookup {
        session: SessionKey,
        task_id: String,
        request_id: Uuid,
        done: Reply<Result<Option<PastRequest>, AuditError>>,
    },
    List(List),
    Close(Reply<()>),
    #[cfg(test)]
    Poke(Box<dyn FnOnce(&mut super::store::Store) + Send>),
}

/// A list, which is made apart.
pub(super) enum List {
    Records(Query, Reply<Result<Page, AuditError>>),
    Witnessed(WitnessQuery, Reply<Result<WitnessPage, AuditError>>),
}

impl List {
    /// It is not made.
    pub(super) fn refuse(self, why: &str) {
        let error = AuditError::Unavailable(why.to_owned());
        match self {
            Self::Records(_, done) => done.send(Err(error)),
            Self::Witnessed(_, done) => done.send(Err(error)),
        }
    }
}

/// A message.
pub(super) enum Op {
    Change(Change),
    Claim(ClaimOp),
    Read(Read),
}
