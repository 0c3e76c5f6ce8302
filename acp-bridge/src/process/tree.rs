//! What is below a process, and its end.

use std::collections::HashSet;
use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::{PidfdFlags, WaitId, WaitIdOptions, WaitOptions, pidfd_open, pidfd_send_signal, waitid, waitpid};
use serde::{Deserialize, Serialize};

use super::procfs::{Process, processes};

/// Processes that a [`TreeEnd`] names in each of its lists; further ones are ended, too.
pub const NAMED: usize = 1024;

/// Looks at one that has ended, without reaping it.
const LOOK: WaitIdOptions = WaitIdOptions::EXITED.union(WaitIdOptions::NOHANG).union(WaitIdOptions::NOWAIT);

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// How an agent's tree ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeEnd {
    /// How the leader ended, if that is known.
    pub exit: Option<ExitStatus>,
    /// Pid and command line of each process that was there when the stop began and ended without being killed, the leader too.
    pub ended: Vec<(i32, String)>,
    /// Pid and command line of each process that had to be killed, but for the leader.
    pub killed: Vec<(i32, String)>,
    /// Pid and command line of each process that is still there.
    pub survivors: Vec<(i32, String)>,
}

/// Every descendant of a process, each followed by its own.
///
/// One that loses its parent while this looks may be missed: who must have all of them looks again.
pub(super) fn below(pid: Pid) -> Vec<Process> {
    let mut found = Vec::new();
    let mut seen = HashSet::from([pid]);
    let mut next = children(pid);
    while let Some(pid) = next.pop() {
        // Numbers change hands while this looks: never in circles.
        if seen.insert(pid)
            && let Some(process) = Process::read(pid)
        {
            next.extend(children(pid));
            found.push(process);
        }
    }
    found
}

/// The children of a process, over all of its threads.
pub(super) fn children(pid: Pid) -> Vec<Pid> {
    // Not every kernel has them (`CONFIG_PROC_CHILDREN`).
    static HAS_LISTS: LazyLock<bool> = LazyLock::new(|| fs::exists("/proc/thread-self/children").unwrap_or(false));
    if !*HAS_LISTS {
        return processes().into_iter().filter(|p| p.parent == pid).map(|p| p.pid).collect();
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect::<Vec<_>>()).collect()
}

/// Kills everything below this process until nothing is, and reaps it; `leader` last, after its group was signalled, so that
/// its number can't be another's meanwhile. Tries for `patience`, then names who is left.
pub(super) fn end_below(leader: Option<Pid>, patience: Duration, wait: impl Fn(Duration)) -> TreeEnd {
    let mut end = TreeEnd::default();
    let mut killed = HashSet::new();
    let mut leader = leader;
    let deadline = Instant::now() + patience;
    let mut pause = Duration::from_micros(200);
    loop {
        // Looked at before the group dies: what it was can't be told any more once it is gone.
        let found: Vec<Process> = below(Pid::this()).into_iter().filter(|p| !p.zombie).collect();
        for process in found.iter().filter(|p| Some(p.pid) != leader) {
            let command_line = process.command_line();
            if kill(process) && killed.insert((process.pid, process.start)) && end.killed.len() < NAMED {
                end.killed.push((process.pid.as_raw(), command_line));
            }
        }
        if let Some(leader) = leader {
            let _ = killpg(leader, Signal::SIGKILL);
        }
        reap_all_but(leader);
        if let Some(pid) = leader
            && let Some(exit) = exit_of(pid)
        {
            end.exit = Some(exit);
            if children(Pid::this()) == [pid] {
                let _ = waitpid(raw(pid), WaitOptions::empty());
                leader = None;
            }
        }
        // Only the kernel knows for sure.
        if leader.is_none() && !has_children() {
            return end;
        }
        if Instant::now() >= deadline {
            end.survivors = found.iter().take(NAMED).map(|p| (p.pid.as_raw(), p.command_line())).collect();
            return end;
        }
        wait(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// How a child ended, without reaping it; `None` while it runs.
pub(super) fn exit_of(child: Pid) -> Option<ExitStatus> {
    let status = waitid(WaitId::Pid(raw(child)?), LOOK).ok().flatten()?;
    let code = status.exit_status().map(ExitStatus::Code);
    code.or_else(|| status.terminating_signal().map(ExitStatus::Signal))
}

/// Whether this process has any child, ended ones that wait to be reaped too.
pub(super) fn has_children() -> bool {
    waitid(WaitId::All, LOOK).err() != Some(Errno::CHILD)
}

/// Reaps the children that have ended, but for one.
pub(super) fn reap_all_but(leader: Option<Pid>) {
    for child in children(Pid::this()).into_iter().filter(|child| Some(*child) != leader) {
        let _ = waitpid(raw(child), WaitOptions::NOHANG);
    }
}

/// Reaps a child that has ended, any; its number and whether it exited with 0. `None` if none has.
pub(super) fn reap_any() -> Option<(Pid, bool)> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Err(Errno::INTR) => {}
            reaped => {
                let (pid, status) = reaped.ok()??;
                return Some((Pid::from_raw(pid.as_raw_nonzero().get()), status.exit_status() == Some(0)));
            }
        }
    }
}

fn raw(pid: Pid) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(pid.as_raw())
}

/// Kills exactly this process; whether it was there.
pub(super) fn kill(process: &Process) -> bool {
    let Some(pid) = raw(process.pid) else { return false };
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    // The pidfd names whoever has the number now: that must still be the process that was looked at.
    if !Process::read(process.pid).is_some_and(|now| now.start == process.start && !now.zombie) {
        return false;
    }
    pidfd_send_signal(&pidfd, rustix::process::Signal::KILL).is_ok()
}
