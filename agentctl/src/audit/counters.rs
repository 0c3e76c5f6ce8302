//! What the audit tells about itself.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A snapshot, counted from the start of the daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Whether the database could be used when it was last tried.
    pub available: bool,
    /// Claims made durable.
    pub claims: u64,
    /// Claims refused or not recorded.
    pub claims_refused: u64,
    /// Committed transactions.
    pub commits: u64,
    /// Times that data was forced to disk, as far as we ask for it: one per group of claims, three per checkpoint.
    pub fsyncs: u64,
    /// Rows waiting until the database can be written again.
    pub backlog: u64,
    /// Rows that were lost: queue or backlog full, or refused by the database.
    pub rows_dropped: u64,
    /// Request rows stored without title, action and options.
    pub texts_dropped: u64,
    /// Failed attempts about requests that are not recorded in the session they named; not stored.
    pub attempts_unattributed: u64,
    /// Requests removed by age or number.
    pub pruned: u64,
    /// Times that the database was opened again after an error.
    pub reopened: u64,
    /// Panics of the audit thread or of a callback; each was survived.
    pub panics: u64,
    /// The last error, if there ever was one.
    pub last_error: Option<String>,
}

/// The live counters, shared by handle and threads.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) available: AtomicBool,
    pub(super) claims: AtomicU64,
    pub(super) claims_refused: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) fsyncs: AtomicU64,
    pub(super) backlog: AtomicU64,
    pub(super) rows_dropped: AtomicU64,
    pub(super) texts_dropped: AtomicU64,
    pub(super) attempts_unattributed: AtomicU64,
    pub(super) pruned: AtomicU64,
    pub(super) reopened: AtomicU64,
    pub(super) panics: AtomicU64,
    pub(super) last_error: Mutex<Option<String>>,
    /// Rows in the queue that may be dropped.
    pub(super) queued: AtomicUsize,
}

pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

impl Shared {
    pub(super) fn error(&self, text: &str) {
        tracing::warn!(error = text, "audit");
        *self.last_error.lock() = Some(text.to_owned());
    }

    pub(super) fn snapshot(&self) -> Counters {
        Counters {
            available: self.available.load(Relaxed),
            claims: self.claims.load(Relaxed),
            claims_refused: self.claims_refused.load(Relaxed),
            commits: self.commits.load(Relaxed),
            fsyncs: self.fsyncs.load(Relaxed),
            backlog: self.backlog.load(Relaxed),
            rows_dropped: self.rows_dropped.load(Relaxed),
            texts_dropped: self.texts_dropped.load(Relaxed),
            attempts_unattributed: self.attempts_unattributed.load(Relaxed),
            pruned: self.pruned.load(Relaxed),
            reopened: self.reopened.load(Relaxed),
            panics: self.panics.load(Relaxed),
            last_error: self.last_error.lock().clone(),
        }
    }
}
