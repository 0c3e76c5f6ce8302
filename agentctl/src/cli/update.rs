//! What a person is shown of `session/update` frames.

use serde::Deserialize;

/// The update of a frame, as far as it is of use.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Update {
    session_update: String,
    #[serde(default)]
    pub(super) tool_call_id: Option<String>,
    #[serde(default)]
    pub(super) title: Option<String>,
    #[serde(default)]
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) status: Option<String>,
    #[serde(default)]
    content: Option<serde_json::Value>,
}

impl Update {
    /// Reads a frame; `None` if it is another one.
    pub(super) fn read(frame: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Frame {
            params: Params,
        }
        #[derive(Deserialize)]
        struct Params {
            update: Update,
        }
        Some(serde_json::from_str::<Frame>(frame).ok()?.params.update)
    }

    /// What the agent says, if it says something.
    pub(super) fn said(&self) -> Option<&str> {
        (self.session_update == "agent_message_chunk").then_some(self.content.as_ref()?.get("text")?.as_str()?)
    }

    /// Whether it tells of a tool call.
    pub(super) fn is_of_tool(&self) -> bool {
        matches!(self.session_update.as_str(), "tool_call" | "tool_call_update")
    }
}
