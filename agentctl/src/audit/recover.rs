//! Reconciliation at start: nothing of an earlier daemon is live, and nothing of it can be answered any more.

use super::types::Recovered;
use super::{read, txn};
use crate::domain::timestamp_text;
use jiff::Timestamp;
use rusqlite::Connection;

/// Why a row was ended by the start of a daemon.
pub const DAEMON_RESTARTED: &str = "daemon_restarted";

/// Puts right what an earlier daemon left, in one durable transaction.
pub(super) fn reconcile(conn: &Connection, now: Timestamp) -> Result<Recovered, rusqlite::Error> {
    txn::exec(conn, "BEGIN IMMEDIATE")?;
    let recovered = update(conn, &timestamp_text(now)).and_then(|recovered| txn::exec(conn, "COMMIT").map(|()| recovered));
    if recovered.is_err() {
        txn::roll_back(conn);
    }
    recovered
}

fn update(conn: &Connection, now: &str) -> Result<Recovered, rusqlite::Error> {
    let run = |sql: &str| conn.execute(sql, [now]).map(|rows| rows as u64);
    Ok(Recovered {
        indeterminate_claims: run("UPDATE resolutions SET result = 'indeterminate', finalized_at = ?1 WHERE result = 'dispatching'")?,
        // An end is written with its claim's, so this is for a database that lost something.
        resolved_requests: conn.execute(
            "UPDATE requests SET \"end\" = 'resolved', end_reason = ?1, ended_at = ?2 WHERE \"end\" IS NULL AND EXISTS (
                 SELECT 1 FROM resolutions WHERE resolutions.request_id = requests.request_id AND result = 'accepted')",
            [DAEMON_RESTARTED, now],
        )? as u64,
        expired_requests: conn.execute(
            "UPDATE requests SET \"end\" = 'expired', end_reason = ?1, ended_at = ?2 WHERE \"end\" IS NULL",
            [DAEMON_RESTARTED, now],
        )? as u64,
        ended_executions: conn.execute("UPDATE executions SET exit = ?1, ended_at = ?2 WHERE ended_at IS NULL", [DAEMON_RESTARTED, now])?
            as u64,
        sessions: read::sessions(conn)?,
    })
}
