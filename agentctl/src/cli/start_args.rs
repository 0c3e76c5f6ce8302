//! What `run` and `proxy` start: an agent, for a task and a session.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;

use super::{CliError, Global, output};
use crate::known::Agent;

/// The arguments that both take.
#[derive(Debug, Args)]
pub(super) struct StartArgs {
    /// The task [default: the name of the working folder]
    #[arg(long, value_name = "TASK", allow_hyphen_values = true)]
    pub(super) task: Option<String>,
    /// The session [default: a new one]
    #[arg(long, value_name = "SESSION", allow_hyphen_values = true)]
    pub(super) session: Option<String>,
    /// Names of environment variables that the agent must not see
    #[arg(long, value_name = "NAME")]
    strip_env: Vec<String>,
    /// Fail if no daemon runs
    #[arg(long)]
    pub(super) no_start: bool,
    /// An agent by name, see `agentctl agents`; then what stands after `--` are further arguments for it
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
    /// The agent's command and its arguments
    #[arg(last = true, required_unless_present = "agent", value_name = "CMD")]
    command: Vec<String>,
}

impl StartArgs {
    /// The agent that they name.
    pub(super) fn agent(&self, global: &Global) -> Result<Agent, CliError> {
        agent(global, self.agent.as_deref(), &self.command, &self.strip_env)
    }

    /// The task that they name, or that of the working folder.
    pub(super) fn task(&self, cwd: &Path) -> String {
        let of_folder = || cwd.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
        self.task.clone().unwrap_or_else(of_folder)
    }
}

/// What is to be started, by name or by its command.
fn agent(global: &Global, name: Option<&str>, command: &[String], strip_env: &[String]) -> Result<Agent, CliError> {
    let mut words = command.iter().cloned();
    let mut agent = match name {
        Some(name) => {
            let agents = global.agents()?;
            let known = agents.find(name)?;
            if let (None, Some(advice)) = (known.installed(), known.advice.filter(|_| !known.configured)) {
                output::note(&format!("{name} is not installed; to install it: {}", advice.install));
            }
            known.agent.clone()
        }
        None => Agent { command: words.next().unwrap_or_default(), ..Agent::default() },
    };
    agent.args.extend(words);
    agent.strip_env.extend(strip_env.iter().cloned());
    Ok(agent)
}

/// This process's environment, as far as it is text.
pub(super) fn environment() -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => drop(env.insert(name, value)),
            (Ok(name), Err(_)) => output::note(&format!("{name} is not passed on: its value is not UTF-8")),
            (Err(_), _) => {}
        }
    }
    env
}
