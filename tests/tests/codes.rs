//! Every stable code is provoked end to end: by the test that the table names.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use agentctl_tests::harness::{Agent, Daemon, identity, outcome, until};
use serde_json::json;

const SMOKE: &str = include_str!("smoke.rs");
const PROMPTS: &str = include_str!("prompts.rs");
const ENDS: &str = include_str!("ends.rs");
const START: &str = include_str!("start.rs");
const SUPERVISED: &str = include_str!("supervised.rs");
const TOKEN: &str = include_str!("token.rs");
const PROXY: &str = include_str!("proxy.rs");
const HERE: &str = include_str!("codes.rs");

/// A code, the file and the test that provokes it.
const PROVOKED: &[(&str, &str, &str)] = &[
    ("task_or_session_not_found", START, "a_session_belongs_to_one_task_for_ever"),
    ("permission_not_found", PROMPTS, "two_prompts_of_one_tool_call_are_two"),
    ("permission_stale", ENDS, "a_withdrawal_is_answered_once"),
    ("permission_already_resolved", SMOKE, "a_prompt_is_listed_resolved_once_and_recorded"),
    ("permission_resolution_in_progress", ENDS, "while_a_claim_is_being_written_another_answer_is_in_progress"),
    ("permission_option_not_offered", PROMPTS, "option_ids_match_byte_for_byte"),
    ("permission_audit_failed", HERE, "a_claim_that_cannot_be_recorded_sends_nothing"),
    ("permission_delivery_failed", ENDS, "an_agent_that_does_not_read_holds_up_nobody_and_a_cancel_beats_its_undelivered_answer"),
    ("approver_is_supervised", SUPERVISED, "an_agent_cannot_answer_itself_however_it_hides"),
    ("token_not_valid", TOKEN, "a_revoked_or_expired_token_has_no_rights_any_more"),
    ("operator_only", TOKEN, "a_token_lists_answers_and_reviews_what_is_its_owners"),
    ("execution_not_found", HERE, "an_execution_that_is_not_there_or_not_ours"),
    ("no_live_execution", HERE, "a_session_whose_agent_has_ended"),
    ("session_busy", START, "a_busy_session_is_not_started_twice_but_can_be_replaced"),
    ("execution_is_proxied", PROXY, "nobody_else_prompts_or_cancels_and_other_requests_are_the_editors"),
    ("command_not_found", START, "what_cannot_be_executed_says_so"),
    ("command_not_executable", START, "what_cannot_be_executed_says_so"),
    ("cwd_not_found", START, "what_cannot_be_executed_says_so"),
    ("initialize_failed", START, "an_agent_that_does_not_initialize_is_ended_in_time"),
    ("initialize_timeout", START, "an_agent_that_does_not_initialize_is_ended_in_time"),
    ("session_new_failed", START, "an_agent_that_opens_no_session_is_ended"),
    ("agent_exited", START, "an_agent_that_exits_tells_its_status_and_stderr"),
    ("protocol_version_unsupported", START, "an_agent_that_does_not_initialize_is_ended_in_time"),
    ("authentication_required", START, "an_agent_that_opens_no_session_is_ended"),
    ("limit_reached", START, "the_limit_of_executions_is_kept_and_given_back"),
    ("prompt_failed", HERE, "a_turn_that_the_agent_answers_with_an_error"),
    ("shutting_down", HERE, "a_daemon_that_is_shutting_down_starts_nothing"),
    ("internal_error", HERE, "arguments_that_no_process_can_get"),
];

/// The text of one test, up to the next item at the left margin.
fn body<'a>(file: &'a str, test: &str) -> Option<&'a str> {
    let begin = file.find(&format!("#[test]\nfn {test}() {{"))?;
    let rest = &file[begin..];
    Some(&rest[..rest.find("\n}\n").unwrap_or(rest.len())])
}

#[test]
fn every_code_has_a_test_that_provokes_it() {
    let daemon = Daemon::start();
    let described = daemon.connect().call("control/describe", json!({})).ok()["codes"].clone();
    let mut described: Vec<&str> = described.as_array().into_iter().flatten().filter_map(|info| info["code"].as_str()).collect();
    let mut known: Vec<&str> = PROVOKED.iter().map(|(code, ..)| *code).collect();
    described.sort_unstable();
    known.sort_unstable();
    assert_eq!(described, known, "a code without a test, or a test of a code that is gone");
    for (code, file, test) in PROVOKED {
        let body = body(file, test).unwrap_or_else(|| panic!("there is no test {test}"));
        let stale_helper = *code == "permission_stale" && body.contains("assert_stale(");
        assert!(stale_helper || body.contains(&format!("\"{code}\"")), "{test} does not check {code}");
    }
}

