//! `execution/restart`.

use std::sync::Arc;

use super::{Method, find_last_execution, owner};
use crate::code::Code;
use crate::daemon::restart;
use crate::daemon::server::Connection;
use crate::wire::{Access, ExecutionParams, Failure, StartResult};

pub(super) struct Restart;

impl Method for Restart {
    const NAME: &'static str = "execution/restart";
    const ACCESS: Access = Access::Operator;
    const ABOUT: &'static str = "Ends an agent, if it lives, and starts it again for its session, with its acp session where it can resume or load that. \
         Names an execution by its id, or the last one of a session.";
    type Params = ExecutionParams;
    type Result = StartResult;

    async fn call(connection: &Arc<Connection>, params: ExecutionParams) -> Result<StartResult, Failure> {
        let hub = &connection.hub;
        let owner = owner(connection, params.owner)?;
        let execution = find_last_execution(hub, &owner, params.execution_id.as_deref(), params.session_id.as_deref())?;
        if execution.proxied {
            return Err(Code::ExecutionProxied.into());
        }
        execution.stop("restarted").await;
        execution.ended.cancelled().await;
        let again = restart::again(hub, &execution, execution.acp_session_id()).await?;
        let started = again.ready.await.unwrap_or_else(|_| Err(Code::AgentExited.into()))?;
        restart::keep(hub.clone(), again.execution);
        Ok(started)
    }
}
