//! Which names say that their value is a secret.

/// How much a name tells about its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrecy {
    /// Nothing.
    No,
    /// The value is a secret if it looks like one, see [`looks_random`].
    Weak,
    /// The value is a secret.
    Strong,
}

/// Endings of a part of a name: `PGPASSWORD`, `authtoken`.
const STRONG_ENDINGS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pswd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "accountkey",
    "credential",
    "credentials",
    "creds",
    "authorization",
    "cookie",
    "jwt",
    "sshpass",
    "dbpass",
    "userpass",
];
/// Parts that make a secret of a `key` right after them.
const KEYS: &[&str] = &[
    "api",
    "access",
    "secret",
    "private",
    "signing",
    "encryption",
    "master",
    "account",
    "auth",
    "deploy",
    "service",
    "storage",
    "shared",
    "hmac",
    "subscription",
    "admin",
    "client",
    "functions",
];
/// Parts after which a `key` is no secret.
const PLAIN_KEYS: &[&str] = &[
    "cache",
    "primary",
    "foreign",
    "sort",
    "partition",
    "public",
    "pub",
    "host",
    "object",
    "row",
    "group",
    "registry",
    "lookup",
    "index",
    "unique",
    "idempotency",
    "hot",
    "map",
    "known",
];
/// Last parts of names that talk about a secret without being one.
const ABOUT: &[&str] = &[
    "algorithm",
    "budget",
    "class",
    "command",
    "count",
    "dir",
    "endpoint",
    "env",
    "expiration",
    "expires",
    "expiry",
    "fd",
    "field",
    "file",
    "format",
    "helper",
    "id",
    "index",
    "jar",
    "len",
    "length",
    "lifetime",
    "limit",
    "manager",
    "max",
    "min",
    "mode",
    "name",
    "path",
    "policy",
    "prompt",
    "provider",
    "ref",
    "regex",
    "required",
    "rotation",
    "size",
    "sock",
    "source",
    "stdin",
    "store",
    "ttl",
    "type",
    "uri",
    "url",
    "usage",
    "var",
    "version",
];

/// Judges a name of an environment variable, a header, a flag, a member, a parameter.
pub(super) fn secrecy(name: &str) -> Secrecy {
    let name = &name[super::spans::ceil(name, name.len().saturating_sub(256))..];
    let parts = parts(name);
    let Some(last) = parts.last().map(String::as_str) else { return Secrecy::No };
    if ABOUT.contains(&last) && parts.len() > 1 {
        // Of some services `secret_id` is the name of a secret, of others the secret.
        return if last == "id" && parts[parts.len() - 2].ends_with("secret") { Secrecy::Weak } else { Secrecy::No };
    }
    let strong = parts.iter().any(|part| STRONG_ENDINGS.iter().any(|ending| part.ends_with(ending)));
    let key = parts.windows(2).any(|pair| pair[1] == "key" && KEYS.contains(&&*pair[0]));
    let several = parts.len() > 1 || name.starts_with('_');
    if strong || key || several && matches!(last, "pass" | "pwd" | "pw") || name.eq_ignore_ascii_case("_auth") {
        return Secrecy::Strong;
    }
    match last {
        "key" if several && !PLAIN_KEYS.contains(&&*parts[parts.len().saturating_sub(2)]) => Secrecy::Weak,
        "auth" | "sig" | "signature" | "pass" | "pat" | "sas" => Secrecy::Weak,
        _ => Secrecy::No,
    }
}

/// Judges the name of a parameter of a URL's query.
pub(super) fn query_secrecy(name: &str) -> Secrecy {
    let lower = name.to_ascii_lowercase();
    match &*lower {
        "key" | "sig" | "signature" | "auth" | "x-amz-credential" | "x-amz-signature" | "x-goog-signature" | "x-goog-credential" => {
            Secrecy::Strong
        }
        "code" => Secrecy::Weak,
        _ => secrecy(name),
    }
}

/// Whether a value looks made by a machine: 16 bytes or more, letters and digits, and no path.
pub(super) fn looks_random(value: &str) -> bool {
    value.len() >= 16
        && value.bytes().any(|b| b.is_ascii_digit())
        && value.bytes().any(|b| b.is_ascii_alphabetic())
        && !value.starts_with(['/', '.', '~', '$'])
        && !value.bytes().any(|b| b.is_ascii_whitespace())
}

/// The parts of a name, in lower case: `X-Api_keyId` is `x`, `api`, `key`, `id`.
fn parts(name: &str) -> Vec<String> {
    let bytes = name.as_bytes();
    let mut parts = Vec::new();
    let mut part = String::new();
    for (i, byte) in bytes.iter().enumerate() {
        let upper_starts = byte.is_ascii_uppercase()
            && i > 0
            && (bytes[i - 1].is_ascii_lowercase()
                || bytes[i - 1].is_ascii_uppercase() && bytes.get(i + 1).is_some_and(u8::is_ascii_lowercase));
        if (upper_starts || !byte.is_ascii_alphanumeric()) && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
        }
        if byte.is_ascii_alphanumeric() {
            part.push(byte.to_ascii_lowercase() as char);
        }
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_by_their_parts() {
        for name in [
            "password",
            "PGPASSWORD",
            "DB_PASS",
            "MYSQL_PWD",
            "AWS_SECRET_ACCESS_KEY",
            "accessToken",
            "APIKey",
            "X-Api-Key",
            "apikey",
            "client_secret",
            "_auth",
            "_authToken",
            "Proxy-Authorization",
            "Set-Cookie",
            "spring.datasource.password",
            "AccountKey",
        ] {
            assert_eq!(secrecy(name), Secrecy::Strong, "{name}");
        }
        for name in ["OPENAI_KEY", "x-auth", "pass", "signature"] {
            assert_eq!(secrecy(name), Secrecy::Weak, "{name}");
        }
        for name in [
            "PWD",
            "OLDPWD",
            "SSH_AUTH_SOCK",
            "GIT_AUTHOR_NAME",
            "author",
            "max_tokens",
            "tokenizer",
            "token_count",
            "password_file",
            "secret-name",
            "key",
            "keyboard",
            "primary_key",
            "cache-key",
            "passed",
            "compass",
            "GIT_ASKPASS",
            "credential.helper",
            "",
        ] {
            assert_eq!(secrecy(name), Secrecy::No, "{name}");
        }
    }
}
