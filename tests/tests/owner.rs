//! Two owners under one daemon: what the operator may do for another one, and what it never sees.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use agentctl_tests::harness::{Agent, Conn, Daemon, is_gone, outcome, until};
use serde_json::{Value, json};

/// Starts an agent for another owner.
fn start_for(daemon: &Daemon, conn: &mut Conn, owner: &str, session: &str) -> Value {
    let mut params = Agent::params(daemon, "t", session, &[]);
    let log = daemon.folder().join(format!("agent-{owner}-{session}.log"));
    params["args"][1] = json!(log.display().to_string());
    params["owner"] = json!(owner);
    conn.start(params)
}

fn log_of(daemon: &Daemon, owner: &str, session: &str) -> agentctl_tests::harness::Log {
    agentctl_tests::harness::Log(daemon.folder().join(format!("agent-{owner}-{session}.log")))
}

/// A call's whole answer, without its number.
fn answer(conn: &mut Conn, method: &str, params: &Value) -> String {
    let mut reply = conn.call(method, params.clone()).0;
    reply["id"] = json!(null);
    reply.to_string()
}

#[test]
fn the_operator_controls_anothers_execution_and_sees_none_of_its_prompts() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let mut watcher = daemon.connect();
    watcher.subscribe(json!({}));
    let mut updates = daemon.connect();
    updates.subscribe(json!({"topics": ["update", "permission", "execution", "session"]}));
    let started = start_for(&daemon, &mut conn, "4242", "s");
    let log = log_of(&daemon, "4242", "s");
    let owned = |session: &str| json!({"session_id": session, "owner": "4242"});

    assert_eq!(conn.call("execution/list", json!({})).ok()["executions"], json!([]));
    let list = conn.call("execution/list", json!({"owner": "4242"})).ok();
    assert_eq!(list["executions"][0]["execution_id"], started["execution_id"]);
    assert_eq!(conn.call("execution/get", owned("s")).ok()["state"], "running");
    let by_id = json!({"execution_id": started["execution_id"], "owner": "4242"});
    assert_eq!(conn.call("execution/get", by_id).ok()["pid"], started["pid"]);

    let script = json!([{"stderr": {"text": "some words"}}, {"text": "hello"}, {"ask": {"id": 5}}, {"hang": true}]);
    let turn = conn.send("session/prompt", &json!({"session_id": "s", "owner": "4242", "text": script.to_string()}));
    until("the prompt", || (conn.call("execution/get", owned("s")).ok()["pending"] == 1).then_some(()));
    until("its stderr", || {
        let text = conn.call("execution/stderr", owned("s")).ok()["text"].clone();
        text.as_str().is_some_and(|text| text.contains("some words")).then_some(())
    });

    // Its prompts, audit and events are not the operator's.
    assert_eq!(conn.call("permission/list", json!({})).ok()["permissions"], json!([]));
    assert_eq!(conn.call("audit/list", json!({})).ok()["records"], json!([]));
    for params in [json!({"task_id": "t"}), json!({"session_id": "s"}), json!({"task_id": "t", "session_id": "s"})] {
        for method in ["permission/list", "audit/list", "event/subscribe"] {
            assert_eq!(conn.call(method, params.clone()).code(), Some("task_or_session_not_found"), "{method} {params}");
        }
    }
    // There is no way to ask for them.
    for method in ["permission/list", "audit/list", "event/subscribe"] {
        assert_eq!(conn.call(method, json!({"owner": "4242"})).error()["code"], -32602, "{method}");
    }

    // The database holds the id that the operator was never told; even that one does not help.
    let request_id = until("the request's row", || {
        let db = rusqlite::Connection::open_with_flags(daemon.database(), rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
        db.query_row("SELECT request_id FROM requests", [], |row| row.get::<_, String>(0)).ok()
    });
    let resolve = json!({"task_id": "t", "session_id": "s", "request_id": request_id, "pending_id": "5", "option_id": "allow-once"});
    assert_eq!(conn.call("permission/resolve", resolve).code(), Some("task_or_session_not_found"));
    let cancel = json!({"task_id": "t", "session_id": "s", "request_id": request_id, "pending_id": "5"});
    assert_eq!(conn.call("permission/cancel", cancel).code(), Some("task_or_session_not_found"));
    assert_eq!(conn.call("audit/list", json!({"request_id": request_id})).ok()["records"], json!([]));
    assert!(log.responses(&json!(5)).is_empty());

    let cancelled = conn.call("session/cancel", owned("s")).ok();
    assert_eq!((&cancelled["turn_running"], &cancelled["cancelled"]), (&json!(true), &json!(1)));
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "cancelled");
    assert_eq!(outcome(&log.await_response(&json!(5))), "cancelled");
    conn.call("execution/stop", owned("s")).ok();
    assert!(is_gone(started["pid"].as_i64().expect("a pid")));
    for watcher in [&mut watcher, &mut updates] {
        watcher.call("control/status", json!({})).ok();
        assert!(watcher.events.is_empty(), "{:?}", watcher.events);
    }
    log.assert_no_violation();
    daemon.stop();
}

