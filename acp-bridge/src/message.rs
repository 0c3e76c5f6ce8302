//! The ACP messages that a headless client writes, and the ones that it must understand.
//!
//! The shapes are those of `agent-client-protocol`'s schema; this is the only module that names the crate.

use std::path::Path;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    CancelNotification, ClientCapabilities, ContentBlock, Implementation, InitializeRequest, LoadSessionRequest, NewSessionRequest,
    RequestPermissionOutcome, RequestPermissionResponse, ResumeSessionRequest, SelectedPermissionOutcome, TextContent,
};
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::id::RpcId;
use crate::json::{self, Members};

/// The protocol version that we speak.
pub const PROTOCOL_VERSION: u16 = 1;

/// JSON-RPC and ACP error codes that we send or look for.
pub mod code {
    /// The method is not served.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// The params are wrong.
    pub const INVALID_PARAMS: i32 = -32602;
    /// The client can't do it.
    pub const INTERNAL_ERROR: i32 = -32603;
    /// The asker took the request back.
    pub const REQUEST_CANCELLED: i32 = -32800;
    /// ACP: the agent wants `authenticate` first.
    pub const AUTH_REQUIRED: i64 = -32000;
}

/// One line for an agent's stdin, with its newline.
pub type Frame = Bytes;

/// `initialize`, advertising neither `fs` nor `terminal`.
pub fn initialize(id: &RpcId, client_name: &str, client_version: &str) -> Frame {
    let params = InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(ClientCapabilities::new())
        .client_info(Implementation::new(client_name, client_version));
    request(id, "initialize", &params)
}

/// `session/new` without MCP servers.
pub fn session_new(id: &RpcId, cwd: &Path) -> Frame {
    request(id, "session/new", &NewSessionRequest::new(cwd))
}

/// `session/resume`: a session goes on, without its history.
pub fn session_resume(id: &RpcId, acp_session_id: &str, cwd: &Path) -> Frame {
    request(id, "session/resume", &ResumeSessionRequest::new(acp_session_id.to_owned(), cwd))
}

/// `session/load`: a session goes on, and its history is told again before the answer.
pub fn session_load(id: &RpcId, acp_session_id: &str, cwd: &Path) -> Frame {
    request(id, "session/load", &LoadSessionRequest::new(acp_session_id.to_owned(), cwd))
}

/// `session/prompt` with content blocks as their author wrote them.
pub fn session_prompt(id: &RpcId, acp_session_id: &str, prompt: &RawValue) -> Frame {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        session_id: &'a str,
        prompt: &'a RawValue,
    }
    request(id, "session/prompt", &Params { session_id: acp_session_id, prompt })
}

/// The `prompt` of a plain text.
pub fn text_prompt(text: &str) -> Box<RawValue> {
    to_raw(&[ContentBlock::Text(TextContent::new(text))])
}

/// The notification `session/cancel`.
pub fn session_cancel(acp_session_id: &str) -> Frame {
    notification("session/cancel", &CancelNotification::new(acp_session_id.to_owned()))
}

/// The notification `$/cancel_request`: the asker needs no answer any more.
pub fn cancel_request(id: &RpcId) -> Frame {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        request_id: &'a RawValue,
    }
    with_id(id, |request_id| notification("$/cancel_request", &Params { request_id }))
}

/// The outcome of a prompt, as a client answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The option of this id.
    Selected(String),
    /// None.
    Cancelled,
    /// No outcome of a prompt, or one that two parsers could read differently.
    Malformed,
}

impl Outcome {
    /// Reads the `result` of a `session/request_permission`.
    pub fn read(result: &RawValue) -> Self {
        let exact = |raw| Members::read(raw).ok().filter(|members| members.duplicate().is_none());
        let Some(outcome) = exact(result).and_then(|result| exact(result.get("outcome")?)) else { return Self::Malformed };
        match (outcome.string("outcome").as_deref(), outcome.string("optionId")) {
            (Some("selected"), Some(option_id)) => Self::Selected(option_id),
            (Some("cancelled"), _) => Self::Cancelled,
            _ => Self::Malformed,
        }
    }
}

