//! Ends that meet an answer on its way, and limits under load.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use agentctl_tests::harness::{Agent, Daemon, Reply, outcome, resolve_params, rounds, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

fn answers(agent: &Agent, id: &Value) -> Vec<String> {
    agent.log.responses(id).iter().map(outcome).collect()
}

#[test]
fn a_withdrawal_and_a_replacement_beat_answers_that_could_not_be_written() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (go, read) = (daemon.folder().join("go"), daemon.folder().join("read"));
    let script = json!([
        {"stop_reading": true}, {"ask": {"id": 5}}, {"ask": {"id": 6}}, {"ask": {"id": 7}}, {"await_file": go},
        {"withdraw": 5}, {"ask": {"id": 6}}, {"await_file": read}, {"resume_reading": true}, {"await_all": true},
    ]);
    let (turn, live) = agent.ask(&mut conn, &script, 3);
    // A part of the first is written, so that nothing can overtake it; the second waits behind all answers.
    let bulk = |name: &str| json!({"session_id": "s", "acp_session_id": name, "text": "x".repeat(1 << 20)});
    let first = conn.send("session/prompt", &bulk("other-1"));
    let second = conn.send("session/prompt", &bulk("other-2"));
    let calls: Vec<u64> = live.iter().map(|request| conn.send("permission/resolve", &resolve_params(request, "allow-once"))).collect();
    until("three claims", || agent.permissions(&mut conn).iter().all(|p| p["status"] == "resolving").then_some(()));
    std::fs::write(&go, "").expect("a file can be written");
    for (call, end) in calls.iter().zip(["withdrawn", "replaced"]) {
        let failed = conn.reply(*call);
        assert_eq!((failed.code(), &failed.0["error"]["data"]["end"]), (Some("permission_delivery_failed"), &json!(end)));
    }
    let newer = until("the newer prompt", || agent.permissions(&mut conn).into_iter().find(|p| p["pending_id"] == "6"));
    assert_eq!((&newer["status"], newer["request_id"] == live[1]["request_id"]), (&json!("pending"), false));
    let answering = conn.send("permission/resolve", &resolve_params(&newer, "reject-once"));
    until("its claim", || agent.permissions(&mut conn).iter().all(|p| p["status"] == "resolving").then_some(()));
    assert!(conn.try_reply(answering).is_none() && conn.try_reply(calls[2]).is_none());
    std::fs::write(&read, "").expect("a file can be written");
    conn.reply(answering).ok();
    conn.reply(calls[2]).ok();
    conn.reply(turn).ok();
    assert_eq!(
        (conn.reply(first).code(), conn.reply(second).code().map(ToOwned::to_owned)),
        (Some("prompt_failed"), Some("prompt_failed".into()))
    );
    assert_eq!(answers(&agent, &json!(5)), ["-32800"]);
    assert_eq!(answers(&agent, &json!(6)), ["reject-once"]);
    assert_eq!(answers(&agent, &json!(7)), ["allow-once"]);
    let received = agent.log.received();
    let position = |what: &dyn Fn(&Value) -> bool| received.iter().position(what).expect("it was received");
    let behind = position(&|frame| frame["params"]["sessionId"] == "other-2");
    for id in [5, 6, 7] {
        assert!(position(&|frame| frame.get("method").is_none() && frame["id"] == id) < behind, "an answer overtakes bulk");
    }
    for (request, end, result) in [(&live[0], "withdrawn", "stale"), (&live[1], "replaced", "stale"), (&live[2], "resolved", "accepted")] {
        let record = conn.audit_of(&request["request_id"]);
        assert_eq!((&record["end"], &record["resolutions"][0]["result"]), (&json!(end), &json!(result)));
    }
    agent.log.assert_no_violation();
}

