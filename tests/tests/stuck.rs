//! Agents that get stuck, with the real waits: ten seconds for an answer, thirty for an end.

use agentctl_tests::harness::{Agent, Daemon, outcome, until};
use serde_json::json;

/// More than a pipe holds.
const BULK: usize = 256 * 1024;

#[test]
fn an_answer_of_which_nothing_was_written_is_taken_back_and_can_be_given_again() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let gate = daemon.folder().join("gate");
    let script = json!([{"stop_reading": true}, {"ask": {"id": 5}}, {"await_file": gate}, {"resume_reading": true}, {"await": 5}]);
    let (turn, live) = agent.ask(&mut conn, &script, 1);
    // A turn of another acp session fills the pipe: the answer has to wait behind what was written of it.
    conn.send("session/prompt", &json!({"session_id": "s", "acp_session_id": "other", "text": "x".repeat(BULK)}));
    let mut events = daemon.connect();
    events.subscribe(json!({"topics": ["permission"]}));
    let refused = conn.resolve(&live[0], "allow-once");
    assert_eq!(refused.code(), Some("permission_delivery_failed"), "{}", refused.0);
    assert_eq!(events.event_of_type("pending")["request_id"], live[0]["request_id"]);
    assert_eq!(agent.permissions(&mut conn)[0]["status"], "pending");
    assert_eq!(agent.await_state(&mut conn, "running")["pending"], 1);
    std::fs::write(&gate, "").expect("a file can be written");
    conn.resolve(&live[0], "reject-once").ok();
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
    assert_eq!(agent.log.responses(&json!(5)).iter().map(outcome).collect::<Vec<_>>(), ["reject-once"]);
    let record = conn.audit_of(&live[0]["request_id"]);
    let results: Vec<_> = record["resolutions"].as_array().expect("a list").iter().map(|r| r["result"].as_str()).collect();
    assert_eq!(results, [Some("failed"), Some("accepted")]);
    daemon.stop();
}

#[test]
fn an_answer_that_is_stuck_in_its_middle_is_indeterminate_and_the_execution_wedged() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let option = "o".repeat(64 * 1024);
    let options = json!([{"optionId": option, "name": "Long", "kind": "allow_once"}]);
    let script = json!([{"stop_reading": true}, {"ask": {"id": 5, "options": options}}, {"ask": {"id": 6}}, {"hang": true}]);
    let (_, live) = agent.ask(&mut conn, &script, 2);
    let long = live.iter().find(|p| p["pending_id"] == "5").expect("it is listed");
    let refused = conn.resolve(long, &option);
    assert_eq!(refused.code(), Some("permission_delivery_failed"), "{}", refused.0);
    agent.await_state(&mut conn, "wedged");
    assert!(agent.permissions(&mut conn).is_empty(), "nothing can be answered any more");
    let record = conn.audit_of(&long["request_id"]);
    assert_eq!((&record["end"], &record["resolutions"][0]["result"]), (&json!("expired"), &json!("indeterminate")));
    assert_eq!(conn.resolve(long, &option).code(), Some("permission_already_resolved"));
    let stopped = conn.call("execution/stop", json!({"session_id": "s"})).ok();
    assert_eq!(stopped["tree_empty"], true);
    daemon.stop();
}

#[test]
fn a_turn_ends_when_the_leader_is_gone_and_a_silent_child_holds_the_output() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let turn = agent.prompt(&mut conn, &json!([{"spawn": {"hold_stdio": true, "sleep_s": 600}}, {"exit": 3}]));
    agent.await_state(&mut conn, "draining");
    let reply = until("the turn's end", || conn.try_reply(turn));
    assert_eq!(reply.code(), Some("agent_exited"), "{}", reply.0);
    assert_eq!(agent.await_state(&mut conn, "exited")["exit"], json!({"code": 3}));
    daemon.stop();
}

#[test]
fn a_turn_ends_when_the_agent_closed_its_stdin_and_is_silent() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"close_stdin": true}, {"ask": {"id": 5}}, {"hang": true}]), 1);
    assert_eq!(conn.resolve(&live[0], "allow-once").code(), Some("permission_delivery_failed"));
    let record = conn.audit_of(&live[0]["request_id"]);
    assert_eq!((&record["end"], &record["resolutions"][0]["result"]), (&json!("expired"), &json!("failed")));
    assert_eq!(until("the turn's end", || conn.try_reply(turn)).code(), Some("agent_exited"));
    daemon.stop();
}

#[test]
fn an_agent_that_does_not_end_a_cancelled_turn_is_wedged_and_can_be_stopped() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &["--cancel-ignored"]);
    let turn = agent.prompt(&mut conn, &json!([{"hang": true}]));
    conn.call("session/cancel", json!({"session_id": "s"})).ok();
    agent.await_state(&mut conn, "wedged");
    assert!(conn.try_reply(turn).is_none());
    assert_eq!(conn.call("execution/stop", json!({"session_id": "s"})).ok()["tree_empty"], true);
    assert_eq!(conn.reply(turn).code(), Some("agent_exited"));
    daemon.stop();
}
