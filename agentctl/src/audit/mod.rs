//! The audit: what was asked, who answered, what became of it. Durable, and never able to make anything answerable.
//!
//! [`Audit::open`] starts one thread that owns the database; [`Audit`] is a cheap handle to it. Nothing here is async:
//! an answer comes as a callback on the audit thread, which must not block and from which an async caller sends into a
//! channel. Each callback is called exactly once, whatever happens; if the thread is gone, with `Unavailable`.
//!
//! # How it works
//!
//! On each wake the thread writes everything but claims in one transaction that is flushed later, and replies. Then it
//! writes all claims that came meanwhile in one transaction with one fsync, each in a savepoint with its request row, and
//! replies. Nothing waits for company. The log is moved into the database when nothing was written for 100 ms, and at the
//! latest a second after the first commit that no fsync covers; a claim that comes in just then waits for it. Lookups run on
//! the thread, lists on a second one. Every bound stands in [`Limits`].
//!
//! # Invariants
//!
//! 1. A claim is on disk when its caller is told `Ok`; after any other answer it never counts, even if it is on disk.
//! 2. Of all claims of a request at most one counts (`dispatching`, `accepted`, `indeterminate`): an index sees to it.
//! 3. A claim leaves `dispatching` once.
//! 4. After an I/O error no claim is taken before the database was closed, opened, emptied of its log and checked, and
//!    every claim of unknown outcome was made `failed`.
//! 5. A failing row never takes its neighbours with it; a row that can't be written now is kept, bounded, and counted if lost.
//! 6. Messages of one request are applied in the order in which they were sent, and a read sees all that was sent before it.
//! 7. At start nothing of an earlier daemon stays `dispatching` or open.

mod backlog;
mod counters;
mod error;
mod faults;
mod file;
mod limits;
mod op;
mod plan;
mod read;
mod recover;
mod retain;
mod schedule;
mod store;
mod txn;
mod types;
mod write;
mod writer;

#[cfg(test)]
mod tests;

pub use counters::Counters;
pub use error::{AuditError, ClaimError, OpenError};
pub use file::{SCHEMA_VERSION, inspect};
pub use limits::{ATTEMPT_TEXT_BYTES, Limits};
pub use recover::DAEMON_RESTARTED;
pub use types::{
    Attempt, BadCursor, Cursor, Ended, Ending, ExecutionStarted, FailedAttempt, FailedAttempts, Finish, Page, PageSize, PastRequest, Query,
    Record, Recovered, RequestRow, Resolution, WitnessCursor, WitnessPage, WitnessQuery, Witnessed,
};

use crate::domain::{Claim, SessionKey};
use counters::{Shared, add};
use jiff::Timestamp;
use op::{Change, ClaimOp, List, Op, Read, Reply, Row};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Sender, channel};
use uuid::Uuid;

/// The handle. The thread ends when the last clone is gone, after all that was sent was done.
#[derive(Clone)]
pub struct Audit {
    queue: Sender<Op>,
    shared: Arc<Shared>,
    queued_rows: usize,
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}

impl Audit {
    /// Opens or creates `audit.db` in `dir`, which must exist and belong to one daemon at a time, and puts right what an
    /// earlier daemon left. Blocks; call it before the daemon is ready.
    ///
    /// # Errors
    /// A newer, foreign or damaged file, or a folder that can't be used. Nothing was changed then.
    pub fn open(dir: &Path, limits: Limits, now: Timestamp) -> Result<(Self, Recovered), OpenError> {
        let (path, conn) = file::open(dir)?;
        let recovered = recover::reconcile(&conn, now).map_err(|e| file::explain(&path, e))?;
        let shared = Arc::new(Shared::default());
        let files = Arc::new(Mutex::new(()));
        let queued_rows = limits.queued_rows;
        let store =
            store::Store::new(path.clone(), conn, limits, Arc::clone(&shared), Arc::clone(&files)).map_err(|e| file::explain(&path, e))?;
        let (queue, receiver) = channel();
        writer::start(store, receiver, Arc::clone(&shared), path.clone(), files).map_err(|source| OpenError::Io { path, source })?;
        Ok((Self { queue, shared, queued_rows }, recovered))
    }