/// The answer to a prompt that selects one option.
pub fn selected(id: &RpcId, option_id: &str) -> Frame {
    let outcome = RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option_id.to_owned()));
    response(id, &RequestPermissionResponse::new(outcome))
}

/// The answer to a prompt that our side cancelled.
pub fn cancelled(id: &RpcId) -> Frame {
    response(id, &RequestPermissionResponse::new(RequestPermissionOutcome::Cancelled))
}

/// An error answer.
pub fn error(id: &RpcId, code: i32, message: &str) -> Frame {
    #[derive(Serialize)]
    struct Response<'a> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        error: Body<'a>,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        code: i32,
        message: &'a str,
    }
    with_id(id, |id| line(&Response { jsonrpc: "2.0", id, error: Body { code, message } }))
}

/// Whether the params of a client's request name the session's MCP servers.
pub fn names_servers(method: &str) -> bool {
    matches!(method, "session/new" | "session/load" | "session/resume" | "session/fork")
}

/// What an agent says of itself in its `initialize` result.
#[derive(Debug, Clone, Default)]
pub struct AgentInfo {
    /// The protocol version that it chose; `None` if it names none.
    pub protocol_version: Option<u64>,
    /// `agentInfo.name`.
    pub name: Option<String>,
    /// `agentInfo.title`.
    pub title: Option<String>,
    /// `agentInfo.version`.
    pub version: Option<String>,
    /// `authMethods`: id and name of each.
    pub auth_methods: Vec<(String, Option<String>)>,
    /// Whether it serves `session/resume`.
    pub resumes: bool,
    /// Whether it serves `session/load`.
    pub loads: bool,
}

impl AgentInfo {
    /// Reads an `initialize` result leniently.
    pub fn read(result: &RawValue) -> Self {
        let Ok(result) = Members::read(result) else { return Self::default() };
        let info = result.get("agentInfo").and_then(|raw| Members::read(raw).ok());
        let of_info = |name: &str| info.as_ref().and_then(|info| info.string(name));
        let capabilities = result.get("agentCapabilities").and_then(|raw| Members::read(raw).ok());
        let of_sessions = capabilities.as_ref().and_then(|all| Members::read(all.get("sessionCapabilities")?).ok());
        let methods = result.get("authMethods").and_then(json::elements).unwrap_or_default();
        Self {
            protocol_version: result.get("protocolVersion").and_then(|raw| raw.get().parse().ok()),
            name: of_info("name"),
            title: of_info("title"),
            version: of_info("version"),
            // An object, also an empty one, says yes.
            resumes: of_sessions.is_some_and(|all| all.get("resume").is_some_and(|raw| raw.get().starts_with('{'))),
            loads: capabilities.is_some_and(|all| all.get("loadSession").is_some_and(|raw| raw.get() == "true")),
            auth_methods: methods
                .into_iter()
                .filter_map(|raw| Members::read(raw).ok())
                .filter_map(|method| Some((method.string("id")?, method.string("name"))))
                .collect(),
        }
    }
}

/// A JSON-RPC error, as far as it is readable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RpcError {
    /// Its code; 0 if it has none.
    pub code: i64,
    /// Its message; empty if it has none.
    pub message: String,
}

impl RpcError {
    /// Reads an `error` member.
    pub fn read(error: &RawValue) -> Self {
        let Ok(error) = Members::read(error) else { return Self::default() };
        Self {
            code: error.get("code").and_then(|raw| raw.get().parse().ok()).unwrap_or_default(),
            message: error.string("message").unwrap_or_default(),
        }
    }
}

/// A string member of a result or of params, such as `sessionId` or `stopReason`.
pub fn member(raw: &RawValue, name: &str) -> Option<String> {
    Members::read(raw).ok()?.string(name)
}

/// The id that a `$/cancel_request` names.
pub fn cancelled_request(params: Option<&RawValue>) -> Option<RpcId> {
    let params = Members::read(params?).ok()?;
    if params.duplicate().is_some() {
        return None;
    }
    RpcId::from_raw(params.get("requestId")?)
}

fn request<P: Serialize>(id: &RpcId, method: &'static str, params: &P) -> Frame {
    #[derive(Serialize)]
    struct Request<'a, P> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        method: &'static str,
        params: &'a P,
    }
    with_id(id, |id| line(&Request { jsonrpc: "2.0", id, method, params }))
}

