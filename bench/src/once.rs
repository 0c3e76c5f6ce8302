//! One command, with its time and memory.

use std::process::{Command, Stdio};

use nix::sys::resource::{UsageWho, getrusage};

use crate::measure::now;

/// Runs a command without output; prints nanoseconds and the KiB that it had resident at most.
pub fn run(command: &[String]) {
    let begun = now();
    let status = Command::new(&command[0]).args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let took = now() - begun;
    assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "{command:?}: {status:?}");
    println!("{took} {}", getrusage(UsageWho::RUSAGE_CHILDREN).expect("usage").max_rss());
}
