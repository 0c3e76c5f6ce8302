//! The daemon dies at every point of a resolve (C16): nothing is answered twice, and nothing without a claim.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::os::unix::process::ExitStatusExt;

use agentctl_tests::harness::{Agent, Conn, Daemon, agentctl_with_failpoints, await_gone, outcome, resolve_params, rounds, until};
use serde_json::{Value, json};

/// How far a resolve had come when the daemon died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reached {
    /// No claim is on disk.
    Nothing,
    /// The claim is; nothing was handed over.
    Claim,
    /// The answer was handed over; its end is not on disk.
    Delivery,
    /// Everything is on disk.
    Finish,
}

/// Waits until a request's row is on disk: off the critical path it comes when it comes.
fn await_row(conn: &mut Conn, request_id: &Value) {
    until("the request's row", || {
        let records = conn.call("audit/list", json!({"request_id": request_id})).ok()["records"].clone();
        records.get(0).map(|_| ())
    });
}

fn crash_at(rule: &str, reached: Reached) {
    for _ in 0..rounds("AGENTCTL_TEST_KILLS", 2) {
        crash_once(rule, reached);
    }
}

fn crash_once(rule: &str, reached: Reached) {
    let binary = agentctl_with_failpoints();
    let daemon = Daemon::start_with(&binary, &[], &[("AGENTCTL_FAILPOINTS", rule)]);
    let mut conn = daemon.connect();
    // It outlives its stdin: only the daemon's death itself can end it.
    let agent = Agent::start(&daemon, &mut conn, "s", &["--stay-on-eof", "--ignore-sigterm"]);
    let (_turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}, {"hang": true}]), 1);
    await_row(&mut conn, &live[0]["request_id"]);
    conn.send("permission/resolve", &resolve_params(&live[0], "reject-once"));

    let (ended, folder) = daemon.wait();
    assert_eq!(ended.status.signal(), Some(9), "{rule}: {:?}: {}", ended.status, ended.log);
    await_gone(&agent.started["pid"]);
    let answers = agent.log.responses(&json!(5));
    match reached {
        Reached::Nothing | Reached::Claim => assert!(answers.is_empty(), "{rule}: {answers:?}"),
        // The agent may have died before it read it.
        Reached::Delivery | Reached::Finish => assert!(answers.len() <= 1, "{rule}: {answers:?}"),
    }
    assert!(answers.iter().all(|answer| outcome(answer) == "reject-once"), "{rule}: {answers:?}");

    let daemon = Daemon::start_in(folder, &binary, &[], &[]);
    let mut conn = daemon.connect();
    let record = conn.audit_of(&live[0]["request_id"]);
    let results: Vec<&Value> = record["resolutions"].as_array().expect("a list").iter().map(|r| &r["result"]).collect();
    let (end, expected, code) = match reached {
        Reached::Nothing => ("expired", None, "permission_stale"),
        Reached::Claim | Reached::Delivery => ("expired", Some("indeterminate"), "permission_already_resolved"),
        Reached::Finish => ("resolved", Some("accepted"), "permission_already_resolved"),
    };
    assert_eq!(record["end"], end, "{rule}: {record}");
    assert_eq!(results, expected.iter().collect::<Vec<_>>(), "{rule}: {record}");
    assert!(answers.is_empty() || expected.is_some(), "{rule}: an answer without a claim");

    // Nothing of it can be answered any more: not by the same option, not by another, not by a cancel.
    for option in ["reject-once", "allow-once"] {
        let reply = conn.resolve(&live[0], option);
        assert_eq!(reply.code(), Some(code), "{rule}: {reply:?}");
        let resolution = &reply.error()["data"]["resolution"];
        assert_eq!(resolution["result"].as_str(), expected, "{rule}: {resolution}");
    }
    let cancel = conn.call("permission/cancel", agentctl_tests::harness::identity(&live[0]));
    assert_eq!(cancel.code(), Some(code), "{rule}: {cancel:?}");
    assert!(agent.permissions(&mut conn).is_empty());
    assert_eq!(conn.call("execution/list", json!({})).ok()["executions"], json!([]));
    assert_eq!(agent.log.responses(&json!(5)), answers, "{rule}: a replay acted");

    // The session is as good as new.
    let again = Agent::start(&daemon, &mut conn, "s", &[]);
    assert_ne!(again.started["execution_id"], agent.started["execution_id"]);
    let (turn, anew) = again.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    assert_eq!(conn.resolve(&live[0], "reject-once").code(), Some(code), "{rule}");
    conn.resolve(&anew[0], "allow-once").ok();
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
    daemon.stop();
}

