//! A daemon of a test's own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::conn::Conn;
use super::{agentctl, until};

/// A running `agentctl serve` with a fresh socket and state. Dropping it kills it.
pub struct Daemon {
    folder: TempDir,
    binary: PathBuf,
    process: Child,
}

/// How a daemon ended.
#[derive(Debug)]
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// How long that took, from the signal on.
    pub took: std::time::Duration,
    /// Everything that it logged.
    pub log: String,
}

impl Daemon {
    /// Starts one.
    pub fn start() -> Self {
        Self::start_with(&agentctl(), &[], &[])
    }

    /// Starts one of a binary, with further arguments and environment.
    pub fn start_with(binary: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::start_in(tempfile::tempdir().expect("a temporary folder"), binary, args, env)
    }

    /// Starts one in the folder of an earlier one.
    pub fn start_in(folder: TempDir, binary: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.path().join("log")).expect("a log file");
        let process = Command::new(binary)
            .arg("serve")
            .arg("--socket")
            .arg(folder.path().join("run/control.sock"))
            .arg("--state-dir")
            .arg(folder.path().join("state"))
            .args(args)
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("agentctl starts");
        let mut daemon = Self { folder, binary: binary.to_owned(), process };
        until("the daemon to listen", || {
            if let Ok(Some(status)) = daemon.process.try_wait() {
                panic!("the daemon ended at its start with {status}: {}", daemon.log());
            }
            std::os::unix::net::UnixStream::connect(daemon.socket()).ok()
        });
        daemon
    }

    /// A new connection.
    pub fn connect(&self) -> Conn {
        Conn::open(&self.socket())
    }

    /// Its control socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("run/control.sock")
    }

    /// Its folder: `run`, `state`, `log`, and room for a test's own files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its database.
    pub fn database(&self) -> PathBuf {
        self.folder.path().join("state/audit.db")
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().cast_signed())
    }

    /// Its guard, which has been there since before it listened.
    pub fn guard(&self) -> Pid {
        let children = super::children(self.pid().as_raw());
        assert_eq!(children.len(), 1, "a daemon has one child: {children:?}");
        Pid::from_raw(children[0])
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// A command of the same binary, for this daemon.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.env("AGENTCTL_SOCKET", self.socket()).env("AGENTCTL_STATE_DIR", self.folder.path().join("state")).args(args);
        command.stdin(Stdio::null());
        command
    }

    /// Waits until it has ended by itself.
    pub fn wait(mut self) -> (Ended, TempDir) {
        let begun = Instant::now();
        let status = until("the daemon's end", || self.process.try_wait().ok().flatten());
        let ended = Ended { status, took: begun.elapsed(), log: self.log() };
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().expect("a temporary folder"));
        (ended, folder)
    }

    /// Ends it by a signal and waits.
    pub fn end(self, signal: Signal) -> (Ended, TempDir) {
        kill(self.pid(), signal).expect("the daemon is there");
        self.wait()
    }

    /// Ends it cleanly; panics if it does not end so.
    #[track_caller]
    pub fn stop(self) {
        let (ended, _folder) = self.end(Signal::SIGTERM);
        assert!(ended.status.success(), "{:?}: {}", ended.status, ended.log);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Not yet waited for, so the number is its own; after `wait` both do nothing.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
