//! `agentctl stop`.

use std::process::ExitCode;

use acp_bridge::presentation::terminal;
use clap::Args;

use super::{CliError, Global, output};
use crate::wire::{ExecutionParams, Exit, StopResult};

/// End an agent with its whole process tree. The exit status is 0 if nothing of it is left.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["execution", "session"])))]
pub(super) struct Stop {
    /// The execution
    #[arg(value_name = "EXECUTION")]
    execution: Option<String>,
    /// The session whose live execution is meant
    #[arg(long, value_name = "SESSION", allow_hyphen_values = true)]
    session: Option<String>,
}

impl Stop {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let params = ExecutionParams { execution_id: self.execution, session_id: self.session, owner: None };
        let result: StopResult = global.connect()?.call("execution/stop", &params)?;
        if global.json {
            output::json(&result);
        } else {
            let exit = match result.exit {
                Some(Exit::Code(code)) => format!("status {code}"),
                Some(Exit::Signal(signal)) => format!("signal {signal}"),
                None => "status unknown".into(),
            };
            output::out(&format!("{} ended ({exit}, by {})\n", result.execution_id, result.by));
            for process in &result.ended {
                output::out(&format!("ended {} {}\n", process.pid, terminal(&process.command)));
            }
            for process in &result.killed {
                output::out(&format!("killed {} {}\n", process.pid, terminal(&process.command)));
            }
            if result.tree_empty {
                output::out("its process tree is empty\n");
            }
        }
        warn_of_survivors(&result);
        Ok(if result.tree_empty { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Names what could not be ended.
pub(super) fn warn_of_survivors(result: &StopResult) {
    for process in &result.survivors {
        output::note(&format!("still there: {} {}", process.pid, terminal(&process.command)));
    }
}
