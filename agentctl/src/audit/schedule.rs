//! When the audit thread does what nobody asked for. Pure: times come in.

use super::limits::{CHECKPOINT_ROWS, FLUSH, IDLE, PRUNE_EVERY, RETRY};
use std::time::Instant;

/// What is due when.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// The first commit that no fsync covers.
    unflushed: Option<Instant>,
    /// The last write that is in the log only.
    in_log: Option<Instant>,
    rows: u64,
    retry: Option<Instant>,
    last_prune: Option<Instant>,
    prune_wanted: bool,
}

impl Schedule {
    /// Rows were committed.
    pub(super) fn wrote(&mut self, now: Instant, rows: u64) {
        self.unflushed.get_or_insert(now);
        self.in_log = Some(now);
        self.rows += rows;
        self.prune_wanted = true;
    }

    /// An fsync of the log covered all commits.
    pub(super) fn flushed(&mut self) {
        self.unflushed = None;
    }

    pub(super) fn checkpointed(&mut self) {
        self.unflushed = None;
        self.in_log = None;
        self.rows = 0;
    }

    /// Something has to be tried again.
    pub(super) fn retry(&mut self, now: Instant) {
        self.retry.get_or_insert(now + RETRY);
    }

    pub(super) fn retried(&mut self) {
        self.retry = None;
    }

    pub(super) fn pruned(&mut self, now: Instant, more: bool) {
        self.prune_wanted = more;
        // While there is more, the next step is due when the database is idle again.
        self.last_prune = (!more).then_some(now);
    }

    pub(super) fn retry_due(&self, now: Instant) -> bool {
        self.retry.is_some_and(|at| now >= at)
    }

    pub(super) fn checkpoint_due(&self, now: Instant) -> bool {
        self.rows >= CHECKPOINT_ROWS || self.checkpoint_at().is_some_and(|at| now >= at)
    }

    /// Only when the log is empty: the idle times are for this.
    pub(super) fn prune_due(&self, now: Instant) -> bool {
        self.in_log.is_none() && self.prune_at().is_some_and(|at| at.is_none_or(|at| now >= at))
    }

    fn checkpoint_at(&self) -> Option<Instant> {
        let idle = self.in_log.map(|at| at + IDLE);
        let flush = self.unflushed.map(|at| at + FLUSH);
        idle.into_iter().chain(flush).min()
    }

    /// `Some(None)`: at once.
    fn prune_at(&self) -> Option<Option<Instant>> {
        self.prune_wanted.then(|| self.last_prune.map(|at| at + PRUNE_EVERY))
    }

    /// When to wake if nothing comes; `None` if nothing is ever due.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let prune = if self.in_log.is_none() { self.prune_at().map(|at| at.unwrap_or(now)) } else { None };
        self.checkpoint_at().into_iter().chain(self.retry).chain(prune).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_end_is_flushed_within_a_second_even_under_load() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        for tenth in 0..20 {
            let now = start + Duration::from_millis(tenth * 50);
            assert!(!schedule.checkpoint_due(now));
            schedule.wrote(now, 1);
        }
        assert!(schedule.checkpoint_due(start + FLUSH));
        schedule.checkpointed();
        assert_eq!(schedule.checkpoint_at(), None);
    }

    #[test]
    fn it_is_flushed_when_nothing_follows() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.wrote(now, 1);
        assert_eq!(schedule.next(now), Some(now + IDLE));
        assert!(schedule.checkpoint_due(now + IDLE));
    }

    #[test]
    fn nothing_is_due_when_all_is_done() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.wrote(now, 1);
        schedule.checkpointed();
        assert!(schedule.prune_due(now));
        schedule.pruned(now, true);
        assert!(schedule.prune_due(now));
        schedule.pruned(now, false);
        assert_eq!(schedule.next(now), None);
        schedule.retry(now);
        assert_eq!(schedule.next(now), Some(now + RETRY));
    }
}
