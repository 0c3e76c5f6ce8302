//! What agents ask, and how it is listed, told, answered and recorded.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use agentctl_tests::harness::{Agent, Conn, Daemon, outcome, until};
use serde_json::{Value, json};

/// What the agent got for a prompt, in order.
fn answers(agent: &Agent, id: &Value) -> Vec<String> {
    agent.log.responses(id).iter().map(outcome).collect()
}

/// The entry with a pending id.
#[track_caller]
fn by_pending<'a>(list: &'a [Value], pending_id: &str) -> &'a Value {
    list.iter().find(|p| p["pending_id"] == pending_id).unwrap_or_else(|| panic!("no {pending_id} in {list:?}"))
}

/// Answers a prompt and checks everything that must follow from it, once.
#[track_caller]
fn answer_and_check(conn: &mut Conn, agent: &Agent, live: &Value, id: &Value, option: &str) -> Value {
    let result = conn.resolve(live, option).ok();
    let about = |key: &str| (result[key].clone(), live[key].clone());
    for key in ["task_id", "session_id", "request_id", "pending_id"] {
        let (told, listed) = about(key);
        assert_eq!(told, listed, "{key}");
    }
    assert_eq!((&result["option_id"], &result["status"]), (&json!(option), &json!("resolved")));
    assert_eq!(result["source"], "control_socket");
    assert_eq!(outcome(&agent.log.await_response(id)), option);
    let record = conn.audit_of(&live["request_id"]);
    assert_eq!((record["end"].as_str(), record["resolutions"].as_array().map(Vec::len)), (Some("resolved"), Some(1)));
    assert_eq!((&record["resolutions"][0]["result"], &record["resolutions"][0]["option_id"]), (&json!("accepted"), &json!(option)));
    assert_eq!(record["options"], live["options"]);
    assert_eq!((&record["title"], &record["action"]), (&live["title"], &live["action"]));
    record
}

// C1
#[test]
fn updates_of_its_tool_call_do_not_end_a_prompt() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["permission"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let update =
        |status: &str| json!({"update": {"sessionUpdate": "tool_call_update", "toolCallId": "call_2", "status": status, "title": "later"}});
    let script = json!([{"ask": {"id": 2}}, update("in_progress"), update("completed"), {"ask": {"id": 3}}, {"await_all": true}]);
    let (turn, live) = agent.ask(&mut conn, &script, 2);
    let first = by_pending(&live, "2").clone();
    assert_eq!((&first["status"], &first["title"]), (&json!("pending"), &json!("git status")), "a snapshot of what was asked");
    answer_and_check(&mut conn, &agent, &first, &json!(2), "allow-once");
    conn.resolve(by_pending(&live, "3"), "reject-once").ok();
    conn.reply(turn).ok();
    let types: Vec<Value> = conn.events.iter().filter(|e| e["pending_id"] == "2").map(|e| e["type"].clone()).collect();
    assert_eq!(types, ["requested", "resolving", "resolved"]);
    let told = conn.events.iter().find(|e| e["pending_id"] == "2" && e["type"] == "requested").cloned().unwrap_or_default();
    assert_eq!(told["permission"], first);
    agent.log.assert_no_violation();
}

// C2
#[test]
fn a_subagents_prompt_is_listed_with_its_own_session_and_answerable() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["permission"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 0, "session": "sub agent/1 é"}}, {"await": 0}]), 1);
    assert_eq!((&live[0]["acp_session_id"], &live[0]["session_id"]), (&json!("sub agent/1 é"), &json!("s")));
    assert_eq!(live[0]["execution_id"], agent.started["execution_id"]);
    assert_eq!(conn.event_of_type("requested")["acp_session_id"], "sub agent/1 é");
    let record = answer_and_check(&mut conn, &agent, &live[0], &json!(0), "reject-once");
    assert_eq!(record["acp_session_id"], "sub agent/1 é");
    conn.reply(turn).ok();
    agent.log.assert_no_violation();
}

// C3
#[test]
fn a_tool_call_told_after_its_prompt_makes_no_second_entry() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let call =
        json!({"update": {"sessionUpdate": "tool_call", "toolCallId": "call_1", "title": "other", "kind": "edit", "status": "pending"}});
    let script = json!([{"ask": {"id": 1}}, call, {"ask": {"id": 2}}, {"await": 1}, {"await": 2}]);
    // The second prompt tells when the update has been read.
    let (turn, live) = agent.ask(&mut conn, &script, 2);
    let first = by_pending(&live, "1").clone();
    assert_eq!((&first["title"], &first["action"]["command"]), (&json!("git status"), &json!("git status")));
    answer_and_check(&mut conn, &agent, &first, &json!(1), "allow-once");
    answer_and_check(&mut conn, &agent, by_pending(&live, "2"), &json!(2), "allow-once");
    conn.reply(turn).ok();
    assert_eq!(conn.call("audit/list", json!({"session_id": "s"})).ok()["records"].as_array().map(Vec::len), Some(2));
}

