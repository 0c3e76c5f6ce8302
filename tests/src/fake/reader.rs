//! Stdin, line by line, by a reader that can be paused and told to close its end.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::io::lock;

#[derive(Default)]
struct Wish {
    paused: bool,
    close: bool,
}

/// Controls the reader from other threads.
pub(super) struct Gate {
    wish: Arc<Mutex<Wish>>,
    wake: UnixStream,
}

impl Gate {
    /// Stops or resumes reading.
    pub(super) fn pause(&self, paused: bool) {
        lock(&self.wish).paused = paused;
        let _ = (&self.wake).write(b".");
    }

    /// Closes stdin. The reader does it, so that no read keeps the pipe open.
    pub(super) fn close(&self) {
        lock(&self.wish).close = true;
        let _ = (&self.wake).write(b".");
    }
}

/// Reads lines.
pub(super) struct Reader {
    wish: Arc<Mutex<Wish>>,
    wake: UnixStream,
    buffer: Vec<u8>,
    searched: usize,
}

/// What was read.
pub(super) enum Read {
    /// A line without its newline.
    Line(Vec<u8>),
    /// The end, after these bytes without a newline.
    End(Vec<u8>),
}

impl Reader {
    /// A reader and its control.
    pub(super) fn new() -> io::Result<(Self, Gate)> {
        let (wake, other) = UnixStream::pair()?;
        other.set_nonblocking(true)?;
        let wish = Arc::<Mutex<Wish>>::default();
        Ok((Self { wish: wish.clone(), wake, buffer: Vec::new(), searched: 0 }, Gate { wish, wake: other }))
    }

    /// Waits for the next line.
    pub(super) fn next(&mut self) -> Read {
        loop {
            // A paused reader hands out nothing, not even what it has.
            let paused = lock(&self.wish).paused;
            if !paused {
                if let Some(at) = self.buffer[self.searched..].iter().position(|b| *b == b'\n') {
                    let rest = self.buffer.split_off(self.searched + at + 1);
                    let mut line = std::mem::replace(&mut self.buffer, rest);
                    line.pop();
                    self.searched = 0;
                    return Read::Line(line);
                }
                self.searched = self.buffer.len();
            }
            if self.fill(paused).unwrap_or(true) {
                return Read::End(std::mem::take(&mut self.buffer));
            }
        }
    }

    /// Waits for bytes or a wish; `true` at the end of stdin.
    fn fill(&mut self, paused: bool) -> io::Result<bool> {
        let stdin = io::stdin();
        let mut fds = vec![PollFd::new(self.wake.as_fd(), PollFlags::POLLIN)];
        if !paused {
            fds.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(err) => return Err(err.into()),
        }
        let ready = |i: usize| fds.get(i).and_then(PollFd::any).unwrap_or(false);
        let (woken, readable) = (ready(0), ready(1));
        if woken {
            let _ = self.wake.read(&mut [0; 16])?;
            if std::mem::take(&mut lock(&self.wish).close) {
                nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
                // Not an end that the client made: the agent goes on.
                loop {
                    std::thread::park();
                }
            }
            return Ok(false);
        }
        if !readable {
            return Ok(false);
        }
        let mut chunk = [0; 8192];
        // The raw descriptor: what std buffers, poll would not see.
        let n = nix::unistd::read(stdin.as_fd(), &mut chunk)?;
        self.buffer.extend_from_slice(&chunk[..n]);
        Ok(n == 0)
    }
}
