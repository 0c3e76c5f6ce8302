//! The process at the other end of a socket, and whether it runs below this one.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, pidfd_open};

use super::procfs::Process;

/// Ancestors that are followed: a longer line is taken for one that hides something.
const ANCESTORS: usize = 256;
/// Walks that are begun anew because a process ended under way.
const WALKS: usize = 32;

/// A process that connected, held so that its number can't become another's unnoticed.
#[derive(Debug)]
pub struct PeerProcess {
    pid: Pid,
    pidfd: OwnedFd,
}

/// Where a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Not below this process, and without the mark.
    Outside,
    /// Below this process, in a session of an agent, or with the mark.
    Inside,
    /// It has ended, or `/proc` does not show it or one that it descends from.
    Unknown,
}

impl PeerProcess {
    /// Takes hold of who connected. From Linux 6.5 on exactly that process; before, whoever has its number now.
    ///
    /// # Errors
    /// It has ended, or this system can't tell.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        let pid = Pid::from_raw(getsockopt(socket, sockopt::PeerCredentials)?.pid());
        let pidfd = match getsockopt(socket, sockopt::PeerPidfd) {
            Err(Errno::ENOPROTOOPT) => {
                let number = rustix::process::Pid::from_raw(pid.as_raw()).ok_or(Errno::ESRCH)?;
                pidfd_open(number, PidfdFlags::empty())?
            }
            pidfd => pidfd?,
        };
        Ok(Self { pid, pidfd })
    }

    /// Whether it has not exited.
    pub fn is_alive(&self) -> bool {
        let mut fds = [PollFd::new(self.pidfd.as_fd(), PollFlags::POLLIN)];
        loop {
            match poll(&mut fds, PollTimeout::ZERO) {
                // A signal of ours, such as a child's end, says nothing of it.
                Err(Errno::EINTR) => {}
                polled => return polled == Ok(0),
            }
        }
    }

    /// Where it runs: by its ancestors, their sessions, and the environment at their start.
    ///
    /// An agent that left its session and lost its parents is still below this process, which adopts orphans. The mark is for
    /// what an earlier daemon left: any value of it counts but `ours`, the one that this process was started with itself.
    pub fn standing(&self, mark_name: &str, ours: Option<&str>, leaders: &[Pid]) -> Standing {
        let Some(line) = ancestry(self.pid) else { return Standing::Unknown };
        // Only now: until here the number was that of the process that connected.
        if !self.is_alive() {
            return Standing::Unknown;
        }
        // A line without end is made by somebody who has a reason.
        let us = Pid::this();
        if line.len() > ANCESTORS || line.iter().any(|p| p.pid == us || leaders.contains(&p.pid) || leaders.contains(&p.session)) {
            return Standing::Inside;
        }
        let Some(own) = has_foreign_mark(self.pid, mark_name, ours) else { return Standing::Unknown };
        // Those of other users can't be read, and are no agents of ours.
        let above = line.iter().skip(1).any(|p| has_foreign_mark(p.pid, mark_name, ours) == Some(true));
        if own || above { Standing::Inside } else { Standing::Outside }
    }
}

/// Whether the environment of a process, as it was at its start, has the mark with another value than `ours`.
fn has_foreign_mark(pid: Pid, name: &str, ours: Option<&str>) -> Option<bool> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut values = environment.split(|b| *b == 0).filter_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    Some(values.any(|value| Some(value) != ours.map(str::as_bytes)))
}

/// A process and its ancestors up to this process or the first of all; `None` if they can't be told.
fn ancestry(pid: Pid) -> Option<Vec<Process>> {
    (0..WALKS).find_map(|_| walk(Process::read(pid)?))
}

/// One walk; `None` if a process ended under way, so that its children have other parents now.
fn walk(first: Process) -> Option<Vec<Process>> {
    let us = Pid::this();
    let mut line = Vec::new();
    let mut at = first;
    while at.parent.as_raw() != 0 && at.pid != us && line.len() < ANCESTORS {
        let parent = Process::read(at.parent)?;
        // A number that was given to another meanwhile is a younger process, or no parent any more.
        if parent.start > at.start || Process::read(at.pid)?.parent != parent.pid {
            return None;
        }
        line.push(std::mem::replace(&mut at, parent));
    }
    line.push(at);
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    const MARK: &str = "A_MARK_OF_THIS_TEST";

    /// A child that holds one end of a connection of its own making, as its stdin.
    fn child(env: Option<&str>) -> (std::process::Child, PeerProcess) {
        let mut command = Command::new("sleep");
        command.arg("60").stdin(Stdio::null()).env_remove(MARK);
        if let Some(value) = env {
            command.env(MARK, value);
        }
        let child = command.spawn().unwrap();
        let number = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
        let peer = PeerProcess { pid: Pid::from_raw(child.id().cast_signed()), pidfd: pidfd_open(number, PidfdFlags::empty()).unwrap() };
        (child, peer)
    }

    #[test]
    fn the_peer_of_a_socket_is_this_process() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = PeerProcess::of(&ours).unwrap();
        assert_eq!(peer.pid, Pid::this());
        assert!(peer.is_alive());
        assert_eq!(peer.standing(MARK, None, &[]), Standing::Inside);
    }

    #[test]
    fn a_child_is_inside_and_a_dead_one_unknown() {
        let (mut child, peer) = child(None);
        assert_eq!(peer.standing(MARK, None, &[]), Standing::Inside);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!peer.is_alive());
        assert_eq!(peer.standing(MARK, None, &[]), Standing::Unknown);
    }

    #[test]
    fn any_mark_counts_but_our_own() {
        let (mut marked, peer) = child(Some("x"));
        // The environment is that of the parent until it executes.
        while fs::read_to_string(format!("/proc/{}/comm", peer.pid)).unwrap().trim() != "sleep" {}
        assert_eq!(has_foreign_mark(peer.pid, MARK, None), Some(true));
        assert_eq!(has_foreign_mark(peer.pid, MARK, Some("x")), Some(false));
        assert_eq!(has_foreign_mark(peer.pid, MARK, Some("y")), Some(true));
        assert_eq!(has_foreign_mark(peer.pid, "A_MARK_OF", None), Some(false));
        marked.kill().unwrap();
        marked.wait().unwrap();
        assert_eq!(has_foreign_mark(peer.pid, MARK, None), None);
    }

    #[test]
    fn the_line_of_ancestors_ends_with_this_process_or_the_first() {
        let up = ancestry(nix::unistd::getppid()).unwrap();
        assert_eq!(up.last().unwrap().parent.as_raw(), 0);
        assert!(up.windows(2).all(|pair| pair[0].parent == pair[1].pid));
        assert!(ancestry(Pid::from_raw(i32::MAX)).is_none());
    }
}
