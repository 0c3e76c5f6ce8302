//! `agentctl proxy` with an agent that does not read: what ends a prompt beats the editor's answer that has not reached it.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use agentctl_tests::harness::{Conn, Daemon, Proxied, answer, ask, until};
use serde_json::{Value, json};

/// Fills every pipe to the agent, lets the editor answer `yes`, ends the prompt by `end`, and returns what the agent gets then.
fn answered_unread(end: impl FnOnce(&mut Conn, &mut Proxied)) -> (Vec<Value>, Value) {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let mut proxied = Proxied::start(&daemon, "s", &[]);
    proxied.begin();
    proxied.to_editor(&ask("5"));
    let request = conn.await_permissions("t", "s", 1).remove(0);
    let reads = proxied.agent.reads();
    let paused = reads.lock().expect("no reader panics");
    let fill = "x".repeat(50_000);
    for n in 0..9 {
        proxied.editor_sends(&json!({"jsonrpc": "2.0", "method": "_fill", "params": {"n": n, "fill": fill}}).to_string());
    }
    proxied.editor_sends(&answer("5", "yes"));
    until("the claim", || {
        let record = conn.call("audit/list", json!({"request_id": request["request_id"]})).ok()["records"][0].clone();
        (record["resolutions"][0]["result"] == "dispatching").then_some(())
    });
    end(&mut conn, &mut proxied);
    until("the end of the prompt", || conn.permissions("t", "s").is_empty().then_some(()));
    drop(paused);
    proxied.editor_sends(r#"{"jsonrpc":"2.0","method":"_last"}"#);
    let mut answers = Vec::new();
    while let Some(line) = proxied.agent.try_next() {
        let line: Value = serde_json::from_slice(&line).expect("JSON");
        match line["method"].as_str() {
            Some("_last") => break,
            Some(_) => {}
            None => answers.push(line),
        }
    }
    (answers, conn.audit_of(&request["request_id"]))
}

fn is_stale(record: &Value, end: &str, reason: &str) {
    assert_eq!((&record["end"], &record["end_reason"]), (&json!(end), &json!(reason)));
    assert_eq!(record["resolutions"][0]["result"], "stale", "{record}");
}

#[test]
fn a_withdrawal_beats_it() {
    let (answers, record) = answered_unread(|_, proxied| {
        proxied.agent_sends(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":5}}"#);
    });
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!((&answers[0]["id"], &answers[0]["error"]["code"]), (&json!(5), &json!(-32800)));
    is_stale(&record, "withdrawn", "withdrawn_by_agent");
}

#[test]
fn the_end_of_the_turn_beats_it() {
    let (answers, record) = answered_unread(|_, proxied| {
        proxied.agent_sends(r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#);
    });
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!((&answers[0]["id"], &answers[0]["result"]["outcome"]), (&json!(5), &json!({"outcome": "cancelled"})));
    is_stale(&record, "cancelled", "turn_ended");
}

#[test]
fn a_stop_beats_it() {
    let (answers, record) = answered_unread(|conn, _| {
        conn.send("execution/stop", &json!({"session_id": "s"}));
    });
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!((&answers[0]["id"], &answers[0]["result"]["outcome"]), (&json!(5), &json!({"outcome": "cancelled"})));
    is_stale(&record, "cancelled", "stopped");
}

#[test]
fn the_reuse_of_its_id_beats_it() {
    let (answers, record) = answered_unread(|_, proxied| {
        proxied.agent_sends(r#"{"jsonrpc":"2.0","id":5,"method":"fs/read_text_file"}"#);
    });
    assert_eq!(answers, Vec::<Value>::new());
    is_stale(&record, "replaced", "replaced_by_agent");
}
