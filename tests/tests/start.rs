//! Starting agents, and every way in which that fails.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use agentctl_tests::harness::{Agent, Conn, Daemon, agentctl, outcome, processes_with, until};
use serde_json::{Value, json};

/// What any start error takes at most, on a loaded machine: a second for `initialize`, 2.5 for the stop, and room.
const SOON: Duration = Duration::from_secs(12);

/// The file that names a test's agents on their command lines.
fn mark(daemon: &Daemon) -> String {
    daemon.folder().join("agent-").display().to_string()
}

/// A failed start: its error. Nothing is left, and the session can be started anew.
#[track_caller]
fn fails(daemon: &Daemon, conn: &mut Conn, params: Value, code: &str) -> Value {
    let begun = Instant::now();
    let reply = conn.call("execution/start", params.clone());
    assert_eq!(reply.code(), Some(code), "{}", reply.0);
    assert!(begun.elapsed() < SOON, "{code} took {:?}", begun.elapsed());
    // At once: the answer comes after the end.
    assert_eq!(processes_with(&mark(daemon)), [0; 0], "left running after {code}");
    let error = reply.error();
    assert!(error["message"].as_str().is_some_and(|text| text.ends_with('.') || text.contains(": ")), "{error}");
    let list = conn.call("execution/list", json!({}));
    let mut executions = list.ok()["executions"].as_array().cloned().unwrap_or_default();
    executions.retain(|e| e["session_id"] == params["session_id"]);
    assert!(executions.iter().all(|e| e["state"] == "exited" && e.get("pid").is_none()), "{executions:?}");
    assert_eq!(conn.call("permission/list", json!({})).ok()["total"], 0);
    error
}

// C29
#[test]
fn what_cannot_be_executed_says_so() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let file = daemon.folder().join("file");
    std::fs::write(&file, "#!/nonexistent/interpreter\n").expect("a file can be written");
    let start = |command: &str, cwd: &str| json!({"command": command, "cwd": cwd, "task_id": "t", "session_id": "s"});
    let (folder, file_text) = (daemon.folder().display().to_string(), file.display().to_string());
    for command in ["agentctl-no-such-command", "/no/such/command", "./no-such", ""] {
        fails(&daemon, &mut conn, start(command, "/"), "command_not_found");
    }
    fails(&daemon, &mut conn, start(&file_text, "/"), "command_not_executable");
    fails(&daemon, &mut conn, start(&folder, "/"), "command_not_executable");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("a mode can be set");
    fails(&daemon, &mut conn, start(&file_text, "/"), "command_not_executable");
    for cwd in ["/no/such/folder", &file_text] {
        let error = fails(&daemon, &mut conn, start("true", cwd), "cwd_not_found");
        assert!(error["message"].as_str().is_some_and(|text| text.contains(cwd)), "{error}");
    }
}

// C29
#[test]
fn an_agent_that_exits_tells_its_status_and_stderr() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let start = |switches: &[&str]| Agent::params(&daemon, "t", "s", switches);
    let error = fails(&daemon, &mut conn, start(&["--usage"]), "agent_exited");
    assert_eq!(error["data"]["exit"], json!({"code": 2}));
    assert!(error["data"]["stderr"].as_str().is_some_and(|text| text.contains("Usage: fake-agent")), "{error}");
    let error = fails(&daemon, &mut conn, start(&["--exit-at-start", "0"]), "agent_exited");
    assert_eq!((&error["data"]["exit"], error["data"].get("stderr")), (&json!({"code": 0}), None));
    let shell = |script: &str| json!({"command": "sh", "args": ["-c", script], "cwd": "/", "task_id": "t", "session_id": "s"});
    let error = fails(&daemon, &mut conn, shell("kill -9 $$"), "agent_exited");
    assert_eq!(error["data"]["exit"], json!({"signal": 9}));
    let error = fails(&daemon, &mut conn, shell("head -c 100000 /dev/zero | tr '\\0' e >&2; exit 7"), "agent_exited");
    assert_eq!(error["data"]["exit"], json!({"code": 7}));
    assert!(error["data"]["stderr"].as_str().is_some_and(|text| text.len() <= 2048), "{error}");
    // No descriptor but stdio and that of `ls` itself.
    let error = fails(&daemon, &mut conn, shell("ls /proc/self/fd >&2; exit 3"), "agent_exited");
    assert_eq!(error["data"]["stderr"].as_str().map(|text| text.split_whitespace().count()), Some(4), "{error}");
}

