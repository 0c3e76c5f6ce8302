//! Rows that wait for the database to work again.

use super::counters::{Shared, add};
use super::limits::Limits;
use super::op::Row;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

/// Bounded by number and by bytes, in order.
#[derive(Default)]
pub(super) struct Backlog {
    rows: VecDeque<Row>,
    bytes: usize,
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Keeps a row, or counts it as dropped.
    pub(super) fn keep(&mut self, row: Row, limits: &Limits, shared: &Shared) {
        let weight = row.weight();
        if self.rows.len() >= limits.backlog_rows || self.bytes + weight > limits.backlog_bytes {
            add(&shared.rows_dropped, 1);
            return;
        }
        self.bytes += weight;
        self.rows.push_back(row);
        shared.backlog.store(self.rows.len() as u64, Relaxed);
    }

    /// Takes all rows, to try them again.
    pub(super) fn take(&mut self, shared: &Shared) -> VecDeque<Row> {
        self.bytes = 0;
        shared.backlog.store(0, Relaxed);
        std::mem::take(&mut self.rows)
    }
}
