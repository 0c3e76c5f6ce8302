//! The daemon's end: every agent ends with it, every prompt is answered `cancelled`.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::time::Duration;

use agentctl_tests::harness::{Agent, Conn, Daemon, Ended, agentctl, is_gone, outcome, until};
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

/// Agents, each with a prompt pending.
fn asking(daemon: &Daemon, conn: &mut Conn, n: usize) -> Vec<(Agent, Value)> {
    let calls: Vec<(String, u64)> = (0..n)
        .map(|i| {
            let session = format!("s{i}");
            let call = conn.send("execution/start", &Agent::params(daemon, "t", &session, &[]));
            (session, call)
        })
        .collect();
    let agents: Vec<Agent> = calls
        .into_iter()
        .map(|(session, call)| {
            let log = agentctl_tests::harness::Log(daemon.folder().join(format!("agent-{session}.log")));
            Agent { task: "t".into(), session, started: conn.reply(call).ok(), log }
        })
        .collect();
    for agent in &agents {
        agent.prompt(conn, &json!([{"ask": {"id": 5}}, {"await": 5}]));
    }
    let live = until("every prompt", || {
        let listed = conn.call("permission/list", json!({"task_id": "t"})).ok()["permissions"].as_array().cloned();
        listed.filter(|list| list.len() == n)
    });
    let of = |agent: &Agent| live.iter().find(|p| p["session_id"] == agent.session).cloned().expect("its prompt");
    agents
        .into_iter()
        .map(|agent| {
            let permission = of(&agent);
            (agent, permission)
        })
        .collect()
}

/// Everything that must be so after a clean end, seen by the next daemon.
fn assert_clean(ended: &Ended, folder: tempfile::TempDir, agents: &[(Agent, Value)]) {
    assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
    let at_us = |e: &Value| e["at_us"].as_u64().unwrap_or(u64::MAX);
    for (agent, _) in agents {
        assert!(agent.started["pid"].as_i64().is_some_and(is_gone), "{} is left", agent.session);
        let answers: Vec<String> = agent.log.responses(&json!(5)).iter().map(outcome).collect();
        assert_eq!(answers, ["cancelled"], "{}", agent.session);
        agent.log.assert_no_violation();
        let entries = agent.log.entries();
        let answer = entries.iter().find(|e| e["recv"].as_str().is_some_and(|l| l.contains("\"cancelled\""))).map(at_us);
        let eof = entries.iter().find(|e| e.get("eof").is_some()).map(at_us);
        assert!(answer.is_some() && eof.is_some() && answer <= eof, "{answer:?} {eof:?}");
    }
    assert!(!folder.path().join("run/control.sock").exists());
    let daemon = Daemon::start_in(folder, &agentctl(), &[], &[]);
    let mut conn = daemon.connect();
    for (_, permission) in agents {
        let record = conn.audit_of(&permission["request_id"]);
        assert_eq!((&record["end"], &record["resolutions"]), (&json!("cancelled"), &json!([])), "{record}");
        assert_eq!(conn.resolve(permission, "allow-once").code(), Some("permission_stale"));
    }
    assert!(!daemon.log().contains("did not end cleanly"), "{}", daemon.log());
    daemon.stop();
}

#[test]
fn fifty_agents_with_a_pending_prompt_end_within_five_seconds() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agents = asking(&daemon, &mut conn, 50);
    let (ended, folder) = daemon.end(Signal::SIGTERM);
    assert!(ended.took < Duration::from_secs(5), "{:?}", ended.took);
    assert_clean(&ended, folder, &agents);
}

#[test]
fn an_interrupt_is_as_good() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agents = asking(&daemon, &mut conn, 2);
    let (ended, folder) = daemon.end(Signal::SIGINT);
    assert_clean(&ended, folder, &agents);
}

#[test]
fn the_method_and_the_command_shut_down() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agents = asking(&daemon, &mut conn, 3);
    assert_eq!(conn.call("control/shutdown", json!({})).ok()["stopping"], 3);
    let (ended, folder) = daemon.wait();
    assert_clean(&ended, folder, &agents);

    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agents = asking(&daemon, &mut conn, 2);
    let output = daemon.command(&["shutdown", "--json"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["stopping"], 2);
    let (ended, folder) = daemon.wait();
    assert_clean(&ended, folder, &agents);
}

#[test]
fn stubborn_agents_are_killed_and_nothing_starts_meanwhile() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let stubborn = Agent::start(&daemon, &mut conn, "stubborn", &["--stay-on-eof", "--ignore-sigterm"]);
    let script = json!([{"spawn": {"setsid": true, "double_fork": true, "clear_env": true, "ignore_sigterm": true}}, {"hang": true}]);
    stubborn.prompt(&mut conn, &script);
    let child = stubborn.log.await_entry("spawned");
    let mut watcher = daemon.connect();
    watcher.subscribe(json!({"topics": ["execution"]}));
    kill(daemon.pid(), Signal::SIGTERM).expect("the daemon is there");
    // The agent takes its time, so this is within the shutdown.
    watcher.event("stopping", |event| event["state"] == "stopping");
    let refused = conn.call("execution/start", Agent::params(&daemon, "t", "late", &[]));
    assert_eq!(refused.code(), Some("shutting_down"), "{refused:?}");
    let replace = {
        let mut params = Agent::params(&daemon, "t", "stubborn", &[]);
        params["replace"] = json!(true);
        conn.call("execution/start", params)
    };
    assert_eq!(replace.code(), Some("shutting_down"), "{replace:?}");
    let late = daemon.folder().join("agent-late.log");
    let (ended, _folder) = daemon.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
    assert!(is_gone(stubborn.started["pid"].as_i64().expect("a pid")));
    assert!(is_gone(child.as_i64().expect("a pid")));
    assert!(!late.exists());
}

#[test]
fn a_start_that_is_under_way_ends_too() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let call = conn.send("execution/start", &Agent::params(&daemon, "t", "never", &["--init-never"]));
    let pid = until("the agent's process", || {
        let list = conn.call("execution/list", json!({})).ok()["executions"].clone();
        list[0]["pid"].as_i64()
    });
    kill(daemon.pid(), Signal::SIGTERM).expect("the daemon is there");
    let reply = conn.reply(call);
    assert!(reply.code().is_some(), "{reply:?}");
    let (ended, _folder) = daemon.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
    assert!(ended.took < Duration::from_secs(5), "{:?}", ended.took);
    assert!(is_gone(pid));
}
