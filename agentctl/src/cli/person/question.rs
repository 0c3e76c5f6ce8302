//! The question: which request is asked about, which key means what. Pure: time and keys come in.

use std::time::{Duration, Instant};

use acp_bridge::presentation::terminal;

use super::terminal::paint;
use crate::wire::{Permission, PermissionOption};

/// A new question takes no key before the person has not typed for so long.
pub(super) const INERT: Duration = Duration::from_millis(500);
/// The keys of the options, in order. `c` and `v` have meanings of their own.
const KEYS: &str = "123456789abdefghijklmnopqrstuwxyz";

/// The requests that wait, oldest first; the first one is asked about.
#[derive(Debug, Default)]
pub(super) struct Questions {
    waiting: Vec<Permission>,
    /// Since when the first one is shown and nothing was typed; `None` while it is not shown.
    quiet_since: Option<Instant>,
    /// The first one was chosen for; the daemon has not said yet what came of it.
    chosen: bool,
}

/// What a key asks for.
#[derive(Debug, PartialEq)]
pub(super) enum Act {
    /// Answer the first request with this option.
    Choose(String),
    /// Cancel the first request.
    Cancel,
    /// Show all of it.
    View,
    /// It comes too early.
    Early,
    /// It means nothing.
    Nothing,
}

impl Questions {
    /// A request was raised.
    pub(super) fn add(&mut self, permission: Permission) {
        self.remove(&permission.request_id);
        self.waiting.push(permission);
    }

    /// A request has ended. True if it was the one that is shown.
    pub(super) fn remove(&mut self, request_id: &str) -> Option<bool> {
        let at = self.waiting.iter().position(|p| p.request_id == request_id)?;
        self.waiting.remove(at);
        let shown = at == 0 && self.quiet_since.is_some();
        if at == 0 {
            self.quiet_since = None;
            self.chosen = false;
        }
        Some(shown)
    }

    /// Whether this request waits.
    pub(super) fn has(&self, request_id: &str) -> bool {
        self.waiting.iter().any(|p| p.request_id == request_id)
    }

    /// What waits.
    pub(super) fn ids(&self) -> Vec<String> {
        self.waiting.iter().map(|p| p.request_id.clone()).collect()
    }

