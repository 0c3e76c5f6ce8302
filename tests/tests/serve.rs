//! How a daemon starts: folders, sockets, locks.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use agentctl_tests::harness::{Conn, Daemon, agentctl};
use nix::sys::signal::Signal;
use serde_json::json;

/// A daemon that must not start: it ends by itself.
fn refused(socket: &Path, state: &Path) -> Output {
    let output = Command::new(agentctl())
        .arg("serve")
        .arg("--socket")
        .arg(socket)
        .arg("--state-dir")
        .arg(state)
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    output
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).permissions().mode() & 0o777
}

fn says(output: &Output, text: &str) -> bool {
    String::from_utf8_lossy(&output.stderr).contains(text)
}

#[test]
fn socket_and_state_are_closed_to_others() {
    let daemon = Daemon::start();
    assert_eq!(mode(&daemon.socket()), 0o600);
    assert_eq!(mode(&daemon.folder().join("run")), 0o700);
    assert_eq!(mode(&daemon.folder().join("state")), 0o700);
    for entry in fs::read_dir(daemon.folder().join("state")).expect("a folder") {
        let path = entry.expect("an entry").path();
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
    let socket = daemon.socket();
    daemon.stop();
    assert!(!socket.exists());
}

#[test]
fn a_folder_that_is_open_or_a_link_or_none_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("open")).expect("a folder");
    fs::set_permissions(at("open"), fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::create_dir(at("real")).expect("a folder");
    fs::set_permissions(at("real"), fs::Permissions::from_mode(0o700)).expect("a mode");
    symlink(at("real"), at("link")).expect("a link");
    fs::write(at("file"), "").expect("a file");
    for (name, why) in [("open", "755"), ("link", "link"), ("file", "not a folder")] {
        let output = refused(&at(name).join("control.sock"), &at("state"));
        assert!(says(&output, name) && (says(&output, why) || says(&output, "Not a directory")), "{output:?}");
        let output = refused(&at("run/control.sock"), &at(name));
        assert!(says(&output, name), "{output:?}");
    }
    assert_eq!(mode(&at("open")), 0o755, "it was changed");
    assert_eq!(fs::read_dir(at("open")).expect("a folder").count(), 0);
    assert_eq!(fs::read_dir(at("real")).expect("a folder").count(), 0);
}

#[test]
fn what_is_no_socket_is_never_replaced() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = dir.path().join("run");
    fs::create_dir(&run).expect("a folder");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).expect("a mode");
    fs::write(run.join("control.sock"), "precious").expect("a file");
    let output = refused(&run.join("control.sock"), &dir.path().join("state"));
    assert!(says(&output, "control.sock"), "{output:?}");
    assert_eq!(fs::read_to_string(run.join("control.sock")).expect("it is there"), "precious");

    fs::write(dir.path().join("target"), "precious").expect("a file");
    symlink(dir.path().join("target"), run.join("link.sock")).expect("a link");
    refused(&run.join("link.sock"), &dir.path().join("state"));
    // Nor is what a link in the place of the lock points to.
    symlink(dir.path().join("target"), run.join("other.sock.lock")).expect("a link");
    refused(&run.join("other.sock"), &dir.path().join("state"));
    assert_eq!(fs::read_to_string(dir.path().join("target")).expect("it is there"), "precious");
}

#[test]
fn a_second_daemon_names_the_first_and_changes_nothing() {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let pid = daemon.pid().to_string();
    let output = refused(&daemon.socket(), &daemon.folder().join("other-state"));
    assert!(says(&output, &pid), "{output:?}");
    let output = refused(&daemon.folder().join("other-run/control.sock"), &daemon.folder().join("state"));
    assert!(says(&output, &pid), "{output:?}");
    conn.call("control/status", json!({})).ok();
    daemon.connect().call("control/status", json!({})).ok();
    daemon.stop();
}

#[test]
fn two_daemons_that_start_at_once_are_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let socket = dir.path().join("run/control.sock");
    let mut all: Vec<_> = (0..6)
        .map(|_| {
            Command::new(agentctl())
                .arg("serve")
                .arg("--socket")
                .arg(&socket)
                .arg("--state-dir")
                .arg(dir.path().join("state"))
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("it starts")
        })
        .collect();
    let left = agentctl_tests::harness::until("all but one to end", || {
        let left: Vec<u32> = all.iter_mut().filter_map(|d| matches!(d.try_wait(), Ok(None)).then(|| d.id())).collect();
        (left.len() == 1 && std::os::unix::net::UnixStream::connect(&socket).is_ok()).then(|| left[0])
    });
    let mut conn = Conn::open(&socket);
    assert_eq!(conn.call("control/status", json!({})).ok()["pid"], left);
    conn.call("control/shutdown", json!({})).ok();
    for daemon in &mut all {
        let ours = daemon.id() == left;
        assert_eq!(daemon.wait().expect("its end").code(), Some(i32::from(!ours)));
    }
}

#[test]
fn the_socket_of_a_killed_daemon_is_replaced() {
    let daemon = Daemon::start();
    let socket = daemon.socket();
    let (_, folder) = daemon.end(Signal::SIGKILL);
    assert!(folder.path().join("run/control.sock").exists(), "{}", socket.display());
    let daemon = Daemon::start_in(folder, &agentctl(), &[], &[]);
    daemon.connect().call("control/status", json!({})).ok();
    assert_eq!(mode(&daemon.socket()), 0o600);
    daemon.stop();
}

#[test]
fn an_agent_never_sees_the_socket_or_our_variables() {
    let env = [("AGENTCTL_LOG", "info"), ("NOTIFY_SOCKET", "/nowhere"), ("LISTEN_FDS", "0"), ("OTHER_VARIABLE", "seen")];
    let daemon = Daemon::start_with(&agentctl(), &[], &env);
    let mut conn = daemon.connect();
    let agent = agentctl_tests::harness::Agent::start(&daemon, &mut conn, "s", &[]);
    let names = ["AGENTCTL_LOG", "AGENTCTL_SOCKET", "NOTIFY_SOCKET", "LISTEN_FDS", "OTHER_VARIABLE", "AGENTCTL_EXECUTION_ID"];
    let steps: Vec<_> = names.iter().map(|name| json!({"env": name})).collect();
    let turn = agent.prompt(&mut conn, &json!(steps));
    conn.reply(turn).ok();
    let values: Vec<_> = agent.log.entries().into_iter().filter(|e| e.get("env").is_some()).map(|e| e["value"].clone()).collect();
    let id = agent.started["execution_id"].clone();
    assert_eq!(values, [json!(null), json!(null), json!(null), json!(null), json!("seen"), id]);
    daemon.stop();
}
