//! What several methods share.

use acp_bridge::presentation::Action as BridgeAction;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// No params.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// Any JSON, passed on as it was written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(pub Box<RawValue>);

impl JsonSchema for Raw {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AnyJson".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        true.into()
    }
}

/// An allowlisted projection of what an agent wants to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Action(pub BridgeAction);

impl JsonSchema for Action {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Action".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "type": "object",
            "required": ["type", "redacted"],
            "properties": {
                "type": {"enum": ["command", "file_write", "file_read", "network", "mcp_tool", "other"]},
                "description": {"type": "string"},
                "command": {"type": "string"},
                "cwd": {"type": "string"},
                "path": {"type": "string"},
                "paths": {"type": "array", "items": {"type": "string"}},
                "diffs": {"type": "object", "properties": {
                    "count": {"type": "integer"}, "lines_new": {"type": "integer"}, "lines_old": {"type": "integer"}}},
                "destination": {"type": "string"},
                "server": {"type": "string"},
                "tool": {"type": "string"},
                "redacted": {"type": "boolean"},
                "incomplete": {"type": "boolean"},
                "truncated": {"type": "boolean"},
                "full_length": {"type": "integer"}
            }
        })
    }
}
