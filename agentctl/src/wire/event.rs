//! `event/subscribe` and the events.

use std::sync::Arc;

use super::{Exit, Finding, Permission, Raw, State};
use crate::domain::{ActorKind, Source};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A topic of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// `requested`, `resolving`, `resolved`, `cancelled`, `withdrawn`, `replaced`, `expired`, and `pending` when an answer was taken back.
    Permission,
    /// `state`, `reported` for what the agent sent that can't be used, and `witness` for a tool that ran without its answer.
    Execution,
    /// `turn_started`, `turn_ended`.
    Session,
    /// The agent's `session/update` frames, raw and unredacted; only when asked for by name.
    Update,
    /// `entry`: what passes between us and the agent, both ways, raw and unredacted, as the entries of a recorded session;
    /// only when asked for by name.
    Frame,
}

/// Params of `event/subscribe`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscribeParams {
    /// `permission`, `execution` and `session` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topics: Option<Vec<Topic>>,
    /// Only of this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Only of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Result of `event/subscribe`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SubscribeResult {
    /// Every event with a greater `seq` will be told.
    pub seq: u64,
}

/// The params of an `event` notification; which members are there depends on `topic` and `type`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number among all events of the daemon; events of others leave holes.
    pub seq: u64,
    /// Its topic; absent for `event_gap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Topic>,
    /// Its type within the topic.
    #[serde(rename = "type")]
    pub event_type: String,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Its execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// The agent's own session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acp_session_id: Option<String>,
    /// Our id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The agent's id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_id: Option<String>,
    /// `requested`: the request as `permission/list` shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Arc<Permission>>,
    /// `resolving`, `resolved`: who and what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<EventResolution>,
    /// Why: of an end, a state or a report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `state`: the new state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// `state`: how the leader ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// `turn_ended`: the agent's stop reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// When the agent is started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<String>,
    /// `event_gap`: how many events were dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// `witness`: what was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
    /// Topic `update`: the agent's frame as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<Raw>,
    /// Topic `frame`: an entry of a recorded session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<Raw>,
}

/// Who chose which option.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EventResolution {
    /// The caller.
    pub actor_user_id: String,
    /// How that was proven.
    pub actor_kind: ActorKind,
    /// The surface.
    pub source: Source,
    /// The chosen option.
    pub option_id: String,
    /// Its kind as the JSON that was sent.
    pub option_kind: Raw,
}
