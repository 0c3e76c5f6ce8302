//! `audit/witness`.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Method;
use crate::audit::{PageSize, WitnessQuery, Witnessed};
use crate::code::Code;
use crate::daemon::server::Connection;
use crate::wire::{Access, AuditWitnessParams, AuditWitnessResult, Failure, WitnessRecord};

pub(super) struct Witness;

impl Method for Witness {
    const NAME: &'static str = "audit/witness";
    const ACCESS: Access = Access::Owner;
    const ABOUT: &'static str = "Lists what the witness counted and found, newest execution first: tools that ran after they were \
        asked for, before, or without. Tools that an agent does not report are invisible.";
    type Params = AuditWitnessParams;
    type Result = AuditWitnessResult;

    async fn call(connection: &Arc<Connection>, params: AuditWitnessParams) -> Result<AuditWitnessResult, Failure> {
        let owner = connection.actor().user_id.clone();
        connection.hub.authorise_scope(&owner, params.task_id.as_deref(), params.session_id.as_deref())?;
        let limit = params.limit.map_or(Some(PageSize::default()), |n| PageSize::new(n.into()));
        let limit = limit.ok_or_else(|| Failure::params("limit must be 1 to 1000"))?;
        let cursor = params.cursor.map(|c| c.parse()).transpose();
        let cursor = cursor.map_err(|_| Failure::params("cursor is none that audit/witness gave"))?;
        let query = WitnessQuery { owner, task_id: params.task_id, session_id: params.session_id, limit, cursor };
        let (found, answer) = oneshot::channel();
        connection.hub.audit.witnessed(query, move |page| drop(found.send(page)));
        let page = answer.await.map_err(|_| Failure::of(Code::Internal))?;
        let page = page.map_err(|error| Failure::because(Code::PermissionAuditFailed, format!("The audit can't be read: {error}")))?;
        let next = page.next.map(|c| c.to_string());
        Ok(AuditWitnessResult { executions: page.executions.into_iter().filter_map(record).collect(), next })
    }
}

/// A stored row as it is shown; what is none of ours is left out.
fn record(row: Witnessed) -> Option<WitnessRecord> {
    Some(WitnessRecord {
        execution_id: row.execution_id,
        task_id: row.task_id,
        session_id: row.session_id,
        started_at: row.started_at,
        witness: serde_json::from_str(&row.counts).ok()?,
        findings: serde_json::from_str(&row.findings).ok()?,
    })
}
