//! `agentctl replay`.

use std::path::PathBuf;
use std::process::ExitCode;

use acp_bridge::presentation::terminal;
use clap::Args;

use super::{CliError, Global, output};
use crate::replay::{self, Report};

/// Check recorded sessions: each is played as an agent under a private daemon, driven through the control socket,
/// and must end as recorded. Prints TAP, or with --json one report a line. Exit status 0 if all passed, else 1.
#[derive(Debug, Args)]
pub(super) struct Replay {
    /// Speak the agent's side of this one recording on stdin and stdout
    #[arg(long)]
    as_agent: bool,
    /// Recordings, or folders of them
    #[arg(required = true, value_name = "FIXTURE")]
    fixtures: Vec<PathBuf>,
}

impl Replay {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        if self.as_agent {
            let [fixture] = self.fixtures.as_slice() else {
                output::note("agentctl: --as-agent plays exactly one recording");
                return Ok(ExitCode::from(2));
            };
            return Ok(ExitCode::from(acp_bridge::fixture::play_as_agent(fixture)));
        }
        let json = global.json;
        let mut number = 0;
        if !json {
            output::out("TAP version 13\n");
        }
        let reports = replay::check(&self.fixtures, |report| {
            number += 1;
            if json {
                output::json(report);
            } else {
                output::out(&tap(number, report));
            }
        })?;
        if !json {
            output::out(&format!("1..{}\n", reports.len()));
        }
        let passed = reports.iter().all(|report| report.passed);
        Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn tap(number: usize, report: &Report) -> String {
    let verdict = if report.passed { "ok" } else { "not ok" };
    let mut text = format!("{verdict} {number} - {} ({} checks)\n", terminal(&report.name), report.checks);
    if !report.passed {
        text += &format!("  ---\n  file: {}\n  problems:\n", terminal(&report.file.display().to_string()));
        for problem in &report.problems {
            text += "    - |\n";
            for line in problem.lines() {
                text += &format!("      {}\n", terminal(line));
            }
        }
        text += "  ...\n";
    }
    text
}
