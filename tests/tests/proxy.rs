//! `agentctl proxy`: who answers, in which order, under which ids.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use agentctl_tests::harness::{Conn, Daemon, Proxied, Reply, answer, ask, until};
use serde_json::{Value, json};

fn live(conn: &mut Conn, proxied: &Proxied, n: usize) -> Vec<Value> {
    conn.await_permissions("t", &proxied.session, n)
}

/// A turn of an agent whose editor is the test.
fn begun() -> (Daemon, Conn, Proxied) {
    let daemon = Daemon::start();
    let conn = daemon.connect();
    let mut proxied = Proxied::start(&daemon, "s", &[]);
    proxied.begin();
    (daemon, conn, proxied)
}

/// The agent's only answer to `id`, by the socket.
fn by_socket(id: &Value, option: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "selected", "optionId": option}}})
}

fn cancelled(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "cancelled"}}})
}

#[test]
fn the_editors_answer_is_claimed_and_delivered_as_it_was_written() {
    let (_daemon, mut conn, mut proxied) = begun();
    let info = conn.call("execution/get", json!({"session_id": "s"})).ok();
    assert_eq!((&info["state"], &info["proxied"], &info["acp_session_id"]), (&json!("running"), &json!(true), &json!("a")));
    assert_eq!(info["agent"]["name"], "fifo");
    proxied.to_editor(&ask("5"));
    let request = live(&mut conn, &proxied, 1).remove(0);
    proxied.to_agent(&answer("5", "yes"));
    let record = conn.audit_of(&request["request_id"]);
    assert_eq!((&record["end"], &record["end_reason"]), (&json!("resolved"), &json!("answered")));
    let resolution = &record["resolutions"][0];
    assert_eq!(
        (&resolution["source"], &resolution["option_id"], &resolution["result"]),
        (&json!("editor"), &json!("yes"), &json!("accepted"))
    );
    let again = conn.resolve(&request, "no");
    assert_eq!(again.code(), Some("permission_already_resolved"));
    assert_eq!(again.0["error"]["data"]["resolution"]["source"], "editor");
    // A second answer, and one to nothing, reach nobody; what follows does.
    proxied.editor_sends(&answer("5", "no"));
    proxied.editor_sends(&answer("\"5\"", "no"));
    proxied.to_agent(r#"{"jsonrpc":"2.0","method":"_x"}"#);
    assert!(proxied.end().success());
}

#[test]
fn the_sockets_answer_reaches_the_agent_and_the_editor_is_told() {
    let (_daemon, mut conn, mut proxied) = begun();
    for (id, end) in [("\"\\u0061\"", "resolve"), ("6", "cancel")] {
        proxied.to_editor(&ask(id));
        let request = live(&mut conn, &proxied, 1).remove(0);
        let id: Value = serde_json::from_str(id).expect("an id");
        if end == "resolve" {
            conn.resolve(&request, "no").ok();
            assert_eq!(proxied.agent.json(), by_socket(&id, "no"));
        } else {
            let identity = agentctl_tests::harness::identity(&request);
            conn.call("permission/cancel", identity).ok();
            assert_eq!(proxied.agent.json(), cancelled(&id));
        }
        assert_eq!(proxied.editor.json(), json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}}));
        proxied.editor_sends(&answer(&id.to_string(), "yes"));
        proxied.to_agent(r#"{"jsonrpc":"2.0","method":"_x"}"#);
    }
    assert_eq!(conn.call("execution/get", json!({"session_id": "s"})).ok()["counters"]["editor_dropped"], 2);
    assert!(proxied.end().success());
}

