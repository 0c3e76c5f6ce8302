//! Runs scripts, each on a thread with a small stack.

use std::fs::File;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agent::Pending;
use super::io::{stderr_bytes, stderr_line};
use super::script::{Ask, Bulk, Call, Stderr, Step, hex};
use super::{Shared, child};

/// Why a script ended before its last step.
enum Stop {
    Cancelled,
    Broken(String),
}

struct Runner {
    agent: Shared,
    session: String,
    /// The turn it runs in; `None` outside of any, and once it was answered.
    turn: Option<u64>,
}

/// Starts a thread that does not need much.
pub(super) fn spawn_small(name: &str, work: impl FnOnce() + Send + 'static) {
    let builder = std::thread::Builder::new().name(name.into()).stack_size(256 * 1024);
    if let Err(err) = builder.spawn(work) {
        stderr_line(&format!("fake-agent: can't start a thread: {err}"));
        std::process::exit(71);
    }
}

/// Runs `steps` in the background; they end the turn, if there is one.
pub(super) fn start(agent: &Shared, session: String, turn: Option<u64>, steps: Result<Vec<Step>, String>) {
    let mut runner = Runner { agent: agent.clone(), session, turn };
    spawn_small("script", move || {
        let end = steps.map_err(Stop::Broken).and_then(|steps| runner.steps(&steps));
        runner.finish(end);
    });
}

/// Asks outside of any script.
pub(super) fn ask(agent: &Shared, session: &str, id: &str) {
    Runner { agent: agent.clone(), session: session.to_owned(), turn: None }.ask(&Ask { id: Some(json!(id)), ..Ask::default() });
}

impl Runner {
    fn finish(&mut self, end: Result<(), Stop>) {
        match end {
            Ok(()) => self.end_turn(Ok(json!({"stopReason": "end_turn"}))),
            Err(Stop::Broken(why)) => {
                self.agent.log.write(json!({"script_error": why}));
                stderr_line(&format!("fake-agent: script: {why}"));
                self.end_turn(Err((-32602, format!("script: {why}"))));
            }
            Err(Stop::Cancelled) => {
                if self.agent.cli.prompt_after_cancel {
                    let id = self.ask(&Ask { id: Some(json!("after-cancel")), ..Ask::default() });
                    let mut state = self.agent.state();
                    while state.pending.contains_key(&id.to_string()) {
                        state = self.agent.wait(state, Duration::from_secs(60));
                    }
                }
                if !self.agent.cli.cancel_ignored {
                    self.end_turn(Ok(json!({"stopReason": "cancelled"})));
                }
            }
        }
    }

