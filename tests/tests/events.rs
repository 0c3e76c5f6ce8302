//! `event/subscribe`.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use agentctl_tests::harness::{Agent, Daemon};
use serde_json::{Value, json};

#[test]
fn a_subscriber_is_answered_first_and_told_everything_in_order() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, _) = agent.ask(&mut conn, &json!([{"loop": {"times": 50, "steps": [{"ask": {}}]}}, {"await_all": true}]), 50);
    let mut watcher = daemon.connect();
    let first = watcher.subscribe(json!({}));
    assert!(watcher.events.is_empty(), "an event came before the answer");
    for permission in agent.permissions(&mut conn) {
        conn.resolve(&permission, "allow-once").ok();
    }
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
    let mut last = first;
    let (mut resolving, mut resolved) = (Vec::new(), Vec::new());
    loop {
        let event = watcher.event("any", |_| true);
        let seq = event["seq"].as_u64().expect("a seq");
        assert!(seq > last, "{event}");
        last = seq;
        assert_eq!((&event["task_id"], &event["session_id"]), (&json!("t"), &json!("s")));
        match event["type"].as_str() {
            Some("resolving") => resolving.push(event["request_id"].clone()),
            Some("resolved") => {
                assert_eq!(event["resolution"]["option_id"], "allow-once");
                resolved.push(event["request_id"].clone());
            }
            Some("turn_ended") => break assert_eq!(event["stop_reason"], "end_turn"),
            _ => {}
        }
    }
    assert_eq!((resolved.len(), &resolving), (50, &resolved));
    daemon.stop();
}

#[test]
fn every_end_of_a_prompt_is_told() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let mut watcher = daemon.connect();
    watcher.subscribe(json!({"topics": ["permission"]}));
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let script = json!([{"ask": {"id": 1}}, {"ask": {"id": 2}}, {"withdraw": 2}, {"ask": {"id": 3}}, {"ask": {"id": 1}}, {"hang": true}]);
    agent.ask(&mut conn, &script, 2);
    let mut told: Vec<(Value, Value)> = Vec::new();
    while told.len() < 6 {
        let event = watcher.event("any", |_| true);
        told.push((event["type"].clone(), event["pending_id"].clone()));
    }
    let expected = [("requested", "1"), ("requested", "2"), ("withdrawn", "2"), ("requested", "3"), ("replaced", "1"), ("requested", "1")];
    assert_eq!(told, expected.map(|(kind, id)| (json!(kind), json!(id))));
    conn.call("execution/stop", json!({"session_id": "s"})).ok();
    for _ in 0..2 {
        let event = watcher.event("an end", |_| true);
        assert!(event["type"] == "cancelled" && event.get("permission").is_none(), "{event}");
    }
    daemon.stop();
}

#[test]
fn a_subscription_is_bounded_by_topic_task_and_session() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let a = Agent::start(&daemon, &mut conn, "a", &[]);
    let b_params = Agent::params(&daemon, "other", "b", &[]);
    conn.start(b_params);
    let mut of_task = daemon.connect();
    of_task.subscribe(json!({"task_id": "other"}));
    let mut of_session = daemon.connect();
    of_session.subscribe(json!({"session_id": "a", "topics": ["session"]}));
    let mut updates = daemon.connect();
    updates.subscribe(json!({"topics": ["update"], "session_id": "b"}));
    let mut usual = daemon.connect();
    usual.subscribe(json!({}));
    for session in ["a", "b", "a", "b"] {
        conn.call("session/prompt", json!({"session_id": session, "text": "[{\"text\":\"hello\"}]"})).ok();
    }
    conn.call("execution/stop", json!({"session_id": "b"})).ok();
    conn.call("execution/stop", json!({"session_id": "a"})).ok();
    let drain = |conn: &mut agentctl_tests::harness::Conn| {
        conn.call("control/status", json!({})).ok();
        std::mem::take(&mut conn.events)
    };
    let told = drain(&mut of_task);
    assert!(told.len() >= 5 && told.iter().all(|e| e["task_id"] == "other" && e["session_id"] == "b"), "{told:?}");
    let told = drain(&mut of_session);
    let types: Vec<&str> = told.iter().filter_map(|e| e["type"].as_str()).collect();
    assert_eq!(types, ["turn_started", "turn_ended", "turn_started", "turn_ended"]);
    assert!(told.iter().all(|e| e["session_id"] == "a"), "{told:?}");
    let told = drain(&mut updates);
    assert!(told.len() == 2 && told.iter().all(|e| e["frame"]["method"] == "session/update" && e["session_id"] == "b"), "{told:?}");
    let told = drain(&mut usual);
    let count = |topic: &str| told.iter().filter(|e| e["topic"] == topic).count();
    assert!(count("session") == 8 && count("execution") >= 4, "{told:?}");
    assert!(told.iter().all(|e| e["topic"] != "update" && e.get("frame").is_none()), "{told:?}");
    // What isn't there, or isn't ours, can't be watched.
    for params in [json!({"task_id": "no"}), json!({"session_id": "no"}), json!({"task_id": "t", "session_id": "b"})] {
        assert_eq!(daemon.connect().call("event/subscribe", params).code(), Some("task_or_session_not_found"));
    }
    assert_eq!(a.session, "a");
    daemon.stop();
}

#[test]
fn a_subscriber_that_does_not_read_is_told_of_a_gap_and_slows_nobody() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let mut sleeper = daemon.connect();
    sleeper.subscribe(json!({"topics": ["update", "session"]}));
    // 24 MiB of updates: more than a socket and the backlog of events hold.
    let script = json!([{"loop": {"times": 96, "steps": [{"frame": {"len": 262_144, "chunk": 65_536}}]}}]);
    let turn = agent.prompt(&mut conn, &script);
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
    // The others are served as if nothing was.
    conn.call("control/status", json!({})).ok();
    let (mut updates, mut missed) = (0, 0);
    while missed == 0 {
        let event = sleeper.event("a gap", |_| true);
        if event["type"] == "event_gap" {
            missed = event["count"].as_u64().expect("a count");
        } else if event["topic"] == "update" {
            updates += 1;
        }
    }
    // The turn's end may be among what was missed.
    assert!(updates > 0 && (96..=97).contains(&(updates + missed)), "{updates} and {missed}");
    // And it goes on.
    let turn = agent.prompt(&mut conn, &json!([{"text": "again"}]));
    conn.reply(turn).ok();
    sleeper.event("an update after the gap", |event| event["topic"] == "update");
    sleeper.event_of_type("turn_ended");
    daemon.stop();
}
