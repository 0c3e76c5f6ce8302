//! The connection and its owner's memory: transactions and failures.

mod maintain;

use super::backlog::Backlog;
use super::counters::{Shared, add};
use super::error::{AuditError, ClaimError, Severity, severity};
use super::faults::{self, Points};
use super::limits::Limits;
use super::op::{Change, ClaimOp};
use super::schedule::Schedule;
use super::txn::{self, Failure};
use super::write::{self, Budget, Context};
use super::{file, retain};
use crate::domain::{ClaimResult, timestamp_text};
use jiff::Timestamp;
use parking_lot::Mutex;
use rusqlite::Connection;
use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use uuid::Uuid;

/// What a COMMIT, or the flush after it, forces to disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sync {
    /// The log, at once.
    Full,
    /// Nothing but the header of a log that begins anew.
    Normal,
}

fn set_sync(conn: &Connection, current: &mut Sync, wanted: Sync) -> Result<(), rusqlite::Error> {
    if *current != wanted {
        txn::exec(
            conn,
            match wanted {
                Sync::Full => "PRAGMA synchronous=FULL",
                Sync::Normal => "PRAGMA synchronous=NORMAL",
            },
        )?;
        *current = wanted;
    }
    Ok(())
}

/// Owned by the audit thread.
pub(super) struct Store {
    path: PathBuf,
    /// Device and inode of the file that was opened first.
    identity: Option<(u64, u64)>,
    limits: Limits,
    shared: Arc<Shared>,
    /// Held while the file is opened for reading or opened again: all connections are closed then.
    files: Arc<Mutex<()>>,
    /// `None` after an I/O error, until the file was opened and checked again.
    conn: Option<Connection>,
    sync: Sync,
    /// Claims in the transaction that is being written, whose callers know nothing yet.
    in_flight: VecDeque<(Uuid, Uuid)>,
    /// Claims that may be on disk although their callers were told otherwise: they are made `failed` before any other is taken.
    doubtful: Vec<(Uuid, Uuid)>,
    backlog: Backlog,
    budget: Budget,
    requests: u64,
    pub(super) schedule: Schedule,
}

impl Store {
    pub(super) fn new(
        path: PathBuf,
        conn: Connection,
        limits: Limits,
        shared: Arc<Shared>,
        files: Arc<Mutex<()>>,
    ) -> Result<Self, rusqlite::Error> {
        let requests = retain::count(&conn)?;
        shared.available.store(true, Relaxed);
        let mut store = Self {
            identity: file::identity(&path),

            path,
            limits,
            shared,
            files,
            conn: Some(conn),
            sync: Sync::Full,
            in_flight: VecDeque::new(),
            doubtful: Vec::new(),
            backlog: Backlog::default(),
            budget: Budget::default(),
            requests,
            schedule: Schedule::default(),
        };
        store.checkpoint();
        Ok(store)
    }

    /// The connection, opened again if need be.
    pub(super) fn ready(&mut self) -> Result<&Connection, String> {
        if self.conn.is_none() {
            self.reopen()?;
        }
        self.conn.as_ref().ok_or_else(|| "closed".to_owned())
    }

    fn reopen(&mut self) -> Result<(), String> {
        let files = Arc::clone(&self.files);
        let _nobody_reads = files.lock();
        let opened = file::reopen(&self.path).and_then(|conn| {
            self.sync = Sync::Full;
            let now = timestamp_text(Timestamp::now());
            txn::exec(&conn, "BEGIN IMMEDIATE")?;
            for (claim_id, request_id) in &self.doubtful {
                write::move_claim(&conn, *claim_id, *request_id, ClaimResult::Failed, &now)?;
            }
            txn::exec(&conn, "COMMIT")?;
            self.requests = retain::count(&conn)?;
            Ok(conn)
        });
        match opened {
            Ok(conn) => {
                self.doubtful.clear();
                self.conn = Some(conn);
                add(&self.shared.reopened, 1);
                self.shared.available.store(true, Relaxed);
                self.schedule.wrote(Instant::now(), 1);
                Ok(())
            }
            Err(error) => {
                let text = format!("it could not be opened again: {error}");
                self.failed(&text);
                Err(text)
            }
        }
    }

