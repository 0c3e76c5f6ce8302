//! `agentctl agents`.

use std::process::ExitCode;

use acp_bridge::presentation::{MARKER, Redactor, terminal};
use clap::Args;
use serde::Serialize;

use super::{CliError, Global, output};
use crate::known::{Agent, Known};

/// List the agents that `agentctl run NAME` knows. Agents of your own, or other settings of these, stand in the
/// configuration file: [agents.NAME] with command, args, env, strip_env.
#[derive(Debug, Args)]
pub(super) struct List {}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    command: String,
    args: Vec<String>,
    configured: bool,
    installed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    install: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asks: Option<&'static str>,
}

impl<'a> Row<'a> {
    fn of(known: &'a Known) -> Self {
        let mut words = shown_words(&known.agent).into_iter();
        Self {
            name: &known.name,
            command: words.next().unwrap_or_default(),
            args: words.collect(),
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

/// The command and its arguments, redacted as a command line: an option may say that its value is a secret.
fn shown_words(agent: &Agent) -> Vec<String> {
    let line = shell_words::join(std::iter::once(&agent.command).chain(&agent.args));
    let redactor = Redactor::new(agent.env.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let shown = redactor.command(&line).filter(|shown| shown.full_length.is_none());
    shown.and_then(|shown| shell_words::split(&shown.text).ok()).unwrap_or_else(|| vec![MARKER.to_owned()])
}

fn describe(row: &Row<'_>) -> String {
    let command = shell_words::join(std::iter::once(row.command.as_str()).chain(row.args.iter().map(String::as_str)));
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
