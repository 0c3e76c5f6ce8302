//! The protocol: what arrives, what is pending, who answers.

use std::collections::{HashMap, HashSet};
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::cli::Cli;
use super::io::{Log, Out, lock, stderr_line};
use super::reader::{Gate, Read, Reader};
use super::{Shared, run, script};

/// What all threads share.
pub(super) struct Agent {
    pub(super) cli: Cli,
    pub(super) log: Log,
    pub(super) out: Out,
    pub(super) gate: Gate,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    initialized: bool,
    sessions: HashSet<String>,
    made: usize,
    /// Running turns by session.
    pub(super) turns: HashMap<String, Turn>,
    next_turn: u64,
    /// Unanswered requests of ours by the JSON text of their id.
    pub(super) pending: HashMap<String, Pending>,
    /// All ids ever asked.
    pub(super) asked: HashSet<String>,
    /// Answers in order of arrival.
    pub(super) answers: Vec<Value>,
    next_id: u64,
}

/// A turn that has not been answered.
pub(super) struct Turn {
    pub(super) number: u64,
    pub(super) request: Value,
    pub(super) cancelled: bool,
}

/// A request that waits for its answer.
#[derive(Default)]
pub(super) struct Pending {
    /// The options of a prompt, where they could be read.
    pub(super) offered: Option<HashSet<String>>,
    pub(super) withdrawn: bool,
}

/// The error of a response.
type Refusal = (i64, String);