// C4
#[test]
fn two_prompts_of_one_tool_call_are_two() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let call = json!({"toolCallId": "same", "title": "x"});
    let script = json!([{"ask": {"id": 5, "toolCall": call}}, {"ask": {"id": 6, "toolCall": call}}, {"await_all": true}]);
    let (turn, live) = agent.ask(&mut conn, &script, 2);
    assert!(live.iter().all(|p| p["tool_call_id"] == "same"));
    assert_ne!(live[0]["request_id"], live[1]["request_id"]);
    // One's request id with the other's pending id names nothing.
    let mut crossed = live[0].clone();
    crossed["pending_id"] = live[1]["pending_id"].clone();
    assert_eq!(conn.resolve(&crossed, "allow-once").code(), Some("permission_not_found"));
    answer_and_check(&mut conn, &agent, by_pending(&live, "6"), &json!(6), "reject-once");
    let left = agent.permissions(&mut conn);
    assert_eq!(left, [by_pending(&live, "5").clone()]);
    assert!(answers(&agent, &json!(5)).is_empty());
    answer_and_check(&mut conn, &agent, &left[0], &json!(5), "allow-once");
    conn.reply(turn).ok();
    agent.log.assert_no_violation();
}

// C5
#[test]
fn a_number_and_its_text_are_two_ids_each_answered_in_its_own_type() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"ask": {"id": "5"}}, {"await_all": true}]), 2);
    let number = by_pending(&live, "5");
    let text = live.iter().find(|p| p["pending_id"] != "5").cloned().unwrap_or_default();
    assert!(text["pending_id"].as_str().is_some_and(|id| id.starts_with("agentctl-")), "{text}");
    answer_and_check(&mut conn, &agent, &text, &json!("5"), "reject-once");
    assert!(answers(&agent, &json!(5)).is_empty());
    answer_and_check(&mut conn, &agent, number, &json!(5), "allow-once");
    assert_eq!((answers(&agent, &json!(5)), answers(&agent, &json!("5"))), (vec!["allow-once".into()], vec!["reject-once".into()]));
    conn.reply(turn).ok();
    agent.log.assert_no_violation();
}

#[test]
fn an_id_that_is_no_plain_text_or_integer_comes_back_as_it_was() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &["--lenient"]);
    let ids = ["1.0", "1e3", "null", "18446744073709551616", "-7", "\"a\\u0000b\"", "\"\""];
    let ask = |id: &str| {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{{"sessionId":"{{{{session}}}}","toolCall":{{"toolCallId":"c"}},"options":[{{"optionId":"y","name":"Y","kind":"allow_once"}}]}}}}"#
        );
        json!({"raw": line})
    };
    let mut script: Vec<Value> = ids.iter().map(|id| ask(id)).collect();
    script.push(json!({"hang": true}));
    let (_, live) = agent.ask(&mut conn, &Value::Array(script), ids.len());
    for request in &live {
        conn.resolve(request, "y").ok();
    }
    let received = until("all answers", || {
        let lines: Vec<String> = agent.log.entries().iter().filter_map(|e| e["recv"].as_str().map(ToOwned::to_owned)).collect();
        let found = lines.into_iter().filter(|line| line.contains("\"optionId\"")).collect::<Vec<_>>();
        Some(found).filter(|found| found.len() == ids.len())
    });
    for id in ids {
        assert!(
            received.iter().any(|line| line.contains(&format!("\"id\":{id},")) || line.contains(&format!("\"id\":{id}}}"))),
            "{id} in {received:?}"
        );
    }
    by_pending(&live, "-7");
    by_pending(&live, "18446744073709551616");
}

// C6
#[test]
fn a_prompt_without_options_can_only_be_cancelled() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["permission"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 1, "options": []}}, {"await": 1}]), 1);
    assert_eq!(live[0]["options"], json!([]));
    for option in ["", "allow-once"] {
        assert_eq!(conn.resolve(&live[0], option).code(), Some("permission_option_not_offered"));
    }
    assert_eq!(agent.permissions(&mut conn), live);
    let cancelled = conn.call("permission/cancel", agentctl_tests::harness::identity(&live[0])).ok();
    assert_eq!((&cancelled["status"], &cancelled["request_id"]), (&json!("cancelled"), &live[0]["request_id"]));
    conn.reply(turn).ok();
    assert_eq!(answers(&agent, &json!(1)), ["cancelled"]);
    conn.event_of_type("cancelled");
    let record = conn.audit_of(&live[0]["request_id"]);
    assert_eq!((&record["end"], &record["resolutions"]), (&json!("cancelled"), &json!([])));
    assert_eq!(record["failed_attempts"]["count"], 2);
    assert_eq!(record["failed_attempts"]["last"][0]["code"], "permission_option_not_offered");
    agent.log.assert_no_violation();
}

