//! What people and other programs are shown of a prompt: an allowlisted, bounded and redacted projection.

mod action;
mod redact;

pub use action::{Action, ActionType, Diffs, OptionView, PromptView, present};
pub use redact::{Redactor, Shown};

/// Makes ready what the first use would have to.
pub fn warm_up() {}
