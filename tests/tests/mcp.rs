//! The external MCP endpoint, spoken to as a stranger would: lines of JSON through `agentctl mcp`.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use agentctl_tests::harness::{Agent, Daemon, Log, agentctl, outcome, resolve_params, until};
use serde_json::{Value, json};

const LIST: &str = "list_pending_agent_permissions";
const RESOLVE: &str = "resolve_agent_permission";
const PENDING: &str = "agentctl://permissions/pending";

#[derive(Clone, Copy, PartialEq)]
enum Era {
    /// With `initialize`.
    Older(&'static str),
    /// Each request says all.
    Stateless,
}

/// A client of `agentctl mcp`.
struct Mcp {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    era: Era,
    next_id: u64,
    notifications: Vec<Value>,
}

impl Mcp {
    fn start(daemon: &Daemon, era: Era, args: &[&str]) -> Self {
        let mut command = daemon.command(&["mcp", "--no-start"]);
        let mut process = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take().expect("a pipe"));
        let mut mcp = Self { process, stdin, stdout: BufReader::new(stdout), era, next_id: 1, notifications: Vec::new() };
        if let Era::Older(version) = era {
            let info = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}});
            let result = mcp.call("initialize", info);
            assert_eq!(result["protocolVersion"], version);
            mcp.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        }
        mcp
    }

    fn write(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().expect("it is open"), "{line}").expect("it reads");
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it writes");
        assert!(!line.is_empty(), "it closed its stdout");
        serde_json::from_str(&line).expect("JSON")
    }

    fn send(&mut self, method: &str, mut params: Value) -> u64 {
        if self.era == Era::Stateless {
            params["_meta"] =
                json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
        }
        let id = self.next_id;
        self.next_id += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    fn reply(&mut self, id: u64) -> Value {
        loop {
            let message = self.read();
            if message["id"] == id {
                return message;
            }
            assert!(message["method"].is_string(), "{message}");
            self.notifications.push(message);
        }
    }

    #[track_caller]
    fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let reply = self.reply(id);
        assert!(reply.get("error").is_none(), "{method}: {reply}");
        reply["result"].clone()
    }

    fn error(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.reply(id)["error"].clone()
    }

    /// A tool's result, after checking that its two forms say the same.
    #[track_caller]
    fn tool(&mut self, name: &str, arguments: &Value) -> Value {
        let result = self.call("tools/call", json!({"name": name, "arguments": arguments}));
        let text = result["content"][0]["text"].as_str().expect("a text");
        let text: Value = serde_json::from_str(text).expect("JSON");
        if result["isError"] == true {
            assert!(result.get("structuredContent").is_none() && text["message"].is_string(), "{result}");
        } else {
            assert_eq!(result["structuredContent"], text);
        }
        result
    }

    /// The structure of a tool's result.
    #[track_caller]
    fn ok(&mut self, name: &str, arguments: &Value) -> Value {
        let result = self.tool(name, arguments);
        assert_ne!(result["isError"], true, "{result}");
        result["structuredContent"].clone()
    }

    /// What a tool's failure says.
    #[track_caller]
    fn failure(&mut self, name: &str, arguments: &Value) -> Value {
        let result = self.tool(name, arguments);
        assert_eq!(result["isError"], true, "{result}");
        serde_json::from_str(result["content"][0]["text"].as_str().expect("a text")).expect("JSON")
    }

    #[track_caller]
    fn notification(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.notifications.iter().position(|n| n["method"] == method) {
                return self.notifications.remove(at);
            }
            let message = self.read();
            self.notifications.push(message);
        }
    }

    /// Ends it as clients do; what it has not yet written is read.
    fn end(mut self) -> String {
        drop(self.stdin.take());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("it writes");
        assert!(self.process.wait().expect("it ends").success());
        rest
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const ERAS: [Era; 4] = [Era::Older("2024-11-05"), Era::Older("2025-06-18"), Era::Older("2025-11-25"), Era::Stateless];

#[test]
fn a_request_is_listed_and_answered_in_every_era() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    for (n, era) in ERAS.into_iter().enumerate() {
        let agent = Agent::start(&daemon, &mut conn, &format!("s{n}"), &[]);
        let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
        let mut mcp = Mcp::start(&daemon, era, &[]);
        let listed = mcp.ok(LIST, &json!({"task_id": "t", "session_id": agent.session}));
        let mut expected = live[0].clone();
        for ours in ["execution_id", "acp_session_id"] {
            expected.as_object_mut().expect("an object").remove(ours);
        }
        assert_eq!(listed, json!({"task_id": "t", "permissions": [expected], "total": 1}));
        let resolved = mcp.ok(RESOLVE, &resolve_params(&live[0], "allow-once"));
        let mut expected = resolve_params(&live[0], "allow-once");
        for (name, value) in [("option_kind", "allow_once"), ("source", "external_mcp"), ("status", "resolved")] {
            expected[name] = json!(value);
        }
        assert_eq!(resolved, expected);
        assert_eq!(outcome(&agent.log.await_response(&json!(5))), "allow-once");
        conn.reply(turn).ok();
        let resolution = conn.audit_of(&live[0]["request_id"])["resolutions"][0].clone();
        assert_eq!((&resolution["source"], &resolution["actor_kind"]), (&json!("external_mcp"), &json!("synthetic")));
        assert_eq!(mcp.end(), "");
    }
    daemon.stop();
}

