//! The daemon's line to its guard.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::{Pid, pipe2};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;

use super::leader::Leader;
use super::line::send;
use super::message::{Order, line};
use crate::process::spec::{Limits, SpawnError, Spec};
use crate::process::tree::{end_below, reap_any};

/// A start that the guard or a keeper has not answered for so long has failed.
const START_WAIT: Duration = Duration::from_secs(30);
/// How long the guard has to end once it was let go.
const GUARD_WAIT: Duration = Duration::from_secs(1);

/// Starts agents. Dropping it ends all of them.
#[derive(Debug)]
pub struct Guard {
    process: Child,
    line: AsyncFd<OwnedFd>,
    limits: Limits,
}

/// A started agent. Dropping its leader ends it.
#[derive(Debug)]
pub struct Spawned {
    /// The agent's first process.
    pub leader: Leader,
    /// Our end of its stdin, non-blocking.
    pub stdin: OwnedFd,
    /// Our end of its stdout, non-blocking.
    pub stdout: OwnedFd,
    /// Our end of its stderr, non-blocking.
    pub stderr: OwnedFd,
}

impl Guard {
    /// Starts the guard by a command that calls [`guard`](super::guard) first thing. `limits` are what agents get.
    ///
    /// To be called within a tokio runtime, by a child subreaper that has no other children and whose thread does not end.
    ///
    /// # Errors
    /// Those of starting a process.
    pub fn start(command: &mut Command, limits: Limits) -> io::Result<Self> {
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        // Registered first: nothing can fail once it runs.
        // SAFETY: an `OwnedFd` is one open descriptor for all its life.
        #[allow(unsafe_code)]
        let line = unsafe { AsyncFd::register_with_interest(ours, Interest::WRITABLE) }?;
        command.env_clear().current_dir("/").stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { process: command.spawn()?, line, limits })
    }

    /// Its number.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().cast_signed())
    }

    /// Starts an agent.
    ///
    /// # Errors
    /// See [`SpawnError`]; nothing was started then.
    pub async fn spawn(&self, spec: Spec) -> Result<Spawned, SpawnError> {
        let late = || SpawnError::System(io::Error::new(io::ErrorKind::TimedOut, "the guard does not answer"));
        tokio::time::timeout(START_WAIT, self.try_spawn(spec)).await.map_err(|_| late())?
    }

    async fn try_spawn(&self, spec: Spec) -> Result<Spawned, SpawnError> {
        let (ours, theirs) = BlockingStream::pair()?;
        self.line.async_io(Interest::WRITABLE, |guard| send(guard, &[0], &[theirs.as_fd()])).await?;
        drop(theirs);
        ours.set_nonblocking(true)?;
        let keeper = UnixStream::from_std(ours)?;
        let pipes = [pipe2(OFlag::O_CLOEXEC), pipe2(OFlag::O_CLOEXEC), pipe2(OFlag::O_CLOEXEC)];
        let [(its_stdin, stdin), (stdout, its_stdout), (stderr, its_stderr)] = match pipes {
            [Ok(a), Ok(b), Ok(c)] => [a, b, c],
            [a, b, c] => return Err(io::Error::from(a.and(b).and(c).err().unwrap_or(nix::errno::Errno::EMFILE)).into()),
        };
        let order = line(&Order::Start(Box::new(spec), self.limits));
        let theirs = [its_stdin.as_fd(), its_stdout.as_fd(), its_stderr.as_fd()];
        let mut sent = keeper.async_io(Interest::WRITABLE, || send(&keeper, &order, &theirs)).await?;
        while sent < order.len() {
            sent += keeper.async_io(Interest::WRITABLE, || send(&keeper, &order[sent..], &[])).await?;
        }
        drop((its_stdin, its_stdout, its_stderr));
        let leader = Leader::started(keeper, self.pid()).await?;
        Ok(Spawned { leader, stdin: nonblocking(stdin)?, stdout: nonblocking(stdout)?, stderr: nonblocking(stderr)? })
    }

    /// Reaps what this process has adopted; whether the guard itself is gone, which nobody else can tell.
    ///
    /// To be called at each SIGCHLD.
    pub fn reap(&self) -> bool {
        let mut gone = false;
        while let Some((pid, _)) = reap_any() {
            gone |= pid == self.pid();
        }
        gone
    }

    /// Lets the guard go and waits for its end; it has little to do if every agent has ended. Nothing is started any more.
    pub async fn end(&self) {
        let pid = self.pid();
        let _ = rustix::net::shutdown(self.line.get_ref(), rustix::net::Shutdown::Both);
        let ended = async {
            while crate::process::Process::read(pid).is_some_and(|p| !p.zombie) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = tokio::time::timeout(GUARD_WAIT, ended).await;
    }
}

/// Kills and reaps everything below this process, which must have no guard then; pid and command line of who is left after
/// two seconds. Blocks meanwhile.
pub fn end_adopted() -> Vec<(i32, String)> {
    end_below(None, super::TREE_WAIT, std::thread::sleep).survivors
}

/// Sets `O_NONBLOCK` on our end of a pipe; the other end is another open file and keeps its flags.
fn nonblocking(fd: OwnedFd) -> io::Result<OwnedFd> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    Ok(fd)
}
