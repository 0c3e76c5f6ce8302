//! The database, and the folder of the socket.

use std::fs;
use std::os::unix::net::UnixStream;
use std::process::Command;

use agentctl_tests::harness::{Daemon, agentctl, agentctl_with_failpoints, until};
use nix::sys::signal::Signal;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use super::world::{World, assert_works};
use super::{Row, Seen};

pub const ROWS: &[Row] = &[
    Row {
        fault: "database: disk full",
        promise: "an answer that can't be recorded is not sent; the prompt stays; it is answered once there is room",
        run: full,
    },
    Row { fault: "database: read-only at start", promise: "no daemon, and it says why", run: read_only_at_start },
    Row { fault: "database: read-only, and I/O errors, while it runs", promise: "as with a full disk", run: read_only },
    Row { fault: "database: locked by another program", promise: "as with a full disk; reading goes on", run: locked },
    Row { fault: "database: damaged at start", promise: "no daemon, it says why and what to do, and changes nothing", run: damaged },
    Row { fault: "database: removed while it runs", promise: "as with a full disk; the next daemon works", run: removed },
    Row {
        fault: "folder of the socket removed",
        promise: "it is there again at once; connections, agents and prompts don't notice",
        run: socket_folder,
    },
];

fn full() -> Seen {
    let mut world = World::new();
    let pid = Pid::from_raw(world.daemon.pid().as_raw());
    let before = prlimit(pid, Resource::Fsize, Rlimit { current: Some(0), maximum: None }).expect("the limit is set");
    let text = world.assert_refused();
    world.assert_refused();
    prlimit(pid, Resource::Fsize, before).expect("the limit is lifted");
    world.assert_answered("reject-once");
    world.daemon.stop();
    Seen::Kept(format!("twice `permission_audit_failed` ({text}); then answered, once"))
}

fn read_only_at_start() -> Seen {
    let daemon = Daemon::start();
    let (_, folder) = daemon.end(Signal::SIGTERM);
    let state = folder.path().join("state");
    let mount = "mount --bind \"$2\" \"$2\" && mount -o remount,bind,ro \"$2\"";
    let of = |then: &str| {
        let mut command = Command::new("unshare");
        command
            .args(["-rm", "sh", "-c", &format!("{mount} && {then}"), "sh"])
            .arg(agentctl())
            .arg(&state)
            .arg(folder.path().join("run/c.sock"));
        command.output()
    };
    if !of("true").is_ok_and(|made| made.status.success()) {
        return Seen::NotHere("needs `unshare -rm`");
    }
    let ended = of("exec \"$1\" serve --state-dir \"$2\" --socket \"$3\"").expect("it runs");
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{text}");
    assert_eq!(text.matches("Read-only file system").count(), 1, "{text}");
    Seen::Kept(format!("exit 1: {}", text.trim().replace(&folder.path().display().to_string(), "...")))
}

fn read_only() -> Seen {
    for rule in ["claim.before=1:readonly", "claim.before=1:io", "claim.before_commit=1:io"] {
        let daemon =
            Daemon::start_with(&agentctl_with_failpoints(), &[], &[("AGENTCTL_FAILPOINTS", &format!("{rule};claim.received=2:heal"))]);
        let mut world = World::of(daemon, &[], &json!([{"ask": {"id": 5}}, {"await": 5}]));
        world.assert_refused();
        world.assert_answered("reject-once");
        world.daemon.stop();
    }
    Seen::Kept("three times (by fail points) `permission_audit_failed`; then answered, once".into())
}

fn locked() -> Seen {
    let mut world = World::new();
    let other = rusqlite::Connection::open(world.daemon.database()).expect("the database opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let text = world.assert_refused();
    world.conn.call("audit/list", json!({})).ok();
    other.execute_batch("ROLLBACK").expect("the lock is given back");
    world.assert_answered("reject-once");
    world.daemon.stop();
    Seen::Kept(format!("`permission_audit_failed` ({text}), `audit/list` worked; then answered, once"))
}

fn damaged() -> Seen {
    let daemon = Daemon::start();
    let database = daemon.database();
    let (_, folder) = daemon.end(Signal::SIGTERM);
    let mut bytes = fs::read(&database).expect("it is there");
    bytes[100..4000].fill(0xa5);
    fs::write(&database, &bytes).expect("it is ours");
    let mut command = Command::new(agentctl());
    let ended =
        command.arg("serve").arg("--state-dir").arg(folder.path().join("state")).arg("--socket").arg(folder.path().join("run/c.sock"));
    let ended = ended.output().expect("it runs");
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{text}");
    assert!(text.contains("is damaged") && text.contains("move it away"), "{text}");
    assert_eq!(fs::read(&database).expect("it is there"), bytes, "it was changed");
    fs::rename(&database, folder.path().join("damaged.db")).expect("it is ours");
    let daemon = Daemon::start_in(folder, &agentctl(), &[], &[]);
    assert_works(&daemon, "new");
    daemon.stop();
    Seen::Kept("exit 1 with both; the file as it was; moved away, the next daemon started with an empty audit".into())
}

fn removed() -> Seen {
    let mut world = World::new();
    fs::remove_file(world.daemon.database()).expect("it is there");
    let text = world.assert_refused();
    let (_, folder) = world.daemon.end(Signal::SIGTERM);
    let daemon = Daemon::start_in(folder, &agentctl(), &[], &[]);
    assert_works(&daemon, "new");
    daemon.stop();
    Seen::Kept(format!("`permission_audit_failed` ({text}); the next daemon began with an empty audit"))
}

fn socket_folder() -> Seen {
    let mut world = World::new();
    let run = world.daemon.folder().join("run");
    // Its last step fails if the socket is already there again.
    let _ = fs::remove_dir_all(&run);
    until("the socket", || UnixStream::connect(world.daemon.socket()).ok());
    until("the MCP socket", || UnixStream::connect(run.join("mcp.sock")).ok());
    world.assert_answered("allow-once");
    assert_works(&world.daemon, "new");
    world.daemon.stop();
    Seen::Kept("both sockets there again; the old connection answered its prompt, a new one worked".into())
}
