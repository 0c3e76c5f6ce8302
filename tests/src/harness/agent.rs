//! A fake agent under a daemon, and what it saw.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::conn::Conn;
use super::daemon::Daemon;
use super::{fake_agent, until};

/// A fake agent that was started through the socket.
pub struct Agent {
    /// Its task.
    pub task: String,
    /// Its session.
    pub session: String,
    /// The result of `execution/start`.
    pub started: Value,
    /// What it logs.
    pub log: Log,
}

/// The log of a fake agent.
#[derive(Debug, Clone)]
pub struct Log(pub PathBuf);

impl Agent {
    /// The params that start a fake agent for a session, with switches; it logs into the daemon's folder.
    pub fn params(daemon: &Daemon, task: &str, session: &str, switches: &[&str]) -> Value {
        let mut args: Vec<String> = vec!["--log".into(), daemon.folder().join(format!("agent-{session}.log")).display().to_string()];
        args.extend(switches.iter().map(|s| (*s).to_owned()));
        json!({"command": fake_agent(), "args": args, "cwd": daemon.folder(), "task_id": task, "session_id": session})
    }

    /// Starts one for task `t` and a session.
    #[track_caller]
    pub fn start(daemon: &Daemon, conn: &mut Conn, session: &str, switches: &[&str]) -> Self {
        let started = conn.start(Self::params(daemon, "t", session, switches));
        let log = Log(daemon.folder().join(format!("agent-{session}.log")));
        Self { task: "t".into(), session: session.into(), started, log }
    }

    /// Sends a script as the prompt of a turn; the number is for [`Conn::reply`].
    pub fn prompt(&self, conn: &mut Conn, script: &Value) -> u64 {
        conn.send("session/prompt", &json!({"session_id": self.session, "text": script.to_string()}))
    }

    /// Sends a script that asks, and waits until `n` requests are live.
    #[track_caller]
    pub fn ask(&self, conn: &mut Conn, script: &Value, n: usize) -> (u64, Vec<Value>) {
        let turn = self.prompt(conn, script);
        (turn, conn.await_permissions(&self.task, &self.session, n))
    }

    /// The live requests.
    #[track_caller]
    pub fn permissions(&self, conn: &mut Conn) -> Vec<Value> {
        conn.permissions(&self.task, &self.session)
    }

    /// Waits until its execution is in a state; returns `execution/get`.
    #[track_caller]
    pub fn await_state(&self, conn: &mut Conn, state: &str) -> Value {
        until(&format!("state {state}"), || {
            let info = conn.call("execution/get", json!({"execution_id": self.started["execution_id"]})).ok();
            Some(info).filter(|info| info["state"] == state)
        })
    }
}

impl Log {
    /// Every entry so far. An unfinished last line is left out.
    pub fn entries(&self) -> Vec<Value> {
        let text = std::fs::read(&self.0).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Every frame that the agent got, in order.
    pub fn received(&self) -> Vec<Value> {
        self.entries().iter().filter_map(|e| serde_json::from_str(e["recv"].as_str()?).ok()).collect()
    }

    /// Every response that it got to a request of its own with this id, compared with its JSON type.
    pub fn responses(&self, id: &Value) -> Vec<Value> {
        self.received().into_iter().filter(|frame| frame.get("method").is_none() && frame["id"] == *id).collect()
    }

    /// Waits for the response to a request of its own.
    #[track_caller]
    pub fn await_response(&self, id: &Value) -> Value {
        until(&format!("the agent's response {id}"), || self.responses(id).into_iter().next())
    }

    /// Waits for an entry with this key; returns its value.
    #[track_caller]
    pub fn await_entry(&self, key: &str) -> Value {
        until(&format!("the log entry {key}"), || self.entries().iter().find_map(|e| e.get(key).cloned()))
    }

    /// Panics if the agent saw something that it must not see.
    #[track_caller]
    pub fn assert_no_violation(&self) {
        for entry in self.entries() {
            assert!(entry.get("violation").is_none() && entry.get("script_error").is_none(), "{entry}");
        }
    }
}

/// The outcome of a response to a prompt: the option id, `cancelled`, or the error's code.
pub fn outcome(response: &Value) -> String {
    let outcome = &response["result"]["outcome"];
    match (outcome["outcome"].as_str(), response["error"]["code"].as_i64()) {
        (Some("selected"), _) => outcome["optionId"].as_str().unwrap_or_default().to_owned(),
        (Some(other), _) => other.to_owned(),
        (None, Some(code)) => code.to_string(),
        (None, None) => format!("unreadable: {response}"),
    }
}
