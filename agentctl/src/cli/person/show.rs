//! What the agent does, as lines of a terminal.

use std::collections::VecDeque;

use acp_bridge::presentation::{Redactor, terminal_multiline};

use super::question::fit;
use super::terminal::{Terminal, paint};
use crate::cli::update::Update;

/// Tool calls whose titles are remembered: the oldest is forgotten.
const TOOL_CALLS: usize = 256;

/// Shows `session/update` frames.
pub(super) struct Show {
    redactor: Redactor,
    /// Id and title.
    tools: VecDeque<(String, String)>,
}

impl Show {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, tools: VecDeque::new() }
    }

    /// Shows one frame. What can't be read, and what a person has no use for, is left out.
    pub(super) fn frame(&mut self, frame: &str, to: &mut Terminal) {
        let Some(update) = Update::read(frame) else { return };
        if let Some(text) = update.said() {
            to.say(&terminal_multiline(&self.redactor.long_text(text)));
        } else if update.is_of_tool() {
            self.tool(&update, to);
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
