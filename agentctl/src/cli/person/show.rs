//! What the agent does, as lines of a terminal.

use std::collections::VecDeque;

use acp_bridge::presentation::{Redactor, terminal_multiline};
use serde::Deserialize;

use super::question::fit;
use super::terminal::{Terminal, paint};

/// Tool calls whose titles are remembered: the oldest is forgotten.
const TOOL_CALLS: usize = 256;

/// Shows `session/update` frames.
pub(super) struct Show {
    redactor: Redactor,
    /// Id and title.
    tools: VecDeque<(String, String)>,
}

#[derive(Deserialize)]
struct Frame {
    params: Params,
}

#[derive(Deserialize)]
struct Params {
    update: Update,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Update {
    session_update: String,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    content: Option<serde_json::Value>,
}

impl Show {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, tools: VecDeque::new() }
    }

    /// Shows one frame. What can't be read, and what a person has no use for, is left out.
    pub(super) fn frame(&mut self, frame: &str, to: &mut Terminal) {
        let Ok(Frame { params: Params { update } }) = serde_json::from_str(frame) else { return };
        match update.session_update.as_str() {
            "agent_message_chunk" => {
                if let Some(text) = update.content.as_ref().and_then(|content| content.get("text")?.as_str()) {
                    to.say(&terminal_multiline(&self.redactor.long_text(text)));
                }
            }
            "tool_call" | "tool_call_update" => self.tool(&update, to),
            _ => {}
        }
    }

    fn tool(&mut self, update: &Update, to: &mut Terminal) {
        let Some(id) = &update.tool_call_id else { return };
        let known = self.tools.iter().position(|(known, _)| known == id);
        let title = update.title.as_deref().map(|title| self.redactor.text(title).text);
        let at = match known {
            Some(at) => {
                if let Some(title) = title {
                    self.tools[at].1 = title;
                }
                at
            }
            None => {
                if self.tools.len() == TOOL_CALLS {
                    self.tools.pop_front();
                }
                self.tools.push_back((id.clone(), title.unwrap_or_else(|| "a tool".into())));
                self.tools.len() - 1
            }
        };
        let sign = match update.status.as_deref() {
            Some("completed") => paint("32", "done"),
            Some("failed") => paint("31", "failed"),
            _ if known.is_none() => paint("2", update.kind.as_deref().map_or("tool", known_kind)),
            _ => return,
        };
        to.tell(&format!("  [{sign}] {}", fit(&self.tools[at].1, Terminal::width().saturating_sub(14))));
    }
}

/// ACP's word for a kind of tool; another text is not shown.
fn known_kind(kind: &str) -> &'static str {
    const KINDS: &[&str] = &["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"];
    KINDS.iter().find(|known| **known == kind).copied().unwrap_or("tool")
}
