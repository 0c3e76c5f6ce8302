//! `agentctl mcp`.

use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;

use super::start_daemon::connect_or_start;
use super::{CliError, Global, token_file::TokenFile};
use crate::client::{ClientError, open};
use crate::paths;
use crate::wire::{Failure, HelloParams, PROTOCOL_VERSION};

/// Serve MCP on stdio: two tools, which list and answer permission requests. This command only pumps bytes; the daemon speaks.
#[derive(Debug, Args)]
pub(super) struct Mcp {
    /// Fail if no daemon runs, instead of starting one
    #[arg(long)]
    no_start: bool,
    #[command(flatten)]
    token: TokenFile,
}

impl Mcp {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let secret = self.token.secret()?;
        connect_or_start(global, !self.no_start)?;
        let mut socket = open(&paths::mcp_socket(&global.socket()))?;
        let mut reader = BufReader::new(socket.try_clone().context("cannot use the socket")?);
        greet(&mut socket, &mut reader, secret)?;
        std::thread::spawn(move || {
            let _ = pump(&mut io::stdin().lock(), &mut socket);
            // The daemon answers what it has heard, then closes.
            let _ = socket.shutdown(Shutdown::Write);
        });
        // The end of either side is the end.
        pump(&mut reader, &mut io::stdout().lock()).context("cannot pass on what the daemon says")?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Says who calls, before the client's own first words.
fn greet(socket: &mut UnixStream, reader: &mut impl io::BufRead, token: Option<String>) -> Result<(), CliError> {
    #[derive(serde::Deserialize)]
    struct Answer {
        error: Option<Failure>,
    }
    let params = HelloParams { protocol_version: PROTOCOL_VERSION, token, client: Some("agentctl mcp".into()) };
    let line = serde_json::json!({"jsonrpc": "2.0", "id": 0, "method": "control/hello", "params": params});
    // A daemon that takes no more clients says so and closes: that is worth more than that it did not hear us.
    let written = writeln!(socket, "{line}");
    let mut line = String::new();
    let read = reader.read_line(&mut line);
    if line.is_empty() {
        written.and(read.map(drop)).map_err(ClientError::Broken)?;
    }
    if line.is_empty() {
        return Err(ClientError::Broken(io::ErrorKind::UnexpectedEof.into()).into());
    }
    let answer: Answer = serde_json::from_str(&line).map_err(ClientError::Unreadable)?;
    answer.error.map_or(Ok(()), |failure| Err(ClientError::Failure(failure).into()))
}

/// Passes on each piece as it comes.
fn pump(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut piece = vec![0; 64 * 1024];
    loop {
        let n = match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&piece[..n])?;
        to.flush()?;
    }
}
