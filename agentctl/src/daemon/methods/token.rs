//! `token/*`: whom the operator lets in.

use std::sync::Arc;

use jiff::Timestamp;

use super::Method;
use crate::code::Code;
use crate::daemon::hub::check_id;
use crate::daemon::server::Connection;
use crate::daemon::token::{CreateError, Grant};
use crate::domain::timestamp_text;
use crate::wire::{
    Access, Failure, NoParams, TokenCreateParams, TokenCreateResult, TokenInfo, TokenListResult, TokenRevokeParams, TokenRevokeResult,
};

pub(super) struct Create;
pub(super) struct List;
pub(super) struct Revoke;

impl Method for Create {
    const NAME: &'static str = "token/create";
    const ACCESS: Access = Access::Operator;
    const ABOUT: &'static str =
        "Makes a token that gives an owner's rights: list, resolve, cancel, audit and events. Its secret is told once.";
    type Params = TokenCreateParams;
    type Result = TokenCreateResult;

    async fn call(connection: &Arc<Connection>, params: TokenCreateParams) -> Result<TokenCreateResult, Failure> {
        check_id("owner", &params.owner)?;
        let expires_at = params.expires_at.map(|text| text.parse::<Timestamp>()).transpose();
        let expires_at = expires_at.map_err(|_| Failure::params("expires_at must be a time such as 2030-01-01T00:00:00Z"))?;
        if expires_at.is_some_and(|at| at <= Timestamp::now()) {
            return Err(Failure::params("expires_at has passed"));
        }
        let tokens = connection.hub.tokens.clone();
        let made = tokio::task::spawn_blocking(move || tokens.create(params.owner, expires_at)).await;
        let (token, grant) = made.map_err(|_| Failure::of(Code::Internal))?.map_err(|error| {
            let code = if matches!(error, CreateError::TooMany) { Code::LimitReached } else { Code::Internal };
            Failure::because(code, error.to_string())
        })?;
        Ok(TokenCreateResult { token, info: info(&grant) })
    }
}

impl Method for List {
    const NAME: &'static str = "token/list";
    const ACCESS: Access = Access::Operator;
    const ABOUT: &'static str = "Lists the tokens of all owners, never their secrets.";
    type Params = NoParams;
    type Result = TokenListResult;

    async fn call(connection: &Arc<Connection>, _: NoParams) -> Result<TokenListResult, Failure> {
        Ok(TokenListResult { tokens: connection.hub.tokens.list().iter().map(|grant| info(grant)).collect() })
    }
}

impl Method for Revoke {
    const NAME: &'static str = "token/revoke";
    const ACCESS: Access = Access::Operator;
    const ABOUT: &'static str = "Ends a token at once, also on connections that are open.";
    type Params = TokenRevokeParams;
    type Result = TokenRevokeResult;

    async fn call(connection: &Arc<Connection>, params: TokenRevokeParams) -> Result<TokenRevokeResult, Failure> {
        let (tokens, token_id) = (connection.hub.tokens.clone(), params.token_id.clone());
        let revoked = tokio::task::spawn_blocking(move || tokens.revoke(&token_id)).await;
        let revoked = revoked.map_err(|_| Failure::of(Code::Internal))?.map_err(|error| {
            Failure::because(
                Code::Internal,
                format!("The token has ended, but will be back after a restart: it could not be stored: {error}"),
            )
        })?;
        Ok(TokenRevokeResult { token_id: params.token_id, revoked })
    }
}

fn info(grant: &Grant) -> TokenInfo {
    TokenInfo {
        token_id: grant.id.to_string(),
        owner: grant.owner.clone(),
        created_at: timestamp_text(grant.created_at),
        expires_at: grant.expires_at.map(timestamp_text),
        last_used_at: grant.last_used_at().map(timestamp_text),
        valid: grant.is_valid(),
    }
}
