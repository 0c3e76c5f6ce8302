//! `agentctl permissions`.

use std::process::ExitCode;

use acp_bridge::presentation::terminal;
use clap::Args;

use super::{CliError, Global, output};
use crate::wire::{Event, Permission, PermissionListParams, PermissionListResult, PermissionStatus};

/// List the permission requests that wait for an answer, with the command that answers each.
#[derive(Debug, Args)]
pub(super) struct Permissions {
    /// Only of this task
    #[arg(long, value_name = "TASK", allow_hyphen_values = true)]
    task: Option<String>,
    /// Only of this session
    #[arg(long, value_name = "SESSION", allow_hyphen_values = true)]
    session: Option<String>,
}

impl Permissions {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let params = PermissionListParams { task_id: self.task, session_id: self.session };
        let result: PermissionListResult = global.connect()?.call("permission/list", &params)?;
        if global.json {
            output::json(&result);
        } else if result.permissions.is_empty() {
            output::note("nothing waits for an answer");
        } else {
            output::out(&result.permissions.iter().map(describe).collect::<Vec<_>>().join("\n"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// One request for people, its options with the commands that choose them.
fn describe(p: &Permission) -> String {
    let action = &p.action.0;
    let mut text = format!("{}\n", terminal(&p.title));
    let mut line = |name: &str, value: &str| text += &format!("  {name:<12} {}\n", terminal(value));
    if p.status == PermissionStatus::Resolving {
        line("status", "being answered");
    }
    line("type", serde_json::to_value(action.action_type).ok().as_ref().and_then(|v| v.as_str()).unwrap_or_default());
    let fields = [
        ("command", &action.command),
        ("cwd", &action.cwd),
        ("path", &action.path),
        ("destination", &action.destination),
        ("server", &action.server),
        ("tool", &action.tool),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            line(name, value);
        }
    }
    if let Some(description) = action.description.as_ref().filter(|d| **d != p.title) {
        line("description", description);
    }
    if let Some(length) = action.full_length {
        line("cut", &format!("a text of {length} bytes is not shown in full"));
    }
    if action.redacted {
        line("redacted", "secrets are not shown");
    }
    line("since", &p.created_at);
    let q = output::quote;
    for option in p.options.iter().filter(|o| o.selectable) {
        let kind = option.kind.0.get().trim_matches('"');
        text += &format!(
            "  {} ({})\n    {} resolve --task {} --session {} --request {} --pending {} --option {}\n",
            terminal(&option.name),
            terminal(kind),
            output::program(),
            q(&p.task_id),
            q(&p.session_id),
            p.request_id,
            q(&p.pending_id),
            q(&option.option_id)
        );
    }
    if !p.options.iter().any(|o| o.selectable) {
        text += &format!(
            "  no option can be selected; to cancel it:\n    {} cancel --task {} --session {} --request {} --pending {}\n",
            output::program(),
            q(&p.task_id),
            q(&p.session_id),
            p.request_id,
            q(&p.pending_id)
        );
    }
    text
}

/// Tells on stderr of a request as it comes and goes.
pub(super) fn notice(event: &Event) {
    match (&event.permission, event.event_type.as_str()) {
        (Some(permission), "requested") => output::note(&format!("\nthe agent asks:\n{}", describe(permission))),
        (None, "resolved" | "cancelled" | "withdrawn" | "replaced" | "expired") if event.request_id.is_some() => {
            let by = event.resolution.as_ref().map_or_else(String::new, |r| {
                format!(" by user {} through {}: {}", r.actor_user_id, r.source.as_str(), terminal(&r.option_id))
            });
            output::note(&format!("request {} {}{by}", event.request_id.as_deref().unwrap_or_default(), event.event_type));
        }
        _ => {}
    }
}
