//! `agentctl run`.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use acp_bridge::presentation::{Redactor, terminal};
use anyhow::Context as _;
use clap::Args;

use super::person::{Progress, converse};
use super::prompt::Turn;
use super::record::{self, Recorded, Recording};
use super::start_args::{StartArgs, environment};
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
    #[command(flatten)]
    what: StartArgs,
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
    /// Start it again when it ends by itself: never, on-failure or always
    #[arg(long, value_name = "WHEN", requires = "detach", value_parser = ["never", "on-failure", "always"], default_value = "never", hide_default_value = true)]
    restart: String,
    /// End it once no turn ran, nothing was asked and it said nothing for so many seconds
    #[arg(long, value_name = "SECONDS")]
    idle_stop: Option<u64>,
    /// End it when its processes together have more MiB of resident memory
    #[arg(long, value_name = "MIB")]
    max_memory: Option<u64>,
    /// End it when it has more processes
    #[arg(long, value_name = "N")]
    max_processes: Option<u64>,
    /// Record the session into this new file, for `agentctl replay`; known secrets, your name and home folder are left out
    #[arg(long, value_name = "FILE", conflicts_with = "detach")]
    record: Option<PathBuf>,
}

impl Run {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let params = self.params(&self.what.agent(global)?)?;
        let redactor = Redactor::new(params.env.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let at_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && !global.json;
        let recording = self.record.as_deref().map(|path| Recording::create(path, &params.env)).transpose()?;
        // At a terminal the conversation takes them.
        let signals = (recording.is_some() && !at_terminal).then(record::end_by_signals);
        let mut client = connect_or_start(global, !self.what.no_start)?;
        let progress = Progress::new(&format!("starting {}", terminal(&params.command)));
        let (started, recorded) = match recording {
            Some(recording) => {
                let (started, recorded) = Recorded::start(connect_or_start(global, !self.what.no_start)?, recording, &params)?;
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
        let task_id = self.what.task(&cwd);
        Ok(StartParams {
            command: agent.command.clone(),
            args: agent.args.clone(),
            env,
            clear_env: true,
            strip_env: agent.strip_env.clone(),
            cwd: cwd.into_os_string().into_string().map_err(|cwd| anyhow::anyhow!("{} is not UTF-8", cwd.display()))?,
            task_id,
            session_id: self.what.session.clone(),
            replace: self.replace,
            bind: !self.detach,
            restart: serde_json::from_value(self.restart.clone().into()).context("--restart")?,
            idle_stop_s: self.idle_stop,
            max_memory_bytes: self.max_memory.map(|mib| mib.saturating_mul(1 << 20)),
            max_processes: self.max_processes,
            record: false,
            owner: None,
        })
    }
}

pub(super) fn print(global: &Global, started: &StartResult) {
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
