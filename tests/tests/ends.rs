//! How requests end, and what late callers hear.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::net::UnixStream;

use agentctl_tests::harness::{Agent, Conn, Daemon, Reply, identity, outcome, resolve_params, rounds, until};
use serde_json::{Value, json};

#[track_caller]
fn assert_stale(reply: &Reply, end: &str) {
    assert_eq!((reply.code(), reply.0["error"]["data"]["end"].as_str()), (Some("permission_stale"), Some(end)), "{}", reply.0);
}

fn answers(agent: &Agent, id: &Value) -> Vec<String> {
    agent.log.responses(id).iter().map(outcome).collect()
}

fn cancel(conn: &mut Conn) -> Value {
    conn.call("session/cancel", json!({"session_id": "s"})).ok()
}

fn stop(conn: &mut Conn, agent: &Agent) -> Value {
    conn.call("execution/stop", json!({"execution_id": agent.started["execution_id"]})).ok()
}

// C12
#[test]
fn a_cancel_answers_the_prompts_of_its_turn_before_it_goes_out() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["permission", "session"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let script = json!([{"ask": {"id": 5}}, {"ask": {"id": 6, "session": "sub"}}, {"hang": true}]);
    let (turn, live) = agent.ask(&mut conn, &script, 2);
    let result = cancel(&mut conn);
    assert_eq!((&result["turn_running"], &result["cancelled"]), (&json!(true), &json!(2)));
    for request in &live {
        assert_stale(&conn.resolve(request, "allow-once"), "cancelled");
    }
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "cancelled");
    assert_eq!(conn.event_of_type("cancelled")["reason"], "turn_cancelled");
    assert_eq!(conn.event_of_type("turn_ended")["stop_reason"], "cancelled");
    let received = agent.log.received();
    let position = |what: &dyn Fn(&Value) -> bool| received.iter().position(what).expect("it was received");
    let told = position(&|frame| frame["method"] == "session/cancel");
    for id in [5, 6] {
        assert_eq!(answers(&agent, &json!(id)), ["cancelled"]);
        assert!(position(&|frame| frame.get("method").is_none() && frame["id"] == id) < told, "{received:?}");
    }
    let record = conn.audit_of(&live[0]["request_id"]);
    assert_eq!((&record["end"], &record["resolutions"]), (&json!("cancelled"), &json!([])));
    until("the late approval in the audit", || {
        let records = conn.call("audit/list", json!({"request_id": live[0]["request_id"]})).ok();
        (records["records"][0]["failed_attempts"]["last"][0]["code"] == "permission_stale").then_some(())
    });
    agent.log.assert_no_violation();
}

// C13
#[test]
fn a_withdrawal_is_answered_once() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["permission"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let script = json!([{"ask": {"id": 5}}, {"ask": {"id": 6}}, {"await": 6}, {"withdraw": 5}, {"withdraw": 5}, {"withdraw": 77}, {"ask": {"id": 7}}, {"await": 7}]);
    let (turn, live) = agent.ask(&mut conn, &script, 2);
    let withdrawn = live.iter().find(|p| p["pending_id"] == "5").cloned().unwrap_or_default();
    conn.resolve(live.iter().find(|p| p["pending_id"] == "6").unwrap_or(&Value::Null), "allow-once").ok();
    assert_eq!(conn.event_of_type("withdrawn")["request_id"], withdrawn["request_id"]);
    assert_stale(&conn.resolve(&withdrawn, "allow-once"), "withdrawn");
    let last = until("the last prompt", || agent.permissions(&mut conn).into_iter().find(|p| p["pending_id"] == "7"));
    conn.resolve(&last, "allow-once").ok();
    conn.reply(turn).ok();
    assert_eq!(answers(&agent, &json!(5)), ["-32800"]);
    assert!(answers(&agent, &json!(77)).is_empty());
    assert_eq!(conn.audit_of(&withdrawn["request_id"])["end"], "withdrawn");
    agent.log.assert_no_violation();
}

