//! Secrets that are known by the flag or the word before them in a command line.

use std::ops::Range;

use super::lexed::{Lexed, Word};
use super::names::{Secrecy, looks_random, secrecy};
use super::plain::{expression, is_reference, is_word, literal};
use super::positions;
use super::spans::Spans;

/// Where a tool's flag has its secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `-pVALUE` only.
    Attached,
    /// `-p VALUE` or `-pVALUE`.
    Value,
    /// `-k VALUE` only.
    Word,
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
    (&["curl"], &["-u", "-U", "--user", "--proxy-user", "-E", "--cert"], None, Form::User),
    (&["ssh-keygen"], &["-N", "-P"], None, Form::Value),
    (&["rar", "unrar"], &["-p", "-hp"], None, Form::Attached),
    (&["twine", "ncftpput", "ncftpget", "useradd", "rdesktop"], &["-p"], None, Form::Value),
    (&["ipmitool", "mosquitto_pub", "mosquitto_sub"], &["-P"], None, Form::Value),
    (&["snmpwalk", "snmpget", "snmpset", "snmpbulkwalk"], &["-A", "-X"], None, Form::Value),
    (&["tailscale"], &["--authkey"], None, Form::Value),
    (&["doctl"], &["-t"], Some("auth"), Form::Value),
    (&["security"], &["-w"], None, Form::Value),
    (&["http", "https", "xh", "httpie"], &["-a", "--auth"], None, Form::User),
    (&["openssl"], &["-passin", "-passout", "-pass"], None, Form::User),
    (&["openssl"], &["-k", "-K"], None, Form::Word),
    (&["gh", "glab"], &["--body", "-b", "--value"], Some("secret"), Form::Value),
];

/// Commands that set a variable by two words; options may stand between, as in fish's `set -gx NAME VALUE`.
const SETTERS: &[&str] = &["set", "setx", "setenv", "export", "config", "ENV", "ARG", "--add", "--global"];

/// Finds secrets in the words of a text.
pub(super) fn scan(lexed: &Lexed, text: &str, spans: &mut Spans) {
    let words = &lexed.words;
    let mut found = Found { lexed, written: text, spans };
    let mut tool: Option<&str> = None;
    // From here on no word has been looked at as the name of a tool.
    let mut unseen = 0;
    // The words of `TOOLS`' third column that came before.
    let mut before: Vec<&str> = Vec::new();
    let mut sets = false;
    for (i, word) in words.iter().enumerate() {
        let text = bare(lexed.text(word));
        if word.first {
            (tool, sets, unseen) = (None, false, i);
            before.clear();
        }
        if let Some(known) = TOOLS.iter().filter_map(|row| row.2).find(|known| *known == text && !before.contains(known)) {
            before.push(known);
        }
        let next = words.get(i + 1).filter(|next| !next.first);
        if text.starts_with('-') {
            tool = words[unseen..i].iter().rev().find_map(|word| known_tool(lexed.text(word))).or(tool);
            unseen = i;
            if let Some(tool) = tool {
                tool_flag(lexed, tool, &before, word, next, &mut found);
            }
        }
        if let Some(next) = next {
            // `npm config set //registry/:_authToken VALUE`
            let variable = text.rsplit([':', '/']).next().unwrap_or(text);
            // In prose, "to set password on" names no value.
            let value = lexed.text(next);
            let set = (sets && (text.contains(['_', ':', '.']) || looks_random(value)) || text.contains('_') && looks_random(value))
                && !value.starts_with('-');
            if set && secrecy(variable) == Secrecy::Strong {
                found.value(next.plain.clone());
            }
            sets = SETTERS.contains(&text)
                || text.contains(':') && SETTERS.contains(&name(text))
                || sets && text.starts_with('-') && !text.starts_with("--");
            // `api_key = VALUE`, which a shell would read as three words.
            if let Some(value) = words.get(i + 2).filter(|value| !value.first && matches!(lexed.text(next), "=" | ":=" | ":"))
                && (word.verbatim || text.ends_with(']') || opens_text(lexed.text(word)))
                && secrecy(text.trim_start_matches('$')) == Secrecy::Strong
                && !text.contains(['/', '(', ')'])
            {
                found.right_side(value);
            }
            // netrc: `machine HOST login NAME password VALUE`.
            if matches!(text, "password" | "account") && i >= 2 && lexed.text(&words[i - 2]) == "login" {
                found.value(next.plain.clone());
            }
            if tool == Some("curl") && matches!(text, "-b" | "--cookie") && lexed.text(next).contains('=') {
                found.value(next.plain.clone());
            }
            named(lexed, word, next, words.get(i + 2).filter(|after| !after.first), &mut found);
        }
    }
    if positions::may_tell(text) {
        positions::scan(&mut found);
    }
}