// C7
#[test]
fn an_option_id_that_stands_twice_cannot_be_chosen() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let options = json!([
        {"optionId": "x", "name": "Yes", "kind": "allow_once"},
        {"optionId": "x", "name": "No", "kind": "reject_once"},
        {"optionId": "z", "name": "Other", "kind": "reject_once"},
    ]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 1, "options": options}}, {"await": 1}]), 1);
    let listed = live[0]["options"].as_array().cloned().unwrap_or_default();
    assert_eq!(
        listed.iter().map(|o| (o["option_id"].clone(), o["kind"].clone(), o["selectable"].clone())).collect::<Vec<_>>(),
        [
            (json!("x"), json!("allow_once"), json!(false)),
            (json!("x"), json!("reject_once"), json!(false)),
            (json!("z"), json!("reject_once"), Value::Null),
        ]
    );
    assert_eq!(conn.resolve(&live[0], "x").code(), Some("permission_option_not_offered"));
    assert!(answers(&agent, &json!(1)).is_empty());
    answer_and_check(&mut conn, &agent, &live[0], &json!(1), "z");
    conn.reply(turn).ok();
    agent.log.assert_no_violation();
}

// C8
#[test]
fn odd_kinds_of_options_are_kept_and_answerable() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let options = json!([
        {"optionId": "vendor", "name": "V", "kind": "_vendor_x"}, {"optionId": "missing", "name": "M"},
        {"optionId": "number", "name": "N", "kind": 7}, {"optionId": "object", "name": "O", "kind": {"a": [1]}},
    ]);
    let kinds = [("vendor", json!("_vendor_x")), ("missing", Value::Null), ("number", json!(7)), ("object", json!({"a": [1]}))];
    let asks: Vec<Value> = (0..4).map(|id| json!({"ask": {"id": id, "options": options}})).chain([json!({"await_all": true})]).collect();
    let (turn, live) = agent.ask(&mut conn, &Value::Array(asks), 4);
    for (i, (option, kind)) in kinds.iter().enumerate() {
        let request = by_pending(&live, &i.to_string());
        assert_eq!(request["options"][i]["kind"], *kind);
        let record = answer_and_check(&mut conn, &agent, request, &json!(i), option);
        assert_eq!(record["resolutions"][0]["option_kind"], *kind);
    }
    conn.reply(turn).ok();
    agent.log.assert_no_violation();
}

// C9
#[test]
fn option_ids_match_byte_for_byte() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let long = "k".repeat(10 * 1024);
    // "é" composed and decomposed are two ids.
    let ids = [" with spaces ", "👍🏽", &long, "Yes", "yes", "\u{e9}", "e\u{301}", "", "a\u{202e}b\n", "null"];
    let options: Vec<Value> = ids.iter().map(|id| json!({"optionId": id, "name": "n", "kind": "allow_once"})).collect();
    let asks: Vec<Value> =
        (0..ids.len()).map(|id| json!({"ask": {"id": id, "options": options}})).chain([json!({"await_all": true})]).collect();
    let (turn, live) = agent.ask(&mut conn, &Value::Array(asks), ids.len());
    for wrong in ["with spaces", " with spaces", "YES", "👍", &long[1..], "E\u{301}", "Null"] {
        assert_eq!(conn.resolve(&live[0], wrong).code(), Some("permission_option_not_offered"), "{wrong:?}");
    }
    for (i, id) in ids.iter().enumerate() {
        let request = by_pending(&live, &i.to_string());
        assert_eq!(request["options"][i]["option_id"], *id);
        answer_and_check(&mut conn, &agent, request, &json!(i), id);
    }
    conn.reply(turn).ok();
    agent.log.assert_no_violation();
}

