//! The projection of a prompt.

use super::action::{Action, ActionType, Diffs, OptionView, PromptView};
use super::redact::{MAX_SHOWN, Redactor, Shown};
use super::source::Source;
use super::spans::MARKER;
use crate::prompt::{Hint, Prompt, ToolCall};

/// The most paths that are shown.
pub const MAX_PATHS: usize = 64;

/// Projects a prompt; `earlier` is what the tool call's updates told before.
pub fn present(prompt: &Prompt, earlier: Option<&ToolCall>, redactor: &Redactor) -> PromptView {
    let mut call = earlier.cloned().unwrap_or_default();
    call.merge(prompt.tool_call.clone());
    let source = Source::read(&call, earlier);
    let mut view = Viewer { redactor, redacted: false, truncated: false, full_length: None };
    let action_type = source.action_type();
    let mut action = Action {
        action_type,
        description: None,
        command: None,
        cwd: None,
        path: None,
        paths: Vec::new(),
        diffs: None,
        destination: None,
        server: None,
        tool: None,
        redacted: false,
        incomplete: false,
        truncated: false,
        full_length: None,
    };
    let title = call.title.as_deref().unwrap_or_default();
    let mut shown_title = None;
    match action_type {
        ActionType::Command => {
            let command = source.command();
            action.command = command.as_deref().and_then(|command| view.command(command));
            if command.as_deref() == Some(title) {
                shown_title = Some(action.command.clone().unwrap_or_else(|| MARKER.to_owned()));
            }
            action.cwd = source.cwd().map(|cwd| view.text(&cwd));
        }
        ActionType::FileWrite | ActionType::FileRead => {
            let (paths, more) = source.paths(MAX_PATHS);
            view.truncated |= more;
            let mut paths: Vec<String> = paths.iter().map(|path| view.text(path)).collect();
            action.path = paths.first().cloned();
            if paths.len() > 1 {
                action.paths = std::mem::take(&mut paths);
            }
            if action_type == ActionType::FileWrite && !source.diffs.is_empty() {
                action.diffs = Some(Diffs {
                    count: source.diffs.len(),
                    lines_new: source.diffs.iter().map(|diff| diff.lines_new).sum(),
                    lines_old: source.diffs.iter().map(|diff| diff.lines_old).sum(),
                });
            }
        }
        ActionType::Network => action.destination = source.destination().map(|destination| view.text(&destination)),
        ActionType::McpTool => {
            if let Some(call) = source.mcp() {
                action.server = Some(view.text(&call.server));
                action.tool = call.tool.map(|tool| view.text(&tool));
            }
        }
        ActionType::Other => {}
    }
    let title = shown_title.unwrap_or_else(|| match action_type {
        // A title is often the command with a few words around it: quoting must not hide a secret in it either.
        ActionType::Command => view.command_or_text(title),
        _ => view.text(title),
    });
    action.description = view.description(&title, prompt.hint.as_ref());
    action.incomplete = match action_type {
        ActionType::Command => action.command.is_none(),
        ActionType::FileWrite | ActionType::FileRead => action.path.is_none(),
        ActionType::Network => action.destination.is_none(),
        ActionType::McpTool => action.tool.is_none(),
        ActionType::Other => title.is_empty(),
    };
    let options = prompt.options.iter();
    let options = options.map(|option| OptionView {
        option_id: option.id.clone(),
        name: view.text(&option.name),
        // Never altered; one that holds a secret is not shown at all.
        kind: option
            .kind
            .clone()
            .filter(|kind| !redactor.text(kind.get()).redacted && redactor.document(kind.get(), &str::to_owned) == kind.get()),
        selectable: option.selectable,
    });
    let options = options.collect();
    action.redacted = view.redacted;
    action.truncated = view.truncated;
    action.full_length = view.full_length;
    PromptView { title, action, options }
}

/// Redacts texts and remembers what was done to them.
struct Viewer<'a> {
    redactor: &'a Redactor,
    redacted: bool,
    truncated: bool,
    full_length: Option<usize>,
}

impl Viewer<'_> {
    fn text(&mut self, text: &str) -> String {
        self.note(self.redactor.text(text))
    }

    /// `None` if the command line can't be read.
    fn command(&mut self, command: &str) -> Option<String> {
        let shown = self.redactor.command(command);
        self.redacted |= shown.is_none();
        shown.map(|shown| self.note(shown))
    }

    /// A text that may be a command line, or have one in it.
    fn command_or_text(&mut self, text: &str) -> String {
        match self.redactor.command(text) {
            Some(shown) => {
                let text = self.note(shown);
                self.text(&text)
            }
            None => self.text(text),
        }
    }

    fn note(&mut self, shown: Shown) -> String {
        self.redacted |= shown.redacted;
        self.truncated |= shown.full_length.is_some();
        self.full_length = self.full_length.max(shown.full_length);
        shown.text
    }

    /// The title, and what the hint adds to it.
    fn description(&mut self, title: &str, hint: Option<&Hint>) -> Option<String> {
        let mut text = title.to_owned();
        if let Some(hint) = hint {
            let heading = Some(self.command_or_text(&hint.title)).filter(|heading| heading != title);
            let more = hint.description.as_deref().map(|more| self.text(more));
            for part in [heading, more].into_iter().flatten().filter(|part| !part.is_empty()) {
                if !text.is_empty() {
                    text.push_str(" — ");
                }
                text.push_str(&part);
            }
            if text.len() > MAX_SHOWN {
                text = self.text(&text);
            }
        }
        (!text.is_empty()).then_some(text)
    }
}
