//! Retention: what ended long ago goes, in small steps.

use super::limits::{Limits, PRUNE_STEP};
use super::txn;
use crate::domain::timestamp_text;
use jiff::Timestamp;
use rusqlite::{Connection, params};

/// Removes at most one step's worth of requests that ended before the limit, or that are too many. Returns how many.
///
/// Never one that is open or has a claim on its way.
pub(super) fn prune(conn: &Connection, limits: &Limits, requests: u64, now: Timestamp) -> Result<u64, rusqlite::Error> {
    // Before the first possible time nothing ended.
    let Ok(oldest) = now.checked_sub(limits.max_age) else { return Ok(0) };
    let oldest = timestamp_text(oldest);
    let surplus = requests.saturating_sub(limits.max_requests).min(u64::from(PRUNE_STEP));
    txn::exec(conn, "BEGIN IMMEDIATE")?;
    let pruned = step(conn, &oldest, surplus as i64).and_then(|pruned| txn::exec(conn, "COMMIT").map(|()| pruned));
    if pruned.is_err() {
        txn::roll_back(conn);
    }
    pruned
}

fn step(conn: &Connection, oldest: &str, surplus: i64) -> Result<u64, rusqlite::Error> {
    const ENDED: &str = "SELECT request_id, ended_at FROM requests WHERE ended_at IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM resolutions r WHERE r.request_id = requests.request_id AND r.result = 'dispatching')
        ORDER BY ended_at LIMIT ?1";
    let candidates = conn
        .prepare_cached(ENDED)?
        .query_map([PRUNE_STEP], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?
        .collect::<Result<Vec<_>, _>>()?;
    let mut pruned = 0;
    for (request_id, ended_at) in &candidates {
        if pruned >= surplus && ended_at.as_str() >= oldest {
            break;
        }
        for sql in [
            "DELETE FROM resolutions WHERE request_id = ?1",
            "DELETE FROM failed_attempts WHERE request_id = ?1",
            "DELETE FROM requests WHERE request_id = ?1",
        ] {
            conn.prepare_cached(sql)?.execute([request_id])?;
        }
        pruned += 1;
    }
    conn.prepare_cached("DELETE FROM executions WHERE ended_at < ?1")?.execute(params![oldest])?;
    Ok(pruned.unsigned_abs())
}

/// How many requests there are.
pub(super) fn count(conn: &Connection) -> Result<u64, rusqlite::Error> {
    conn.query_row("SELECT count(*) FROM requests", [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}
