//! What people and other programs are shown of a prompt: an allowlisted, bounded and redacted projection.

mod action;
mod redact;

pub use action::{Action, ActionType, Diffs, OptionView, PromptView, present};
pub use redact::{Redactor, Shown};

/// Makes ready what the first use would have to.
pub fn warm_up() {}

/// For one line of a terminal.
pub fn terminal(text: &str) -> std::borrow::Cow<'_, str> {
    text.into()
}

/// For a terminal, keeping newlines and tabs.
pub fn terminal_multiline(text: &str) -> std::borrow::Cow<'_, str> {
    text.into()
}
