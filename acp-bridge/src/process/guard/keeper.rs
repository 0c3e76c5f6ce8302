//! A keeper's own process: the child subreaper of one agent.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::exit;

use nix::sys::signal::killpg;
use nix::unistd::{Pid, dup2_stdin};

use super::message::{Order, Report, line, take};
use super::serve::Ended;
use super::{LAST_WAIT, TREE_WAIT};
use crate::process::become_reaper;
use crate::process::procfs::{Process, is_alive};
use crate::process::spawn::spawn;
use crate::process::spec::{Refusal, SpawnError};
use crate::process::tree::{ExitStatus, NAMED, TreeEnd, below, end_below, exit_of, reap_all_but};

/// One agent, as its keeper sees it.
struct Keeper<'a> {
    /// To the daemon.
    line: &'a OwnedFd,
    ended: &'a Ended,
    leader: Pid,
    /// The leader at its start.
    began: Option<(Process, String)>,
    exit: Option<ExitStatus>,
    /// Who was there when the stop began.
    seen: Vec<(Process, String)>,
}

/// Keeps one agent until the daemon has it ended, or is gone. The exit status is 0 if nothing is left below.
pub(super) fn keep(to_daemon: &OwnedFd, ended: &Ended) -> ! {
    exit(i32::from(!run(to_daemon, ended).unwrap_or(false)))
}

fn run(to_daemon: &OwnedFd, ended: &Ended) -> io::Result<bool> {
    // The guard's line to the daemon is not ours.
    dup2_stdin(File::open("/dev/null")?)?;
    let _ = nix::sys::prctl::set_name(c"agentctl-keeper");
    become_reaper()?;
    let (mut buffer, mut stdio) = (Vec::new(), Vec::new());
    let Some(Order::Start(spec, limits)) = next(to_daemon, &mut buffer, &mut stdio)? else { return Ok(true) };
    let stdio = stdio.try_into().map_err(|_| SpawnError::System(io::Error::other("the agent's pipes did not arrive")));
    let child = match stdio.and_then(|stdio| spawn(&spec, limits, stdio)) {
        Ok(child) => child,
        Err(error) => {
            tell(to_daemon, &Report::Refused(Refusal::from(&error)));
            return Ok(true);
        }
    };
    drop(spec);
    let leader = Pid::from_raw(child.id().cast_signed());
    let began = Process::read(leader).map(|p| (p.clone(), p.command_line()));
    let identity = |pid: Pid, process: Option<&Process>| (pid.as_raw(), process.map_or(0, |p| p.start.0));
    let keeper = identity(Pid::this(), Process::read(Pid::this()).as_ref());
    tell(to_daemon, &Report::Started { keeper, leader: identity(leader, began.as_ref().map(|(process, _)| process)) });
    let mut keeper = Keeper { line: to_daemon, ended, leader, began, exit: None, seen: Vec::new() };
    keeper.serve(&mut buffer)?;
    Ok(end_below(Some(leader), LAST_WAIT, |pause| ended.wait(pause)).survivors.is_empty())
}

impl Keeper<'_> {
    /// Does what the daemon asks for, until it asks for the end or is gone.
    fn serve(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        loop {
            self.look_after();
            let (came, _) = self.ended.or_readable(self.line.as_fd())?;
            if came && !read(self.line, buffer, &mut Vec::new())? {
                return Ok(());
            }
            while let Some(order) = take(buffer) {
                match order {
                    Order::Start(..) => {}
                    Order::Look { leader } => self.look(leader),
                    // Not reaped before the end: the number is its own.
                    Order::Signal(number) => drop(nix::sys::signal::Signal::try_from(number).map(|signal| killpg(self.leader, signal))),
                    Order::End => {
                        let end = self.end();
                        let survive = !end.survivors.is_empty();
                        tell(self.line, &Report::Ended(end));
                        if !survive {
                            exit(0);
                        }
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Reaps orphans, and tells once of the leader's end.
    fn look_after(&mut self) {
        reap_all_but(Some(self.leader));
        if self.exit.is_none() {
            self.exit = exit_of(self.leader);
            if let Some(exit) = self.exit {
                tell(self.line, &Report::Exited(exit));
            }
        }
    }

    /// With the leader even if it is gone by now: stdin is closed right after this is asked for.
    fn look(&mut self, leader: bool) {
        let there = below(Pid::this()).into_iter().filter(|p| !p.zombie && p.pid != self.leader).take(NAMED);
        self.seen = self.began.iter().filter(|_| leader).cloned().collect();
        self.seen.extend(there.map(|p| (p.clone(), p.command_line())));
    }

    fn end(&mut self) -> TreeEnd {
        let mut end = end_below(Some(self.leader), TREE_WAIT, |pause| self.ended.wait(pause));
        let killed: HashSet<i32> = end.killed.iter().map(|(pid, _)| *pid).collect();
        let gone = |p: &Process| !killed.contains(&p.pid.as_raw()) && !is_alive(p.pid, p.start);
        end.ended = self.seen.drain(..).filter(|(p, _)| gone(p)).map(|(p, command)| (p.pid.as_raw(), command)).collect();
        end
    }
}

/// Waits for the next order; `None` at the end.
fn next(socket: &OwnedFd, buffer: &mut Vec<u8>, descriptors: &mut Vec<OwnedFd>) -> io::Result<Option<Order>> {
    loop {
        if let Some(order) = take(buffer) {
            return Ok(Some(order));
        }
        if !read(socket, buffer, descriptors)? {
            return Ok(None);
        }
    }
}

/// Reads more; false at the end.
fn read(socket: &OwnedFd, buffer: &mut Vec<u8>, descriptors: &mut Vec<OwnedFd>) -> io::Result<bool> {
    let mut bytes = [0; 16 * 1024];
    let n = super::line::receive(socket, &mut bytes, descriptors)?;
    buffer.extend_from_slice(&bytes[..n]);
    Ok(n > 0)
}

/// Tells the daemon, if it is still there.
fn tell(socket: &OwnedFd, report: &Report) {
    let text = line(report);
    let mut rest = &text[..];
    while !rest.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::net::send(socket, rest, rustix::net::SendFlags::NOSIGNAL)) {
            Ok(n) => rest = &rest[n..],
            Err(_) => return,
        }
    }
}
