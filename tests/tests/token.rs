//! Tokens: what another owner may do, and that it never sees what is not its own.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use agentctl_tests::harness::{Agent, Conn, Daemon, Log, identity, outcome, resolve_params, until};
use serde_json::{Value, json};

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

fn create(conn: &mut Conn, owner: &str) -> Value {
    conn.call("token/create", json!({"owner": owner})).ok()
}

fn hello(daemon: &Daemon, token: &Value) -> Conn {
    let mut conn = daemon.connect();
    conn.call("control/hello", json!({"protocol_version": 1, "token": token["token"]})).ok();
    conn
}

/// Starts an agent for an owner, with a prompt that waits.
fn asking(daemon: &Daemon, operator: &mut Conn, owner: &str, task: &str, session: &str) -> (Value, Log) {
    let mut params = Agent::params(daemon, task, session, &[]);
    params["owner"] = json!(owner);
    let started = operator.start(params);
    let text = json!([{"ask": {"id": 5}}, {"hang": true}]).to_string();
    operator.send("session/prompt", &json!({"session_id": session, "owner": owner, "text": text}));
    until("the prompt", || {
        let info = operator.call("execution/get", json!({"session_id": session, "owner": owner})).ok();
        (info["pending"] == 1).then_some(())
    });
    (started, Log(daemon.folder().join(format!("agent-{session}.log"))))
}

#[test]
fn a_token_lists_answers_and_reviews_what_is_its_owners() {
    let daemon = Daemon::start();
    let mut operator = daemon.connect();
    let made = create(&mut operator, "4242");
    assert!(made["token"].as_str().is_some_and(|secret| secret.starts_with("agentctl_pat_")), "{made}");
    let mut conn = daemon.connect();
    let hello = conn.call("control/hello", json!({"protocol_version": 1, "token": made["token"]})).ok();
    assert_eq!(hello["principal"], json!({"user_id": "4242", "kind": "personal_access_token", "operator": false}));
    conn.subscribe(json!({}));
    let (_, log) = asking(&daemon, &mut operator, "4242", "t", "s");
    assert_eq!(conn.event_of_type("requested")["session_id"], "s");
    let live = conn.await_permissions("t", "s", 1);
    assert_eq!(conn.resolve(&live[0], "allow-once").ok()["source"], "control_socket");
    assert_eq!(outcome(&log.await_response(&json!(5))), "allow-once");
    let resolution = conn.audit_of(&live[0]["request_id"])["resolutions"][0].clone();
    assert_eq!((&resolution["actor_user_id"], &resolution["actor_kind"]), (&json!("4242"), &json!("personal_access_token")));

    let text = json!([{"ask": {"id": 6}}, {"hang": true}]).to_string();
    operator.call("session/cancel", json!({"session_id": "s", "owner": "4242"})).ok();
    conn.event_of_type("turn_ended");
    operator.send("session/prompt", &json!({"session_id": "s", "owner": "4242", "text": text}));
    let live = conn.await_permissions("t", "s", 1);
    conn.call("permission/cancel", identity(&live[0])).ok();
    assert_eq!(outcome(&log.await_response(&json!(6))), "cancelled");

    // Raw output is the operator's only.
    for topic in ["update", "frame"] {
        assert_eq!(conn.call("event/subscribe", json!({"topics": ["permission", topic]})).code(), Some("operator_only"));
    }
    let listed = operator.call("token/list", json!({})).ok()["tokens"][0].clone();
    assert!(listed["last_used_at"].is_string() && listed.get("token").is_none(), "{listed}");
    // The secret is in no file of the daemon.
    let secret = made["token"].as_str().expect("a secret").trim_start_matches("agentctl_pat_").to_owned();
    for file in ["state/audit.db", "state/audit.db-wal", "state/tokens.json", "log"] {
        let bytes = std::fs::read(daemon.folder().join(file)).unwrap_or_default();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "{file}");
    }
    daemon.stop();
}

/// A call's whole answer, without its number and with the ids that it named taken out.
fn answer(conn: &mut Conn, method: &str, params: &Value) -> String {
    let mut reply = conn.call(method, params.clone()).0;
    reply["id"] = json!(null);
    let mut text = reply.to_string();
    for named in params.as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str()) {
        text = text.replace(&format!("\"{named}\""), "\"ID\"");
    }
    text
}

