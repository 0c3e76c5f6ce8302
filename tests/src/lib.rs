//! End-to-end tests of the built `agentctl` binary, and the strict fake agent they use.

pub mod fake;
