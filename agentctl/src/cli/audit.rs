//! `agentctl audit`.

use std::process::ExitCode;

use acp_bridge::presentation::terminal;
use clap::Args;

use super::{CliError, Global, output, token_file::TokenFile};
use crate::wire::{AuditListParams, AuditListResult, AuditRecord, AuditWitnessParams, AuditWitnessResult, WitnessRecord};

/// Show what was asked, who answered and what became of it, newest first; with --witness which tools ran after they were
/// asked for, before, or without. Tools that an agent does not report are invisible.
#[derive(Debug, Args)]
pub(super) struct Audit {
    /// Only of this task
    #[arg(long, value_name = "TASK", allow_hyphen_values = true)]
    task: Option<String>,
    /// Only of this session
    #[arg(long, value_name = "SESSION", allow_hyphen_values = true)]
    session: Option<String>,
    /// Only this request
    #[arg(long, value_name = "REQUEST", allow_hyphen_values = true)]
    request: Option<String>,
    /// At most this many (1 to 1000)
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// The next page: what the last line of the page before says
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Show what the witness counted and found, by execution
    #[arg(long, conflicts_with = "request")]
    witness: bool,
    #[command(flatten)]
    token: TokenFile,
}

impl Audit {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        if self.witness {
            let params = AuditWitnessParams { task_id: self.task, session_id: self.session, limit: self.limit, cursor: self.cursor };
            let result: AuditWitnessResult = self.token.connect(global)?.call("audit/witness", &params)?;
            if global.json {
                output::json(&result);
                return Ok(ExitCode::SUCCESS);
            }
            output::out(&result.executions.iter().map(witnessed).collect::<String>());
            return Ok(more(result.next));
        }
        let params = AuditListParams {
            task_id: self.task,
            session_id: self.session,
            request_id: self.request,
            limit: self.limit,
            cursor: self.cursor,
        };
        let result: AuditListResult = self.token.connect(global)?.call("audit/list", &params)?;
        if global.json {
            output::json(&result);
            return Ok(ExitCode::SUCCESS);
        }
        output::out(&result.records.iter().map(describe).collect::<String>());
        Ok(more(result.next))
    }
}

/// Says how to get the next page.
fn more(next: Option<String>) -> ExitCode {
    if let Some(next) = next {
        output::note(&format!("more: --cursor {next}"));
    }
    ExitCode::SUCCESS
}

fn witnessed(r: &WitnessRecord) -> String {
    let w = &r.witness;
    let mut text = format!("{}  task {}  session {}\n", r.started_at, output::quote(&r.task_id), output::quote(&r.session_id));
    text += &format!(
        "  waited {}  ran before the answer {}  approved and never ran {}  not asked for {}  not listed for a minute {}\n",
        w.waited, w.ran_before_answer, w.never_ran, w.unasked, w.unlisted
    );
    for finding in &r.findings {
        text += &format!("  {}  {}\n", finding.at, super::events::finding(finding));
    }
    text
}

fn describe(r: &AuditRecord) -> String {
    let end = r.end.map_or("open", |end| end.as_str());
    let why = r.end_reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
    let mut text = format!("{}  {end}{why}  {}\n", r.created_at, terminal(&r.title));
    text += &format!(
        "  task {}  session {}  request {}  pending {}\n",
        output::quote(&r.task_id),
        output::quote(&r.session_id),
        r.request_id,
        output::quote(&r.pending_id)
    );
    for a in &r.resolutions {
        text += &format!(
            "  {}  user {} through {} chose {}: {}\n",
            a.selected_at,
            a.actor_user_id,
            a.source.as_str(),
            terminal(&a.option_id),
            a.result
        );
    }
    if r.failed_attempts.count > 0 {
        let codes: Vec<&str> = r.failed_attempts.last.iter().map(|a| a.code.as_str()).collect();
        text += &format!("  {} failed attempt(s): {}\n", r.failed_attempts.count, codes.join(", "));
    }
    text
}