fn known_tool(word: &str) -> Option<&'static str> {
    let name = name(bare(word));
    TOOLS.iter().flat_map(|row| row.0).find(|known| **known == name).copied()
}

/// A word without what is before it, as in `(curl`, `**--token`, `"command":"--token`.
pub(super) fn bare(word: &str) -> &str {
    let word = word.trim_start_matches(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '/' | '_' | '$' | '.'));
    match word.rsplit_once(':') {
        Some((before, option)) if option.starts_with('-') && !before.starts_with('-') => option,
        _ => word,
    }
}

/// The name of a command, without its folder and what is around it.
pub(super) fn name(word: &str) -> &str {
    let word = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    let start = word.bytes().rposition(|b| matches!(b, b'/' | b':' | b'=')).map_or(0, |at| at + 1);
    &word[start..]
}

fn tool_flag(lexed: &Lexed, tool: &str, before: &[&str], word: &Word, next: Option<&Word>, found: &mut Found) {
    let text = bare(lexed.text(word));
    for (tools, flags, needs, form) in TOOLS {
        if !tools.contains(&tool) || needs.is_some_and(|word| !before.contains(&word)) {
            continue;
        }
        for flag in *flags {
            let Some(rest) = text.strip_prefix(flag) else { continue };
            let value = if !rest.is_empty() {
                if *form == Form::Word {
                    continue;
                }
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
                Some(colon) if colon + 1 == text.len() => found.value(value.start..value.end - 1),
                Some(colon) => found.value(value.start + colon + 1..value.end),
                None if *form == Form::User => {}
                None => found.value(value),
            }
        }
    }
}

/// `--token value`, `password: value`, `Authorization: Bearer value`.
fn named(lexed: &Lexed, word: &Word, next: &Word, after: Option<&Word>, found: &mut Found) {
    let (text, value) = (bare(lexed.text(word)), lexed.text(next));
    let flag = text.starts_with('-') && text.len() > 2 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    let name = match text.strip_suffix(':') {
        _ if flag => text.trim_start_matches('-'),
        // What is looked for in quotes, as in `grep "token:" src`, names nothing; a quote that is written out begins a text.
        Some(name) if !name.contains([' ', '=', '/']) && (names_value(lexed, word) || is_authorization(name)) => name,
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
        Some(after) if !flag && is_authorization(name) => found.value(after.plain.clone()),
        _ if flag => found.value(next.plain.clone()),
        _ => found.right_side(next),
    }
}

/// Whether a word that ends with a colon was not wholly in quotes, or begins with a quote that is printed.
fn names_value(lexed: &Lexed, word: &Word) -> bool {
    word.verbatim || lexed.has_quotes() && lexed.quoted(word.plain.end - 1).is_none() || opens_text(lexed.text(word))
}

fn opens_text(word: &str) -> bool {
    word[..word.len() - bare(word).len()].contains(['"', '\''])
}

fn is_authorization(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with("authorization")
}

/// Where what is found goes.
pub(super) struct Found<'a> {
    pub(super) lexed: &'a Lexed,
    /// What the words were read from.
    pub(super) written: &'a str,
    spans: &'a mut Spans,
}

impl Found<'_> {
    /// A secret in `lexed.plain`.
    fn value(&mut self, mut value: Range<usize>) {
        let plain = &self.lexed.plain;
        let quote = self.lexed.quoted(value.start).map(|at| &self.written[at..]);
        if !quote.is_some_and(|quote| quote.starts_with('\'')) {
            value.end = literal(plain, value.start, value.end);
            value.end = value.start + plain[value.clone()].trim_end_matches('$').len();
        }
        let text = &plain[value.clone()];
        if !text.is_empty() && !is_reference(text) && text != "[redacted]" {
            self.spans.extend(self.lexed.origin(value));
        }
    }

    /// What stands in a word after these bytes, each searched from the last on; an option is none.
    pub(super) fn after(&mut self, word: &Word, separators: &str) {
        let text = self.lexed.text(word);
        let mut at = 0;
        for separator in separators.chars() {
            let Some(next) = text[at..].find(separator) else { return };
            at += next + 1;
        }
        if !text.starts_with('-') || at > 0 {
            self.value(word.plain.start + at..word.plain.end);
        }
    }

    /// What stands after `name =` or `name:`: a secret, or code, of which only the literals are.
    fn right_side(&mut self, word: &Word) {
        let Some(at) = self.lexed.origin(word.plain.clone()).map(|written| written.start) else { return };
        let rest = &self.written[at..];
        match expression(rest) {
            Some(code) => self.spans.extend(code.literals.into_iter().map(|literal| at + literal.start..at + literal.end)),
            None if rest.starts_with("{ ")
                || rest.starts_with("{\"")
                || is_word(self.lexed.text(word).trim_end_matches([',', ';', '}'])) => {}
            None => self.value(word.plain.clone()),
        }
    }
}
