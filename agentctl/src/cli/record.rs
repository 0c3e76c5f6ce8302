//! `--record`: what passes between the daemon and an agent, written as a fixture while it runs.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;

use acp_bridge::fixture::{Entry, EntryKind, Event as Happened, Person, Recorder};
use acp_bridge::presentation::Redactor;
use anyhow::Context as _;
use nix::sys::signal::{SigSet, Signal};

use super::{CliError, Global, output};
use crate::client::{Client, Incoming};
use crate::wire::{Event, ExecutionParams, StartParams, StartResult, State, StopResult};

/// A new file, and what was written into it so far.
pub(super) struct Recording {
    path: PathBuf,
    recorder: Recorder<File>,
    /// What went wrong first; nothing is written after it.
    failed: Option<anyhow::Error>,
    begun: bool,
    over: bool,
}

impl Recording {
    /// Makes the file. A recording is never written over another file; what is in it is for its owner first.
    pub(super) fn create(path: &Path, env: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = file.with_context(|| format!("cannot create {}", path.display()))?;
        let env = || env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let recorder = Recorder::new(file, &name, Redactor::new(env()), Person::of(env()));
        Ok(Self { path: path.to_owned(), recorder, failed: None, begun: false, over: false })
    }

    /// Takes in an event. A failure is told by [`finish`](Self::finish): the agent goes on without its recording.
    pub(super) fn take(&mut self, event: &Event) {
        self.over |= event.state == Some(State::Exited);
        if let Some(missed) = event.count {
            self.failed.get_or_insert_with(|| anyhow::anyhow!("{missed} entries came faster than they could be written; it ends there"));
        }
        if let (Some(entry), None) = (&event.entry, &self.failed) {
            self.failed = self.write(entry.0.get()).err();
        }
    }

    fn write(&mut self, entry: &str) -> anyhow::Result<()> {
        let entry: Entry = serde_json::from_str(entry).context("an entry can't be read")?;
        self.begun = true;
        self.over |= matches!(entry.kind, EntryKind::Event(Happened::Exited(_)));
        Ok(self.recorder.entry(entry)?)
    }

    /// Whether the agent has ended.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Ends it, and says what became of it. Of an agent that never started there is no recording.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let path = self.path.display().to_string();
        if !self.begun {
            return std::fs::remove_file(&self.path).with_context(|| format!("{path} is empty"));
        }
        let ended = if self.over { Ok(()) } else { Err(anyhow::anyhow!("it ends before the agent")) };
        let outcome = self.failed.map_or(ended, Err).and(self.recorder.finish().map_err(Into::into));
        outcome.with_context(|| format!("{path} is not complete"))?;
        output::note(&format!("recorded in {}; what no rule knows as a secret is still in it", output::quote(&path)));
        Ok(())
    }
}

/// A recording under way: a thread with a connection of its own, so that a terminal that stands still does not hold it up.
pub(super) struct Recorded(JoinHandle<anyhow::Result<()>>);

impl Recorded {
    /// Starts an agent that is recorded from its first message on. The agent is bound to this connection.
    pub(super) fn start(mut client: Client, mut recording: Recording, params: &StartParams) -> Result<(StartResult, Self), CliError> {
        let started = client.call("execution/start", &StartParams { record: true, ..params.clone() });
        match started {
            Ok(started) => Ok((started, Self(std::thread::spawn(move || record(client, recording))))),
            Err(error) => {
                // What there is of a failed start is worth keeping: it came before the answer.
                while let Some(Incoming::Event(event)) = client.pending() {
                    recording.take(&event);
                }
                recording.finish()?;
                Err(error.into())
            }
        }
    }

    /// Waits until all of an agent that has ended is written.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.0.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the recording failed")))
    }
}

/// Goes on also after a failure: the agent is bound to this connection.
fn record(mut client: Client, mut recording: Recording) -> anyhow::Result<()> {
    // Signals are for the thread that knows what to do with them.
    let _ = SigSet::all().thread_block();
    while !recording.is_over() {
        match client.recv() {
            Ok(Incoming::Event(event)) => recording.take(&event),
            Ok(Incoming::Answer(..)) => {}
            Err(_) => break,
        }
    }
    recording.finish()
}

/// Ends the agent of a session when a signal comes that would end this command, so that its end is recorded too. To be
/// called before other threads are started: they inherit that these signals are blocked.
pub(super) fn end_by_signals() -> SigSet {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        signals.add(signal);
    }
    let _ = signals.thread_block();
    signals
}

/// The signal that ended the agent.
static ENDED_BY: AtomicU8 = AtomicU8::new(0);

/// The status of a command whose agent a signal has ended, as shells give it.
pub(super) fn ended_by_signal() -> Option<u8> {
    Some(ENDED_BY.load(Ordering::Relaxed)).filter(|signal| *signal != 0).map(|signal| 128 + signal)
}

/// Waits for one of these signals, on a thread of its own, and then stops the live execution of a session.
pub(super) fn stop_on(signals: SigSet, global: &Global, session_id: String) {
    let socket = global.socket();
    std::thread::spawn(move || {
        let Ok(signal) = signals.wait() else { return };
        ENDED_BY.store(signal as u8, Ordering::Relaxed);
        let params = ExecutionParams { session_id: Some(session_id), ..ExecutionParams::default() };
        let stopped = Client::connect(&socket).and_then(|mut client| client.call::<_, StopResult>("execution/stop", &params));
        if stopped.is_err() {
            // Then there is nothing to be waited for.
            std::process::exit(1);
        }
    });
}
