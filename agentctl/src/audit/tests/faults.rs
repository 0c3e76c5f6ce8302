//! C19, and invariants 1, 4 and 5.

use super::*;

fn ended(n: u128) -> (Uuid, Ending, Timestamp) {
    (Uuid::from_u128(n), Ending { end: End::Cancelled, reason: "stop".into() }, at(3))
}

/// With `fault`, claims and ends fail and rows wait; after `heal` all is as if nothing had happened.
fn unwritable(fault: impl FnOnce(&Bench), heal: impl FnOnce(&Bench)) {
    let bench = Bench::new();
    let before = claim_of(&row(1));
    bench.claim(&before).unwrap();
    fault(&bench);
    assert!(matches!(bench.claim(&claim_of(&row(2))), Err(ClaimError::Unavailable(_))));
    assert!(matches!(bench.finish(finish_of(&before)), Err(AuditError::Unavailable(_))));
    bench.audit.request_seen(row(3));
    let (request, ending, when) = ended(3);
    bench.audit.request_ended(request, ending, when);
    assert_eq!(bench.lookup(1).unwrap().resolution.unwrap().result, ClaimResult::Dispatching);
    assert_eq!(bench.lookup(2), None);
    assert_eq!(bench.lookup(3), None);
    let counters = bench.audit.counters();
    assert!(!counters.available && counters.last_error.is_some() && counters.backlog > 0, "{counters:?}");
    heal(&bench);
    bench.claim(&claim_of(&row(2))).unwrap();
    bench.finish(finish_of(&before)).unwrap();
    assert_eq!(bench.lookup(3).unwrap().end, Some(End::Cancelled));
    let counters = bench.audit.counters();
    assert!(counters.available && counters.backlog == 0 && counters.rows_dropped == 0, "{counters:?}");
}

#[test]
fn locked_by_another_connection() {
    let other = std::sync::Mutex::new(None);
    unwritable(
        |bench| {
            let conn = rusqlite::Connection::open(bench.dir.path().join("audit.db")).unwrap();
            conn.execute_batch("BEGIN IMMEDIATE").unwrap();
            *other.lock().unwrap() = Some(conn);
        },
        |_| *other.lock().unwrap() = None,
    );
}

#[test]
fn read_only() {
    unwritable(|bench| bench.sql("PRAGMA query_only=1"), |bench| bench.sql("PRAGMA query_only=0"));
}

#[test]
fn full() {
    unwritable(
        |bench| bench.arm("claim.received=full;finish.received=full"),
        |bench| bench.arm("finish.received=heal;rows.before=heal;claim.received=heal"),
    );
}

#[test]
fn locked_full_and_read_only_by_fail_point() {
    for rule in ["claim.received=full", "claim.received=readonly", "claim.received=locked"] {
        let bench = Bench::new();
        bench.poke(move |_| crate::failpoint::arm_this_thread(rule).unwrap());
        assert!(matches!(bench.claim(&claim_of(&row(1))), Err(ClaimError::Unavailable(_))), "{rule}");
        bench.arm("claim.received=heal");
        bench.claim(&claim_of(&row(1))).unwrap();
    }
}

/// A disk that is really full: SQLite takes the whole transaction back, not only the claim that didn't fit.
#[test]
fn a_claim_that_does_not_fit_leaves_its_neighbours_alone() {
    let bench = Bench::new();
    bench.claim(&claim_of(&row(100))).unwrap();
    bench.poke(|store| {
        let conn = store.connection().unwrap();
        let pages: i64 = conn.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        conn.query_row(&format!("PRAGMA max_page_count={}", pages), [], |_| Ok(())).unwrap();
    });
    let (tx, rx) = mpsc::channel();
    let mut big = claim_of(&row(2));
    big.option_id = "x".repeat(1 << 20);
    // All three wait in the queue, so they share a transaction.
    bench.poke({
        let audit = bench.audit.clone();
        move |_| {
            for claim in [claim_of(&row(1)), big, claim_of(&row(3))] {
                let (tx, row) = (tx.clone(), row(claim.request_id.as_u128()));
                audit.claim(claim, row, move |result| tx.send(result).unwrap());
            }
        }
    });
    let results: Vec<_> = rx.iter().take(3).collect();
    assert!(results[0].is_ok() && matches!(results[1], Err(ClaimError::Unavailable(_))) && results[2].is_ok(), "{results:?}");
    assert_eq!(bench.all().len(), 3);
}

#[test]
fn after_an_io_error_the_file_is_opened_again_and_lost_claims_never_count() {
    for rule in ["claim.before_commit=1:io", "claim.after_commit=1:io", "claim.before=1:io"] {
        let bench = Bench::new();
        bench.poke(move |_| crate::failpoint::arm_this_thread(rule).unwrap());
        assert!(matches!(bench.claim(&claim_of(&row(1))), Err(ClaimError::Unavailable(_))), "{rule}");
        bench.claim(&claim_of(&row(1))).unwrap();
        assert_eq!(bench.audit.counters().reopened, 1, "{rule}");
        let results = bench.results(1);
        match rule {
            "claim.after_commit=1:io" => assert_eq!(results, [ClaimResult::Failed, ClaimResult::Dispatching]),
            _ => assert_eq!(results, [ClaimResult::Dispatching]),
        }
    }
}

