//! Secrets that are known by their own shape, wherever they stand.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};

use super::plain::{is_reference, literal};
use super::spans::Spans;

/// Shapes of tokens. Each begins with letters that nothing else begins with, so that the search for them is one pass.
const SHAPES: &[(&str, &str)] = &[
    ("Anthropic", r"sk-ant-[A-Za-z0-9_-]{8,}"),
    ("OpenAI and compatible", r"\bsk-(?:proj-|svcacct-|admin-|or-v1-|None-)?[A-Za-z0-9_-]{20,}"),
    ("GitHub", r"gh[pousr]_[A-Za-z0-9]{16,}"),
    ("GitHub, fine-grained", r"github_pat_[A-Za-z0-9_]{16,}"),
    ("agentctl", r"agentctl_pat_[a-f0-9]{16,}"),
    ("GitLab", r"gl(?:pat|ptt|rt|cbt|dt|oas|soat|ft|imt|agent)-[A-Za-z0-9_.-]{16,}"),
    ("Slack", r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}"),
    ("Slack app", r"xapp-[A-Za-z0-9-]{10,}"),
    ("Slack webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{16,}"),
    ("Discord webhook", r"discord(?:app)?\.com/api/webhooks/[0-9]+/[A-Za-z0-9_-]{16,}"),
    ("Stripe", r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}"),
    ("Stripe webhook", r"whsec_[A-Za-z0-9+/=]{16,}"),
    ("AWS key id", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    ("Google", r"AIza[A-Za-z0-9_-]{30,}"),
    ("Google OAuth", r"(?:GOCSPX-|ya29\.)[A-Za-z0-9_-]{16,}"),
    ("npm", r"npm_[A-Za-z0-9]{30,}"),
    ("PyPI", r"pypi-[A-Za-z0-9_-]{30,}"),
    ("crates.io", r"\bcio[A-Za-z0-9]{32}\b"),
    ("RubyGems", r"rubygems_[a-f0-9]{32,}"),
    ("Docker Hub", r"dckr_pat_[A-Za-z0-9_-]{16,}"),
    ("Hugging Face", r"\bhf_[A-Za-z0-9]{20,}"),
    ("Replicate", r"\br8_[A-Za-z0-9]{30,}"),
    ("Groq", r"gsk_[A-Za-z0-9]{20,}"),
    ("xAI", r"xai-[A-Za-z0-9]{20,}"),
    ("Perplexity", r"pplx-[A-Za-z0-9]{20,}"),
    ("SendGrid", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("DigitalOcean", r"do[opr]_v1_[a-f0-9]{32,}"),
    ("Shopify", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{16,}"),
    ("Square", r"sq0(?:atp|csp)-[A-Za-z0-9_-]{16,}"),
    ("Linear", r"lin_(?:api|oauth)_[A-Za-z0-9]{16,}"),
    ("Notion", r"\bntn_[A-Za-z0-9]{30,}"),
    ("Vault", r"\bhv[sbr]\.[A-Za-z0-9_-]{20,}"),
    ("age", r"AGE-SECRET-KEY-1[A-Z0-9]{16,}"),
    ("Databricks", r"\bdapi[a-f0-9]{32}"),
    ("Telegram bot", r"\b(?:bot)?[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}"),
    ("Azure client secret", r"Q~[A-Za-z0-9_~.-]{31,}"),
    ("Twilio", r"\bSK[a-f0-9]{32}\b"),
    ("Mailgun", r"\bkey-[a-f0-9]{32}\b"),
    ("Heroku", r"HRKU-[A-Za-z0-9_-]{30,}"),
    ("New Relic", r"NR(?:AK|II|JS)-[A-Za-z0-9]{19,}"),
    ("Grafana", r"gl(?:sa|c)_[A-Za-z0-9_=-]{32,}"),
    ("Sentry", r"sntry[su]_[A-Za-z0-9_+/=-]{32,}"),
    ("Supabase", r"sb(?:p_[a-f0-9]{40}|_secret_[A-Za-z0-9_-]{20,})"),
    ("Netlify", r"nfp_[A-Za-z0-9]{36,}"),
    ("Pulumi", r"pul-[a-f0-9]{40}"),
    ("Postman", r"PMAK-[a-f0-9]{24}[a-f0-9-]*"),
    ("Airtable", r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{40,}"),
    ("HubSpot", r"pat-(?:na|eu)[0-9]-[a-f0-9-]{36,}"),
    ("Atlassian", r"A(?:TATT3x|TCTT3x|TBB)[A-Za-z0-9_=-]{24,}"),
    ("Figma", r"fig[dou]_[A-Za-z0-9_-]{32,}"),
    ("Doppler", r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{20,}"),
    ("1Password", r"ops_eyJ[A-Za-z0-9+/=_-]{20,}"),
    ("Terraform Cloud", r"atlasv1\.[A-Za-z0-9_=-]{32,}"),
    ("Fly.io", r"\bf(?:m[12][ar]?|o1)_[A-Za-z0-9+/=_-]{32,}"),
    ("PlanetScale", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{20,}"),
    ("Buildkite", r"bkua_[a-f0-9]{40}"),
    ("SonarQube", r"\bsq[uap]_[a-f0-9]{40}"),
    ("Dynatrace", r"dt0[a-z][0-9]{2}\.[A-Z0-9]{16,}\.[A-Z0-9]{32,}"),
    ("Fireworks", r"\bfw_[A-Za-z0-9]{22,}"),
    ("Cerebras", r"\bcsk-[a-z0-9]{32,}"),
    ("Tavily", r"tvly-[A-Za-z0-9-]{20,}"),
    ("Firecrawl", r"\bfc-[a-f0-9]{32}"),
    ("LangSmith", r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    ("ElevenLabs", r"\bsk_[a-f0-9]{40,}"),
    ("Pinecone", r"pcsk_[A-Za-z0-9_]{20,}"),
    ("NuGet", r"\boy2[a-z0-9]{40,}"),
    ("Razorpay", r"rzp_(?:live|test)_[A-Za-z0-9]{14,}"),
    ("Brevo", r"xkeysib-[a-f0-9]{40,}"),
    ("Alibaba", r"\bLTAI[A-Za-z0-9]{12,}"),
    ("Typeform", r"\btfp_[A-Za-z0-9_]{40,}"),
    ("Prefect", r"\bpn[ub]_[A-Za-z0-9]{36,}"),
    ("Zapier webhook", r"hooks\.zapier\.com/hooks/catch/[0-9]+/[A-Za-z0-9/]{5,}"),
    ("hash of a password", r"\$(?:2[abxy]\$[0-9]{2}|[156y]\$|argon2(?:id|i|d)\$)[A-Za-z0-9$./+=,-]{20,}"),
    ("SQL", r#"(?i:password|identified by)[ \t]+(?:'[^']+'|"[^"]+")"#),
    ("SQL function", r"PASSWORD\('[^']+'"),
    ("SMTP", r"AUTH (?:PLAIN|LOGIN) [A-Za-z0-9+/=]{8,}"),
    ("Python requests", r#"auth=\(['"][^'"]*['"], *['"][^'"]+"#),
    ("prose", r#"(?i:password|passphrase|token|api key) is:? +['"`]?[^ \t\r\n'"`]{6,}"#),
    ("XML", r"<[A-Za-z0-9_.:-]*(?i:password|passwd|secret|token|apikey)>[^<]+</"),
    ("XML attributes", r#"(?:key|name)=\\?"[^"]*(?i:password|passwd|secret|token|apikey)\\?" +value=\\?"[^"\\]+"#),
    ("JWT", r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)*"),
    ("bearer", r"(?i:bearer)[ \t]+[A-Za-z0-9._~+/=-]{8,}"),
];

static TOKENS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let all = SHAPES.iter().map(|(_, shape)| *shape).collect::<Vec<_>>().join("|");
    // Bytes, since Unicode would make the automaton several times as large: all that decides in a shape is ASCII.
    RegexBuilder::new(&all).unicode(false).build().ok()
});

/// Compiles what is compiled at the first use.
pub(super) fn warm_up() {
    // The automaton of the pattern is built while it runs, so it is given what it is there for.
    for text in ["echo a sk-0 ghp_0 eyJ0.0 xoxb-0 AKIA0 bearer 0", "/home/user/.config/a-b_c.txt 2026-01-01 'Yes, and don't ask again' é"]
    {
        scan(text, &mut Spans::new());
    }
}

/// Finds tokens, private keys and what a URL names before its host.
pub(super) fn scan(text: &str, spans: &mut Spans) {
    match &*TOKENS {
        Some(tokens) => {
            for found in tokens.find_iter(text.as_bytes()) {
                let value = text.get(found.range()).and_then(value).map(|value| found.start() + value.start..found.start() + value.end);
                spans.extend(value.map(|value| value.start..literal(text, value.start, value.end)));
            }
        }
        // A table that can't be read shows nothing; a test compiles it.
        None => spans.push(0..text.len()),
    }
    private_keys(text, spans);
    user_info(text, spans);
}

/// The secret of what a shape has found, where a part of it only tells that there is one.
fn value(found: &str) -> Option<Range<usize>> {
    let word = found.bytes().take_while(u8::is_ascii_alphabetic).count();
    match &*found[..word].to_ascii_lowercase() {
        "bearer" => {
            let start = found.len() - found[word..].trim_start().len();
            let random = found.len() - start >= 32 || found[start..].bytes().any(|b| b.is_ascii_digit());
            random.then_some(start..found.len())
        }
        "password" | "passphrase" | "token" | "api" if found[word..].trim_start_matches(" key").starts_with(" is") => {
            let start = found.rfind([' ', '\'', '"', '`'])? + 1;
            found[start..].bytes().any(|b| b.is_ascii_digit()).then_some(start..found.len())
        }
        "password" | "identified" => Some(found.find(['\'', '"'])? + 1..found.len() - 1),
        "auth" if found[word..].starts_with('=') => Some(found.rfind(['\'', '"'])? + 1..found.len()),
        "auth" => Some(found.rfind(' ')? + 1..found.len()),
        "" if found.starts_with('<') => Some(found.find('>')? + 1..found.len() - 2),
        "key" | "name" if found[word..].starts_with('=') => Some(found.rfind('"')? + 1..found.len()),
        _ => Some(0..found.len()),
    }
}

fn private_keys(text: &str, spans: &mut Spans) {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(at) = memmem::find(&bytes[from..], b"-----BEGIN ") {
        let start = from + at;
        let label = start + 11;
        let label_end = memmem::find(&bytes[label..bytes.len().min(label + 64)], b"-----").map_or(label, |at| label + at + 5);
        from = label;
        // A label that is cut or broken up counts as one of a key.
        if label_end != label && memmem::find(&bytes[label..label_end], b"PRIVATE").is_none() {
            continue;
        }
        let body = label_end + key_body(&text[label_end..]);
        let end = if bytes[body..].starts_with(b"-----END ") {
            let tail = body + 9;
            memmem::find(&bytes[tail..bytes.len().min(tail + 64)], b"-----").map_or(tail, |at| tail + at + 5)
        } else {
            body
        };
        spans.push(start..end);
        from = end;
    }
}

/// The length of what can be the body of a private key: Base64, and headers such as `DEK-Info: ...` on lines of their own.
/// A short word is none of it, or a command between two marks would be out of sight.
fn key_body(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut end) = (0, 0);
    let mut new_line = false;
    loop {
        // Line ends, also as they stand in quoted texts and JSON.
        let blanks = bytes[at..].iter().take_while(|b| b.is_ascii_whitespace()).count();
        new_line |= bytes[at..at + blanks].contains(&b'\n');
        at += blanks;
        let escapes = bytes[at..].iter().take_while(|b| **b == b'\\').count();
        if escapes > 0 && matches!(bytes.get(at + escapes), Some(b'n' | b'r' | b't')) {
            at += escapes + 1;
            new_line = true;
            continue;
        }
        let rest = &bytes[at..];
        let word = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || b"+/=".contains(b)).count();
        let last = rest[word..].iter().take_while(|b| b.is_ascii_whitespace() || b"\\nr".contains(b)).count();
        let ends = rest[word + last..].starts_with(b"-----END ");
        let header = rest.iter().take_while(|b| b.is_ascii_alphabetic() || **b == b'-').count();
        if rest.starts_with(b"-----END ") {
            return at;
        } else if word >= 16 || word > 0 && ends {
            at += word;
        } else if new_line && (1..=16).contains(&header) && rest[header..].starts_with(b": ") {
            at += header + 2;
            at += bytes[at..].iter().take_while(|b| b.is_ascii_alphanumeric() || b",-".contains(b)).count();
        } else {
            // The blanks before what is no part of a key aren't either.
            return end;
        }
        (end, new_line) = (at, false);
    }
}

fn user_info(text: &str, spans: &mut Spans) {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(at) = memmem::find(&bytes[from..], b"://") {
        let start = from + at + 3;
        let until = |stops: &[u8]| {
            let stop = |b: &u8| b.is_ascii_whitespace() || stops.contains(b);
            start + bytes[start..].iter().take_while(|b| !stop(b)).count()
        };
        let authority = until(b"/?#\"'`<>\\");
        from = authority.max(start);
        let mut at = bytes[start..authority].iter().rposition(|b| *b == b'@').map(|at| start + at);
        let password = bytes[start..authority].iter().position(|b| *b == b':').map(|at| &bytes[start + at + 1..authority]);
        if at.is_none() && password.is_some_and(|rest| rest.iter().any(|b| !b.is_ascii_digit()) && rest[0] != b'[' && bytes[start] != b'[')
        {
            // `user:pass/word@host`: the slash was meant to be in the password.
            let word = until(b"\"'`<>");
            at = bytes[authority..word].iter().rposition(|b| *b == b'@').map(|at| authority + at);
            from = word;
        }
        let Some(at) = at else { continue };
        let user = &bytes[start..at];
        let login = user.len() <= 20 && user.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(b));
        if !login && !text[start..at].split(':').all(is_reference) {
            spans.push(start..at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presentation::spans::replace;

    fn shown(text: &str) -> String {
        let mut spans = Spans::new();
        scan(text, &mut spans);
        replace(text, spans).unwrap_or_else(|| text.to_owned())
    }

    #[test]
    fn the_table_compiles() {
        assert!(TOKENS.is_some());
    }

    #[test]
    fn keys_and_urls() {
        assert_eq!(shown("a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b"), "a [redacted] b");
        assert_eq!(
            shown("-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----"),
            "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----"
        );
        assert_eq!(shown("-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG\\nx; ls"), "[redacted]\\nx; ls");
        assert_eq!(
            shown("-----BEGIN PRIVATE KEY-----; rm -rf x; -----END PRIVATE KEY-----"),
            "[redacted]; rm -rf x; -----END PRIVATE KEY-----"
        );
        assert_eq!(shown("-----BEGIN PRIVATE KEY-----\nreboot"), "[redacted]\nreboot");
        assert_eq!(
            shown(
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\nMIIEvQIBADANBgkqhkiG\nab=\n-----END RSA PRIVATE KEY-----"
            ),
            "[redacted]"
        );
        assert_eq!(shown("postgres://u:pa/ss@db:5/x"), "postgres://[redacted]@db:5/x");
        assert_eq!(
            shown("ssh://git@github.com/a http://[::1]:80/x@y http://h:80/a@b"),
            "ssh://git@github.com/a http://[::1]:80/x@y http://h:80/a@b"
        );
        assert_eq!(shown("Use bearer authentication"), "Use bearer authentication");
    }
}