#[test]
fn a_crash_before_the_claim_is_read_from_the_queue() {
    crash_at("claim.received=kill", Reached::Nothing);
}

#[test]
fn a_crash_before_the_claim_begins() {
    crash_at("claim.before=kill", Reached::Nothing);
}

#[test]
fn a_crash_before_the_claim_is_committed() {
    crash_at("claim.before_commit=kill", Reached::Nothing);
}

#[test]
fn a_crash_after_the_claim_is_committed() {
    crash_at("claim.after_commit=kill", Reached::Claim);
}

#[test]
fn a_crash_before_delivery() {
    crash_at("deliver.before=kill", Reached::Claim);
}

#[test]
fn a_crash_after_delivery() {
    crash_at("deliver.after=kill", Reached::Delivery);
}

#[test]
fn a_crash_before_the_end_is_read_from_the_queue() {
    crash_at("finish.received=kill", Reached::Delivery);
}

#[test]
fn a_crash_before_the_end_begins() {
    crash_at("finish.before=kill", Reached::Delivery);
}

#[test]
fn a_crash_before_the_end_is_committed() {
    crash_at("finish.before_commit=kill", Reached::Delivery);
}

#[test]
fn a_crash_after_the_end_is_committed() {
    crash_at("finish.after_commit=kill", Reached::Finish);
}

#[test]
fn a_killed_daemon_leaves_no_agent_whatever_it_does() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agents: Vec<Agent> =
        (0..5).map(|n| Agent::start(&daemon, &mut conn, &format!("s{n}"), &["--stay-on-eof", "--ignore-sigterm"])).collect();
    for agent in &agents {
        agent.ask(&mut conn, &json!([{"ask": {"id": 1}}, {"hang": true}]), 1);
    }
    let (_, folder) = daemon.end(nix::sys::signal::Signal::SIGKILL);
    for agent in &agents {
        await_gone(&agent.started["pid"]);
    }
    let daemon = Daemon::start_in(folder, &agentctl_tests::harness::agentctl(), &[], &[]);
    let mut conn = daemon.connect();
    for agent in &agents {
        let records = conn.call("audit/list", json!({"session_id": agent.session})).ok();
        assert_eq!(records["records"][0]["end"].as_str().unwrap_or("expired"), "expired");
    }
    daemon.stop();
}

#[test]
fn a_panic_in_the_task_of_one_execution_ends_that_one_and_nothing_else() {
    let daemon = Daemon::start_with(&agentctl_with_failpoints(), &[], &[("AGENTCTL_FAILPOINTS", "deliver.before=1:panic")]);
    let mut conn = daemon.connect();
    let script = json!([{"ask": {"id": 5}}, {"await": 5}]);
    let (hit, other) = (Agent::start(&daemon, &mut conn, "hit", &[]), Agent::start(&daemon, &mut conn, "other", &[]));
    let (turn, live) = hit.ask(&mut conn, &script, 1);
    let (other_turn, other_live) = other.ask(&mut conn, &script, 1);
    // Its caller and its turn hear of it, and nothing of its agent is left.
    assert!(conn.resolve(&live[0], "allow-once").code().is_some());
    assert!(conn.reply(turn).code().is_some());
    let info = hit.await_state(&mut conn, "exited");
    assert_eq!(info["reason"], "internal error", "{info}");
    await_gone(&hit.started["pid"]);
    assert!(hit.log.responses(&json!(5)).is_empty());
    assert!(hit.permissions(&mut conn).is_empty());
    // The other one's prompt is answered, and the session can be used again.
    conn.resolve(&other_live[0], "allow-once").ok();
    assert_eq!(conn.reply(other_turn).ok()["stop_reason"], "end_turn");
    let again = Agent::start(&daemon, &mut conn, "hit", &[]);
    let (turn, live) = again.ask(&mut conn, &script, 1);
    conn.resolve(&live[0], "allow-once").ok();
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
    daemon.stop();
}
