//! `audit/list`.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::Method;
use crate::audit::{self, PageSize, Query, Record};
use crate::code::Code;
use crate::daemon::server::Connection;
use crate::domain::timestamp_text;
use crate::wire::{Access, AuditListParams, AuditListResult, AuditRecord, AuditResolution, FailedAttempt, FailedAttempts, Failure, Raw};

pub(super) struct List;

impl Method for List {
    const NAME: &'static str = "audit/list";
    const ACCESS: Access = Access::Owner;
    const ABOUT: &'static str = "Lists what was asked, who answered and what became of it, newest first, in pages.";
    type Params = AuditListParams;
    type Result = AuditListResult;

    async fn call(connection: &Arc<Connection>, params: AuditListParams) -> Result<AuditListResult, Failure> {
        let owner = connection.actor().user_id.clone();
        connection.hub.authorise_scope(&owner, params.task_id.as_deref(), params.session_id.as_deref())?;
        let limit = params.limit.map_or(Some(PageSize::default()), |n| PageSize::new(n.into()));
        let limit = limit.ok_or_else(|| Failure::params("limit must be 1 to 1000"))?;
        let cursor = params.cursor.map(|c| c.parse()).transpose().map_err(|_| Failure::params("cursor is none that audit/list gave"))?;
        let request_id = match params.request_id.as_deref().map(super::permission_resolve::request_id) {
            Some(None) => return Ok(AuditListResult { records: Vec::new(), next: None }),
            Some(id) => id,
            None => None,
        };
        let query = Query { owner, task_id: params.task_id, session_id: params.session_id, request_id, limit, cursor };
        let (found, answer) = oneshot::channel();
        connection.hub.audit.list(query, move |page| drop(found.send(page)));
        let page = answer.await.map_err(|_| Failure::of(Code::Internal))?;
        let page = page.map_err(|error| Failure::because(Code::PermissionAuditFailed, format!("The audit can't be read: {error}")))?;
        Ok(AuditListResult { records: page.records.into_iter().map(record).collect(), next: page.next.map(|c| c.to_string()) })
    }
}

/// A stored row as it is shown.
fn record(row: Record) -> AuditRecord {
    let ended = row.ended.as_ref();
    AuditRecord {
        task_id: row.task_id,
        session_id: row.session.session_id,
        execution_id: row.execution_id.to_string(),
        acp_session_id: row.acp_session_id,
        request_id: row.request_id.to_string(),
        pending_id: row.pending_id,
        tool_call_id: row.tool_call_id,
        title: row.title.unwrap_or_default(),
        action: stored(row.action.as_deref()),
        options: stored(row.options.as_deref()),
        created_at: timestamp_text(row.created_at),
        ended_at: ended.map(|e| timestamp_text(e.at)),
        end: ended.map(|e| e.end),
        end_reason: ended.and_then(|e| e.reason.clone()),
        resolutions: row.resolutions.into_iter().map(resolution).collect(),
        failed_attempts: FailedAttempts {
            count: row.failed_attempts.count,
            last: row.failed_attempts.last.into_iter().map(attempt).collect(),
        },
    }
}

fn resolution(row: audit::Resolution) -> AuditResolution {
    AuditResolution {
        claim_id: row.claim_id.to_string(),
        actor_user_id: row.actor.user_id,
        actor_kind: row.actor.kind,
        source: row.actor.source,
        option_id: row.option_id,
        option_kind: stored(Some(&row.option_kind)),
        selected_at: timestamp_text(row.selected_at),
        finalized_at: row.finalized_at.map(timestamp_text),
        result: row.result,
    }
}

fn attempt(row: audit::Attempt) -> FailedAttempt {
    FailedAttempt {
        code: row.code,
        pending_id: row.pending_id,
        option_id: row.option_id,
        actor_user_id: row.actor.user_id,
        actor_kind: row.actor.kind,
        source: row.actor.source,
        at: timestamp_text(row.at),
    }
}

/// JSON that was stored as text; `null` if it was dropped or is none.
fn stored(text: Option<&str>) -> Raw {
    Raw(text.and_then(|text| RawValue::from_string(text.to_owned()).ok()).unwrap_or_else(|| RawValue::NULL.to_owned()))
}
