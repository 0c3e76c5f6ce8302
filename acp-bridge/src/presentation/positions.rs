//! Secrets that are known by their place in a command: no name and no flag right before tells of them.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::flags::{Found, bare, name};
use super::lexed::Word;

/// A part of each command that has such a place.
static HINTS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new("passw|pgpass|stdin|--with-token|sudo|nmcli|mysqladmin|smb|rpcclient|lftp|freerdp|--from-literal|ENV |ARG |setx? |setenv |config |export |login ").ok()
});

/// Whether a text may have such a command, or one that sets a variable.
pub(super) fn may_tell(text: &str) -> bool {
    HINTS.as_ref().is_none_or(|hints| hints.is_match(text.as_bytes()))
}

/// Commands and options that read a secret from their input.
const READERS: &[&str] = &["--password-stdin", "--pass-stdin", "--with-token", "--stdin", "chpasswd"];

/// Finds them in each command of the words.
pub(super) fn scan(found: &mut Found) {
    let lexed = found.lexed;
    let pgpass = found.written.contains("pgpass");
    // What the command before prints.
    let mut fed: &[Word] = &[];
    for command in lexed.words.chunk_by(|_, next| !next.first) {
        let text = |at: usize| command.get(at).map_or("", |word| bare(lexed.text(word)));
        let place = |names: &[&str]| (0..command.len()).find(|at| names.contains(&name(text(*at))));
        let has = |flag: &str| (0..command.len()).any(|at| text(at) == flag);
        if place(READERS).is_some() || place(&["sudo"]).is_some() && has("-S") {
            let lists = place(&["chpasswd"]).is_some();
            for word in fed {
                found.after(word, if lists { ":" } else { "" });
            }
        }
        fed = place(&["echo", "printf"]).map_or(&[], |at| printed(&command[at..], text(at) == "printf"));
        if let Some(tool) = place(&["htpasswd", "mosquitto_passwd"]) {
            let mut arguments = command[tool + 1..].iter().skip_while(|word| lexed.text(word).starts_with('-'));
            let options = |option: char| (tool + 1..command.len()).any(|at| text(at).starts_with('-') && text(at).contains(option));
            // `-b FILE USER PASSWORD`, `-nb USER PASSWORD`.
            if options('b')
                && let Some(word) = arguments.nth(if options('n') { 1 } else { 2 })
            {
                found.after(word, "");
            }
        }
        let by_word = place(&["nmcli", "mysqladmin"]).is_some();
        let by_percent = place(&["smbclient", "rpcclient", "smbget"]).is_some();
        let by_comma = place(&["lftp"]).is_some();
        let remote_desktop = place(&["xfreerdp", "wlfreerdp"]).is_some();
        for (at, word) in command.iter().enumerate() {
            let before = at.checked_sub(1).map_or("", text);
            let own = text(at);
            if by_word && before == "password" {
                found.after(word, "");
            } else if by_percent && (before == "-U" || own.starts_with("-U")) {
                found.after(word, "%");
            } else if by_comma && (before == "-u" || own.starts_with("-u")) {
                found.after(word, ",");
            } else if remote_desktop && own.starts_with("/p:") {
                found.after(word, ":");
            } else if own.starts_with("--from-literal=") {
                found.after(word, "==");
            } else if before == "--from-literal" {
                found.after(word, "=");
            } else if pgpass
                && own.split(':').nth(1).is_some_and(|port| port == "*" || !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
            {
                found.after(word, "::::");
            }
        }
    }
}

/// The arguments of `echo` or `printf` that may be more than a format.
fn printed(command: &[Word], formats: bool) -> &[Word] {
    let arguments = &command[1..];
    if formats && arguments.len() > 1 { &arguments[1..] } else { arguments }
}
