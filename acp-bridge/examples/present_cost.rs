//! Prints what presenting a prompt costs: `cargo run --release -p acp-bridge --example present_cost`.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Instant;

use acp_bridge::presentation::{Redactor, present, warm_up};
use acp_bridge::prompt::Prompt;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

fn prompt(kind: &str, title: &str, raw_input: &Value) -> Prompt {
    let params = json!({
        "toolCall": { "toolCallId": "c", "kind": kind, "title": title, "rawInput": raw_input, "locations": [{ "path": "/home/dev/project/a.txt" }] },
        "options": [
            { "optionId": "allow", "name": "Yes, proceed", "kind": "allow_once" },
            { "optionId": "always", "name": format!("Yes, and don't ask again for commands that start with `{title}`"), "kind": "allow_always" },
            { "optionId": "reject", "name": "No, and tell the agent what to do differently", "kind": "reject_once" },
        ],
    });
    Prompt::read(Some(&to_raw_value(&params).unwrap())).unwrap()
}

fn main() {
    let start = Instant::now();
    warm_up();
    println!("warm_up: {:?}", start.elapsed());
    let start = Instant::now();
    warm_up();
    println!("warm_up again: {:?}", start.elapsed());

    let names: Vec<String> = (0..20).map(|i| format!("SERVICE_{i}_TOKEN")).collect();
    let values: Vec<String> = (0..20).map(|i| format!("value-of-secret-{i}")).collect();
    let redactor = Redactor::new(names.iter().map(String::as_str).zip(values.iter().map(String::as_str)));
    let command = "cargo test -p acp-bridge --lib 'presentation::tests' && git status --short > out.txt";
    let secret = format!("curl -H 'Authorization: Bearer {}' https://example.com/a?token=abc", "x1".repeat(20));
    let long = format!("cat > a.py <<'EOF'\n{}EOF\n", "print(\"it's a line of a file\", 'x' * 3)\n".repeat(100));
    for (name, prompt) in [
        ("first", prompt("execute", command, &json!({ "command": command, "cwd": "/home/dev/project" }))),
        ("command", prompt("execute", command, &json!({ "command": command, "cwd": "/home/dev/project" }))),
        ("command with secrets", prompt("execute", &secret, &json!({ "command": secret, "cwd": "/home/dev/project" }))),
        ("command of 4 KB", prompt("execute", "Write a file", &json!({ "command": long, "cwd": "/home/dev/project" }))),
        ("edit", prompt("edit", "Write a.txt", &json!({ "file_path": "/home/dev/project/a.txt", "content": "x\n".repeat(1000) }))),
    ] {
        let rounds = if name == "first" { 1 } else { 5_000 };
        let start = Instant::now();
        for _ in 0..rounds {
            std::hint::black_box(present(std::hint::black_box(&prompt), None, &redactor));
        }
        println!("present, {name}: {:?}", start.elapsed() / rounds);
    }
}
