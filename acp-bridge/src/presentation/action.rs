//! What is shown of a prompt, as types.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The type of an action, by the agent's claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionType {
    /// Runs a command.
    Command,
    /// Changes, moves or deletes files.
    FileWrite,
    /// Reads files.
    FileRead,
    /// Talks to the network.
    Network,
    /// Calls a tool of an MCP server.
    McpTool,
    /// Anything else.
    Other,
}

/// What an agent wants to do, as far as it may be shown. Absent fields are unknown or left out on purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Its type.
    #[serde(rename = "type")]
    pub action_type: ActionType,
    /// One sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The folder in which it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The (first) file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// All files, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// How much is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diffs: Option<Diffs>,
    /// Scheme, host, port and path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// The MCP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The MCP tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Whether a shown text was changed to protect a secret.
    pub redacted: bool,
    /// Whether the request names nothing to act on, or what it names can't be shown: no policy may answer it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// Whether a shown text or the list of paths was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The longest full length in bytes of a text that was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_length: Option<usize>,
}

/// The size of the changes, never their content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diffs {
    /// How many diffs.
    pub count: usize,
    /// Lines of the new texts.
    pub lines_new: usize,
    /// Lines of the old texts.
    pub lines_old: usize,
}

/// An option as shown. Its id is never altered.
#[derive(Debug, Clone)]
pub struct OptionView {
    /// The exact id.
    pub option_id: String,
    /// The agent's label, redacted.
    pub name: String,
    /// `kind` as the JSON that was sent; `None` if missing.
    pub kind: Option<Box<RawValue>>,
    /// Whether it can be selected by its id.
    pub selectable: bool,
}

/// A prompt as shown.
#[derive(Debug, Clone)]
pub struct PromptView {
    /// The tool call's title, redacted; empty if the agent gave none.
    pub title: String,
    /// The projection.
    pub action: Action,
    /// The options in the agent's order.
    pub options: Vec<OptionView>,
}
