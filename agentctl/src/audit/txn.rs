//! Many items in one transaction, each in a savepoint of its own.

use super::error::{Severity, severity};
use super::faults::{self, Points};
use rusqlite::Connection;

/// Why one item was not written.
#[derive(Debug)]
pub(super) enum Failure {
    /// By a rule of ours: the claim or the end lost its compare-and-set.
    Refused,
    /// Not tried: an earlier row of the same request has to wait.
    Behind,
    /// By the database.
    Sqlite(rusqlite::Error),
    /// Nobody knows whether it was written.
    InDoubt(String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// What became of the items, by place, and of the connection.
pub(super) struct Outcome {
    pub(super) results: Vec<Result<(), Failure>>,
    /// Transactions that were committed.
    pub(super) commits: u64,
    /// The connection must not be used any more.
    pub(super) broken: bool,
}

/// Writes `items` by `apply`, in order. A failing item leaves its neighbours alone.
pub(super) fn run<T>(
    conn: &Connection,
    points: &Points,
    items: &[T],
    mut apply: impl FnMut(&Connection, &T) -> Result<(), Failure>,
) -> Outcome {
    let all: Vec<usize> = (0..items.len()).collect();
    let mut outcome = Outcome { results: Vec::new(), commits: 0, broken: false };
    match attempt(conn, points, items, &all, &mut apply) {
        Attempt::Committed(results) => {
            outcome.results = results;
            outcome.commits = 1;
        }
        Attempt::NotBegun(error) => {
            outcome.broken = severity(&error) == Severity::Broken;
            outcome.results = all.iter().map(|_| Err(Failure::Sqlite(copy(&error)))).collect();
        }
        Attempt::InDoubt(results, text) => {
            outcome.broken = true;
            outcome.results = doubt(results, &text);
        }
        // One item took the whole transaction with it: each of the others on its own.
        Attempt::Torn(torn, error) => {
            outcome.broken = severity(&error) == Severity::Broken;
            for i in all {
                let result = if i == torn || outcome.broken {
                    Err(Failure::Sqlite(copy(&error)))
                } else {
                    alone(conn, points, items, i, &mut apply, &mut outcome)
                };
                outcome.results.push(result);
            }
        }
    }
    outcome
}

fn alone<T>(
    conn: &Connection,
    points: &Points,
    items: &[T],
    i: usize,
    apply: &mut impl FnMut(&Connection, &T) -> Result<(), Failure>,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    match attempt(conn, points, items, &[i], apply) {
        Attempt::Committed(mut results) => {
            outcome.commits += 1;
            results.pop().unwrap_or(Ok(()))
        }
        Attempt::NotBegun(error) | Attempt::Torn(_, error) => {
            outcome.broken |= severity(&error) == Severity::Broken;
            Err(Failure::Sqlite(error))
        }
        Attempt::InDoubt(results, text) => {
            outcome.broken = true;
            doubt(results, &text).pop().unwrap_or(Ok(()))
        }
    }
}

fn doubt(results: Vec<Result<(), Failure>>, text: &str) -> Vec<Result<(), Failure>> {
    results.into_iter().map(|result| result.and_then(|()| Err(Failure::InDoubt(text.to_owned())))).collect()
}

enum Attempt {
    Committed(Vec<Result<(), Failure>>),
    NotBegun(rusqlite::Error),
    /// The transaction is gone because of this item.
    Torn(usize, rusqlite::Error),
    /// COMMIT failed.
    InDoubt(Vec<Result<(), Failure>>, String),
}

fn attempt<T>(
    conn: &Connection,
    points: &Points,
    items: &[T],
    which: &[usize],
    apply: &mut impl FnMut(&Connection, &T) -> Result<(), Failure>,
) -> Attempt {
    if let Err(error) = faults::pass(conn, points.before).and_then(|()| exec(conn, "BEGIN IMMEDIATE")) {
        return Attempt::NotBegun(error);
    }
    let mut results = Vec::with_capacity(which.len());
    for &i in which {
        match in_savepoint(conn, &items[i], apply) {
            Err(Failure::Sqlite(error)) if conn.is_autocommit() || severity(&error) == Severity::Broken => {
                roll_back(conn);
                return Attempt::Torn(i, error);
            }
            result => results.push(result),
        }
    }
    let committed =
        faults::pass(conn, points.before_commit).and_then(|()| exec(conn, "COMMIT")).and_then(|()| faults::pass(conn, points.after_commit));
    match committed {
        Ok(()) => Attempt::Committed(results),
        Err(error) => {
            roll_back(conn);
            Attempt::InDoubt(results, error.to_string())
        }
    }
}

fn in_savepoint<T>(conn: &Connection, item: &T, apply: &mut impl FnMut(&Connection, &T) -> Result<(), Failure>) -> Result<(), Failure> {
    exec(conn, "SAVEPOINT item")?;
    let result = apply(conn, item);
    if result.is_ok() {
        exec(conn, "RELEASE item")?;
    } else if !conn.is_autocommit() {
        exec(conn, "ROLLBACK TO item")?;
        exec(conn, "RELEASE item")?;
    }
    result
}

/// Ends whatever transaction is open.
pub(super) fn roll_back(conn: &Connection) {
    if !conn.is_autocommit()
        && let Err(error) = exec(conn, "ROLLBACK")
    {
        tracing::warn!(%error, "the audit could not roll back");
    }
}

pub(super) fn exec(conn: &Connection, sql: &str) -> Result<(), rusqlite::Error> {
    conn.prepare_cached(sql)?.execute([]).map(|_| ())
}

fn copy(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => rusqlite::Error::SqliteFailure(*code, text.clone()),
        other => super::file::failure(rusqlite::ffi::SQLITE_ERROR, &other.to_string()),
    }
}
