//! The words of the permission authority, as types. They know nothing of wire, database and agents.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A field-less enum with one stable text per value, used on the wire and in the database.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        pub enum $name {
            $($(#[$vmeta])* #[serde(rename = $text)] $variant,)+
        }
        impl $name {
            /// Every value.
            pub const ALL: &[Self] = &[$(Self::$variant),+];
            /// The stable text.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
        impl std::str::FromStr for $name {
            type Err = UnknownWord;
            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                Self::ALL.iter().copied().find(|v| v.as_str() == text).ok_or_else(|| UnknownWord(text.to_owned()))
            }
        }
    };
}

/// A text that is none of an enum's words.
#[derive(Debug, thiserror::Error)]
#[error("unknown word {0:?}")]
pub struct UnknownWord(String);

words! {
    /// The way by which a request left the table.
    End {
        /// An offered option was delivered.
        Resolved = "resolved",
        /// Our side cancelled it.
        Cancelled = "cancelled",
        /// The agent took it back.
        Withdrawn = "withdrawn",
        /// The agent reused its id.
        Replaced = "replaced",
        /// The execution ended, or the agent's stdin is gone.
        Expired = "expired",
    }
}

words! {
    /// What became of a claim.
    ClaimResult {
        /// Durable, not yet known to be delivered.
        Dispatching = "dispatching",
        /// Handed to the kernel in full.
        Accepted = "accepted",
        /// The request ended otherwise before delivery.
        Stale = "stale",
        /// The execution ended before delivery.
        Expired = "expired",
        /// Nothing was delivered.
        Failed = "failed",
        /// Nobody can know whether it was delivered.
        Indeterminate = "indeterminate",
    }
}

words! {
    /// The surface through which a call came; set by our own process, never read from the wire.
    Source {
        /// The control socket.
        ControlSocket = "control_socket",
        /// The external MCP endpoint.
        ExternalMcp = "external_mcp",
        /// The editor of a proxied execution.
        Editor = "editor",
        /// A policy.
        Policy = "policy",
        /// A page.
        Web = "web",
    }
}

words! {
    /// How a principal was proven.
    ActorKind {
        /// The socket's peer, without a token.
        Synthetic = "synthetic",
        /// A personal access token.
        PersonalAccessToken = "personal_access_token",
        /// A policy.
        Automation = "automation",
        /// A page.
        Browser = "browser",
    }
}

/// Who made a call, and through which surface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// A peer's decimal uid, or the token's owner.
    pub user_id: String,
    /// How that was proven.
    pub kind: ActorKind,
    /// The surface.
    pub source: Source,
}

/// The key of a session: two owners may use one name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    /// The user for whom it was started.
    pub owner: String,
    /// The caller's name of it.
    pub session_id: String,
}

/// A claim about to be made durable.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Unique per attempt.
    pub claim_id: Uuid,
    /// The request that it answers.
    pub request_id: Uuid,
    /// The agent's id of it, as text.
    pub pending_id: String,
    /// Who.
    pub actor: Actor,
    /// The chosen option, exactly.
    pub option_id: String,
    /// Its `kind`, as the JSON that was sent (`null` if missing).
    pub option_kind: String,
    /// When it was chosen.
    pub selected_at: Timestamp,
}

/// A time on the wire and in the database: RFC 3339, UTC, milliseconds.
pub fn timestamp_text(at: Timestamp) -> String {
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for end in End::ALL {
            assert_eq!(end.as_str().parse::<End>().unwrap(), *end);
            assert_eq!(serde_json::to_string(end).unwrap(), format!("\"{end}\""));
        }
    }

    #[test]
    fn times_have_milliseconds_and_a_z() {
        assert_eq!(timestamp_text(Timestamp::from_millisecond(1_786_449_600_000).unwrap()), "2026-08-11T12:00:00.000Z");
    }
}
