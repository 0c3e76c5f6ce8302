//! The check of recorded sessions: each is played as an agent under a private daemon, driven through the real
//! control socket, and must end as recorded.

mod drive;
mod plan;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use acp_bridge::fixture::{Fixture, files};
use parking_lot::Mutex;
use serde::Serialize;

use crate::private_daemon::PrivateDaemon;
use plan::Plan;

/// How many recordings are played side by side: they mostly wait.
const PLAYERS: usize = 4;

/// The outcome of one recording.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The file.
    pub file: PathBuf,
    /// The recording's own name; the file's, if it can't be read.
    pub name: String,
    /// Whether everything was as recorded.
    pub passed: bool,
    /// What was compared.
    pub checks: usize,
    /// What was not as recorded.
    pub problems: Vec<String>,
}

/// Checks recordings and folders of them, in order. `done` hears of each as soon as it and all before it are done.
///
/// # Errors
/// No recording was found, or no daemon could be started: nothing was checked.
pub fn check(paths: &[PathBuf], done: impl FnMut(&Report) + Send) -> anyhow::Result<Vec<Report>> {
    let mut recordings = Vec::new();
    for path in paths {
        let found = files(path).map_err(|error| anyhow::anyhow!("cannot read {}: {error}", path.display()))?;
        anyhow::ensure!(!found.is_empty(), "{} holds no recording (*.jsonl)", path.display());
        recordings.extend(found);
    }
    let daemon = PrivateDaemon::start()?;
    let next = AtomicUsize::new(0);
    let reports = Mutex::new(InOrder { waiting: recordings.iter().map(|_| None).collect(), told: 0, done });
    std::thread::scope(|scope| {
        for _ in 0..PLAYERS.min(recordings.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(path) = recordings.get(at) else { return };
                    let report = check_one(&daemon, path);
                    reports.lock().add(at, report);
                }
            });
        }
    });
    let reports = reports.into_inner().waiting;
    daemon.end()?;
    Ok(reports.into_iter().flatten().collect())
}

fn check_one(daemon: &PrivateDaemon, path: &Path) -> Report {
    let fixture = match Fixture::read(path) {
        Ok(fixture) => fixture,
        Err(error) => {
            return Report {
                file: path.to_owned(),
                name: path.display().to_string(),
                passed: false,
                checks: 0,
                problems: vec![error.to_string()],
            };
        }
    };
    let (checks, mut problems) = match Plan::of(&fixture) {
        Ok(plan) => drive::drive(daemon, &fixture, &plan),
        Err(problem) => (0, vec![problem]),
    };
    if checks == 0 && problems.is_empty() {
        problems.push("it checks nothing: it has neither a prompt nor a turn that ends".into());
    }
    Report { file: path.to_owned(), name: fixture.header.name, passed: problems.is_empty(), checks, problems }
}

/// Reports as they come, told in order.
struct InOrder<F> {
    waiting: Vec<Option<Report>>,
    told: usize,
    done: F,
}

impl<F: FnMut(&Report)> InOrder<F> {
    fn add(&mut self, at: usize, report: Report) {
        self.waiting[at] = Some(report);
        while let Some(Some(report)) = self.waiting.get(self.told) {
            (self.done)(report);
            self.told += 1;
        }
    }
}
