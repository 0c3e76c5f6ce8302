//! Tests of the store on real files. Faults are real ones of SQLite, or injected by fail points of the audit thread.

mod claims;
mod faults;
mod files;
mod lists;
mod model;

use super::store::Store;
use super::*;
use crate::domain::{Actor, ActorKind, ClaimResult, End, Source};
use std::sync::mpsc;
use tempfile::TempDir;

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_786_449_600 + second).unwrap()
}

pub(super) fn session() -> SessionKey {
    SessionKey { owner: "1000".to_owned(), session_id: "s1".to_owned() }
}

pub(super) fn actor() -> Actor {
    Actor { user_id: "1000".to_owned(), kind: ActorKind::Synthetic, source: Source::ControlSocket }
}

pub(super) fn row(n: u128) -> Arc<RequestRow> {
    Arc::new(RequestRow {
        request_id: Uuid::from_u128(n),
        execution_id: Uuid::from_u128(0xe),
        session: session(),
        task_id: "t1".to_owned(),
        acp_session_id: Some("acp".to_owned()),
        pending_id: n.to_string(),
        tool_call_id: None,
        created_at: at(0),
        title: "git status".to_owned(),
        action: r#"{"type":"command"}"#.to_owned(),
        options: "[]".to_owned(),
    })
}

pub(super) fn claim_of(row: &RequestRow) -> Claim {
    Claim {
        claim_id: Uuid::new_v4(),
        request_id: row.request_id,
        pending_id: row.pending_id.clone(),
        actor: actor(),
        option_id: "allow-once".to_owned(),
        option_kind: "\"allow_once\"".to_owned(),
        selected_at: at(1),
    }
}

pub(super) fn finish_of(claim: &Claim) -> Finish {
    Finish {
        claim_id: claim.claim_id,
        request_id: claim.request_id,
        result: ClaimResult::Accepted,
        ending: Some(Ending { end: End::Resolved, reason: "answered".into() }),
        at: at(2),
    }
}

pub(super) fn attempt(n: u128, second: i64) -> FailedAttempt {
    FailedAttempt {
        request_id: Uuid::from_u128(n),
        session: session(),
        code: "permission_stale",
        pending_id: "5".to_owned(),
        option_id: None,
        actor: actor(),
        at: at(second),
    }
}

/// An audit in a folder of its own, with waiting calls.
pub(super) struct Bench {
    pub(super) dir: TempDir,
    pub(super) audit: Audit,
    pub(super) recovered: Recovered,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(super) fn with(limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (audit, recovered) = Audit::open(dir.path(), limits, at(0)).unwrap();
        Self { dir, audit, recovered }
    }

    /// Ends this daemon in order and starts another.
    pub(super) fn restart(self) -> Self {
        self.close();
        let (audit, recovered) = Audit::open(self.dir.path(), Limits::default(), at(100)).unwrap();
        Self { dir: self.dir, audit, recovered }
    }

    pub(super) fn close(&self) {
        let (tx, rx) = mpsc::channel();
        self.audit.close(move || tx.send(()).unwrap());
        rx.recv().unwrap();
    }

    pub(super) fn claim(&self, claim: &Claim) -> Result<(), ClaimError> {
        let (tx, rx) = mpsc::channel();
        let row = row(claim.request_id.as_u128());
        self.audit.claim(claim.clone(), row, move |result| tx.send(result).unwrap());
        rx.recv().unwrap()
    }

    pub(super) fn finish(&self, finish: Finish) -> Result<(), AuditError> {
        let (tx, rx) = mpsc::channel();
        self.audit.finish(finish, move |result| tx.send(result).unwrap());
        rx.recv().unwrap()
    }

    pub(super) fn lookup(&self, n: u128) -> Option<PastRequest> {
        let (tx, rx) = mpsc::channel();
        self.audit.lookup(session(), "t1".to_owned(), Uuid::from_u128(n), move |found| tx.send(found).unwrap());
        rx.recv().unwrap().unwrap()
    }

    pub(super) fn list(&self, query: Query) -> Page {
        let (tx, rx) = mpsc::channel();
        self.audit.list(query, move |page| tx.send(page).unwrap());
        rx.recv().unwrap().unwrap()
    }

    pub(super) fn all(&self) -> Vec<Record> {
        self.list(Query { owner: "1000".to_owned(), limit: PageSize::new(1000).unwrap(), ..Query::default() }).records
    }

    pub(super) fn results(&self, n: u128) -> Vec<ClaimResult> {
        let query = Query { owner: "1000".to_owned(), request_id: Some(Uuid::from_u128(n)), ..Query::default() };
        self.list(query).records.iter().flat_map(|record| record.resolutions.iter().map(|r| r.result)).collect()
    }

    /// Does something on the audit thread.
    pub(super) fn poke<T: Send + 'static>(&self, poke: impl FnOnce(&mut Store) -> T + Send + 'static) -> T {
        let (tx, rx) = mpsc::channel();
        self.audit.send(Op::Read(Read::Poke(Box::new(move |store| tx.send(poke(store)).unwrap()))));
        rx.recv().unwrap()
    }

    pub(super) fn sql(&self, sql: &'static str) {
        self.poke(move |store| store.connection().unwrap().execute_batch(sql).unwrap());
    }

    pub(super) fn arm(&self, rules: &'static str) {
        self.poke(move |_| crate::failpoint::arm_this_thread(rules).unwrap());
    }
}
