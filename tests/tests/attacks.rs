//! What attacks on the built binary found, so that it is not found again.

use agentctl_tests::harness::{Agent, Conn, Daemon, is_gone, until};
use serde_json::{Value, json};

const SECRET: &str = "Zqe1K9xV7wPlM3nB5tR8yU2";

fn resident_kib(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("the daemon is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn wide_ask(id: u64) -> Value {
    let option = |n: usize| json!({"optionId": format!("{n}-{}", "z".repeat(1500)), "name": "n".repeat(3000), "kind": "allow_once"});
    json!({"ask": {"id": id, "options": (0..100).map(option).collect::<Vec<_>>()}})
}

#[test]
fn lists_that_a_client_does_not_read_are_not_made() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let mut script: Vec<Value> = (1..=6).map(wide_ask).collect();
    script.push(json!({"hang": true}));
    let (_, live) = agent.ask(&mut conn, &json!(script), 6);
    let one = json!(live).to_string().len() as u64 / 1024;
    assert!(one > 2048, "a list of {one} KiB");
    let before = resident_kib(&daemon);
    let mut silent = daemon.connect();
    let calls: Vec<u64> = (0..40).map(|_| silent.send("permission/list", &json!({}))).collect();
    // What can be made without being read has been made once another client was answered some times.
    for _ in 0..20 {
        conn.call("permission/list", json!({})).ok();
    }
    let grown = resident_kib(&daemon).saturating_sub(before);
    // All forty would be three times as much.
    assert!(grown < 16 * 1024 + 12 * one, "{grown} KiB for {one} KiB a list");
    // They are made as they are read.
    for call in calls {
        assert_eq!(silent.reply(call).ok()["total"], 6);
    }
}

#[test]
fn an_orphan_that_hides_ends_with_its_own_agent_and_another_agents_does_not() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let hide = json!([{"spawn": {"setsid": true, "double_fork": true, "clear_env": true}}, {"hang": true}]);
    let [other, agent] = ["other", "s"].map(|session| Agent::start(&daemon, &mut conn, session, &[]));
    let [spared, hidden] = [&other, &agent].map(|agent| {
        agent.prompt(&mut conn, &hide);
        agent.log.await_entry("spawned")
    });
    // The one in the middle of its double fork may still be there too.
    let killed = |stopped: &Value, pid: &Value| stopped["killed"].as_array().is_some_and(|list| list.iter().any(|p| p["pid"] == *pid));
    let stopped = conn.call("execution/stop", json!({"session_id": "s"})).ok();
    assert!(stopped["tree_empty"] == true && killed(&stopped, &hidden), "{stopped}");
    assert!(stopped["ended"].as_array().is_some_and(|list| list.iter().any(|p| p["pid"] == agent.started["pid"])), "{stopped}");
    assert!(is_gone(hidden.as_i64().expect("a pid")) && !is_gone(spared.as_i64().expect("a pid")));
    let stopped = conn.call("execution/stop", json!({"session_id": other.session})).ok();
    assert!(stopped["tree_empty"] == true && killed(&stopped, &spared), "{stopped}");
}

#[test]
fn start_errors_and_tool_call_ids_show_no_secret_of_the_environment() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let mut fails = |params: Value| {
        let error = conn.call("execution/start", params).error().to_string();
        assert!(!error.contains(SECRET), "{error}");
    };
    let env = json!({"MY_TOKEN": SECRET});
    fails(json!({"command": format!("/no/{SECRET}"), "cwd": "/", "task_id": "t", "env": env}));
    fails(json!({"command": "true", "cwd": format!("/no/{SECRET}"), "task_id": "t", "env": env}));
    let mut params = Agent::params(&daemon, "t", "s", &[]);
    params["env"] = env;
    conn.start(params);
    let ask = json!([{"ask": {"id": 5, "toolCall": {"toolCallId": format!("call-{SECRET}"), "title": "x"},
        "options": [{"optionId": "a", "name": "A", "kind": format!("kind-{SECRET}")}]}}, {"hang": true}]);
    conn.send("session/prompt", &json!({"session_id": "s", "text": ask.to_string()}));
    let live = conn.await_permissions("t", "s", 1);
    assert!(!live[0].to_string().contains(SECRET), "{}", live[0]);
    conn.resolve(&live[0], "a").ok();
    let record = conn.audit_of(&live[0]["request_id"]);
    assert!(!record.to_string().contains(SECRET), "{record}");
}

