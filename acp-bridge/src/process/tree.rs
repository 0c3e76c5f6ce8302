//! The end of an agent: its leader, its group, and whatever it started.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::procfs::{Process, StartTime, processes};

/// How long `end_tree` tries before it names survivors.
const TREE_WAIT: Duration = Duration::from_secs(2);

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// The first process of an agent. It is reaped only by [`end_tree`], so that its number stays its own.
#[derive(Debug)]
pub struct Leader {
    /// Its number, its session's and its group's.
    pub pid: Pid,
    /// When it started.
    pub start: StartTime,
    pidfd: OwnedFd,
}

/// Waits for the exit of a leader.
#[derive(Debug)]
pub struct ExitWatch(AsyncFd<OwnedFd>);

impl ExitWatch {
    /// Returns once it has exited.
    pub async fn exited(&self) {
        // An error of the registration says nothing about the process; its pipes still tell of its end.
        if self.0.readable().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// How processes of an agent that left its tree and session can be told: an entry of their environment.
#[derive(Debug, Clone)]
pub struct Mark(pub String);

impl Mark {
    /// The name of the entry, with its `=`.
    fn name(&self) -> &str {
        self.0.split_inclusive('=').next().unwrap_or_default()
    }
}

/// What [`end_tree`] did.
#[derive(Debug, Clone, Default)]
pub struct TreeEnd {
    /// How the leader ended, if it could be reaped.
    pub exit: Option<ExitStatus>,
    /// Pid and command line of each further process that had to be killed.
    pub killed: Vec<(i32, String)>,
    /// Pid and command line of each process that is still there.
    pub survivors: Vec<(i32, String)>,
    /// Pid and command line of each adopted orphan without any mark: of this agent or of another, so it was spared.
    pub unattributed: Vec<(i32, String)>,
}

impl Leader {
    /// Takes charge of a spawned process.
    pub fn new(pid: Pid, start: StartTime, pidfd: OwnedFd) -> Self {
        Self { pid, start, pidfd }
    }

    /// Another hold on the same process.
    ///
    /// # Errors
    /// Those of duplicating a descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { pid: self.pid, start: self.start, pidfd: self.pidfd.try_clone()? })
    }

    /// Lets its exit be waited for, within a tokio runtime.
    ///
    /// # Errors
    /// Those of registering a descriptor.
    pub fn watch(&self) -> io::Result<ExitWatch> {
        // SAFETY: the descriptor is owned by what is registered and is not replaced or closed before it.
        #[allow(unsafe_code)]
        let fd = unsafe { AsyncFd::register_with_interest(self.pidfd.try_clone()?, Interest::READABLE)? };
        Ok(ExitWatch(fd))
    }

    /// How it ended, without reaping it; `None` while it runs.
    pub fn exit(&self) -> Option<ExitStatus> {
        self.wait(WaitPidFlag::WNOWAIT)
    }

    /// Signals its process group. The number is its own until it is reaped.
    pub fn signal_group(&self, signal: Signal) {
        let _ = killpg(self.pid, signal);
    }

    fn wait(&self, flags: WaitPidFlag) -> Option<ExitStatus> {
        match waitid(Id::PIDFd(self.pidfd.as_fd()), flags | WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG) {
            Ok(WaitStatus::Exited(_, code)) => Some(ExitStatus::Code(code)),
            Ok(WaitStatus::Signaled(_, signal, _)) => Some(ExitStatus::Signal(signal as i32)),
            _ => None,
        }
    }
}

/// Kills the leader's group and everything below it, then reaps the leader.
///
/// Below it is: what descends from the leader, what descends from this process in the leader's session, and
/// orphans that this process adopted and that carry `mark`. With `also_unmarked` every adopted orphan counts
/// (for when no other agent lives).
pub async fn end_tree(leader: Leader, mark: &Mark, also_unmarked: bool) -> TreeEnd {
    let mut end = TreeEnd::default();
    let mut killed: HashSet<(Pid, u64)> = HashSet::new();
    let deadline = tokio::time::Instant::now() + TREE_WAIT;
    let mut pause = Duration::from_millis(1);
    loop {
        // Looked at before the group dies: its members' orphans would lose their ancestry.
        let members = members(&leader, mark, also_unmarked);
        for process in members.iter().filter(|p| p.pid != leader.pid) {
            // What it was can't be told any more once it is gone.
            let command_line = process.command_line();
            if kill(process) && killed.insert((process.pid, process.start.0)) {
                end.killed.push((process.pid.as_raw(), command_line));
            }
        }
        leader.signal_group(Signal::SIGKILL);
        reap_orphans();
        if leader.exit().is_some() && members.iter().all(|p| p.pid == leader.pid) {
            break;
        }
        if tokio::time::Instant::now() >= deadline {
            end.survivors = members.iter().map(|p| (p.pid.as_raw(), p.command_line())).collect();
            break;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    end.exit = leader.wait(WaitPidFlag::empty());
    end.unattributed = unattributed(mark);
    end
}

/// Adopted orphans that no mark gives to an agent.
fn unattributed(mark: &Mark) -> Vec<(i32, String)> {
    let unmarked = |p: &Process| !p.zombie && !p.has_environment_name(mark.name());
    let orphans = adopted_orphans().into_iter().filter_map(Process::read).filter(unmarked);
    orphans.map(|p| (p.pid.as_raw(), p.command_line())).collect()
}

/// The live processes of an agent, the leader included.
fn members(leader: &Leader, mark: &Mark, also_unmarked: bool) -> Vec<Process> {
    let adopted = adopted_orphans();
    let all: HashMap<Pid, Process> = processes().into_iter().map(|p| (p.pid, p)).collect();
    let belongs = |process: &Process| {
        let Some(top) = branch(&all, process) else { return false };
        if top.pid == leader.pid || process.session == leader.pid {
            return true;
        }
        let marked = |p: &Process| p.has_environment_entry(&mark.0) || (also_unmarked && !p.has_environment_name(mark.name()));
        adopted.contains(&top.pid) && (marked(top) || marked(process))
    };
    all.values().filter(|p| !p.zombie && belongs(p)).cloned().collect()
}

/// The ancestor of `process` that is a child of ours, if it descends from us.
fn branch<'a>(all: &'a HashMap<Pid, Process>, process: &'a Process) -> Option<&'a Process> {
    let ours = Pid::this();
    let mut at = process;
    // A process table read while it changes may hold a loop.
    for _ in 0..all.len() {
        if at.parent == ours {
            return Some(at);
        }
        at = all.get(&at.parent)?;
    }
    None
}

/// Children of the main thread: the kernel gives orphans to it, and agents are the spawning thread's.
fn adopted_orphans() -> HashSet<Pid> {
    let children = std::fs::read_to_string(format!("/proc/self/task/{}/children", Pid::this())).unwrap_or_default();
    children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect()
}

/// Kills exactly this process; whether it was there.
fn kill(process: &Process) -> bool {
    let Some(pid) = rustix::process::Pid::from_raw(process.pid.as_raw()) else { return false };
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    // The pidfd names whoever has the number now: that must still be the process that was looked at.
    if !Process::read(process.pid).is_some_and(|now| now.start == process.start && !now.zombie) {
        return false;
    }
    pidfd_send_signal(&pidfd, rustix::process::Signal::KILL).is_ok()
}

/// Reaps adopted orphans. Agents are children of the spawning thread and are not touched by `__WNOTHREAD`.
///
/// To be called on the main thread, which is the one that adopts.
pub fn reap_orphans() {
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WNOTHREAD)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return,
            Err(Errno::EINTR) | Ok(_) => {}
            Err(_) => return,
        }
    }
}
