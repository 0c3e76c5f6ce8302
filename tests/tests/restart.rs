//! Agents that are started again, that have limits, and sessions that are reset (C28, C30).

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use agentctl_tests::harness::{Agent, Conn, Daemon, await_gone, children, is_gone, outcome, until};
use serde_json::{Value, json};

fn params(daemon: &Daemon, session: &str, switches: &[&str], more: Value) -> Value {
    let mut params = Agent::params(daemon, "t", session, switches);
    params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    params
}

fn last(conn: &mut Conn, session: &str) -> Value {
    let list = conn.call("execution/list", json!({"session_id": session})).ok();
    list["executions"].as_array().and_then(|all| all.last().cloned()).expect("one")
}

fn agent(daemon: &Daemon, session: &str, started: Value) -> Agent {
    let log = agentctl_tests::harness::Log(daemon.folder().join(format!("agent-{session}.log")));
    Agent { task: "t".into(), session: session.into(), started, log }
}

#[test]
fn who_crashes_again_and_again_is_parked_and_starts_when_somebody_wants_that() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["execution"]}));
    let crash = ["--exit-after-ms", "150", "--exit-code", "3"];
    let first = conn.start(params(&daemon, "s", &crash, json!({"restart": "on-failure"})));
    let parked = until("it to be parked", || Some(last(&mut conn, "s")).filter(|e| e["state"] == "parked"));
    assert_eq!((&parked["generation"], &parked["exit"]), (&json!(6), &json!({"code": 3})), "{parked}");
    assert!(parked["reason"].as_str().is_some_and(|reason| reason.contains("6 times within 10 min")), "{parked}");
    assert_eq!(parked["restart"], json!({"policy": "on-failure", "count": 5}), "{parked}");
    // What is due next was told each time.
    assert_eq!(conn.events.iter().filter(|e| e["type"] == "restart" && e["next_at"].is_string()).count(), 5);
    assert_eq!(conn.events.iter().filter(|e| e["state"] == "parked").count(), 1);
    assert_eq!(conn.call("execution/stop", json!({"session_id": "s"})).code(), Some("no_live_execution"));
    let again = conn.call("execution/restart", json!({"session_id": "s"})).ok();
    assert_ne!(again["execution_id"], first["execution_id"]);
    assert_eq!(last(&mut conn, "s")["generation"], 7);
    daemon.stop();
}

#[test]
fn what_ended_cleanly_or_was_stopped_is_not_started_again() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.start(params(&daemon, "clean", &["--exit-after-ms", "50", "--exit-code", "0"], json!({"restart": "on-failure"})));
    conn.start(params(&daemon, "stopped", &["--stay-on-eof", "--ignore-sigterm"], json!({"restart": "always"})));
    conn.call("execution/stop", json!({"session_id": "stopped"})).ok();
    // Stopped while it waits for its restart.
    conn.start(params(&daemon, "waits", &["--exit-after-ms", "10"], json!({"restart": "always"})));
    until("its wait", || last(&mut conn, "waits")["restart"]["next_at"].is_string().then_some(()));
    let stopped = conn.call("execution/stop", json!({"session_id": "waits"}));
    let generation = last(&mut conn, "waits")["generation"].clone();
    assert!(stopped.code().is_none() || generation == 2, "{stopped:?}");
    let waits = last(&mut conn, "waits");
    conn.call("execution/stop", json!({"execution_id": waits["execution_id"]})).ok();
    until("no wait", || last(&mut conn, "waits")["restart"]["next_at"].is_null().then_some(()));
    until("its end", || Some(last(&mut conn, "clean")).filter(|e| e["state"] == "exited"));
    // Longer than the first delay.
    std::thread::sleep(std::time::Duration::from_millis(700));
    for session in ["clean", "stopped", "waits"] {
        let last = last(&mut conn, session);
        assert_eq!((&last["state"], last["generation"].as_u64().map(|g| g <= 2)), (&json!("exited"), Some(true)), "{last}");
    }
    assert_eq!(last(&mut conn, "clean")["generation"], 1);
    assert_eq!(last(&mut conn, "stopped")["generation"], 1);
    // A session that is started anew is not started by an old plan, too.
    conn.start(params(&daemon, "again", &["--exit-after-ms", "10"], json!({"restart": "always", "replace": true})));
    until("its wait", || last(&mut conn, "again")["restart"]["next_at"].is_string().then_some(()));
    let mut anew = params(&daemon, "again", &[], json!({}));
    anew["replace"] = json!(true);
    let started = conn.start(anew);
    // Nor does the restart of an older execution end it, however that one was started.
    let list = conn.call("execution/list", json!({"session_id": "again"})).ok();
    let older = list["executions"][0]["execution_id"].clone();
    assert_eq!(conn.call("execution/restart", json!({"execution_id": older})).code(), Some("session_busy"));
    conn.call("execution/stop", json!({"execution_id": started["execution_id"]})).ok();
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert_eq!(last(&mut conn, "again")["execution_id"], started["execution_id"]);
    let bound = conn.call("execution/start", params(&daemon, "bound", &[], json!({"restart": "always", "bind": true})));
    assert_eq!(bound.error()["code"], -32602);
    daemon.stop();
}