impl Agent {
    pub(super) fn new(cli: Cli, log: Log, gate: Gate) -> Shared {
        Arc::new(Self { cli, log, out: Out::default(), gate, state: Mutex::default(), changed: Condvar::new() })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits until something changed.
    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, State>, at_most: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, at_most).unwrap_or_else(std::sync::PoisonError::into_inner).0
    }

    /// Reads until the end of stdin.
    pub(super) fn serve(self: Arc<Self>, mut reader: Reader) -> ExitCode {
        loop {
            match reader.next() {
                Read::Line(line) => self.line(&line),
                Read::End(rest) => {
                    if !rest.is_empty() {
                        self.violation(&format!("stdin ended within a line of {} bytes", rest.len()));
                    }
                    self.log.write(json!({"eof": true}));
                    if !self.cli.stay_on_eof {
                        return ExitCode::SUCCESS;
                    }
                    loop {
                        std::thread::park();
                    }
                }
            }
        }
    }

    /// Reports what no client may do.
    pub(super) fn violation(&self, what: &str) {
        self.log.write(json!({"violation": what}));
        stderr_line(&format!("fake-agent: violation: {what}"));
        if !self.cli.lenient {
            std::process::exit(70);
        }
    }

    fn line(self: &Shared, line: &[u8]) {
        self.log.write(json!({"recv": String::from_utf8_lossy(line)}));
        let message = match serde_json::from_slice(line) {
            Ok(Value::Object(message)) => message,
            _ => return self.violation("a line that is no JSON object"),
        };
        if message.get("jsonrpc") != Some(&json!("2.0")) {
            return self.violation("a message without \"jsonrpc\":\"2.0\"");
        }
        let id = message.get("id").cloned();
        match (message.get("method"), id) {
            (Some(Value::String(method)), Some(id)) => self.request(method, id, message.get("params").unwrap_or(&Value::Null)),
            (Some(Value::String(method)), None) => self.notification(method, message.get("params").unwrap_or(&Value::Null)),
            (None, Some(id)) => self.answer(id, &message),
            _ => self.violation("a message that is no request, notification or response"),
        }
        self.changed.notify_all();
    }

    fn answer(&self, id: Value, message: &Map<String, Value>) {
        if message.contains_key("result") == message.contains_key("error") {
            return self.violation(&format!("the answer to {id} needs a result or an error"));
        }
        let mut state = self.state();
        let Some(pending) = state.pending.remove(&id.to_string()) else {
            let text = |id: &Value| id.as_str().map_or_else(|| id.to_string(), ToOwned::to_owned);
            let like = state.pending.keys().find(|key| serde_json::from_str(key).is_ok_and(|other: Value| text(&other) == text(&id)));
            let what = match like {
                Some(other) => format!("an answer to {id}, but {other} is pending: wrong JSON type"),
                None if state.asked.contains(&id.to_string()) => format!("a second answer to {id}"),
                None => format!("an answer to {id}, which names nothing pending"),
            };
            drop(state);
            return self.violation(&what);
        };
        let mut answer = json!({"id": id});
        for name in ["result", "error"] {
            if let Some(value) = message.get(name) {
                answer[name] = value.clone();
            }
        }
        let wrong = check_outcome(&pending, message);
        state.answers.push(answer);
        drop(state);
        if let Some(what) = wrong {
            self.violation(&format!("the answer to {id}: {what}"));
        }
    }

    fn notification(self: &Shared, method: &str, params: &Value) {
        if method == "session/cancel" {
            match params["sessionId"].as_str() {
                Some(session) => self.cancel(session),
                None => self.violation("session/cancel without a sessionId"),
            }
        }
    }

    fn cancel(&self, session: &str) {
        if let Some(turn) = self.state().turns.get_mut(session) {
            turn.cancelled = true;
        }
    }

    fn request(self: &Shared, method: &str, id: Value, params: &Value) {
        if method != "initialize" && !self.state().initialized {
            self.respond(&id, Err((-32602, format!("{method} before initialize"))));
            return self.violation(&format!("{method} before initialize"));
        }
        let answer = match method {
            "initialize" if self.cli.init_never => return,
            "initialize" => self.initialize(params),
            "authenticate" => Ok(json!({})),
            "session/new" if self.cli.new_never => return,
            "session/new" => self.new_session(params),
            "session/load" if self.cli.load => self.take_session(params, true),
            "session/resume" if self.cli.resume => self.take_session(params, false),
            "session/prompt" => match self.prompt(&id, params) {
                Ok(()) => return,
                Err(refusal) => Err(refusal),
            },
            "session/close" => self.known_session(params).map(|session| {
                self.cancel(&session);
                json!({})
            }),
            "session/set_mode" if self.cli.modes => self.known_session(params).map(|_| json!({})),
            _ => Err((-32601, format!("method not found: {method}"))),
        };
        if matches!(method, "initialize" | "session/new") {
            std::thread::sleep(Duration::from_millis(self.cli.delay_ms));
        }
        let script = self.cli.after_new.as_deref().filter(|_| method == "session/new");
        let session = answer.as_ref().ok().and_then(|result: &Value| result["sessionId"].as_str()).map(ToOwned::to_owned);
        self.respond(&id, answer);
        if let (Some(script), Some(session)) = (script, session) {
            run::start(self, session, None, script::parse(script).unwrap_or_else(|| Err("--after-new is no JSON array".into())));
        }
    }

    /// One of its own texts, unless `--texts` gives another.
    fn own_text(&self, name: &str, usual: &str) -> String {
        let file = self.cli.texts.as_ref().and_then(|path| std::fs::read(path).ok());
        let texts: Value = file.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        texts[name].as_str().unwrap_or(usual).to_owned()
    }

    fn initialize(&self, params: &Value) -> Result<Value, Refusal> {
        if self.cli.init_error {
            return Err((-32603, self.own_text("error", "initialize failed, as asked")));
        }
        if params["protocolVersion"].as_u64().is_none() || !params["clientCapabilities"].is_object() {
            return Err((-32602, "initialize needs protocolVersion (an integer) and clientCapabilities".into()));
        }
        if std::mem::replace(&mut self.state().initialized, true) {
            self.violation("a second initialize");
        }
        let mut sessions = json!({"close": {}});
        if self.cli.resume {
            sessions["resume"] = json!({});
        }
        Ok(json!({
            "protocolVersion": self.cli.init_version,
            "agentCapabilities": {
                "loadSession": self.cli.load,
                "promptCapabilities": {},
                "mcpCapabilities": {"http": true, "sse": true},
                "sessionCapabilities": sessions,
            },
            "agentInfo": {"name": self.own_text("name", "fake-agent"), "version": self.own_text("version", env!("CARGO_PKG_VERSION"))},
            "authMethods": if self.cli.new_auth_required { json!([{"id": "login", "name": self.own_text("login", "Log in")}]) } else { json!([]) },
        }))
    }

    fn new_session(&self, params: &Value) -> Result<Value, Refusal> {
        check_session_params(params)?;
        if self.cli.new_error {
            return Err((-32603, self.own_text("error", "session/new failed, as asked")));
        }
        if self.cli.new_auth_required {
            return Err((-32000, self.own_text("error", "Authentication required")));
        }
        let session = {
            let mut state = self.state();
            state.made += 1;
            let session = format!("fake-session-{}", state.made);
            state.sessions.insert(session.clone());
            session
        };
        if self.cli.update_before_new {
            self.update(&session, &json!({"sessionUpdate": "available_commands_update", "availableCommands": []}));
        }
        let mut result = json!({"sessionId": session});
        if self.cli.modes {
            let modes = json!([{"id": "default", "name": "Default"}, {"id": "auto", "name": "Auto"}]);
            result["modes"] = json!({"currentModeId": "default", "availableModes": modes});
        }
        Ok(result)
    }

    fn take_session(self: &Shared, params: &Value, replay: bool) -> Result<Value, Refusal> {
        // To resume none have to be named.
        if replay || params.get("mcpServers").is_some() {
            check_session_params(params)?;
        }
        let session = params["sessionId"].as_str().ok_or((-32602, "sessionId is missing".to_owned()))?;
        self.state().sessions.insert(session.to_owned());
        if replay {
            self.text(session, "history");
            if self.cli.ask_on_load {
                run::ask(self, session, "history");
            }
        }
        Ok(json!({}))
    }

    fn known_session(&self, params: &Value) -> Result<String, Refusal> {
        match params["sessionId"].as_str() {
            Some(session) if self.state().sessions.contains(session) => Ok(session.to_owned()),
            Some(session) => Err((-32002, format!("no session {session:?}"))),
            None => Err((-32602, "sessionId is missing".into())),
        }
    }

    fn prompt(self: &Shared, id: &Value, params: &Value) -> Result<(), Refusal> {
        let session = self.known_session(params)?;
        let blocks = params["prompt"].as_array().ok_or((-32602, "prompt must be an array".to_owned()))?;
        let text: String = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let steps = script::parse(&text).unwrap_or_else(|| Ok(vec![script::Step::Text("Done.".into())]));
        let number = {
            let mut state = self.state();
            if state.turns.contains_key(&session) {
                return Err((-32600, format!("a turn is running in {session:?}")));
            }
            state.next_turn += 1;
            let number = state.next_turn;
            state.turns.insert(session.clone(), Turn { number, request: id.clone(), cancelled: false });
            number
        };
        run::start(self, session, Some(number), steps);
        Ok(())
    }

    /// Answers a request of the client.
    pub(super) fn respond(&self, id: &Value, answer: Result<Value, Refusal>) {
        self.send(&match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message)) => json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}),
        });
    }

    pub(super) fn send(&self, message: &Value) {
        self.out.line(&self.log, &message.to_string(), usize::MAX);
    }

    pub(super) fn update(&self, session: &str, update: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}));
    }

    pub(super) fn text(&self, session: &str, text: &str) {
        self.update(session, &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}));
    }

    /// The id of a request of ours, noted as pending.
    pub(super) fn register(&self, id: Option<Value>, pending: Pending) -> Value {
        let mut state = self.state();
        let id = id.unwrap_or_else(|| {
            while state.asked.contains(&state.next_id.to_string()) {
                state.next_id += 1;
            }
            json!(state.next_id)
        });
        state.asked.insert(id.to_string());
        state.pending.insert(id.to_string(), pending);
        id
    }
}

