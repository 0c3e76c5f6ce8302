//! Frames, envelopes, agent processes and permission prompts of the Agent Client Protocol, for supervisors.

pub mod id;
pub mod json;
pub mod message;
pub mod prompt;
pub mod envelope;
pub mod frame;
pub mod outbox;
pub mod process;