    fn failed(&mut self, text: &str) {
        self.shared.available.store(false, Relaxed);
        self.shared.error(text);
        self.schedule.retry(Instant::now());
    }

    /// Whatever failed: an I/O error is the end of this connection.
    fn judge(&mut self, error: rusqlite::Error) -> String {
        let text = error.to_string();
        if severity(&error) == Severity::Broken {
            self.drop_connection();
            self.failed(&text);
        } else {
            self.shared.error(&text);
        }
        text
    }

    /// Reads something small on the audit thread.
    pub(super) fn read<T>(&mut self, read: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>) -> Result<T, String> {
        let result = read(self.ready()?);
        result.map_err(|error| self.judge(error))
    }

    /// Closes the connection for good, or until it is needed.
    fn drop_connection(&mut self) {
        let files = Arc::clone(&self.files);
        let _nobody_reads = files.lock();
        self.conn = None;
    }

    /// The connection, with its commits flushed in this way.
    fn ready_for(&mut self, sync: Sync) -> Result<&Connection, String> {
        self.ready()?;
        if let Some(conn) = &self.conn
            && let Err(error) = set_sync(conn, &mut self.sync, sync)
        {
            return Err(self.judge(error));
        }
        self.ready()
    }

    /// Everything but claims, and what an earlier turn could not write: one transaction, flushed later.
    ///
    /// While nothing can be written, the backlog alone is left to the timer: it must not hold up the claims behind it.
    pub(super) fn changes(&mut self, changes: Vec<Change>) {
        if !changes.is_empty() || self.shared.available.load(Relaxed) {
            self.write_changes(changes);
        }
    }

    fn write_changes(&mut self, changes: Vec<Change>) {
        let backlog = self.backlog.take(&self.shared);
        if changes.is_empty() && backlog.is_empty() {
            return;
        }
        let items: Vec<Change> = backlog.into_iter().map(Change::Row).chain(changes).collect();
        let finishes = items.iter().any(|item| matches!(item, Change::Finish(..)));
        if finishes {
            self.pass("finish.received");
        }
        let points = if finishes { &faults::FINISH } else { &faults::ROWS };
        // A row that has to wait makes the later rows of its request wait: the end of a request that isn't there is lost.
        let mut waiting = HashSet::new();
        let results = match self.write(Sync::Normal, points, &items, |conn, item, context| match item {
            Change::Row(row) if row.request().is_some_and(|request| waiting.contains(&request)) => Err(Failure::Behind),
            Change::Row(row) => write::row(conn, row, context).inspect_err(|failure| {
                if let Failure::Sqlite(error) = failure
                    && severity(error) != Severity::Row
                {
                    waiting.extend(row.request());
                }
            }),
            Change::Finish(finish, _) => write::finish(conn, finish),
        }) {
            Ok(results) => results,
            Err(text) => items.iter().map(|_| Err(Failure::InDoubt(text.clone()))).collect(),
        };
        for (item, result) in items.into_iter().zip(results) {
            self.settle(item, result);
        }
    }

    fn settle(&mut self, item: Change, result: Result<(), Failure>) {
        if let Err(Failure::Sqlite(error)) = &result {
            self.shared.error(&error.to_string());
        }
        match (item, result) {
            (Change::Row(_), Ok(())) => {}
            (Change::Row(row), Err(Failure::InDoubt(_) | Failure::Behind)) => self.backlog.keep(row, &self.limits, &self.shared),
            (Change::Row(row), Err(Failure::Sqlite(error))) if severity(&error) != Severity::Row => {
                self.backlog.keep(row, &self.limits, &self.shared);
            }
            (Change::Row(_), Err(_)) => add(&self.shared.rows_dropped, 1),
            (Change::Finish(_, done), result) => done.send(result.map_err(|failure| match failure {
                Failure::Refused | Failure::Behind => AuditError::Conflict,
                Failure::Sqlite(error) => AuditError::Unavailable(error.to_string()),
                Failure::InDoubt(text) => AuditError::Unavailable(text),
            })),
        }
        if !self.backlog.is_empty() {
            self.schedule.retry(Instant::now());
        }
    }

