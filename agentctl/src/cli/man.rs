//! `agentctl man`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, CommandFactory};

use super::{Cli, CliError, Global};

/// Write the man pages, one for each command, into a folder, for example: agentctl man ~/.local/share/man/man1
#[derive(Debug, Args)]
pub(super) struct Man {
    /// The folder; it is made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Man {
    pub(super) fn run(self, _: &Global) -> Result<ExitCode, CliError> {
        let folder = &self.folder;
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        // Its own `help` command has a page that would say less than the others.
        let command = Cli::command().disable_help_subcommand(true);
        clap_mangen::generate_to(command, folder).with_context(|| format!("cannot write into {}", folder.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}