// C14
#[test]
fn a_withdrawal_and_a_cancel_make_one_reply_in_either_order() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["permission"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    // The cancel ends both, the agent withdraws one afterwards.
    let script = json!([{"stop_reason": "end_turn"}, {"ask": {"id": 1}}, {"ask": {"id": 2}}, {"await": 2}, {"withdraw": 1}, {"ask": {"id": 3}}, {"await": 3}]);
    let (turn, _) = agent.ask(&mut conn, &script, 2);
    conn.reply(turn).ok();
    let result = cancel(&mut conn);
    assert_eq!((&result["turn_running"], &result["cancelled"]), (&json!(false), &json!(2)));
    // A cancel with no turn running sets no state: the third is listed.
    let live = conn.await_permissions("t", "s", 1);
    assert_eq!(live[0]["pending_id"], "3");
    conn.resolve(&live[0], "allow-once").ok();
    assert_eq!(answers(&agent, &json!(1)), ["cancelled"]);
    // The agent withdraws, the cancel comes afterwards.
    let (turn, _) = agent.ask(&mut conn, &json!([{"ask": {"id": 4}}, {"withdraw": 4}, {"hang": true}]), 0);
    conn.event_of_type("withdrawn");
    cancel(&mut conn);
    conn.reply(turn).ok();
    assert_eq!(answers(&agent, &json!(4)), ["-32800"]);
    agent.log.assert_no_violation();
}

#[test]
fn answer_withdrawal_and_cancel_at_once_make_one_reply_that_fits_the_audit() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let mut other = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let mut seen = BTreeMap::<String, usize>::new();
    for round in 0..rounds("AGENTCTL_TEST_ROUNDS", 20) {
        let (asked, go) = (json!(format!("a{round}")), json!(format!("go{round}")));
        let script = json!([{"stop_reason": "end_turn"}, {"ask": {"id": asked}}, {"ask": {"id": go, "session": "sub"}}, {"await": go}, {"withdraw": asked}]);
        let (turn, live) = agent.ask(&mut conn, &script, 2);
        conn.reply(turn).ok();
        let of = |id: &Value| live.iter().find(|p| p["pending_id"] == *id).cloned().unwrap_or_default();
        let go_now = conn.send("permission/resolve", &resolve_params(&of(&go), "allow-once"));
        let cancelling = if round % 2 == 0 { Some(other.send("session/cancel", &json!({"session_id": "s"}))) } else { None };
        let answering = other.send("permission/resolve", &resolve_params(&of(&asked), "reject-once"));
        let answered = other.reply(answering);
        cancelling.map(|id| other.reply(id).ok());
        conn.reply(go_now).ok();
        let got = outcome(&agent.log.await_response(&asked));
        conn.await_permissions("t", "s", 0);
        let record = conn.audit_of(&of(&asked)["request_id"]);
        let end = record["end"].as_str().unwrap_or_default();
        let fits = matches!((got.as_str(), end), ("reject-once", "resolved") | ("cancelled", "cancelled") | ("-32800", "withdrawn"));
        assert!(fits, "the agent got {got}: {record}");
        match answered.code() {
            None => assert_eq!(got, "reject-once"),
            Some(code) => {
                assert!(matches!(code, "permission_stale" | "permission_delivery_failed"), "{}", answered.0);
                assert_ne!(got, "reject-once");
            }
        }
        assert_eq!(answers(&agent, &asked).len(), 1);
        *seen.entry(got).or_default() += 1;
    }
    agent.log.assert_no_violation();
    println!("{seen:?}");
}

// C17
#[test]
fn while_a_claim_is_being_written_another_answer_is_in_progress() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let asks: Vec<Value> = (0..24).map(|id| json!({"ask": {"id": id}})).chain([json!({"await_all": true})]).collect();
    let (turn, live) = agent.ask(&mut conn, &Value::Array(asks), 24);
    let options = ["allow-once", "reject-once", "allow-always"];
    let mut conns: Vec<Conn> = (0..3).map(|_| daemon.connect()).collect();
    let mut in_progress = 0;
    for request in &live {
        let calls: Vec<u64> =
            conns.iter_mut().zip(options).map(|(c, o)| c.send("permission/resolve", &resolve_params(request, o))).collect();
        let replies: Vec<Reply> = conns.iter_mut().zip(&calls).map(|(c, call)| c.reply(*call)).collect();
        let won: Vec<&str> = replies.iter().zip(options).filter(|(r, _)| r.code().is_none()).map(|(_, o)| o).collect();
        assert_eq!(won.len(), 1, "{replies:?}");
        in_progress += replies.iter().filter(|r| r.code() == Some("permission_resolution_in_progress")).count();
        assert!(
            replies
                .iter()
                .filter_map(Reply::code)
                .all(|c| matches!(c, "permission_resolution_in_progress" | "permission_already_resolved"))
        );
        let id = json!(request["pending_id"].as_str().and_then(|id| id.parse::<u64>().ok()));
        assert_eq!(outcome(&agent.log.await_response(&id)), won[0]);
        let record = conn.audit_of(&request["request_id"]);
        assert_eq!((record["resolutions"].as_array().map(Vec::len), &record["resolutions"][0]["option_id"]), (Some(1), &json!(won[0])));
    }
    assert!(in_progress > 0, "no call came while a claim was being written");
    conn.reply(turn).ok();
    until("every failed attempt in the audit", || {
        let records = conn.call("audit/list", json!({"session_id": "s", "limit": 100})).ok()["records"].clone();
        records.as_array()?.iter().all(|r| r["failed_attempts"]["count"] == 2).then_some(())
    });
    agent.log.assert_no_violation();
}

