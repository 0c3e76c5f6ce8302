//! Clients that send what they have and close their half, as `printf ... | socat - UNIX:...` does.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use agentctl_tests::harness::{Agent, Conn, Daemon, outcome, resolve_params, until};
use serde_json::{Value, json};

/// Sends these calls, closes that half, and reads all answers.
fn answers(daemon: &Daemon, calls: &[(&str, Value)]) -> Vec<Value> {
    let mut stream = UnixStream::connect(daemon.socket()).expect("the daemon listens");
    let mut text = String::new();
    for (id, (method, params)) in calls.iter().enumerate() {
        text += &format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }
    stream.write_all(text.as_bytes()).expect("the daemon reads");
    stream.shutdown(Shutdown::Write).expect("half of it closes");
    BufReader::new(stream).lines().map_while(Result::ok).map(|line| serde_json::from_str(&line).expect("a whole line")).collect()
}

#[test]
fn its_calls_are_answered() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    let got = answers(&daemon, &[("control/status", json!({})), ("permission/resolve", resolve_params(&live[0], "allow-once"))]);
    assert_eq!(got.len(), 2, "{got:?}");
    assert!(got.iter().all(|answer| answer.get("result").is_some()), "{got:?}");
    conn.reply(turn).ok();
    assert_eq!(outcome(&agent.log.await_response(&json!(5))), "allow-once");
}

#[test]
fn an_answer_larger_than_the_sockets_buffer_comes_whole() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let script = json!([{"loop": {"times": 200, "steps": [{"ask": {"toolCall": {"toolCallId": "c", "title": "long ".repeat(400)}}}]}}, {"hang": true}]);
    let (_, live) = agent.ask(&mut conn, &script, 200);
    assert!(json!(live).to_string().len() > 512 * 1024);
    let got = answers(&daemon, &[("permission/list", json!({})), ("permission/list", json!({}))]);
    assert_eq!(got.len(), 2);
    assert!(got.iter().all(|answer| answer["result"]["total"] == 200));
}

#[test]
fn what_is_bound_to_it_ends_when_it_is_gone_for_good() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let mut params = Agent::params(&daemon, "t", "s", &[]);
    params["bind"] = true.into();
    let mut stream = UnixStream::connect(daemon.socket()).expect("the daemon listens");
    let mut call = |id: u64, method: &str, params: Value| {
        let line = format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        stream.write_all(line.as_bytes()).expect("the daemon reads");
    };
    call(1, "execution/start", params);
    let state = |conn: &mut Conn| conn.call("execution/list", json!({})).ok()["executions"][0]["state"].clone();
    until("the start", || (state(&mut conn) == "running").then_some(()));
    call(2, "session/prompt", json!({"session_id": "s", "text": json!([{"ask": {"id": 5}}, {"hang": true}]).to_string()}));
    conn.await_permissions("t", "s", 1);
    stream.shutdown(Shutdown::Write).expect("half of it closes");
    // It still waits for its turn, which goes on.
    conn.await_permissions("t", "s", 1);
    assert_eq!(state(&mut conn), "running");
    drop(stream);
    until("the end", || (state(&mut conn) == "exited").then_some(()));
}