#[test]
fn nothing_but_two_tools_and_a_resource_is_exposed() {
    let daemon = Daemon::start();
    for era in ERAS {
        let mut mcp = Mcp::start(&daemon, era, &[]);
        let tools = mcp.call("tools/list", json!({}))["tools"].clone();
        let names: Vec<&str> = tools.as_array().expect("a list").iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names, [LIST, RESOLVE]);
        let members = |schema: &Value| {
            let mut names: Vec<String> = schema["properties"].as_object().expect("members").keys().cloned().collect();
            names.sort();
            (names.join(" "), schema["additionalProperties"].clone())
        };
        assert_eq!(members(&tools[0]["inputSchema"]), ("session_id task_id".into(), json!(false)));
        assert_eq!(members(&tools[1]["inputSchema"]), ("option_id pending_id request_id session_id task_id".into(), json!(false)));
        for tool in tools.as_array().expect("a list") {
            assert_eq!((&tool["inputSchema"]["type"], &tool["outputSchema"]["type"]), (&json!("object"), &json!("object")));
        }
        let hints = |tool: &Value| ["readOnlyHint", "destructiveHint", "idempotentHint"].map(|hint| tool["annotations"][hint].clone());
        assert_eq!(hints(&tools[0])[0], true);
        assert_eq!(tools[0]["annotations"]["openWorldHint"], false);
        assert_eq!(hints(&tools[1]), [json!(false), json!(true), json!(false)]);
        let resources = mcp.call("resources/list", json!({}))["resources"].clone();
        assert_eq!((resources.as_array().map(Vec::len), &resources[0]["uri"]), (Some(1), &json!(PENDING)));
        // The methods of the control socket are none of MCP's.
        for method in ["permission/cancel", "execution/list", "control/status", "control/hello", "token/list", "prompts/list"] {
            assert_eq!(mcp.error(method, json!({}))["code"], -32601, "{method}");
        }
        assert!(mcp.error("tools/call", json!({"name": "permission/cancel", "arguments": {}}))["code"].is_i64());
        assert!(mcp.error("resources/read", json!({"uri": "file:///etc/passwd"}))["code"].is_i64());
    }
    daemon.stop();
}

