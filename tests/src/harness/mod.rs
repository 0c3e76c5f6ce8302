//! What the tests are written with: a daemon of their own, an independent client of its socket, the fake agent.
//!
//! Nothing here uses agentctl's own client: the socket is spoken to as a stranger would.
//!
//! Everything waits for a condition, at most [`WAIT`], and panics with what it waited for.

mod agent;
mod conn;
mod daemon;
mod editor;

use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use agent::{Agent, Log, outcome};
pub use conn::{Conn, Reply, identity, resolve_params};
pub use daemon::{Daemon, Ended};
pub use editor::{Lines, Proxied, answer, ask, piped};

/// The longest wait for anything.
pub const WAIT: Duration = Duration::from_secs(60);

/// Waits until `what` gives a value.
#[track_caller]
pub fn until<T>(waiting_for: &str, mut what: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + WAIT;
    loop {
        if let Some(value) = what() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {WAIT:?} for {waiting_for}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Every process whose command line or environment holds this text, such as the path of a test's own folder.
pub fn processes_with(text: &str) -> Vec<i32> {
    let holds = |pid: i32, file: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(text)
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| holds(*pid, "cmdline") || holds(*pid, "environ")).collect()
}

/// Rounds of a test that repeats itself: `name` in the environment, else `default`.
pub fn rounds(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Whether no process has this number, or one that has ended and waits to be reaped.
pub fn is_gone(pid: i64) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The state comes after the name, which may hold anything.
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X']))
}

/// The children of a process, by the kernel's own lists.
pub fn children(pid: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()).collect()
}

/// The parent of a process.
#[track_caller]
pub fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok()).expect("a number")
}

/// Waits until a process has ended.
#[track_caller]
pub fn await_gone(pid: &serde_json::Value) {
    let pid = pid.as_i64().expect("a pid");
    until(&format!("the end of process {pid}"), || is_gone(pid).then_some(()));
}

/// The folder of built binaries.
fn target_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    exe.ancestors().find(|dir| dir.join("deps").is_dir()).map(PathBuf::from).unwrap_or_default()
}

/// The `agentctl` under test: `$AGENTCTL_BIN`, else the one that was built beside the tests.
pub fn agentctl() -> PathBuf {
    binary("AGENTCTL_BIN", target_dir().join("agentctl"), "cargo build --workspace")
}

/// The `agentctl` with fail points: `$AGENTCTL_FAILPOINTS_BIN`, else `target/failpoints/debug/agentctl`.
pub fn agentctl_with_failpoints() -> PathBuf {
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let built_by = "cargo build -p agentctl --features failpoints --target-dir target/failpoints";
    binary("AGENTCTL_FAILPOINTS_BIN", workspace.join("target/failpoints/debug/agentctl"), built_by)
}

/// The fake agent that was built beside the tests.
pub fn fake_agent() -> PathBuf {
    binary("AGENTCTL_FAKE_AGENT_BIN", target_dir().join("fake-agent"), "cargo build --workspace")
}

fn binary(variable: &str, built: PathBuf, built_by: &str) -> PathBuf {
    let path = std::env::var_os(variable).map_or(built, PathBuf::from);
    assert!(path.is_file(), "{} is missing; build it: {built_by}", path.display());
    path
}