#[test]
fn every_method_answers_for_another_owners_ids_as_for_unknown_ones() {
    let daemon = Daemon::start();
    let mut operator = daemon.connect();
    let (started, log) = asking(&daemon, &mut operator, "first", "t", "s");
    let first = create(&mut operator, "first");
    let live = hello(&daemon, &first).await_permissions("t", "s", 1)[0].clone();
    let second = create(&mut operator, "second");
    let mut conn = hello(&daemon, &second);
    let request = |task: &str, session: &str, request: &str, pending: &str| json!({"task_id": task, "session_id": session, "request_id": request, "pending_id": pending});
    let with = |mut params: Value, name: &str, value: &str| {
        params[name] = json!(value);
        params
    };
    let request_id = live["request_id"].as_str().expect("an id");
    let execution_id = started["execution_id"].as_str().expect("an id");
    let scopes = [
        (json!({"task_id": "t"}), json!({"task_id": "no"})),
        (json!({"session_id": "s"}), json!({"session_id": "no"})),
        (json!({"task_id": "t", "session_id": "s"}), json!({"task_id": "no", "session_id": "no"})),
    ];
    let foreign = request("t", "s", request_id, "5");
    let unknown = request("no", "no", UNKNOWN, "9");
    let execution = (json!({"execution_id": execution_id}), json!({"execution_id": UNKNOWN}));
    let described = operator.call("control/describe", json!({})).ok();
    for method in described["methods"].as_array().expect("methods") {
        let (name, access) = (method["name"].as_str().expect("a name"), method["access"].as_str().expect("an access"));
        // What exists for somebody else, and what for nobody.
        let pairs: Vec<(Value, Value)> = match name {
            "control/hello" | "control/describe" | "control/status" | "control/shutdown" | "token/create" | "token/list" => vec![],
            "token/revoke" => vec![(json!({"token_id": first["token_id"]}), json!({"token_id": UNKNOWN}))],
            "execution/start" | "proxy/start" => vec![(
                json!({"command": "true", "cwd": "/", "task_id": "t", "session_id": "s"}),
                json!({"command": "true", "cwd": "/", "task_id": "no", "session_id": "no"}),
            )],
            "execution/list" => scopes.to_vec(),
            "execution/get" | "execution/stop" | "execution/restart" | "execution/stderr" => vec![execution.clone(), scopes[1].clone()],
            "session/prompt" => vec![(json!({"session_id": "s", "text": "x"}), json!({"session_id": "no", "text": "x"}))],
            "session/cancel" | "session/reset" => vec![scopes[1].clone()],
            "permission/list" | "event/subscribe" | "audit/witness" => scopes.to_vec(),
            "audit/list" => {
                let by_request = (json!({"request_id": request_id}), json!({"request_id": UNKNOWN}));
                scopes.iter().cloned().chain([by_request]).collect()
            }
            "permission/cancel" => vec![(foreign.clone(), unknown.clone())],
            "permission/resolve" => {
                vec![(with(foreign.clone(), "option_id", "allow-once"), with(unknown.clone(), "option_id", "allow-once"))]
            }
            new => panic!("{new} is a new method: say here which ids it takes, or that it takes none"),
        };
        for (foreign, unknown) in pairs {
            let (a, b) = (answer(&mut conn, name, &foreign), answer(&mut conn, name, &unknown));
            assert_eq!(a, b, "{name} {foreign}");
            let expected = if access == "operator" { "operator_only" } else { "task_or_session_not_found" };
            assert!(a.contains(expected) || foreign.get("request_id").is_some() && a.contains(r#""records":[]"#), "{name}: {a}");
        }
        if access == "operator" {
            // Whatever it names, and even if its params are wrong.
            for params in [json!({}), json!({"owner": "second"}), json!({"owner": "first", "nonsense": 1})] {
                assert_eq!(conn.call(name, params).code(), Some("operator_only"), "{name}");
            }
        }
    }
    // Nothing of it happened, and the second owner heard nothing.
    conn.subscribe(json!({}));
    assert_eq!(conn.call("permission/list", json!({})).ok()["total"], 0);
    assert_eq!(conn.call("audit/list", json!({})).ok()["records"], json!([]));
    let mut owner = hello(&daemon, &first);
    assert_eq!(owner.permissions("t", "s")[0]["status"], "pending");
    assert!(log.responses(&json!(5)).is_empty());
    owner.resolve(&live, "allow-once").ok();
    assert_eq!(owner.audit_of(&live["request_id"])["failed_attempts"]["count"], 0);
    conn.call("control/status", json!({})).ok();
    assert!(conn.events.is_empty(), "{:?}", conn.events);
    daemon.stop();
}

#[test]
fn a_revoked_or_expired_token_has_no_rights_any_more() {
    let daemon = Daemon::start();
    let mut operator = daemon.connect();
    let revoked = create(&mut operator, "4242");
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_millis(1500);
    let expired = operator.call("token/create", json!({"owner": "4242", "expires_at": soon.to_string()})).ok();
    let mut conns = [hello(&daemon, &revoked), hello(&daemon, &expired)];
    for conn in &mut conns {
        conn.subscribe(json!({}));
    }
    let (_, log) = asking(&daemon, &mut operator, "4242", "t", "s");
    let live = conns[0].await_permissions("t", "s", 1)[0].clone();
    assert_eq!(operator.call("token/revoke", json!({"token_id": revoked["token_id"]})).ok()["revoked"], true);
    assert_eq!(operator.call("token/revoke", json!({"token_id": revoked["token_id"]})).ok()["revoked"], false);
    for (conn, token) in conns.iter_mut().zip([&revoked, &expired]) {
        assert_eq!(conn.event_of_type("subscription_ended")["reason"], "token_not_valid");
        assert_eq!(conn.resolve(&live, "allow-once").code(), Some("token_not_valid"));
        assert_eq!(conn.call("permission/list", json!({})).code(), Some("token_not_valid"));
        let again = daemon.connect().call("control/hello", json!({"protocol_version": 1, "token": token["token"]}));
        assert_eq!(again.code(), Some("token_not_valid"));
    }
    assert!(log.responses(&json!(5)).is_empty());
    operator.call("execution/stop", json!({"session_id": "s", "owner": "4242"})).ok();
    for conn in &mut conns {
        conn.call("control/status", json!({})).ok();
        assert!(conn.events.is_empty(), "{:?}", conn.events);
    }
    daemon.stop();
}

#[test]
fn who_fails_to_be_somebody_else_is_nobody() {
    let daemon = Daemon::start();
    let mut operator = daemon.connect();
    let agent = Agent::start(&daemon, &mut operator, "s", &[]);
    let (_turn, live) = agent.ask(&mut operator, &json!([{"ask": {"id": 5}}, {"hang": true}]), 1);
    let hellos = [
        json!({"protocol_version": 1, "token": "agentctl_pat_0"}),
        json!({"protocol_version": 1, "token": ""}),
        json!({"protocol_version": 2, "token": "agentctl_pat_0"}),
        json!({"protocol_version": 1, "token": 5}),
        json!({"protocol_version": 1, "token": "agentctl_pat_0", "more": true}),
    ];
    for params in hellos {
        let mut conn = daemon.connect();
        // All at once: the call must not overtake the hello.
        let hello = conn.send("control/hello", &params);
        let resolve = conn.send("permission/resolve", &resolve_params(&live[0], "allow-once"));
        conn.reply(hello).error();
        assert_eq!(conn.reply(resolve).code(), Some("token_not_valid"), "{params}");
        assert_eq!(conn.call("control/shutdown", json!({})).code(), Some("token_not_valid"));
        conn.call("control/status", json!({})).ok();
    }
    assert!(agent.log.responses(&json!(5)).is_empty());
    daemon.stop();
}

#[test]
fn the_commands_take_a_token_from_a_private_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let daemon = Daemon::start();
    let mut operator = daemon.connect();
    let made = daemon.command(&["token", "create", "--owner", "4242", "--expires", "30d"]).output().expect("it runs");
    assert!(made.status.success(), "{made:?}");
    let (_, log) = asking(&daemon, &mut operator, "4242", "t", "s");
    let file = daemon.folder().join("token").display().to_string();
    std::fs::write(&file, &made.stdout).expect("a file");
    let run = |args: &[&str]| daemon.command(args).args(["--token-file", &file]).output().expect("it runs");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("a mode");
    let open = run(&["permissions"]);
    assert!(!open.status.success() && String::from_utf8_lossy(&open.stderr).contains("chmod 600"), "{open:?}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("a mode");
    let list = run(&["permissions"]);
    // What it prints is what answers.
    let text = String::from_utf8_lossy(&list.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("--option allow-once")).expect("a command");
    let shell = line.trim().strip_prefix("agentctl ").expect("our name");
    let words = shell_words(shell);
    let resolved = daemon.command(&words.iter().map(String::as_str).collect::<Vec<_>>()).output().expect("it runs");
    assert!(resolved.status.success(), "{resolved:?}");
    assert_eq!(outcome(&log.await_response(&json!(5))), "allow-once");
    let audit = run(&["audit"]);
    assert!(String::from_utf8_lossy(&audit.stdout).contains("user 4242"), "{audit:?}");

    let list: Value =
        serde_json::from_slice(&daemon.command(&["token", "list", "--json"]).output().expect("it runs").stdout).expect("JSON");
    let id = list["tokens"][0]["token_id"].as_str().expect("an id").to_owned();
    assert!(daemon.command(&["token", "revoke", &id]).output().expect("it runs").status.success());
    assert_eq!(daemon.command(&["token", "revoke", &id]).output().expect("it runs").status.code(), Some(4));
    assert_eq!(run(&["permissions"]).status.code(), Some(7));
    daemon.stop();
}

fn shell_words(command: &str) -> Vec<String> {
    let output = std::process::Command::new("bash").args(["-c", &format!("printf '%s\\n' {command}")]).output().expect("bash");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}