// C29
#[test]
fn an_agent_that_does_not_initialize_is_ended_in_time() {
    let daemon = Daemon::start_with(&agentctl(), &["--initialize-timeout", "1"], &[]);
    let mut conn = daemon.connect();
    let start = |switches: &[&str]| Agent::params(&daemon, "t", "s", switches);
    let error = fails(&daemon, &mut conn, start(&["--init-error"]), "initialize_failed");
    assert_eq!(error["data"]["agent_error"], json!({"code": -32603, "message": "initialize failed, as asked"}));
    for version in ["99", "0"] {
        let error = fails(&daemon, &mut conn, start(&["--init-version", version]), "protocol_version_unsupported");
        assert!(error["message"].as_str().is_some_and(|text| text.contains(version)), "{error}");
    }
    fails(&daemon, &mut conn, start(&["--init-never"]), "initialize_timeout");
    fails(&daemon, &mut conn, start(&["--init-never", "--stay-on-eof", "--ignore-sigterm"]), "initialize_timeout");
    let shell = json!({"command": "sh", "args": ["-c", "setsid sleep 600 & exec cat >/dev/null"], "cwd": "/", "task_id": "t",
        "session_id": "s", "env": {"MARK": mark(&daemon)}});
    fails(&daemon, &mut conn, shell, "initialize_timeout");
    // The session is as good as new.
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    conn.resolve(&live[0], "allow-once").ok();
    conn.reply(turn).ok();
    daemon.stop();
}

// C29
#[test]
fn an_agent_that_opens_no_session_is_ended() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let start = |switches: &[&str]| Agent::params(&daemon, "t", "s", switches);
    let error = fails(&daemon, &mut conn, start(&["--new-error"]), "session_new_failed");
    assert_eq!(error["data"]["agent_error"]["message"], "session/new failed, as asked");
    let error = fails(&daemon, &mut conn, start(&["--new-auth-required"]), "authentication_required");
    assert_eq!(error["data"]["auth_methods"], json!([{"id": "login", "name": "Log in"}]));
    assert_eq!(error["data"]["agent_error"]["code"], -32000);
}

#[test]
fn a_prompt_raised_during_a_start_that_fails_is_never_answered_by_an_option() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["permission"]}));
    // Before initialize is answered with an error the agent asks already.
    let ask = r#"{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"x","toolCall":{"toolCallId":"c"},"options":[{"optionId":"y","name":"Y","kind":"allow_once"}]}}"#;
    let error =
        fails(&daemon, &mut conn, Agent::params(&daemon, "t", "s", &["--banner", ask, "--init-error", "--lenient"]), "initialize_failed");
    assert_eq!(error["data"]["code"], "initialize_failed");
    let request = conn.event_of_type("requested")["permission"].clone();
    conn.event_of_type("cancelled");
    assert_eq!(conn.resolve(&request, "y").code(), Some("permission_stale"));
    assert_eq!(conn.audit_of(&request["request_id"])["end"], "cancelled");
}