#[test]
fn a_failed_call_is_a_result_with_the_stable_code_and_what_to_do() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) =
        agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"ask": {"id": 6}}, {"await": 5}, {"withdraw": 6}, {"await": 6}]), 2);
    let of = |id: &str| live.iter().find(|p| p["pending_id"] == id).expect("it is live");
    let (five, six) = (resolve_params(of("5"), "allow-once"), resolve_params(of("6"), "allow-once"));
    let with = |params: &Value, name: &str, value: &str| {
        let mut params = params.clone();
        params[name] = json!(value);
        params
    };
    let mut mcp = Mcp::start(&daemon, Era::Older("2025-11-25"), &[]);
    let mut expect = |arguments: &Value, code: &str| {
        let failure = mcp.failure(RESOLVE, arguments);
        assert_eq!(failure["code"], code, "{failure}");
        assert!(failure["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{failure}");
        failure
    };
    expect(&with(&five, "task_id", "another"), "task_or_session_not_found");
    expect(&with(&five, "session_id", "another"), "task_or_session_not_found");
    expect(&with(&five, "pending_id", "6"), "permission_not_found");
    expect(&with(&five, "request_id", "00000000-0000-4000-8000-000000000000"), "permission_not_found");
    for option in ["", "Allow-once", "allow-once ", "cancelled"] {
        expect(&with(&five, "option_id", option), "permission_option_not_offered");
    }
    conn.call("permission/resolve", five.clone()).ok();
    conn.reply(turn).ok();
    let failure = expect(&five, "permission_already_resolved");
    assert_eq!((&failure["end"], &failure["resolution"]["source"]), (&json!("resolved"), &json!("control_socket")));
    assert_eq!(expect(&six, "permission_stale")["end"], "withdrawn");
    let listed = mcp.failure(LIST, &json!({"task_id": "another"}));
    assert_eq!(listed["code"], "task_or_session_not_found");

    // Inputs are strict: nothing is guessed, nothing ignored.
    for arguments in [
        json!({}),
        with(&five, "cancelled", "true"),
        with(&five, "owner", "4242"),
        with(&five, "source", "control_socket"),
        json!({"task_id": 5}),
    ] {
        let failure = mcp.failure(RESOLVE, &arguments);
        assert!(failure.get("code").is_none() && failure["message"].is_string(), "{failure}");
    }
    assert!(mcp.failure(LIST, &json!({"task_id": "t", "limit": 1}))["message"].as_str().is_some_and(|m| m.contains("limit")));
    let twice =
        r#"{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"x","arguments":{"option_id":"a","option\u005fid":"b"}}}"#;
    mcp.write(twice);
    let refused = mcp.read();
    assert!(refused["error"]["message"].as_str().is_some_and(|m| m.contains("option_id")), "{refused}");
    mcp.ok(LIST, &json!({"task_id": "t"}));
    daemon.stop();
}

#[test]
fn claims_that_fail_say_so_through_mcp_too() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (_turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"hang": true}]), 1);
    let mut mcp = Mcp::start(&daemon, Era::Stateless, &[]);
    std::fs::rename(daemon.database(), daemon.folder().join("elsewhere")).expect("it can be moved");
    let failure = mcp.failure(RESOLVE, &resolve_params(&live[0], "allow-once"));
    assert_eq!(failure["code"], "permission_audit_failed", "{failure}");
    assert!(agent.log.responses(&json!(5)).is_empty());
    assert_eq!(mcp.ok(LIST, &json!({"task_id": "t"}))["total"], 1);
}

#[test]
fn an_agent_that_does_not_read_is_a_failed_delivery_and_meanwhile_in_progress() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let script = json!([{"ask": {"id": 5}}, {"stop_reading": true}, {"hang": true}]);
    let (_turn, live) = agent.ask(&mut conn, &script, 1);
    // What fills its stdin, so that no answer goes through.
    for _ in 0..8 {
        conn.send("session/prompt", &json!({"session_id": "s", "acp_session_id": "other", "text": "x".repeat(64 * 1024)}));
    }
    let mut first = Mcp::start(&daemon, Era::Stateless, &[]);
    let mut second = Mcp::start(&daemon, Era::Older("2025-06-18"), &[]);
    let params = resolve_params(&live[0], "allow-once");
    let call = first.send("tools/call", json!({"name": RESOLVE, "arguments": params}));
    until("the claim", || {
        let list = conn.permissions("t", "s");
        (list[0]["status"] == "resolving").then_some(())
    });
    assert_eq!(second.failure(RESOLVE, &params)["code"], "permission_resolution_in_progress");
    // What is being answered is not listed as pending.
    assert_eq!(second.ok(LIST, &json!({"task_id": "t"}))["total"], 0);
    let text = first.reply(call)["result"]["content"][0]["text"].as_str().expect("a text").to_owned();
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON")["code"], "permission_delivery_failed", "{text}");
    assert_eq!(second.ok(LIST, &json!({"task_id": "t"}))["total"], 1);
}

