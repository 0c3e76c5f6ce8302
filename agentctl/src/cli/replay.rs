//! `agentctl replay`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{CliError, Global};

/// Check recorded sessions: each is played as an agent under a daemon of its own, driven through the control socket,
/// and must end as recorded. Or play one on stdio.
#[derive(Debug, Args)]
pub(super) struct Replay {
    /// Speak the agent's side of this one recording on stdin and stdout
    #[arg(long)]
    as_agent: bool,
    /// Recordings, or folders of them
    #[arg(required = true, value_name = "FIXTURE")]
    fixtures: Vec<PathBuf>,
}

impl Replay {
    pub(super) fn run(self, _global: &Global) -> Result<ExitCode, CliError> {
        if self.as_agent {
            let [fixture] = self.fixtures.as_slice() else {
                return Err(anyhow::anyhow!("--as-agent plays exactly one recording").into());
            };
            return Ok(ExitCode::from(acp_bridge::fixture::play_as_agent(fixture)));
        }
        Err(anyhow::anyhow!("not yet").into())
    }
}
