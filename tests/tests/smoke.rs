//! The main job, once.

use agentctl_tests::harness::{Agent, Daemon, outcome};
use serde_json::json;

#[test]
fn a_prompt_is_listed_resolved_once_and_recorded() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    let result = conn.resolve(&live[0], "allow-once").ok();
    assert_eq!(result["status"], "resolved");
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
    assert_eq!(agent.log.responses(&json!(5)).iter().map(outcome).collect::<Vec<_>>(), ["allow-once"]);
    let record = conn.audit_of(&live[0]["request_id"]);
    assert_eq!((record["end"].as_str(), record["resolutions"][0]["result"].as_str()), (Some("resolved"), Some("accepted")));
    assert_eq!(conn.resolve(&live[0], "allow-once").code(), Some("permission_already_resolved"));
    agent.log.assert_no_violation();
    daemon.stop();
}
