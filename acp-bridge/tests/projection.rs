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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let redactor = Redactor::default();
    let mut count = 0;
    for path in files(&folder).unwrap() {
        for (prompt, view) in prompts(&Fixture::read(&path).unwrap(), &redactor) {
            let place = format!("{}: {:?}", path.display(), view.action);
            let expected = match prompt.tool_call.kind.as_deref() {
                Some("execute") => ActionType::Command,
                Some("edit") => ActionType::FileWrite,
                Some("fetch") => ActionType::Network,
                kind => panic!("{kind:?} in {place}"),
            };
            assert_eq!(view.action.action_type, expected, "{place}");
            assert!(!view.action.incomplete && !view.action.redacted && !view.action.truncated, "{place}");
            assert_eq!(Some(view.title), prompt.tool_call.title, "{place}");
            let ids = |o: &[_]| o.iter().map(|o: &acp_bridge::presentation::OptionView| o.option_id.clone()).collect::<Vec<_>>();
            assert_eq!(ids(&view.options), prompt.options.iter().map(|o| o.id.clone()).collect::<Vec<_>>());
            assert!(view.options.iter().zip(&prompt.options).all(|(shown, sent)| shown.name == sent.name), "{place}");
            count += 1;
        }
    }
    assert!(count >= 100, "{count} prompts");
}

#[test]
fn one_of_each_kind_is_told_exactly() {
    let command = |cwd: Option<&str>| {
        let mut action =
            json!({ "type": "command", "description": "echo hello > proof.txt", "command": "echo hello > proof.txt", "redacted": false });
        if let Some(cwd) = cwd {
            action["cwd"] = cwd.into();
        }
        action
    };
    let write = |title: &str| {
        json!({ "type": "file_write", "description": title, "path": "/home/dev/project/mock_written.txt",
            "diffs": { "count": 1, "lines_new": 1, "lines_old": 0 }, "redacted": false })
    };
    let fetch = |title: &str, to: &str| json!({ "type": "network", "description": title, "destination": to, "redacted": false });
    let project = Some("/home/dev/project");
    for (name, expected) in [
        ("claude/allow", command(None)),
        ("codex/allow", command(project)),
        ("codexzed/allow", command(project)),
        ("gemini/allow", command(project)),
        ("opencode/allow", command(project)),
        ("claude/write", write("Write mock_written.txt")),
        ("codex/write", write("Edit files")),
        ("codexzed/write", write("Edit /home/dev/project/mock_written.txt")),
        ("gemini/write", write("Writing to mock_written.txt")),
        ("opencode/write_reject", write("/home/dev/project/mock_written.txt")),
        (
            "gemini/fetch",
            fetch("Processing URLs and instructions from prompt: \"Read http://127.0.0.1:53707/page\"", "http://127.0.0.1:53707/page"),
        ),
        ("opencode/fetch", fetch("http://127.0.0.1:35079/page", "http://127.0.0.1:35079/page")),
    ] {
        let shown = prompts(&fixture(name), &Redactor::default());
        assert_eq!(shown.len(), 1, "{name}");
        assert_eq!(serde_json::to_value(&shown[0].1.action).unwrap(), expected, "{name}");
    }
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
