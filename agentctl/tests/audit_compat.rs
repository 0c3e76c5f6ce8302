//! A database of each earlier version is opened and read right. See `data/README.md`.

#![allow(clippy::unwrap_used)]

use agentctl::audit::{
    Attempt, Audit, Ended, Ending, ExecutionStarted, FailedAttempt, Finish, Limits, Page, PageSize, Query, Record, RequestRow, Resolution,
    SCHEMA_VERSION,
};
use agentctl::domain::{Actor, ActorKind, Claim, ClaimResult, End, SessionKey, Source};
use jiff::Timestamp;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use uuid::Uuid;

fn data(version: i64) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/audit-v{version}.db"))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_786_449_600 + second).unwrap()
}

fn session() -> SessionKey {
    SessionKey { owner: "1000".to_owned(), session_id: "s1".to_owned() }
}

fn actor(n: u128) -> Actor {
    let place = n as usize;
    Actor {
        user_id: format!("user-{n}"),
        kind: ActorKind::ALL[place % ActorKind::ALL.len()],
        source: Source::ALL[place % Source::ALL.len()],
    }
}

fn row(n: u128) -> RequestRow {
    RequestRow {
        request_id: Uuid::from_u128(n),
        execution_id: Uuid::from_u128(0xe),
        session: session(),
        task_id: "t1".to_owned(),
        acp_session_id: n.is_multiple_of(2).then(|| "acp-1".to_owned()),
        pending_id: format!("agent-id-{n}"),
        tool_call_id: (!n.is_multiple_of(2)).then(|| "call_1".to_owned()),
        created_at: at(n as i64),
        title: format!("title {n} ✓"),
        action: r#"{"type":"command","command":"git status"}"#.to_owned(),
        options: r#"[{"option_id":"allow-once","name":"Allow once","kind":"allow_once"}]"#.to_owned(),
    }
}

fn claim(n: u128) -> Claim {
    Claim {
        claim_id: Uuid::from_u128(0xc000 + n),
        request_id: Uuid::from_u128(n),
        pending_id: row(n).pending_id,
        actor: actor(n),
        option_id: "allow-once".to_owned(),
        option_kind: r#""allow_once""#.to_owned(),
        selected_at: at(100),
    }
}

/// Requests 1 to 6: a claim of each result; 7 to 11: each end; 12: refusals; 13: open; 14: no texts.
#[test]
#[ignore = "writes the file that the other tests read"]
fn write_the_database_of_this_version() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { bytes_per_execution: 20_000, ..Limits::default() };
    let (audit, _) = Audit::open(dir.path(), limits, at(0)).unwrap();
    audit.session(session(), "t1".to_owned(), at(0));
    audit.session(SessionKey { owner: "1001".to_owned(), session_id: "s1".to_owned() }, "t2".to_owned(), at(0));
    for (n, ended) in [(0xe, false), (0xf, true)] {
        let execution_id = Uuid::from_u128(n);
        audit.execution_started(ExecutionStarted { execution_id, session: session(), agent: "fake".to_owned(), pid: 42, at: at(0) });
        if ended {
            audit.execution_ended(execution_id, "exit 0".to_owned(), at(1));
        }
    }
    for n in 1..=13 {
        audit.request_seen(Arc::new(row(n)));
    }
    audit.request_seen(Arc::new(RequestRow { title: "x".repeat(20_001), ..row(14) }));
    for (n, result) in (1..).zip(ClaimResult::ALL) {
        let (claim_id, request_id) = (claim(n).claim_id, claim(n).request_id);
        audit.claim(claim(n), Arc::new(row(n)), |result| result.unwrap());
        if *result != ClaimResult::Dispatching {
            let ending = (*result == ClaimResult::Accepted).then(|| Ending { end: End::Resolved, reason: "answered".into() });
            audit.finish(Finish { claim_id, request_id, result: *result, ending, at: at(101) }, |result| result.unwrap());
        }
    }
    for (n, end) in (7..).zip(End::ALL) {
        audit.request_ended(Uuid::from_u128(n), Ending { end: *end, reason: format!("reason {n}").into() }, at(102));
    }
    for second in 0..3 {
        audit.attempt(FailedAttempt {
            request_id: Uuid::from_u128(12),
            session: session(),
            code: "permission_option_not_offered",
            pending_id: "as given".to_owned(),
            option_id: (second > 0).then(|| "no such".to_owned()),
            actor: actor(12),
            at: at(second),
        });
    }
    let (tx, rx) = mpsc::channel();
    audit.close(move || tx.send(()).unwrap());
    rx.recv().unwrap();
    std::fs::copy(dir.path().join("audit.db"), data(SCHEMA_VERSION)).unwrap();
}

