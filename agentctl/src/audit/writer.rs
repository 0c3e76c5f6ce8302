//! The two threads: the one that writes, and the one that makes lists.

use super::counters::Shared;
use super::error::AuditError;
use super::limits::QUEUED_LISTS;
use super::op::{Change, List, Op, Read};
use super::plan::{self, Turn};
use super::store::Store;
use super::{file, read};
use parking_lot::Mutex;
use rusqlite::Connection;
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Instant;

/// The audit thread.
pub(super) struct Writer {
    queue: Receiver<Op>,
    pending: VecDeque<Op>,
    store: Store,
    shared: Arc<Shared>,
    lists: SyncSender<List>,
}

/// Whether the thread goes on.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    End,
}

/// Starts both threads. They end when the last handle is gone, or after a close.
pub(super) fn start(store: Store, queue: Receiver<Op>, shared: Arc<Shared>, path: PathBuf, files: Arc<Mutex<()>>) -> std::io::Result<()> {
    let (lists, jobs) = sync_channel(QUEUED_LISTS);
    std::thread::Builder::new().name("audit-lists".to_owned()).spawn(move || make_lists(&path, &files, &jobs))?;
    let mut writer = Writer { queue, pending: VecDeque::new(), store, shared, lists };
    std::thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run())?;
    Ok(())
}

impl Writer {
    fn run(&mut self) {
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.turn())) {
                Ok(Flow::On) => {}
                Ok(Flow::End) => return,
                // The turn's messages are gone, and with them their callers were told so.
                Err(panic) => self.store.panicked(panic_text(&*panic)),
            }
        }
    }

    fn turn(&mut self) -> Flow {
        if self.pending.is_empty() && self.wait() == Flow::End {
            self.store.close();
            return Flow::End;
        }
        self.take_all();
        let Turn { changes, mut claims, reads } = plan::turn(&mut self.pending);
        self.store.changes(changes);
        self.take_all();
        plan::more_claims(&mut self.pending, &mut claims);
        self.store.claims(claims);
        for read in reads {
            if self.read(read) == Flow::End {
                return Flow::End;
            }
        }
        self.store.maintain(Instant::now());
        Flow::On
    }

    /// Waits for the next message, or until something is due. Nothing due: no wake-up.
    fn wait(&mut self) -> Flow {
        let now = Instant::now();
        let received = match self.store.schedule.next(now) {
            None => self.queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => self.queue.recv_timeout(due.saturating_duration_since(now)),
        };
        match received {
            Ok(op) => self.take(op),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Flow::End,
        }
        Flow::On
    }

    fn take_all(&mut self) {
        while let Ok(op) = self.queue.try_recv() {
            self.take(op);
        }
    }

    fn take(&mut self, op: Op) {
        if matches!(&op, Op::Change(Change::Row(row)) if row.droppable()) {
            self.shared.queued.fetch_sub(1, Relaxed);
        }
        self.pending.push_back(op);
    }

    fn read(&mut self, read: Read) -> Flow {
        match read {
            Read::Lookup { session, task_id, request_id, done } => {
                let found = self.store.read(|conn| read::lookup(conn, &session, &task_id, request_id));
                done.send(found.map_err(AuditError::Unavailable));
            }
            Read::List(list) => match self.lists.try_send(list) {
                Ok(()) => {}
                Err(TrySendError::Full(list)) => list.refuse("too many lists at once"),
                Err(TrySendError::Disconnected(list)) => drop(list),
            },
            Read::Close(done) => {
                self.store.close();
                done.send(());
                return Flow::End;
            }
            #[cfg(test)]
            Read::Poke(poke) => poke(&mut self.store),
        }
        Flow::On
    }
}

/// Lists are made apart, on a connection of their own, so that a long one never holds up a claim.
fn make_lists(path: &Path, files: &Mutex<()>, jobs: &Receiver<List>) {
    while let Ok(list) = jobs.recv() {
        let _open = files.lock();
        let conn = file::connect_reader(path);
        match list {
            List::Records(query, done) => done.send(made(&conn, |conn| read::list(conn, &query))),
            List::Witnessed(query, done) => done.send(made(&conn, |conn| read::witnessed(conn, &query))),
        }
    }
}

fn made<T>(
    conn: &Result<Connection, rusqlite::Error>,
    make: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
) -> Result<T, AuditError> {
    let conn = conn.as_ref().map_err(|e| AuditError::Unavailable(e.to_string()))?;
    match catch_unwind(AssertUnwindSafe(|| make(conn))) {
        Ok(made) => made.map_err(|e| AuditError::Unavailable(e.to_string())),
        Err(panic) => Err(AuditError::Unavailable(panic_text(&*panic).to_owned())),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}
