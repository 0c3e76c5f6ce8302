//! The terminal: how it reads, how wide it is, and what comes from it.

use std::io::{Write, stderr, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr};

use super::Input;

/// Reads lines, edited by the terminal itself, or single keys. The terminal is left as it was found.
pub(super) struct Terminal {
    found: Termios,
    keys: bool,
    /// Whether the cursor stands at the start of a line.
    at_line_start: bool,
}

impl Terminal {
    /// The terminal on stdin.
    pub(super) fn open() -> std::io::Result<Self> {
        Ok(Self { found: tcgetattr(stdin())?, keys: false, at_line_start: true })
    }

    /// Reads single keys, without showing them. What was typed before is dropped.
    pub(super) fn read_keys(&mut self) {
        let mut modes = self.found.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        self.set(&modes);
        self.keys = true;
        drop_input();
    }

    /// Whether it reads single keys.
    pub(super) fn reads_keys(&self) -> bool {
        self.keys
    }

    /// Reads lines again.
    pub(super) fn read_lines(&mut self) {
        if std::mem::take(&mut self.keys) {
            drop_input();
            self.set(&self.found);
        }
    }

    /// After somebody else had the terminal.
    pub(super) fn resume(&mut self) {
        if self.keys {
            self.read_keys();
        }
    }

    /// A background process would be stopped by it: then it is done by [`resume`](Self::resume).
    fn set(&self, modes: &Termios) {
        if is_foreground() {
            let _ = tcsetattr(stdin(), OptionalActions::Now, modes);
        }
    }

    /// Columns.
    pub(super) fn width() -> usize {
        tcgetwinsize(stdin()).map_or(80, |size| usize::from(size.ws_col).max(20))
    }

    /// Writes what the agent says; what is of use in a file goes to stdout.
    pub(super) fn say(&mut self, text: &str) {
        if !text.is_empty() {
            super::super::output::out(text);
            self.at_line_start = text.ends_with('\n');
        }
    }

    /// Writes lines of our own, on lines of their own.
    pub(super) fn tell(&mut self, text: &str) {
        let _ = writeln!(stderr(), "{}{text}", self.line_start());
        self.at_line_start = true;
    }

    /// Asks for a line.
    pub(super) fn prompt(&mut self, text: &str) {
        let _ = write!(stderr(), "{}{text}", self.line_start());
        let _ = stderr().flush();
        self.at_line_start = true;
    }

    fn line_start(&self) -> &'static str {
        let _ = stdout().flush();
        if self.at_line_start { "" } else { "\n" }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.read_lines();
    }
}

/// Drops what was typed and not read.
pub(super) fn drop_input() {
    let _ = tcflush(stdin(), QueueSelector::IFlush);
}

/// Whether this process may read from the terminal.
pub(super) fn is_foreground() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Colours: only on a terminal, never with `NO_COLOR`.
pub(super) fn paint(style: &str, text: &str) -> String {
    use std::io::IsTerminal;
    let wanted = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Blocks the signals that [`watch`] waits for. Threads that are started later inherit that.
pub(super) fn block_signals() -> SigSet {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGCONT] {
        signals.add(signal);
    }
    let _ = signals.thread_block();
    signals
}

/// Tells what is typed and which signals come, from threads of their own.
pub(super) fn watch(signals: SigSet, inputs: &SyncSender<Input>) {
    let to = inputs.clone();
    std::thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            if to.send(Input::Signal(signal)).is_err() {
                return;
            }
        }
    });
    let to = inputs.clone();
    std::thread::spawn(move || {
        while let Some(bytes) = read(stdin().as_fd()) {
            let end = bytes.is_empty();
            if to.send(Input::Typed(bytes, Instant::now())).is_err() {
                return;
            }
            if end {
                // End of file may be taken back by the next key, as terminals do.
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    });
}

/// Waits for what is typed; empty at the end of file, `None` if nothing can come any more.
fn read(input: BorrowedFd<'_>) -> Option<Vec<u8>> {
    loop {
        let mut ready = [PollFd::new(input, PollFlags::POLLIN)];
        poll(&mut ready, PollTimeout::NONE).ok().or(Some(0))?;
        if !is_foreground() {
            // Reading would stop the process. Shells tell a job that runs nothing when they bring it back.
            while !is_foreground() {
                std::thread::sleep(Duration::from_millis(200));
            }
            let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), Signal::SIGCONT);
            continue;
        }
        let mut bytes = vec![0; 4096];
        match nix::unistd::read(input, &mut bytes) {
            Ok(n) => {
                bytes.truncate(n);
                return Some(bytes);
            }
            Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => {}
            Err(_) => return None,
        }
    }
}
