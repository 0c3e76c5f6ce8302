//! A daemon, its agent, and a prompt that waits.

use agentctl_tests::harness::{Agent, Conn, Daemon, agentctl, outcome, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// An agent that asked under id 5 and waits.
pub struct World {
    pub daemon: Daemon,
    pub conn: Conn,
    pub agent: Agent,
    pub turn: u64,
    pub prompt: Value,
}

impl World {
    pub fn new() -> Self {
        Self::of(Daemon::start(), &[], &json!([{"ask": {"id": 5}}, {"await": 5}]))
    }

    pub fn with_env(env: &[(&str, &str)]) -> Self {
        Self::of(Daemon::start_with(&agentctl(), &[], env), &[], &json!([{"ask": {"id": 5}}, {"await": 5}]))
    }

    /// The prompt is on disk when this returns.
    pub fn of(daemon: Daemon, switches: &[&str], script: &Value) -> Self {
        let mut conn = daemon.connect();
        let agent = Agent::start(&daemon, &mut conn, "s", switches);
        let (turn, live) = agent.ask(&mut conn, script, 1);
        let prompt = live[0].clone();
        until("the request's row", || {
            let records = conn.call("audit/list", json!({"request_id": prompt["request_id"]})).ok()["records"].clone();
            records.get(0).map(|_| ())
        });
        Self { daemon, conn, agent, turn, prompt }
    }

    /// It can't be answered now: the caller is told, the agent hears nothing, and the prompt is as it was.
    #[track_caller]
    pub fn assert_refused(&mut self) -> String {
        let reply = self.conn.resolve(&self.prompt, "allow-once");
        assert_eq!(reply.code(), Some("permission_audit_failed"), "{reply:?}");
        let live = self.agent.permissions(&mut self.conn);
        assert_eq!((live.len(), &live[0]["status"]), (1, &json!("pending")), "{live:?}");
        assert!(self.agent.log.responses(&json!(5)).is_empty(), "the agent was answered");
        reply.error()["message"].as_str().expect("a text").to_owned()
    }

    /// It is answered exactly once, with this option; the audit and the agent agree.
    #[track_caller]
    pub fn assert_answered(&mut self, option: &str) {
        let answer = until("an answer that is taken", || {
            let reply = self.conn.resolve(&self.prompt, option);
            (reply.code() != Some("permission_audit_failed")).then_some(reply)
        });
        assert_eq!(answer.ok()["status"], "resolved");
        self.assert_heard(option);
    }

    #[track_caller]
    pub fn assert_heard(&mut self, option: &str) {
        assert_eq!(self.conn.reply(self.turn).ok()["stop_reason"], "end_turn");
        let heard: Vec<String> = self.agent.log.responses(&json!(5)).iter().map(outcome).collect();
        assert_eq!(heard, [option]);
        let record = self.conn.audit_of(&self.prompt["request_id"]);
        let resolutions = record["resolutions"].as_array().expect("a list");
        let accepted = resolutions.iter().filter(|r| r["result"] == "accepted").count();
        assert_eq!((accepted, &record["end"]), (1, &json!("resolved")), "{record}");
        self.agent.log.assert_no_violation();
    }

    /// Its requests have expired and nobody answered; told by whatever daemon is there now.
    #[track_caller]
    pub fn assert_expired(conn: &mut Conn, prompt: &Value) {
        let record = conn.audit_of(&prompt["request_id"]);
        assert_eq!((&record["end"], &record["resolutions"]), (&json!("expired"), &json!([])), "{record}");
    }
}

/// A new agent starts, asks, and is answered.
#[track_caller]
pub fn assert_works(daemon: &Daemon, session: &str) {
    let mut conn = daemon.connect();
    let agent = Agent::start(daemon, &mut conn, session, &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    conn.resolve(&live[0], "allow-once").ok();
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
}

pub fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).expect("it is there");
}

pub fn pid_of(value: &Value) -> i32 {
    value.as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("a pid")
}
