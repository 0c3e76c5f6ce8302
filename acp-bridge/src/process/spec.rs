//! What is to be started, and why it can't be.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::stat::Mode;
use serde::{Deserialize, Serialize};

/// What to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spec {
    /// A path, or a name to be found in the `PATH` of `env`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Its working directory, absolute.
    pub cwd: PathBuf,
    /// What it has from another process than the guard; `None` for nothing.
    pub inherited: Option<Inherited>,
}

/// What a process hands down to its children beside environment and working directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    pub(super) fn take_on(&self) {
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

/// Resource limits that agents get back after the daemon raised its own.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Limits {
    /// Soft and hard `RLIMIT_NOFILE`.
    pub files: (rlim_t, rlim_t),
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

/// A [`SpawnError`] on its way from the process that met it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Refusal {
    NotFound(String),
    NotExecutable(String, Told),
    NoFolder(PathBuf),
    System(Told),
}

/// An error of the system, by its number if it has one.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Told {
    number: Option<i32>,
    text: String,
}

impl From<&io::Error> for Told {
    fn from(error: &io::Error) -> Self {
        Self { number: error.raw_os_error(), text: error.to_string() }
    }
}

impl From<Told> for io::Error {
    fn from(told: Told) -> Self {
        told.number.map_or_else(|| Self::other(told.text), Self::from_raw_os_error)
    }
}

impl From<&SpawnError> for Refusal {
    fn from(error: &SpawnError) -> Self {
        match error {
            SpawnError::CommandNotFound(command) => Self::NotFound(command.clone()),
            SpawnError::CommandNotExecutable(command, error) => Self::NotExecutable(command.clone(), error.into()),
            SpawnError::CwdNotFound(cwd) => Self::NoFolder(cwd.clone()),
            SpawnError::System(error) => Self::System(error.into()),
        }
    }
}

impl From<Refusal> for SpawnError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound(command) => Self::CommandNotFound(command),
            Refusal::NotExecutable(command, error) => Self::CommandNotExecutable(command, error.into()),
            Refusal::NoFolder(cwd) => Self::CwdNotFound(cwd),
            Refusal::System(error) => Self::System(error.into()),
        }
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
