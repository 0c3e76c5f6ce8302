//! What commands print, and how they fail.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

use acp_bridge::presentation::{Redactor, escape_json_line, is_hidden, terminal};
use serde::Serialize;

use super::CliError;
use crate::client::ClientError;
use crate::paths;
use crate::wire::Failure;

/// Writes text to stdout. If that fails the command ends with status 1: quietly if its reader has gone away (`| head`).
pub(super) fn out(text: &str) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        if error.kind() != io::ErrorKind::BrokenPipe {
            note(&format!("agentctl: cannot write to stdout: {error}"));
        }
        std::process::exit(1);
    }
}

/// Writes a line of our own to stderr.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// How this program is called to reach the same daemon, in another terminal too.
pub(super) fn program() -> &'static str {
    PROGRAM.get().map_or("agentctl", String::as_str)
}

/// What printed commands end with: the token's file, if it is called with one.
pub(super) fn as_whom() -> &'static str {
    TOKEN_FILE.get().map_or("", String::as_str)
}

/// Remembers the token's file for [`as_whom`].
pub(super) fn set_token_file(path: &Path) {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let _ = TOKEN_FILE.set(format!(" --token-file {}", quote(&path.display().to_string())));
}

/// Remembers the socket for [`program`].
pub(super) fn set_socket(socket: &Path) {
    if socket != paths::socket(None) {
        let _ = PROGRAM.set(format!("agentctl --socket {}", quote(&socket.display().to_string())));
    }
}

static PROGRAM: OnceLock<String> = OnceLock::new();
static TOKEN_FILE: OnceLock<String> = OnceLock::new();

/// Prints a value as one line of JSON.
pub(super) fn json<T: Serialize>(value: &T) {
    out(&format!("{}\n", escape_json_line(&acp_bridge::json::to_text(value))));
}

/// A table with aligned columns; the first row is its head.
pub(super) fn table(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    out(&text);
}

/// Tells why a command failed, and with which status.
pub(super) fn report(error: &CliError, as_json: bool) -> ExitCode {
    match error {
        CliError::Client(ClientError::Failure(failure)) => {
            if as_json {
                note(&escape_json_line(&acp_bridge::json::to_text(failure)));
            } else {
                note(&format!("agentctl: {}", describe(failure)));
            }
            ExitCode::from(failure.stable_code().map_or(if failure.code == -32602 { 2 } else { 1 }, |code| code.exit_status()))
        }
        CliError::Client(error @ (ClientError::Unreachable { .. } | ClientError::Folder(_) | ClientError::Foreign { .. })) => {
            note(&format!("agentctl: {error}"));
            if matches!(error, ClientError::Unreachable { .. }) {
                note("Start it with `agentctl serve`.");
            }
            ExitCode::from(3)
        }
        CliError::Client(error) => {
            note(&format!("agentctl: {error}"));
            ExitCode::from(if matches!(error, ClientError::Broken(_)) { 3 } else { 1 })
        }
        CliError::Other(error) => {
            // It may quote a file, such as a line of the configuration.
            note(&format!("agentctl: {}", terminal(&Redactor::default().long_text(&format!("{error:#}")))));
            ExitCode::FAILURE
        }
    }
}

/// A failure for people: what happened, what is known, what to do.
pub(super) fn describe(failure: &Failure) -> String {
    let mut text = terminal(&failure.message).into_owned();
    let Some(data) = &failure.data else { return text };
    text += &format!(" [{}]", data.code.as_str());
    if let Some(end) = data.end {
        text += &format!("\n  It ended: {end}.");
    }
    if let Some(r) = &data.resolution {
        text += &format!("\n  User {} answered it through {} at {}: {}.", r.actor_user_id, r.source.as_str(), r.selected_at, r.result);
    }
    for method in &data.auth_methods {
        text += &format!("\n  It offers: {}", terminal(method.name.as_ref().unwrap_or(&method.id)));
    }
    if let Some(stderr) = &data.stderr {
        text += "\n  Its stderr (the agent's own words):";
        for line in stderr.lines() {
            text += &format!("\n    {}", terminal(line));
        }
    }
    text + &format!("\n  {}", data.hint)
}

/// A shell word.
pub(super) fn quote(word: &str) -> String {
    if !word.chars().any(is_hidden) {
        return shell_words::quote(word).into_owned();
    }
    // $'...' can say what a terminal must not show.
    let escape = |c: char| match c {
        '\'' | '\\' => format!("\\{c}"),
        c if is_hidden(c) => format!("\\U{:08x}", u32::from(c)),
        c => c.to_string(),
    };
    format!("$'{}'", word.chars().map(escape).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_are_what_a_shell_reads_back() {
        for word in ["plain-1", "", "two words", "it's", "$HOME `x`", "a\u{1b}[1m", "back\\slash\n", "\u{202e}rtl", "-x"] {
            let script = format!("printf %s {}", quote(word));
            let output = std::process::Command::new("bash").args(["-c", &script]).env("LC_ALL", "C.UTF-8").output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word, "{script}");
            assert!(!quote(word).chars().any(is_hidden));
        }
    }
}