    /// Answers the turn, if it still runs.
    fn end_turn(&mut self, answer: Result<Value, (i64, String)>) {
        let Some(number) = self.turn.take() else { return };
        let mut state = self.agent.state();
        if state.turns.get(&self.session).is_some_and(|turn| turn.number == number)
            && let Some(turn) = state.turns.remove(&self.session)
        {
            drop(state);
            self.agent.respond(&turn.request, answer);
        }
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), Stop> {
        for step in steps {
            self.wait_until(|_| true)?;
            self.step(step)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), Stop> {
        let agent = self.agent.clone();
        match step {
            Step::Ask(ask) => {
                self.ask(ask);
            }
            Step::Await(id) => {
                let key = id.to_string();
                if !agent.state().asked.contains(&key) {
                    return Err(Stop::Broken(format!("await of {id}, which was never asked")));
                }
                self.wait_until(|state| !state.pending.contains_key(&key))?;
            }
            Step::AwaitAll(_) => self.wait_until(|state| state.pending.is_empty())?,
            Step::Withdraw(id) => {
                if let Some(pending) = agent.state().pending.get_mut(&id.to_string()) {
                    pending.withdrawn = true;
                }
                agent.send(&json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}}));
            }
            Step::Request(Call { id, method, params }) => {
                let id = agent.register(id.clone(), Pending::default());
                agent.send(&with_params(json!({"jsonrpc": "2.0", "id": id, "method": method}), params.as_ref()));
            }
            Step::Notify(Call { method, params, .. }) => {
                agent.send(&with_params(json!({"jsonrpc": "2.0", "method": method}), params.as_ref()));
            }
            Step::Update(update) => agent.update(&self.session, &Value::Object(update.clone())),
            Step::Text(text) => agent.text(&self.session, text),
            Step::Frame(bulk) => self.frame(bulk)?,
            Step::Raw(line) => agent.out.line(&agent.log, &self.fill_in(line), usize::MAX),
            Step::Part(text) => agent.out.bytes(&agent.log, self.fill_in(text).as_bytes(), usize::MAX, false),
            Step::RawHex(digits) => {
                let bytes = hex(digits).ok_or_else(|| Stop::Broken(format!("{digits:?} is no hexadecimal text")))?;
                agent.out.bytes(&agent.log, &bytes, usize::MAX, true);
            }
            Step::Bytes(bulk) => pour(
                bulk.len,
                |part| agent.out.bytes(&agent.log, part, bulk.chunk, false),
                bulk.newline,
                || {
                    agent.out.bytes(&agent.log, b"\n", 1, false);
                },
            ),
            Step::Stderr(Stderr { bytes, text, newline }) => {
                stderr_bytes(text.as_bytes());
                pour(*bytes, stderr_bytes, *newline, || stderr_bytes(b"\n"));
            }
            Step::StopReason(reason) => self.end_turn(Ok(json!({"stopReason": reason}))),
            Step::Error(error) => self.end_turn(Err((error.code, error.message.clone()))),
            Step::Echo(_) => {
                let answers = json!({"answers": agent.state().answers});
                agent.text(&self.session, &answers.to_string());
            }
            Step::Loop(repeat) => {
                for _ in 0..repeat.times {
                    self.steps(&repeat.steps)?;
                }
            }
            Step::SleepMs(ms) => {
                let until = Instant::now() + Duration::from_millis(*ms);
                self.wait_until_or(until, |_| Instant::now() >= until)?;
            }
            Step::AwaitFile(path) => {
                while !path.exists() {
                    let look = Instant::now() + Duration::from_millis(2);
                    self.wait_until_or(look, |_| Instant::now() >= look)?;
                }
            }
            Step::Hang(_) => self.wait_until(|_| false)?,
            Step::Exit(code) => std::process::exit(*code),
            Step::Signal(number) => child::signal_self(*number).map_err(Stop::Broken)?,
            Step::CloseStdout(_) => redirect(nix::unistd::dup2_stdout)?,
            Step::CloseStderr(_) => redirect(nix::unistd::dup2_stderr)?,
            Step::CloseStdin(_) => agent.gate.close(),
            Step::StopReading(_) => agent.gate.pause(true),
            Step::ResumeReading(_) => agent.gate.pause(false),
            Step::Spawn(spawn) => child::spawn(spawn, agent.cli.log.as_deref()).map_err(Stop::Broken)?,
            Step::Env(name) => {
                let value = std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
                agent.log.write(json!({"env": name, "value": value}));
            }
            Step::Cwd(_) => {
                let cwd = std::env::current_dir().map(|dir| dir.to_string_lossy().into_owned());
                agent.log.write(json!({"cwd": cwd.unwrap_or_else(|err| err.to_string())}));
            }
        }
        Ok(())
    }

    /// Sends a prompt; its id.
    fn ask(&self, ask: &Ask) -> Value {
        if let Some(raw) = &ask.raw {
            let line = self.fill_in(raw);
            let frame: Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(id) = ask.id.as_ref().or_else(|| frame.get("id")) {
                self.agent.register(Some(id.clone()), Pending { offered: offered(&frame["params"]["options"]), withdrawn: false });
            }
            self.agent.out.line(&self.agent.log, &line, usize::MAX);
            return ask.id.clone().unwrap_or_default();
        }
        let options = ask.options.clone().unwrap_or_else(|| {
            json!([
                {"optionId": "allow-once", "name": "Allow once", "kind": "allow_once"},
                {"optionId": "allow-always", "name": "Always allow", "kind": "allow_always"},
                {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
            ])
        });
        let id = self.agent.register(ask.id.clone(), Pending { offered: offered(&options), withdrawn: false });
        let call = ask.tool_call.clone().unwrap_or_else(|| {
            let call = format!("call_{}", id.as_str().map_or_else(|| id.to_string(), ToOwned::to_owned));
            json!({"toolCallId": call, "title": "git status", "kind": "execute", "rawInput": {"command": "git status"}})
        });
        let session = ask.session.clone().unwrap_or_else(|| json!(self.session));
        let mut params = json!({"sessionId": session, "toolCall": call, "options": options});
        if let Some(meta) = &ask.meta {
            params["_meta"] = meta.clone();
        }
        let mut frame = json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params});
        if let Some(len) = ask.pad_to {
            frame["pad"] = json!("");
            frame["pad"] = json!("x".repeat(len.saturating_sub(frame.to_string().len())));
        }
        self.agent.send(&frame);
        id
    }

    fn frame(&self, bulk: &Bulk) -> Result<(), Stop> {
        let frame = |text: &str| {
            let update = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
            json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": self.session, "update": update}}).to_string()
        };
        let fill = bulk.len.checked_sub(frame("").len()).ok_or_else(|| Stop::Broken(format!("no frame has {} bytes", bulk.len)))?;
        self.agent.out.line(&self.agent.log, &frame(&"x".repeat(fill)), bulk.chunk);
        Ok(())
    }

    fn fill_in(&self, line: &str) -> String {
        line.replace("{{session}}", &self.session)
    }

    /// Waits for a condition; an error once the turn is cancelled.
    fn wait_until(&self, done: impl Fn(&super::agent::State) -> bool) -> Result<(), Stop> {
        self.wait_until_or(Instant::now() + Duration::from_secs(60), done)
    }

    /// The same, looking again at `look` at the latest.
    fn wait_until_or(&self, look: Instant, done: impl Fn(&super::agent::State) -> bool) -> Result<(), Stop> {
        let mut state = self.agent.state();
        loop {
            let turn = state.turns.get(&self.session);
            if self.turn.is_some() && turn.is_some_and(|turn| Some(turn.number) == self.turn && turn.cancelled) {
                return Err(Stop::Cancelled);
            }
            if done(&state) {
                return Ok(());
            }
            let left = look.saturating_duration_since(Instant::now());
            state = self.agent.wait(state, if left.is_zero() { Duration::from_secs(60) } else { left });
        }
    }
}

fn with_params(mut message: Value, params: Option<&Value>) -> Value {
    if let Some(params) = params {
        message["params"] = params.clone();
    }
    message
}

/// The ids of options, for what the agent can tell.
fn offered(options: &Value) -> Option<std::collections::HashSet<String>> {
    let ids = options.as_array()?.iter().filter_map(|option| option["optionId"].as_str());
    Some(ids.map(ToOwned::to_owned).collect())
}

/// Writes `len` bytes in parts, so that much of it takes little memory.
fn pour(len: usize, write: impl Fn(&[u8]), newline: bool, end: impl Fn()) {
    let block = [b'x'; 16 * 1024];
    let mut left = len;
    while left > 0 {
        let part = left.min(block.len());
        write(&block[..part]);
        left -= part;
    }
    if newline {
        end();
    }
}

fn redirect(dup: impl Fn(File) -> nix::Result<()>) -> Result<(), Stop> {
    let null = File::options().write(true).open("/dev/null").map_err(|err| Stop::Broken(err.to_string()))?;
    dup(null).map_err(|err| Stop::Broken(err.to_string()))
}
