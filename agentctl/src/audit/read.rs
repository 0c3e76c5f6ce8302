//! Every statement that reads.

use super::limits::PAGE_BYTES;
use super::types::{
    Attempt, Cursor, Ended, FailedAttempts, Page, PastRequest, Query, Record, Resolution, WitnessCursor, WitnessPage, WitnessQuery,
    Witnessed,
};
use crate::domain::{Actor, SessionKey};
use rusqlite::types::{Type, Value};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use std::str::FromStr;
use uuid::Uuid;

type Result<T> = std::result::Result<T, rusqlite::Error>;

const RESOLUTION: &str =
    "claim_id, actor_user_id, actor_kind, source, option_id, option_kind, selected_at, finalized_at, result FROM resolutions";

/// Step 8 of a resolve: what became of a request that isn't live.
pub(super) fn lookup(conn: &Connection, session: &SessionKey, task_id: &str, request_id: Uuid) -> Result<Option<PastRequest>> {
    let request_id = request_id.to_string();
    let found = conn
        .prepare_cached(
            "SELECT pending_id, \"end\" FROM requests WHERE request_id = ?1 AND owner = ?2 AND session_id = ?3 AND task_id = ?4",
        )?
        .query_row(params![request_id, session.owner, session.session_id, task_id], |row| {
            Ok(PastRequest { pending_id: row.get(0)?, end: optional(row, 1)?, resolution: None })
        })
        .optional()?;
    let Some(mut past) = found else { return Ok(None) };
    past.resolution = conn
        .prepare_cached(&format!("SELECT {RESOLUTION} WHERE request_id = ?1 AND result IN ('dispatching', 'accepted', 'indeterminate')"))?
        .query_row([&request_id], resolution)
        .optional()?;
    Ok(Some(past))
}

/// One page of what witnesses found, newest execution first.
pub(super) fn witnessed(conn: &Connection, query: &WitnessQuery) -> Result<WitnessPage> {
    let sql = "SELECT e.execution_id, s.task_id, e.session_id, e.started_at, e.witness, coalesce(e.findings, '[]')
        FROM executions e JOIN sessions s ON s.owner = e.owner AND s.session_id = e.session_id
        WHERE e.witness IS NOT NULL AND e.owner = ?1 AND (?2 IS NULL OR s.task_id = ?2) AND (?3 IS NULL OR e.session_id = ?3)
            AND (?4 IS NULL OR (e.started_at, e.execution_id) < (?4, ?5))
        ORDER BY e.started_at DESC, e.execution_id DESC LIMIT ?6";
    let row = |row: &Row<'_>| {
        Ok(Witnessed {
            execution_id: row.get(0)?,
            task_id: row.get(1)?,
            session_id: row.get(2)?,
            started_at: row.get(3)?,
            counts: row.get(4)?,
            findings: row.get(5)?,
        })
    };
    let (after, limit) = (query.cursor.as_ref(), query.limit.get() as usize);
    let (started_at, execution_id) = (after.map(|c| &c.started_at), after.map(|c| &c.execution_id));
    // One more, to know whether there is a next page.
    let values = params![query.owner, query.task_id, query.session_id, started_at, execution_id, query.limit.get() + 1];
    let (mut page, mut bytes) = (WitnessPage::default(), 0);
    for row in conn.prepare_cached(sql)?.query_map(values, row)? {
        let row = row?;
        if page.executions.len() == limit || bytes > PAGE_BYTES {
            let last = page.executions.last();
            page.next = last.map(|w| WitnessCursor { started_at: w.started_at.clone(), execution_id: w.execution_id.clone() });
            break;
        }
        bytes += row.counts.len() + row.findings.len();
        page.executions.push(row);
    }
    Ok(page)
}

