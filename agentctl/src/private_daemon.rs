//! A daemon of our own with a fresh state, for `replay` and `doctor`.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::client::{Client, ClientError};

const WAIT: Duration = Duration::from_secs(20);

/// Ends with this value, killed if it must be.
pub(crate) struct PrivateDaemon {
    folder: TempDir,
    process: Child,
}

impl PrivateDaemon {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("agentctl-private-").tempdir().context("cannot make a temporary folder")?;
        let log = std::fs::File::create(folder.path().join("daemon.log")).context("cannot write into the temporary folder")?;
        let process = Command::new(std::env::current_exe().context("cannot find our own binary")?)
            // However this process ends: then nobody holds its stdin any more.
            .args(["serve", "--tied", "--socket"])
            .arg(folder.path().join("run/control.sock"))
            .arg("--state-dir")
            .arg(folder.path().join("state"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start a daemon")?;
        let daemon = Self { folder, process };
        let deadline = Instant::now() + WAIT;
        while let Err(error) = daemon.connect() {
            anyhow::ensure!(Instant::now() < deadline, "the private daemon did not start ({error}): {}", daemon.log());
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(daemon)
    }

    pub(crate) fn connect(&self) -> Result<Client, ClientError> {
        Client::connect(&self.folder.path().join("run/control.sock"))
    }

    /// Ends it as an operator would.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        kill(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGTERM).context("the private daemon is gone")?;
        // Not `wait` alone, which closes its stdin: that would be another end than an operator's.
        let _stdin = self.process.stdin.take();
        let status = self.process.wait().context("cannot wait for the private daemon")?;
        anyhow::ensure!(status.success(), "the private daemon ended with {status}: {}", self.log());
        Ok(())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("daemon.log")).unwrap_or_default()
    }
}

impl Drop for PrivateDaemon {
    fn drop(&mut self) {
        // Not yet waited for, so the number is still its own; after `end` both do nothing.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
