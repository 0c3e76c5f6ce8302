//! The guard's own process.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{ForkResult, Pid, fork, setsid};
use rustix::net::{AddressFamily, SocketType, sockopt};

use super::message::{Report, line};
use super::{LAST_WAIT, keeper};
use crate::process::become_reaper;
use crate::process::spawn::default_signals;
use crate::process::spec::{Refusal, Told};
use crate::process::tree::{children, end_below, reap_any};

/// How long keepers have for their trees when the daemon is gone; then they are killed with them.
const KEEPERS_WAIT: Duration = Duration::from_secs(1);

/// Whether this process was started by [`Guard::start`](super::Guard::start): its stdin is the line to a daemon.
pub fn is_guard() -> bool {
    let stdin = io::stdin();
    sockopt::socket_domain(&stdin) == Ok(AddressFamily::UNIX) && sockopt::socket_type(&stdin) == Ok(SocketType::SEQPACKET)
}

/// The guard's whole life. To be called first thing in a process with one thread; ends with the daemon.
pub fn guard() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run() -> io::Result<()> {
    let _ = setsid();
    let _ = nix::sys::prctl::set_name(c"agentctl-guard");
    become_reaper()?;
    let ended = Ended::new()?;
    let daemon = io::stdin();
    let mut keepers = HashSet::new();
    loop {
        let (came, child) = ended.or_readable(daemon.as_fd())?;
        if child {
            tidy(&mut keepers);
        }
        if came {
            let mut lines = Vec::new();
            if super::line::receive(daemon.as_fd(), &mut [0; 16], &mut lines)? == 0 {
                break;
            }
            for line in lines {
                keepers.extend(make_keeper(line, &ended));
            }
        }
    }
    let patience = Instant::now() + KEEPERS_WAIT;
    while !keepers.is_empty() && Instant::now() < patience {
        ended.wait(Duration::from_millis(10));
        tidy(&mut keepers);
    }
    end_below(None, LAST_WAIT, |pause| ended.wait(pause));
    Ok(())
}

/// Forks a keeper for the line that came; what is wrong is told through it.
fn make_keeper(line_to_daemon: OwnedFd, ended: &Ended) -> Option<Pid> {
    // SAFETY: this process has one thread.
    #[allow(unsafe_code)]
    match unsafe { fork() } {
        Ok(ForkResult::Child) => keeper::keep(&line_to_daemon, ended),
        Ok(ForkResult::Parent { child }) => Some(child),
        Err(error) => {
            let refusal = Report::Refused(Refusal::System(Told::from(&io::Error::from(error))));
            let _ = super::line::send(&line_to_daemon, &line(&refusal), &[]);
            None
        }
    }
}

/// Reaps what has ended. What a keeper left behind is killed: it has become our child, so its number is its own. Its children
/// become ours when it dies, and their turn comes.
fn tidy(keepers: &mut HashSet<Pid>) {
    let mut strays = false;
    while let Some((pid, in_order)) = reap_any() {
        strays |= !keepers.remove(&pid) || !in_order;
    }
    if strays {
        for stray in children(Pid::this()).into_iter().filter(|child| !keepers.contains(child)) {
            let _ = nix::sys::signal::kill(stray, Signal::SIGKILL);
        }
    }
}

/// Tells that children have ended. No other signal does anything to its process, but for SIGKILL and SIGSTOP.
#[derive(Debug)]
pub(super) struct Ended(SignalFd);

impl Ended {
    fn new() -> io::Result<Self> {
        default_signals();
        // SAFETY: SIG_IGN is no handler.
        #[allow(unsafe_code)]
        unsafe {
            signal(Signal::SIGPIPE, SigHandler::SigIgn)?;
        }
        // A service manager signals every process of its unit: the daemon decides what that means for its agents.
        SigSet::all().thread_block()?;
        let mut child = SigSet::empty();
        child.add(Signal::SIGCHLD);
        Ok(Self(SignalFd::with_flags(&child, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    /// Waits until something can be read, or a child has ended; which of both.
    pub(super) fn or_readable(&self, line: BorrowedFd<'_>) -> io::Result<(bool, bool)> {
        let mut fds = [PollFd::new(line, PollFlags::POLLIN), PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [line, child] = fds.map(|fd| fd.any() == Some(true));
        if child {
            self.drain();
        }
        Ok((line, child))
    }

    /// Waits until a child has ended, at most so long.
    pub(super) fn wait(&self, most: Duration) {
        let timeout = rustix::event::Timespec::try_from(most).ok();
        let mut fds = [rustix::event::PollFd::new(&self.0, rustix::event::PollFlags::IN)];
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
        self.drain();
    }

    fn drain(&self) {
        while let Ok(Some(_)) = self.0.read_signal() {}
    }
}
