//! `agentctl agents`.

use std::process::ExitCode;

use acp_bridge::presentation::terminal;
use clap::Args;
use serde::Serialize;

use super::{CliError, Global, output};
use crate::known::Known;

/// List the agents that `agentctl run NAME` knows. Agents of your own, or other settings of these, stand in the
/// configuration file: [agents.NAME] with command, args, env, strip_env.
#[derive(Debug, Args)]
pub(super) struct List {}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    command: &'a str,
    args: &'a [String],
    configured: bool,
    installed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    install: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asks: Option<&'static str>,
}

impl<'a> Row<'a> {
    fn of(known: &'a Known) -> Self {
        Self {
            name: &known.name,
            command: &known.agent.command,
            args: &known.agent.args,
            configured: known.configured,
            installed: known.installed().map(|path| path.display().to_string()),
            install: known.advice.map(|advice| advice.install),
            asks: known.advice.map(|advice| advice.asks),
        }
    }
}

impl List {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let agents = global.agents()?;
        let rows: Vec<Row<'_>> = agents.iter().map(Row::of).collect();
        if global.json {
            output::json(&rows);
        } else {
            output::out(&rows.iter().map(describe).collect::<Vec<_>>().join("\n"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn describe(row: &Row<'_>) -> String {
    let command = shell_words::join(std::iter::once(row.command).chain(row.args.iter().map(String::as_str)));
    let from = if row.configured { " (from the configuration file)" } else { "" };
    let mut text = format!("{}\n  command    {}{from}\n", terminal(row.name), terminal(&command));
    match (&row.installed, row.install) {
        (Some(path), _) => text += &format!("  installed  {}\n", terminal(path)),
        (None, Some(install)) => text += &format!("  installed  no; {install}\n"),
        (None, None) => text += "  installed  no: the command is not found\n",
    }
    if let Some(asks) = row.asks {
        text += &format!("  asks       {asks}\n");
    }
    text
}