fn expected(n: u128, now: Timestamp) -> Record {
    let RequestRow { request_id, execution_id, session, task_id, acp_session_id, pending_id, tool_call_id, created_at, .. } = row(n);
    let texts = n != 14;
    let ended = |end, at, reason: String| Some(Ended { end, at, reason: Some(reason) });
    let restarted = || ended(End::Expired, now, "daemon_restarted".to_owned());
    let place = n as usize;
    let resolution = (1..=6).contains(&n).then(|| {
        let Claim { claim_id, actor, option_id, option_kind, selected_at, .. } = claim(n);
        let (result, finalized_at) = match ClaimResult::ALL[place - 1] {
            ClaimResult::Dispatching => (ClaimResult::Indeterminate, Some(now)),
            result => (result, Some(at(101))),
        };
        Resolution { claim_id, actor, option_id, option_kind, selected_at, finalized_at, result }
    });
    let mut record = Record {
        request_id,
        execution_id,
        session,
        task_id,
        acp_session_id,
        pending_id,
        tool_call_id,
        created_at,
        title: texts.then(|| row(n).title),
        action: texts.then(|| row(n).action),
        options: texts.then(|| row(n).options),
        ended: match n {
            2 => ended(End::Resolved, at(101), "answered".to_owned()),
            7..=11 => ended(End::ALL[place - 7], at(102), format!("reason {n}")),
            _ => restarted(),
        },
        resolutions: resolution.into_iter().collect(),
        failed_attempts: Default::default(),
    };
    if n == 12 {
        record.failed_attempts.count = 3;
        record.failed_attempts.last = (0..3)
            .map(|second| Attempt {
                code: "permission_option_not_offered".to_owned(),
                pending_id: "as given".to_owned(),
                option_id: (second > 0).then(|| "no such".to_owned()),
                actor: actor(12),
                at: at(second),
            })
            .collect();
    }
    record
}

fn list(audit: &Audit) -> Page {
    let (tx, rx) = mpsc::channel();
    let query = Query { owner: "1000".to_owned(), limit: PageSize::new(1000).unwrap(), ..Query::default() };
    audit.list(query, move |page| tx.send(page).unwrap());
    rx.recv().unwrap().unwrap()
}

#[test]
fn every_row_of_version_1_is_read_right() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(data(1), dir.path().join("audit.db")).unwrap();
    let now = at(1000);
    // Nothing may fall to the retention here, in whatever year this runs.
    let limits = Limits { max_age: std::time::Duration::from_secs(1 << 35), ..Limits::default() };
    let (audit, mut recovered) = Audit::open(dir.path(), limits, now).unwrap();
    recovered.sessions.sort();
    let other = SessionKey { owner: "1001".to_owned(), session_id: "s1".to_owned() };
    assert_eq!(recovered.sessions, [(session(), "t1".to_owned()), (other, "t2".to_owned())]);
    assert_eq!((recovered.indeterminate_claims, recovered.expired_requests, recovered.ended_executions), (1, 8, 1));
    let records = list(&audit).records;
    assert_eq!(records.len(), 14);
    for (n, record) in (1..=14).rev().zip(records) {
        assert_eq!(record, expected(n, now));
    }
}

#[test]
fn there_is_a_database_of_this_version() {
    assert!(data(SCHEMA_VERSION).exists());
}
