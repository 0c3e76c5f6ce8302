//! C16 on a real process: SIGKILL at each step of a claim and its end, then another daemon on the same file.
//!
//! The killed process is this test binary again, with `AGENTCTL_FAILPOINTS` set. Needs `--features failpoints`.
#![cfg(feature = "failpoints")]
#![allow(clippy::unwrap_used)]

use agentctl::audit::{Audit, AuditError, ClaimError, Ending, Finish, Limits, PastRequest, RequestRow};
use agentctl::domain::{Actor, ActorKind, Claim, ClaimResult, End, SessionKey, Source};
use jiff::Timestamp;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, mpsc};
use uuid::Uuid;

const DIR: &str = "AUDIT_KILL_DIR";
const SIGKILL: i32 = 9;

fn session() -> SessionKey {
    SessionKey { owner: "1000".to_owned(), session_id: "s1".to_owned() }
}

fn row() -> Arc<RequestRow> {
    Arc::new(RequestRow {
        request_id: Uuid::from_u128(1),
        execution_id: Uuid::from_u128(2),
        session: session(),
        task_id: "t1".to_owned(),
        acp_session_id: None,
        pending_id: "5".to_owned(),
        tool_call_id: None,
        created_at: Timestamp::UNIX_EPOCH,
        title: "git status".to_owned(),
        action: "{}".to_owned(),
        options: "[]".to_owned(),
    })
}

fn claim(audit: &Audit, claim_id: u128) -> Result<(), ClaimError> {
    let claim = Claim {
        claim_id: Uuid::from_u128(claim_id),
        request_id: row().request_id,
        pending_id: "5".to_owned(),
        actor: Actor { user_id: "1000".to_owned(), kind: ActorKind::Synthetic, source: Source::ControlSocket },
        option_id: "allow".to_owned(),
        option_kind: "null".to_owned(),
        selected_at: Timestamp::UNIX_EPOCH,
    };
    let (tx, rx) = mpsc::channel();
    audit.claim(claim, row(), move |result| tx.send(result).unwrap());
    rx.recv().unwrap()
}

fn finish(audit: &Audit) -> Result<(), AuditError> {
    let finish = Finish {
        claim_id: Uuid::from_u128(7),
        request_id: row().request_id,
        result: ClaimResult::Accepted,
        ending: Some(Ending { end: End::Resolved, reason: "answered".into() }),
        at: Timestamp::UNIX_EPOCH,
    };
    let (tx, rx) = mpsc::channel();
    audit.finish(finish, move |result| tx.send(result).unwrap());
    rx.recv().unwrap()
}

fn lookup(audit: &Audit) -> Option<PastRequest> {
    let (tx, rx) = mpsc::channel();
    audit.lookup(session(), "t1".to_owned(), row().request_id, move |found| tx.send(found).unwrap());
    rx.recv().unwrap().unwrap()
}

/// The process that is killed; does nothing unless it was started by the test below.
#[test]
fn victim() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let (audit, _) = Audit::open(Path::new(&dir), Limits::default(), Timestamp::UNIX_EPOCH).unwrap();
    audit.request_seen(row());
    claim(&audit, 7).unwrap();
    agentctl::failpoint::hit("deliver.before");
    agentctl::failpoint::hit("deliver.after");
    finish(&audit).unwrap();
    // The last rules are at steps that were passed by now.
    std::process::exit(3);
}

fn killed_at(point: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .env(DIR, dir.path())
        .env("AGENTCTL_FAILPOINTS", format!("{point}=kill"))
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(SIGKILL), "{point}");
    dir
}

#[test]
fn a_kill_at_any_step_leaves_a_claim_that_can_be_judged() {
    for point in agentctl::failpoint::NAMES {
        let dir = killed_at(point);
        let (audit, _) = Audit::open(dir.path(), Limits::default(), Timestamp::now()).unwrap();
        let past = lookup(&audit);
        let result = past.as_ref().and_then(|past| past.resolution.as_ref()).map(|resolution| resolution.result);
        let end = past.and_then(|past| past.end);
        let (expected, expected_end) = match *point {
            "rows.before" | "rows.before_commit" => (None, None),
            "rows.after_commit" | "claim.received" | "claim.before" | "claim.before_commit" => (None, Some(End::Expired)),
            "finish.after_commit" => (Some(ClaimResult::Accepted), Some(End::Resolved)),
            _ => (Some(ClaimResult::Indeterminate), Some(End::Expired)),
        };
        assert_eq!((result, end), (expected, expected_end), "{point}");
        // Whatever was claimed is never acted on again.
        let again = claim(&audit, 8);
        assert_eq!(again.is_ok(), result.is_none(), "{point}");
        assert_ne!(finish(&audit), Ok(()), "{point}");
    }
}

#[test]
fn the_rest_of_a_plan_is_passed_by() {
    let dir = tempfile::tempdir().unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim"])
        .env(DIR, dir.path())
        .env("AGENTCTL_FAILPOINTS", "claim.before=2:kill")
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(3));
}
