//! What the witness says of every recorded session of five real agents.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use acp_bridge::fixture::{EntryKind, Fixture, Side};
use agentctl::witness::{Counts, Witness};
use serde_json::Value;
use uuid::Uuid;

/// Plays a recording to a witness of its own.
fn witnessed(path: &Path) -> Counts {
    let mut witness = Witness::default();
    let mut prompts: HashMap<String, (Uuid, Value)> = HashMap::new();
    let mut turns: HashMap<String, String> = HashMap::new();
    let mut cancelled: HashSet<String> = HashSet::new();
    for entry in Fixture::read(path).unwrap().entries {
        let EntryKind::Frame(side, frame) = entry.kind else { continue };
        let frame: Value = serde_json::from_str(frame.get()).unwrap();
        let (id, params) = (frame["id"].to_string(), &frame["params"]);
        let session = params["sessionId"].as_str();
        match (side, frame["method"].as_str()) {
            (Side::Agent, Some("session/update")) => {
                let update = &params["update"];
                if update["sessionUpdate"].as_str().is_some_and(|kind| kind.starts_with("tool_call")) {
                    let call = update["toolCallId"].as_str().unwrap();
                    witness.reported(session, call, update["kind"].as_str(), update["status"].as_str());
                }
            }
            (Side::Agent, Some("session/request_permission")) => {
                let (request_id, call) = (Uuid::new_v4(), &params["toolCall"]);
                witness.asked(request_id, session, call["toolCallId"].as_str(), call["kind"].as_str(), Duration::ZERO);
                prompts.insert(id, (request_id, params["options"].clone()));
            }
            (Side::Agent, Some("$/cancel_request")) => {
                if let Some((request_id, _)) = prompts.remove(&params["requestId"].to_string()) {
                    witness.ended(request_id, false);
                }
            }
            (Side::Client, Some("session/prompt")) => drop(turns.insert(id, session.unwrap().to_owned())),
            (Side::Client, Some("session/cancel")) => drop(cancelled.insert(session.unwrap().to_owned())),
            (Side::Client, None) => {
                if let Some((request_id, options)) = prompts.remove(&id) {
                    let chosen = &frame["result"]["outcome"]["optionId"];
                    let option = options.as_array().unwrap().iter().find(|option| option["optionId"] == *chosen);
                    let kind = option.and_then(|option| option["kind"].as_str()).unwrap_or_default();
                    witness.ended(request_id, kind.starts_with("allow"));
                }
            }
            (Side::Agent, None) => {
                if let Some(session) = turns.remove(&id) {
                    let stopped = frame["result"]["stopReason"] == "cancelled";
                    witness.turn_ended(&session, cancelled.remove(&session) || stopped);
                }
            }
            _ => {}
        }
    }
    witness.counts()
}

#[test]
fn real_agents_wait_for_their_answers_unless_they_are_told_not_to_ask() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let mut waited: BTreeMap<String, u64> = BTreeMap::new();
    let mut odd = Vec::new();
    for agent in std::fs::read_dir(root).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        for file in std::fs::read_dir(agent.path()).unwrap().flatten() {
            let counts = witnessed(&file.path());
            let folder = agent.file_name().into_string().unwrap();
            let name = format!("{folder}/{}", file.path().file_stem().unwrap().to_string_lossy());
            *waited.entry(folder).or_default() += counts.waited;
            if counts != (Counts { waited: counts.waited, ..Counts::default() }) {
                odd.push((name, counts));
            }
        }
    }
    // The one mode in which an agent completed a command without asking. (Codex's ended `failed`: a failure shows no run.)
    assert_eq!(odd, [("claude/automode".to_owned(), Counts { unasked: 1, ..Counts::default() })]);
    // Every approved command, edit and fetch of these sessions that ended, as each file has them.
    let waited: Vec<(&str, u64)> = waited.iter().map(|(agent, count)| (agent.as_str(), *count)).collect();
    assert_eq!(waited, [("claude", 9), ("codex", 8), ("codexzed", 8), ("gemini", 10), ("opencode", 7), ("recorded", 41)]);
}