    /// Records a task and a session of it. The first task of a session stays its task.
    pub fn session(&self, session: SessionKey, task_id: String, at: Timestamp) {
        self.row(Row::Session { session, task_id, at });
    }

    /// Records the start of an execution.
    pub fn execution_started(&self, started: ExecutionStarted) {
        self.row(Row::ExecutionStarted(started));
    }

    /// Records the end of an execution, with a safe text about it.
    pub fn execution_ended(&self, execution_id: Uuid, exit: String, at: Timestamp) {
        self.row(Row::ExecutionEnded { execution_id, exit, at });
    }

    /// Records a prompt, off the critical path.
    pub fn request_seen(&self, row: Arc<RequestRow>) {
        self.row(Row::Seen(row));
    }

    /// Records the end of a request that no claim ended. The first end stays.
    pub fn request_ended(&self, request_id: Uuid, ending: Ending, at: Timestamp) {
        self.row(Row::Ended { request_id, ending, at });
    }

    /// Records what the witness of an execution counted and found, as JSON, instead of what it recorded before.
    pub fn witness(&self, execution_id: Uuid, counts: String, findings: String) {
        self.row(Row::Witness { execution_id, counts, findings });
    }

    /// One page of what the witnesses of executions counted and found. `done` runs on the listing thread.
    pub fn witnessed(&self, query: WitnessQuery, done: impl FnOnce(Result<WitnessPage, AuditError>) + Send + 'static) {
        self.send(Op::Read(Read::List(List::Witnessed(query, Reply::new(done)))));
    }

    /// Records a refused call.
    pub fn attempt(&self, attempt: FailedAttempt) {
        self.row(Row::Attempt(attempt));
    }

    /// Makes a claim durable, and its request row if that isn't there yet. `done(Ok)` runs after the fsync.
    ///
    /// A caller that gave up meanwhile still gets its `Ok`: it must not deliver, and finishes the claim as `stale`.
    pub fn claim(&self, claim: Claim, row: Arc<RequestRow>, done: impl FnOnce(Result<(), ClaimError>) + Send + 'static) {
        debug_assert_eq!(claim.request_id, row.request_id);
        self.send(Op::Claim(ClaimOp { claim, row, done: Reply::new(done) }));
    }

    /// Records what became of a claim and, with it, the end of its request. `done(Ok)` runs after the commit; the flush
    /// follows within a second.
    ///
    /// Errors: [`AuditError::Conflict`] if the claim isn't `dispatching` (nothing is changed, the request's end neither).
    /// After [`AuditError::Unavailable`] it is `dispatching` and will be `indeterminate` at the next start.
    pub fn finish(&self, finish: Finish, done: impl FnOnce(Result<(), AuditError>) + Send + 'static) {
        self.send(Op::Change(Change::Finish(finish, Reply::new(done))));
    }

    /// What is known about a request that isn't live; `None` if it was never seen in this session and task.
    pub fn lookup(
        &self,
        session: SessionKey,
        task_id: String,
        request_id: Uuid,
        done: impl FnOnce(Result<Option<PastRequest>, AuditError>) + Send + 'static,
    ) {
        self.send(Op::Read(Read::Lookup { session, task_id, request_id, done: Reply::new(done) }));
    }

    /// One page of records. `done` runs on the listing thread.
    pub fn list(&self, query: Query, done: impl FnOnce(Result<Page, AuditError>) + Send + 'static) {
        self.send(Op::Read(Read::List(List::Records(query, Reply::new(done)))));
    }

    /// Ends the thread after all that was sent before, with everything flushed and the database closed. Also called if
    /// it has ended already. What is sent later is refused.
    pub fn close(&self, done: impl FnOnce() + Send + 'static) {
        self.send(Op::Read(Read::Close(Reply::new(|()| done()))));
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        self.shared.snapshot()
    }

    fn row(&self, row: Row) {
        if row.droppable() && self.shared.queued.fetch_add(1, Relaxed) >= self.queued_rows {
            self.shared.queued.fetch_sub(1, Relaxed);
            add(&self.shared.rows_dropped, 1);
            return;
        }
        self.send(Op::Change(Change::Row(row)));
    }

    fn send(&self, op: Op) {
        // A message that can't be sent is dropped here, and its callback is told.
        let _ = self.queue.send(op);
    }
}
