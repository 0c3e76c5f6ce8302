//! `session/prompt`.

use std::sync::Arc;

use acp_bridge::json::Members;
use acp_bridge::message::text_prompt;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{Method, ended, live_execution, owner, raw};
use crate::daemon::execution::Command;
use crate::daemon::server::Connection;
use crate::wire::{Access, Failure, PromptParams, PromptResult, Raw};

pub(super) struct Prompt;

impl Method for Prompt {
    const NAME: &'static str = "session/prompt";
    const ACCESS: Access = Access::Operator;
    const ABOUT: &'static str = "Starts a turn and answers when it ends. A client that goes away does not end the turn.";
    type Params = PromptParams;
    type Result = PromptResult;

    async fn call(connection: &Arc<Connection>, params: PromptParams) -> Result<PromptResult, Failure> {
        let owner = owner(connection, params.owner)?;
        let prompt = content(params.text, params.prompt)?;
        let execution = live_execution(&connection.hub, &owner, &params.session_id)?;
        let (reply, answer) = oneshot::channel();
        execution.send(Command::Prompt { acp_session_id: params.acp_session_id, prompt, reply });
        let stop_reason = answer.await.map_err(|_| ended())??;
        Ok(PromptResult { stop_reason })
    }
}

fn content(text: Option<String>, blocks: Option<Vec<Raw>>) -> Result<Box<RawValue>, Failure> {
    match (text, blocks) {
        (Some(text), None) => Ok(text_prompt(&text)),
        (None, Some(blocks)) if !blocks.is_empty() && blocks.iter().all(|b| is_block(&b.0)) => Ok(raw(&blocks)),
        (None, Some(_)) => Err(Failure::params("prompt must be a non-empty array of ACP content blocks, objects with a `type`")),
        _ => Err(Failure::params("exactly one of text and prompt is needed")),
    }
}

fn is_block(raw: &RawValue) -> bool {
    Members::read(raw).is_ok_and(|block| block.duplicate().is_none() && block.string("type").is_some())
}
