//! An agent's first process, and the tree that it began, as the daemon sees them: through their keeper.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use parking_lot::Mutex;
use tokio::net::UnixStream;

use super::TREE_WAIT;
use super::message::{Order, Report, line, take};
use crate::process::procfs::{Process, StartTime, is_alive};
use crate::process::spec::SpawnError;
use crate::process::tree::{ExitStatus, TreeEnd, below, children, kill};

/// How much longer than its own wait a keeper has for its report; one that is stopped or hangs is killed then.
const REPORT_WAIT: Duration = Duration::from_secs(1);
/// How long the guard has for what a killed keeper left.
const STRAYS_WAIT: Duration = Duration::from_secs(1);

/// The first process of an agent. When the last clone is dropped its tree is ended.
#[derive(Debug, Clone)]
pub struct Leader {
    /// Its number, its session's and its group's. It stays its own until the tree has ended.
    pub pid: Pid,
    /// When it started.
    pub start: StartTime,
    /// What is below its keeper.
    pub tree: Tree,
    /// What adopts the tree of a killed keeper.
    guard: Pid,
    keeper: Arc<Line>,
}

/// The tree of an agent: what is below its keeper. Naming it keeps nothing alive.
#[derive(Debug, Clone, Copy)]
pub struct Tree {
    keeper: Pid,
    start: StartTime,
}

/// A process of a tree, at the moment it was looked at.
#[derive(Debug, Clone)]
pub struct TreeProcess {
    /// Its number.
    pub pid: Pid,
    /// Its parent, or the leader's keeper.
    pub parent: Pid,
    /// Resident memory in bytes, what it shares with others too.
    pub resident: u64,
    /// Its command line, at most 160 characters.
    pub command_line: String,
}

/// Waits for the exit of a leader.
#[derive(Debug)]
pub struct ExitWatch(Leader);

#[derive(Debug)]
struct Line {
    stream: UnixStream,
    heard: Mutex<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    buffer: Vec<u8>,
    started: Option<((i32, u64), (i32, u64))>,
    refused: Option<SpawnError>,
    exit: Option<ExitStatus>,
    end: Option<TreeEnd>,
    /// The keeper is gone.
    closed: bool,
}

impl Leader {
    /// Waits until a keeper has started its agent.
    pub(super) async fn started(stream: UnixStream, guard: Pid) -> Result<Self, SpawnError> {
        let keeper = Arc::new(Line { stream, heard: Mutex::default() });
        keeper.hear(|heard| heard.started.is_some() || heard.refused.is_some()).await;
        let (started, refused) = {
            let mut heard = keeper.heard.lock();
            (heard.started, heard.refused.take())
        };
        let gone = || SpawnError::System(io::Error::other("the guard is gone, or was ended while it started the agent"));
        let ((keeper_pid, keeper_start), (pid, start)) = started.ok_or_else(|| refused.unwrap_or_else(gone))?;
        let tree = Tree { keeper: Pid::from_raw(keeper_pid), start: StartTime(keeper_start) };
        Ok(Self { pid: Pid::from_raw(pid), start: StartTime(start), tree, guard, keeper })
    }

    /// Lets its exit be waited for.
    pub fn watch(&self) -> ExitWatch {
        ExitWatch(self.clone())
    }

    /// How it ended; `None` while it runs, or if its keeper was killed.
    pub fn exit(&self) -> Option<ExitStatus> {
        self.keeper.heard.lock().exit
    }

    /// Whether the tree is nobody's any more: its keeper was killed, and the guard kills what it kept.
    pub fn is_abandoned(&self) -> bool {
        let heard = self.keeper.heard.lock();
        heard.closed && heard.end.is_none()
    }

    /// Lets the report of the end name who is there now.
    pub fn look(&self) {
        self.keeper.tell(&Order::Look { leader: self.exit().is_none() });
    }

    /// Signals its process group.
    pub fn signal_group(&self, signal: Signal) {
        self.keeper.tell(&Order::Signal(signal as i32));
    }

    /// Kills the whole tree, at most for some seconds. To be called once.
    pub async fn end(&self) -> TreeEnd {
        self.keeper.tell(&Order::End);
        let told = self.keeper.hear(|heard| heard.end.is_some());
        if tokio::time::timeout(TREE_WAIT + REPORT_WAIT, told).await.is_err() {
            self.tree.kill_keeper();
        }
        if let Some(end) = self.keeper.heard.lock().end.take() {
            return end;
        }
        // The leader died with its keeper, and the guard kills the rest.
        let deadline = tokio::time::Instant::now() + STRAYS_WAIT;
        while !self.left().is_empty() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let survivors = self.left().into_iter().map(|p| (p.pid.as_raw(), p.command_line())).collect();
        TreeEnd { exit: self.exit(), survivors, ..TreeEnd::default() }
    }

    /// The leader, and what the guard has adopted and not yet reaped, of this tree or of another whose keeper was killed.
    ///
    /// Keepers share the guard's session, which no process of an agent can join: whatever else is its child, is adopted.
    fn left(&self) -> Vec<Process> {
        let adopted = |p: &Process| p.session != self.guard && p.parent == self.guard;
        let leader = Process::read(self.pid).filter(|p| p.start == self.start && !p.zombie);
        let strays = children(self.guard).into_iter().filter_map(Process::read).filter(adopted);
        leader.into_iter().chain(strays.filter(|p| p.pid != self.pid)).collect()
    }
}

impl Tree {
    /// Who is in it now, each followed by its children. Reads `/proc`: not for the reactor's thread.
    pub fn processes(&self) -> Vec<TreeProcess> {
        if !is_alive(self.keeper, self.start) {
            return Vec::new();
        }
        let there = below(self.keeper).into_iter().filter(|p| !p.zombie);
        there.map(|p| TreeProcess { pid: p.pid, parent: p.parent, resident: p.resident(), command_line: p.command_line() }).collect()
    }

    fn kill_keeper(&self) {
        if let Some(keeper) = Process::read(self.keeper).filter(|p| p.start == self.start) {
            kill(&keeper);
        }
    }
}

impl ExitWatch {
    /// Returns once it has exited, or its keeper is gone.
    pub async fn exited(&self) {
        self.0.keeper.hear(|heard| heard.exit.is_some()).await;
    }
}

impl Line {
    /// Waits until something was heard, or nothing can be any more.
    async fn hear(&self, enough: impl Fn(&Heard) -> bool) {
        loop {
            {
                let mut heard = self.heard.lock();
                heard.read(&self.stream);
                if heard.closed || enough(&heard) {
                    return;
                }
            }
            if self.stream.readable().await.is_err() {
                self.heard.lock().closed = true;
            }
        }
    }

    /// A keeper that doesn't read has more to answer than fits: it is killed in the end.
    fn tell(&self, order: &Order) {
        let _ = self.stream.try_write(&line(order));
    }
}

impl Heard {
    /// Reads what there is.
    fn read(&mut self, stream: &UnixStream) {
        let mut bytes = [0; 4096];
        while !self.closed {
            match stream.try_read(&mut bytes) {
                Ok(0) => self.closed = true,
                Ok(n) => self.buffer.extend_from_slice(&bytes[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.closed = true,
            }
        }
        while let Some(report) = take(&mut self.buffer) {
            match report {
                Report::Started { keeper, leader } => self.started = Some((keeper, leader)),
                Report::Refused(refusal) => self.refused = Some(refusal.into()),
                Report::Exited(exit) => self.exit = Some(exit),
                Report::Ended(end) => self.end = Some(end),
            }
        }
    }
}