fn check_session_params(params: &Value) -> Result<(), Refusal> {
    if !params["cwd"].as_str().is_some_and(|cwd| cwd.starts_with('/')) {
        return Err((-32602, "cwd must be an absolute path".into()));
    }
    let servers = params["mcpServers"].as_array().ok_or((-32602, "mcpServers must be an array".to_owned()))?;
    for server in servers {
        let lists: &[&str] = if server.get("type").is_some() { &["headers"] } else { &["args", "env"] };
        if let Some(missing) = lists.iter().find(|name| !server[**name].is_array()) {
            return Err((-32602, format!("an MCP server needs {missing} (an array)")));
        }
    }
    Ok(())
}

/// What is wrong with the answer to a prompt.
fn check_outcome(pending: &Pending, message: &Map<String, Value>) -> Option<String> {
    let offered = pending.offered.as_ref()?;
    if let Some(error) = message.get("error") {
        let fits = error["code"] != json!(-32800) || pending.withdrawn;
        return (!fits).then(|| "-32800 for a prompt that was not withdrawn".to_owned());
    }
    let outcome = &message.get("result")?["outcome"];
    match (outcome["outcome"].as_str(), outcome["optionId"].as_str()) {
        (Some("cancelled"), _) => None,
        (Some("selected"), Some(option)) if offered.contains(option) => None,
        (Some("selected"), Some(option)) => Some(format!("option {option:?} was not offered")),
        _ => Some(format!("{outcome} is no outcome")),
    }
}
