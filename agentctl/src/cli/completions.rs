//! `agentctl completions`.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use super::{Cli, CliError, Global, output};

/// Print the completions of a shell, for example: agentctl completions bash > ~/.local/share/bash-completion/completions/agentctl
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, _: &Global) -> Result<ExitCode, CliError> {
        let mut text = Vec::new();
        generate(self.shell, &mut Cli::command(), "agentctl", &mut text);
        output::out(&String::from_utf8_lossy(&text));
        Ok(ExitCode::SUCCESS)
    }
}
