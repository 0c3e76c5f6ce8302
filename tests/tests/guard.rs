//! Daemon, guard and keepers die: nothing of their agents does not.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use agentctl_tests::harness::{Agent, Conn, Daemon, agentctl, children, is_gone, parent, resolve_params, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

const AGENTS: usize = 50;

fn pid_of(value: &Value) -> i32 {
    value.as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("a pid")
}

fn keeper_of(agent: &Agent) -> Pid {
    Pid::from_raw(parent(pid_of(&agent.started["pid"])))
}

/// Agents that take no hint, each with a pending prompt and a grandchild that went as far away as it could; all their pids.
fn hidden(daemon: &Daemon, conn: &mut Conn, n: usize) -> (Vec<Agent>, Vec<i32>) {
    let sessions: Vec<String> = (0..n).map(|i| format!("s{i}")).collect();
    let start = |session: &String| {
        let params = Agent::params(daemon, "h", session, &["--stay-on-eof", "--ignore-sigterm"]);
        (session.clone(), conn.send("execution/start", &params))
    };
    let calls: Vec<(String, u64)> = sessions.iter().map(start).collect();
    let mut agents = Vec::new();
    for (session, call) in calls {
        let log = agentctl_tests::harness::Log(daemon.folder().join(format!("agent-{session}.log")));
        agents.push(Agent { task: "h".into(), session, started: conn.reply(call).ok(), log });
    }
    let hide = json!({"spawn": {"setsid": true, "double_fork": true, "clear_env": true, "ignore_sigterm": true}});
    for agent in &agents {
        agent.prompt(conn, &json!([hide, {"ask": {"id": 5}}, {"await": 5}, {"hang": true}]));
    }
    let mut pids: Vec<i32> = agents.iter().map(|agent| pid_of(&agent.started["pid"])).collect();
    for agent in &agents {
        let grandchild = pid_of(&agent.log.await_entry("spawned"));
        let in_between = until("the one in between to be gone", || Some(parent(grandchild)).filter(|p| *p == keeper_of(agent).as_raw()));
        pids.extend([grandchild, in_between]);
    }
    until("every prompt", || {
        let listed = conn.call("permission/list", json!({"task_id": "h"})).ok()["total"].as_u64();
        listed.filter(|total| *total == n as u64)
    });
    until("every row", || {
        let records = conn.call("audit/list", json!({"task_id": "h", "limit": 100})).ok()["records"].as_array().map(Vec::len);
        records.filter(|rows| *rows == n)
    });
    (agents, pids)
}