    /// All claims that wait: one transaction, one fsync, then the callers are told.
    pub(super) fn claims(&mut self, claims: Vec<ClaimOp>) {
        if claims.is_empty() {
            return;
        }
        self.pass("claim.received");
        self.in_flight = claims.iter().map(|op| (op.claim.claim_id, op.claim.request_id)).collect();
        let mut results = match self.write(Sync::Full, &faults::CLAIM, &claims, write::claim) {
            Ok(results) => results,
            Err(text) => claims.iter().map(|_| Err(Failure::Sqlite(file::failure(rusqlite::ffi::SQLITE_IOERR, &text)))).collect(),
        };
        if file::identity(&self.path) != self.identity {
            // What was written is in no file that a later daemon will find.
            let gone = || Err(Failure::InDoubt("the database file was removed or replaced; start the daemon again".to_owned()));
            results.iter_mut().filter(|result| result.is_ok()).for_each(|result| *result = gone());
            self.failed("the database file was removed or replaced");
        }
        for (op, result) in claims.into_iter().zip(results) {
            // From here on its caller decides: a claim that was told is never taken back.
            self.in_flight.pop_front();
            add(if result.is_ok() { &self.shared.claims } else { &self.shared.claims_refused }, 1);
            let result = result.map_err(|failure| match failure {
                Failure::Refused | Failure::Behind => ClaimError::AlreadyClaimed,
                Failure::Sqlite(error) => {
                    self.shared.error(&error.to_string());
                    ClaimError::Unavailable(error.to_string())
                }
                Failure::InDoubt(text) => {
                    self.doubtful.push((op.claim.claim_id, op.claim.request_id));
                    ClaimError::Unavailable(text)
                }
            });
            op.done.send(result);
        }
        if !self.doubtful.is_empty() {
            // Read back at once; if that fails, before the next claim.
            let _ = self.ready();
        }
    }

    /// Runs one transaction. `Err` if it could not even be tried.
    fn write<T>(
        &mut self,
        sync: Sync,
        points: &Points,
        items: &[T],
        mut apply: impl FnMut(&Connection, &T, &mut Context<'_>) -> Result<(), Failure>,
    ) -> Result<Vec<Result<(), Failure>>, String> {
        self.ready_for(sync)?;
        let Self { conn: Some(conn), limits, shared, budget, .. } = self else { return Err("closed".to_owned()) };
        let mut added = 0;
        let mut context = Context { limits, shared, budget, added: &mut added };
        let outcome = txn::run(conn, points, items, |conn, item| apply(conn, item, &mut context));
        self.requests += added;
        add(&self.shared.commits, outcome.commits);
        if outcome.broken {
            self.drop_connection();
            self.failed("the connection failed and is opened again");
        } else if outcome.commits > 0 {
            self.schedule.wrote(Instant::now(), items.len() as u64);
            if sync == Sync::Full {
                add(&self.shared.fsyncs, outcome.commits);
                self.schedule.flushed();
            }
        }
        let works = |result: &Result<(), Failure>| match result {
            Err(Failure::Sqlite(error)) => severity(error) == Severity::Row,
            Err(Failure::InDoubt(_) | Failure::Behind) => false,
            Ok(()) | Err(Failure::Refused) => true,
        };
        self.shared.available.store(!outcome.broken && outcome.results.iter().all(works), Relaxed);
        Ok(outcome.results)
    }

    fn pass(&self, name: &str) {
        if let Some(conn) = &self.conn {
            // These points only break the connection; what follows fails by itself.
            let _ = faults::pass(conn, name);
        }
    }

    /// After a panic: nothing in memory about the last transaction is trusted.
    pub(super) fn panicked(&mut self, text: &str) {
        add(&self.shared.panics, 1);
        self.doubtful.extend(self.in_flight.drain(..));
        if let Some(conn) = &self.conn {
            txn::roll_back(conn);
        }
        self.drop_connection();
        self.failed(&format!("the audit thread panicked: {text}"));
    }

    #[cfg(test)]
    pub(super) fn connection(&self) -> Option<&Connection> {
        self.conn.as_ref()
    }
}
