//! What waits to be written to one client: answers and events, written directly while the client reads.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd as _;

use bytes::Bytes;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;
use tokio::net::UnixStream;
use tokio::sync::Notify;

use crate::limits::{ANSWER_BACKLOG, EVENT_BACKLOG};
use crate::wire::{Event, event_line};

/// One connection's stream and the lines that wait for it.
#[derive(Debug)]
pub struct Peer {
    stream: UnixStream,
    queue: Mutex<Queue>,
    /// The queue has something that could not be written at once.
    blocked: Notify,
    /// The queue of answers has room again.
    room: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<(Bytes, Kind)>,
    /// How much of the first line has been written.
    written: usize,
    answer_bytes: usize,
    event_bytes: usize,
    missed: u64,
    last_seq: u64,
    closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Answer,
    Event,
}

impl Peer {
    /// Takes a stream; it writes at once from the first line on.
    ///
    /// # Errors
    /// The stream is broken already.
    pub async fn new(stream: UnixStream) -> io::Result<Self> {
        stream.writable().await?;
        Ok(Self { stream, queue: Mutex::default(), blocked: Notify::new(), room: Notify::new() })
    }

    /// The stream, for reading.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Whether the client is gone for good: it neither writes nor reads any more.
    pub fn is_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(self.stream.as_fd(), PollFlags::empty())];
        let mut polled = poll(&mut fds, PollTimeout::ZERO);
        while polled == Err(Errno::EINTR) {
            // A signal of ours says nothing of the client.
            polled = poll(&mut fds, PollTimeout::ZERO);
        }
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR;
        polled.is_err() || fds[0].revents().is_some_and(|flags| flags.intersects(gone))
    }

    /// Whether nothing waits to be written.
    pub fn is_idle(&self) -> bool {
        self.queue.lock().lines.is_empty()
    }

    /// Writes an answer. Answers are never dropped; [`has_room`](Self::has_room) bounds them.
    pub fn answer(&self, line: Bytes) {
        let mut queue = self.queue.lock();
        queue.answer_bytes += line.len();
        queue.lines.push_back((line, Kind::Answer));
        self.write_or_wake(&mut queue);
    }

    /// Writes `count` events of which `seq` is the last, or counts them as missed if too much waits already.
    pub fn events(&self, seq: u64, count: u64, lines: Bytes) {
        let mut queue = self.queue.lock();
        if queue.closed {
            return;
        }
        queue.last_seq = seq;
        // A single event may be over the bound: then it is the only one that waits.
        if queue.missed > 0 || (queue.event_bytes > 0 && queue.event_bytes + lines.len() > EVENT_BACKLOG) {
            queue.missed += count;
            return;
        }
        queue.event_bytes += lines.len();
        queue.lines.push_back((lines, Kind::Event));
        self.write_or_wake(&mut queue);
    }

    /// Waits until the backlog of answers is within its bound.
    pub async fn has_room(&self) {
        loop {
            let room = self.room.notified();
            if self.queue.lock().answer_bytes <= ANSWER_BACKLOG {
                return;
            }
            room.await;
        }
    }

    /// Writes what waits whenever the client reads; ends with the connection.
    pub async fn write_backlog(&self) {
        loop {
            self.blocked.notified().await;
            loop {
                if self.stream.writable().await.is_err() {
                    return self.close();
                }
                let mut queue = self.queue.lock();
                if self.write(&mut queue) {
                    break;
                }
                if queue.closed {
                    return;
                }
            }
        }
    }

    /// Forgets what waits and takes nothing more.
    pub fn close(&self) {
        let mut queue = self.queue.lock();
        *queue = Queue { closed: true, ..Queue::default() };
        self.room.notify_waiters();
    }

    fn write_or_wake(&self, queue: &mut Queue) {
        if !self.write(queue) && !queue.closed {
            self.blocked.notify_one();
        }
    }

    /// Writes until nothing waits (true) or the client does not take more (false).
    fn write(&self, queue: &mut Queue) -> bool {
        loop {
            let Some((line, kind)) = queue.lines.front() else {
                if queue.missed == 0 {
                    return true;
                }
                let gap = gap_line(queue.last_seq, std::mem::take(&mut queue.missed));
                queue.event_bytes += gap.len();
                queue.lines.push_back((gap, Kind::Event));
                continue;
            };
            match self.stream.try_write(&line[queue.written..]) {
                Ok(n) if queue.written + n == line.len() => {
                    match kind {
                        Kind::Answer => queue.answer_bytes -= line.len(),
                        Kind::Event => queue.event_bytes -= line.len(),
                    }
                    queue.written = 0;
                    queue.lines.pop_front();
                    self.room.notify_waiters();
                }
                Ok(n) => queue.written += n,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => return false,
                Err(_) => {
                    *queue = Queue { closed: true, ..Queue::default() };
                    self.room.notify_waiters();
                    return true;
                }
            }
        }
    }
}

fn gap_line(seq: u64, count: u64) -> Bytes {
    event_line(&Event { seq, event_type: "event_gap".into(), count: Some(count), ..Event::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncBufReadExt, BufReader};

    #[tokio::test]
    async fn a_client_that_does_not_read_misses_events_and_is_told_how_many() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let peer = std::sync::Arc::new(Peer::new(ours).await.unwrap());
        tokio::spawn({
            let peer = peer.clone();
            async move { peer.write_backlog().await }
        });
        let line = |seq: u64| event_line(&Event { seq, event_type: "x".repeat(64 * 1024), ..Event::default() });
        let sent = 400;
        for seq in 1..=sent {
            peer.events(seq, 1, line(seq));
            assert!(peer.queue.lock().event_bytes <= EVENT_BACKLOG);
        }
        let mut lines = BufReader::new(theirs).lines();
        let (mut got, mut missed) = (0, 0);
        while got + missed < sent {
            let event: Event = serde_json::from_value(
                serde_json::from_str::<serde_json::Value>(&lines.next_line().await.unwrap().unwrap()).unwrap()["params"].clone(),
            )
            .unwrap();
            match event.count {
                Some(count) => missed += count,
                None => got += 1,
            }
        }
        assert!(missed > 0);
        peer.events(sent + 1, 1, line(sent + 1));
        assert!(lines.next_line().await.unwrap().unwrap().contains(&format!("\"seq\":{}", sent + 1)));
    }
}