#[test]
fn answers_that_race_with_the_agents_death_tell_the_truth() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let mut other = daemon.connect();
    for round in 0..rounds("AGENTCTL_TEST_ROUNDS", 12) {
        let agent = Agent::start(&daemon, &mut conn, "s", &[]);
        let asks: Vec<Value> = (0..8).map(|id| json!({"ask": {"id": id}})).chain([json!({"hang": true})]).collect();
        let (turn, live) = agent.ask(&mut conn, &Value::Array(asks), 8);
        let calls: Vec<u64> = live.iter().map(|request| conn.send("permission/resolve", &resolve_params(request, "allow-once"))).collect();
        // By its death, by a stop, by another generation: each a little later than the round before.
        if round % 3 > 0 {
            until("an answer on its way", || (agent.permissions(&mut other).len() < 8).then_some(()));
        }
        let pid = i32::try_from(agent.started["pid"].as_i64().unwrap_or_default()).expect("a pid");
        match round % 4 {
            0 => drop(other.call("execution/stop", json!({"session_id": "s"}))),
            1 => {
                let mut params = Agent::params(&daemon, "t", "s", &[]);
                params["replace"] = true.into();
                other.start(params);
                other.call("execution/stop", json!({"session_id": "s"})).ok();
            }
            _ => kill(Pid::from_raw(pid), Signal::SIGKILL).expect("the agent is ours and not waited for"),
        }
        let replies: Vec<Reply> = calls.iter().map(|call| conn.reply(*call)).collect();
        assert_eq!(conn.reply(turn).code(), Some("agent_exited"));
        agent.await_state(&mut conn, "exited");
        for (request, reply) in live.iter().zip(&replies) {
            let record = conn.audit_of(&request["request_id"]);
            let result = record["resolutions"][0]["result"].as_str().unwrap_or("none");
            let end = record["end"].as_str().unwrap_or_default();
            let fits = match reply.code() {
                None => (result, end) == ("accepted", "resolved"),
                Some("permission_delivery_failed") => {
                    matches!((result, end), ("stale", "cancelled") | ("expired" | "failed" | "indeterminate", "expired"))
                }
                Some("permission_stale") => result == "none" && matches!(end, "cancelled" | "expired"),
                Some(_) => false,
            };
            assert!(fits, "{}\n{record}", reply.0);
            let got = answers(&agent, &json!(request["pending_id"].as_str().and_then(|id| id.parse::<u64>().ok())));
            assert!(got.len() <= 1 && (reply.code().is_none() || !got.contains(&"allow-once".to_owned())), "{got:?} {}", reply.0);
            let again = conn.resolve(request, "reject-once");
            let expected = if matches!(result, "accepted" | "indeterminate") { "permission_already_resolved" } else { "permission_stale" };
            assert_eq!(again.code(), Some(expected), "{record}");
        }
        agent.log.assert_no_violation();
        std::fs::remove_file(&agent.log.0).expect("the log is there");
    }
}

#[test]
fn prompts_beyond_the_cap_are_cancelled_and_counted_and_the_list_is_never_cut() {
    const CAP: usize = 256;
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let script = json!([{"loop": {"times": CAP, "steps": [{"ask": {}}]}}, {"ask": {"id": "over-1"}}, {"ask": {"id": "over-2"}},
        {"await": "over-1"}, {"await": "over-2"}, {"text": "seen"}, {"hang": true}]);
    let turn = agent.prompt(&mut conn, &script);
    for id in ["over-1", "over-2"] {
        assert_eq!(outcome(&agent.log.await_response(&json!(id))), "cancelled");
    }
    let live = agent.permissions(&mut conn);
    assert_eq!(live.len(), CAP);
    let order = |p: &Value| (p["created_at"].as_str().map(ToOwned::to_owned), p["request_id"].as_str().map(ToOwned::to_owned));
    assert!(live.is_sorted_by_key(order), "by time, then by id");
    let counters = conn.call("execution/get", json!({"session_id": "s"})).ok()["counters"].clone();
    assert_eq!((&counters["prompts"], &counters["prompts_refused"]), (&json!(CAP), &json!(2)));
    // One place given back is one that can be taken.
    conn.resolve(&live[CAP / 2], "allow-once").ok();
    assert_eq!(conn.call("session/cancel", json!({"session_id": "s"})).ok()["cancelled"], CAP - 1);
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "cancelled");
    assert!(agent.permissions(&mut conn).is_empty());
    agent.log.assert_no_violation();
}
