//! Spawning: own session and group, stdio pipes, nothing else inherited.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, getppid, setsid};
use rustix::process::{PidfdFlags, pidfd_open};
use tokio::sync::oneshot;

use super::procfs::{Process, StartTime};

/// What to start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// A path, or a name to be found in the `PATH` of `env`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Its working directory, absolute.
    pub cwd: PathBuf,
    /// What it has from another process than the spawning one; `None` for nothing.
    pub inherited: Option<Inherited>,
}

/// What a process hands down to its children beside environment and working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inherited {
    /// Its file mode creation mask.
    pub umask: u32,
    /// Soft and hard limit of each resource, in the order of the kernel's numbers.
    pub limits: Vec<(u64, u64)>,
}

/// The resources in the order of the kernel's numbers.
const RESOURCES: [Resource; 16] = [
    Resource::RLIMIT_CPU,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_DATA,
    Resource::RLIMIT_STACK,
    Resource::RLIMIT_CORE,
    Resource::RLIMIT_RSS,
    Resource::RLIMIT_NPROC,
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_MEMLOCK,
    Resource::RLIMIT_AS,
    Resource::RLIMIT_LOCKS,
    Resource::RLIMIT_SIGPENDING,
    Resource::RLIMIT_MSGQUEUE,
    Resource::RLIMIT_NICE,
    Resource::RLIMIT_RTPRIO,
    Resource::RLIMIT_RTTIME,
];

impl Inherited {
    /// What children of this process get. Sets the mask for a moment, so no other thread may create files meanwhile.
    ///
    /// # Errors
    /// Those of `getrlimit(2)`.
    pub fn of_this_process() -> io::Result<Self> {
        let mask = nix::sys::stat::umask(Mode::from_bits_truncate(0o077));
        nix::sys::stat::umask(mask);
        let limits = RESOURCES.iter().map(|resource| getrlimit(*resource)).collect::<nix::Result<_>>()?;
        Ok(Self { umask: mask.bits(), limits })
    }

    /// Takes it on. Async-signal-safe, and does not allocate.
    fn take_on(&self) {
        nix::sys::stat::umask(Mode::from_bits_truncate(self.umask));
        for (resource, (soft, hard)) in RESOURCES.iter().zip(&self.limits) {
            // What the lender may have and we may not: as much as we may.
            if setrlimit(*resource, *soft, *hard).is_err()
                && let Ok((_, most)) = getrlimit(*resource)
            {
                let _ = setrlimit(*resource, (*soft).min(most), (*hard).min(most));
            }
        }
    }
}

/// Resource limits that children get back after the spawning process raised its own.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Soft and hard `RLIMIT_NOFILE`.
    pub files: (rlim_t, rlim_t),
}