// C18
#[test]
fn a_dead_agents_prompts_expire_and_the_next_generation_is_untouched() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["permission"]}));
    let old = Agent::start(&daemon, &mut conn, "s", &[]);
    let script = json!([{"ask": {"id": 1}}, {"ask": {"id": 2}}, {"ask": {"id": 3}}, {"ask": {"id": 4}}, {"await": 4}, {"signal": 9}]);
    let (turn, before) = old.ask(&mut conn, &script, 4);
    conn.resolve(&before[3], "allow-once").ok();
    assert_eq!(conn.reply(turn).code(), Some("agent_exited"));
    assert_eq!(old.await_state(&mut conn, "exited")["exit"], json!({"signal": 9}));
    let new = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, after) = new.ask(&mut conn, &json!([{"ask": {"id": 1}}, {"ask": {"id": 2}}, {"ask": {"id": 3}}, {"await_all": true}]), 3);
    for (old, new) in before.iter().zip(&after) {
        assert_eq!(old["pending_id"], new["pending_id"]);
        assert_stale(&conn.resolve(old, "allow-once"), "expired");
        assert_eq!(conn.audit_of(&old["request_id"])["end"], "expired");
    }
    assert_eq!(new.permissions(&mut conn), after);
    for request in &after {
        conn.resolve(request, "reject-once").ok();
    }
    conn.reply(turn).ok();
    let expired = conn.events.iter().filter(|e| e["type"] == "expired").cloned().collect::<Vec<_>>();
    assert_eq!(expired.len(), 3);
    assert!(expired.iter().all(|e| e["execution_id"] == old.started["execution_id"]));
    new.log.assert_no_violation();
}

// C20
#[test]
fn an_id_used_anew_replaces_the_older_prompt() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["permission"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let turn = agent.prompt(&mut conn, &json!([{"ask": {"id": 5}}, {"ask": {"id": 5}}, {"await": 5}]));
    let first = conn.event_of_type("requested")["permission"].clone();
    assert_eq!(conn.event_of_type("replaced")["request_id"], first["request_id"]);
    let second = conn.event_of_type("requested")["permission"].clone();
    assert_eq!(agent.permissions(&mut conn), std::slice::from_ref(&second));
    assert_stale(&conn.resolve(&first, "allow-once"), "replaced");
    conn.resolve(&second, "reject-once").ok();
    conn.reply(turn).ok();
    assert_eq!(answers(&agent, &json!(5)), ["reject-once"]);
    assert_eq!(conn.audit_of(&first["request_id"])["end"], "replaced");
    agent.log.assert_no_violation();
}

// C21
#[test]
fn a_caller_that_goes_away_does_not_undo_its_answer() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let asks: Vec<Value> = (0..10).map(|id| json!({"ask": {"id": id}})).chain([json!({"await_all": true})]).collect();
    let (turn, live) = agent.ask(&mut conn, &Value::Array(asks), 10);
    for request in &live {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "permission/resolve", "params": resolve_params(request, "reject-once")});
        let mut caller = UnixStream::connect(daemon.socket()).expect("the daemon listens");
        caller.write_all(format!("{call}\n").as_bytes()).expect("the daemon reads");
    }
    conn.reply(turn).ok();
    for request in &live {
        let record = conn.audit_of(&request["request_id"]);
        assert_eq!((&record["end"], &record["resolutions"][0]["result"]), (&json!("resolved"), &json!("accepted")));
    }
    agent.log.assert_no_violation();
}

