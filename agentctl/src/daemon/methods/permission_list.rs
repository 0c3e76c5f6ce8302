//! `permission/list`.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Method;
use crate::code::Code;
use crate::daemon::execution::{Command, Listed};
use crate::daemon::server::Connection;
use crate::wire::{Access, Failure, PermissionListParams, PermissionListResult};

pub(super) struct List;

impl Method for List {
    const NAME: &'static str = "permission/list";
    const ACCESS: Access = Access::Owner;
    const ABOUT: &'static str = "Lists every live permission request of the caller, a task or a session. Never cut, never partial.";
    type Params = PermissionListParams;
    type Result = PermissionListResult<Listed>;

    async fn call(connection: &Arc<Connection>, params: PermissionListParams) -> Result<PermissionListResult<Listed>, Failure> {
        let hub = &connection.hub;
        let owner = &connection.actor().user_id;
        let (task_id, session_id) = (params.task_id.as_deref(), params.session_id.as_deref());
        // Before any runtime state is read.
        hub.authorise_scope(owner, task_id, session_id)?;
        let mut waiting = Vec::new();
        for execution in hub.executions(owner, task_id, session_id) {
            if !execution.ended.is_cancelled() {
                let (reply, answer) = oneshot::channel();
                execution.send(Command::List { reply });
                waiting.push((execution, answer));
            }
        }
        let mut permissions = Vec::new();
        for (execution, answer) in waiting {
            match answer.await {
                Ok(listed) => permissions.extend(listed),
                // It ended meanwhile: nothing of it is live. Anything else would make the list a partial one.
                Err(_) if execution.stop_result().is_some() => {}
                Err(_) => {
                    let text = format!("Execution {} could not be enumerated, so no list is shown.", execution.id);
                    return Err(Failure::because(Code::Internal, text));
                }
            }
        }
        permissions.sort_unstable_by_key(Listed::order);
        Ok(PermissionListResult { task_id: params.task_id, total: permissions.len(), permissions })
    }
}
