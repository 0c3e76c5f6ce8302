//! agentctl: supervises ACP agents and lets each of their permission prompts be answered exactly once.

pub mod audit;
pub mod domain;
pub mod failpoint;
