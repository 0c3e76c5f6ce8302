//! agentctl: supervises ACP agents and lets each of their permission prompts be answered exactly once.

pub mod audit;
pub mod cli;
pub mod client;
pub mod code;
pub mod daemon;
pub mod doctor;
pub mod domain;
pub mod failpoint;
pub mod known;
pub mod limits;
pub mod paths;
pub mod permission;
mod private_daemon;
pub mod relay;
pub mod replay;
pub mod wire;
pub mod witness;
