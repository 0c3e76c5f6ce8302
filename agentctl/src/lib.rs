//! agentctl: supervises ACP agents and lets each of their permission prompts be answered exactly once.

pub mod code;
pub mod domain;
pub mod limits;
pub mod permission;
pub mod wire;