#[test]
fn a_stop_and_the_end_of_a_turn_make_late_answers_stale() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"ask": {"id": 6}}, {"await": 6}]), 2);
    conn.resolve(&live[1], "allow-once").ok();
    conn.reply(turn).ok();
    assert_stale(&conn.resolve(&live[0], "allow-once"), "cancelled");
    assert_stale(&conn.call("permission/cancel", identity(&live[0])), "cancelled");
    assert_eq!(outcome(&agent.log.await_response(&json!(5))), "cancelled");
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 7}}, {"hang": true}]), 1);
    let stopped = stop(&mut conn, &agent);
    assert_eq!((&stopped["tree_empty"], &stopped["by"]), (&json!(true), &json!("closed_stdin")), "{stopped}");
    assert_stale(&conn.resolve(&live[0], "allow-once"), "cancelled");
    assert_eq!(conn.reply(turn).code(), Some("agent_exited"));
    assert_eq!(answers(&agent, &json!(7)), ["cancelled"]);
    agent.log.assert_no_violation();
}

#[test]
fn a_prompt_between_cancel_and_end_of_turn_is_cancelled_recorded_and_never_listed() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["permission", "session"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &["--prompt-after-cancel"]);
    let turn = agent.prompt(&mut conn, &json!([{"hang": true}]));
    conn.event_of_type("turn_started");
    cancel(&mut conn);
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "cancelled");
    assert_eq!(answers(&agent, &json!("after-cancel")), ["cancelled"]);
    assert!(conn.events.iter().all(|event| event["topic"] != "permission"), "{:?}", conn.events);
    let record = until("its record", || {
        let records = conn.call("audit/list", json!({"session_id": "s"})).ok()["records"].clone();
        records.get(0).filter(|r| !r["end"].is_null()).cloned()
    });
    assert_eq!((&record["pending_id"], &record["end"]), (&json!("after-cancel"), &json!("cancelled")));
    // The next turn is as any other.
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 1}}, {"await": 1}]), 1);
    conn.resolve(&live[0], "allow-once").ok();
    conn.reply(turn).ok();
    agent.log.assert_no_violation();
}

#[test]
fn a_prompt_outside_of_any_turn_lives_on() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"stop_reason": "refusal"}, {"ask": {"id": 9}}, {"await": 9}]), 1);
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "refusal");
    let turn = agent.prompt(&mut conn, &json!([{"text": "another turn"}]));
    conn.reply(turn).ok();
    assert_eq!(agent.permissions(&mut conn), live);
    conn.resolve(&live[0], "allow-always").ok();
    assert_eq!(outcome(&agent.log.await_response(&json!(9))), "allow-always");
    agent.log.assert_no_violation();
}

#[test]
fn an_agent_that_does_not_read_holds_up_nobody_and_a_cancel_beats_its_undelivered_answer() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let deaf = Agent::start(&daemon, &mut conn, "deaf", &[]);
    let (_, live) = deaf.ask(&mut conn, &json!([{"stop_reading": true}, {"ask": {"id": 5}}, {"ask": {"id": 6}}, {"hang": true}]), 2);
    // Far more than a pipe holds: a part of it is written, so that nothing can overtake it.
    conn.send("session/prompt", &json!({"session_id": "deaf", "acp_session_id": "other", "text": "x".repeat(4 << 20)}));
    let answering = conn.send("permission/resolve", &resolve_params(&live[0], "allow-once"));
    until("the claim", || deaf.permissions(&mut conn).iter().any(|p| p["status"] == "resolving").then_some(()));
    assert_eq!(conn.resolve(&live[0], "reject-once").code(), Some("permission_resolution_in_progress"));
    assert_eq!(conn.call("permission/cancel", identity(&live[0])).code(), Some("permission_resolution_in_progress"));
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, other) = agent.ask(&mut conn, &json!([{"ask": {"id": 1}}, {"await": 1}]), 1);
    conn.resolve(&other[0], "allow-once").ok();
    conn.reply(turn).ok();
    assert_eq!(deaf.permissions(&mut conn).len(), 2);
    assert!(conn.try_reply(answering).is_none(), "nobody can have read it");
    let cancelled = conn.call("session/cancel", json!({"session_id": "deaf"})).ok();
    assert_eq!(cancelled["cancelled"], 2);
    let failed = conn.reply(answering);
    assert_eq!((failed.code(), &failed.0["error"]["data"]["end"]), (Some("permission_delivery_failed"), &json!("cancelled")));
    assert_stale(&conn.resolve(&live[0], "allow-once"), "cancelled");
    let record = conn.audit_of(&live[0]["request_id"]);
    assert_eq!((&record["end"], &record["resolutions"][0]["result"]), (&json!("cancelled"), &json!("stale")));
    let stopped = stop(&mut conn, &deaf);
    assert_eq!(stopped["tree_empty"], true);
    assert!(answers(&deaf, &json!(5)).is_empty());
}
