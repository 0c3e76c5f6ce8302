//! `run --record`: what it writes passes `replay`, plays as an agent, and holds no secret.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use agentctl_tests::harness::{Daemon, fake_agent, resolve_params, until};
use serde_json::{Value, json};

const CANARY: &str = "CANARY-0123456789abcdef";

/// `run --record` of an agent's command line, in an environment with a secret and a person's name.
fn record(daemon: &Daemon, file: &Path, prompt: &str, agent: &[String]) -> Child {
    let mut command: Command = daemon.command(&["run", "--task", "t", "--session", "s", "-p", prompt, "--record"]);
    command.arg(file).arg("--").args(agent);
    command.env("MY_API_TOKEN", CANARY).env("HOME", "/home/ada-lovelace").env("USER", "ada-lovelace");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

fn fake(daemon: &Daemon) -> Vec<String> {
    vec![fake_agent().display().to_string(), "--log".into(), daemon.folder().join("agent.log").display().to_string()]
}

/// Answers the prompt with this `pending_id` once it is there.
fn resolve(daemon: &Daemon, pending_id: &str, option: &str) {
    let mut conn = daemon.connect();
    let live = until("the prompt", || {
        let list = conn.call("permission/list", json!({})).ok();
        list["permissions"].as_array()?.iter().find(|p| p["pending_id"] == pending_id && p["status"] == "pending").cloned()
    });
    conn.call("permission/resolve", resolve_params(&live, option)).ok();
}

#[track_caller]
fn ended(run: Child, status: i32) -> Output {
    let output = run.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    output
}

#[track_caller]
fn replays(daemon: &Daemon, file: &Path) {
    let output = daemon.command(&["replay", "--json"]).arg(file).output().expect("it runs");
    assert!(output.status.success(), "{output:?}\n{}", std::fs::read_to_string(file).unwrap_or_default());
}

fn entries(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("a recording");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn file(daemon: &Daemon) -> PathBuf {
    daemon.folder().join("recorded.jsonl")
}

#[test]
fn a_recording_replays_and_holds_no_secret_and_no_name() {
    let daemon = Daemon::start();
    let said = format!("in /home/ada-lovelace/x the token is {CANARY}");
    let script = json!([
        {"raw": format!("a banner with {CANARY}\n")},
        {"ask": {"id": 5, "toolCall": {"toolCallId": "c1", "title": said, "rawInput": {"command": format!("curl -u ada:{CANARY} x")}}}}, {"await": 5},
        {"ask": {"id": "five"}}, {"await": "five"},
        {"text": said}
    ]);
    let run = record(&daemon, &file(&daemon), &script.to_string(), &fake(&daemon));
    resolve(&daemon, "5", "allow-once");
    resolve(&daemon, "five", "reject-once");
    ended(run, 0);
    let text = std::fs::read_to_string(file(&daemon)).expect("a recording");
    assert!(!text.contains(CANARY) && !text.contains("lovelace"), "{text}");
    assert!(text.contains("in /home/user/x the token is [redacted]"), "{text}");
    let seen: Vec<String> = entries(&file(&daemon)).iter().filter_map(|e| e["event"].as_str().map(str::to_owned)).collect();
    assert_eq!(seen, ["spawned", "stdin_closed", "stdout_closed", "exited"]);
    replays(&daemon, &file(&daemon));
    // It plays as an agent too, and that can be recorded again.
    let again = daemon.folder().join("again.jsonl");
    let own = agentctl_tests::harness::agentctl().display().to_string();
    let played = ["replay", "--as-agent"].map(str::to_owned).into_iter().chain([file(&daemon).display().to_string()]);
    let run = record(&daemon, &again, &script.to_string(), &std::iter::once(own).chain(played).collect::<Vec<_>>());
    resolve(&daemon, "5", "allow-once");
    resolve(&daemon, "five", "reject-once");
    ended(run, 0);
    let frames =
        |path: &Path| -> Vec<Value> { entries(path).into_iter().filter(|e| e["from"] == "agent").map(|e| e["frame"].clone()).collect() };
    assert_eq!(frames(&file(&daemon)), frames(&again));
    daemon.stop();
}

#[test]
fn a_cancelled_turn_a_crash_and_a_failed_start_are_recorded_as_they_were() {
    let daemon = Daemon::start();
    let run = record(&daemon, &file(&daemon), &json!([{"ask": {"id": 1}}, {"hang": true}]).to_string(), &fake(&daemon));
    let mut conn = daemon.connect();
    until("the prompt", || (conn.call("permission/list", json!({})).ok()["total"] == 1).then_some(()));
    conn.call("session/cancel", json!({"session_id": "s"})).ok();
    ended(run, 1);
    replays(&daemon, &file(&daemon));

    let crash = daemon.folder().join("crash.jsonl");
    ended(record(&daemon, &crash, r#"[{"ask": {"id": 1}}, {"exit": 3}]"#, &fake(&daemon)), 1);
    assert_eq!(entries(&crash).last().expect("entries")["status"], json!({"code": 3}));
    replays(&daemon, &crash);

    let failed = daemon.folder().join("failed.jsonl");
    let usage = [fake_agent().display().to_string(), "--usage".into()];
    ended(record(&daemon, &failed, "x", &usage), 1);
    let seen = entries(&failed);
    assert_eq!(seen[0]["agent"]["name"], "unknown");
    assert!(seen.iter().any(|entry| entry["event"] == "spawned") && seen.iter().any(|entry| entry["event"] == "exited"), "{seen:?}");
    daemon.stop();
}

#[test]
fn a_recording_is_never_written_over_a_file() {
    let daemon = Daemon::start();
    std::fs::write(file(&daemon), "precious").expect("a file");
    let output = ended(record(&daemon, &file(&daemon), "[]", &fake(&daemon)), 1);
    assert!(String::from_utf8_lossy(&output.stderr).contains("recorded.jsonl"), "{output:?}");
    assert_eq!(std::fs::read_to_string(file(&daemon)).expect("it is there"), "precious");
    let list = daemon.connect().call("execution/list", json!({})).ok();
    assert_eq!(list["executions"], json!([]), "nothing was started");
    daemon.stop();
}

#[test]
fn only_the_owner_sees_frames() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let mut params = agentctl_tests::harness::Agent::params(&daemon, "t", "s", &[]);
    params["record"] = json!(true);
    params["owner"] = json!("somebody");
    let refused = conn.call("execution/start", params);
    assert_eq!(refused.error()["code"], -32602);
    daemon.stop();
}

#[test]
fn a_recording_that_a_signal_ends_is_whole() {
    for (prompt, signal) in [(Some(r#"[{"ask": {"id": 1}}, {"hang": true}]"#), "INT"), (None, "TERM")] {
        let daemon = Daemon::start();
        let mut command = daemon.command(&["run", "--task", "t", "--session", "s", "--record"]);
        command.arg(file(&daemon)).args(prompt.map(|text| ["-p", text]).into_iter().flatten()).arg("--").args(fake(&daemon));
        let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut conn = daemon.connect();
        until("the agent", || {
            let list = conn.call("execution/list", json!({})).ok();
            (list["executions"][0]["state"] == "running" && (prompt.is_none() || list["executions"][0]["pending"] == 1)).then_some(())
        });
        let number = if signal == "INT" { 2 } else { 15 };
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(run.id().cast_signed()),
            nix::sys::signal::Signal::try_from(number).expect("a signal"),
        )
        .expect("it is there");
        ended(run, 128 + number);
        let last = entries(&file(&daemon)).last().expect("entries").clone();
        assert_eq!(last["event"], "exited", "{signal}");
        if prompt.is_some() {
            replays(&daemon, &file(&daemon));
        }
        daemon.stop();
    }
}

#[test]
fn a_recording_that_fails_does_not_end_its_agent() {
    let daemon = Daemon::start();
    let script =
        json!([{"loop": {"times": 400, "steps": [{"text": "x".repeat(1000)}]}}, {"ask": {"id": 7}}, {"await": 7}, {"text": "the end"}]);
    // The file may not grow beyond 64 KiB.
    let line = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    let mut command = Command::new("bash");
    command.args(["-c", line]).arg(agentctl_tests::harness::agentctl()).args(["run", "--task", "t", "--session", "s", "-p"]);
    command.arg(script.to_string()).arg("--record").arg(file(&daemon)).arg("--").args(fake(&daemon));
    command.env("AGENTCTL_SOCKET", daemon.socket()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = command.spawn().expect("it starts");
    resolve(&daemon, "7", "allow-once");
    let output = ended(run, 1);
    assert!(String::from_utf8_lossy(&output.stdout).contains("the end"), "the turn went on to its end");
    assert!(String::from_utf8_lossy(&output.stderr).contains("recorded.jsonl is not complete"), "{output:?}");
    daemon.stop();
}

#[test]
fn an_agent_that_never_started_leaves_no_recording() {
    let daemon = Daemon::start();
    ended(record(&daemon, &file(&daemon), "x", &["/nowhere/agent".to_owned()]), 4);
    assert!(!file(&daemon).exists());
    daemon.stop();
}
