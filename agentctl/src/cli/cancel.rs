//! `agentctl cancel`.

use std::process::ExitCode;

use clap::Args;

use super::{CliError, Global, output, token_file::TokenFile};
use crate::wire::{CancelParams, CancelResult, PermissionCancelParams, PermissionCancelResult};

/// Cancel the running turn of a session, or with --request and --pending only that permission request.
#[derive(Debug, Args)]
pub(super) struct Cancel {
    /// The session
    #[arg(long, value_name = "SESSION", allow_hyphen_values = true)]
    session: String,
    /// The task of the request
    #[arg(long, value_name = "TASK", allow_hyphen_values = true, requires = "request")]
    task: Option<String>,
    /// Only this request
    #[arg(long, value_name = "REQUEST", allow_hyphen_values = true, requires = "pending", requires = "task")]
    request: Option<String>,
    /// The agent's id of that request
    #[arg(long, value_name = "PENDING", allow_hyphen_values = true, requires = "request")]
    pending: Option<String>,
    #[command(flatten)]
    token: TokenFile,
}

impl Cancel {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let mut client = self.token.connect(global)?;
        if let (Some(request_id), Some(pending_id), Some(task_id)) = (self.request, self.pending, self.task) {
            let params = PermissionCancelParams { task_id, session_id: self.session, request_id, pending_id };
            let result: PermissionCancelResult = client.call("permission/cancel", &params)?;
            if global.json {
                output::json(&result);
            } else {
                output::out("cancelled\n");
            }
            return Ok(ExitCode::SUCCESS);
        }
        let params = CancelParams { session_id: self.session, acp_session_id: None, owner: None };
        let result: CancelResult = client.call("session/cancel", &params)?;
        if global.json {
            output::json(&result);
        } else if result.turn_running {
            output::out(&format!("cancelled the turn and {} permission request(s)\n", result.cancelled));
        } else {
            output::out(&format!("no turn was running; cancelled {} permission request(s)\n", result.cancelled));
        }
        Ok(ExitCode::SUCCESS)
    }
}
