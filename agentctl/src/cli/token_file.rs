//! `--token-file`, of the commands that a token allows.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use nix::fcntl::OFlag;
use nix::unistd::getuid;

use super::{CliError, Global, output};
use crate::client::Client;
use crate::wire::{HelloParams, HelloResult, PROTOCOL_VERSION};

/// A secret is shorter by far.
const MOST_BYTES: u64 = 4096;

/// As whom a command calls.
#[derive(Debug, Args)]
pub(super) struct TokenFile {
    /// Call as the owner of the token in this file (mode 0600), with no more than its rights
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl TokenFile {
    /// Connects, and says by the first call who calls.
    pub(super) fn connect(&self, global: &Global) -> Result<Client, CliError> {
        let secret = self.secret()?;
        let mut client = global.connect()?;
        if let Some(secret) = secret {
            let hello = HelloParams { protocol_version: PROTOCOL_VERSION, token: Some(secret), client: Some("agentctl".into()) };
            client.call::<_, HelloResult>("control/hello", &hello)?;
        }
        Ok(client)
    }

    /// The secret, if a file was given. Printed commands name the file from then on.
    pub(super) fn secret(&self) -> anyhow::Result<Option<String>> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let secret = read(path).with_context(|| format!("cannot use the token file {}", path.display()))?;
        output::set_token_file(path);
        Ok(Some(secret))
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    // Neither a pipe nor a terminal is waited for.
    let file = OpenOptions::new().read(true).custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits()).open(path)?;
    let meta = file.metadata()?;
    ensure!(meta.is_file(), "it is no file");
    ensure!(meta.uid() == getuid().as_raw(), "it belongs to user {}, not to us", meta.uid());
    let mode = meta.mode() & 0o7777;
    ensure!(mode & 0o077 == 0, "it is open to others (mode {mode:o}); run: chmod 600 {}", output::quote(&path.display().to_string()));
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    let secret = text.trim();
    ensure!(!secret.is_empty(), "it is empty");
    Ok(secret.to_owned())
}