#[test]
fn of_two_mcp_clients_and_the_command_exactly_one_answers() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let mut first = Mcp::start(&daemon, Era::Older("2025-11-25"), &[]);
    let mut second = Mcp::start(&daemon, Era::Stateless, &[]);
    for round in 0..20 {
        let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": round}}, {"await": round}]), 1);
        let params = |option| json!({"name": RESOLVE, "arguments": resolve_params(&live[0], option)});
        let id = |name: &str| live[0][name].as_str().expect("an id").to_owned();
        let mut command = daemon.command(&["resolve", "--json", "--task", "t", "--session", "s", "--option", "allow-always"]);
        let command = command.args(["--request", &id("request_id"), "--pending", &id("pending_id")]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let a = first.send("tools/call", params("allow-once"));
        let b = second.send("tools/call", params("reject-once"));
        let (a, b) = (first.reply(a)["result"].clone(), second.reply(b)["result"].clone());
        let command = command.wait_with_output().expect("it ends");
        let answer = outcome(&agent.log.await_response(&json!(round)));
        let won = |result: &Value| result["isError"] != true;
        let winners = [(won(&a), "allow-once"), (won(&b), "reject-once"), (command.status.success(), "allow-always")];
        let winners: Vec<&str> = winners.into_iter().filter(|(won, _)| *won).map(|(_, option)| option).collect();
        assert_eq!(winners, [answer.as_str()], "{a} {b} {command:?}");
        for loser in [&a, &b].into_iter().filter(|result| !won(result)) {
            let text: Value = serde_json::from_str(loser["content"][0]["text"].as_str().expect("a text")).expect("JSON");
            let code = text["code"].as_str().expect("a code");
            assert!(["permission_already_resolved", "permission_resolution_in_progress"].contains(&code), "{code}");
        }
        conn.reply(turn).ok();
        assert_eq!(agent.log.responses(&json!(round)).len(), 1);
    }
    daemon.stop();
}

#[test]
fn changes_of_the_pending_requests_are_told_in_both_eras() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let mut older = Mcp::start(&daemon, Era::Older("2025-11-25"), &[]);
    older.call("resources/subscribe", json!({"uri": PENDING}));
    assert!(older.error("resources/subscribe", json!({"uri": "agentctl://other"}))["code"].is_i64());
    let mut stateless = Mcp::start(&daemon, Era::Stateless, &[]);
    stateless.send("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [PENDING]}}));
    stateless.notification("notifications/subscriptions/acknowledged");
    let pending = |mcp: &mut Mcp| {
        let read = mcp.call("resources/read", json!({"uri": PENDING}));
        let list: Value = serde_json::from_str(read["contents"][0]["text"].as_str().expect("a text")).expect("JSON");
        list["total"].as_u64().expect("a number")
    };
    assert_eq!((pending(&mut older), pending(&mut stateless)), (0, 0));
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    for mcp in [&mut older, &mut stateless] {
        assert_eq!(mcp.notification("notifications/resources/updated")["params"]["uri"], PENDING);
        assert_eq!(pending(mcp), 1);
    }
    conn.resolve(&live[0], "allow-once").ok();
    conn.reply(turn).ok();
    for mcp in [&mut older, &mut stateless] {
        while pending(mcp) > 0 {
            mcp.notification("notifications/resources/updated");
        }
    }
    daemon.stop();
}

#[test]
fn a_session_that_has_ended_leaves_nothing_open() {
    let daemon = Daemon::start();
    let open = || std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).expect("it runs").count();
    let before = open();
    for era in ERAS.into_iter().cycle().take(12) {
        let mut mcp = Mcp::start(&daemon, era, &[]);
        if era == Era::Stateless {
            mcp.send("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [PENDING]}}));
            mcp.notification("notifications/subscriptions/acknowledged");
        } else {
            mcp.call("resources/subscribe", json!({"uri": PENDING}));
        }
        mcp.end();
    }
    until("the end of every session", || (open() <= before).then_some(()));
    daemon.stop();
}

