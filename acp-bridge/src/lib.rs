//! Frames, envelopes, agent processes and permission prompts of the Agent Client Protocol, for supervisors.

pub mod fixture;
pub mod id;
pub mod json;
pub mod prompt;