/// One page of whole records, newest first, in one snapshot.
pub(super) fn list(conn: &Connection, query: &Query) -> Result<Page> {
    let snapshot = conn.unchecked_transaction()?;
    let mut sql = "SELECT id, request_id, execution_id, owner, task_id, session_id, acp_session_id, pending_id, tool_call_id, created_at,
        title, action, options, \"end\", ended_at, end_reason, failed_attempts FROM requests WHERE owner = ?"
        .to_owned();
    let mut values = vec![Value::from(query.owner.clone())];
    let limit = i64::from(query.limit.get());
    let conditions = [
        (" AND task_id = ?", query.task_id.clone().map(Value::from)),
        (" AND session_id = ?", query.session_id.clone().map(Value::from)),
        (" AND request_id = ?", query.request_id.map(|id| Value::from(id.to_string()))),
        (" AND id < ?", query.cursor.map(|cursor| Value::from(cursor.0))),
        // One more, to know whether there is a next page.
        (" ORDER BY id DESC LIMIT ?", Some(Value::from(limit + 1))),
    ];
    for (condition, value) in conditions {
        if let Some(value) = value {
            sql.push_str(condition);
            values.push(value);
        }
    }
    let mut rows: Vec<(i64, Record)> = Vec::new();
    let (mut bytes, mut next) = (0, None);
    for row in snapshot.prepare_cached(&sql)?.query_map(params_from_iter(values), record)? {
        let row = row?;
        if rows.len() as i64 == limit || bytes > PAGE_BYTES {
            next = rows.last().map(|(id, _)| Cursor(*id));
            break;
        }
        bytes += [&row.1.title, &row.1.action, &row.1.options].into_iter().flatten().map(String::len).sum::<usize>();
        rows.push(row);
    }
    let mut records = Vec::with_capacity(rows.len());
    for (_, mut record) in rows {
        let request_id = record.request_id.to_string();
        record.resolutions = snapshot
            .prepare_cached(&format!("SELECT {RESOLUTION} WHERE request_id = ?1 ORDER BY id"))?
            .query_map([&request_id], resolution)?
            .collect::<Result<_>>()?;
        if record.failed_attempts.count > 0 {
            record.failed_attempts.last = snapshot
                .prepare_cached(
                    "SELECT code, pending_id, option_id, actor_user_id, actor_kind, source, at FROM failed_attempts
                     WHERE request_id = ?1 ORDER BY slot",
                )?
                .query_map([&request_id], attempt)?
                .collect::<Result<_>>()?;
        }
        records.push(record);
    }
    Ok(Page { records, next })
}

/// Every session and its task.
pub(super) fn sessions(conn: &Connection) -> Result<Vec<(SessionKey, String)>> {
    conn.prepare("SELECT owner, session_id, task_id FROM sessions")?
        .query_map([], |row| Ok((SessionKey { owner: row.get(0)?, session_id: row.get(1)? }, row.get(2)?)))?
        .collect()
}

fn record(row: &Row<'_>) -> Result<(i64, Record)> {
    let ended = match optional(row, 13)? {
        Some(end) => Some(Ended { end, at: word(row, 14)?, reason: row.get(15)? }),
        None => None,
    };
    let record = Record {
        request_id: word(row, 1)?,
        execution_id: word(row, 2)?,
        session: SessionKey { owner: row.get(3)?, session_id: row.get(5)? },
        task_id: row.get(4)?,
        acp_session_id: row.get(6)?,
        pending_id: row.get(7)?,
        tool_call_id: row.get(8)?,
        created_at: word(row, 9)?,
        title: row.get(10)?,
        action: row.get(11)?,
        options: row.get(12)?,
        ended,
        resolutions: Vec::new(),
        failed_attempts: FailedAttempts { count: row.get::<_, i64>(16)?.unsigned_abs(), last: Vec::new() },
    };
    Ok((row.get(0)?, record))
}

fn resolution(row: &Row<'_>) -> Result<Resolution> {
    Ok(Resolution {
        claim_id: word(row, 0)?,
        actor: actor(row, 1)?,
        option_id: row.get(4)?,
        option_kind: row.get(5)?,
        selected_at: word(row, 6)?,
        finalized_at: optional(row, 7)?,
        result: word(row, 8)?,
    })
}

fn attempt(row: &Row<'_>) -> Result<Attempt> {
    Ok(Attempt { code: row.get(0)?, pending_id: row.get(1)?, option_id: row.get(2)?, actor: actor(row, 3)?, at: word(row, 6)? })
}

fn actor(row: &Row<'_>, from: usize) -> Result<Actor> {
    Ok(Actor { user_id: row.get(from)?, kind: word(row, from + 1)?, source: word(row, from + 2)? })
}

/// A column whose text is a value of ours.
fn word<T>(row: &Row<'_>, column: usize) -> Result<T>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    let text = row.get_ref(column)?.as_str()?;
    text.parse().map_err(|e| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(e)))
}

fn optional<T>(row: &Row<'_>, column: usize) -> Result<Option<T>>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    if row.get_ref(column)?.as_str_or_null()?.is_none() { Ok(None) } else { word(row, column).map(Some) }
}