#[test]
fn a_busy_session_is_not_started_twice_but_can_be_replaced() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["permission"]}));
    let old = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = old.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"hang": true}]), 1);
    let mut params = Agent::params(&daemon, "t", "s", &[]);
    assert_eq!(conn.call("execution/start", params.clone()).code(), Some("session_busy"));
    assert_eq!(conn.call("session/prompt", json!({"session_id": "s", "text": "hi"})).code(), Some("session_busy"));
    assert_eq!(old.permissions(&mut conn), live);
    params["replace"] = true.into();
    let started = conn.start(params);
    assert_ne!(started["execution_id"], old.started["execution_id"]);
    assert!(!std::path::Path::new(&format!("/proc/{}", old.started["pid"])).exists());
    assert_eq!(conn.reply(turn).code(), Some("agent_exited"));
    assert_eq!(outcome(&old.log.await_response(&json!(5))), "cancelled");
    assert_eq!(conn.resolve(&live[0], "allow-once").code(), Some("permission_stale"));
    let list = conn.call("execution/list", json!({"session_id": "s"})).ok()["executions"].clone();
    assert_eq!((&list[0]["state"], &list[0]["generation"], &list[0]["reason"]), (&json!("exited"), &json!(1), &json!("replaced")));
    assert_eq!((&list[1]["state"], &list[1]["generation"]), (&json!("running"), &json!(2)));
}

#[test]
fn a_session_belongs_to_one_task_for_ever() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    Agent::start(&daemon, &mut conn, "s", &[]);
    for replace in [false, true] {
        let mut params = Agent::params(&daemon, "other", "s", &[]);
        params["replace"] = replace.into();
        assert_eq!(conn.call("execution/start", params).code(), Some("task_or_session_not_found"));
    }
    assert_eq!(conn.call("permission/list", json!({"task_id": "other"})).code(), Some("task_or_session_not_found"));
    assert_eq!(conn.call("permission/list", json!({"task_id": "other", "session_id": "s"})).code(), Some("task_or_session_not_found"));
    // The same names of another owner are others.
    let mut params = Agent::params(&daemon, "other", "s", &[]);
    params["owner"] = "someone".into();
    conn.start(params);
    assert_eq!(conn.call("permission/list", json!({"task_id": "other"})).code(), Some("task_or_session_not_found"));
}

#[test]
fn a_start_in_progress_holds_its_session_and_a_bound_one_ends_with_its_connection() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let mut starter = daemon.connect();
    let mut params = Agent::params(&daemon, "t", "starting", &["--init-never"]);
    params["bind"] = true.into();
    starter.send("execution/start", &params);
    until("the start", || {
        let list = conn.call("execution/list", json!({"task_id": "t"}));
        (list.code().is_none() && list.ok()["executions"][0]["state"] == "starting").then_some(())
    });
    assert_eq!(conn.call("execution/start", params.clone()).code(), Some("session_busy"));
    assert_eq!(conn.call("session/prompt", json!({"session_id": "starting", "text": "hi"})).code(), Some("session_busy"));
    let mut params = Agent::params(&daemon, "t", "bound", &[]);
    params["bind"] = true.into();
    let bound = starter.start(params);
    let free = Agent::start(&daemon, &mut starter, "free", &[]);
    drop(starter);
    for session in ["starting", "bound"] {
        until("the end of what was bound", || {
            let list = conn.call("execution/list", json!({"session_id": session})).ok();
            (list["executions"][0]["state"] == "exited").then_some(())
        });
    }
    assert!(!std::path::Path::new(&format!("/proc/{}", bound["pid"])).exists());
    free.await_state(&mut conn, "running");
    assert_eq!(processes_with(&mark(&daemon)).len(), 1);
}

#[test]
fn the_limit_of_executions_is_kept_and_given_back() {
    let daemon = Daemon::start_with(&agentctl(), &["--max-executions", "1"], &[]);
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let second = Agent::params(&daemon, "t", "s2", &[]);
    assert_eq!(conn.call("execution/start", second.clone()).code(), Some("limit_reached"));
    conn.call("execution/stop", json!({"execution_id": agent.started["execution_id"]})).ok();
    // Neither failed starts nor refused ones use it up.
    let missing = json!({"command": "/no/such", "cwd": "/", "task_id": "t", "session_id": "s3"});
    assert_eq!(conn.call("execution/start", missing).code(), Some("command_not_found"));
    conn.start(second);
    // What is replaced frees its own place.
    let mut again = Agent::params(&daemon, "t", "s2", &[]);
    again["replace"] = true.into();
    conn.start(again);
}

