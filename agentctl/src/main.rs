//! The `agentctl` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    agentctl::cli::main()
}
