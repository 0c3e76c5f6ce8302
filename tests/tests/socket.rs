//! The control socket: framing, params, order, connections.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use agentctl_tests::harness::{Agent, Conn, Daemon, outcome, resolve_params, until};
use serde_json::{Value, json};

const LINE: usize = 16 * 1024 * 1024;

/// The code of an answer that can't have an id.
fn code_without_id(conn: &mut Conn, line: &[u8]) -> i64 {
    conn.write(line);
    conn.write(b"\n");
    let answer = conn.reply_without_id();
    assert!(answer.as_object().is_some_and(|answer| answer.contains_key("id")), "{answer}");
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer}"))
}

#[test]
fn lines_that_are_no_request_are_answered_and_the_connection_goes_on() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let cases: [(&[u8], i64); 15] = [
        (b"no json", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"control/status\xff\"}", -32700),
        (b"[]", -32600),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"control/status\"}]", -32600),
        (b"5", -32600),
        (b"\"text\"", -32600),
        (b"null", -32600),
        (b"{}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"control/shutdown\"}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"control/status\",\"method\":\"control/shutdown\"}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"control/status\",\"params\":{},\"params\":{}}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"control/status\",\"m\\u0065thod\":\"control/shutdown\"}", -32600),
    ];
    for (line, code) in cases {
        assert_eq!(code_without_id(&mut conn, line), code, "{}", String::from_utf8_lossy(line));
        conn.call("control/status", json!({})).ok();
    }
    // Blank lines and CRLF are nobody's fault.
    conn.write(b"\n  \r\n");
    conn.write(b"{\"jsonrpc\":\"2.0\",\"id\":7000,\"method\":\"control/status\"}\r\n");
    conn.reply(7000).ok();
    assert!(conn.without_id.is_empty());
    daemon.stop();
}

#[test]
fn a_line_that_is_too_long_costs_itself_only() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let call = |id: u64, len: usize| {
        let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"control/status\",\"params\":{{}}");
        format!("{head}{}}}", " ".repeat(len - head.len() - 1)).into_bytes()
    };
    conn.write(&call(9000, LINE));
    conn.write(b"\n");
    conn.reply(9000).ok();
    assert_eq!(code_without_id(&mut conn, &call(9001, LINE + 1)), -32700);
    conn.call("control/status", json!({})).ok();
    // One that never ends is not kept in memory; the next newline brings the reader back.
    let piece = vec![b'x'; 1024 * 1024];
    for _ in 0..24 {
        conn.write(&piece);
    }
    assert_eq!(code_without_id(&mut conn, b""), -32700);
    conn.call("control/status", json!({})).ok();
    daemon.stop();
}