#[test]
fn foreign_ids_are_answered_as_unknown_ones_to_the_byte() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let started = start_for(&daemon, &mut conn, "4242", "sa");
    let text = json!([{"ask": {"id": 5}}, {"await": 5}]).to_string();
    conn.send("session/prompt", &json!({"session_id": "sa", "owner": "4242", "text": text}));
    until("the prompt", || {
        let info = conn.call("execution/get", json!({"session_id": "sa", "owner": "4242"})).ok();
        (info["pending"] == 1).then_some(())
    });
    let foreign = started["execution_id"].as_str().expect("an id");
    let unknown = "00000000-0000-4000-8000-000000000000";
    // Pairs of calls that differ in nothing but the id: "sa" and the task exist, for somebody else; "sb" for nobody.
    let request = |session: &str| json!({"task_id": "t", "session_id": session, "request_id": unknown, "pending_id": "5"});
    let resolve = |session: &str| {
        let mut params = request(session);
        params["option_id"] = json!("allow-once");
        params
    };
    let session = |session: &str| json!({"session_id": session});
    let task = |task: &str| json!({"task_id": task});
    let both = |session: &str| json!({"task_id": "t", "session_id": session});
    let execution = |id: &str| json!({"execution_id": id});
    let prompt = |session: &str| json!({"session_id": session, "text": "x"});
    let pairs = [
        ("permission/resolve", resolve("sa"), resolve("sb")),
        ("permission/cancel", request("sa"), request("sb")),
        ("permission/list", session("sa"), session("sb")),
        ("permission/list", task("t"), task("u")),
        ("permission/list", both("sa"), both("sb")),
        ("audit/list", session("sa"), session("sb")),
        ("audit/list", task("t"), task("u")),
        ("event/subscribe", session("sa"), session("sb")),
        ("event/subscribe", task("t"), task("u")),
        ("session/prompt", prompt("sa"), prompt("sb")),
        ("session/cancel", session("sa"), session("sb")),
        ("execution/get", session("sa"), session("sb")),
        ("execution/get", execution(foreign), execution(unknown)),
        ("execution/stop", session("sa"), session("sb")),
        ("execution/stop", execution(foreign), execution(unknown)),
        ("execution/restart", session("sa"), session("sb")),
        ("execution/restart", execution(foreign), execution(unknown)),
        ("session/reset", session("sa"), session("sb")),
        ("execution/stderr", session("sa"), session("sb")),
        ("execution/stderr", execution(foreign), execution(unknown)),
        ("execution/list", session("sa"), session("sb")),
        ("execution/list", task("t"), task("u")),
    ];
    for (method, foreign, unknown) in pairs {
        let (a, b) = (answer(&mut conn, method, &foreign), answer(&mut conn, method, &unknown));
        assert_eq!(a, b, "{method} {foreign}");
        assert!(a.contains("_not_found"), "{method}: {a}");
    }
    // Still there and untouched.
    let info = conn.call("execution/get", json!({"session_id": "sa", "owner": "4242"})).ok();
    assert_eq!((&info["state"], &info["pending"]), (&json!("running"), &json!(1)));
    daemon.stop();
}

#[test]
fn the_same_names_of_two_owners_are_two_sessions() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let ours = Agent::start(&daemon, &mut conn, "s", &[]);
    let theirs = start_for(&daemon, &mut conn, "4242", "s");
    let log = log_of(&daemon, "4242", "s");
    assert_ne!(ours.started["execution_id"], theirs["execution_id"]);
    let script = json!([{"ask": {"id": 5}}, {"await": 5}]);
    // It hangs: one that waited could end its turn between the `cancelled` of its stop and the end of its stdin.
    let hanging = json!([{"ask": {"id": 5}}, {"hang": true}]).to_string();
    let their_turn = conn.send("session/prompt", &json!({"session_id": "s", "owner": "4242", "text": hanging}));
    log.await_entry("sent");
    let (turn, live) = ours.ask(&mut conn, &script, 1);
    conn.resolve(&live[0], "allow-once").ok();
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
    until("their prompt", || {
        let info = conn.call("execution/get", json!({"session_id": "s", "owner": "4242"})).ok();
        (info["pending"] == 1).then_some(())
    });
    assert!(log.responses(&json!(5)).is_empty());
    assert_eq!(conn.call("audit/list", json!({"task_id": "t"})).ok()["records"].as_array().map(Vec::len), Some(1));
    // Stopping ours leaves theirs alone, also with `replace`.
    let mut params = Agent::params(&daemon, "t", "s", &[]);
    params["replace"] = json!(true);
    conn.start(params);
    conn.call("execution/stop", json!({"session_id": "s"})).ok();
    assert_eq!(conn.call("execution/get", json!({"session_id": "s", "owner": "4242"})).ok()["pending"], 1);
    conn.call("execution/stop", json!({"session_id": "s", "owner": "4242"})).ok();
    assert!(conn.reply(their_turn).0["error"].is_object());
    // A session of ours in another task, and an owner that is none.
    let other_task = Agent::params(&daemon, "other", "s", &[]);
    assert_eq!(conn.call("execution/start", other_task).code(), Some("task_or_session_not_found"));
    let mut params = Agent::params(&daemon, "t", "x", &[]);
    params["owner"] = json!("");
    assert_eq!(conn.call("execution/start", params).error()["code"], -32602);
    daemon.stop();
}

#[test]
fn names_survive_a_restart_with_their_owners() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    start_for(&daemon, &mut conn, "4242", "theirs");
    Agent::start(&daemon, &mut conn, "ours", &[]);
    let (_, folder) = daemon.end(nix::sys::signal::Signal::SIGTERM);
    let daemon = Daemon::start_in(folder, &agentctl_tests::harness::agentctl(), &[], &[]);
    let mut conn = daemon.connect();
    assert_eq!(conn.call("permission/list", json!({"session_id": "ours"})).ok()["total"], 0);
    assert_eq!(conn.call("permission/list", json!({"session_id": "theirs"})).code(), Some("task_or_session_not_found"));
    assert_eq!(conn.call("execution/get", json!({"session_id": "theirs", "owner": "4242"})).code(), Some("no_live_execution"));
    daemon.stop();
}
