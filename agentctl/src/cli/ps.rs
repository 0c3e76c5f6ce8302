//! `agentctl ps`.

use std::collections::HashMap;
use std::process::ExitCode;

use acp_bridge::presentation::terminal;
use clap::Args;

use super::{CliError, Global, output};
use crate::wire::{ExecutionInfo, ExecutionListParams, ExecutionListResult, Exit, State, TreeProcess, Witness};

/// List live executions. ODD counts what the witness found: tools that ran unasked or before their answer, approved ones that
/// never ran, prompts that nobody listed for a minute (`agentctl audit --witness` tells more).
#[derive(Debug, Args)]
pub(super) struct Ps {
    /// Only of this task
    #[arg(long, value_name = "TASK", allow_hyphen_values = true)]
    task: Option<String>,
    /// Only of this session
    #[arg(long, value_name = "SESSION", allow_hyphen_values = true)]
    session: Option<String>,
    /// The processes of each with their resident memory, too
    #[arg(long)]
    tree: bool,
    /// Also those that have ended
    #[arg(long, short)]
    all: bool,
}

impl Ps {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let params = ExecutionListParams { task_id: self.task, session_id: self.session, processes: self.tree, owner: None };
        let mut result: ExecutionListResult = global.connect()?.call("execution/list", &params)?;
        result.executions.retain(|e| self.all || e.state != State::Exited || is_to_restart(e));
        if global.json {
            output::json(&result);
            return Ok(ExitCode::SUCCESS);
        }
        let mut rows =
            vec![["EXECUTION", "TASK", "SESSION", "STATE", "PID", "PENDING", "ODD", "STARTED", "COMMAND"].map(String::from).to_vec()];
        rows.extend(result.executions.iter().map(row));
        output::table(&rows);
        for execution in &result.executions {
            output::out(&execution.processes.as_deref().map(|list| tree(execution, list)).unwrap_or_default());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The processes of an execution, each below its parent.
fn tree(execution: &ExecutionInfo, processes: &[TreeProcess]) -> String {
    let mib = |bytes: u64| format!("{}.{} MiB", bytes >> 20, ((bytes & 0xf_ffff) * 10) >> 20);
    let all = processes.iter().map(|p| p.resident_bytes).sum();
    let plural = if processes.len() == 1 { "" } else { "es" };
    let mut text = format!("\n{}: {} process{plural}, {} resident\n", execution.execution_id, processes.len(), mib(all));
    let mut depths: HashMap<i32, usize> = HashMap::new();
    for process in processes {
        let depth = depths.get(&process.parent).map_or(0, |depth| depth + 1);
        depths.insert(process.pid, depth);
        let indent = "  ".repeat(depth);
        text += &format!("{:>8}  {:>12}  {indent}{}\n", process.pid, mib(process.resident_bytes), terminal(&process.command));
    }
    text
}

/// What the witness has found, in short.
fn odd(w: Witness) -> String {
    let counts = [(w.unasked, "unasked"), (w.ran_before_answer, "early"), (w.never_ran, "never ran"), (w.unlisted, "unlisted")];
    let found: Vec<String> = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if found.is_empty() { "-".into() } else { found.join(", ") }
}

fn is_to_restart(e: &ExecutionInfo) -> bool {
    e.restart.as_ref().is_some_and(|restart| restart.next_at.is_some())
}

fn row(e: &ExecutionInfo) -> Vec<String> {
    let state = serde_json::to_value(e.state).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
    let state = match e.exit {
        Some(Exit::Code(code)) => format!("{state} {code}"),
        Some(Exit::Signal(signal)) => format!("{state} signal {signal}"),
        None => state,
    };
    let state = if is_to_restart(e) { format!("{state}, starts again") } else { state };
    vec![
        e.execution_id.clone(),
        output::quote(&e.task_id),
        output::quote(&e.session_id),
        state,
        e.pid.map_or_else(|| "-".into(), |pid| pid.to_string()),
        e.pending.to_string(),
        odd(e.witness),
        e.started_at.clone(),
        terminal(&e.command).chars().take(60).collect(),
    ]
}
