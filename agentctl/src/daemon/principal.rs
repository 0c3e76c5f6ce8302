//! As whom a connection calls, and what that allows.

use std::sync::Arc;

use super::token::{Grant, Tokens};
use crate::code::Code;
use crate::domain::{Actor, ActorKind, Source};
use crate::wire::{Access, Failure};

/// As whom a connection calls: fixed by its first call.
#[derive(Debug)]
pub struct Principal {
    /// What is recorded of it.
    pub actor: Actor,
    proof: Proof,
}

#[derive(Debug)]
enum Proof {
    /// The socket's peer has our user id.
    Peer,
    /// A token.
    Token(Arc<Grant>),
    /// It wanted to be somebody else and failed: it never has the rights of its user id instead.
    Failed,
}

impl Principal {
    /// The socket's peer, of our own user id.
    pub fn operator(user_id: &str, source: Source) -> Self {
        Self { actor: Actor { user_id: user_id.to_owned(), kind: ActorKind::Synthetic, source }, proof: Proof::Peer }
    }

    /// Whoever has this secret.
    pub fn of_token(tokens: &Tokens, secret: &str, source: Source) -> Self {
        let grant = tokens.find(secret);
        Self {
            actor: Actor {
                user_id: grant.as_ref().map(|grant| grant.owner.clone()).unwrap_or_default(),
                kind: ActorKind::PersonalAccessToken,
                source,
            },
            proof: grant.map_or(Proof::Failed, Proof::Token),
        }
    }

    /// The token, if it calls with one.
    pub fn grant(&self) -> Option<&Arc<Grant>> {
        match &self.proof {
            Proof::Token(grant) => Some(grant),
            Proof::Peer | Proof::Failed => None,
        }
    }

    /// Whether it has an operator's rights.
    pub fn is_operator(&self) -> bool {
        matches!(self.proof, Proof::Peer)
    }

    /// Whether it may, now. Looked at before each call: a token can end at any time.
    ///
    /// # Errors
    /// `token_not_valid`, `operator_only`: the same for every id that a call could name.
    pub fn may(&self, access: Access, tokens: &Arc<Tokens>) -> Result<(), Failure> {
        match &self.proof {
            Proof::Peer => Ok(()),
            Proof::Token(grant) if grant.is_valid() => {
                tokens.used(grant);
                if access == Access::Operator { Err(Code::OperatorOnly.into()) } else { Ok(()) }
            }
            Proof::Token(_) | Proof::Failed => Err(Code::TokenNotValid.into()),
        }
    }
}