    /// The request to ask about.
    pub(super) fn first(&self) -> Option<&Permission> {
        self.waiting.first()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the first one is shown.
    pub(super) fn is_shown(&self) -> bool {
        self.quiet_since.is_some()
    }

    /// The first one is shown now.
    pub(super) fn shown(&mut self, now: Instant) {
        self.quiet_since = Some(now);
    }

    /// The daemon did not take the answer: another one can be given.
    pub(super) fn not_taken(&mut self) {
        self.chosen = false;
    }

    /// Something was typed while the question is shown. Only a key by itself counts: what comes together was pasted, or is
    /// an arrow key.
    pub(super) fn key(&mut self, typed: &[u8], now: Instant) -> Act {
        let (Some(permission), Some(since)) = (self.waiting.first(), self.quiet_since) else { return Act::Nothing };
        // What was typed before it was shown is early, too, however late it is read.
        if now.saturating_duration_since(since) < INERT {
            self.quiet_since = Some(since.max(now));
            return Act::Early;
        }
        let &[key] = typed else { return Act::Nothing };
        match key {
            _ if self.chosen => Act::Nothing,
            b'v' => Act::View,
            b'c' => {
                self.chosen = true;
                Act::Cancel
            }
            key => match choices(permission).find(|(k, _)| *k == char::from(key)) {
                Some((_, option)) => {
                    self.chosen = true;
                    Act::Choose(option.option_id.clone())
                }
                None => Act::Nothing,
            },
        }
    }
}

/// The options that can be chosen, in the agent's order, with their keys.
fn choices(permission: &Permission) -> impl Iterator<Item = (char, &PermissionOption)> {
    KEYS.chars().zip(permission.options.iter().filter(|o| o.selectable))
}

/// A question as it stands on the terminal. `whole`: nothing is cut to the width.
pub(super) fn render(p: &Permission, waiting: usize, width: usize, whole: bool) -> String {
    let more = if waiting > 1 { format!(" (1 of {waiting})") } else { String::new() };
    let fit = |text: &str, room: usize| if whole { terminal(text).into_owned() } else { fit(text, room) };
    let mut text = paint("1;33", &format!("? The agent asks{more}: {}", fit(&p.title, width.saturating_sub(18 + more.len()))));
    text.push('\n');
    for (name, value) in super::super::permissions::fields(p) {
        text += &format!("    {name:<12} {}\n", fit(&value, width.saturating_sub(18)));
    }
    for (key, option) in choices(p) {
        let kind = option.kind.0.get().trim_matches('"');
        let persists = if kind == "allow_always" || kind == "reject_always" { ", kept by the agent" } else { "" };
        text += &format!(
            "  {}  {} ({}{persists})\n",
            paint("1", &key.to_string()),
            fit(&option.name, width.saturating_sub(40)),
            terminal(kind)
        );
    }
    let out_of_keys = p.options.iter().filter(|o| o.selectable).count().saturating_sub(KEYS.len());
    if out_of_keys > 0 {
        text += &format!("     {out_of_keys} more options: see `agentctl permissions`\n");
    }
    text + "  c  cancel this request   v  view all of it   Ctrl-C  cancel the turn"
}

/// A text on one line; one that does not fit says how long it is.
pub(super) fn fit(text: &str, room: usize) -> String {
    let shown = terminal(text);
    if shown.chars().count() <= room.max(20) {
        return shown.into_owned();
    }
    let note = format!("... ({} characters, v shows all)", text.chars().count());
    let head: String = shown.chars().take(room.max(20 + note.len()).saturating_sub(note.len())).collect();
    head + &note
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(id: &str) -> Permission {
        let text = format!(
            r#"{{"task_id":"t","session_id":"s","execution_id":"e","acp_session_id":null,"request_id":"{id}","pending_id":"5","title":"git status",
            "action":{{"type":"command","command":"git status","redacted":false}},"options":[
            {{"option_id":"no","name":"No","kind":"reject_once"}},{{"option_id":"x","name":"X","kind":null,"selectable":false}},
            {{"option_id":"yes!","name":"Yes, always","kind":"allow_always"}}],"created_at":"2026-01-01T00:00:00.000Z","status":"pending"}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn keys_count_only_by_themselves_and_after_a_quiet_time() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut questions = Questions::default();
        questions.add(permission("r1"));
        assert_eq!(questions.key(b"1", at(900)), Act::Nothing, "not shown yet");
        questions.shown(at(0));
        assert_eq!(questions.key(b"1", start - Duration::from_millis(5)), Act::Early, "typed before it was shown");
        assert_eq!(questions.key(b"1", at(499)), Act::Early);
        assert_eq!(questions.key(b"1", at(998)), Act::Early, "typing goes on");
        for ignored in [&b"11"[..], b"\x1b[A", b"3", b"\n", b"y", b"", b" ", b"\xff"] {
            assert_eq!(questions.key(ignored, at(1500)), Act::Nothing);
        }
        assert_eq!(questions.key(b"v", at(1500)), Act::View);
        // The options in the agent's order, without those that can't be chosen.
        assert_eq!(questions.key(b"2", at(1500)), Act::Choose("yes!".into()));
        assert_eq!(questions.key(b"1", at(1600)), Act::Nothing, "one answer");
        questions.not_taken();
        assert_eq!(questions.key(b"c", at(1600)), Act::Cancel);
    }

    #[test]
    fn a_question_that_ends_leaves_the_next_one_unshown() {
        let mut questions = Questions::default();
        questions.add(permission("r1"));
        questions.add(permission("r2"));
        questions.shown(Instant::now());
        assert_eq!(questions.remove("r2"), Some(false));
        questions.add(permission("r2"));
        assert_eq!(questions.remove("r1"), Some(true));
        assert!(!questions.is_shown());
        assert_eq!(questions.first().map(|p| p.request_id.as_str()), Some("r2"));
        assert_eq!(questions.remove("r1"), None);
    }

    #[test]
    fn what_does_not_fit_says_its_length_and_hidden_characters_are_seen() {
        let mut p = permission("r");
        p.title = format!("a\u{202e}b\u{1b}[2J {}", "x".repeat(300));
        let text = render(&p, 2, 80, false);
        assert!(text.contains("(1 of 2)") && text.contains("a\\u{202e}b\\x1b[2J xx"), "{text}");
        assert!(text.contains("(308 characters, v shows all)"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(render(&p, 1, 80, true).contains(&"x".repeat(300)));
        assert!(text.contains("1  No (reject_once)\n") && text.contains("2  Yes, always (allow_always, kept by the agent)"), "{text}");
    }
}
