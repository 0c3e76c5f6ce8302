//! Prompts that hold a secret of every shape in every place that a prompt has.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::corpus::{Corpus, mark};

/// What an agent is told to do, and the environment in which it runs.
pub struct Script {
    pub steps: Vec<Value>,
    pub env: BTreeMap<String, String>,
    /// How many prompts it makes.
    pub asks: usize,
}

/// The kinds of prompts: one session each.
pub const KINDS: [&str; 5] = ["execute", "edit", "fetch", "mcp", "thin"];

/// The prompts of a kind.
pub fn script(corpus: &mut Corpus, kind: &str) -> Script {
    let mut script = Script { steps: Vec::new(), env: BTreeMap::new(), asks: corpus.len() + 1 };
    // One more than there are shapes: that one is known by its value alone.
    for shape in 0..script.asks {
        let mut maker = Maker { corpus, env: &mut script.env, shape, kind };
        let (call, options, meta) = (maker.call(), maker.options(), maker.hint());
        if kind == "thin" {
            let id = call["toolCallId"].clone();
            let mut update = call;
            update["sessionUpdate"] = json!("tool_call");
            script.steps.push(json!({"update": update}));
            script.steps.push(json!({"ask": {"id": shape, "toolCall": {"toolCallId": id}, "options": options}}));
        } else {
            script.steps.push(json!({"ask": {"id": shape, "toolCall": call, "options": options, "meta": meta}}));
        }
    }
    script
}

struct Maker<'a> {
    corpus: &'a mut Corpus,
    env: &'a mut BTreeMap<String, String>,
    shape: usize,
    kind: &'a str,
}

impl Maker<'_> {
    fn secret(&mut self, place: &str) -> String {
        if self.shape < self.corpus.len() {
            return self.corpus.secret(place, self.shape);
        }
        let bare = self.corpus.bare(place);
        self.env.insert(format!("C{}_TOKEN", self.env.len()), bare.clone());
        bare
    }

    /// A text of a place, which is named after the kind.
    fn text(&mut self, place: &str) -> String {
        let place = format!("{}-{place}", self.kind);
        format!("{} {}", mark(&place), self.secret(&place))
    }

    fn options(&mut self) -> Value {
        json!([
            {"optionId": "yes", "name": self.text("option"), "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
            {"optionId": "odd", "name": "Odd", "kind": self.text("option-kind"), "_meta": self.text("option-meta")},
        ])
    }

    fn hint(&mut self) -> Value {
        json!({"permission": {"version": 1, "title": self.text("hint-title"), "description": self.text("hint")}, "x": self.text("meta")})
    }

    fn call(&mut self) -> Value {
        let mut call = json!({"toolCallId": self.text("call"), "title": self.text("title"), "content": [
            {"type": "content", "content": {"type": "text", "text": self.text("content")}}], "x": self.text("unknown")});
        let raw = match self.kind {
            "edit" => {
                let path = self.path("path");
                call["content"] = json!([{"type": "diff", "path": path, "oldText": self.text("old"), "newText": self.text("new")}]);
                call["locations"] = json!([{"path": self.path("location"), "line": 1}]);
                json!({"file_path": path, "content": self.text("contents")})
            }
            "fetch" => json!({"url": self.url(), "headers": {"Authorization": self.text("header")}, "body": self.text("body")}),
            "mcp" => json!({"server": self.text("server"), "tool": self.text("tool"), "arguments": {"x": self.text("argument")}}),
            _ => {
                json!({"command": self.command(), "cwd": self.path("cwd"), "env": {"X": self.text("env")}, "description": self.text("raw")})
            }
        };
        call["kind"] = json!(if matches!(self.kind, "edit" | "fetch") { self.kind } else { "execute" });
        call["rawInput"] = raw;
        call
    }

    fn command(&mut self) -> String {
        let place = format!("{}-command", self.kind);
        format!("echo {}; {}", mark(&place), self.secret(&place))
    }

    fn path(&mut self, place: &str) -> String {
        let place = format!("{}-{place}", self.kind);
        format!("/home/dev/{}/ {}", mark(&place), self.secret(&place))
    }

    /// With the secret in its user info, in its query and, if a path can hold it as it is, in its path.
    fn url(&mut self) -> String {
        let (user, path, query) = (self.secret("fetch-user"), self.secret("fetch-path"), self.secret("fetch-query"));
        let path = if path.contains(|c: char| c.is_whitespace() || c == '<') { String::new() } else { format!("/{path}") };
        let user = if user.contains(['/', ' ', '\n', '@', '#', '?']) { String::new() } else { format!("u:{user}@") };
        format!("https://{user}api.example.com/{}{path}?token={query}#{query}", mark("fetch-url"))
    }
}
