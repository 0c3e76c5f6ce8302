//! Benchmarks of the built `agentctl`, in whole processes: `scripts/bench` runs them.
//!
//! Figures of one machine mean little, so each row is a ratio to a yardstick that is measured in the same run, in turns
//! with what it is compared to. Prints a table, and with `--json FILE` writes all figures.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints what it finds")]

mod agent;
mod measure;
mod once;
mod pump;
mod relay;
mod rows;
mod soak;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure, all rows or those whose names begin so
    Run {
        /// Beginnings of row names
        rows: Vec<String>,
        /// Where to write all figures
        #[arg(long)]
        json: Option<PathBuf>,
        /// acpx, to be compared with
        #[arg(long)]
        acpx: Option<PathBuf>,
        /// A library to be preloaded that makes every fsync and fdatasync take 4 ms longer
        #[arg(long)]
        slow_disk: Option<PathBuf>,
    },
    /// The agent of the benchmarks
    Agent(agent::Agent),
    /// The yardstick of frames: a line pump
    Pump(pump::Pump),
    /// The yardstick of prompts: a relay
    Relay(relay::Relay),
    /// Mixed load with random faults, and what is left of it
    Soak(soak::Soak),
    /// Run a command once and tell its time and memory
    Once { command: Vec<String> },
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run { rows, json, acpx, slow_disk } => rows::run(&rows, json.as_deref(), acpx.as_deref(), slow_disk.as_deref()),
        Command::Agent(agent) => agent.run(),
        Command::Pump(pump) => pump.run(),
        Command::Relay(relay) => relay.run(),
        Command::Once { command } => once::run(&command),
        Command::Soak(soak) => return soak.run(),
    }
    ExitCode::SUCCESS
}
