//! `session/cancel`.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Method, ended, live_execution, owner};
use crate::daemon::execution::Command;
use crate::daemon::server::Connection;
use crate::wire::{Access, CancelParams, CancelResult, Failure};

pub(super) struct Cancel;

impl Method for Cancel {
    const NAME: &'static str = "session/cancel";
    const ACCESS: Access = Access::Operator;
    const ABOUT: &'static str = "Cancels the running turn: its live requests are answered `cancelled`, then the agent is told.";
    type Params = CancelParams;
    type Result = CancelResult;

    async fn call(connection: &Arc<Connection>, params: CancelParams) -> Result<CancelResult, Failure> {
        let owner = owner(connection, params.owner)?;
        let execution = live_execution(&connection.hub, &owner, &params.session_id)?;
        let (reply, answer) = oneshot::channel();
        execution.send(Command::CancelTurn { acp_session_id: params.acp_session_id, reply });
        answer.await.map_err(|_| ended())?
    }
}
