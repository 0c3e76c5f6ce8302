//! The rows of the table.

mod answers;
mod command;
mod frames;
mod memory;
mod prompt;
mod scale;

use std::path::{Path, PathBuf};

use agentctl_tests::harness::{Conn, Daemon, agentctl};
use serde::Serialize;
use serde_json::{Value, json};

/// One line of the table.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What was measured.
    what: String,
    /// Our figure, with its unit.
    ours: String,
    /// The yardstick's.
    against: String,
    /// What is compared with the target.
    result: String,
    /// What was to be reached.
    target: String,
    /// Whether it was.
    met: bool,
    /// Every single measurement.
    raw: Value,
}

/// What rows need.
pub struct Setting<'a> {
    acpx: Option<&'a Path>,
    slow_disk: Option<&'a Path>,
}

/// A row's name, and how it is measured.
type Measure = (&'static str, fn(&Setting<'_>) -> Vec<Row>);

/// Measures and prints.
pub fn run(wanted: &[String], file: Option<&Path>, acpx: Option<&Path>, slow_disk: Option<&Path>) {
    let setting = Setting { acpx, slow_disk };
    let all: [Measure; 6] = [
        ("frames", frames::measure),
        ("prompt", prompt::measure),
        ("answers", answers::measure),
        ("command", command::measure),
        ("memory", memory::measure),
        ("scale", scale::measure),
    ];
    let mut rows = Vec::new();
    for (name, measure) in all {
        if wanted.is_empty() || wanted.iter().any(|start| name.starts_with(start.as_str())) {
            eprintln!("measuring {name} ...");
            rows.extend(measure(&setting));
        }
    }
    println!("| what | agentctl | against | result | target | met |\n| --- | --- | --- | --- | --- | --- |");
    for row in &rows {
        let met = if row.met { "yes" } else { "**no**" };
        println!("| {} | {} | {} | {} | {} | {met} |", row.what, row.ours, row.against, row.result, row.target);
    }
    if let Some(file) = file {
        let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        let all = json!({"agentctl": agentctl(), "cores": cores, "rows": rows});
        std::fs::write(file, format!("{all:#}\n")).expect("the file can be written");
    }
}

/// This binary as an agent.
fn agent() -> PathBuf {
    std::env::current_exe().expect("our binary")
}

/// Starts the agent of the benchmarks for a session.
fn start(daemon: &Daemon, conn: &mut Conn, session: &str) -> Value {
    let params = json!({"command": agent(), "args": ["agent"], "cwd": daemon.folder(), "task_id": "bench", "session_id": session});
    conn.start(params)
}

/// Sends a prompt; the number is for `reply`.
fn turn(conn: &mut Conn, session: &str, text: &str) -> u64 {
    conn.send("session/prompt", &json!({"session_id": session, "text": text}))
}
