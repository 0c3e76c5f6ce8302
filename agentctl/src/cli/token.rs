//! `agentctl token create|list|revoke`.

use std::process::ExitCode;

use acp_bridge::presentation::terminal;
use anyhow::Context as _;
use clap::{Args, Subcommand};
use jiff::{Span, Timestamp, tz::TimeZone};

use super::{CliError, Global, output};
use crate::domain::timestamp_text;
use crate::wire::{NoParams, TokenCreateParams, TokenCreateResult, TokenListResult, TokenRevokeParams, TokenRevokeResult};

/// Let other owners in: a token gives one owner's rights to list, answer and cancel permission requests, and to see audit and
/// events; never to start, prompt or stop an agent.
#[derive(Debug, Subcommand)]
pub(super) enum Token {
    /// Make a token and print its secret, this once
    Create(Create),
    /// List tokens, never their secrets
    List(List),
    /// End a token at once, also on open connections
    Revoke(Revoke),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// Whose rights it gives: the `owner` for whom executions are started
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    owner: String,
    /// When it ends: a span such as 30d, 12h or 1y, or a time such as 2030-01-01T00:00:00Z [default: never]
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct List {}

#[derive(Debug, Args)]
pub(super) struct Revoke {
    /// The token's id, as listed
    #[arg(value_name = "ID")]
    token: String,
}

impl Token {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        match self {
            Self::Create(create) => create.run(global),
            Self::List(list) => list.run(global),
            Self::Revoke(revoke) => revoke.run(global),
        }
    }
}

impl Create {
    fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let expires_at = self.expires.as_deref().map(expiry).transpose()?.map(timestamp_text);
        let made: TokenCreateResult = global.connect()?.call("token/create", &TokenCreateParams { owner: self.owner, expires_at })?;
        if global.json {
            output::json(&made);
            return Ok(ExitCode::SUCCESS);
        }
        output::note(&format!(
            "token {} of {}; it is not shown again. Keep it in a file of mode 0600.",
            made.info.token_id,
            terminal(&made.info.owner)
        ));
        output::out(&format!("{}\n", made.token));
        Ok(ExitCode::SUCCESS)
    }
}

impl List {
    fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let list: TokenListResult = global.connect()?.call("token/list", &NoParams {})?;
        if global.json {
            output::json(&list);
            return Ok(ExitCode::SUCCESS);
        }
        let mut rows = vec![["TOKEN", "OWNER", "CREATED", "EXPIRES", "LAST USED", ""].map(String::from).to_vec()];
        for token in list.tokens {
            let or = |time: Option<String>| time.unwrap_or_else(|| "never".into());
            let state = if token.valid { "" } else { "expired" };
            let owner = terminal(&token.owner).into_owned();
            rows.push(vec![token.token_id, owner, token.created_at, or(token.expires_at), or(token.last_used_at), state.into()]);
        }
        output::table(&rows);
        Ok(ExitCode::SUCCESS)
    }
}

impl Revoke {
    fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let result: TokenRevokeResult = global.connect()?.call("token/revoke", &TokenRevokeParams { token_id: self.token })?;
        if global.json {
            output::json(&result);
        } else if result.revoked {
            output::out(&format!("revoked: {}\n", result.token_id));
        } else {
            output::note("there is no such token; see `agentctl token list`");
        }
        Ok(ExitCode::from(if result.revoked { 0 } else { 4 }))
    }
}

/// A time, or a span from now on; days, months and years are those of the calendar in UTC.
fn expiry(text: &str) -> anyhow::Result<Timestamp> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let span: Span = text.parse().with_context(|| format!("--expires {text:?} is neither a span such as 30d nor a time"))?;
    Ok(Timestamp::now().to_zoned_datetime(TimeZone::UTC).checked_add(span).context("--expires is too far away")?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_is_a_span_or_a_time() {
        let hours = |text| (expiry(text).unwrap().duration_since(Timestamp::now()).as_secs() + 5) / 3600;
        assert_eq!((hours("30d"), hours("12h")), (720, 12));
        assert_eq!(expiry("2030-01-01T00:00:00Z").unwrap().to_string(), "2030-01-01T00:00:00Z");
        assert!(expiry("soon").is_err());
    }
}
