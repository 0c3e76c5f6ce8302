//! `execution/stop`.

use std::sync::Arc;

use super::{Method, find_execution, owner};
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
        let execution = find_execution(&connection.hub, &owner, params.execution_id.as_deref(), params.session_id.as_deref())?;
        execution.stop("stopped").await.ok_or_else(|| Code::Internal.into())
    }
}
