//! The socket's path is not only ours: others clean up there.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use agentctl_tests::harness::{Agent, Daemon, until};
use nix::sys::signal::Signal;
use serde_json::json;

#[test]
fn a_socket_that_is_removed_is_made_again_and_nothing_else_notices() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    let folder = daemon.folder().join("run");
    let mcp = folder.join("mcp.sock");
    let connect = |path: &Path| until("a socket", || UnixStream::connect(path).ok());
    // The socket alone, both, the whole folder, and the folder under another name.
    fs::remove_file(daemon.socket()).expect("it is there");
    connect(&daemon.socket());
    fs::remove_file(&mcp).expect("it is there");
    fs::remove_file(daemon.socket()).expect("it is there");
    connect(&daemon.socket());
    connect(&mcp);
    let _ = fs::remove_dir_all(&folder);
    connect(&daemon.socket());
    connect(&mcp);
    fs::rename(&folder, daemon.folder().join("elsewhere")).expect("it is there");
    connect(&daemon.socket());
    connect(&mcp);
    let meta = fs::metadata(&folder).expect("it is there");
    assert_eq!(meta.permissions().mode() & 0o777, 0o700);
    // Another daemon can't take what is ours.
    let other = daemon.command(&["serve"]).env("AGENTCTL_STATE_DIR", daemon.folder().join("other")).output().expect("it runs");
    let text = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(!other.status.success() && text.contains(&format!("(pid {}) uses", daemon.pid())), "{text}");
    // The connection, the agent and its prompt are as they were.
    conn.resolve(&live[0], "allow-once").ok();
    assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
    daemon.stop();
    assert!(!folder.join("control.sock").exists() && !mcp.exists());
}

#[test]
fn what_somebody_else_puts_in_the_sockets_place_stays() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let theirs = daemon.folder().join("theirs");
    fs::write(&theirs, "mine").and_then(|()| fs::rename(&theirs, daemon.socket())).expect("they can");
    until("the report", || daemon.log().contains("something else is there now").then_some(()));
    conn.call("control/status", json!({})).ok();
    let file = daemon.socket();
    let (ended, _folder) = daemon.end(Signal::SIGTERM);
    assert!(ended.status.success(), "{}", ended.log);
    assert_eq!(fs::read_to_string(file).expect("it is there"), "mine");
}
