//! Every bound of the audit, in one place.

use std::time::Duration;

/// The bounds that keep a malicious agent, a noisy caller or a broken disk from filling disk or memory.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of request rows per execution. Beyond it, request rows keep their identity but neither title, action nor
    /// options, and are counted in [`Counters::texts_dropped`](super::Counters). Claims are always written.
    pub bytes_per_execution: u64,
    /// Ended requests older than this are pruned; ended executions too.
    pub max_age: Duration,
    /// Beyond so many requests the ones that ended first are pruned, open ones never.
    pub max_requests: u64,
    /// Failed attempts kept per request: the first ones and the latest. The rest is only counted.
    pub attempts_per_request: u32,
    /// Rows kept in memory while the database can't be written. Beyond it they are dropped and counted.
    pub backlog_rows: usize,
    /// Bytes of such rows.
    pub backlog_bytes: usize,
    /// Request rows and failed attempts that may wait for the audit thread; beyond it they are dropped and counted.
    pub queued_rows: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes_per_execution: 64 << 20,
            max_age: Duration::from_secs(90 * 24 * 3600),
            max_requests: 1_000_000,
            attempts_per_request: 32,
            backlog_rows: 16_384,
            backlog_bytes: 16 << 20,
            queued_rows: 65_536,
        }
    }
}

/// A failed attempt's texts are cut to so many bytes, between two characters.
pub const ATTEMPT_TEXT_BYTES: usize = 256;
/// A page of records ends once its texts have so many bytes, however many were asked for.
pub(super) const PAGE_BYTES: usize = 8 << 20;
/// How long a statement waits for a lock of somebody else.
pub(super) const BUSY: Duration = Duration::from_millis(250);
/// The database is flushed so long after the last write,
pub(super) const IDLE: Duration = Duration::from_millis(100);
/// and at the latest so long after the first commit that is not flushed yet.
pub(super) const FLUSH: Duration = Duration::from_secs(1);
/// Rows written since the last checkpoint that call for one whatever else is going on.
pub(super) const CHECKPOINT_ROWS: u64 = 20_000;
/// A broken database, or one with a backlog, is tried again so often.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// Requests pruned in one step, between which the queue is looked at.
pub(super) const PRUNE_STEP: u32 = 200;
/// The time between two looks for something to prune.
pub(super) const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// Lists that may wait for the reading thread.
pub(super) const QUEUED_LISTS: usize = 64;
