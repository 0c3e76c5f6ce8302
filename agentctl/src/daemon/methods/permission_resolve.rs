//! `permission/resolve`.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::Method;
use crate::audit::{FailedAttempt, PastRequest};
use crate::code::Code;
use crate::daemon::execution::{Choice, Command, ResolveError};
use crate::daemon::server::Connection;
use crate::domain::{ClaimResult, SessionKey, timestamp_text};
use crate::permission::Unanswered;
use crate::wire::{Access, Failure, ResolutionData, ResolveParams, ResolveResult};

pub(super) struct Resolve;

impl Method for Resolve {
    const NAME: &'static str = "permission/resolve";
    const ACCESS: Access = Access::Owner;
    const ABOUT: &'static str =
        "Answers one live request with one of its options, exactly once. All five strings must match byte for byte.";
    type Params = ResolveParams;
    type Result = ResolveResult;

    fn refused(connection: &Arc<Connection>, params: ResolveParams, failure: &Failure) {
        let key = connection.hub.authorise(&connection.actor().user_id, &params.task_id, &params.session_id);
        if let (Ok(key), Some(request_id)) = (key, request_id(&params.request_id)) {
            record(connection, key, request_id, params.pending_id, Some(params.option_id), failure);
        }
    }

    async fn call(connection: &Arc<Connection>, params: ResolveParams) -> Result<ResolveResult, Failure> {
        let hub = &connection.hub;
        let key = hub.authorise(&connection.actor().user_id, &params.task_id, &params.session_id)?;
        let Some(request_id) = request_id(&params.request_id) else { return Err(Code::PermissionNotFound.into()) };
        let choice = Choice { request_id, pending_id: params.pending_id.clone(), option_id: params.option_id.clone() };
        let outcome = match hub.live(&key) {
            Some(execution) => {
                let (reply, answer) = oneshot::channel();
                execution.send(Command::Resolve { choice, actor: connection.actor().clone(), reply });
                answer.await.unwrap_or(Err(ResolveError::Unanswered(Unanswered::NotLive)))
            }
            None => Err(ResolveError::Unanswered(Unanswered::NotLive)),
        };
        let failure = match outcome {
            Ok(result) => return Ok(result),
            Err(ResolveError::Failed(failure)) => failure,
            Err(ResolveError::Unanswered(why)) => unanswered(connection, &key, &params.task_id, request_id, &params.pending_id, why).await,
        };
        record(connection, key, request_id, params.pending_id, Some(params.option_id), &failure);
        Err(failure)
    }
}

/// A request id of ours, exactly as we wrote it.
pub(super) fn request_id(text: &str) -> Option<Uuid> {
    text.parse::<Uuid>().ok().filter(|id| id.to_string() == text)
}

/// The failure that says why nothing was answered; for a request that is not live, what the audit knows.
pub(super) async fn unanswered(
    connection: &Connection,
    key: &SessionKey,
    task_id: &str,
    request_id: Uuid,
    pending_id: &str,
    why: Unanswered,
) -> Failure {
    match why {
        Unanswered::PendingIdDiffers => Code::PermissionNotFound.into(),
        Unanswered::InProgress => Code::PermissionResolutionInProgress.into(),
        Unanswered::OptionNotOffered => Code::PermissionOptionNotOffered.into(),
        Unanswered::NotLive => {
            let (found, answer) = oneshot::channel();
            connection.hub.audit.lookup(key.clone(), task_id.to_owned(), request_id, move |past| drop(found.send(past)));
            match answer.await {
                Ok(Ok(past)) => past_failure(past.filter(|past| past.pending_id == pending_id)),
                Ok(Err(error)) => {
                    Failure::because(Code::PermissionAuditFailed, format!("What became of the request can't be read: {error}"))
                }
                Err(_) => Code::PermissionAuditFailed.into(),
            }
        }
    }
}

/// Step 8: what is said of a request that is not live.
fn past_failure(past: Option<PastRequest>) -> Failure {
    let Some(past) = past else { return Code::PermissionNotFound.into() };
    let code = match &past.resolution {
        Some(r) if matches!(r.result, ClaimResult::Accepted | ClaimResult::Dispatching | ClaimResult::Indeterminate) => {
            Code::PermissionAlreadyResolved
        }
        _ => Code::PermissionStale,
    };
    Failure::of(code).with(|data| {
        data.end = past.end;
        data.resolution = past.resolution.map(|r| ResolutionData {
            actor_user_id: r.actor.user_id,
            actor_kind: r.actor.kind,
            source: r.actor.source,
            selected_at: timestamp_text(r.selected_at),
            finalized_at: r.finalized_at.map(timestamp_text),
            result: r.result,
        });
    })
}

/// Records a failed attempt.
pub(super) fn record(
    connection: &Connection,
    session: SessionKey,
    request_id: Uuid,
    pending_id: String,
    option_id: Option<String>,
    failure: &Failure,
) {
    let Some(code) = failure.stable_code() else { return };
    connection.hub.audit.attempt(FailedAttempt {
        request_id,
        session,
        code: code.as_str(),
        pending_id,
        option_id,
        actor: connection.actor().clone(),
        at: Timestamp::now(),
    });
}
