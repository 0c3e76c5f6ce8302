//! Durable answers per second of the audit: a request seen, claimed (fsynced) and finished.
//!
//! `cargo run --release -p agentctl --example audit_bench -- [DIR] [SECONDS]`. DIR should be on the disk to be measured.
#![allow(clippy::print_stdout)]

use agentctl::audit::{Audit, Ending, Finish, Limits, RequestRow};
use agentctl::domain::{Actor, ActorKind, Claim, ClaimResult, End, SessionKey, Source};
use anyhow::Context as _;
use jiff::Timestamp;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use uuid::Uuid;

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args_os().skip(1);
    let base = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let seconds = args.next().and_then(|s| s.to_str()?.parse().ok()).unwrap_or(3.0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for callers in [1, 64] {
        let dir = base.join(format!("audit-bench-{}", Uuid::new_v4()));
        std::fs::create_dir(&dir)?;
        let done = runtime.block_on(measure(&dir, callers, Duration::from_secs_f64(seconds)));
        std::fs::remove_dir_all(&dir)?;
        done?;
    }
    Ok(())
}

async fn measure(dir: &std::path::Path, callers: usize, time: Duration) -> anyhow::Result<()> {
    let (audit, _) = Audit::open(dir, Limits::default(), Timestamp::now())?;
    let start = Instant::now();
    let tasks: Vec<_> = (0..callers).map(|_| tokio::spawn(caller(audit.clone(), start, time))).collect();
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(task.await??);
    }
    let took = start.elapsed().as_secs_f64();
    waits.sort_unstable();
    let counters = audit.counters();
    let at = |share: f64| waits.get((waits.len() as f64 * share) as usize).copied().unwrap_or_default();
    println!(
        "{callers:>3} callers: {:>6.0} claims/s; a claim waits {:.2?} (median), {:.2?} (99 %), {:.2?} (at most); {:.1} claims per fsync",
        waits.len() as f64 / took,
        at(0.5),
        at(0.99),
        at(0.999_999),
        counters.claims as f64 / counters.fsyncs as f64,
    );
    let (tx, rx) = oneshot::channel();
    audit.close(move || tx.send(()).unwrap_or_default());
    rx.await.context("the audit thread is gone")
}

async fn caller(audit: Audit, start: Instant, time: Duration) -> anyhow::Result<Vec<Duration>> {
    let mut waits = Vec::new();
    while start.elapsed() < time {
        let row = Arc::new(request());
        audit.request_seen(Arc::clone(&row));
        let claim = claim(&row);
        let (claim_id, request_id) = (claim.claim_id, claim.request_id);
        let (tx, rx) = oneshot::channel();
        let sent = Instant::now();
        audit.claim(claim, row, move |result| tx.send(result).unwrap_or_else(drop));
        rx.await??;
        waits.push(sent.elapsed());
        let ending = Some(Ending { end: End::Resolved, reason: "answered".into() });
        let (tx, rx) = oneshot::channel();
        let finish = Finish { claim_id, request_id, result: ClaimResult::Accepted, ending, at: Timestamp::now() };
        audit.finish(finish, move |result| tx.send(result).unwrap_or_else(drop));
        rx.await??;
    }
    Ok(waits)
}

fn request() -> RequestRow {
    RequestRow {
        request_id: Uuid::new_v4(),
        execution_id: Uuid::nil(),
        session: SessionKey { owner: "1000".to_owned(), session_id: "s1".to_owned() },
        task_id: "t1".to_owned(),
        acp_session_id: Some(Uuid::new_v4().to_string()),
        pending_id: "5".to_owned(),
        tool_call_id: Some("call_1".to_owned()),
        created_at: Timestamp::now(),
        title: "git status".to_owned(),
        action: r#"{"type":"command","description":"Run git status","command":"git status","cwd":"/home/dev/app","redacted":false}"#.to_owned(),
        options: r#"[{"option_id":"allow-once","name":"Allow once","kind":"allow_once"},{"option_id":"reject","name":"Reject","kind":"reject_once"}]"#
            .to_owned(),
    }
}

fn claim(row: &RequestRow) -> Claim {
    Claim {
        claim_id: Uuid::new_v4(),
        request_id: row.request_id,
        pending_id: row.pending_id.clone(),
        actor: Actor { user_id: "1000".to_owned(), kind: ActorKind::Synthetic, source: Source::ControlSocket },
        option_id: "allow-once".to_owned(),
        option_kind: "\"allow_once\"".to_owned(),
        selected_at: Timestamp::now(),
    }
}