// C10
#[test]
fn hidden_and_endless_text_is_escaped_or_bounded_but_exact_in_identity() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["permission"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let nasty = "\u{1b}[2J\u{1b}]52;c;cm0=\u{7} rm\u{202e}x\u{200b}y\rz\u{9b}0m";
    let megabyte = "w".repeat(1 << 20);
    let call = |title: &str| json!({"toolCallId": nasty, "title": title, "kind": "execute", "rawInput": {"command": title}});
    let options = json!([{"optionId": nasty, "name": nasty, "kind": "allow_once"}]);
    let script = json!([
        {"ask": {"id": 1, "toolCall": call(nasty), "options": options}},
        {"ask": {"id": 2, "toolCall": call(&megabyte), "options": options}},
        {"await_all": true},
    ]);
    let (turn, live) = agent.ask(&mut conn, &script, 2);
    let raw = raw_line(&daemon, r#"{"jsonrpc":"2.0","id":1,"method":"permission/list","params":{}}"#);
    assert!(!raw.chars().any(|c| c.is_control() && c != '\n' || "\u{202e}\u{200b}\u{9b}".contains(c)), "a hidden character on the socket");
    assert!(raw.len() < 64 * 1024, "{} bytes for two prompts", raw.len());
    let (short, long) = (by_pending(&live, "1"), by_pending(&live, "2"));
    assert_eq!((&short["tool_call_id"], &short["options"][0]["option_id"]), (&json!(nasty), &json!(nasty)));
    assert_eq!(long["action"]["full_length"], megabyte.len());
    assert_eq!(long["action"]["truncated"], true);
    for (id, request) in [(1, short), (2, long)] {
        answer_and_check(&mut conn, &agent, request, &json!(id), nasty);
    }
    conn.reply(turn).ok();
    agent.log.assert_no_violation();
}

#[test]
fn no_oddity_of_a_prompt_loses_it() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &["--lenient"]);
    let y = r#"{"optionId":"y","name":"Y","kind":"allow_once"}"#;
    let deep = format!("{}1{}", r#"{"a":["#.repeat(20_000), "]}".repeat(20_000));
    let params = [
        format!(r#"{{"options":[{y}]}}"#),
        format!(r#"{{"sessionId":7,"toolCall":null,"options":[{y}]}}"#),
        format!(r#"{{"sessionId":null,"toolCall":[1],"options":[{y},7,null,{{}},{{"optionId":5}}]}}"#),
        format!(
            r#"{{"sessionId":"a","toolCall":{{"toolCallId":9,"title":{{}},"kind":4,"rawInput":"text","locations":7,"content":"x"}},"options":[{y}]}}"#
        ),
        format!(r#"{{"sessionId":"a","toolCall":{{"toolCallId":"c","kind":"execute","rawInput":{deep}}},"options":[{y}]}}"#),
        format!(
            r#"{{"sessionId":"\ud800","toolCall":{{"toolCallId":"\udfff","title":"\ud83d"}},"options":[{y},{{"optionId":"\ud800","name":"\ud800","kind":"\ud800"}},{{"optionId":"n","name":"n","kind":1e999}},{{"optionId":"d","name":"d","kind":{deep}}}]}}"#
        ),
        format!(
            r#"{{"sessionId":"a","toolCall":{{"toolCallId":"c"}},"options":[{y}],"_meta":{{"permission":{{"version":"one"}}}},"extra":[{{"x":1,"x":2}}]}}"#
        ),
    ];
    let line =
        |id: usize, params: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{params}}}"#);
    let mut script: Vec<Value> = params.iter().enumerate().map(|(id, params)| json!({"raw": line(id, params)})).collect();
    // Ids that are too long or no Unicode text are answered as they were sent.
    let odd_ids = [format!("\"{}\"", "i".repeat(100_000)), r#""\ud800""#.to_owned()];
    script.extend(odd_ids.iter().map(|id| json!({"raw": line(0, &params[0]).replace("\"id\":0", &format!("\"id\":{id}"))})));
    script.push(json!({"hang": true}));
    let (_, live) = agent.ask(&mut conn, &Value::Array(script), params.len() + odd_ids.len());
    let surrogate = by_pending(&live, "5").clone();
    assert_eq!((&surrogate["options"][0].get("selectable"), &surrogate["options"][1]["selectable"]), (&None, &json!(false)));
    assert!((1..4).all(|i| surrogate["options"][i]["kind"].is_null()), "a kind that strict readers refuse would hide the whole list");
    let shown = surrogate["options"][1]["option_id"].as_str().unwrap_or_default();
    assert_eq!(conn.resolve(&surrogate, shown).code(), Some("permission_option_not_offered"));
    for request in &live {
        conn.resolve(request, "y").ok();
        assert_eq!(conn.audit_of(&request["request_id"])["end"], "resolved");
    }
    for id in 0..params.len() {
        assert_eq!(outcome(&agent.log.await_response(&json!(id))), "y");
    }
    for id in odd_ids {
        let answered = || agent.log.entries().iter().any(|e| e["recv"].as_str().is_some_and(|line| line.contains(&format!("\"id\":{id}"))));
        until("the answer to an odd id", || answered().then_some(()));
    }
}

/// One call as raw text, and the raw line of its answer.
fn raw_line(daemon: &Daemon, call: &str) -> String {
    use std::io::{BufRead, BufReader, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(daemon.socket()).expect("the daemon listens");
    stream.write_all(format!("{call}\n").as_bytes()).expect("the daemon reads");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("the daemon answers");
    line
}
