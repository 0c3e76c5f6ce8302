//! `agentctl doctor`: the set-up, and the cards of agents whose behaviour is known.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;

use agentctl_tests::harness::{Agent, Daemon, agentctl, fake_agent, processes_with};
use serde_json::{Value, json};

fn card(daemon: &Daemon, args: &[&str], agent: &[&str]) -> Value {
    let mut command = daemon.command(&["doctor", "--json"]);
    let output = command.args(args).arg("--").args(agent).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn the_card_of_an_agent_that_is_known() {
    let daemon = Daemon::start();
    let (fake, log) = (fake_agent(), daemon.folder().join("agent.log"));
    let agent = [fake.to_str().expect("UTF-8"), "--log", log.to_str().expect("UTF-8")];
    let call = json!({"toolCallId": "c1", "kind": "execute", "title": "x", "rawInput": {"command": "x"}});
    let options = json!([{"optionId": "yes", "name": "Y", "kind": "allow_once"}, {"optionId": "no", "name": "N", "kind": "reject_once"}]);
    let together = json!([
        {"update": {"sessionUpdate": "tool_call", "toolCallId": "c1", "kind": "execute", "title": "x"}},
        {"ask": {"id": "one", "toolCall": call, "options": options}}, {"ask": {"id": 2}}, {"await_all": true}
    ]);
    let found = card(&daemon, &["--prompt", &together.to_string()], &agent);
    assert_eq!(found["agent"]["name"], "fake-agent");
    assert!(found["initialize_ms"].is_number() && found["session_new_ms"].is_number(), "{found}");
    assert_eq!(found["concurrent"], true);
    let first = json!({"id_type": "string", "tool_call_before": true, "raw_input": true, "kind": "execute",
        "options": [["yes", "allow_once"], ["no", "reject_once"]]});
    assert_eq!(found["prompts"][0], first);
    assert_eq!((&found["prompts"][1]["id_type"], &found["prompts"][1]["tool_call_before"]), (&json!("number"), &json!(false)));
    assert_eq!((&found["stop_reason"], &found["on_cancel"]["withdrew"]), (&json!("end_turn"), &json!(false)));
    assert_eq!((&found["on_stdin_closed"]["by"], &found["on_stdin_closed"]["left"]), (&json!("closed_stdin"), &json!(0)));
    // It rejects, unless it is told to allow.
    let answers =
        |option: &str| agentctl_tests::harness::Log(log.clone()).received().iter().filter(|f| f.to_string().contains(option)).count();
    assert_eq!((answers("\"optionId\":\"no\""), answers("\"optionId\":\"yes\"")), (1, 0));
    let one_by_one = json!([{"ask": {"id": 1, "options": options}}, {"await": 1}, {"ask": {"id": 2}}, {"await": 2}]).to_string();
    let found = card(&daemon, &["--allow", "--prompt", &one_by_one], &agent);
    assert_eq!(found["concurrent"], false);
    assert_eq!(answers("\"optionId\":\"yes\""), 1);
    // One that never asks.
    let silent = json!([{"text": "no"}]).to_string();
    let found = card(&daemon, &["--prompt", &silent], &agent);
    assert_eq!((&found["prompts"], &found["on_cancel"]), (&json!([]), &Value::Null));
    assert!(processes_with(log.to_str().expect("UTF-8")).is_empty(), "nothing is left");
    daemon.stop();
}

#[test]
fn an_agent_that_does_not_start_is_named() {
    let daemon = Daemon::start();
    let output = daemon.command(&["doctor", "--", "/nowhere/agent"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/agent"), "{output:?}");
    daemon.stop();
}

#[test]
fn the_set_up_is_checked_and_left_alone() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let look = |command: &mut std::process::Command| {
        let output = command.args(["doctor", "--json"]).output().expect("it runs");
        let checks: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let found: Vec<(String, String)> = checks
            .as_array()
            .expect("a list")
            .iter()
            .map(|c| (c["name"].as_str().unwrap_or_default().to_owned(), c["state"].as_str().unwrap_or_default().to_owned()))
            .collect();
        (output.status.code(), found)
    };
    let (status, found) = look(&mut daemon.command(&[]));
    assert_eq!(status, Some(0), "{found:?}");
    assert!(found.iter().all(|(_, state)| state != "fail"), "{found:?}");
    agent.await_state(&mut conn, "running");

    let place = tempfile::tempdir().expect("a folder");
    let state = place.path().join("state");
    std::fs::create_dir(&state).expect("a folder");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    std::fs::write(state.join("audit.db"), "no database at all, but long enough to be looked at".repeat(50)).expect("a file");
    let mut command = std::process::Command::new(agentctl());
    command.env("AGENTCTL_SOCKET", place.path().join("run/c.sock")).env("AGENTCTL_STATE_DIR", &state);
    let (status, found) = look(&mut command);
    assert_eq!(status, Some(1), "{found:?}");
    let failed: Vec<&str> = found.iter().filter(|(_, state)| state == "fail").map(|(name, _)| name.as_str()).collect();
    assert_eq!(failed, ["state folder", "database"]);
    assert!(!place.path().join("run").exists(), "nothing was made");
    daemon.stop();
}
