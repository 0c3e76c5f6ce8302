//! What an agent started is shown, told and ended with it.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use agentctl_tests::harness::{Agent, Conn, Daemon, agentctl, fake_agent, is_gone, processes_with, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

fn number(pid: &Value) -> i64 {
    pid.as_i64().expect("a pid")
}

/// An agent with a child that does something and stays.
fn with_child(daemon: &Daemon, conn: &mut Conn, child: &Value, switches: &[&str]) -> (Agent, Value, u64) {
    let agent = Agent::start(daemon, conn, "s", switches);
    let turn = agent.prompt(conn, &json!([{"spawn": child}, {"hang": true}]));
    let child = agent.log.await_entry("spawned");
    (agent, child, turn)
}

fn printed(daemon: &Daemon, args: &[&str]) -> String {
    let output = daemon.command(args).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn the_tree_is_listed_with_its_memory_and_a_stop_prints_what_it_ended_and_killed() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let (agent, child, _) = with_child(&daemon, &mut conn, &json!({"setsid": true, "ignore_sigterm": true}), &[]);
    let [leader, child] = [&agent.started["pid"], &child].map(number);
    let listed = printed(&daemon, &["ps", "--tree"]);
    let line = |pid: i64| listed.lines().find(|line| line.trim_start().starts_with(&format!("{pid} "))).expect("a line of its own");
    for pid in [leader, child] {
        let words: Vec<&str> = line(pid).split_whitespace().collect();
        assert!(words[1].parse::<f64>().is_ok_and(|mib| mib > 0.1) && words[2] == "MiB", "{listed}");
    }
    assert!(listed.contains(": 2 processes, "), "{listed}");
    // A child stands further to the right.
    let column = |pid: i64| line(pid).find("/").expect("a command");
    assert!(column(child) > column(leader), "{listed}");
    assert!(!printed(&daemon, &["ps"]).contains("MiB"));
    let stopped = printed(&daemon, &["stop", "--session", "s"]);
    for words in [format!("ended {leader} "), format!("killed {child} "), "its process tree is empty".to_owned()] {
        assert!(stopped.lines().any(|line| line.starts_with(&words)), "{words}: {stopped}");
    }
    daemon.stop();
}

#[test]
fn a_killed_leader_takes_along_what_holds_its_output() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let child = json!({"setsid": true, "double_fork": true, "ignore_sigterm": true, "hold_stdio": true});
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"spawn": child}, {"ask": {"id": 5}}, {"hang": true}]), 1);
    let child = agent.log.await_entry("spawned");
    kill(Pid::from_raw(i32::try_from(number(&agent.started["pid"])).expect("a pid")), Signal::SIGKILL).expect("it is there");
    // Whoever holds its output would not read an answer.
    let record = conn.audit_of(&live[0]["request_id"]);
    assert_eq!((&record["end"], &record["end_reason"]), (&json!("expired"), &json!("leader_killed")), "{record}");
    let reply = until("the turn's end", || conn.try_reply(turn));
    assert_eq!(reply.code(), Some("agent_exited"), "{}", reply.0);
    let info = agent.await_state(&mut conn, "exited");
    assert_eq!(info["exit"], json!({"signal": 9}), "{info}");
    assert!(info["reason"].as_str().is_some_and(|reason| reason.contains("killed")), "{info}");
    assert!(is_gone(number(&child)));
    daemon.stop();
}

#[test]
fn an_agent_that_heeds_nothing_is_killed_and_that_is_told() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &["--stay-on-eof", "--ignore-sigterm"]);
    let stopped = conn.call("execution/stop", json!({"session_id": "s"})).ok();
    assert_eq!((&stopped["by"], &stopped["exit"], &stopped["tree_empty"]), (&json!("sigkill"), &json!({"signal": 9}), &json!(true)));
    assert!(is_gone(number(&agent.started["pid"])));
    let agent = Agent::start(&daemon, &mut conn, "t", &["--stay-on-eof"]);
    assert_eq!(conn.call("execution/stop", json!({"session_id": "t"})).ok()["by"], "sigterm");
    assert!(is_gone(number(&agent.started["pid"])));
    daemon.stop();
}

#[test]
fn others_of_the_same_name_user_and_folder_are_left_alone() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let (agent, child, _) = with_child(&daemon, &mut conn, &json!({"setsid": true, "double_fork": true}), &[]);
    // The same command line, folder and mark, but nobody's child of ours.
    let mark = agent.started["execution_id"].as_str().expect("an id");
    let mut stranger = std::process::Command::new(fake_agent())
        .arg("--stay-on-eof")
        .arg("--log")
        .arg(daemon.folder().join("agent-s.log"))
        .current_dir(daemon.folder())
        .env("AGENTCTL_EXECUTION_ID", mark)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    assert_eq!(conn.call("execution/stop", json!({"session_id": "s"})).ok()["tree_empty"], true);
    assert!(is_gone(number(&child)));
    daemon.stop();
    assert!(stranger.try_wait().expect("a status").is_none(), "it was none of ours");
    stranger.kill().expect("it is there");
    stranger.wait().expect("its end");
}

#[test]
fn what_a_daemon_ignores_its_agents_do_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("started-like-a-background-job");
    let text = format!("#!/bin/sh\ntrap '' HUP INT QUIT USR1 USR2 TSTP TTIN TTOU ALRM WINCH\nexec '{}' \"$@\"\n", agentctl().display());
    std::fs::write(&script, text).expect("a file");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let daemon = Daemon::start_with(&script, &[], &[]);
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.started["pid"])).expect("it runs");
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        u64::from_str_radix(line.trim(), 16).expect("a number")
    };
    // Rust programs ignore SIGPIPE by themselves.
    let pipe = 1 << (Signal::SIGPIPE as i32 - 1);
    assert_eq!((mask("SigIgn:") & !pipe, mask("SigBlk:")), (0, 0), "{status}");
    daemon.stop();
}

#[test]
fn a_private_daemon_ends_with_its_parent() {
    let daemon = Daemon::start();
    let log = daemon.folder().join("agent.log");
    let log = log.to_str().expect("UTF-8");
    let fake = fake_agent();
    let agent = ["--", fake.to_str().expect("UTF-8"), "--log", log, "--stay-on-eof", "--ignore-sigterm"];
    let mut doctor = daemon
        .command(&["doctor", "--prompt", r#"[{"spawn": {"setsid": true, "double_fork": true}}, {"hang": true}]"#])
        .args(agent)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    agentctl_tests::harness::Log(log.into()).await_entry("spawned");
    assert!(processes_with(log).len() >= 3);
    doctor.kill().expect("it is there");
    doctor.wait().expect("its end");
    until("nothing of it", || processes_with(log).is_empty().then_some(()));
    daemon.stop();
}
