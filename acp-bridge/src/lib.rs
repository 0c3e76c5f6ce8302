//! Frames, envelopes, agent processes and permission prompts of the Agent Client Protocol, for supervisors.

pub mod envelope;
pub mod fixture;
pub mod frame;
pub mod id;
pub mod json;
pub mod message;
pub mod outbox;
pub mod presentation;
pub mod process;
pub mod prompt;
