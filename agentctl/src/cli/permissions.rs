//! `agentctl permissions`.

use std::io::IsTerminal;
use std::process::ExitCode;

use acp_bridge::presentation::terminal;
use clap::Args;

use super::{CliError, Global, output, token_file::TokenFile};
use crate::client::Client;
use crate::wire::{Event, Permission, PermissionListParams, PermissionListResult, PermissionStatus, Topic};

/// List the permission requests that wait for an answer, with the command that answers each.
#[derive(Debug, Args)]
pub(super) struct Permissions {
    /// Only of this task
    #[arg(long, value_name = "TASK", allow_hyphen_values = true)]
    task: Option<String>,
    /// Only of this session
    #[arg(long, value_name = "SESSION", allow_hyphen_values = true)]
    session: Option<String>,
    /// Go on: print the list whenever it changes, on a terminal in place
    #[arg(long, short)]
    watch: bool,
    #[command(flatten)]
    token: TokenFile,
}

impl Permissions {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let params = PermissionListParams { task_id: self.task, session_id: self.session };
        let mut client = self.token.connect(global)?;
        if self.watch {
            return watch(global, &mut client, &params);
        }
        print(global, &client.call("permission/list", &params)?);
        Ok(ExitCode::SUCCESS)
    }
}

/// Lists anew after every event: so the list is right even after events were missed.
fn watch(global: &Global, client: &mut Client, params: &PermissionListParams) -> Result<ExitCode, CliError> {
    let in_place = std::io::stdout().is_terminal() && !global.json;
    super::events::subscribe(client, params.task_id.as_deref(), params.session_id.as_deref(), Some(vec![Topic::Permission]))?;
    let mut last = None;
    loop {
        let list: PermissionListResult = client.call("permission/list", params)?;
        let now = acp_bridge::json::to_text(&list);
        if last.as_ref() != Some(&now) {
            if in_place {
                output::out("\x1b[H\x1b[2J");
            }
            print(global, &list);
            last = Some(now);
        }
        // An event that came before the list may tell of what happened after it was made.
        if client.pending().is_none() {
            client.recv()?;
        }
        while client.pending().is_some() {}
    }
}

fn print(global: &Global, list: &PermissionListResult) {
    if global.json {
        output::json(list);
    } else if list.permissions.is_empty() {
        output::note("nothing waits for an answer");
    } else {
        output::out(&list.permissions.iter().map(describe).collect::<Vec<_>>().join("\n"));
    }
}

/// What is known of a request besides its title: names and values.
pub(super) fn fields(p: &Permission) -> Vec<(&'static str, String)> {
    let action = &p.action.0;
    let mut fields = Vec::new();
    if p.status == PermissionStatus::Resolving {
        fields.push(("status", "being answered".to_owned()));
    }
    let kind = serde_json::to_value(action.action_type).ok().and_then(|v| v.as_str().map(str::to_owned));
    fields.push(("type", kind.unwrap_or_default()));
    let known = [
        ("command", &action.command),
        ("cwd", &action.cwd),
        ("path", &action.path),
        ("destination", &action.destination),
        ("server", &action.server),
        ("tool", &action.tool),
    ];
    fields.extend(known.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
    fields.extend(action.description.clone().filter(|d| *d != p.title).map(|d| ("description", d)));
    fields.extend(action.full_length.map(|length| ("cut", format!("a text of {length} bytes is not shown in full"))));
    if action.redacted {
        fields.push(("redacted", "secrets are not shown".to_owned()));
    }
    fields.push(("since", p.created_at.clone()));
    fields
}

/// One request for people, its options with the commands that choose them.
fn describe(p: &Permission) -> String {
    let mut text = format!("{}\n", terminal(&p.title));
    for (name, value) in fields(p) {
        text += &format!("  {name:<12} {}\n", terminal(&value));
    }
    let q = output::quote;
    for option in p.options.iter().filter(|o| o.selectable) {
        let kind = option.kind.0.get().trim_matches('"');
        text += &format!(
            "  {} ({})\n    {} resolve --task {} --session {} --request {} --pending {} --option {}{}\n",
            terminal(&option.name),
            terminal(kind),
            output::program(),
            q(&p.task_id),
            q(&p.session_id),
            p.request_id,
            q(&p.pending_id),
            q(&option.option_id),
            output::as_whom()
        );
    }
    if !p.options.iter().any(|o| o.selectable) {
        text += &format!(
            "  no option can be selected; to cancel it:\n    {} cancel --task {} --session {} --request {} --pending {}{}\n",
            output::program(),
            q(&p.task_id),
            q(&p.session_id),
            p.request_id,
            q(&p.pending_id),
            output::as_whom()
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