#[test]
fn a_restart_goes_on_with_the_session_and_never_with_its_prompts() {
    for (switches, how) in [(&["--resume", "--load"][..], "resumed"), (&["--load", "--ask-on-load"], "loaded"), (&[], "new")] {
        let daemon = Daemon::start();
        let mut conn = daemon.connect();
        let first = Agent::start(&daemon, &mut conn, "s", switches);
        let (turn, live) = first.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"hang": true}]), 1);
        let started = conn.call("execution/restart", json!({"session_id": "s"})).ok();
        await_gone(&first.started["pid"]);
        assert!(conn.reply(turn).code().is_some());
        assert_eq!(started["acp_session"], how, "{started}");
        // A new one may well have the same name: this agent counts.
        assert_eq!(started["acp_session_id"], first.started["acp_session_id"], "{started}");
        // What the last generation asked is stale, also under the same ids; history is no question.
        assert_eq!(conn.resolve(&live[0], "allow-once").code(), Some("permission_stale"));
        assert!(first.permissions(&mut conn).is_empty(), "{how}");
        if how == "loaded" {
            assert_eq!(outcome(&first.log.await_response(&json!("history"))), "cancelled");
            let records = conn.call("audit/list", json!({"session_id": "s"})).ok()["records"].as_array().cloned().expect("a list");
            let history: Vec<&Value> = records.iter().filter(|r| r["execution_id"] == started["execution_id"]).collect();
            assert_eq!((&history[0]["end"], &history[0]["end_reason"]), (&json!("cancelled"), &json!("replayed")), "{history:?}");
        }
        let second = agent(&daemon, "s", started);
        let (turn, live) = second.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
        conn.resolve(&live[0], "allow-once").ok();
        assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
        second.log.assert_no_violation();
        daemon.stop();
    }
}

#[test]
fn a_session_that_is_reset_begins_anew_in_the_same_process() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let old = agent.started["acp_session_id"].clone();
    // Asked in its turn, which has ended; asks again under the old session after the reset.
    let go = daemon.folder().join("go");
    let script = json!([{"stop_reason": "end_turn"}, {"ask": {"id": 5}}, {"await_file": go}, {"ask": {"id": 6}}, {"await_all": true}]);
    let (turn, live) = agent.ask(&mut conn, &script, 1);
    conn.reply(turn).ok();
    let reset = conn.call("session/reset", json!({"session_id": "s"})).ok();
    assert_ne!(reset["acp_session_id"], old);
    assert_eq!(outcome(&agent.log.await_response(&json!(5))), "cancelled");
    assert_eq!(conn.resolve(&live[0], "allow-once").code(), Some("permission_stale"));
    std::fs::write(go, "").expect("it is ours");
    assert_eq!(outcome(&agent.log.await_response(&json!(6))), "cancelled");
    let info = conn.call("execution/get", json!({"session_id": "s"})).ok();
    assert_eq!((&info["acp_session_id"], &info["pid"]), (&reset["acp_session_id"], &agent.started["pid"]));
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    assert_eq!(live[0]["acp_session_id"], reset["acp_session_id"]);
    assert_eq!(conn.call("session/reset", json!({"session_id": "s"})).code(), Some("session_busy"));
    conn.resolve(&live[0], "allow-once").ok();
    conn.reply(turn).ok();
    agent.log.assert_no_violation();
    daemon.stop();
}

