//! What agents write on stdout and stderr, of any kind and size.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use agentctl_tests::harness::{Agent, Conn, Daemon, outcome, until};
use serde_json::{Value, json};

/// The cap of one frame.
const CAP: usize = 64 * 1024 * 1024;
/// A frame at the cap, twice for the growth of its buffer, and the daemon itself.
const MEMORY_KB: usize = 256 * 1024;

fn info(conn: &mut Conn, agent: &Agent) -> Value {
    conn.call("execution/get", json!({"execution_id": agent.started["execution_id"]})).ok()
}

fn counter(conn: &mut Conn, agent: &Agent, name: &str) -> u64 {
    info(conn, agent)["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name}"))
}

#[track_caller]
fn await_counter(conn: &mut Conn, agent: &Agent, name: &str, value: u64) {
    until(&format!("{name} = {value}"), || (counter(conn, agent, name) == value).then_some(()));
}

/// The most memory that the daemon had, in KiB.
fn peak(daemon: &Daemon) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().expect("the daemon's peak")
}

/// A prompt of its turn with one option `y`, as text.
fn prompt_line(id: &str, extra: &str) -> String {
    let params = r#"{"sessionId":"{{session}}","toolCall":{"toolCallId":"c","title":"x"},"options":[{"optionId":"y","name":"Y","kind":"allow_once"}]}"#;
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{params}{extra}}}"#)
}

