//! The set-up: folders, socket, database, kernel.

use std::path::Path;

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{AccessFlags, access};
use serde::Serialize;
use serde_json::json;

use crate::audit;
use crate::client::{Client, ClientError};
use crate::known::Agents;
use crate::paths;

/// Descriptors that a daemon with many agents wants: four an agent, and some.
const DESCRIPTORS: u64 = 4096;

/// How good something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    Ok,
    /// It works, but not all of it.
    Warn,
    /// It does not work.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// How it is.
    pub state: State,
    /// What was found, and what to do if that is not good.
    pub found: String,
}

/// Looks at everything; changes nothing, and a running daemon goes on.
pub fn setup(socket: &Path, state_dir: &Path, agents: anyhow::Result<Agents>) -> Vec<Check> {
    let folder = paths::socket_folder(socket);
    vec![
        check("socket folder", private(&folder, "it is made when a daemon starts")),
        check("daemon", daemon(socket)),
        check("state folder", private(state_dir, "it is made when a daemon starts")),
        check("database", database(state_dir)),
        check("configuration", configuration(agents)),
        check("pidfd", pidfd()),
        check("cgroup v2", cgroup()),
        check("descriptors", descriptors()),
    ]
}

fn check(name: &'static str, (state, found): (State, String)) -> Check {
    Check { name, state, found }
}

fn private(folder: &Path, if_missing: &str) -> (State, String) {
    match paths::check_private(folder) {
        Ok(()) => (State::Ok, folder.display().to_string()),
        Err(paths::FolderError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            (State::Ok, format!("{} is not there; {if_missing}", folder.display()))
        }
        Err(error) => (State::Fail, error.to_string()),
    }
}

fn daemon(socket: &Path) -> (State, String) {
    match Client::connect(socket) {
        Ok(mut client) => match client.call::<_, serde_json::Value>("control/status", &json!({})) {
            Ok(status) => (State::Ok, format!("one is running, process {}", status["pid"])),
            Err(error) => (State::Fail, format!("one listens on {} but does not answer: {error}", socket.display())),
        },
        Err(ClientError::Unreachable { .. }) => (State::Ok, "none is running; `agentctl run` starts one".into()),
        Err(error) => (State::Fail, error.to_string()),
    }
}

fn database(state_dir: &Path) -> (State, String) {
    match audit::inspect(state_dir) {
        Ok(None) => (State::Ok, "there is none yet".into()),
        Ok(Some(found)) => (State::Ok, found),
        Err(error) => (State::Fail, error.to_string()),
    }
}

fn configuration(agents: anyhow::Result<Agents>) -> (State, String) {
    match agents {
        Ok(agents) => {
            let installed: Vec<&str> = agents.iter().filter(|known| known.installed().is_some()).map(|known| known.name.as_str()).collect();
            if installed.is_empty() {
                return (State::Warn, "no agent that is known by name is installed; see `agentctl agents`".into());
            }
            (State::Ok, format!("installed agents: {}", installed.join(", ")))
        }
        Err(error) => (State::Fail, format!("{error:#}")),
    }
}

fn pidfd() -> (State, String) {
    let own = rustix::process::Pid::from_raw(std::process::id().cast_signed());
    match own.map(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())) {
        Some(Ok(_)) => (State::Ok, "the kernel has it".into()),
        _ => (State::Fail, "the kernel (5.3 or newer is needed) or a sandbox refuses pidfd_open: agents can't be held safely".into()),
    }
}

fn cgroup() -> (State, String) {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).map(|path| format!("/sys/fs/cgroup{path}"));
    match path {
        Some(path) if access(Path::new(&path).join("cgroup.procs").as_path(), AccessFlags::W_OK).is_ok() => {
            (State::Ok, format!("{path} is ours"))
        }
        Some(path) => (State::Warn, format!("{path} is not delegated to us: agents are ended without it")),
        None => (State::Warn, "there is none: agents are ended without it".into()),
    }
}

fn descriptors() -> (State, String) {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((_, hard)) if hard >= DESCRIPTORS => (State::Ok, format!("up to {hard}")),
        Ok((_, hard)) => (State::Warn, format!("only {hard}: enough for about {} agents (ulimit -Hn)", hard / 8)),
        Err(errno) => (State::Fail, errno.to_string()),
    }
}
