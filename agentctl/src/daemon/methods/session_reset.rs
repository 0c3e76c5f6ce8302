//! `session/reset`.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Method, ended, live_execution, owner};
use crate::daemon::execution::Command;
use crate::daemon::server::Connection;
use crate::wire::{Access, Failure, ResetParams, ResetResult};

pub(super) struct Reset;

impl Method for Reset {
    const NAME: &'static str = "session/reset";
    const ACCESS: Access = Access::Operator;
    const ABOUT: &'static str = "Opens a new acp session in the same agent process. Live requests of the old one are cancelled, later ones refused. \
         `session_busy` while a turn runs.";
    type Params = ResetParams;
    type Result = ResetResult;

    async fn call(connection: &Arc<Connection>, params: ResetParams) -> Result<ResetResult, Failure> {
        let owner = owner(connection, params.owner)?;
        let execution = live_execution(&connection.hub, &owner, &params.session_id)?;
        let (reply, answer) = oneshot::channel();
        execution.send(Command::Reset { acp_session_id: params.acp_session_id, reply });
        Ok(ResetResult { acp_session_id: answer.await.map_err(|_| ended())?? })
    }
}