/// A started agent. Dropping it ends nothing.
#[derive(Debug)]
pub struct Spawned {
    /// The leader's number, which is also its session's and its group's.
    pub pid: Pid,
    /// When it started.
    pub start: StartTime,
    /// Readable when the leader has exited.
    pub pidfd: OwnedFd,
    /// Our end of its stdin, non-blocking.
    pub stdin: OwnedFd,
    /// Our end of its stdout, non-blocking.
    pub stdout: OwnedFd,
    /// Our end of its stderr, non-blocking.
    pub stderr: OwnedFd,
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// No such command.
    #[error("command {0:?} was not found")]
    CommandNotFound(String),
    /// The command is there but can't be run.
    #[error("command {0:?} can't be executed: {1}")]
    CommandNotExecutable(String, io::Error),
    /// No such folder.
    #[error("working directory {0:?} is not an existing folder (an absolute path is needed)")]
    CwdNotFound(PathBuf),
    /// The system refused.
    #[error("the agent could not be started: {0}")]
    System(#[from] io::Error),
}

/// Starts processes from one thread that lives as long as this process.
///
/// `PR_SET_PDEATHSIG` follows the thread that forked, so that thread must never end before us.
#[derive(Debug, Clone)]
pub struct Spawner {
    jobs: mpsc::Sender<Job>,
}

struct Job {
    spec: Spec,
    reply: oneshot::Sender<Result<Spawned, SpawnError>>,
}

impl Spawner {
    /// Starts the thread. `limits` are what the children get.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn new(limits: Limits) -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        std::thread::Builder::new().name("spawner".into()).stack_size(256 * 1024).spawn(move || {
            for job in queue {
                // A caller that has gone away gets nothing; its process would be nobody's.
                if !job.reply.is_closed()
                    && let Err(Ok(orphan)) = job.reply.send(spawn(&job.spec, limits))
                {
                    let _ = rustix::process::pidfd_send_signal(&orphan.pidfd, rustix::process::Signal::KILL);
                }
            }
        })?;
        Ok(Self { jobs })
    }

    /// Starts a process.
    ///
    /// # Errors
    /// See [`SpawnError`]; nothing was started then.
    pub async fn spawn(&self, spec: Spec) -> Result<Spawned, SpawnError> {
        let (reply, answer) = oneshot::channel();
        let gone = || SpawnError::System(io::Error::other("the spawning thread is gone"));
        self.jobs.send(Job { spec, reply }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

/// The file that `command` names, looked up in `path` (a `PATH` value) unless it has a slash.
///
/// # Errors
/// `CommandNotFound`, or `CommandNotExecutable` if only files that can't be run have that name.
pub fn resolve_command(command: &str, path: Option<&str>, cwd: &Path) -> Result<PathBuf, SpawnError> {
    let not_found = || SpawnError::CommandNotFound(command.to_owned());
    let candidates: Vec<PathBuf> = match command {
        "" => return Err(not_found()),
        name if name.contains('/') => vec![cwd.join(name)],
        name => path.unwrap_or("/usr/local/bin:/usr/bin:/bin").split(':').map(|dir| cwd.join(dir).join(name)).collect(),
    };
    let mut refused = None;
    for candidate in candidates {
        match std::fs::metadata(&candidate) {
            Ok(meta) if meta.is_file() => match nix::unistd::access(&candidate, nix::unistd::AccessFlags::X_OK) {
                Ok(()) => return Ok(candidate),
                Err(error) => refused = Some(error.into()),
            },
            Ok(_) => refused = Some(io::Error::other("it is not a regular file")),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.map_or_else(not_found, |error| SpawnError::CommandNotExecutable(command.to_owned(), error)))
}

fn spawn(spec: &Spec, limits: Limits) -> Result<Spawned, SpawnError> {
    if !spec.cwd.is_absolute() || !spec.cwd.is_dir() {
        return Err(SpawnError::CwdNotFound(spec.cwd.clone()));
    }
    let program = resolve_command(&spec.command, spec.env.get("PATH").map(String::as_str), &spec.cwd)?;
    let mut command = Command::new(program);
    command
        .arg0(&spec.command)
        .args(&spec.args)
        .env_clear()
        .envs(&spec.env)
        .current_dir(&spec.cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let parent = Pid::this();
    let inherited = spec.inherited.clone();
    // SAFETY: `in_child` only makes async-signal-safe system calls and does not allocate.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(move || in_child(parent, limits, inherited.as_ref()));
    }
    let mut child = command.spawn().map_err(|error| match error.kind() {
        // The file was there: its interpreter is not.
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => SpawnError::CommandNotExecutable(spec.command.clone(), error),
        _ if error.raw_os_error() == Some(nix::errno::Errno::ENOEXEC as i32) => {
            SpawnError::CommandNotExecutable(spec.command.clone(), error)
        }
        _ => SpawnError::System(error),
    })?;
    let result = adopt(&mut child);
    if result.is_err() {
        // Not yet reaped, so the number is still this child's.
        let _ = child.kill();
        let _ = child.wait();
    }
    Ok(result?)
}

fn adopt(child: &mut std::process::Child) -> io::Result<Spawned> {
    let pid = Pid::from_raw(child.id().cast_signed());
    let gone = || io::Error::other("the new process can't be looked at");
    let raw = rustix::process::Pid::from_raw(pid.as_raw()).ok_or_else(gone)?;
    let pidfd = pidfd_open(raw, PidfdFlags::NONBLOCK)?;
    let start = Process::read(pid).ok_or_else(gone)?.start;
    Ok(Spawned {
        pid,
        start,
        pidfd,
        stdin: nonblocking(child.stdin.take().ok_or_else(gone)?.into())?,
        stdout: nonblocking(child.stdout.take().ok_or_else(gone)?.into())?,
        stderr: nonblocking(child.stderr.take().ok_or_else(gone)?.into())?,
    })
}

/// Sets `O_NONBLOCK` on our end of a pipe; the other end is another open file and keeps its flags.
fn nonblocking(fd: OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlag::from_bits_retain(fcntl(fd.as_fd(), FcntlArg::F_GETFL)?);
    fcntl(fd.as_fd(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(fd)
}

/// Starts a process that outlives us: in a session of its own, with nothing inherited but its stdio.
///
/// # Errors
/// Those of the spawn.
pub fn spawn_detached(command: &mut Command) -> io::Result<std::process::Child> {
    // SAFETY: both calls are async-signal-safe and do not allocate.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(|| {
            setsid()?;
            close_others()
        });
    }
    command.spawn()
}

/// Runs in the child between fork and exec.
fn in_child(parent: Pid, limits: Limits, inherited: Option<&Inherited>) -> io::Result<()> {
    setsid()?;
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != parent {
        return Err(io::Error::from_raw_os_error(nix::errno::Errno::ESRCH as i32));
    }
    setrlimit(Resource::RLIMIT_NOFILE, limits.files.0, limits.files.1)?;
    if let Some(inherited) = inherited {
        inherited.take_on();
    }
    // Ignored signals stay ignored over an exec.
    // SAFETY: SIG_DFL is no handler.
    #[allow(unsafe_code)]
    unsafe {
        signal(Signal::SIGXFSZ, SigHandler::SigDfl)?;
        signal(Signal::SIGPIPE, SigHandler::SigDfl)?;
    }
    close_others()
}

/// Marks everything but stdio to be closed by the exec.
fn close_others() -> io::Result<()> {
    // SAFETY: the call only changes flags of descriptors; ones that Rust owns have this flag already.
    #[allow(unsafe_code)]
    let result = unsafe { nix::libc::syscall(nix::libc::SYS_close_range, 3u32, u32::MAX, nix::libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
