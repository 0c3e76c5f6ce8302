//! What the audit thread does when nobody asked: flushes, retention, the end.

use super::{Store, Sync, set_sync};
use crate::audit::counters::add;
use crate::audit::error::{Severity, severity};
use crate::audit::limits::RETRY;
use crate::audit::{retain, txn};
use jiff::Timestamp;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

const COUNT_CHECKPOINT: &str = "INSERT INTO meta (key, value) VALUES ('checkpoints', 1) ON CONFLICT (key) DO UPDATE SET value = value + 1";

impl Store {
    /// What is due: the flush, the backlog, a step of retention.
    pub(in crate::audit) fn maintain(&mut self, now: Instant) {
        if self.schedule.retry_due(now) {
            self.schedule.retried();
            if self.ready().is_ok() {
                self.write_changes(Vec::new());
            }
        }
        if self.schedule.checkpoint_due(now) {
            self.checkpoint();
        }
        if self.schedule.prune_due(now) {
            self.prune(now);
        }
    }

    /// Moves the log into the database: this flushes what was committed without a flush.
    pub(in crate::audit) fn checkpoint(&mut self) {
        self.schedule.checkpointed();
        let Some(conn) = &self.conn else { return };
        // The log's next first frame costs an fsync of its header. It is written here, so that no claim pays for it.
        // If a reader held up the checkpoint, the same frame flushes the log.
        let result = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok((row.get(1)?, row.get(2)?))).and_then(
            |(log, moved): (i64, i64)| {
                set_sync(conn, &mut self.sync, if log == moved { Sync::Normal } else { Sync::Full })?;
                txn::exec(conn, COUNT_CHECKPOINT)
            },
        );
        add(&self.shared.fsyncs, 3);
        let Err(error) = result else { return };
        if severity(&error) == Severity::Broken {
            // An fsync may have failed: what is in the log can't be trusted until it is read again.
            self.drop_connection();
            self.failed(&format!("a checkpoint failed: {error}"));
        } else {
            self.shared.error(&format!("a checkpoint has to wait: {error}"));
            self.schedule.wrote(Instant::now() + RETRY, 0);
        }
    }

    fn prune(&mut self, now: Instant) {
        let (requests, limits) = (self.requests, self.limits.clone());
        let pruned = self
            .ready_for(Sync::Normal)
            .map(|_| ())
            .and_then(|()| self.read(|conn| retain::prune(conn, &limits, requests, Timestamp::now())));
        match pruned {
            Ok(pruned) => {
                self.requests = self.requests.saturating_sub(pruned);
                add(&self.shared.pruned, pruned);
                if pruned > 0 {
                    self.schedule.wrote(now, pruned);
                }
                self.schedule.pruned(now, pruned > 0);
            }
            Err(error) => {
                self.shared.error(&format!("retention: {error}"));
                self.schedule.pruned(now, false);
            }
        }
    }

    /// The last turn: all is flushed and the log is emptied.
    pub(in crate::audit) fn close(&mut self) {
        self.write_changes(Vec::new());
        let files = Arc::clone(&self.files);
        let _nobody_reads = files.lock();
        if let Some(conn) = self.conn.take()
            && let Err(error) = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        {
            self.shared.error(&format!("at the end: {error}"));
        }
        self.shared.available.store(false, Relaxed);
    }
}