/// Waits until none of them is there; how long that takes.
#[track_caller]
fn assert_gone_soon(since: Instant, pids: &[i32], after: &str) {
    until("their end", || pids.iter().all(|pid| is_gone(i64::from(*pid))).then_some(()));
    let took = since.elapsed();
    println!("{} processes gone {took:?} after {after}", pids.len());
    // Far more than it takes on a machine that has nothing else to do: a twentieth of a second.
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// An agent starts, asks, and is answered.
fn assert_works(daemon: &Daemon, conn: &mut Conn, session: &str) {
    let agent = Agent::start(daemon, conn, session, &[]);
    let (turn, live) = agent.ask(conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    conn.resolve(&live[0], "allow-once").ok();
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
}

#[test]
fn the_daemons_sigkill_ends_whatever_its_agents_started_and_the_audit_is_true() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    // Its answer is claimed but can't be written: it does not read, and its pipe is full.
    let deaf = Agent::start(&daemon, &mut conn, "deaf", &["--stay-on-eof", "--ignore-sigterm"]);
    let (_, live) = deaf.ask(&mut conn, &json!([{"stop_reading": true}, {"ask": {"id": 5}}, {"hang": true}]), 1);
    conn.send("session/prompt", &json!({"session_id": "deaf", "acp_session_id": "other", "text": "x".repeat(1 << 20)}));
    let mut other = daemon.connect();
    other.send("permission/resolve", &resolve_params(&live[0], "allow-once"));
    until("the claim", || deaf.permissions(&mut conn).iter().any(|p| p["status"] == "resolving").then_some(()));
    let row = until("the claim's row", || {
        let records = conn.call("audit/list", json!({"request_id": live[0]["request_id"]})).ok()["records"].clone();
        records[0]["resolutions"].get(0).cloned()
    });
    assert_eq!(row["result"], "dispatching");
    let mut others = daemon.connect();
    let (agents, mut pids) = hidden(&daemon, &mut others, AGENTS);
    pids.extend([daemon.guard().as_raw(), pid_of(&deaf.started["pid"])]);
    let killed = Instant::now();
    let (_, folder) = daemon.end(Signal::SIGKILL);
    assert_gone_soon(killed, &pids, "the daemon's SIGKILL");

    let daemon = Daemon::start_in(folder, &agentctl(), &[], &[]);
    let mut conn = daemon.connect();
    for agent in &agents {
        let record = conn.call("audit/list", json!({"session_id": agent.session})).ok()["records"][0].clone();
        assert_eq!((&record["end"], &record["resolutions"]), (&json!("expired"), &json!([])), "{record}");
    }
    let record = conn.audit_of(&live[0]["request_id"]);
    assert_eq!((&record["end"], &record["resolutions"][0]["result"]), (&json!("expired"), &json!("indeterminate")), "{record}");
    assert_works(&daemon, &mut conn, "new");
    daemon.stop();
}

#[test]
fn the_guards_sigkill_ends_them_too_and_the_daemon_goes_on_with_another() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let (agents, pids) = hidden(&daemon, &mut conn, AGENTS);
    let guard = daemon.guard();
    let killed = Instant::now();
    kill(guard, Signal::SIGKILL).expect("it is there");
    assert_gone_soon(killed, &pids, "the guard's SIGKILL");
    for agent in &agents {
        let info = agent.await_state(&mut conn, "exited");
        assert_eq!((&info["reason"], &info["exit"]), (&json!("the guard was killed"), &json!({"signal": 9})), "{info}");
        let stopped = conn.call("execution/stop", json!({"execution_id": agent.started["execution_id"]})).ok();
        assert_eq!((&stopped["tree_empty"], &stopped["by"]), (&json!(true), &json!("sigkill")), "{stopped}");
        let record = conn.call("audit/list", json!({"session_id": agent.session})).ok()["records"][0].clone();
        assert_eq!((&record["end"], &record["resolutions"]), (&json!("expired"), &json!([])), "{record}");
    }
    let another = until("another guard", || children(daemon.pid().as_raw()).into_iter().find(|pid| *pid != guard.as_raw()));
    assert_works(&daemon, &mut conn, "new");
    assert_eq!(daemon.guard().as_raw(), another);
    daemon.stop();
    assert!(is_gone(i64::from(another)));
}

#[test]
fn a_keepers_sigkill_ends_its_agent_and_no_other() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let (agents, _) = hidden(&daemon, &mut conn, 2);
    let tree = |conn: &mut Conn, agent: &Agent| {
        let listed = conn.call("execution/list", json!({"session_id": agent.session, "processes": true})).ok();
        listed["executions"][0]["processes"].as_array().cloned().unwrap_or_default().iter().map(|p| pid_of(&p["pid"])).collect::<Vec<_>>()
    };
    let [ours, others] = [0, 1].map(|n| tree(&mut conn, &agents[n]));
    assert_eq!((ours.len(), others.len()), (2, 2), "leader and grandchild");
    let killed = Instant::now();
    kill(keeper_of(&agents[0]), Signal::SIGKILL).expect("it is there");
    assert_gone_soon(killed, &ours, "a keeper's SIGKILL");
    let info = agents[0].await_state(&mut conn, "exited");
    assert_eq!(info["reason"], "its keeper was killed", "{info}");
    assert_eq!(tree(&mut conn, &agents[1]), others);
    assert_works(&daemon, &mut conn, "new");
    daemon.stop();
}

#[test]
fn a_keeper_that_is_stopped_holds_up_its_agents_end_for_seconds_at_most() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let (agents, pids) = hidden(&daemon, &mut conn, 1);
    kill(keeper_of(&agents[0]), Signal::SIGSTOP).expect("it is there");
    let stopped = conn.call("execution/stop", json!({"session_id": agents[0].session})).ok();
    assert_eq!((&stopped["tree_empty"], &stopped["by"]), (&json!(true), &json!("sigkill")), "{stopped}");
    assert_gone_soon(Instant::now(), &pids, "its stop");
    daemon.stop();
}

#[test]
fn guard_and_keepers_outlive_every_signal_that_can_be_ignored() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    for pid in [daemon.guard(), keeper_of(&agent)] {
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGPIPE, Signal::SIGCHLD]
        {
            kill(pid, signal).expect("it is there");
        }
    }
    let turn = agent.prompt(&mut conn, &json!([{"text": "still there"}]));
    conn.reply(turn).ok();
    assert_works(&daemon, &mut conn, "new");
    daemon.stop();
}
