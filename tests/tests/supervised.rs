//! An agent never answers its own prompts: not by the command, not on the socket, not from a child that hides.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use agentctl_tests::harness::{Agent, Daemon, Log, agentctl, outcome, parent, resolve_params, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Ways of a child to get away from its agent.
fn hidings() -> [Value; 5] {
    [
        json!({}),
        json!({"setsid": true}),
        json!({"double_fork": true}),
        json!({"setsid": true, "double_fork": true}),
        json!({"setsid": true, "double_fork": true, "clear_env": true}),
    ]
}

fn logged(log: &Log, key: &str) -> Vec<Value> {
    log.entries().into_iter().filter(|entry| entry.get(key).is_some()).collect()
}

fn resolve_command(daemon: &Daemon, permission: &Value) -> Vec<String> {
    let id = |name: &str| permission[name].as_str().expect("an id").to_owned();
    let mut argv = vec![agentctl().display().to_string(), "--socket".into(), daemon.socket().display().to_string(), "resolve".into()];
    for (flag, name) in [("--task", "task_id"), ("--session", "session_id"), ("--request", "request_id"), ("--pending", "pending_id")] {
        argv.extend([flag.into(), id(name)]);
    }
    argv.extend(["--option".into(), "allow-once".into()]);
    argv
}

#[test]
fn an_agent_cannot_answer_itself_however_it_hides() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let attacker = Agent::start(&daemon, &mut conn, "attacker", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    let resolve = json!({"jsonrpc": "2.0", "id": 1, "method": "permission/resolve", "params": resolve_params(&live[0], "allow-once")});
    for (n, hiding) in hidings().into_iter().enumerate() {
        let mut by_command = hiding.clone();
        by_command["argv"] = json!(resolve_command(&daemon, &live[0]));
        let mut by_socket = hiding.clone();
        by_socket["calls"] = json!({"socket": daemon.socket(), "lines": [resolve.to_string()]});
        let steps = json!([{"spawn": by_command}, {"spawn": by_socket}]);
        let spawned = attacker.prompt(&mut conn, &steps);
        conn.reply(spawned).ok();
        let ran = until("the command's end", || logged(&attacker.log, "ran").get(n).cloned());
        assert_eq!(ran["code"], 7, "{hiding}: {ran}");
        assert!(ran["stderr"].as_str().is_some_and(|text| text.contains("[approver_is_supervised]")), "{ran}");
        let answers = until("the socket's answer", || logged(&attacker.log, "answers").get(n).cloned());
        let answer = answers["answers"][0].as_str().unwrap_or_default();
        assert!(answer.contains("\"approver_is_supervised\""), "{hiding}: {answer}");
    }
    assert_eq!(agent.permissions(&mut conn)[0]["status"], "pending");
    assert!(agent.log.responses(&json!(5)).is_empty());
    conn.resolve(&live[0], "reject-once").ok();
    assert_eq!(outcome(&agent.log.await_response(&json!(5))), "reject-once");
    conn.reply(turn).ok();
    let attempts = conn.audit_of(&live[0]["request_id"])["failed_attempts"].clone();
    assert_eq!(attempts["count"], 2 * hidings().len());
    for attempt in attempts["last"].as_array().expect("a list") {
        assert_eq!((&attempt["code"], &attempt["option_id"]), (&json!("approver_is_supervised"), &json!("allow-once")));
        assert_eq!(attempt["actor_user_id"], nix::unistd::getuid().to_string());
    }
    daemon.stop();
}

#[test]
fn only_what_is_for_anyone_is_served_inside_an_agent() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let token = conn.call("token/create", json!({"owner": "4242"})).ok()["token"].clone();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let methods = conn.call("control/describe", json!({})).ok()["methods"].as_array().expect("methods").clone();
    let names: Vec<&str> = methods.iter().filter_map(|m| m["name"].as_str()).collect();
    for hello in [json!({"protocol_version": 1}), json!({"protocol_version": 1, "token": token})] {
        let call = |(id, name): (usize, &&str)| {
            let params = if *name == "control/hello" { hello.clone() } else { json!({}) };
            json!({"jsonrpc": "2.0", "id": id, "method": name, "params": params}).to_string()
        };
        let lines: Vec<String> = names.iter().enumerate().map(call).collect();
        let before = logged(&agent.log, "answers").len();
        let turn = agent.prompt(&mut conn, &json!([{"spawn": {"calls": {"socket": daemon.socket(), "lines": lines}}}]));
        conn.reply(turn).ok();
        let answers = until("the answers", || logged(&agent.log, "answers").get(before).cloned());
        let answers = answers["answers"].as_array().expect("a list");
        assert_eq!(answers.len(), names.len());
        for answer in answers {
            let answer: Value = serde_json::from_str(answer.as_str().expect("a line")).expect("JSON");
            let method = &methods[usize::try_from(answer["id"].as_u64().expect("a number")).expect("a number")];
            let expected = if method["access"] == "anyone" { Value::Null } else { json!("approver_is_supervised") };
            assert_eq!(answer["error"]["data"]["code"], expected, "{}: {answer}", method["name"]);
        }
    }
    assert_eq!(conn.call("execution/get", json!({"session_id": "s"})).ok()["state"], "running");
    daemon.stop();
}

#[test]
fn what_outlived_daemon_guard_and_keeper_is_refused_by_its_mark() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "old", &[]);
    let go = daemon.folder().join("go");
    let script = format!("while ! test -e {}; do sleep 0.02; done; exec {} permissions", go.display(), agentctl().display());
    let argv = ["env", &format!("AGENTCTL_SOCKET={}", daemon.socket().display()), "sh", "-c", &script];
    let turn = agent.prompt(&mut conn, &json!([{"spawn": {"setsid": true, "double_fork": true, "argv": argv}}]));
    conn.reply(turn).ok();
    agent.log.await_entry("spawned");
    // Stopped first: each alone would have ended it.
    let guard = daemon.guard();
    let keeper = Pid::from_raw(parent(i32::try_from(agent.started["pid"].as_i64().expect("a pid")).expect("a pid")));
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        if signal == Signal::SIGKILL {
            kill(daemon.pid(), Signal::SIGKILL).expect("the daemon is there");
        }
        for pid in [guard, keeper] {
            kill(pid, signal).expect("it is there");
        }
    }
    let (_, folder) = daemon.wait();
    let daemon = Daemon::start_in(folder, &agentctl(), &[], &[]);
    std::fs::write(&go, "").expect("a file");
    let ran = until("the survivor's end", || logged(&agent.log, "ran").first().cloned());
    assert_eq!(ran["code"], 7, "{ran}");
    daemon.stop();
}

#[test]
fn a_mark_of_another_daemon_counts_unless_the_daemon_has_it_itself() {
    let list = |daemon: &Daemon, mark: &str| {
        let output = daemon.command(&["permissions"]).env("AGENTCTL_EXECUTION_ID", mark).output().expect("it runs");
        output.status.code()
    };
    let daemon = Daemon::start_with(&agentctl(), &[], &[("AGENTCTL_EXECUTION_ID", "outer")]);
    assert_eq!((list(&daemon, "outer"), list(&daemon, "another")), (Some(0), Some(7)));
    // Its own agents are told by where they run.
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let spawn = json!({"argv": ["env", "AGENTCTL_EXECUTION_ID=outer", agentctl(), "--socket", daemon.socket(), "permissions"]});
    let turn = agent.prompt(&mut conn, &json!([{"spawn": spawn}]));
    conn.reply(turn).ok();
    assert_eq!(until("its end", || logged(&agent.log, "ran").first().cloned())["code"], 7);
    daemon.stop();
}
