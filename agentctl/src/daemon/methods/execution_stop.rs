//! `execution/stop`.

use std::sync::Arc;

use super::{Method, find_execution, find_last_execution, owner};
use crate::code::Code;
use crate::daemon::server::Connection;
use crate::wire::{Access, ExecutionParams, Failure, StopResult};

pub(super) struct Stop;

impl Method for Stop {
    const NAME: &'static str = "execution/stop";
    const ACCESS: Access = Access::Operator;
    const ABOUT: &'static str = "Ends an agent with its whole process tree and tells what that took. For an ended one, tells it again.";
    type Params = ExecutionParams;
    type Result = StopResult;

    async fn call(connection: &Arc<Connection>, params: ExecutionParams) -> Result<StopResult, Failure> {
        let owner = owner(connection, params.owner)?;
        let (hub, execution_id, session_id) = (&connection.hub, params.execution_id.as_deref(), params.session_id.as_deref());
        let execution = find_execution(hub, &owner, execution_id, session_id).or_else(|failure| {
            let last = find_last_execution(hub, &owner, execution_id, session_id)?;
            if last.is_to_restart() { Ok(last) } else { Err(failure) }
        })?;
        // Of one that waits for its restart that is what is stopped.
        execution.stop("stopped").await.ok_or_else(|| Code::Internal.into())
    }
}
