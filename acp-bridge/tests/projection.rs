//! Every recorded prompt has a complete projection of the right type, and one of each kind is told exactly.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::path::Path;

use acp_bridge::fixture::{EntryKind, Fixture, Side, files};
use acp_bridge::json::Members;
use acp_bridge::presentation::{Action, ActionType, PromptView, Redactor, present};
use acp_bridge::prompt::{Prompt, ToolCall};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

/// The prompts of a fixture, as a supervisor presents them.
fn prompts(fixture: &Fixture, redactor: &Redactor) -> Vec<(Prompt, PromptView)> {
    let mut calls: HashMap<String, ToolCall> = HashMap::new();
    let mut shown = Vec::new();
    for entry in &fixture.entries {
        let EntryKind::Frame(Side::Agent, frame) = &entry.kind else { continue };
        let frame = Members::read(frame).unwrap();
        match frame.string("method").as_deref() {
            Some("session/update") => {
                let params = Members::read(frame.get("params").unwrap()).unwrap();
                let call = ToolCall::read(params.get("update").unwrap()).unwrap();
                if let Some(id) = call.id.clone() {
                    calls.entry(id).or_default().merge(call);
                }
            }
            Some("session/request_permission") => {
                let prompt = Prompt::read(frame.get("params")).unwrap();
                let earlier = prompt.tool_call.id.as_ref().and_then(|id| calls.get(id));
                let view = present(&prompt, earlier, redactor);
                shown.push((prompt, view));
            }
            _ => {}
        }
    }
    shown
}

fn fixture(name: &str) -> Fixture {
    Fixture::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../fixtures/{name}.jsonl"))).unwrap()
}

#[test]
fn every_recorded_prompt_is_complete() {
    use ActionType::{Command, FileRead, FileWrite, McpTool, Network, Other};
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let redactor = Redactor::default();
    let mut count = 0;
    for path in files(&folder).unwrap() {
        for (prompt, view) in prompts(&Fixture::read(&path).unwrap(), &redactor) {
            let place = format!("{}: {:?}", path.display(), view.action);
            let expected: &[ActionType] = match prompt.tool_call.kind.as_deref() {
                Some("execute") => &[Command, McpTool],
                Some("edit") => &[FileWrite],
                Some("fetch") => &[Network],
                Some("read" | "search") => &[FileRead, Command],
                Some("other") | None => &[McpTool, Other],
                kind => panic!("{kind:?} in {place}"),
            };
            assert!(expected.contains(&view.action.action_type), "{place}");
            assert!(!view.action.incomplete && !view.action.redacted && !view.action.truncated, "{place}");
            assert!(!view.title.is_empty() && prompt.tool_call.title.is_none_or(|title| title == view.title), "{place}");
            let ids = |o: &[_]| o.iter().map(|o: &acp_bridge::presentation::OptionView| o.option_id.clone()).collect::<Vec<_>>();
            assert_eq!(ids(&view.options), prompt.options.iter().map(|o| o.id.clone()).collect::<Vec<_>>());
            assert!(view.options.iter().zip(&prompt.options).all(|(shown, sent)| shown.name == sent.name), "{place}");
            count += 1;
        }
    }
    assert!(count >= 100, "{count} prompts");
}

/// The rows of the table in `docs/reference.md`: its columns, for each fixture that a row names.
fn documented() -> HashMap<String, Vec<String>> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference.md")).unwrap();
    let section = text.split("\n## What is shown\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut rows = HashMap::new();
    for line in section.lines().filter(|line| line.starts_with("| `")) {
        let columns: Vec<String> = line.trim_matches('|').split(" | ").map(|column| column.trim().to_owned()).collect();
        for name in columns.last().unwrap().split(", ") {
            rows.insert(name.trim_matches('`').to_owned(), columns.clone());
        }
    }
    rows
}

#[test]
fn each_row_of_the_documented_table_is_recorded_and_told_exactly() {
    let mut rows = documented();
    for line in include_str!("data/projection.jsonl").lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let name = row["fixture"].as_str().unwrap();
        let shown: Vec<Value> =
            prompts(&fixture(name), &Redactor::default()).iter().map(|(_, view)| serde_json::to_value(&view.action).unwrap()).collect();
        assert_eq!(Value::from(shown), row["actions"], "{name}");
        let columns = rows.remove(name).unwrap_or_else(|| panic!("{name} is in no row of the documented table"));
        let told = |action: &Value| {
            let fields = action.as_object().unwrap().keys().filter(|key| !matches!(&***key, "type" | "description" | "redacted"));
            let fields: Vec<String> = fields.map(|key| format!("`{key}`")).collect();
            columns[3] == format!("`{}`", action["type"].as_str().unwrap()) && columns[4] == fields.join(", ")
        };
        assert!(row["actions"].as_array().unwrap().iter().any(told), "{name}: {columns:?}");
    }
    assert!(rows.is_empty(), "documented, not recorded: {rows:?}");
}

