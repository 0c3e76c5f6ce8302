//! `permission/cancel`.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Method;
use super::permission_resolve::{record, request_id, unanswered};
use crate::code::Code;
use crate::daemon::execution::Command;
use crate::daemon::server::Connection;
use crate::domain::End;
use crate::permission::Unanswered;
use crate::wire::{Access, Failure, PermissionCancelParams, PermissionCancelResult};

pub(super) struct Cancel;

impl Method for Cancel {
    const NAME: &'static str = "permission/cancel";
    const ACCESS: Access = Access::Owner;
    const ABOUT: &'static str = "Answers one pending request `cancelled`. Needs no disk.";
    type Params = PermissionCancelParams;
    type Result = PermissionCancelResult;

    fn refused(connection: &Arc<Connection>, params: PermissionCancelParams, failure: &Failure) {
        let key = connection.hub.authorise(&connection.actor().user_id, &params.task_id, &params.session_id);
        if let (Ok(key), Some(request_id)) = (key, request_id(&params.request_id)) {
            record(connection, key, request_id, params.pending_id, None, failure);
        }
    }

    async fn call(connection: &Arc<Connection>, params: PermissionCancelParams) -> Result<PermissionCancelResult, Failure> {
        let hub = &connection.hub;
        let PermissionCancelParams { task_id, session_id, request_id: id, pending_id } = params;
        let key = hub.authorise(&connection.actor().user_id, &task_id, &session_id)?;
        let Some(request_id) = request_id(&id) else { return Err(Code::PermissionNotFound.into()) };
        let outcome = match hub.live(&key) {
            Some(execution) => {
                let (reply, answer) = oneshot::channel();
                execution.send(Command::CancelRequest { request_id, pending_id: pending_id.clone(), reply });
                answer.await.unwrap_or(Err(Unanswered::NotLive))
            }
            None => Err(Unanswered::NotLive),
        };
        if let Err(why) = outcome {
            let failure = unanswered(connection, &key, &task_id, request_id, &pending_id, why).await;
            record(connection, key, request_id, pending_id, None, &failure);
            return Err(failure);
        }
        Ok(PermissionCancelResult { task_id, session_id, request_id: id, pending_id, status: End::Cancelled })
    }
}
