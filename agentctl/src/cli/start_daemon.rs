//! A daemon for commands that need one and find none.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use acp_bridge::process::spawn_detached;
use anyhow::Context as _;

use super::{CliError, Global, output};
use crate::client::{Client, ClientError};
use crate::paths;

const WAIT: Duration = Duration::from_secs(10);

/// Connects to the daemon, starting one if none runs.
pub(super) fn connect_or_start(global: &Global, may_start: bool) -> Result<Client, CliError> {
    match global.connect() {
        Err(ClientError::Unreachable { .. }) if may_start => {}
        outcome => return Ok(outcome?),
    }
    let state_dir = global.state_dir();
    paths::make_private(&state_dir).map_err(anyhow::Error::from)?;
    let log_path = state_dir.join("daemon.log");
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&log_path)
        .with_context(|| format!("cannot open {}", log_path.display()))?;
    let mut command = Command::new(std::env::current_exe().context("cannot find our own binary")?);
    command.arg("serve").arg("--socket").arg(global.socket()).arg("--state-dir").arg(&state_dir);
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let mut daemon = spawn_detached(&mut command).context("cannot start the daemon")?;
    let deadline = Instant::now() + WAIT;
    loop {
        match global.connect() {
            Err(ClientError::Unreachable { source, socket }) => {
                // Another command may have been faster: its daemon is as good.
                let gone = daemon.try_wait().ok().flatten().is_some_and(|status| !status.success());
                if Instant::now() > deadline || (gone && !other_daemon(global)) {
                    output::note(&format!("The daemon did not start; see {}.", log_path.display()));
                    return Err(ClientError::Unreachable { source, socket }.into());
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            outcome => return Ok(outcome?),
        }
    }
}

/// Whether somebody else holds the socket's lock.
fn other_daemon(global: &Global) -> bool {
    let mut path = global.socket().into_os_string();
    path.push(".lock");
    let Ok(file) = std::fs::File::open(path) else { return false };
    nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockSharedNonblock).is_err()
}