#[test]
fn a_line_that_asks_with_an_unreadable_id_is_reported() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({}));
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    for raw in [
        r#"{"jsonrpc":"2.0","id":true,"method":"session/request_permission","params":{}}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"session/request_permission","params":{}}"#,
    ] {
        let turn = agent.prompt(&mut conn, &json!([{"raw": raw}]));
        conn.event_of_type("reported");
        conn.reply(turn).ok();
    }
}

#[test]
fn a_prompt_of_many_megabytes_is_refused_and_holds_up_nobody() {
    let daemon = Daemon::start();
    let mut conn: Conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let large = json!({"toolCallId": "c", "title": "x".repeat(9 << 20)});
    let script = json!([{"ask": {"id": 5, "toolCall": large}}, {"ask": {"id": 6}}, {"await": 5}, {"hang": true}]);
    let (turn, live) = agent.ask(&mut conn, &script, 1);
    assert_eq!(live[0]["pending_id"], "6");
    assert_eq!(agent.log.await_response(&json!(5))["error"]["code"], -32602);
    assert!(conn.try_reply(turn).is_none());
}

#[test]
fn a_recording_cannot_speak_to_the_terminal() {
    let daemon = Daemon::start();
    let recording = daemon.folder().join("hostile\u{1b}[2J.jsonl");
    let header = json!({"fixture": 1, "name": "\u{1b}]52;c;aGk=\u{7}x", "agent": {"name": "a", "version": "1"}, "protocol_version": 1});
    std::fs::write(&recording, format!("{header}\n")).expect("a file can be written");
    let output = daemon.command(&["replay"]).arg(&recording).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = [output.stdout, output.stderr].concat();
    assert!(!text.contains(&0x1b) && !text.contains(&7), "{}", String::from_utf8_lossy(&text).escape_debug());
}

#[test]
fn an_id_that_is_reused_for_another_method_gets_one_response() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &["--lenient"]);
    let script = json!([{"ask": {"id": 5}}, {"ask": {"id": 6}}, {"request": {"id": 5, "method": "fs/read_text_file", "params": {}}}, {"hang": true}]);
    agent.ask(&mut conn, &script, 1);
    // For a moment the first is the only one too.
    until("the second alone", || {
        let live = conn.permissions("t", "s");
        (live.len() == 1 && live[0]["pending_id"] == "6").then_some(())
    });
    let record = until("the end of the first", || {
        let records = conn.call("audit/list", json!({"task_id": "t"})).ok()["records"].clone();
        records.as_array()?.iter().find(|r| r["pending_id"] == "5" && r["end"] == "replaced").cloned()
    });
    let late = json!({"task_id": "t", "session_id": "s", "request_id": record["request_id"], "pending_id": "5", "option_id": "allow-once"});
    assert_eq!(conn.call("permission/resolve", late).code(), Some("permission_stale"));
    agent.log.await_response(&json!(5));
    assert_eq!(agent.log.responses(&json!(5)).len(), 1);
}

#[test]
fn a_line_of_very_many_members_holds_up_nobody() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let members: String = (0..100_000).map(|n| format!(",\"k{n}\":0")).collect();
    let raw = format!(r#"{{"jsonrpc":"2.0","method":"x"{members}}}"#);
    let turn = agent.prompt(&mut conn, &json!([{"raw": raw}, {"text": "done"}]));
    // Compared one with another these would take minutes.
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
}