#[test]
fn limits_of_an_execution() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let started = conn.start(params(&daemon, "idle", &[], json!({"idle_stop_s": 1})));
    let idle = agent(&daemon, "idle", started);
    // Whoever has a prompt that waits is not idle.
    let (turn, live) = idle.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    conn.resolve(&live[0], "allow-once").ok();
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
    assert_eq!(idle.await_state(&mut conn, "exited")["reason"], "idle");
    for (session, limit, reason) in [
        ("many", json!({"max_processes": 2}), "over its limit of processes"),
        ("much", json!({"max_memory_bytes": 1000}), "over its limit of memory"),
    ] {
        let started = conn.start(params(&daemon, session, &[], limit));
        let over = agent(&daemon, session, started);
        let child = json!({"spawn": {"setsid": true, "double_fork": true}});
        over.prompt(&mut conn, &json!([child, child, {"hang": true}]));
        let info = over.await_state(&mut conn, "exited");
        assert_eq!(info["reason"], reason, "{info}");
        await_gone(&over.log.await_entry("spawned"));
    }
    daemon.stop();
}

#[test]
fn two_hundred_agents_at_once() {
    const AGENTS: usize = 200;
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let daemon_pid = daemon.pid().as_raw();
    let descriptors = || std::fs::read_dir(format!("/proc/{daemon_pid}/fd")).expect("it runs").count();
    conn.call("permission/list", json!({})).ok();
    let before = descriptors();
    let each = |conn: &mut Conn, method: &str, params: &dyn Fn(usize) -> Value| -> Vec<Value> {
        let calls: Vec<u64> = (0..AGENTS).map(|n| conn.send(method, &params(n))).collect();
        calls.into_iter().map(|call| conn.reply(call).ok()).collect()
    };
    let started = each(&mut conn, "execution/start", &|n| Agent::params(&daemon, "t", &format!("s{n}"), &[]));
    let script = json!([{"ask": {"id": 5}}, {"await": 5}]).to_string();
    let turns: Vec<u64> =
        (0..AGENTS).map(|n| conn.send("session/prompt", &json!({"session_id": format!("s{n}"), "text": script}))).collect();
    let live = until("every prompt", || {
        let list = conn.call("permission/list", json!({"task_id": "t"})).ok();
        (list["total"] == AGENTS).then(|| list["permissions"].as_array().cloned().unwrap_or_default())
    });
    let answers = each(&mut conn, "permission/resolve", &|n| agentctl_tests::harness::resolve_params(&live[n], "allow-once"));
    assert!(answers.iter().all(|answer| answer["status"] == "resolved"));
    turns.into_iter().for_each(|turn| assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn"));
    let stopped = each(&mut conn, "execution/stop", &|n| json!({"session_id": format!("s{n}")}));
    assert!(stopped.iter().all(|stop| stop["tree_empty"] == true));
    assert!(started.iter().all(|start| is_gone(start["pid"].as_i64().expect("a pid"))));
    let guard = daemon.guard().as_raw();
    until("no keeper", || children(guard).is_empty().then_some(()));
    until("no descriptor more than before", || (descriptors() <= before).then_some(()));
    daemon.stop();
}
