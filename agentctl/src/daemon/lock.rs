//! One daemon for one socket and one state folder.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

/// A held lock, with our pid written into its file.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held until it is dropped")] Flock<File>);

/// Why a lock is not ours.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another daemon has it.
    #[error("another agentctl daemon (pid {pid}) uses {what}")]
    Held {
        /// What is locked.
        what: PathBuf,
        /// The other daemon.
        pid: String,
    },
    /// The system says no.
    #[error("cannot lock {path}")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Lock {
    /// Locks `what` by a file beside or in it.
    ///
    /// # Errors
    /// See [`LockError`].
    pub fn take(path: &Path, what: &Path) -> Result<Self, LockError> {
        let io = |source| LockError::Io { path: path.to_owned(), source };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC)
            .open(path)
            .map_err(io)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut lock) => {
                lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(io)?;
                Ok(Self(lock))
            }
            Err((mut file, nix::errno::Errno::EWOULDBLOCK)) => {
                let mut pid = String::new();
                let _ = file.read_to_string(&mut pid);
                let pid = if pid.trim().is_empty() { "unknown".to_owned() } else { pid.trim().to_owned() };
                Err(LockError::Held { what: what.to_owned(), pid })
            }
            Err((_, errno)) => Err(io(errno.into())),
        }
    }
}
