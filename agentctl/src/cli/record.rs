//! `--record`: what passes between the daemon and an agent, written as a fixture while it runs.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use acp_bridge::fixture::{Entry, EntryKind, Event, Person, Recorder};
use acp_bridge::presentation::Redactor;
use anyhow::Context as _;
use nix::sys::signal::SigSet;

use super::{CliError, output};
use crate::client::{Client, Incoming};
use crate::wire::{StartParams, StartResult};

/// A recording under way: a thread with a connection of its own, so that a terminal that stands still does not hold it up.
pub(super) struct Recording {
    path: PathBuf,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Recording {
    /// Starts an agent that is recorded into a new file from its first message on. The agent is bound to this connection.
    pub(super) fn start(mut client: Client, path: &Path, params: &StartParams) -> Result<(StartResult, Self), CliError> {
        let mut recorder = recorder(path, &params.env)?;
        let started = client.call("execution/start", &StartParams { record: true, ..params.clone() });
        let recording = |client, recorder| {
            let thread = std::thread::spawn(move || {
                // Signals are for the thread that knows what to do with them.
                let _ = SigSet::all().thread_block();
                let mut client = client;
                let outcome = record(&mut client, recorder);
                // The agent is bound to this connection: a recording that failed must not end it.
                while outcome.is_err() && client.recv().is_ok() {}
                outcome
            });
            Self { path: path.to_owned(), thread }
        };
        match started {
            Ok(started) => Ok((started, recording(client, recorder))),
            Err(error) => {
                // What there is of a failed start is worth keeping: it came before the answer.
                while let Some(Incoming::Event(event)) = client.pending() {
                    if let Some(entry) = event.entry.and_then(|entry| serde_json::from_str(entry.0.get()).ok()) {
                        recorder.entry(entry).with_context(|| format!("cannot write {}", path.display()))?;
                    }
                }
                recorder.finish().with_context(|| format!("cannot write {}", path.display()))?;
                Err(error.into())
            }
        }
    }

    /// Waits until all of an agent that has ended is written.
    pub(super) fn finish(self) -> Result<(), CliError> {
        let outcome = self.thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the recording failed")));
        outcome.with_context(|| format!("{} is not complete", self.path.display()))?;
        output::note(&format!(
            "recorded in {}; what no rule knows as a secret is still in it",
            output::quote(&self.path.display().to_string())
        ));
        Ok(())
    }
}

/// Writes what happens in that environment into a new file.
pub(super) fn recorder(path: &Path, env: &BTreeMap<String, String>) -> anyhow::Result<Recorder<File>> {
    let env = || env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(Recorder::new(create(path)?, &name, Redactor::new(env()), Person::of(env())))
}

/// A recording is never written over another file; what is in it is for its owner first.
fn create(path: &Path) -> anyhow::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.with_context(|| format!("cannot create {}", path.display()))
}

fn record(client: &mut Client, mut recorder: Recorder<File>) -> anyhow::Result<()> {
    loop {
        let event = match client.recv() {
            Ok(Incoming::Event(event)) => event,
            Ok(Incoming::Answer(..)) => continue,
            Err(error) => {
                recorder.finish()?;
                return Err(anyhow::Error::new(error).context("the recording ends before the agent"));
            }
        };
        if let Some(missed) = event.count {
            recorder.finish()?;
            anyhow::bail!("{missed} entries came faster than they could be written; it ends there");
        }
        let Some(entry) = event.entry else { continue };
        let entry: Entry = serde_json::from_str(entry.0.get()).context("an entry can't be read")?;
        let over = matches!(entry.kind, EntryKind::Event(Event::Exited(_)));
        recorder.entry(entry)?;
        if over {
            return Ok(());
        }
    }
}
