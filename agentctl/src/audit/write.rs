//! Every statement that writes.

use super::counters::{Shared, add};
use super::limits::{ATTEMPT_TEXT_BYTES, Limits};
use super::op::{ClaimOp, Row};
use super::txn::Failure;
use super::types::{ExecutionStarted, FailedAttempt, Finish, RequestRow};
use crate::domain::{ClaimResult, timestamp_text};
use rusqlite::{Connection, ErrorCode, named_params, params};
use std::collections::HashMap;
use uuid::Uuid;

/// The bytes that each live execution has used.
#[derive(Debug, Default)]
pub(super) struct Budget(HashMap<Uuid, u64>);

impl Budget {
    /// Whether the texts of this row still fit.
    fn fits(&self, row: &RequestRow, limits: &Limits) -> bool {
        self.0.get(&row.execution_id).copied().unwrap_or(0) + Self::weight(row) <= limits.bytes_per_execution
    }

    fn spend(&mut self, row: &RequestRow) {
        *self.0.entry(row.execution_id).or_default() += Self::weight(row);
    }

    fn weight(row: &RequestRow) -> u64 {
        (row.title.len() + row.action.len() + row.options.len() + row.pending_id.len()) as u64
    }
}

/// What a write needs besides the connection.
pub(super) struct Context<'a> {
    pub(super) limits: &'a Limits,
    pub(super) shared: &'a Shared,
    pub(super) budget: &'a mut Budget,
    /// Request rows added, for the retention.
    pub(super) added: &'a mut u64,
}

pub(super) fn row(conn: &Connection, row: &Row, context: &mut Context<'_>) -> Result<(), Failure> {
    match row {
        Row::Session { session, task_id, at } => {
            let at = timestamp_text(*at);
            conn.prepare_cached("INSERT INTO tasks (owner, task_id, created_at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?
                .execute(params![session.owner, task_id, at])?;
            conn.prepare_cached(
                "INSERT INTO sessions (owner, session_id, task_id, created_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
            )?
            .execute(params![session.owner, session.session_id, task_id, at])?;
        }
        Row::ExecutionStarted(ExecutionStarted { execution_id, session, agent, pid, at }) => {
            conn.prepare_cached(
                "INSERT INTO executions (execution_id, owner, session_id, agent, pid, started_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT DO NOTHING",
            )?
            .execute(params![execution_id.to_string(), session.owner, session.session_id, agent, pid, timestamp_text(*at)])?;
        }
        Row::ExecutionEnded { execution_id, exit, at } => {
            context.budget.0.remove(execution_id);
            conn.prepare_cached("UPDATE executions SET ended_at = ?2, exit = ?3 WHERE execution_id = ?1 AND ended_at IS NULL")?
                .execute(params![execution_id.to_string(), timestamp_text(*at), exit])?;
        }
        Row::Seen(row) => request(conn, row, context)?,
        Row::Ended { request_id, ending, at } => {
            end_request(conn, *request_id, ending.end.as_str(), &ending.reason, &timestamp_text(*at))?;
        }
        Row::Attempt(attempt) => self::attempt(conn, attempt, context)?,
        Row::Witness { execution_id, counts, findings } => {
            conn.prepare_cached("UPDATE executions SET witness = ?2, findings = ?3 WHERE execution_id = ?1")?.execute(params![
                execution_id.to_string(),
                counts,
                findings
            ])?;
        }
    }
    Ok(())
}

/// Adds the request unless it is there: a claim may have been quicker than the row itself.
fn request(conn: &Connection, row: &RequestRow, context: &mut Context<'_>) -> Result<(), Failure> {
    let fits = context.budget.fits(row, context.limits);
    let added = conn
        .prepare_cached(
            "INSERT INTO requests (request_id, execution_id, owner, task_id, session_id, acp_session_id, pending_id, tool_call_id,
                 created_at, title, action, options)
             VALUES (:request, :execution, :owner, :task, :session, :acp_session, :pending, :tool_call, :created, :title, :action, :options)
             ON CONFLICT (request_id) DO NOTHING",
        )?
        .execute(named_params! {
            ":request": row.request_id.to_string(),
            ":execution": row.execution_id.to_string(),
            ":owner": row.session.owner,
            ":task": row.task_id,
            ":session": row.session.session_id,
            ":acp_session": row.acp_session_id,
            ":pending": row.pending_id,
            ":tool_call": row.tool_call_id,
            ":created": timestamp_text(row.created_at),
            ":title": fits.then_some(&row.title),
            ":action": fits.then_some(&row.action),
            ":options": fits.then_some(&row.options),
        })?;
    if added > 0 {
        *context.added += 1;
        if fits {
            context.budget.spend(row);
        } else {
            add(&context.shared.texts_dropped, 1);
        }
    }
    Ok(())
}

