//! `execution/list`, `execution/get`, `execution/stderr`.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Method, ended, find_execution, owner};
use crate::daemon::execution::Command;
use crate::daemon::server::Connection;
use crate::limits::STDERR_RING;
use crate::wire::{Access, ExecutionInfo, ExecutionListParams, ExecutionListResult, ExecutionParams, Failure, StderrParams, StderrResult};

pub(super) struct List;
pub(super) struct Get;
pub(super) struct Stderr;

impl Method for List {
    const NAME: &'static str = "execution/list";
    const ACCESS: Access = Access::Operator;
    const ABOUT: &'static str = "Lists executions, oldest first; ended ones too, as long as they are remembered.";
    type Params = ExecutionListParams;
    type Result = ExecutionListResult;

    async fn call(connection: &Arc<Connection>, params: ExecutionListParams) -> Result<ExecutionListResult, Failure> {
        let owner = owner(connection, params.owner)?;
        let (task_id, session_id) = (params.task_id.as_deref(), params.session_id.as_deref());
        connection.hub.authorise_scope(&owner, task_id, session_id)?;
        let executions = connection.hub.executions(&owner, task_id, session_id);
        let mut shown: Vec<ExecutionInfo> = executions.iter().map(|e| e.info()).collect();
        if params.processes {
            let looked = tokio::task::spawn_blocking(move || executions.iter().map(|e| e.processes()).collect::<Vec<_>>());
            for (info, processes) in shown.iter_mut().zip(looked.await.unwrap_or_default()) {
                info.processes = Some(processes).filter(|processes| !processes.is_empty());
            }
        }
        Ok(ExecutionListResult { executions: shown })
    }
}

impl Method for Get {
    const NAME: &'static str = "execution/get";
    const ACCESS: Access = Access::Operator;
    const ABOUT: &'static str = "Tells of one execution, named by its id or as the live one of a session.";
    type Params = ExecutionParams;
    type Result = ExecutionInfo;

    async fn call(connection: &Arc<Connection>, params: ExecutionParams) -> Result<ExecutionInfo, Failure> {
        let owner = owner(connection, params.owner)?;
        Ok(find_execution(&connection.hub, &owner, params.execution_id.as_deref(), params.session_id.as_deref())?.info())
    }
}

impl Method for Stderr {
    const NAME: &'static str = "execution/stderr";
    const ACCESS: Access = Access::Operator;
    const ABOUT: &'static str =
        "Gives the recent stderr of an execution, bounded and redacted; of an ended one only the end. It is never stored.";
    type Params = StderrParams;
    type Result = StderrResult;

    async fn call(connection: &Arc<Connection>, params: StderrParams) -> Result<StderrResult, Failure> {
        let owner = owner(connection, params.owner)?;
        let execution = find_execution(&connection.hub, &owner, params.execution_id.as_deref(), params.session_id.as_deref())?;
        let (reply, answer) = oneshot::channel();
        execution.send(Command::Stderr { max_bytes: params.max_bytes.unwrap_or(STDERR_RING).min(STDERR_RING), reply });
        match answer.await {
            Ok(result) => Ok(result),
            Err(_) => execution.last_stderr().ok_or_else(ended),
        }
    }
}