#[test]
fn no_claim_is_taken_while_the_file_cannot_be_opened() {
    let bench = Bench::new();
    let (here, away) = (bench.dir.path().join("audit.db"), bench.dir.path().join("away"));
    bench.arm("claim.after_commit=1:io");
    std::fs::rename(&here, &away).unwrap();
    for _ in 0..2 {
        assert!(matches!(bench.claim(&claim_of(&row(1))), Err(ClaimError::Unavailable(_))));
    }
    bench.audit.request_seen(row(2));
    assert!(!bench.audit.counters().available);
    std::fs::rename(&away, &here).unwrap();
    bench.claim(&claim_of(&row(1))).unwrap();
    assert_eq!(bench.results(1), [ClaimResult::Failed, ClaimResult::Dispatching]);
    assert!(bench.lookup(2).is_some());
}

#[test]
fn an_end_of_unknown_outcome_is_told_as_an_error() {
    for (rule, result) in [("finish.before_commit=1:io", ClaimResult::Dispatching), ("finish.after_commit=1:io", ClaimResult::Accepted)] {
        let bench = Bench::new();
        let claim = claim_of(&row(1));
        bench.claim(&claim).unwrap();
        bench.poke(move |_| crate::failpoint::arm_this_thread(rule).unwrap());
        assert!(matches!(bench.finish(finish_of(&claim)), Err(AuditError::Unavailable(_))), "{rule}");
        assert_eq!(bench.results(1), [result]);
    }
}

#[test]
fn a_panic_of_the_thread_is_survived() {
    for (rule, before) in [("claim.before_commit=1:panic", None), ("claim.after_commit=1:panic", Some(ClaimResult::Failed))] {
        let bench = Bench::new();
        bench.poke(move |_| crate::failpoint::arm_this_thread(rule).unwrap());
        assert!(matches!(bench.claim(&claim_of(&row(1))), Err(ClaimError::Unavailable(_))), "{rule}");
        bench.claim(&claim_of(&row(1))).unwrap();
        let expected: Vec<_> = before.into_iter().chain([ClaimResult::Dispatching]).collect();
        assert_eq!(bench.results(1), expected, "{rule}");
        assert_eq!(bench.audit.counters().panics, 1);
    }
}

#[test]
fn the_backlog_is_bounded_and_tried_again_by_itself() {
    let bench = Bench::with(Limits { backlog_rows: 3, ..Limits::default() });
    bench.sql("PRAGMA query_only=1");
    for n in 1..=5 {
        bench.audit.request_seen(row(n));
    }
    assert_eq!(bench.poke(|_| ()), ());
    let counters = bench.audit.counters();
    assert_eq!((counters.backlog, counters.rows_dropped), (3, 2));
    bench.sql("PRAGMA query_only=0");
    bench.poke(|store| store.maintain(std::time::Instant::now() + std::time::Duration::from_secs(60)));
    assert_eq!(bench.audit.counters().backlog, 0);
    assert_eq!(bench.all().len(), 3);
}

#[test]
fn a_full_queue_drops_rows_but_no_claim() {
    let bench = Bench::with(Limits { queued_rows: 2, ..Limits::default() });
    let (gate, wait) = mpsc::channel::<()>();
    bench.audit.send(Op::Read(Read::Poke(Box::new(move |_| wait.recv().unwrap()))));
    for n in 1..=4 {
        bench.audit.request_seen(row(n));
    }
    let dropped = bench.audit.counters().rows_dropped;
    let claim = claim_of(&row(4));
    let (tx, rx) = mpsc::channel();
    bench.audit.claim(claim, row(4), move |result| tx.send(result).unwrap());
    gate.send(()).unwrap();
    rx.recv().unwrap().unwrap();
    assert_eq!(dropped, 2);
    assert_eq!(bench.all().len(), 3);
}

#[test]
fn a_database_that_was_removed_or_replaced_takes_no_claim() {
    let bench = Bench::new();
    bench.claim(&claim_of(&row(1))).unwrap();
    let (here, away) = (bench.dir.path().join("audit.db"), bench.dir.path().join("away"));
    std::fs::rename(&here, &away).unwrap();
    assert!(matches!(bench.claim(&claim_of(&row(2))), Err(ClaimError::Unavailable(_))));
    std::fs::copy(&away, &here).unwrap();
    assert!(matches!(bench.claim(&claim_of(&row(3))), Err(ClaimError::Unavailable(_))));
    assert!(!bench.audit.counters().available);
    std::fs::rename(&away, &here).unwrap();
    bench.claim(&claim_of(&row(4))).unwrap();
}
