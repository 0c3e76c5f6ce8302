//! Output of the fake agent: its log and its stdout.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

/// The JSONL log; a line is one write, so that several processes can share a file.
pub(super) struct Log(Option<Mutex<File>>);

impl Log {
    pub(super) fn open(path: Option<&Path>) -> io::Result<Self> {
        let open = |path| OpenOptions::new().create(true).append(true).open(path).map(Mutex::new);
        Ok(Self(path.map(open).transpose()?))
    }

    /// Appends a line with the members of `entry`.
    pub(super) fn write(&self, entry: Value) {
        let Some(file) = &self.0 else { return };
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let mut line = Map::new();
        line.insert("at_us".into(), json!(u64::try_from(at).unwrap_or(u64::MAX)));
        if let Value::Object(members) = entry {
            line.extend(members);
        }
        // A log on a full disk must not change what the agent does.
        let _ = lock(file).write_all(format!("{}\n", Value::Object(line)).as_bytes());
    }
}

/// The agent's stdout; one writer at a time.
#[derive(Default)]
pub(super) struct Out(Mutex<()>);

impl Out {
    /// Writes a line, logged as text.
    pub(super) fn line(&self, log: &Log, line: &str, chunk: usize) {
        let _one = lock(&self.0);
        log.write(json!({"sent": line}));
        write_chunks(line.as_bytes(), chunk);
        stdout_bytes(b"\n");
    }

    /// Writes bytes, logged as their number.
    pub(super) fn bytes(&self, log: &Log, bytes: &[u8], chunk: usize, newline: bool) {
        let _one = lock(&self.0);
        log.write(json!({"sent_bytes": bytes.len()}));
        write_chunks(bytes, chunk);
        if newline {
            stdout_bytes(b"\n");
        }
    }
}

fn write_chunks(bytes: &[u8], chunk: usize) {
    bytes.chunks(chunk.max(1)).for_each(stdout_bytes);
}

/// Writes to stdout at once; a reader that is gone is no error of ours.
pub(super) fn stdout_bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Writes to stderr.
pub(super) fn stderr_bytes(bytes: &[u8]) {
    let _ = io::stderr().lock().write_all(bytes);
}

/// Writes a line to stderr.
pub(super) fn stderr_line(text: &str) {
    stderr_bytes(format!("{text}\n").as_bytes());
}

/// A lock whose poisoning does not matter.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
