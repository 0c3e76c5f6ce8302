//! The strict fake agent of the test suite; see [`agentctl_tests::fake`].

use std::process::ExitCode;

fn main() -> ExitCode {
    agentctl_tests::fake::main()
}
