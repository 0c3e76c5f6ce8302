//! Where agents put what a prompt is about. Recorded: claude-agent-acp, codex, codex-acp (Zed), gemini, opencode.

use serde_json::value::RawValue;

use super::action::ActionType;
use crate::json::{self, Members};
use crate::prompt::ToolCall;

/// Kinds of ACP, and the type that they claim.
const KINDS: &[(&str, ActionType)] = &[
    ("execute", ActionType::Command),
    ("edit", ActionType::FileWrite),
    ("delete", ActionType::FileWrite),
    ("move", ActionType::FileWrite),
    ("read", ActionType::FileRead),
    ("search", ActionType::FileRead),
    ("fetch", ActionType::Network),
];
/// Members of `rawInput` that name one file. claude: `file_path`; opencode: `filepath`, `filePath`, `path`; the others are usual ones.
const PATHS: &[&str] = &[
    "file_path",
    "filepath",
    "filePath",
    "absolute_path",
    "notebook_path",
    "path",
    "target_file",
    "filename",
    "file",
    "old_path",
    "new_path",
    "source",
    "destination",
    "from",
    "to",
    "dir_path",
    "parentDir",
];
/// Members of `rawInput` that list files. codex-acp (Zed): the names in `changes`.
const PATH_LISTS: &[&str] = &["paths", "files", "changes"];
/// Members of `rawInput` that name the working folder. codex: `cwd`; opencode: `cwd`, `workdir`.
const FOLDERS: &[&str] = &["cwd", "workdir", "working_directory", "workingDirectory"];
/// Members of `rawInput` that name a destination. claude, opencode: `url`; claude's sandbox: `host`.
const DESTINATIONS: &[&str] = &["url", "uri", "href", "urls", "host"];
/// What gemini begins a command's content with.
const GEMINI_FOLDER: &str = "[current working directory ";

/// The parts of a tool call, read once.
pub(super) struct Source<'a> {
    call: &'a ToolCall,
    /// What was told before, of which a request may leave out a part: opencode the working folder, codex-acp (Zed) the tool.
    earlier: Option<Members<'a>>,
    raw: Option<Members<'a>>,
    meta: Option<Members<'a>>,
    /// Texts and diffs of `content`.
    texts: Vec<String>,
    pub(super) diffs: Vec<Diff>,
}

/// A diff of `content`, measured.
pub(super) struct Diff {
    path: Option<String>,
    pub(super) lines_new: usize,
    pub(super) lines_old: usize,
}

fn members(raw: Option<&RawValue>) -> Option<Members<'_>> {
    Members::read(raw?).ok()
}

impl<'a> Source<'a> {
    pub(super) fn read(call: &'a ToolCall, earlier: Option<&'a ToolCall>) -> Self {
        let mut source = Self {
            call,
            earlier: members(earlier.and_then(|call| call.raw_input.as_deref())),
            raw: members(call.raw_input.as_deref()),
            meta: members(call.meta.as_deref()),
            texts: Vec::new(),
            diffs: Vec::new(),
        };
        for element in call.content.as_deref().and_then(json::elements).unwrap_or_default() {
            let Ok(element) = Members::read(element) else { continue };
            let lines = |name: &str| element.string(name).map_or(0, |text| text.lines().count());
            match element.string("type").as_deref() {
                Some("diff") => {
                    source.diffs.push(Diff { path: element.string("path"), lines_new: lines("newText"), lines_old: lines("oldText") })
                }
                Some("content") => source.texts.extend(members(element.get("content")).and_then(|content| content.string("text"))),
                _ => {}
            }
        }
        source
    }

    fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.raw.as_ref()?.get(name)
    }

    fn raw_text(&self, name: &str) -> Option<String> {
        json::string(self.raw(name)?).filter(|text| !text.is_empty())
    }

    /// The agent's own name of the tool. claude: `name`, `_meta.claudeCode.toolName`; gemini: the beginning of the call's id.
    fn tool_name(&self) -> Option<String> {
        let claude = || members(self.meta.as_ref()?.get("claudeCode"))?.string("toolName");
        let gemini = || self.call.id.as_deref()?.split_once("__").map(|(name, _)| name.to_owned()).filter(|name| !name.is_empty());
        self.call.name.clone().or_else(claude).or_else(gemini)
    }

    pub(super) fn action_type(&self) -> ActionType {
        if self.mcp().is_some() {
            return ActionType::McpTool;
        }
        let kind = self.call.kind.as_deref().and_then(|kind| KINDS.iter().find(|(name, _)| *name == kind)).map(|(_, claimed)| *claimed);
        match kind {
            // codex calls a command that only reads a file `read`, one that looks for something `search`.
            Some(ActionType::FileRead | ActionType::Network) if self.command().is_some() => ActionType::Command,
            Some(ActionType::FileRead) if !self.diffs.is_empty() => ActionType::FileWrite,
            Some(claimed) => claimed,
            None if self.command().is_some() => ActionType::Command,
            None if !self.diffs.is_empty() => ActionType::FileWrite,
            None if self.raw_text("url").or_else(|| self.raw_text("host")).is_some() => ActionType::Network,
            None => ActionType::Other,
        }
    }

    /// The command line.
    pub(super) fn command(&self) -> Option<String> {
        for name in ["command", "cmd"] {
            let Some(raw) = self.raw(name) else { continue };
            if let Some(text) = json::string(raw).filter(|text| !text.trim().is_empty()) {
                // `{"command":"view","path":...}` is an editor's verb, no command line.
                let verb = self.call.kind.as_deref() != Some("execute") && self.raw("path").is_some();
                return (!verb).then_some(text);
            }
            if let Some(words) = json::elements(raw) {
                let words = words.into_iter().map(json::string).collect::<Option<Vec<_>>>()?;
                return command_line(&words);
            }
        }
        let title = self.call.title.as_deref()?.trim();
        let gemini = self.folder_text().is_some() || self.tool_name().as_deref() == Some("run_shell_command");
        if gemini && !title.is_empty() {
            return Some(title.to_owned());
        }
        let quoted = title.strip_prefix('`')?.strip_suffix('`')?;
        (!quoted.is_empty() && !quoted.contains('`')).then(|| quoted.to_owned())
    }

    /// The working folder.
    pub(super) fn cwd(&self) -> Option<String> {
        let of = |members: &Members<'_>| FOLDERS.iter().find_map(|name| members.string(name).filter(|text| !text.is_empty()));
        let terminal = || members(self.meta.as_ref()?.get("terminal_info"))?.string("cwd");
        self.raw.as_ref().and_then(of).or_else(|| self.earlier.as_ref().and_then(of)).or_else(terminal).or_else(|| self.folder_text())
    }

    fn folder_text(&self) -> Option<String> {
        let text = self.texts.first()?.strip_prefix(GEMINI_FOLDER)?;
        let end = text.find("] (").or_else(|| text.rfind(']'))?;
        Some(text[..end].to_owned())
    }

    /// All files that are named, each once, at most `most`; whether there are more.
    pub(super) fn paths(&self, most: usize) -> (Vec<String>, bool) {
        let raw = PATHS.iter().filter_map(|name| self.raw_text(name));
        let listed = PATH_LISTS.iter().filter_map(|name| self.raw(name)).flat_map(|raw| match Members::read(raw) {
            Ok(members) => members.iter().map(|(name, _)| name.to_owned()).collect(),
            Err(_) => json::elements(raw).unwrap_or_default().into_iter().filter_map(json::string).collect::<Vec<_>>(),
        });
        let diffs = self.diffs.iter().filter_map(|diff| diff.path.clone());
        let mut paths: Vec<String> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for path in raw.chain(listed).chain(diffs).chain(self.call.locations.iter().cloned()) {
            if path.is_empty() || !seen.insert(path.clone()) {
                continue;
            }
            if paths.len() == most {
                return (paths, true);
            }
            paths.push(path);
        }
        (paths, false)
    }

    /// Scheme, host, port and path.
    pub(super) fn destination(&self) -> Option<String> {
        for name in DESTINATIONS {
            let Some(raw) = self.raw(name) else { continue };
            let text = json::string(raw).or_else(|| json::elements(raw)?.first().and_then(|raw| json::string(raw)));
            if let Some(destination) = text.as_deref().and_then(destination) {
                return Some(destination);
            }
        }
        // gemini names the URL in the title only.
        let title = self.call.title.as_deref()?;
        let at = ["https://", "http://"].iter().filter_map(|scheme| title.find(scheme)).min()?;
        let url = title[at..].split(|c: char| c.is_whitespace() || "\"'`<>)".contains(c)).next()?;
        destination(url.trim_end_matches(['.', ',', ';']))
    }

    /// The MCP call that it is, if it is one. claude: `mcp__server__tool`; codex: `rawInput.server` and `tool`, also in
    /// `invocation`; gemini: `tool (server MCP Server)`.
    pub(super) fn mcp(&self) -> Option<McpCall> {
        let marked = |name: &str| {
            let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
            McpCall::new(server, tool)
        };
        let title = self.call.title.as_deref().unwrap_or_default();
        if let Some(found) = self.tool_name().as_deref().and_then(marked).or_else(|| marked(title)) {
            return Some(found);
        }
        if self.call.kind.as_deref().is_some_and(|kind| KINDS.iter().any(|(name, _)| *name == kind) && kind != "execute") {
            return None;
        }
        let named = |members: &Members<'_>| McpCall::new(&members.string("server")?, &members.string("tool")?);
        if let Some(raw) = self.raw.as_ref().filter(|raw| raw.get("command").is_none())
            && let Some(found) = named(raw).or_else(|| named(&members(raw.get("invocation"))?)).or_else(|| self.approval(raw, named))
        {
            return Some(found);
        }
        let (tool, server) = title.strip_suffix(" MCP Server)")?.split_once(" (")?;
        McpCall::new(server, tool).filter(|_| !tool.contains(' '))
    }

    /// codex-acp (Zed) asks with a form that names the server only; the tool was told before.
    fn approval(&self, raw: &Members<'_>, named: impl Fn(&Members<'_>) -> Option<McpCall>) -> Option<McpCall> {
        let form = members(members(raw.get("request"))?.get("_meta"))?;
        let server = raw.string("server_name").filter(|_| form.string("codex_approval_kind").as_deref() == Some("mcp_tool_call"))?;
        let told = self.earlier.as_ref().and_then(named).filter(|told| told.server == server);
        Some(told.unwrap_or(McpCall { server, tool: None }))
    }
}

