//! `agentctl stderr`.

use std::process::ExitCode;

use acp_bridge::presentation::terminal_multiline;
use clap::Args;

use super::{CliError, Global, output};
use crate::wire::{StderrParams, StderrResult};

/// Show the recent stderr of a live agent. It is bounded, redacted by known shapes only, and never stored.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["execution", "session"])))]
pub(super) struct Stderr {
    /// The execution
    #[arg(value_name = "EXECUTION")]
    execution: Option<String>,
    /// The session whose live execution is meant
    #[arg(long, value_name = "SESSION", allow_hyphen_values = true)]
    session: Option<String>,
    /// At most this many bytes, from the end
    #[arg(long, value_name = "N")]
    max_bytes: Option<usize>,
}

impl Stderr {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let params = StderrParams { execution_id: self.execution, session_id: self.session, max_bytes: self.max_bytes, owner: None };
        let result: StderrResult = global.connect()?.call("execution/stderr", &params)?;
        if global.json {
            output::json(&result);
        } else {
            output::note(&result.warning);
            output::out(&terminal_multiline(&result.text));
        }
        Ok(ExitCode::SUCCESS)
    }
}
