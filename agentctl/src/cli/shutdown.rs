//! `agentctl shutdown`.

use std::process::ExitCode;

use clap::Args;

use super::{CliError, Global, output};
use crate::client::ClientError;
use crate::wire::{NoParams, ShutdownResult};

/// Stop all agents, then the daemon; returns when the daemon has ended.
#[derive(Debug, Args)]
pub(super) struct Shutdown {}

impl Shutdown {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let mut client = global.connect()?;
        let result: ShutdownResult = client.call("control/shutdown", &NoParams {})?;
        // The connection lasts as long as the daemon.
        loop {
            match client.recv() {
                Ok(_) => {}
                Err(ClientError::Broken(_)) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if global.json {
            output::json(&result);
        } else {
            output::out(&format!("stopped {} execution(s) and the daemon\n", result.stopping));
        }
        Ok(ExitCode::SUCCESS)
    }
}
