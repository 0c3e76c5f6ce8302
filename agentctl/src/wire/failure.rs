//! How a call fails.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::domain::{ActorKind, ClaimResult, End, Source};

/// A failed call: a JSON-RPC error object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The JSON-RPC code; -32000 for a domain error.
    pub code: i32,
    /// One sentence.
    pub message: String,
    /// Of a domain error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<FailureData>>,
}

/// The `data` of a domain error. Clients match `code`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailureData {
    /// The stable code.
    pub code: Code,
    /// What to do next.
    pub hint: String,
    /// How the request ended, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// The claim that stands in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<ResolutionData>,
    /// How the agent exited: `code` or `signal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<super::Exit>,
    /// The end of the agent's stderr, redacted. May hold anything the agent wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// The agent's own error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_error: Option<super::AgentError>,
    /// The agent's ways to log in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auth_methods: Vec<super::AuthMethod>,
}

/// Who claimed a request, when, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResolutionData {
    /// The caller.
    pub actor_user_id: String,
    /// How that was proven.
    pub actor_kind: ActorKind,
    /// Through which surface.
    pub source: Source,
    /// When the option was chosen.
    pub selected_at: String,
    /// When the outcome was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalized_at: Option<String>,
    /// The outcome.
    pub result: ClaimResult,
}

impl Failure {
    /// A failure of JSON-RPC itself.
    pub fn rpc(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// -32602, naming what is wrong.
    pub fn params(message: impl Into<String>) -> Self {
        Self::rpc(-32602, message)
    }

    /// A domain error with the code's own sentence.
    pub fn of(code: Code) -> Self {
        Self::because(code, code.meaning())
    }

    /// A domain error with a sentence that says more.
    pub fn because(code: Code, message: impl Into<String>) -> Self {
        let data = FailureData {
            code,
            hint: code.hint().to_owned(),
            end: None,
            resolution: None,
            exit: None,
            stderr: None,
            agent_error: None,
            auth_methods: Vec::new(),
        };
        Self { code: -32000, message: message.into(), data: Some(Box::new(data)) }
    }

    /// Adds to the data of a domain error.
    #[must_use]
    pub fn with(mut self, add: impl FnOnce(&mut FailureData)) -> Self {
        if let Some(data) = &mut self.data {
            add(data);
        }
        self
    }

    /// The stable code of a domain error.
    pub fn stable_code(&self) -> Option<Code> {
        self.data.as_ref().map(|data| data.code)
    }
}

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Self::of(code)
    }
}
