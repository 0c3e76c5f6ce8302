//! What people and other programs are shown of a prompt: an allowlisted, bounded and redacted projection.
//!
//! [`present`] makes it from a prompt and what was told of its tool call before. A [`Redactor`] takes secrets out of
//! every text that is shown, also outside prompts. [`escape_json_line`] and [`terminal`] keep hidden characters from
//! changing what is seen; they come last, when a text is written out.
//!
//! Invariants:
//! 1. Nothing is shown but the fields of [`Action`]; contents of files and arguments of tools have none.
//! 2. Redaction sees more of a text than is shown, so no secret survives in part at the cut.
//! 3. A redacted text that is redacted again stays the same.
//! 4. A text that can't be analysed is left out, never shown as it is.
//! 5. Ids of options are never altered.
//! 6. Time and memory are linear in the length of the prompt.
//!
//! Not found are secrets that are split over texts, encoded (Base64, percent), or put together by a shell at run time.

mod action;
mod document;
mod escape;
mod flags;
mod lexed;
mod lexer;
mod names;
mod pairs;
mod plain;
mod positions;
mod project;
mod redact;
mod servers;
mod source;
mod spans;
mod tokens;

pub use action::{Action, ActionType, Diffs, OptionView, PromptView};
pub use escape::{escape_json_line, is_hidden, terminal, terminal_multiline};
pub use project::{MAX_PATHS, present};
pub use redact::{MAX_ANALYSED, MAX_SHOWN, Redactor, Shown};
pub use servers::MAX_VALUES;
pub use spans::MARKER;

/// Compiles the patterns of redaction, which the first use would do otherwise. Call it once, before the first prompt.
pub fn warm_up() {
    tokens::warm_up();
}
