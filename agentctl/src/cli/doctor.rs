//! `agentctl doctor`.

use std::process::ExitCode;
use std::time::Duration;

use acp_bridge::presentation::terminal;
use clap::Args;

use super::person::Progress;
use super::start_args::environment;
use super::{CliError, Global, output};
use crate::doctor::{Asked, Card, Check, State, Wanted, examine, setup};
use crate::paths;

const PROMPT: &str = "Run these two shell commands, both at once as two separate tool calls, and nothing else: \
    `echo agentctl-doctor-1` and `echo agentctl-doctor-2`.";

/// Check the set-up; or, with a command, how an agent behaves when it asks for permission. The agent is started several times, in
/// an empty folder and under a daemon of its own, and is made to ask. It is answered with an option that it offers and that rejects
/// once (or with --allow, allows once); if it offers none, its request is cancelled. This uses the agent's model.
#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Allow what the agent asks for, once each, instead of rejecting it: to see what comes after
    #[arg(long, requires = "command")]
    allow: bool,
    /// What the agent is asked to do; it should make it ask twice
    #[arg(long, value_name = "TEXT", default_value = PROMPT, hide_default_value = true, allow_hyphen_values = true, requires = "command")]
    prompt: String,
    /// The longest wait for anything
    #[arg(long, value_name = "SECONDS", default_value_t = 120, requires = "command")]
    timeout: u64,
    /// An agent's command and its arguments, or the name of a known agent alone
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

impl Doctor {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        if self.command.is_empty() {
            return Ok(check(global));
        }
        let mut env = environment();
        let mut command = self.command;
        if let ([name], Ok(agents)) = (&command[..], global.agents())
            && let Ok(known) = agents.find(name)
        {
            let agent = known.agent.clone();
            env.extend(agent.env);
            env.retain(|name, _| !agent.strip_env.contains(name));
            command = std::iter::once(agent.command).chain(agent.args).collect();
        }
        env.retain(|name, _| !name.starts_with("AGENTCTL_"));
        let wanted = Wanted { command, env, prompt: self.prompt, allow: self.allow, timeout: Duration::from_secs(self.timeout) };
        let progress = Progress::new("examining the agent");
        let card = examine(&wanted)?;
        drop(progress);
        if global.json {
            output::json(&card);
        } else {
            output::out(&describe(&card));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn check(global: &Global) -> ExitCode {
    let agents = crate::known::Agents::load(&paths::config(global.config.clone()), global.config.is_some());
    let checks = setup(&global.socket(), &global.state_dir(), agents);
    if global.json {
        output::json(&checks);
    } else {
        output::out(&checks.iter().map(line).collect::<String>());
    }
    ExitCode::from(u8::from(checks.iter().any(|check| check.state == State::Fail)))
}

fn line(check: &Check) -> String {
    let state = match check.state {
        State::Ok => "ok  ",
        State::Warn => "warn",
        State::Fail => "FAIL",
    };
    format!("{state}  {:<14} {}\n", check.name, terminal(&check.found))
}

fn describe(card: &Card) -> String {
    let known = |value: &Option<String>| value.as_deref().map_or("unknown".into(), |value| terminal(value).into_owned());
    let ms = |value: Option<f64>| value.map_or("?".into(), |ms| format!("{ms:.0} ms"));
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("{name:<24} {value}\n");
    line("agent", format!("{} {}", known(&card.agent.name), known(&card.agent.version)));
    line("start", format!("initialize {}, then session/new {}", ms(card.initialize_ms), ms(card.session_new_ms)));
    match card.prompts.first() {
        None => line("prompts", "none: it did not ask (wrong mode, or the model did not use a tool)".into()),
        Some(first) => {
            line("prompts", card.prompts.len().to_string());
            line("request id", first.id_type.into());
            line("tool call before it", yes(card, |asked| asked.tool_call_before));
            line("raw input in it", yes(card, |asked| asked.raw_input));
            line("kind", first.kind.as_deref().map_or("none".into(), |kind| terminal(kind).into_owned()));
            for (id, kind) in &first.options {
                line("option", format!("{}  {}", kind.as_deref().map_or("no kind".into(), terminal), terminal(id)));
            }
        }
    }
    line(
        "prompts of one turn",
        match card.concurrent {
            Some(true) => "concurrent".into(),
            Some(false) => "one after the other".into(),
            None => "only one was seen".into(),
        },
    );
    line("turn ended", known(&card.stop_reason));
    let w = &card.witness;
    line("tools not asked for", w.unasked.to_string());
    if let Some(cancelled) = &card.on_cancel {
        let withdrew = if cancelled.withdrew { ", and it withdrew its request" } else { "" };
        line("on cancel while asking", format!("{} after {:.0} ms{withdrew}", terminal(&cancelled.stop_reason), cancelled.after_ms));
    }
    if let Some(ended) = &card.on_stdin_closed {
        let what = match ended.by.as_str() {
            "closed_stdin" => format!("exits in {:.0} ms", ended.after_ms),
            by => format!("not gone after 1 s; ended by {} after {:.0} ms", by.to_uppercase(), ended.after_ms),
        };
        line("on stdin closed, idle", what);
        line("processes", format!("{} had to be killed besides it, {} left", ended.killed, ended.left));
    }
    text
}

fn yes(card: &Card, is_so: impl Fn(&Asked) -> bool) -> String {
    let count = card.prompts.iter().filter(|asked| is_so(asked)).count();
    match count {
        0 => "no".into(),
        n if n == card.prompts.len() => "yes".into(),
        n => format!("{n} of {}", card.prompts.len()),
    }
}
