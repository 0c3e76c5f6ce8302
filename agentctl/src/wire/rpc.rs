//! The envelope of our own protocol.

use std::borrow::Cow;

use acp_bridge::envelope::{self, Message, Refusal};
use acp_bridge::id::RpcId;
use acp_bridge::json;
use acp_bridge::presentation::escape_json_line;
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::failure::Failure;

/// One call of a client.
#[derive(Debug)]
pub struct Call {
    /// The client's id of it; `None` for a notification, which is carried out unanswered.
    pub id: Option<RpcId>,
    /// The method.
    pub method: String,
    /// Its params, unread.
    pub params: Option<Box<RawValue>>,
}

/// What a line of a client is.
#[derive(Debug)]
pub enum Incoming {
    /// To be carried out.
    Call(Call),
    /// To be answered with an error (`id` is `null`).
    Wrong(Failure),
    /// Nothing to do: a blank line.
    Nothing,
}

/// Reads a line of a client.
pub fn parse(line: &[u8]) -> Incoming {
    match envelope::peek(line) {
        Ok(Message::Request { id, method, params }) => {
            Incoming::Call(Call { id: Some(id), method: method.into_owned(), params: params.map(ToOwned::to_owned) })
        }
        Ok(Message::Notification { method, params }) => {
            Incoming::Call(Call { id: None, method: method.into_owned(), params: params.map(ToOwned::to_owned) })
        }
        Ok(Message::Response { .. }) => {
            Incoming::Wrong(Failure::rpc(-32600, "this side sends no requests, so there is nothing to respond to"))
        }
        Err(Refusal::Blank) => Incoming::Nothing,
        Err(Refusal::Ambiguous(why)) => Incoming::Wrong(Failure::rpc(-32600, format!("ambiguous request: {why}"))),
        Err(Refusal::Noise | Refusal::Unreadable) => Incoming::Wrong(match std::str::from_utf8(line) {
            Err(_) => Failure::rpc(-32700, "the line is not UTF-8"),
            Ok(text) if !json::is_json(text) => Failure::rpc(-32700, "the line is not JSON"),
            Ok(text) if text.trim_start().starts_with('[') => Failure::rpc(-32600, "batches are not served: send one message a line"),
            Ok(_) => Failure::rpc(-32600, "not a JSON-RPC 2.0 request"),
        }),
    }
}

/// The line that answers a call; `id` is `null` where it is not known.
pub fn response_line(id: Option<&RpcId>, outcome: &Result<Box<RawValue>, Failure>) -> Bytes {
    #[derive(Serialize)]
    struct Response<'a> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a Failure>,
    }
    let id = id.and_then(|id| serde_json::from_str(id.raw()).ok()).unwrap_or(RawValue::NULL);
    line(&Response { jsonrpc: "2.0", id, result: outcome.as_deref().ok(), error: outcome.as_ref().err() })
}

/// The line of an `event` notification.
pub fn event_line<P: Serialize>(params: &P) -> Bytes {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        jsonrpc: &'static str,
        method: &'static str,
        params: &'a P,
    }
    line(&Notification { jsonrpc: "2.0", method: "event", params })
}

/// One line of our own JSON. Hidden characters are escapes, so that no terminal or page acts on them.
fn line<T: Serialize>(message: &T) -> Bytes {
    let mut line = json::to_text(message);
    // A long one is not copied for nothing.
    if let Cow::Owned(escaped) = escape_json_line(&line) {
        line = escaped;
    }
    line.push('\n');
    line.into()
}
