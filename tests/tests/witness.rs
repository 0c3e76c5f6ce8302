//! The witness: what the wire tells of tools that ran after their answer, before it, or without.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use agentctl_tests::harness::{Agent, Conn, Daemon};
use serde_json::{Value, json};

fn update(id: &str, more: Value) -> Value {
    let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": id});
    update.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
    json!({"update": update})
}

fn witness(conn: &mut Conn, agent: &Agent) -> Value {
    conn.call("execution/get", json!({"execution_id": agent.started["execution_id"]})).ok()["witness"].clone()
}

#[test]
fn what_ran_is_counted_told_and_recorded() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let mut events = daemon.connect();
    events.subscribe(json!({"topics": ["execution"]}));
    let call = |id: &str| json!({"toolCallId": id, "kind": "execute", "title": format!("run {id}")});
    // Waits; runs early; is approved and never runs; is not asked for, with a secret in its title.
    let script = json!([
        {"ask": {"id": 1, "toolCall": call("waits")}}, {"await": 1}, update("waits", json!({"status": "completed"})),
        {"ask": {"id": 2, "toolCall": call("early")}}, update("early", json!({"status": "completed"})), {"await": 2},
        {"ask": {"id": 3, "toolCall": call("never")}}, {"await": 3},
        update("unasked", json!({"kind": "edit", "title": "edit with token=abcdefgh12345678", "status": "in_progress"})),
        update("unasked", json!({"status": "completed"}))
    ]);
    let turn = agent.prompt(&mut conn, &script);
    for id in ["1", "2", "3"] {
        let live = conn.await_permissions("t", "s", 1);
        assert_eq!(live[0]["pending_id"], id);
        conn.resolve(&live[0], "allow-once").ok();
    }
    conn.reply(turn).ok();
    let counts = json!({"waited": 1, "ran_before_answer": 1, "never_ran": 1, "unasked": 1, "unlisted": 0});
    assert_eq!(witness(&mut conn, &agent), counts);
    let found: Vec<Value> = (0..3).map(|_| events.event_of_type("witness")["finding"].clone()).collect();
    let oddities: Vec<&str> = found.iter().filter_map(|f| f["oddity"].as_str()).collect();
    assert_eq!(oddities, ["ran_before_answer", "unasked", "never_ran"]);
    assert_eq!(found[1]["title"], "edit with token=[redacted]");
    assert_eq!(found[2]["tool_call_id"], "never");
    let recorded = conn.call("audit/witness", json!({"session_id": "s"})).ok();
    assert_eq!((&recorded["executions"][0]["witness"], &recorded["executions"][0]["findings"]), (&counts, &json!(found)));
    assert_eq!(conn.call("audit/witness", json!({"session_id": "other"})).code(), Some("task_or_session_not_found"));
    let shown = daemon.command(&["audit", "--witness"]).output().expect("it runs");
    assert!(String::from_utf8_lossy(&shown.stdout).contains("ran without asking  [edit]  edit with token=[redacted]"), "{shown:?}");
    let ps = daemon.command(&["ps"]).output().expect("it runs");
    assert!(String::from_utf8_lossy(&ps.stdout).contains("1 unasked, 1 early, 1 never ran"), "{ps:?}");
    daemon.stop();
}

#[test]
fn a_cancelled_turn_and_rejected_tools_are_not_odd() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 1}}, {"await": 1}]), 1);
    conn.resolve(&live[0], "reject-once").ok();
    conn.reply(turn).ok();
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 2}}, {"await": 2}, {"hang": true}]), 1);
    conn.resolve(&live[0], "allow-once").ok();
    conn.call("session/cancel", json!({"session_id": "s"})).ok();
    conn.reply(turn).ok();
    assert_eq!(witness(&mut conn, &agent), json!({"waited": 0, "ran_before_answer": 0, "never_ran": 0, "unasked": 0, "unlisted": 0}));
    daemon.stop();
}
