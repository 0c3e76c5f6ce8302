//! `agentctl restart`.

use std::process::ExitCode;

use clap::Args;

use super::{CliError, Global, run};
use crate::wire::{ExecutionParams, StartResult};

/// End an agent, if it lives, and start it again for its session, with its own session where it can resume or load that.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["execution", "session"])))]
pub(super) struct Restart {
    /// The execution
    #[arg(value_name = "EXECUTION")]
    execution: Option<String>,
    /// The session whose last execution is meant
    #[arg(long, value_name = "SESSION", allow_hyphen_values = true)]
    session: Option<String>,
}

impl Restart {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let params = ExecutionParams { execution_id: self.execution, session_id: self.session, owner: None };
        let started: StartResult = global.connect()?.call("execution/restart", &params)?;
        run::print(global, &started);
        Ok(ExitCode::SUCCESS)
    }
}