#[test]
fn errors_of_methods_and_params_say_what_is_wrong() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    for method in ["", "control/nothing", "permission/resolve ", "Permission/Resolve", "initialize"] {
        assert_eq!(conn.call(method, json!({})).error()["code"], -32601, "{method}");
    }
    let whole = json!({"task_id": "t", "session_id": "s", "request_id": "r", "pending_id": "5", "option_id": "o"});
    let mut cases: Vec<(Value, &str)> = Vec::new();
    for name in ["task_id", "session_id", "request_id", "pending_id", "option_id"] {
        let mut missing = whole.clone();
        missing.as_object_mut().expect("an object").remove(name);
        cases.push((missing, name));
        for wrong in [json!(5), json!(null), json!(["x"])] {
            let mut params = whole.clone();
            params[name] = wrong;
            cases.push((params, name));
        }
    }
    for extra in ["source", "actor_user_id", "Task_id", "reason"] {
        let mut params = whole.clone();
        params[extra] = json!("x");
        cases.push((params, extra));
    }
    for (params, name) in cases {
        let error = conn.call("permission/resolve", params.clone()).error();
        assert_eq!(error["code"], -32602, "{params}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains(name)), "{params}: {error}");
    }
    for params in [json!([]), json!("x"), json!(5), json!(["t", "s", "r", "5", "o"])] {
        assert_eq!(conn.call("permission/resolve", params.clone()).error()["code"], -32602, "{params}");
    }
    // A member that stands twice is never the last one's, or the first one's.
    for params in [
        r#"{"task_id":"t","session_id":"s","request_id":"r","pending_id":"5","option_id":"a","option_id":"b"}"#,
        r#"{"task_id":"t","session_id":"s","request_id":"r","pending_id":"5","option_id":"a","option\u005fid":"b"}"#,
    ] {
        conn.write(format!("{{\"jsonrpc\":\"2.0\",\"id\":8000,\"method\":\"permission/resolve\",\"params\":{params}}}\n").as_bytes());
        let error = conn.reply(8000).error();
        assert_eq!((error["code"].as_i64(), error["message"].as_str().map(|t| t.contains("option_id"))), (Some(-32602), Some(true)));
    }
    for (method, params, name) in [
        ("execution/start", json!({"command": "x", "cwd": "/", "task_id": "t", "policy": "p"}), "policy"),
        ("execution/start", json!({"command": "x", "cwd": "/"}), "task_id"),
        ("execution/start", json!({"command": "x", "cwd": "/", "task_id": ""}), "task_id"),
        ("execution/start", json!({"command": "x", "cwd": "/", "task_id": "t", "env": {"A": 5}}), "env"),
        ("permission/list", json!({"limit": 5}), "limit"),
        ("audit/list", json!({"limit": 0}), "limit"),
        ("event/subscribe", json!({"topics": ["everything"]}), "topics"),
        ("control/status", json!({"x": 1}), "x"),
        ("control/hello", json!({"protocol_version": 1, "token": "secret"}), "first"),
    ] {
        let error = conn.call(method, params).error();
        assert!(error["message"].as_str().is_some_and(|text| text.contains(name)), "{method}: {error}");
    }
    daemon.stop();
}

#[test]
fn a_notification_is_carried_out_and_not_answered() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    let mut other = daemon.connect();
    for option in ["not-offered", "reject-once"] {
        let call = json!({"jsonrpc": "2.0", "method": "permission/resolve", "params": resolve_params(&live[0], option)});
        other.write(format!("{call}\n").as_bytes());
        // Calls are carried out side by side: one after the other here.
        other.call("control/status", json!({})).ok();
    }
    other.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"nothing\"}\n");
    assert_eq!(outcome(&agent.log.await_response(&json!(5))), "reject-once");
    conn.reply(turn).ok();
    conn.audit_of(&live[0]["request_id"]);
    other.call("control/status", json!({})).ok();
    assert!(other.without_id.is_empty());
    daemon.stop();
}

#[test]
fn hello_is_optional_and_the_first_call_only() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let hello = conn.call("control/hello", json!({"protocol_version": 1, "client": "a test"})).ok();
    assert_eq!(hello["principal"]["user_id"], nix::unistd::getuid().to_string());
    assert_eq!((&hello["principal"]["kind"], &hello["protocol_version"]), (&json!("synthetic"), &json!(1)));
    assert_eq!(conn.call("control/hello", json!({"protocol_version": 1})).error()["code"], -32600);
    let mut conn = daemon.connect();
    conn.call("control/status", json!({})).ok();
    assert_eq!(conn.call("control/hello", json!({"protocol_version": 1})).error()["code"], -32600);
    let mut conn = daemon.connect();
    assert_eq!(conn.call("control/hello", json!({"protocol_version": 2})).error()["code"], -32602);
    conn.call("control/status", json!({})).ok();
    daemon.stop();
}