#[test]
fn another_owners_token_sees_and_answers_only_what_is_its_own() {
    use std::os::unix::fs::OpenOptionsExt as _;
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let ours = Agent::start(&daemon, &mut conn, "ours", &[]);
    let (_turn, live) = ours.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"hang": true}]), 1);
    let mut params = Agent::params(&daemon, "t2", "theirs", &[]);
    params["owner"] = json!("4242");
    conn.start(params);
    let text = json!([{"ask": {"id": 6}}, {"await": 6}]).to_string();
    conn.send("session/prompt", &json!({"session_id": "theirs", "owner": "4242", "text": text}));
    let made = conn.call("token/create", json!({"owner": "4242"})).ok();
    let file = daemon.folder().join("token");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    write!(options.open(&file).expect("a file"), "{}", made["token"].as_str().expect("a secret")).expect("it is written");
    let token = ["--token-file", file.to_str().expect("a path")];
    let mut mcp = Mcp::start(&daemon, Era::Stateless, &token);
    let listed = until("their request", || {
        let list = mcp.ok(LIST, &json!({"task_id": "t2"}));
        (list["total"] == 1).then_some(list)
    });
    let failure = |mcp: &mut Mcp, name: &str, arguments: &Value| mcp.failure(name, arguments).to_string();
    let foreign = failure(&mut mcp, RESOLVE, &resolve_params(&live[0], "allow-once"));
    let mut unknown = resolve_params(&live[0], "allow-once");
    unknown["session_id"] = json!("nobody's");
    assert_eq!(foreign, failure(&mut mcp, RESOLVE, &unknown));
    assert!(foreign.contains("task_or_session_not_found"), "{foreign}");
    assert_eq!(failure(&mut mcp, LIST, &json!({"task_id": "t"})), failure(&mut mcp, LIST, &json!({"task_id": "u"})));
    let resolved = mcp.ok(RESOLVE, &resolve_params(&listed["permissions"][0], "allow-once"));
    assert_eq!(resolved["source"], "external_mcp");
    assert_eq!(outcome(&Log(daemon.folder().join("agent-theirs.log")).await_response(&json!(6))), "allow-once");
    assert!(ours.log.responses(&json!(5)).is_empty());

    conn.call("token/revoke", json!({"token_id": made["token_id"]})).ok();
    assert_eq!(mcp.failure(LIST, &json!({"task_id": "t2"}))["code"], "token_not_valid");
    let refused = daemon.command(&["mcp"]).args(token).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(7), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("[token_not_valid]"), "{refused:?}");
    daemon.stop();
}

#[test]
fn an_agent_that_has_agentctl_as_its_mcp_server_is_refused() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let attacker = Agent::start(&daemon, &mut conn, "attacker", &[]);
    let (_turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"hang": true}]), 1);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": RESOLVE, "arguments": resolve_params(&live[0], "allow-once"), "_meta": meta}});
    let pump = format!("printf '%s\\n' '{call}' | {} --socket {} mcp --no-start", agentctl().display(), daemon.socket().display());
    let mcp_socket = daemon.socket().with_file_name("mcp.sock");
    let steps = json!([
        {"spawn": {"argv": ["sh", "-c", pump]}},
        {"spawn": {"setsid": true, "double_fork": true, "clear_env": true, "calls": {"socket": mcp_socket, "lines": [call.to_string()]}}},
    ]);
    let turn = attacker.prompt(&mut conn, &steps);
    conn.reply(turn).ok();
    let ran = attacker.log.await_entry("ran");
    assert!(ran.is_array());
    let pumped = until("the pump's output", || attacker.log.entries().into_iter().find(|entry| entry.get("ran").is_some()));
    assert!(pumped["stdout"].as_str().is_some_and(|text| text.contains("approver_is_supervised")), "{pumped}");
    let direct = attacker.log.await_entry("answers");
    assert!(direct[0].as_str().is_some_and(|text| text.contains("approver_is_supervised")), "{direct}");
    assert!(agent.log.responses(&json!(5)).is_empty());
    assert_eq!(agent.permissions(&mut conn)[0]["status"], "pending");
    conn.call("permission/cancel", agentctl_tests::harness::identity(&live[0])).ok();
    let attempts = conn.audit_of(&live[0]["request_id"])["failed_attempts"].clone();
    assert_eq!((&attempts["count"], &attempts["last"][0]["source"]), (&json!(2), &json!("external_mcp")), "{attempts}");
    daemon.stop();
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (_turn, _live) = agent.ask(&mut conn, &json!([{"loop": {"times": 50, "steps": [{"ask": {}}]}}, {"hang": true}]), 50);
    let mut mcp = Mcp::start(&daemon, Era::Stateless, &[]);
    let mut stdin = mcp.stdin.take().expect("it is open");
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": LIST, "arguments": {"task_id": "t"}, "_meta": meta});
    let flood = std::thread::spawn(move || {
        let mut written = 0;
        for id in 0..20_000 {
            let line = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
            if writeln!(stdin, "{line}").is_err() {
                break;
            }
            written = id;
        }
        written
    });
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line").to_owned();
        line.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number")
    };
    let before = memory();
    // Other clients and the agent go on while that one is full.
    for _ in 0..50 {
        let started = std::time::Instant::now();
        assert_eq!(conn.permissions("t", "s").len(), 50);
        assert!(started.elapsed() < std::time::Duration::from_secs(2));
    }
    assert!(memory() < before + 64 * 1024, "{} KiB, then {} KiB", before, memory());
    drop(mcp);
    assert!(flood.join().expect("it ends") < 19_999, "it was never held up");
    daemon.stop();
}
