//! The points of [`failpoint`](crate::failpoint) inside the store, and what a fault does to its connection.

/// The points of one kind of transaction.
pub(super) struct Points {
    pub(super) before: &'static str,
    pub(super) before_commit: &'static str,
    pub(super) after_commit: &'static str,
}

pub(super) const ROWS: Points = Points { before: "rows.before", before_commit: "rows.before_commit", after_commit: "rows.after_commit" };
pub(super) const CLAIM: Points =
    Points { before: "claim.before", before_commit: "claim.before_commit", after_commit: "claim.after_commit" };
pub(super) const FINISH: Points =
    Points { before: "finish.before", before_commit: "finish.before_commit", after_commit: "finish.after_commit" };

/// Passes a point: `Err` if the step is to be taken as failed.
#[cfg(not(any(test, feature = "failpoints")))]
#[inline(always)]
pub(super) fn pass(_conn: &rusqlite::Connection, _name: &str) -> Result<(), rusqlite::Error> {
    Ok(())
}

#[cfg(any(test, feature = "failpoints"))]
pub(super) use active::pass;

#[cfg(any(test, feature = "failpoints"))]
mod active {
    use crate::failpoint::{Fault, hit};
    use rusqlite::Connection;
    use std::cell::RefCell;

    thread_local! {
        /// Holds the write lock for `locked`.
        static OTHER: RefCell<Option<Connection>> = const { RefCell::new(None) };
    }

    // Statements that may always allocate a page: the row alone could still fit into a page that is half empty.
    const GROW: &str = "
        CREATE TEMP TRIGGER IF NOT EXISTS failpoint_a BEFORE INSERT ON main.resolutions
            BEGIN INSERT OR REPLACE INTO meta VALUES ('failpoint', zeroblob(1048576)); END;
        CREATE TEMP TRIGGER IF NOT EXISTS failpoint_b BEFORE UPDATE ON main.resolutions
            BEGIN INSERT OR REPLACE INTO meta VALUES ('failpoint', zeroblob(1048576)); END;
        CREATE TEMP TRIGGER IF NOT EXISTS failpoint_c BEFORE INSERT ON main.requests
            BEGIN INSERT OR REPLACE INTO meta VALUES ('failpoint', zeroblob(1048576)); END;
        CREATE TEMP TRIGGER IF NOT EXISTS failpoint_d BEFORE UPDATE ON main.requests
            BEGIN INSERT OR REPLACE INTO meta VALUES ('failpoint', zeroblob(1048576)); END;";
    const HEAL: &str = "
        DROP TRIGGER IF EXISTS temp.failpoint_a; DROP TRIGGER IF EXISTS temp.failpoint_b;
        DROP TRIGGER IF EXISTS temp.failpoint_c; DROP TRIGGER IF EXISTS temp.failpoint_d;
        PRAGMA query_only=0;";

    pub(in crate::audit) fn pass(conn: &Connection, name: &str) -> Result<(), rusqlite::Error> {
        match hit(name) {
            Fault::None => Ok(()),
            Fault::Io => Err(super::super::file::failure(rusqlite::ffi::SQLITE_IOERR_FSYNC, "injected")),
            Fault::Full => {
                let pages: i64 = conn.query_row("PRAGMA page_count", [], |row| row.get(0))?;
                conn.query_row(&format!("PRAGMA max_page_count={pages}"), [], |_| Ok(()))?;
                conn.execute_batch(GROW)
            }
            Fault::ReadOnly => conn.pragma_update(None, "query_only", true),
            Fault::Locked => {
                if let Some(path) = conn.path()
                    && let Ok(other) = Connection::open(path)
                    && other.execute_batch("BEGIN IMMEDIATE").is_ok()
                {
                    OTHER.set(Some(other));
                }
                Ok(())
            }
            Fault::Heal => {
                OTHER.set(None);
                conn.execute_batch(HEAL)?;
                conn.query_row("PRAGMA max_page_count=4294967294", [], |_| Ok(()))
            }
        }
    }
}