#[test]
fn answers_come_as_they_finish_with_the_callers_own_ids() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    // The pending turn holds up nothing of its own connection.
    assert_eq!(conn.call("session/prompt", json!({"session_id": "s", "text": "x"})).code(), Some("session_busy"));
    for _ in 0..20 {
        conn.call("control/status", json!({})).ok();
    }
    assert!(conn.try_reply(turn).is_none());
    conn.resolve(&live[0], "allow-once").ok();
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
    // Ids keep their JSON type and text.
    let mut stream = UnixStream::connect(daemon.socket()).expect("a connection");
    let ids = ["\"a b\"", "-1", "18446744073709551615", "\"\\u00e9\"", "1"];
    for id in ids {
        writeln!(stream, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"execution/list\"}}").expect("it is read");
    }
    stream.shutdown(std::net::Shutdown::Write).expect("half closed");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answers");
    // Whatever was asked before the end of our side is answered: `printf ... | socat - UNIX:...` works.
    let mut answered: Vec<Value> = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["id"].clone()).collect();
    let mut asked: Vec<Value> = ids.iter().map(|id| serde_json::from_str(id).expect("JSON")).collect();
    answered.sort_by_key(Value::to_string);
    asked.sort_by_key(Value::to_string);
    assert_eq!(answered, asked);
    daemon.stop();
}

#[test]
fn a_caller_that_drops_right_after_its_resolve_has_resolved() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let asks = 20;
    let script = json!([{"loop": {"times": asks, "steps": [{"ask": {}}, {"await_all": true}]}}]);
    let turn = agent.prompt(&mut conn, &script);
    let mut seen: Vec<Value> = Vec::new();
    for _ in 0..asks {
        let live = until("the next request", || {
            agent.permissions(&mut conn).into_iter().find(|p| p["status"] == "pending" && !seen.contains(&p["request_id"]))
        });
        let mut caller = daemon.connect();
        caller.send("permission/resolve", &resolve_params(&live, "allow-always"));
        drop(caller);
        seen.push(live["request_id"].clone());
    }
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
    for request_id in &seen {
        let record = conn.audit_of(request_id);
        assert_eq!((&record["end"], &record["resolutions"][0]["result"]), (&json!("resolved"), &json!("accepted")), "{record}");
    }
    agent.log.assert_no_violation();
    daemon.stop();
}

#[test]
fn a_caller_that_ends_only_its_own_side_hears_what_became_of_its_resolve() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    let mut stream = UnixStream::connect(daemon.socket()).expect("a connection");
    let params = resolve_params(&live[0], "reject-once");
    writeln!(stream, "{}", json!({"jsonrpc": "2.0", "id": 1, "method": "permission/resolve", "params": params})).expect("it is read");
    stream.shutdown(std::net::Shutdown::Write).expect("half closed");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let answer: Value = serde_json::from_str(&text).expect("one answer");
    assert_eq!(answer["result"]["status"], "resolved");
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
    daemon.stop();
}

#[test]
fn the_running_daemon_describes_itself_as_the_command_does() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let described = conn.call("control/describe", json!({})).ok();
    let output = daemon.command(&["describe"]).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(described, printed);
    let names: Vec<&str> = described["methods"].as_array().expect("a list").iter().filter_map(|m| m["name"].as_str()).collect();
    for name in ["permission/list", "permission/resolve", "permission/cancel", "execution/start", "event/subscribe"] {
        assert!(names.contains(&name), "{names:?}");
    }
    // Every method that is described is served.
    for name in names.into_iter().filter(|name| *name != "control/shutdown") {
        let reply = conn.call(name, json!({}));
        assert_ne!(reply.0["error"]["code"], -32601, "{name}");
    }
    daemon.stop();
}

#[test]
fn signals_that_the_daemon_gets_are_nothing_that_its_clients_notice() {
    let daemon = Daemon::start();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (over, pid) = (&over, daemon.pid());
        scope.spawn(move || {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCHLD).expect("it is there");
            }
        });
        let all = std::panic::catch_unwind(|| {
            for _ in 0..20 {
                let mut conn = daemon.connect();
                for _ in 0..20 {
                    // Each looks whether the caller is still there.
                    conn.call("permission/list", json!({})).ok();
                }
            }
        });
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        all.expect("every call is answered");
    });
    daemon.stop();
}
