//! `agentctl serve`.

use std::process::ExitCode;
use std::time::Duration;

use acp_bridge::frame::DEFAULT_FRAME_CAP;
use clap::Args;

use super::{CliError, Global};
use crate::daemon::{self, Options, Settings};
use crate::limits;

/// Run the daemon in the foreground. SIGTERM stops all agents, then it.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Live executions at once; a further start fails with `limit_reached`
    #[arg(long, value_name = "N", default_value_t = limits::MAX_EXECUTIONS as u64, value_parser = clap::value_parser!(u64).range(1..))]
    max_executions: u64,
    /// Seconds for an agent's answer to `initialize`, and then to `session/new`
    #[arg(long, value_name = "SECONDS", default_value_t = limits::INITIALIZE_WAIT.as_secs(), value_parser = clap::value_parser!(u64).range(1..))]
    initialize_timeout: u64,
    /// Bytes of one frame of an agent; a longer one is dropped and reported
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_FRAME_CAP)]
    max_frame_bytes: usize,
    /// End with stdin, a pipe that the parent holds
    #[arg(long, hide = true)]
    tied: bool,
}

impl Serve {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let filter = tracing_subscriber::EnvFilter::try_from_env("AGENTCTL_LOG").unwrap_or_else(|_| "info,rmcp=off".into());
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(false)
            .with_target(false)
            // A line that can't be written (a full disk, a reader that has gone) is lost. Told on stderr, which does not
            // work either, it would be a panic wherever that line was logged.
            .log_internal_errors(false)
            .init();
        daemon::serve(Options {
            socket: global.socket(),
            state_dir: global.state_dir(),
            tied: self.tied,
            settings: Settings {
                max_executions: usize::try_from(self.max_executions).unwrap_or(usize::MAX),
                initialize_wait: Duration::from_secs(self.initialize_timeout),
                frame_cap: self.max_frame_bytes,
            },
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