#[test]
fn a_claim_that_cannot_be_recorded_sends_nothing() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["permission"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"ask": {"id": 6}}, {"await_all": true}]), 2);
    let database = rusqlite::Connection::open(daemon.database()).expect("the database opens");
    database.busy_timeout(std::time::Duration::from_secs(20)).expect("a timeout can be set");
    database.execute_batch("BEGIN IMMEDIATE").expect("the database can be locked");
    let failed = conn.resolve(&live[0], "allow-once");
    assert_eq!(failed.code(), Some("permission_audit_failed"), "{}", failed.0);
    conn.event_of_type("pending");
    assert_eq!(agent.permissions(&mut conn), live);
    assert!(agent.log.responses(&json!(5)).is_empty());
    // To cancel works without a disk.
    conn.call("permission/cancel", identity(&live[1])).ok();
    assert_eq!(outcome(&agent.log.await_response(&json!(6))), "cancelled");
    database.execute_batch("ROLLBACK").expect("the lock can be given back");
    until("an answer that can be recorded", || match conn.resolve(&live[0], "reject-once") {
        reply if reply.code().is_none() => Some(()),
        reply => {
            assert_eq!(reply.code(), Some("permission_audit_failed"), "{}", reply.0);
            None
        }
    });
    conn.reply(turn).ok();
    assert_eq!(agent.log.responses(&json!(5)).iter().map(outcome).collect::<Vec<_>>(), ["reject-once"]);
    let record = conn.audit_of(&live[0]["request_id"]);
    let accepted = record["resolutions"].as_array().into_iter().flatten().filter(|r| r["result"] == "accepted");
    assert_eq!((record["end"].as_str(), accepted.count()), (Some("resolved"), 1), "{record}");
    assert_eq!(conn.audit_of(&live[1]["request_id"])["end"], "cancelled");
    agent.log.assert_no_violation();
}

#[test]
fn an_execution_that_is_not_there_or_not_ours() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let mut params = Agent::params(&daemon, "t", "s", &[]);
    params["owner"] = "someone".into();
    let id = conn.start(params)["execution_id"].as_str().unwrap_or_default().to_owned();
    let unknown = "00000000-0000-4000-8000-000000000000".to_owned();
    for method in ["execution/get", "execution/stop", "execution/stderr"] {
        for id in [&unknown, &id, &id.to_uppercase(), &String::new()] {
            assert_eq!(conn.call(method, json!({"execution_id": id})).code(), Some("execution_not_found"), "{method} {id}");
        }
        assert_eq!(conn.call(method, json!({"session_id": "s"})).code(), Some("task_or_session_not_found"));
        assert_eq!(conn.call(method, json!({})).error()["code"], -32602);
    }
    assert_eq!(conn.call("execution/get", json!({"execution_id": id, "owner": "someone"})).ok()["state"], "running");
}

#[test]
fn a_session_whose_agent_has_ended() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    conn.call("execution/stop", json!({"session_id": "s"})).ok();
    for (method, params) in [
        ("session/prompt", json!({"session_id": "s", "text": "hi"})),
        ("session/cancel", json!({"session_id": "s"})),
        ("execution/get", json!({"session_id": "s"})),
        ("execution/stop", json!({"session_id": "s"})),
        ("execution/stderr", json!({"session_id": "s"})),
    ] {
        assert_eq!(conn.call(method, params).code(), Some("no_live_execution"), "{method}");
    }
    assert!(agent.permissions(&mut conn).is_empty(), "an empty list, and nothing is started");
    assert_eq!(conn.call("execution/get", json!({"execution_id": agent.started["execution_id"]})).ok()["state"], "exited");
}

#[test]
fn a_turn_that_the_agent_answers_with_an_error() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["session"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let turn = agent.prompt(&mut conn, &json!([{"ask": {"id": 5}}, {"error": {"code": -32603, "message": "out of\u{1b}[2J luck"}}]));
    let failed = conn.reply(turn);
    assert_eq!((failed.code(), &failed.0["error"]["data"]["agent_error"]["code"]), (Some("prompt_failed"), &json!(-32603)));
    assert_eq!(conn.event_of_type("turn_ended").get("stop_reason"), None);
    assert_eq!(outcome(&agent.log.await_response(&json!(5))), "cancelled");
    // The agent is as well as before.
    let turn = agent.prompt(&mut conn, &json!([{"text": "fine"}]));
    conn.reply(turn).ok();
    let turn = conn.send("session/prompt", &json!({"session_id": "s", "acp_session_id": "unknown", "text": "hi"}));
    assert_eq!(conn.reply(turn).code(), Some("prompt_failed"));
}

#[test]
fn a_daemon_that_is_shutting_down_starts_nothing() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &["--stay-on-eof"]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"hang": true}]), 1);
    assert_eq!(conn.call("control/shutdown", json!({})).ok()["stopping"], 1);
    until("the stop", || {
        let reply = conn.call("execution/start", Agent::params(&daemon, "t", "s2", &[]));
        (reply.code() == Some("shutting_down")).then_some(())
    });
    assert_eq!(conn.resolve(&live[0], "allow-once").code(), Some("permission_stale"));
    assert_eq!(conn.reply(turn).code(), Some("agent_exited"));
    assert_eq!(outcome(&agent.log.await_response(&json!(5))), "cancelled");
    let (ended, _folder) = daemon.wait();
    assert!(ended.status.success(), "{}", ended.log);
}

#[test]
fn arguments_that_no_process_can_get() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let params = json!({"command": "true", "args": ["x".repeat(1 << 20)], "cwd": "/", "task_id": "t", "session_id": "s"});
    assert_eq!(conn.call("execution/start", params).code(), Some("internal_error"));
    Agent::start(&daemon, &mut conn, "s", &[]);
}
