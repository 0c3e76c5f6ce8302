//! `token/*`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Params of `token/create`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenCreateParams {
    /// Whose rights it gives.
    pub owner: String,
    /// When it ends (RFC 3339); never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// Result of `token/create`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct TokenCreateResult {
    /// The secret. It is shown this once and kept nowhere.
    pub token: String,
    /// What is known of it.
    #[serde(flatten)]
    pub info: TokenInfo,
}

/// What is known of a token.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TokenInfo {
    /// Its id, by which it is revoked. No secret.
    pub token_id: String,
    /// Whose rights it gives.
    pub owner: String,
    /// When it was made.
    pub created_at: String,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it was last used, to the hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
    /// Whether it can be used.
    pub valid: bool,
}

/// Result of `token/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TokenListResult {
    /// Every token that was not revoked, oldest first.
    pub tokens: Vec<TokenInfo>,
}

/// Params of `token/revoke`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRevokeParams {
    /// The token's id.
    pub token_id: String,
}

/// Result of `token/revoke`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TokenRevokeResult {
    /// The token's id.
    pub token_id: String,
    /// False if there was no such token.
    pub revoked: bool,
}
