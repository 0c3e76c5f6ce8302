//! What people and other programs are shown of a prompt: an allowlisted, bounded and redacted projection.

mod action;
mod redact;

pub use action::{Action, ActionType, Diffs, OptionView, PromptView, present};
pub use redact::{Redactor, Shown};