fn prompt(params: &Value) -> Prompt {
    let raw: Box<RawValue> = to_raw_value(params).unwrap();
    Prompt::read(Some(&raw)).unwrap()
}

fn action(call: &Value) -> Action {
    present(&prompt(&json!({ "toolCall": call })), None, &Redactor::default()).action
}

#[test]
fn tool_calls_of_other_forms() {
    for (call, expected) in [
        (
            json!({ "kind": "execute", "title": "`ls -l`" }),
            json!({ "type": "command", "description": "`ls -l`", "command": "ls -l", "redacted": false }),
        ),
        (
            json!({ "kind": "execute", "title": "Terminal" }),
            json!({ "type": "command", "description": "Terminal", "redacted": false, "incomplete": true }),
        ),
        (
            json!({ "kind": "read", "title": "Read", "rawInput": { "command": ["bash", "-lc", "cat a"] } }),
            json!({ "type": "command", "description": "Read", "command": "cat a", "redacted": false }),
        ),
        (
            json!({ "kind": "execute", "rawInput": { "command": ["git", "commit", "-m", "a b"] } }),
            json!({ "type": "command", "command": "git commit -m 'a b'", "redacted": false }),
        ),
        (
            json!({ "kind": "read", "title": "View", "rawInput": { "command": "view", "path": "/a" } }),
            json!({ "type": "file_read", "description": "View", "path": "/a", "redacted": false }),
        ),
        (
            json!({ "kind": "move", "title": "Move", "rawInput": { "source": "/a", "destination": "/b" }, "locations": [{ "path": "/a" }] }),
            json!({ "type": "file_write", "description": "Move", "path": "/a", "paths": ["/a", "/b"], "redacted": false }),
        ),
        (
            json!({ "kind": "fetch", "title": "Fetch", "rawInput": { "url": "https://u:p@Example.com:8443/a/b?token=x#y" } }),
            json!({ "type": "network", "description": "Fetch", "destination": "https://example.com:8443/a/b", "redacted": false }),
        ),
        (
            json!({ "name": "SandboxNetworkAccess", "title": "Network", "rawInput": { "host": "example.com" } }),
            json!({ "type": "network", "description": "Network", "destination": "example.com", "redacted": false }),
        ),
        (
            json!({ "kind": "other", "name": "mcp__git hub__create_issue", "title": "t", "rawInput": { "body": "secret" } }),
            json!({ "type": "mcp_tool", "description": "t", "server": "git hub", "tool": "create_issue", "redacted": false }),
        ),
        (
            json!({ "kind": "execute", "title": "t", "rawInput": { "server": "s", "tool": "x", "arguments": { "a": "secret" } } }),
            json!({ "type": "mcp_tool", "description": "t", "server": "s", "tool": "x", "redacted": false }),
        ),
        (
            json!({ "title": "x (docs MCP Server)" }),
            json!({ "type": "mcp_tool", "description": "x (docs MCP Server)", "server": "docs", "tool": "x", "redacted": false }),
        ),
        (
            json!({ "kind": "switch_mode", "title": "Ready to code?" }),
            json!({ "type": "other", "description": "Ready to code?", "redacted": false }),
        ),
        (json!({}), json!({ "type": "other", "redacted": false, "incomplete": true })),
        (
            json!({ "kind": "execute", "title": "run", "rawInput": { "command": "echo 'open" } }),
            json!({ "type": "command", "description": "run", "redacted": true, "incomplete": true }),
        ),
    ] {
        assert_eq!(serde_json::to_value(action(&call)).unwrap(), expected, "{call}");
    }
}

#[test]
fn a_hint_adds_to_the_description() {
    let hint = |title: &str| {
        let params = json!({ "toolCall": { "title": "npm test" }, "_meta": { "permission": { "version": 1, "title": title, "description": "Reason: x" } } });
        present(&prompt(&params), None, &Redactor::default()).action.description.unwrap()
    };
    assert_eq!(hint("npm test"), "npm test — Reason: x");
    assert_eq!(hint("Ready?"), "npm test — Ready? — Reason: x");
}

#[test]
fn shown_texts_are_bounded() {
    let long = "é".repeat(500_000);
    let paths: Vec<_> = (0..500).map(|i| json!({ "path": format!("/{i}") })).collect();
    let params =
        json!({ "toolCall": { "kind": "edit", "title": long, "locations": paths }, "options": [{ "optionId": long, "name": long }] });
    let view = present(&prompt(&params), None, &Redactor::default());
    assert_eq!((view.title.len(), view.options[0].name.len()), (4096, 4096));
    assert_eq!((view.action.truncated, view.action.full_length, view.action.paths.len()), (true, Some(1_000_000), 64));
    let command = format!("echo {} -pSECRET", "a ".repeat(40_000));
    let view = action(&json!({ "kind": "execute", "rawInput": { "command": command } }));
    assert_eq!((view.command.unwrap().len(), view.full_length), (4096, Some(command.len())));
}
