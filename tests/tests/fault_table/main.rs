//! Faults, one after the other: what is promised of each, and what was seen. `scripts/faults` runs it on the release binary.
//!
//! A row panics where its promise is not kept. Arguments: beginnings of rows, none for all.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a test fails by panicking, and this one prints a table")]

mod disk;
mod signals;
mod streams;
mod system;
mod world;

use std::panic::catch_unwind;
use std::process::ExitCode;

/// What was seen.
enum Seen {
    /// The promise was kept.
    Kept(String),
    /// The fault can't be made here.
    NotHere(&'static str),
}

#[derive(Clone)]
struct Row {
    fault: &'static str,
    promise: &'static str,
    run: fn() -> Seen,
}

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = |row: &&Row| wanted.is_empty() || wanted.iter().any(|start| row.fault.starts_with(start.as_str()));
    let mut broken = 0;
    println!("| fault | what is promised | what was seen | kept |\n| --- | --- | --- | --- |");
    for Row { fault, promise, run } in [disk::ROWS, system::ROWS, signals::ROWS, streams::ROWS].concat().iter().filter(is_wanted) {
        let (seen, kept) = match catch_unwind(run) {
            Ok(Seen::Kept(seen)) => (seen, "yes"),
            Ok(Seen::NotHere(why)) => (why.to_owned(), "not tried"),
            Err(panic) => {
                broken += 1;
                let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
                (text.unwrap_or_default().replace('\n', " "), "**no**")
            }
        };
        println!("| {fault} | {promise} | {seen} | {kept} |");
    }
    ExitCode::from(u8::from(broken > 0))
}
