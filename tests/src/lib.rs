//! End-to-end tests of the built `agentctl` binary: the strict fake agent, and what the tests drive it with.

pub mod fake;
pub mod harness;