// C22
#[test]
fn noise_on_stdout_is_counted_sampled_and_never_fatal() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["execution"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &["--lenient", "--banner", "Welcome to the agent"]);
    let noise = [
        "plain text",
        "\u{1b}[31mred\u{1b}[0m",
        "42",
        "\"text\"",
        "null",
        "[1,2,3]",
        "",
        "   ",
        // Our session/prompt has id 2.
        r#"{"id":2,"level":"info","msg":"a log object"}"#,
        r#"{"id":2,"level":"error","error":"a log object"}"#,
        r#"{"id":2,"result":{"stopReason":"no version"}}"#,
        r#"{"jsonrpc":"2.0","id":2}"#,
        r#"{"jsonrpc":"1.0","id":2,"result":{"stopReason":"another version"}}"#,
        r#"[{"jsonrpc":"2.0","id":2,"result":{"stopReason":"a batch"}}]"#,
    ];
    let mut script: Vec<Value> = noise.iter().map(|line| json!({"raw": line})).collect();
    script.push(json!({"raw_hex": "efbbbf"}));
    script.push(json!({"raw_hex": "fffe41"}));
    // Broken JSON, a bad byte within an object: reported, for it may have asked something.
    script.push(json!({"raw": r#"{"jsonrpc":"2.0","id":9,"method":"session/request_permission","params":{"#}));
    script.push(json!({"raw_hex": "7b226964223affff7d"}));
    // Answers to nothing of ours; the id in another type is another id.
    script.push(json!({"raw": r#"{"jsonrpc":"2.0","id":"2","result":{"stopReason":"text id"}}"#}));
    script.push(json!({"raw": r#"{"jsonrpc":"2.0","id":2.0,"result":{"stopReason":"fraction"}}"#}));
    script.push(json!({"raw": r#"{"jsonrpc":"2.0","id":99,"result":null}"#}));
    script.push(json!({"raw": format!("{}\r", prompt_line("7", ""))}));
    script.push(json!({"hang": true}));
    let (turn, live) = agent.ask(&mut conn, &Value::Array(script), 1);
    conn.resolve(&live[0], "y").ok();
    assert_eq!(outcome(&agent.log.await_response(&json!(7))), "y");
    let counters = info(&mut conn, &agent)["counters"].clone();
    assert_eq!(counters["noise"], noise.len() + 2 + 1, "{counters}");
    assert_eq!((&counters["unreadable"], &counters["unmatched"], &counters["ambiguous"]), (&json!(2), &json!(3), &json!(0)), "{counters}");
    let samples = counters["noise_samples"].as_array().cloned().unwrap_or_default();
    assert_eq!((samples.len(), &samples[0]), (8, &json!("Welcome to the agent")));
    assert!(conn.try_reply(turn).is_none(), "no log line is an answer");
    conn.call("session/cancel", json!({"session_id": "s"})).ok();
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "cancelled");
    assert_eq!(conn.events.iter().filter(|e| e["type"] == "reported").count(), 2);
}

// C23
#[test]
fn a_frame_up_to_the_cap_is_taken_and_one_over_it_is_dropped_and_reported() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["execution"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &["--lenient"]);
    let session = agent.started["acp_session_id"].as_str().unwrap_or_default().to_owned();
    let steps = |id: &str, len: usize| {
        let (head, tail) = (prompt_line(id, r#","pad":""#).trim_end_matches('}').to_owned(), "\"}");
        let fill = len - head.replace("{{session}}", &session).len() - tail.len();
        [json!({"part": head}), json!({"bytes": {"len": fill, "chunk": 1 << 16}}), json!({"raw": tail})]
    };
    let mut script = Vec::new();
    for (id, len) in [("1", CAP - 1), ("2", CAP), ("3", CAP + 1), ("4", 1000)] {
        script.extend(steps(id, len));
    }
    script.push(json!({"hang": true}));
    let (_, live) = agent.ask(&mut conn, &Value::Array(script), 3);
    assert_eq!(live.iter().map(|p| p["pending_id"].as_str()).collect::<Vec<_>>(), [Some("1"), Some("2"), Some("4")]);
    assert_eq!(counter(&mut conn, &agent, "too_long"), 1);
    let reported = conn.event_of_type("reported")["reason"].clone();
    assert!(reported.as_str().is_some_and(|r| r.contains(&(CAP + 1).to_string())), "{reported}");
    conn.resolve(&live[1], "y").ok();
    assert!(peak(&daemon) < MEMORY_KB, "{} KiB", peak(&daemon));
}

// C23
#[test]
fn a_line_that_never_ends_takes_bounded_memory_and_the_stream_goes_on_behind_it() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &["--lenient"]);
    let script = json!([{"bytes": {"len": 3 * CAP, "chunk": 1 << 16}}, {"raw": ""}, {"raw": prompt_line("5", "")}, {"hang": true}]);
    let (_, live) = agent.ask(&mut conn, &script, 1);
    conn.resolve(&live[0], "y").ok();
    assert_eq!(counter(&mut conn, &agent, "too_long"), 1);
    assert!(peak(&daemon) < MEMORY_KB, "{} KiB", peak(&daemon));
}

// C23
#[test]
fn one_byte_at_a_time_is_the_same_stream() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["update"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let turn = agent.prompt(&mut conn, &json!([{"frame": {"len": 1000, "chunk": 1}}, {"text": "é"}]));
    assert_eq!(conn.event_of_type("session/update")["frame"].to_string().len(), 1000);
    assert_eq!(conn.event_of_type("session/update")["frame"]["params"]["update"]["content"]["text"], "é");
    conn.reply(turn).ok();
}

#[test]
fn a_line_that_two_parsers_could_read_differently_is_dropped_and_reported() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["execution"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &["--lenient"]);
    let dropped = [
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"session/request_permission","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","m\u0065thod":"session/request_permission","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","Method":"session/request_permission","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"},"error":{"code":1,"message":"x"}}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":\r{\"stopReason\":\"end_turn\"}}",
    ];
    let mut script: Vec<Value> = dropped.iter().map(|line| json!({"raw": line})).collect();
    script.extend([json!({"raw": prompt_line("9", "")}), json!({"hang": true})]);
    let (turn, live) = agent.ask(&mut conn, &Value::Array(script), 1);
    assert_eq!(counter(&mut conn, &agent, "ambiguous"), dropped.len() as u64);
    conn.resolve(&live[0], "y").ok();
    assert!(conn.try_reply(turn).is_none());
    assert_eq!(conn.events.iter().filter(|e| e["type"] == "reported").count(), dropped.len());
    assert!(agent.log.responses(&json!(1)).is_empty());
}

#[test]
fn what_is_refused_is_answered_with_an_error() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({"topics": ["execution", "permission"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &["--lenient"]);
    let prompt =
        |params: &str| json!({"raw": format!(r#"{{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{params}}}"#)});
    let invalid = [
        r#"{"sessionId":"a","sessionId":"b","toolCall":{"toolCallId":"c"},"options":[]}"#,
        r#"{"sessionId":"a","toolCall":{"toolCallId":"c","rawInput":{"command":"ls","command":"rm"}},"options":[]}"#,
        r#"{"sessionId":"a","toolCall":{"toolCallId":"c"},"options":[{"optionId":"a","optionId":"b","name":"x","kind":"allow_once"}]}"#,
        "[1]",
        "null",
    ];
    let mut script: Vec<Value> = invalid.iter().map(|params| prompt(params)).collect();
    script.extend([
        json!({"request": {"id": "r1", "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}}}),
        json!({"request": {"id": 0, "method": "terminal/create", "params": {}}}),
        json!({"request": {"id": 1, "method": "session/prompt", "params": {}}}),
        json!({"notify": {"method": "_vendor/x", "params": {"a": 1}}}),
        // A method may be written with escapes.
        json!({"raw": prompt_line("8", "").replace("session/request", "session\\u002frequest")}),
        json!({"await": "r1"}),
        json!({"await": 0}),
        json!({"await": 1}),
        json!({"hang": true}),
    ]);
    let (_, live) = agent.ask(&mut conn, &Value::Array(script), 1);
    assert_eq!(live[0]["pending_id"], "8");
    for id in [json!("r1"), json!(0), json!(1)] {
        assert_eq!(outcome(&agent.log.await_response(&id)), "-32601");
    }
    let refused: Vec<String> = until("all refusals", || {
        let got: Vec<String> = agent.log.responses(&json!("p")).iter().map(outcome).collect();
        Some(got).filter(|got| got.len() == invalid.len())
    });
    assert!(refused.iter().all(|code| code == "-32602"), "{refused:?}");
    let counters = info(&mut conn, &agent)["counters"].clone();
    assert_eq!((&counters["prompts_invalid"], &counters["not_served"], &counters["prompts"]), (&json!(5), &json!(3), &json!(1)));
    assert_eq!(conn.events.iter().filter(|e| e["type"] == "reported").count(), invalid.len());
}

#[test]
fn updates_are_told_byte_for_byte_and_only_when_asked_for() {
    use std::io::{BufRead, BufReader, Write};
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    conn.subscribe(json!({}));
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let mut raw = std::os::unix::net::UnixStream::connect(daemon.socket()).expect("the daemon listens");
    let subscribe = r#"{"jsonrpc":"2.0","id":1,"method":"event/subscribe","params":{"topics":["update"],"session_id":"s"}}"#;
    raw.write_all(format!("{subscribe}\n").as_bytes()).expect("the daemon reads");
    let mut lines = BufReader::new(raw).lines().map(|line| line.expect("a line"));
    assert!(lines.next().is_some_and(|line| line.contains("\"result\"")));
    let frame = r#"{ "method":"session/update","params":{"update":{"big":123456789012345678901234567890,"e":1e3,"f":1.50,"u":"\u00e9\/\ud83d\ude00 é","z":-0.0},"sessionId":"x","_meta":{"b":1,"a":2}},"unknown":[ 1 ],"jsonrpc":"2.0"}"#;
    let turn = agent.prompt(&mut conn, &json!([{"raw": frame}, {"raw": format!("{frame}\r")}]));
    conn.reply(turn).ok();
    for _ in 0..2 {
        let line = lines.next().unwrap_or_default();
        assert!(line.ends_with(&format!("\"frame\":{frame}}}}}")), "{line}");
        assert!(line.contains(r#""topic":"update""#) && line.contains(r#""session_id":"s""#), "{line}");
    }
    assert!(conn.events.iter().all(|event| event["topic"] != "update"), "not asked for by name");
}

#[test]
fn a_subscriber_that_does_not_read_costs_bounded_memory_and_is_told_what_it_missed() {
    const FRAME: usize = 10 << 20;
    const FRAMES: usize = 14;
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let mut slow = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    slow.subscribe(json!({"topics": ["update"]}));
    let session = agent.started["acp_session_id"].as_str().unwrap_or_default();
    let head = format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","text":""#);
    let mut script: Vec<Value> = Vec::new();
    for _ in 0..FRAMES {
        script.extend([json!({"part": head}), json!({"bytes": {"len": FRAME, "chunk": 1 << 16}}), json!({"raw": "\"}}"})]);
    }
    let turn = agent.prompt(&mut conn, &Value::Array(script));
    conn.reply(turn).ok();
    // Less than all frames together.
    assert!(peak(&daemon) < MEMORY_KB / 2, "{} KiB", peak(&daemon));
    let whole = |event: &Value| event["frame"]["params"]["text"].as_str().map(str::len) == Some(FRAME);
    let gap = slow.event("the gap", |event| event["type"] == "event_gap" || !whole(event));
    assert_eq!(gap["type"], "event_gap");
    assert!(gap["count"].as_u64().is_some_and(|missed| (1..FRAMES as u64).contains(&missed)), "{}", gap["count"]);
    let turn = agent.prompt(&mut conn, &json!([{"text": "after"}]));
    conn.reply(turn).ok();
    slow.event("one after the gap", |event| event["frame"]["params"]["update"]["content"]["text"] == "after");
}

// C24
#[test]
fn stderr_never_blocks_the_agent_and_is_told_within_bounds() {
    const RING: usize = 64 * 1024;
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let stderr = |conn: &mut Conn, params: Value| conn.call("execution/stderr", params).ok();
    let turn = agent.prompt(&mut conn, &json!([{"stderr": {"bytes": RING + 1}}]));
    conn.reply(turn).ok();
    await_counter(&mut conn, &agent, "stderr_bytes", RING as u64 + 1);
    let all = stderr(&mut conn, json!({"session_id": "s"}));
    assert_eq!((all["truncated"].as_bool(), all["total_bytes"].as_u64()), (Some(true), Some(RING as u64 + 1)));
    assert!(all["text"].as_str().is_some_and(|text| text.len() <= RING && text.starts_with("xxx")));
    let turn = agent.prompt(&mut conn, &json!([{"stderr": {"bytes": 8 << 20}}, {"stderr": {"text": "the end\u{1b}[2J é"}}]));
    conn.reply(turn).ok();
    await_counter(&mut conn, &agent, "stderr_bytes", (RING + 1 + (8 << 20) + "the end\u{1b}[2J é".len()) as u64);
    let few = stderr(&mut conn, json!({"execution_id": agent.started["execution_id"], "max_bytes": 14}));
    let text = few["text"].as_str().unwrap_or_default();
    assert!(text.contains("the end") && text.len() < 64 && text.ends_with('é'), "{few}");
    assert!(few["warning"].as_str().is_some_and(|warning| !warning.is_empty()));
    assert!(stderr(&mut conn, json!({"session_id": "s"}))["text"].as_str().is_some_and(|text| text.len() <= 2 * RING));
    assert!(peak(&daemon) < MEMORY_KB);
}
