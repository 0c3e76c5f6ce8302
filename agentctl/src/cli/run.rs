//! `agentctl run`.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acp_bridge::presentation::{Redactor, terminal};
use anyhow::Context as _;
use clap::Args;

use super::person::{Progress, converse};
use super::prompt::Turn;
use super::record::{self, Recorded, Recording};
use super::start_daemon::connect_or_start;
use super::{CliError, Global, output};
use crate::client::Client;
use crate::known::Agent;
use crate::wire::{ExecutionParams, StartParams, StartResult, StopResult};

/// Start an agent, which ends with this command. With -p one turn is streamed, and the exit status is 0 on `end_turn`.
/// At a terminal, permission requests are asked inline with the agent's own options, and without -p each line that is
/// typed is a turn. Elsewhere requests are answered with `agentctl resolve`, and without -p the agent stays until
/// this command is interrupted or the agent ends.
#[derive(Debug, Args)]
pub(super) struct Run {
    /// The task [default: the name of the working folder]
    #[arg(long, value_name = "TASK", allow_hyphen_values = true)]
    task: Option<String>,
    /// The session [default: a new one]
    #[arg(long, value_name = "SESSION", allow_hyphen_values = true)]
    session: Option<String>,
    /// The agent's working folder [default: this one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The prompt of the first turn
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Leave the agent running and print its ids
    #[arg(long)]
    detach: bool,
    /// End a live execution of the session first
    #[arg(long)]
    replace: bool,
    /// Names of environment variables that the agent must not see
    #[arg(long, value_name = "NAME")]
    strip_env: Vec<String>,
    /// Record the session into this new file, for `agentctl replay`; known secrets, your name and home folder are left out
    #[arg(long, value_name = "FILE", conflicts_with = "detach")]
    record: Option<PathBuf>,
    /// Fail if no daemon runs
    #[arg(long)]
    no_start: bool,
    /// An agent by name, see `agentctl agents`; then what stands after `--` are further arguments for it
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
    /// The agent's command and its arguments
    #[arg(last = true, required_unless_present = "agent", value_name = "CMD")]
    command: Vec<String>,
}

impl Run {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let params = self.params(&agent(global, self.agent.as_deref(), &self.command, &self.strip_env)?)?;
        let redactor = Redactor::new(params.env.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let at_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && !global.json;
        let recording = self.record.as_deref().map(|path| Recording::create(path, &params.env)).transpose()?;
        // At a terminal the conversation takes them.
        let signals = (recording.is_some() && !at_terminal).then(record::end_by_signals);
        let mut client = connect_or_start(global, !self.no_start)?;
        let progress = Progress::new(&format!("starting {}", terminal(&params.command)));
        let (started, recorded) = match recording {
            Some(recording) => {
                let (started, recorded) = Recorded::start(connect_or_start(global, !self.no_start)?, recording, &params)?;
                (started, Some(recorded))
            }
            None => (client.call("execution/start", &params)?, None),
        };
        drop(progress);
        if let Some(signals) = signals {
            record::stop_on(signals, global, started.session_id.clone());
        }
        if self.detach {
            if let Some(text) = self.prompt {
                Turn::start(&mut client, &started.session_id, text)?.wait_started()?;
            }
            print(global, &started);
            return Ok(ExitCode::SUCCESS);
        }
        output::note(&format!(
            "task {}  session {}  pid {}",
            output::quote(&started.task_id),
            output::quote(&started.session_id),
            started.pid
        ));
        let outcome = match self.prompt {
            prompt if at_terminal => converse(client, started.clone(), redactor, prompt),
            Some(text) => turn(&mut client, global, &started, text, &redactor),
            None => wait(&mut client, &started),
        };
        if let Some(recorded) = recorded {
            if outcome.is_err() {
                // A recording ends with its agent.
                let _ = global.connect().map(|mut client| stop(&mut client, &started));
            }
            recorded.finish()?;
        }
        record::ended_by_signal().map_or(outcome, |status| Ok(ExitCode::from(status)))
    }

    fn params(&self, agent: &Agent) -> Result<StartParams, CliError> {
        let here = std::env::current_dir().context("cannot tell the working folder")?;
        let cwd = self.cwd.as_ref().map_or_else(|| here.clone(), |cwd| here.join(cwd));
        let cwd = cwd.canonicalize().unwrap_or(cwd);
        let mut env = environment();
        env.extend(agent.env.clone());
        let task_id = self.task.clone().unwrap_or_else(|| task_of(&cwd));
        Ok(StartParams {
            command: agent.command.clone(),
            args: agent.args.clone(),
            env,
            clear_env: true,
            strip_env: agent.strip_env.clone(),
            cwd: cwd.into_os_string().into_string().map_err(|cwd| anyhow::anyhow!("{} is not UTF-8", cwd.display()))?,
            task_id,
            session_id: self.session.clone(),
            replace: self.replace,
            bind: !self.detach,
            record: false,
            owner: None,
        })
    }
}

/// What is to be started, by name or by its command.
pub(super) fn agent(global: &Global, name: Option<&str>, command: &[String], strip_env: &[String]) -> Result<Agent, CliError> {
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

/// The task of a working folder.
pub(super) fn task_of(cwd: &Path) -> String {
    cwd.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned())
}

fn print(global: &Global, started: &StartResult) {
    if global.json {
        return output::json(started);
    }
    output::out(&format!(
        "execution {}\ntask {}\nsession {}\npid {}\n",
        started.execution_id,
        output::quote(&started.task_id),
        output::quote(&started.session_id),
        started.pid
    ));
}

/// One turn, and then the agent's end.
fn turn(client: &mut Client, global: &Global, started: &StartResult, text: String, redactor: &Redactor) -> Result<ExitCode, CliError> {
    let outcome = Turn::start(client, &started.session_id, text)?.stream(global, redactor);
    stop(client, started)?;
    outcome
}

fn stop(client: &mut Client, started: &StartResult) -> Result<StopResult, CliError> {
    let params = ExecutionParams { execution_id: Some(started.execution_id.clone()), ..Default::default() };
    let result: StopResult = client.call("execution/stop", &params)?;
    super::stop::warn_of_survivors(&result);
    Ok(result)
}

/// Waits for the agent's end, telling of its prompts.
fn wait(client: &mut Client, started: &StartResult) -> Result<ExitCode, CliError> {
    super::events::subscribe(client, None, Some(&started.session_id), None)?;
    let params = ExecutionParams { execution_id: Some(started.execution_id.clone()), ..Default::default() };
    let info: crate::wire::ExecutionInfo = client.call("execution/get", &params)?;
    if info.state == crate::wire::State::Exited {
        output::note(&format!("the agent ended: {}", info.reason.unwrap_or_default()));
        return Ok(if info.exit == Some(crate::wire::Exit::Code(0)) { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    loop {
        if let crate::client::Incoming::Event(event) = client.recv()? {
            super::permissions::notice(&event);
            if event.state == Some(crate::wire::State::Exited) && event.execution_id.as_deref() == Some(&started.execution_id) {
                output::note(&format!("the agent ended: {}", event.reason.unwrap_or_default()));
                return Ok(match event.exit {
                    Some(crate::wire::Exit::Code(0)) => ExitCode::SUCCESS,
                    _ => ExitCode::FAILURE,
                });
            }
        }
    }
}