pub(super) fn claim(conn: &Connection, op: &ClaimOp, context: &mut Context<'_>) -> Result<(), Failure> {
    request(conn, &op.row, context)?;
    let claim = &op.claim;
    let inserted = conn
        .prepare_cached(
            "INSERT INTO resolutions (claim_id, request_id, pending_id, actor_user_id, actor_kind, source, option_id, option_kind,
                 selected_at, result)
             VALUES (:claim, :request, :pending, :user, :kind, :source, :option, :option_kind, :selected, :result)",
        )?
        .execute(named_params! {
            ":claim": claim.claim_id.to_string(),
            ":request": claim.request_id.to_string(),
            ":pending": claim.pending_id,
            ":user": claim.actor.user_id,
            ":kind": claim.actor.kind.as_str(),
            ":source": claim.actor.source.as_str(),
            ":option": claim.option_id,
            ":option_kind": claim.option_kind,
            ":selected": timestamp_text(claim.selected_at),
            ":result": ClaimResult::Dispatching.as_str(),
        });
    match inserted {
        Ok(_) => Ok(()),
        // The only uniqueness that a claim of ours can offend.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => Err(Failure::Refused),
        Err(error) => Err(Failure::Sqlite(error)),
    }
}

/// The compare-and-set of a claim's end: only `dispatching` moves.
pub(super) fn finish(conn: &Connection, finish: &Finish) -> Result<(), Failure> {
    if finish.result == ClaimResult::Dispatching {
        return Err(Failure::Refused);
    }
    let at = timestamp_text(finish.at);
    if move_claim(conn, finish.claim_id, finish.request_id, finish.result, &at)? == 0 {
        return Err(Failure::Refused);
    }
    if let Some(ending) = &finish.ending {
        end_request(conn, finish.request_id, ending.end.as_str(), &ending.reason, &at)?;
    }
    Ok(())
}

/// How many rows moved: one, or none if the claim isn't `dispatching`.
pub(super) fn move_claim(
    conn: &Connection,
    claim_id: Uuid,
    request_id: Uuid,
    result: ClaimResult,
    at: &str,
) -> Result<usize, rusqlite::Error> {
    conn.prepare_cached(
        "UPDATE resolutions SET result = ?3, finalized_at = ?4 WHERE request_id = ?2 AND claim_id = ?1 AND result = 'dispatching'",
    )?
    .execute(params![claim_id.to_string(), request_id.to_string(), result.as_str(), at])
}

/// The first end stays.
fn end_request(conn: &Connection, request_id: Uuid, end: &str, reason: &str, at: &str) -> Result<(), rusqlite::Error> {
    conn.prepare_cached("UPDATE requests SET \"end\" = ?2, end_reason = ?3, ended_at = ?4 WHERE request_id = ?1 AND \"end\" IS NULL")?
        .execute(params![request_id.to_string(), end, reason, at])
        .map(|_| ())
}

fn attempt(conn: &Connection, attempt: &FailedAttempt, context: &mut Context<'_>) -> Result<(), Failure> {
    let request_id = attempt.request_id.to_string();
    let count = conn
        .prepare_cached(
            "UPDATE requests SET failed_attempts = failed_attempts + 1 WHERE request_id = ?1 AND owner = ?2 AND session_id = ?3
             RETURNING failed_attempts",
        )?
        .query_map(params![request_id, attempt.session.owner, attempt.session.session_id], |row| row.get::<_, i64>(0))?
        .last()
        .transpose()?;
    let Some(count) = count else {
        add(&context.shared.attempts_unattributed, 1);
        return Ok(());
    };
    // All slots but the last are written once; the last always has the latest.
    let slot = (count - 1).min(i64::from(context.limits.attempts_per_request) - 1);
    if slot < 0 {
        return Ok(());
    }
    conn.prepare_cached(
        "INSERT OR REPLACE INTO failed_attempts (request_id, slot, code, pending_id, option_id, actor_user_id, actor_kind, source, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        request_id,
        slot,
        attempt.code,
        cut(&attempt.pending_id),
        attempt.option_id.as_deref().map(cut),
        attempt.actor.user_id,
        attempt.actor.kind.as_str(),
        attempt.actor.source.as_str(),
        timestamp_text(attempt.at),
    ])?;
    Ok(())
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(ATTEMPT_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"x".repeat(300)).len(), 256);
        let text = format!("{}é", "x".repeat(255));
        assert_eq!(cut(&text).len(), 255);
    }
}
