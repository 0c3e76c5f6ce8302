//! The commands: exit statuses and what they print.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use agentctl_tests::harness::{Agent, Daemon, agentctl, agentctl_with_failpoints, await_gone, fake_agent, is_gone, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

const COMMANDS: [&str; 18] = [
    "doctor",
    "serve",
    "run",
    "agents",
    "completions",
    "man",
    "ps",
    "stop",
    "prompt",
    "cancel",
    "permissions",
    "resolve",
    "audit",
    "events",
    "stderr",
    "replay",
    "shutdown",
    "describe",
];

/// A socket and a state folder with no daemon yet. Dropping it shuts down the one that a command has started.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("run/control.sock")
    }

    fn log(&self) -> PathBuf {
        self.0.path().join("agent.log")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(agentctl());
        command.env("AGENTCTL_SOCKET", self.socket()).env("AGENTCTL_STATE_DIR", self.0.path().join("state"));
        command.current_dir(self.0.path()).args(args).stdin(Stdio::null());
        command
    }

    /// `run` with a fake agent.
    fn run(&self, args: &[&str]) -> Command {
        let mut command = self.command(&["run"]);
        command.args(args).arg("--").arg(fake_agent()).arg("--log").arg(self.log());
        command
    }

    fn pid(&self) -> Value {
        agentctl_tests::harness::Conn::open(&self.socket()).call("control/status", json!({})).ok()["pid"].clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.command(&["shutdown"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

#[track_caller]
fn exits(mut command: Command, status: i32) -> Output {
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(status), "{command:?}: {output:?}");
    output
}

/// One JSON value a line.
#[track_caller]
fn values(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[track_caller]
fn value(output: &Output) -> Value {
    let mut all = values(output);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The flags that name a listed request.
fn named(p: &Value) -> Vec<String> {
    let keys = [("--task", "task_id"), ("--session", "session_id"), ("--request", "request_id"), ("--pending", "pending_id")];
    keys.iter().flat_map(|(flag, key)| [(*flag).to_owned(), p[*key].as_str().expect("text").to_owned()]).collect()
}

/// The live requests as the command lists them, once there are so many.
fn listed(command: impl Fn() -> Command, n: usize) -> Vec<Value> {
    until("listed requests", || {
        let output = command().output().ok()?;
        let list: Value = serde_json::from_slice(&output.stdout).ok()?;
        list["permissions"].as_array().filter(|list| list.len() == n).cloned()
    })
}

#[test]
fn help_and_usage() {
    let place = Place::new();
    for command in COMMANDS {
        let output = exits(place.command(&[command, "--help"]), 0);
        assert!(String::from_utf8_lossy(&output.stdout).contains("Usage: agentctl"), "{output:?}");
    }
    exits(place.command(&["--help"]), 0);
    exits(place.command(&["--version"]), 0);
    for wrong in [&["nothing"][..], &["resolve"], &["resolve", "--task", "t"], &["ps", "--what"], &["stop"], &["run"], &["cancel"]] {
        let output = exits(place.command(wrong), 2);
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

#[test]
fn without_a_daemon_every_command_but_run_exits_3() {
    let place = Place::new();
    let ids = ["--task", "t", "--session", "s", "--request", "r", "--pending", "5"];
    let resolve = [&["resolve"][..], &ids, &["--option", "o"]].concat();
    let cancel = [&["cancel"][..], &ids].concat();
    let commands: [&[&str]; 11] = [
        &["ps"],
        &["stop", "--session", "s"],
        &["prompt", "--session", "s", "x"],
        &["permissions"],
        &resolve,
        &cancel,
        &["audit"],
        &["events"],
        &["stderr", "--session", "s"],
        &["shutdown"],
        &["run", "--no-start", "--", "true"],
    ];
    for command in commands {
        let output = exits(place.command(command), 3);
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{output:?}");
    }
    assert!(!place.socket().exists());
    // This one needs none.
    let described: Value = serde_json::from_slice(&exits(place.command(&["describe"]), 0).stdout).expect("JSON");
    assert!(described["methods"].is_array());
    assert_eq!(value(&exits(place.command(&["describe", "--json"]), 0)), described);
}

#[test]
fn a_prompt_is_answered_with_commands_alone() {
    let place = Place::new();
    let script = json!([{"text": "hello from the agent"}, {"ask": {"id": 5}}, {"await": 5}]).to_string();
    let run = place.run(&["--task", "-t", "--session", "--s", "-p", &script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let run = run.expect("it starts");
    let live = listed(|| place.command(&["permissions", "--json", "--task", "-t", "--session", "--s"]), 1);
    let pid = place.pid();
    let ps = value(&exits(place.command(&["ps", "--json"]), 0));
    assert_eq!((&ps["executions"][0]["session_id"], &ps["executions"][0]["pending"]), (&json!("--s"), &json!(1)));
    let ids = named(&live[0]);
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let resolve = |option: &'static str| place.command(&[&["resolve", "--json"][..], &ids, &["--option", option]].concat());
    let failed = exits(resolve("-not-offered"), 5);
    assert!(stderr(&failed).contains("permission_option_not_offered"), "{failed:?}");
    assert_eq!(value(&exits(resolve("allow-once"), 0))["status"], "resolved");
    let run = run.wait_with_output().expect("its end");
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert!(String::from_utf8_lossy(&run.stdout).contains("hello from the agent"), "{run:?}");
    assert!(stderr(&exits(resolve("allow-once"), 5)).contains("permission_already_resolved"));
    let audit = until("the end in the audit", || {
        let output = place.command(&["audit", "--json", "--task", "-t"]).output().ok()?;
        values(&output).into_iter().next().filter(|page| page.to_string().contains("accepted"))
    });
    assert!(audit.to_string().contains("\"allow-once\""), "{audit}");
    exits(place.command(&["audit"]), 0);
    // The agent has ended with its command; the daemon stays.
    assert_eq!(value(&exits(place.command(&["ps", "--json"]), 0))["executions"], json!([]));
    assert!(value(&exits(place.command(&["ps", "--json", "--all"]), 0))["executions"][0]["exit"].is_object());
    exits(place.command(&["shutdown"]), 0);
    await_gone(&pid);
    exits(place.command(&["ps"]), 3);
}

fn run_dies_by(signal: Signal) {
    let place = Place::new();
    let script = json!([{"ask": {"id": 5}}, {"await": 5}]).to_string();
    let mut run: Child =
        place.run(&["--session", "s", "-p", &script]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    listed(|| place.command(&["permissions", "--json"]), 1);
    let pid = value(&exits(place.command(&["ps", "--json"]), 0))["executions"][0]["pid"].clone();
    assert!(!is_gone(pid.as_i64().expect("a pid")));
    kill(Pid::from_raw(run.id().cast_signed()), signal).expect("it is there");
    assert!(!run.wait().expect("its end").success());
    await_gone(&pid);
    listed(|| place.command(&["permissions", "--json"]), 0);
}

#[test]
fn run_that_is_killed_ends_its_agent() {
    run_dies_by(Signal::SIGKILL);
}

#[test]
fn run_that_is_terminated_ends_its_agent() {
    run_dies_by(Signal::SIGTERM);
}

#[test]
fn run_says_how_its_turn_ended() {
    let place = Place::new();
    let refused = exits(place.run(&["-p", r#"[{"stop_reason":"refusal"}]"#]), 1);
    assert!(stderr(&refused).contains("refusal"), "{refused:?}");
    exits(place.run(&["-p", r#"[{"error":{"code":-32603,"message":"x"}}]"#]), 1);
    exits(place.run(&["-p", r#"[{"exit":2}]"#]), 1);
    exits(place.command(&["run", "--", "/nowhere/at-all"]), 4);
    exits(place.command(&["run", "--cwd", "/nowhere", "--", "true"]), 4);
    let usage = exits(place.command(&["run", "--", fake_agent().to_str().expect("UTF-8"), "--usage"]), 1);
    assert!(stderr(&usage).contains("Usage"), "{usage:?}");
    assert_eq!(value(&exits(place.command(&["ps", "--json"]), 0))["executions"], json!([]));
}

#[test]
fn a_detached_agent_is_driven_by_the_other_commands() {
    let place = Place::new();
    let started = value(&exits(place.run(&["--json", "--detach", "--session", "s", "--task", "t"]), 0));
    let execution = started["execution_id"].as_str().expect("an id").to_owned();
    let mut events = place.command(&["events", "--json", "--session", "s"]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(events.stdout.take().expect("a pipe")).lines();
    // Once it has subscribed it counts as a connection; it tells of a later turn in any case.
    until("the subscription", || {
        let connections =
            agentctl_tests::harness::Conn::open(&place.socket()).call("control/status", json!({})).ok()["connections"].clone();
        (connections.as_u64() >= Some(2)).then_some(())
    });
    exits(place.run(&["--detach", "--session", "s", "--task", "t"]), 5);
    exits(place.run(&["--detach", "--session", "s", "--task", "other"]), 4);
    let prompt = exits(place.command(&["prompt", "--session", "s", r#"[{"stderr":{"text":"words"}},{"text":"-said-"}]"#]), 0);
    assert!(String::from_utf8_lossy(&prompt.stdout).contains("-said-"), "{prompt:?}");
    until("its stderr", || {
        let output = place.command(&["stderr", "--session", "s"]).output().ok()?;
        String::from_utf8_lossy(&output.stdout).contains("words").then_some(())
    });
    assert!(value(&exits(place.command(&["stderr", "--json", &execution]), 0))["total_bytes"].as_u64() > Some(0));
    let mut turns = Vec::new();
    while turns.last().is_none_or(|last| last != "turn_ended") {
        let event: Value = serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("JSON");
        turns.push(event["type"].clone());
    }
    let _ = (events.kill(), events.wait());

    let asking = |then: Value| {
        let script = json!([{"ask": {"id": "-5"}}, then]).to_string();
        place.command(&["prompt", "--session", "s", &script]).stderr(Stdio::null()).spawn().expect("it starts")
    };
    // One prompt, then the whole turn.
    let mut turn = asking(json!({"await": "-5"}));
    let live = listed(|| place.command(&["permissions", "--json"]), 1);
    let ids = named(&live[0]);
    let cancel: Vec<&str> = ["cancel", "--json"].into_iter().chain(ids.iter().map(String::as_str)).collect();
    assert_eq!(value(&exits(place.command(&cancel), 0))["status"], "cancelled");
    assert_eq!(turn.wait().expect("its end").code(), Some(0));
    exits(place.command(&cancel), 5);
    // An agent that waited for the answer could end its turn before it reads of the cancel.
    let mut turn = asking(json!({"hang": true}));
    listed(|| place.command(&["permissions", "--json"]), 1);
    exits(place.command(&["prompt", "--session", "s", "x"]), 5);
    let cancelled = value(&exits(place.command(&["cancel", "--json", "--session", "s"]), 0));
    assert_eq!((&cancelled["turn_running"], &cancelled["cancelled"]), (&json!(true), &json!(1)));
    assert_eq!(turn.wait().expect("its end").code(), Some(1));

    let stopped = value(&exits(place.command(&["stop", "--json", &execution]), 0));
    assert_eq!(stopped["tree_empty"], true);
    await_gone(&started["pid"]);
    exits(place.command(&["stop", "--session", "s"]), 1);
    exits(place.command(&["stop", "--session", "unknown"]), 4);
    exits(place.command(&["stop", "00000000-0000-4000-8000-000000000000"]), 4);
    exits(place.command(&["prompt", "--session", "unknown", "x"]), 4);
    exits(place.command(&["permissions", "--task", "unknown"]), 4);
    exits(place.command(&["audit", "--session", "unknown"]), 4);
}

#[test]
fn a_watched_list_is_printed_whenever_it_changes() {
    let daemon = Daemon::start();
    let mut watch = daemon.command(&["permissions", "--watch", "--json"]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("JSON") };
    assert_eq!(next()["total"], 0);
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (_, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    assert_eq!(next()["permissions"][0]["pending_id"], "5");
    conn.resolve(&live[0], "allow-once").ok();
    while next()["total"] != 0 {}
    let _ = (watch.kill(), watch.wait());
    daemon.stop();
}

#[test]
fn agents_are_known_by_name_and_from_the_configuration_file() {
    let place = Place::new();
    let config = place.0.path().join("config.toml");
    let fake = fake_agent();
    let text = format!(
        "[agents.mine]\ncommand = {:?}\nargs = [\"--log\", {:?}]\nenv = {{ FROM_CONFIG = \"yes\" }}\nstrip_env = [\"SECRET_NAME\"]\n",
        fake.display().to_string(),
        place.log().display().to_string()
    );
    std::fs::write(&config, text).expect("a file");
    let with = |args: &[&str]| {
        let mut command = place.command(args);
        command.env("AGENTCTL_CONFIG", &config).env("SECRET_NAME", "x").env("PATH", "/usr/bin:/bin");
        command
    };
    let agents = value(&exits(with(&["agents", "--json"]), 0));
    let mine = agents.as_array().expect("a list").iter().find(|agent| agent["name"] == "mine").expect("it is listed");
    assert_eq!((&mine["configured"], &mine["installed"]), (&json!(true), &json!(fake)));
    assert!(agents.as_array().expect("a list").iter().any(|agent| agent["name"] == "claude" && agent["install"].is_string()));
    assert!(String::from_utf8_lossy(&exits(with(&["agents"]), 0).stdout).contains("npm install -g"));
    let script = json!([{"env": "FROM_CONFIG"}, {"env": "SECRET_NAME"}]).to_string();
    exits(with(&["run", "mine", "-p", &script]), 0);
    let seen = agentctl_tests::harness::Log(place.log()).entries();
    let value = |name: &str| seen.iter().find(|entry| entry["env"] == name).map(|entry| entry["value"].clone());
    assert_eq!((value("FROM_CONFIG"), value("SECRET_NAME")), (Some(json!("yes")), Some(Value::Null)));
    // What is not known, and what is wrong in the file, is named; nothing is started.
    assert!(stderr(&exits(with(&["run", "nobody"]), 1)).contains("mine"));
    std::fs::write(&config, "[agents.mine]\ncommandd = 1\n").expect("a file");
    assert!(stderr(&exits(with(&["agents"]), 1)).contains("commandd"));
}

#[test]
fn completions_and_man_pages_are_made() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let made = exits(place.command(&["completions", shell]), 0);
        assert!(String::from_utf8_lossy(&made.stdout).contains("permissions"), "{shell}");
    }
    exits(place.command(&["completions", "tcsh"]), 2);
    exits(place.command(&["man", "pages"]), 0);
    for command in COMMANDS {
        let page = std::fs::read_to_string(place.0.path().join(format!("pages/agentctl-{command}.1"))).expect("a page");
        assert!(page.contains(".SH DESCRIPTION") || page.contains(".SH NAME"), "{page}");
    }
    assert!(place.0.path().join("pages/agentctl.1").is_file());
}

#[test]
fn an_answer_that_cannot_be_recorded_exits_6() {
    let daemon = Daemon::start_with(&agentctl_with_failpoints(), &[], &[("AGENTCTL_FAILPOINTS", "claim.before=readonly")]);
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (_, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    let ids = named(&live[0]);
    let resolve: Vec<&str> = std::iter::once("resolve").chain(ids.iter().map(String::as_str)).chain(["--option", "allow-once"]).collect();
    let output = exits(daemon.command(&resolve), 6);
    assert!(stderr(&output).contains("permission_audit_failed"), "{output:?}");
    daemon.stop();
}

#[test]
fn replay_passes_what_was_recorded_and_names_both_frames_of_what_differs() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let place = Place::new();
    let good = [fixtures.join("claude/allow.jsonl"), fixtures.join("codex/allow.jsonl")];
    let good: Vec<&str> = good.iter().map(|path| path.to_str().expect("UTF-8")).collect();
    let output = exits(place.command(&[&["replay"][..], &good].concat()), 0);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("TAP version 13\n") && text.contains("ok 2 - ") && text.ends_with("1..2\n"), "{text}");
    let reports = values(&exits(place.command(&[&["replay", "--json"][..], &good].concat()), 0));
    assert!(reports.len() == 2 && reports.iter().all(|report| report["passed"] == true), "{reports:?}");

    // Another option than the one that was recorded is delivered: the id of the selected option is changed in the answer.
    let recorded = std::fs::read_to_string(good[0]).expect("a fixture");
    let (head, tail) = recorded.split_once("\"outcome\":\"selected\"").expect("an answer");
    let (before, after) = tail.split_once("\"optionId\":\"").expect("an option");
    let (option, after) = after.split_once('"').expect("its end");
    let broken = format!("{head}\"outcome\":\"selected\"{before}\"optionId\":\"never-offered-{option}\"{after}");
    let path = place.0.path().join("broken.jsonl");
    std::fs::write(&path, broken).expect("a file");
    let output = exits(place.command(&["replay", path.to_str().expect("UTF-8"), good[1]]), 1);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("not ok 1 - ") && text.contains("ok 2 - "), "{text}");
    let line = |word: &str| text.lines().find(|line| line.trim_start().starts_with(word)).unwrap_or_else(|| panic!("no {word} {text}"));
    assert!(line("recorded: {").contains(&format!("never-offered-{option}")), "{text}");
    assert!(line("received: {").contains("\"cancelled\""), "{text}");
    assert!(!place.socket().exists(), "a replay has used the person's daemon");
}