#[test]
fn secrets_of_the_editors_mcp_servers_are_not_shown() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let mut proxied = Proxied::start(&daemon, "s", &[]);
    proxied.to_agent(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
    proxied.to_editor(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#);
    proxied.to_agent(
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[{"type":"http","name":"x","url":"https://h/","headers":[{"name":"X-Mine","value":"correct horse"}]}]}}"#,
    );
    proxied.to_editor(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"a"}}"#);
    proxied.to_editor(&ask("5").replace(r#""toolCallId":"c""#, r#""toolCallId":"c","title":"say correct horse now""#));
    let request = live(&mut conn, &proxied, 1).remove(0);
    assert_eq!(request["title"], "say [redacted] now");
    assert!(!conn.call("permission/list", json!({"task_id": "t"})).0.to_string().contains("horse"));
    assert!(proxied.end().success());
}

#[test]
fn what_is_no_offered_option_cancels_the_prompt_and_the_audit_says_why() {
    let (_daemon, mut conn, mut proxied) = begun();
    let verbatim = r#"{"jsonrpc":"2.0","id":8,"result":{"outcome":{"outcome":"cancelled"},"_meta":{}}}"#;
    for (line, reason, verbatim, attempts) in [
        (answer("8", "YES"), "editor_option_not_offered", false, 1),
        (r#"{"jsonrpc":"2.0","id":8,"result":{"outcome":"selected"}}"#.into(), "editor_answer_malformed", false, 0),
        (
            r#"{"jsonrpc":"2.0","id":8,"result":{"outcome":{"outcome":"selected","optionId":"no","optionId":"yes"}}}"#.into(),
            "editor_answer_malformed",
            false,
            0,
        ),
        (r#"{"jsonrpc":"2.0","id":8,"result":null}"#.into(), "editor_answer_malformed", false, 0),
        (r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32603,"message":"no"}}"#.into(), "editor_answered_error", false, 0),
        (verbatim.to_owned(), "cancelled_by_editor", true, 0),
    ] {
        proxied.to_editor(&ask("8"));
        let request = live(&mut conn, &proxied, 1).remove(0);
        proxied.editor_sends(&line);
        if verbatim {
            assert_eq!(proxied.agent.text(), line);
        } else {
            assert_eq!(proxied.agent.json(), cancelled(&json!(8)));
        }
        let record = conn.audit_of(&request["request_id"]);
        assert_eq!((&record["end"], &record["end_reason"]), (&json!("cancelled"), &json!(reason)));
        assert_eq!(record["resolutions"], json!([]));
        assert_eq!(record["failed_attempts"]["count"], attempts, "{record}");
        if attempts > 0 {
            let attempt = &record["failed_attempts"]["last"][0];
            assert_eq!((&attempt["code"], &attempt["source"]), (&json!("permission_option_not_offered"), &json!("editor")));
        }
    }
    assert!(proxied.editor.is_quiet(), "the editor has answered: it need not be told");
    proxied.says("editor_option_not_offered");
    assert!(proxied.end().success());
}

#[test]
fn a_claim_that_fails_leaves_the_prompt_to_the_socket() {
    let (daemon, mut conn, mut proxied) = begun();
    proxied.to_editor(&ask("5"));
    let request = live(&mut conn, &proxied, 1).remove(0);
    let locker = rusqlite::Connection::open(daemon.database()).expect("the database");
    locker.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    proxied.editor_sends(&answer("5", "yes"));
    proxied.editor_sends(r#"{"jsonrpc":"2.0","method":"_behind"}"#);
    // Its next frame waits for the claim, and goes on when that has failed.
    assert_eq!(proxied.agent.json()["method"], "_behind");
    locker.execute_batch("ROLLBACK").expect("the lock is ours");
    proxied.says("was not given to the agent");
    let pending = live(&mut conn, &proxied, 1).remove(0);
    assert_eq!((&pending["status"], &pending["request_id"]), (&json!("pending"), &request["request_id"]));
    until("the database to be usable", || conn.resolve(&request, "no").0.get("result").cloned());
    assert_eq!(proxied.agent.json(), by_socket(&json!(5), "no"));
    assert!(proxied.editor.is_quiet(), "it has answered");
    assert!(proxied.end().success());
}

#[test]
fn a_cancel_of_the_editor_comes_behind_the_cancelled_answers_and_its_own_are_swallowed() {
    let (_daemon, mut conn, mut proxied) = begun();
    proxied.to_editor(&ask("5"));
    let first = live(&mut conn, &proxied, 1).remove(0);
    let cancel = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"a"}}"#;
    proxied.editor_sends(cancel);
    proxied.editor_sends(r#"{"jsonrpc":"2.0","id":5,"result":{"outcome":{"outcome":"cancelled"}}}"#);
    assert_eq!(proxied.agent.json(), cancelled(&json!(5)));
    assert_eq!(proxied.agent.text(), cancel);
    assert_eq!(conn.audit_of(&first["request_id"])["end_reason"], "turn_cancelled");
    // One that comes between the cancel and the end of the turn is never live; the editor sees it, and that it is over.
    proxied.to_editor(&ask("6"));
    assert_eq!(proxied.editor.json()["params"]["requestId"], 6);
    assert_eq!(proxied.agent.json(), cancelled(&json!(6)));
    proxied.to_editor(r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"cancelled"}}"#);
    // The next turn is another one; at its end the editor is told of what nobody answered.
    proxied.to_agent(r#"{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"a","prompt":[]}}"#);
    proxied.to_editor(&ask("7"));
    live(&mut conn, &proxied, 1);
    proxied.agent_sends(r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}"#);
    assert_eq!(proxied.editor.json()["params"]["requestId"], 7);
    assert_eq!(proxied.editor.json()["id"], 3);
    assert_eq!(proxied.agent.json(), cancelled(&json!(7)));
    assert!(proxied.end().success());
}

#[test]
fn a_withdrawal_is_confirmed_and_passed_on() {
    let (_daemon, mut conn, mut proxied) = begun();
    proxied.to_editor(&ask("5"));
    live(&mut conn, &proxied, 1);
    proxied.to_editor(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":5, "x":1}}"#);
    assert_eq!(proxied.agent.json()["error"]["code"], -32800);
    proxied.editor_sends(r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32800,"message":"cancelled"}}"#);
    proxied.to_agent(r#"{"jsonrpc":"2.0","method":"_x"}"#);
    assert!(proxied.end().success());
}

#[test]
fn an_id_that_is_used_again_goes_to_the_editor_under_another_one() {
    let (_daemon, mut conn, mut proxied) = begun();
    proxied.to_editor(&ask("5"));
    let first = live(&mut conn, &proxied, 1).remove(0);
    proxied.agent_sends(&ask("5"));
    assert_eq!(proxied.editor.json(), json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 5}}));
    let alias = "\"agentctl-1\"";
    assert_eq!(proxied.editor.text(), ask(alias), "nothing but the id is another");
    let second = until("the newer one", || live(&mut conn, &proxied, 1).pop().filter(|p| p["request_id"] != first["request_id"]));
    // The late answer to the first approves nothing.
    proxied.editor_sends(&answer("5", "yes"));
    proxied.editor_sends(&answer(alias, "no"));
    assert_eq!(proxied.agent.text(), answer("5", "no"));
    assert_eq!(conn.audit_of(&first["request_id"])["end"], "replaced");
    assert_eq!(conn.audit_of(&second["request_id"])["resolutions"][0]["option_id"], "no");
    // Free again: no rewriting. Then a third under an alias, which the agent withdraws by its own id.
    proxied.to_editor(&ask("5"));
    proxied.agent_sends(&ask("5"));
    assert_eq!(proxied.editor.json()["params"]["requestId"], 5);
    let alias = proxied.editor.json()["id"].clone();
    assert_eq!(alias, "agentctl-2");
    proxied.agent_sends(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":5}}"#);
    assert_eq!(proxied.editor.json()["params"]["requestId"], alias);
    assert_eq!(proxied.agent.json()["error"]["code"], -32800);
    // A request of another kind takes an id over, too.
    proxied.agent_sends(r#"{"jsonrpc":"2.0","id":5,"method":"fs/read_text_file"}"#);
    assert_eq!(proxied.editor.json()["id"], "agentctl-3");
    proxied.editor_sends(&answer("5", "yes"));
    proxied.editor_sends(r#"{"jsonrpc":"2.0","id":"agentctl-3","result":{"content":""}}"#);
    assert_eq!(proxied.agent.text(), r#"{"jsonrpc":"2.0","id":5,"result":{"content":""}}"#);
    assert!(proxied.end().success());
}

#[test]
fn nobody_else_prompts_or_cancels_and_other_requests_are_the_editors() {
    let (_daemon, mut conn, mut proxied) = begun();
    let refused = |reply: Reply| assert_eq!(reply.code(), Some("execution_is_proxied"));
    refused(conn.call("session/prompt", json!({"session_id": "s", "text": "x"})));
    refused(conn.call("session/cancel", json!({"session_id": "s"})));
    proxied.to_editor(r#"{"jsonrpc":"2.0","id":5,"method":"terminal/create","params":{"n":1e3}}"#);
    proxied.to_agent(r#"{"jsonrpc":"2.0","id":5,"result":{"terminalId":"t","n":12345678901234567890123}}"#);
    // What is no message goes nowhere, of either side; a prompt that two parsers could read differently neither.
    proxied.agent_sends("starting up");
    proxied.agent_sends(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#);
    proxied.agent_sends(r#"{"jsonrpc":"2.0","id":9,"method":"session/request_permission","params":{"sessionId":"a","sessionId":"b"}}"#);
    assert_eq!(proxied.agent.json()["error"]["code"], -32602);
    proxied.to_editor(r#"{"jsonrpc":"2.0","method":"session/update","params":{}}"#);
    proxied.editor_sends("hello?");
    proxied.editor_sends(r#"{"jsonrpc":"2.0","method":"a","Method":"b"}"#);
    proxied.to_agent("{\"jsonrpc\":\"2.0\",\"method\":\"_x\"}\r");
    assert!(proxied.end().success());
}
