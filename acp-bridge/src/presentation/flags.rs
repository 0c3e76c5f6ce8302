//! Secrets that are known by the flag or the word before them in a command line.

use std::ops::Range;

use super::lexer::{Lexed, Word};
use super::names::{Secrecy, looks_random, secrecy};
use super::pairs::is_reference;

/// Where a tool's flag has its secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `-pVALUE` only.
    Attached,
    /// `-p VALUE` or `-pVALUE`.
    Value,
    /// `-u user:VALUE`, attached or not; without a second part the user is the secret.
    User,
}

/// Tools, their flags, a word that must come before, the form.
type Row = (&'static [&'static str], &'static [&'static str], Option<&'static str>, Form);

/// Tools whose flags don't tell by their name that they are secret.
const TOOLS: &[Row] = &[
    (
        &["mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlsh", "mariadb", "mariadb-dump", "mariadb-admin", "7z", "7za"],
        &["-p"],
        None,
        Form::Attached,
    ),
    (&["sshpass"], &["-p"], None, Form::Value),
    (&["redis-cli", "valkey-cli"], &["-a", "--pass"], None, Form::Value),
    (&["mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport"], &["-p"], None, Form::Value),
    (&["docker", "podman", "buildah", "nerdctl", "skopeo", "helm", "oc", "az", "cf"], &["-p"], Some("login"), Form::Value),
    (&["ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami", "ldappasswd"], &["-w"], None, Form::Value),
    (&["zip", "unzip", "sqlcmd", "bcp"], &["-P"], None, Form::Value),
    (&["curl"], &["-u", "-U", "--user", "--proxy-user"], None, Form::User),
    (&["http", "https", "xh", "httpie"], &["-a", "--auth"], None, Form::User),
    (&["openssl"], &["-passin", "-passout", "-pass"], None, Form::User),
    (&["openssl"], &["-k"], None, Form::Value),
];

/// Finds secrets in the words; ranges of `lexed.plain`.
pub(super) fn scan(lexed: &Lexed) -> Vec<Range<usize>> {
    let words = &lexed.words;
    let mut found = Vec::new();
    let mut tool: Option<&str> = None;
    let mut login = false;
    for (i, word) in words.iter().enumerate() {
        let text = lexed.text(word);
        if word.first {
            (tool, login) = (None, false);
        }
        let base = text.rsplit('/').next().unwrap_or(text);
        if let Some(name) = TOOLS.iter().flat_map(|row| row.0).find(|name| **name == base) {
            tool = Some(name);
        }
        login |= text == "login";
        let next = words.get(i + 1).filter(|next| !next.first);
        if let Some(tool) = tool.filter(|_| text.starts_with('-')) {
            tool_flag(lexed, tool, login, word, next, &mut found);
        }
        if let Some(next) = next {
            named(lexed, word, next, words.get(i + 2).filter(|after| !after.first), &mut found);
        }
    }
    found
}

fn tool_flag(lexed: &Lexed, tool: &str, login: bool, word: &Word, next: Option<&Word>, found: &mut Vec<Range<usize>>) {
    let text = lexed.text(word);
    for (tools, flags, before, form) in TOOLS {
        if !tools.contains(&tool) || before.is_some() && !login {
            continue;
        }
        for flag in *flags {
            let Some(rest) = text.strip_prefix(flag) else { continue };
            let value = if !rest.is_empty() {
                let long = flag.starts_with("--") || flag.len() > 2;
                if long && !rest.starts_with('=') {
                    continue;
                }
                let skip = usize::from(rest.starts_with('='));
                word.plain.end - rest.len() + skip..word.plain.end
            } else if let Some(next) = next.filter(|_| *form != Form::Attached) {
                next.plain.clone()
            } else {
                continue;
            };
            let text = &lexed.plain[value.clone()];
            match text.find(':').filter(|_| *form == Form::User) {
                // `-u token:` names no password: the user is the secret.
                Some(colon) if colon + 1 == text.len() => push(lexed, value.start..value.end - 1, found),
                Some(colon) => push(lexed, value.start + colon + 1..value.end, found),
                None if *form == Form::User => {}
                None => push(lexed, value, found),
            }
        }
    }
}

/// `--token value`, `password: value`, `Authorization: Bearer value`.
fn named(lexed: &Lexed, word: &Word, next: &Word, after: Option<&Word>, found: &mut Vec<Range<usize>>) {
    let (text, value) = (lexed.text(word), lexed.text(next));
    let flag = text.starts_with('-') && text.len() > 2 && !text.contains(['=', ':', ' ']);
    let name = match text.strip_suffix(':') {
        _ if flag => text.trim_start_matches('-'),
        // What is looked for in quotes, as in `grep "token:" src`, names nothing.
        Some(name) if !name.contains([' ', '=', '/']) && (word.verbatim || is_authorization(name)) => name,
        _ => return,
    };
    let secret = match if flag && matches!(name, "pass" | "passwd") { Secrecy::Strong } else { secrecy(name) } {
        Secrecy::Strong => true,
        Secrecy::Weak => looks_random(value) || name.ends_with("auth") && value.contains(':'),
        Secrecy::No => false,
    };
    if !secret || flag && value.starts_with('-') {
        return;
    }
    match after {
        Some(after) if !flag && is_authorization(name) => push(lexed, after.plain.clone(), found),
        _ => push(lexed, next.plain.clone(), found),
    }
}

fn is_authorization(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with("authorization")
}

fn push(lexed: &Lexed, value: Range<usize>, found: &mut Vec<Range<usize>>) {
    let text = &lexed.plain[value.clone()];
    if !text.is_empty() && !is_reference(text) && !text.starts_with("$(") && text != "$" && text != "[redacted]" {
        found.push(value);
    }
}