/// A call of a tool of an MCP server.
pub(super) struct McpCall {
    pub(super) server: String,
    /// `None` if it was not told.
    pub(super) tool: Option<String>,
}

impl McpCall {
    fn new(server: &str, tool: &str) -> Option<Self> {
        (!server.is_empty() && !tool.is_empty()).then(|| Self { server: server.to_owned(), tool: Some(tool.to_owned()) })
    }
}

/// The command line of an array; the script, if the array only starts a shell for it.
fn command_line(words: &[String]) -> Option<String> {
    let base = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    match words {
        [] => None,
        [shell, flag, script]
            if flag.starts_with('-') && flag.ends_with('c') && matches!(&*base(shell), "sh" | "bash" | "zsh" | "dash" | "ksh") =>
        {
            Some(script.clone()).filter(|script| !script.trim().is_empty())
        }
        words => Some(shell_words::join(words)),
    }
}

/// Scheme, host, port and path of a URL or of a host without a scheme; user info, query and fragment are left out.
pub(super) fn destination(text: &str) -> Option<String> {
    let text = text.trim();
    let text = &text[..super::spans::floor(text, super::redact::MAX_ANALYSED)];
    let (url, with_scheme) = match url::Url::parse(text) {
        Ok(url) if text.contains("://") => (url, true),
        _ if !text.contains("://") && !text.contains(char::is_whitespace) => (url::Url::parse(&format!("http://{text}")).ok()?, false),
        _ => return None,
    };
    let scheme = url.scheme();
    if url.cannot_be_a_base() {
        return None;
    }
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let path = url.path();
    if with_scheme {
        return Some(format!("{scheme}://{host}{port}{path}"));
    }
    Some(format!("{host}{port}{}", if path == "/" && !text.contains('/') { "" } else { path })).filter(|text| !text.is_empty())
}
