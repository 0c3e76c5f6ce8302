//! Many callers, one answer (C15).

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Barrier, mpsc};

use agentctl_tests::harness::{Agent, Conn, Daemon, outcome, resolve_params, rounds, until};
use serde_json::{Value, json};

const RACERS: usize = 64;
const OPTIONS: [&str; 3] = ["allow-once", "allow-always", "reject-once"];

/// What one racer does in one round, and where it reports.
struct Racer {
    go: mpsc::Sender<Value>,
    thread: std::thread::JoinHandle<()>,
}

fn racer(mut conn: Conn, option: &'static str, start: Arc<Barrier>, report: mpsc::Sender<(String, String)>) -> Racer {
    let (go, rounds) = mpsc::channel::<Value>();
    let thread = std::thread::spawn(move || {
        for permission in rounds {
            let params = resolve_params(&permission, option);
            start.wait();
            let reply = conn.call("permission/resolve", params);
            let verdict = match reply.code() {
                Some(code) => code.to_owned(),
                None => reply.ok()["status"].as_str().unwrap_or_default().to_owned(),
            };
            report.send((verdict, option.to_owned())).expect("the test listens");
        }
    });
    Racer { go, thread }
}

#[test]
fn sixty_four_racing_callers_give_one_answer() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (report, reports) = mpsc::channel();
    let start = Arc::new(Barrier::new(RACERS));
    let racers: Vec<Racer> =
        (0..RACERS).map(|n| racer(daemon.connect(), OPTIONS[n % OPTIONS.len()], Arc::clone(&start), report.clone())).collect();
    drop(report);

    let total = rounds("AGENTCTL_TEST_ROUNDS", 20);
    let turn = agent.prompt(&mut conn, &json!([{"loop": {"times": total, "steps": [{"ask": {}}, {"await_all": true}]}}]));
    let mut winners = Vec::new();
    let mut last = Value::Null;
    for _ in 0..total {
        // The one of the round before may still be listed for a moment, never after its resolve was answered.
        let live = conn.await_permissions("t", "s", 1).remove(0);
        assert_ne!(live["request_id"], last, "a resolved request is still listed");
        last = live["request_id"].clone();
        for racer in &racers {
            racer.go.send(live.clone()).expect("the racer lives");
        }
        let verdicts: Vec<(String, String)> = reports.iter().take(RACERS).collect();
        let won: Vec<&String> = verdicts.iter().filter(|(verdict, _)| verdict == "resolved").map(|(_, option)| option).collect();
        assert_eq!(won.len(), 1, "{verdicts:?}");
        for (verdict, _) in &verdicts {
            let known = ["resolved", "permission_resolution_in_progress", "permission_already_resolved"];
            assert!(known.contains(&verdict.as_str()), "{verdicts:?}");
        }
        winners.push((live, won[0].clone()));
    }
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
    for racer in racers {
        drop(racer.go);
        racer.thread.join().expect("the racer ends");
    }

    // On the wire: one answer to each, the winner's.
    let answers: Vec<Value> = agent.log.received().into_iter().filter(|f| f.get("method").is_none() && !f["id"].is_null()).collect();
    assert_eq!(answers.len(), total);
    for ((live, option), answer) in winners.iter().zip(&answers) {
        let pending_id = answer["id"].as_str().map_or_else(|| answer["id"].to_string(), str::to_owned);
        assert_eq!((live["pending_id"].as_str(), &outcome(answer)), (Some(pending_id.as_str()), option));
    }
    // In the audit: one accepted claim, the winner's, and everyone else.
    for (live, option) in &winners {
        let record = until("the whole audit of a round", || {
            let record = conn.audit_of(&live["request_id"]);
            Some(record).filter(|r| r["failed_attempts"]["count"].as_u64() >= Some(RACERS as u64 - 1))
        });
        assert_eq!(record["failed_attempts"]["count"], RACERS - 1, "{record}");
        let resolutions = record["resolutions"].as_array().expect("a list");
        assert_eq!(resolutions.len(), 1, "{record}");
        assert_eq!((&record["end"], &resolutions[0]["result"]), (&json!("resolved"), &json!("accepted")));
        assert_eq!(resolutions[0]["option_id"].as_str(), Some(option.as_str()));
        let last = record["failed_attempts"]["last"].as_array().expect("a list");
        assert!(last.len() <= 32, "{}", last.len());
    }
    agent.log.assert_no_violation();
    daemon.stop();
}

#[test]
fn callers_of_different_prompts_do_not_meet() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let asks = 32;
    let (turn, live) = agent.ask(&mut conn, &json!([{"loop": {"times": asks, "steps": [{"ask": {}}]}}, {"await_all": true}]), asks);
    let threads: Vec<_> = live
        .iter()
        .enumerate()
        .map(|(n, permission)| {
            let (mut conn, permission) = (daemon.connect(), permission.clone());
            std::thread::spawn(move || conn.resolve(&permission, OPTIONS[n % 3]).ok())
        })
        .collect();
    for (n, thread) in threads.into_iter().enumerate() {
        let result = thread.join().expect("no panic");
        assert_eq!((&result["status"], &result["option_id"]), (&json!("resolved"), &json!(OPTIONS[n % 3])));
    }
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
    agent.log.assert_no_violation();
    daemon.stop();
}
