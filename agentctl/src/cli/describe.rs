//! `agentctl describe`.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;

use super::{CliError, Global, output};
use crate::daemon;

/// Print what `control/describe` answers. Needs no daemon.
#[derive(Debug, Args)]
pub(super) struct Describe {}

impl Describe {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        if global.json {
            output::json(&daemon::schema());
            return Ok(ExitCode::SUCCESS);
        }
        output::out(&(serde_json::to_string_pretty(&daemon::schema()).context("the schema can't be written")? + "\n"));
        Ok(ExitCode::SUCCESS)
    }
}
