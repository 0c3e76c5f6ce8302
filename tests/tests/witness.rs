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
fn a_long_output_hides_no_tool_and_quotes_hide_no_secret() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let output = json!({"status": "completed", "content": [{"type": "content", "content": {"type": "text", "text": "x".repeat(400_000)}}]});
    let title = "curl -H 'Authorization: Bearer abcdefgh'\"12345678ijkl\" example.org";
    let script = json!([
        {"ask": {"id": 1, "toolCall": {"toolCallId": "asked", "kind": "execute", "title": "ls"}}}, {"await": 1}, update("asked", output.clone()),
        update("unasked", json!({"kind": "execute", "title": title, "status": "in_progress"})), update("unasked", output)
    ]);
    let (turn, live) = agent.ask(&mut conn, &script, 1);
    conn.resolve(&live[0], "allow-once").ok();
    conn.reply(turn).ok();
    assert_eq!(witness(&mut conn, &agent), json!({"waited": 1, "ran_before_answer": 0, "never_ran": 0, "unasked": 1, "unlisted": 0}));
    let recorded = conn.call("audit/witness", json!({"session_id": "s"})).ok().to_string();
    assert!(recorded.contains("example.org") && !recorded.contains("12345678ijkl"), "{recorded}");
    daemon.stop();
}

#[test]
fn witnesses_come_in_pages() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    for session in ["a", "b", "c"] {
        let agent = Agent::start(&daemon, &mut conn, session, &[]);
        let turn = agent.prompt(&mut conn, &json!([update("u", json!({"kind": "delete", "status": "completed"}))]));
        conn.reply(turn).ok();
    }
    let (mut sessions, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let mut params = json!({"limit": 2});
        if cursor.is_string() {
            params["cursor"] = cursor;
        }
        let page = conn.call("audit/witness", params).ok();
        sessions.extend(page["executions"].as_array().expect("a list").iter().map(|e| e["session_id"].clone()));
        cursor = page["next"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(sessions, ["c", "b", "a"]);
    for cursor in ["r5", "2026-12-01T00:00:00.000Z_x", ""] {
        assert_eq!(conn.call("audit/witness", json!({"cursor": cursor})).error()["code"], -32602);
    }
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
    // Approved, and the agent ends the turn because another tool was refused.
    let call = |id: &str| json!({"toolCallId": id, "kind": "execute", "title": "x"});
    let script = json!([{"ask": {"id": 3, "toolCall": call("3")}}, {"ask": {"id": 4, "toolCall": call("4")}}, {"await_all": true}, {"stop_reason": "cancelled"}]);
    let (turn, live) = agent.ask(&mut conn, &script, 2);
    for permission in &live {
        let option = if permission["pending_id"] == "3" { "allow-once" } else { "reject-once" };
        conn.resolve(permission, option).ok();
    }
    conn.reply(turn).ok();
    assert_eq!(witness(&mut conn, &agent), json!({"waited": 0, "ran_before_answer": 0, "never_ran": 0, "unasked": 0, "unlisted": 0}));
    daemon.stop();
}
