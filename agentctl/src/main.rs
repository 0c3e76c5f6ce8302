//! The `agentctl` binary.

fn main() {}
