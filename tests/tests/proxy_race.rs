//! Editor against socket: one answer reaches the agent each time, the other side is told, the audit is right.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use agentctl_tests::harness::{Conn, Daemon, Proxied, answer, ask, resolve_params, rounds, until};
use serde_json::{Value, json};

/// What became of the requests of a round.
#[derive(Default, Debug)]
struct Tally {
    by_editor: usize,
    by_socket: usize,
    cancelled: usize,
    replaced: usize,
}

/// The lines that the agent gets before `_end`.
fn until_end(proxied: &Proxied) -> Vec<String> {
    std::iter::from_fn(|| Some(proxied.agent.text()).filter(|line| !line.contains("\"_end\""))).collect()
}

/// The id under which the editor is asked next.
fn asked(proxied: &Proxied) -> String {
    let mut lines = std::iter::from_fn(|| Some(proxied.editor.json()));
    lines.find(|line| line["method"] == "session/request_permission").expect("there is no end")["id"].to_string()
}

/// Checks one request against its record: `got` are the agent's answers to it; `reply` is what the socket heard.
fn check(conn: &mut Conn, request: &Value, got: &[String], reply: &agentctl_tests::harness::Reply, tally: &mut Tally) {
    let record = conn.audit_of(&request["request_id"]);
    let accepted: Vec<&Value> =
        record["resolutions"].as_array().expect("a list").iter().filter(|resolution| resolution["result"] == "accepted").collect();
    let text = got.first().map(String::as_str).unwrap_or_default();
    match (record["end"].as_str().expect("an end"), accepted.as_slice()) {
        ("resolved", [resolution]) if resolution["source"] == "editor" => {
            assert_eq!(resolution["option_id"], "yes");
            assert!(text.contains("\"optionId\":\"yes\"") && text.contains("1.50e1"), "{text}");
            let code = reply.code();
            let lost = ["permission_already_resolved", "permission_resolution_in_progress"];
            assert!(code.is_some_and(|code| lost.contains(&code)), "{reply:?}");
            tally.by_editor += 1;
        }
        ("resolved", [resolution]) => {
            assert_eq!((&resolution["source"], &resolution["option_id"]), (&json!("control_socket"), &json!("no")));
            assert!(text.contains("\"optionId\":\"no\""), "{text}");
            assert_eq!(reply.code(), None);
            tally.by_socket += 1;
        }
        ("cancelled", []) => {
            assert!(text.contains("\"cancelled\""), "{text}");
            assert!(reply.code().is_some());
            tally.cancelled += 1;
        }
        ("replaced", []) => {
            assert!(got.is_empty(), "{got:?}");
            assert!(reply.code().is_some());
            tally.replaced += 1;
            return;
        }
        _ => panic!("{record}"),
    }
    assert_eq!(got.len(), 1, "one answer: {got:?}");
}

#[test]
fn every_request_has_one_answer_whoever_is_first() {
    let daemon = Daemon::start();
    let (mut conn, mut other) = (daemon.connect(), daemon.connect());
    let mut proxied = Proxied::start(&daemon, "s", &[]);
    proxied.begin();
    let mut tally = Tally::default();
    let round_count = rounds("AGENTCTL_TEST_ROUNDS", 100);
    for round in 0..round_count {
        // The id of every prompt is that of the round before: an answer too late is one to the next.
        proxied.agent_sends(&ask("7"));
        let id = asked(&proxied);
        let request = conn.await_permissions("t", "s", 1).remove(0);
        let socket = |conn: &mut Conn| conn.send("permission/resolve", &resolve_params(&request, "no"));
        let mut requests = vec![request.clone()];
        let cancel = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"a"}}"#;
        let (call, turn_is_over) = match round % 4 {
            0 => {
                let call = socket(&mut conn);
                proxied.editor_sends(&answer(&id, "yes"));
                (call, false)
            }
            1 => {
                proxied.editor_sends(&answer(&id, "yes"));
                // From at once to surely too late.
                std::thread::sleep(std::time::Duration::from_micros(10 * (round as u64 % 64)));
                (socket(&mut conn), false)
            }
            2 => {
                let call = socket(&mut conn);
                proxied.editor_sends(cancel);
                proxied.editor_sends(&answer(&id, "yes"));
                (call, true)
            }
            _ => {
                let call = socket(&mut conn);
                proxied.agent_sends(&ask("7"));
                proxied.editor_sends(&answer(&id, "yes"));
                (call, false)
            }
        };
        let reply = conn.reply(call);
        if round % 4 == 3 {
            // The newer prompt is alive under its own identity, whatever became of the first.
            let is_newer = |listed: &Value| listed["request_id"] != request["request_id"];
            requests.push(until("the newer prompt", || other.permissions("t", "s").into_iter().find(is_newer)));
            asked(&proxied);
        }
        // All that the editor wrote has been taken in when the agent gets this.
        proxied.editor_sends(r#"{"jsonrpc":"2.0","method":"_end"}"#);
        let got: Vec<String> = until_end(&proxied).into_iter().filter(|line| line.contains("outcome")).collect();
        check(&mut conn, &requests[0], &got, &reply, &mut tally);
        if let Some(newer) = requests.get(1) {
            let reply = conn.resolve(newer, "no");
            let got = [proxied.agent.text()];
            check(&mut conn, newer, &got, &reply, &mut tally);
        }
        if turn_is_over {
            let number = 2 + round / 4;
            proxied.agent_sends(&format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{{"stopReason":"cancelled"}}}}"#));
            let next =
                format!(r#"{{"jsonrpc":"2.0","id":{},"method":"session/prompt","params":{{"sessionId":"a","prompt":[]}}}}"#, number + 1);
            while proxied.editor.json()["result"]["stopReason"] != "cancelled" {}
            proxied.to_agent(&next);
        }
    }
    println!("{tally:?}");
    assert!(tally.by_editor > round_count / 8 && tally.by_socket > 0, "both sides win at times: {tally:?}");
    assert!(proxied.end().success());
}