fn notification<P: Serialize>(method: &'static str, params: &P) -> Frame {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        jsonrpc: &'static str,
        method: &'static str,
        params: &'a P,
    }
    line(&Notification { jsonrpc: "2.0", method, params })
}

fn response<R: Serialize>(id: &RpcId, result: &R) -> Frame {
    #[derive(Serialize)]
    struct Response<'a, R> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        result: &'a R,
    }
    with_id(id, |id| line(&Response { jsonrpc: "2.0", id, result }))
}

fn with_id(id: &RpcId, frame: impl FnOnce(&RawValue) -> Frame) -> Frame {
    // An id was read as JSON, so it is JSON.
    frame(serde_json::from_str(id.raw()).unwrap_or(RawValue::NULL))
}

fn to_raw<T: Serialize>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn line<T: Serialize>(message: &T) -> Frame {
    // Serialising our own types into memory can't fail: they have string keys only.
    let mut bytes = serde_json::to_vec(message).unwrap_or_default();
    bytes.push(b'\n');
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(json: &str) -> RpcId {
        RpcId::from_raw(&serde_json::from_str::<Box<RawValue>>(json).unwrap()).unwrap()
    }

    #[test]
    fn answers_echo_the_id_as_written_and_the_option_exactly() {
        assert_eq!(
            selected(&id("\"\\u0061 1\""), "Ä \u{1F600} a"),
            "{\"jsonrpc\":\"2.0\",\"id\":\"\\u0061 1\",\"result\":{\"outcome\":{\"outcome\":\"selected\",\"optionId\":\"Ä \u{1F600} a\"}}}\n"
        );
        assert_eq!(cancelled(&id("5")), "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{\"outcome\":{\"outcome\":\"cancelled\"}}}\n");
        assert_eq!(error(&id("null"), -32800, "x"), "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32800,\"message\":\"x\"}}\n");
    }

    #[test]
    fn an_outcome_is_read_exactly_or_not_at_all() {
        let read = |json: &str| Outcome::read(&serde_json::from_str::<Box<RawValue>>(json).unwrap());
        assert_eq!(read(r#"{"_meta":{"a":1},"outcome":{"outcome":"selected","optionId":"\u0061 "}}"#), Outcome::Selected("a ".into()));
        assert_eq!(read(r#"{"outcome":{"outcome":"cancelled"}}"#), Outcome::Cancelled);
        for json in [
            "null",
            "[]",
            r#"{"outcome":"cancelled"}"#,
            r#"{"outcome":{"outcome":"selected"}}"#,
            r#"{"outcome":{"outcome":"selected","optionId":5}}"#,
            r#"{"outcome":{"outcome":"selected","optionId":"a","optionId":"b"}}"#,
            r#"{"outcome":{"outcome":"cancelled"},"outcome":{"outcome":"selected","optionId":"a"}}"#,
        ] {
            assert_eq!(read(json), Outcome::Malformed, "{json}");
        }
    }

    #[test]
    fn what_is_taken_back_is_named_by_its_id_as_written() {
        assert_eq!(
            cancel_request(&id("\"\\u0061\"")),
            "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":\"\\u0061\"}}\n"
        );
    }

    #[test]
    fn what_we_ask() {
        let text = |frame: Frame| String::from_utf8(frame.to_vec()).unwrap();
        let init = text(initialize(&id("0"), "agentctl", "1"));
        assert!(
            init.contains("\"protocolVersion\":1") && init.contains("\"readTextFile\":false") && init.contains("\"terminal\":false"),
            "{init}"
        );
        let new = text(session_new(&id("1"), Path::new("/w")));
        assert!(new.contains("\"cwd\":\"/w\"") && new.contains("\"mcpServers\":[]"), "{new}");
        assert_eq!(
            text(session_prompt(&id("2"), "s", &text_prompt("hi"))),
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"s\",\"prompt\":[{\"type\":\"text\",\"text\":\"hi\"}]}}\n"
        );
        assert_eq!(text(session_cancel("s")), "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"s\"}}\n");
    }
}
