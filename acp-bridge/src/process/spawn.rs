//! A process becomes an agent: own session and group, lent stdio, nothing else inherited.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getppid, setsid};

use super::spec::{Inherited, Limits, SpawnError, Spec, resolve_command};

/// Starts an agent as a child of this process, which must have one thread only: it dies with that.
///
/// # Errors
/// See [`SpawnError`]; nothing was started then.
pub(super) fn spawn(spec: &Spec, limits: Limits, [stdin, stdout, stderr]: [OwnedFd; 3]) -> Result<Child, SpawnError> {
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
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::from(stdout))
        .stderr(Stdio::from(stderr));
    let parent = Pid::this();
    let inherited = spec.inherited.clone();
    // SAFETY: `in_child` only makes async-signal-safe system calls and does not allocate.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(move || in_child(parent, limits, inherited.as_ref()));
    }
    command.spawn().map_err(|error| match error.kind() {
        // The file was there: its interpreter is not.
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => SpawnError::CommandNotExecutable(spec.command.clone(), error),
        _ if error.raw_os_error() == Some(nix::errno::Errno::ENOEXEC as i32) => {
            SpawnError::CommandNotExecutable(spec.command.clone(), error)
        }
        _ => SpawnError::System(error),
    })
}

/// Starts a process that outlives us: in a session of its own, with nothing inherited but its stdio.
///
/// # Errors
/// Those of the spawn.
pub fn spawn_detached(command: &mut Command) -> io::Result<Child> {
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
    default_signals();
    // Only now: what is pending would act by the keeper's rules.
    SigSet::empty().thread_set_mask()?;
    close_others()
}

/// Every signal acts as if nobody had ever changed it: ignored ones would stay ignored over an exec (those of a daemon that
/// was started by `nohup` or as a background job). Async-signal-safe.
pub(super) fn default_signals() {
    // By the kernel's call: the C library keeps two signals for itself, which a parent may have ignored all the same.
    // An action of zeros is SIG_DFL; the kernel's set of signals has eight bytes.
    let action = [0u64; 8];
    for number in 1..=nix::libc::SIGRTMAX() {
        // SAFETY: SIG_DFL is no handler, and `action` is longer than what is read. SIGKILL and SIGSTOP are refused, without harm.
        #[allow(unsafe_code)]
        unsafe {
            nix::libc::syscall(nix::libc::SYS_rt_sigaction, number, action.as_ptr(), std::ptr::null::<u64>(), 8usize);
        }
    }
}

/// Marks everything but stdio to be closed by the exec.
fn close_others() -> io::Result<()> {
    // SAFETY: the call only changes flags of descriptors; ones that Rust owns have this flag already.
    #[allow(unsafe_code)]
    let result = unsafe { nix::libc::syscall(nix::libc::SYS_close_range, 3u32, u32::MAX, nix::libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
