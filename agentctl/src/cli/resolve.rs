//! `agentctl resolve`.

use std::process::ExitCode;

use acp_bridge::presentation::terminal;
use clap::Args;

use super::{CliError, Global, output, token_file::TokenFile};
use crate::wire::{ResolveParams, ResolveResult};

/// Answer one permission request with one of its options. All five ids must be exactly those of `agentctl permissions`.
#[derive(Debug, Args)]
pub(super) struct Resolve {
    /// Its task
    #[arg(long, value_name = "TASK", allow_hyphen_values = true)]
    task: String,
    /// Its session
    #[arg(long, value_name = "SESSION", allow_hyphen_values = true)]
    session: String,
    /// Our id of it
    #[arg(long, value_name = "REQUEST", allow_hyphen_values = true)]
    request: String,
    /// The agent's id of it
    #[arg(long, value_name = "PENDING", allow_hyphen_values = true)]
    pending: String,
    /// The option's id
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    option: String,
    #[command(flatten)]
    token: TokenFile,
}

impl Resolve {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let params = ResolveParams {
            task_id: self.task,
            session_id: self.session,
            request_id: self.request,
            pending_id: self.pending,
            option_id: self.option,
        };
        let result: ResolveResult = self.token.connect(global)?.call("permission/resolve", &params)?;
        if global.json {
            output::json(&result);
        } else {
            output::out(&format!("resolved: {}\n", terminal(&result.option_id)));
        }
        Ok(ExitCode::SUCCESS)
    }
}