/// The environment that a process was started with.
fn environment(started: &Value) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{}/environ", started["pid"])).expect("the agent's environment");
    let mut names: Vec<String> =
        bytes.split(|b| *b == 0).filter(|v| !v.is_empty()).map(|v| String::from_utf8_lossy(v).into_owned()).collect();
    names.sort();
    names
}

#[test]
fn agents_get_the_environment_and_folder_that_was_asked_for_and_nothing_of_ours() {
    let env = [
        ("AGENTCTL_SOCKET", "/x"),
        ("AGENTCTL_STATE_DIR", "/x"),
        ("AGENTCTL_ANYTHING", "1"),
        ("NOTIFY_SOCKET", "/nonexistent/notify"),
        ("LISTEN_FDS", "1"),
        ("LISTEN_PID", "1"),
        ("LISTEN_FDNAMES", "a"),
        ("KEPT", "kept"),
        ("STRIPPED", "x"),
        ("EMPTY", ""),
    ];
    let daemon = Daemon::start_with(&agentctl(), &[], &env);
    let mut conn = daemon.connect();
    let cwd = daemon.folder().join("a folder é");
    std::fs::create_dir(&cwd).expect("a folder can be made");
    let mut params = Agent::params(&daemon, "t", "s", &[]);
    params["cwd"] = cwd.display().to_string().into();
    params["env"] =
        json!({"ADDED": "a=b c", "KEPT": "changed", "AGENTCTL_SOCKET": "/mine", "NOTIFY_SOCKET": "/mine", "LISTEN_FDS": "3", "BOTH": "x"});
    params["strip_env"] = json!(["STRIPPED", "BOTH", "AGENTCTL_EXECUTION_ID"]);
    let started = conn.start(params.clone());
    let seen = environment(&started);
    let id = format!("AGENTCTL_EXECUTION_ID={}", started["execution_id"].as_str().unwrap_or_default());
    for expected in ["ADDED=a=b c", "KEPT=changed", "EMPTY=", id.as_str()] {
        assert!(seen.iter().any(|v| v == expected), "{expected} in {seen:?}");
    }
    let ours = |v: &&String| v.starts_with("AGENTCTL_") || v.starts_with("LISTEN_") || v.starts_with("NOTIFY_SOCKET");
    assert_eq!(seen.iter().filter(ours).collect::<Vec<_>>(), [&id]);
    let gone = |v: &String| v.starts_with("STRIPPED") || v.starts_with("BOTH") || v.contains("control.sock") || v.contains("/mine");
    assert!(!seen.iter().any(gone), "{seen:?}");
    let agent =
        Agent { task: "t".into(), session: "s".into(), log: agentctl_tests::harness::Log(daemon.folder().join("agent-s.log")), started };
    let turn = agent.prompt(&mut conn, &json!([{"cwd": true}, {"env": "STRIPPED"}]));
    conn.reply(turn).ok();
    assert_eq!(agent.log.await_entry("cwd"), json!(cwd.canonicalize().unwrap_or_default()));
    assert!(agent.log.received().iter().any(|frame| frame["method"] == "session/new" && frame["params"]["cwd"] == json!(cwd)));
    // From nothing: exactly what is named.
    params["session_id"] = "clear".into();
    params["clear_env"] = true.into();
    params["env"] = json!({"ONLY": "1"});
    let started = conn.start(params);
    let id = format!("AGENTCTL_EXECUTION_ID={}", started["execution_id"].as_str().unwrap_or_default());
    assert_eq!(environment(&started), [id, "ONLY=1".to_owned()]);
}
