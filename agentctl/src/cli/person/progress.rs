//! Tells a person that something takes its time.

use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A line on the terminal that counts seconds, until this is dropped. Without a terminal nothing.
pub(in super::super) struct Progress(Option<(Sender<()>, JoinHandle<()>)>);

impl Progress {
    /// Begins to tell.
    pub(in super::super) fn new(what: &str) -> Self {
        if !stderr().is_terminal() {
            return Self(None);
        }
        let what = what.to_owned();
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let begun = Instant::now();
            loop {
                let seconds = begun.elapsed().as_secs();
                write(&if seconds == 0 { format!("{what} ...") } else { format!("{what} ... {seconds} s") });
                if stopped.recv_timeout(Duration::from_secs(1)) != Err(RecvTimeoutError::Timeout) {
                    return write("");
                }
            }
        });
        Self(Some((stop, thread)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// Replaces the line.
fn write(text: &str) {
    use std::io::Write;
    let _ = write!(stderr(), "\r\x1b[K{text}");
    let _ = stderr().flush();
}
