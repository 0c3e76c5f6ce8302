//! Secrets that a client gives an agent for its MCP servers.

use serde_json::value::RawValue;

use super::Redactor;
use super::names::{Secrecy, query_secrecy};
use super::redact::secret_of;
use crate::json::{Members, elements};

/// The most values that are known: more than any client has servers for.
pub const MAX_VALUES: usize = 4096;
/// Headers whose values are no secret.
const PLAIN_HEADERS: &[&str] = &["accept", "accept-encoding", "accept-language", "content-type", "host", "origin", "referer", "user-agent"];

impl Redactor {
    /// Also knows the secrets in `mcpServers` of the params of `session/new` and the like: values of headers, of the
    /// environment under the rule of [`new`](Self::new), and of the URL. What can't be read holds none.
    #[must_use]
    pub fn with_mcp_servers(self, params: &RawValue) -> Self {
        let servers = Members::read(params).ok().and_then(|params| elements(params.get("mcpServers")?)).unwrap_or_default();
        let mut values = Vec::new();
        for server in servers.into_iter().filter_map(|server| Members::read(server).ok()) {
            for (name, value) in pairs(&server, "headers") {
                if !PLAIN_HEADERS.iter().any(|plain| name.eq_ignore_ascii_case(plain)) {
                    // `Bearer VALUE` is a secret without its scheme too.
                    values.extend(value.split_once(' ').map(|(_, value)| value.to_owned()));
                    values.push(value);
                }
            }
            values.extend(pairs(&server, "env").iter().filter_map(|(name, value)| secret_of(name, value)).map(str::to_owned));
            if let Some(text) = server.string("url") {
                values.extend(secret_of("url", &text).map(str::to_owned));
                let url = url::Url::parse(&text).ok();
                let query = url.iter().flat_map(|url| url.query_pairs());
                values.extend(query.filter(|(name, _)| query_secrecy(name) == Secrecy::Strong).map(|(_, value)| value.into_owned()));
            }
        }
        // A client that makes up new ones each time must not make each text that is shown slow.
        values.truncate(MAX_VALUES.saturating_sub(self.known()));
        self.with_values(values.iter().map(String::as_str))
    }
}

/// The names and values of a list such as `[{"name": ..., "value": ...}]`.
fn pairs(server: &Members<'_>, list: &str) -> Vec<(String, String)> {
    let list = server.get(list).and_then(elements).unwrap_or_default();
    list.into_iter()
        .filter_map(|pair| Members::read(pair).ok())
        .filter_map(|pair| Some((pair.string("name")?, pair.string("value")?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_environment_and_urls_are_known() {
        let params = serde_json::json!({ "cwd": "/", "mcpServers": [
            { "name": "a", "command": "a", "args": [], "env": [{ "name": "A_TOKEN", "value": "of-the-env" }, { "name": "MODE", "value": "production" }] },
            { "type": "http", "name": "b", "url": "https://x:of-the-url@h/p?api_key=of-the-query&page=12345678",
                "headers": [{ "name": "X-Custom", "value": "of-a-header" }, { "name": "Authorization", "value": "Bearer of-a-bearer" },
                    { "name": "Accept", "value": "application/json" }] },
            7, { "env": 7 },
        ] });
        let params = serde_json::value::to_raw_value(&params).unwrap();
        let redactor = Redactor::default().with_mcp_servers(&params).with_mcp_servers(&params);
        for secret in ["of-the-env", "of-the-url", "of-the-query", "of-a-header", "of-a-bearer"] {
            assert_eq!(redactor.text(&format!("it is {secret}.")).text, "it is [redacted].");
        }
        let plain = "production 12345678 application/json";
        assert_eq!(redactor.text(plain).text, plain);
        assert_eq!(format!("{redactor:?}"), "Redactor { values: 6 }", "each once");
    }
}
