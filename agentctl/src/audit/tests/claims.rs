use super::*;

#[test]
fn of_racing_claims_one_wins() {
    let bench = Bench::new();
    let (tx, rx) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..64 {
            let (audit, tx) = (bench.audit.clone(), tx.clone());
            scope.spawn(move || audit.claim(claim_of(&row(1)), row(1), move |result| tx.send(result).unwrap()));
        }
    });
    drop(tx);
    let results: Vec<_> = rx.iter().collect();
    assert_eq!(results.len(), 64);
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
    assert_eq!(results.iter().filter(|r| **r == Err(ClaimError::AlreadyClaimed)).count(), 63);
    assert_eq!(bench.results(1), [ClaimResult::Dispatching]);
}

#[test]
fn a_claim_is_finished_once() {
    let bench = Bench::new();
    let claim = claim_of(&row(1));
    bench.claim(&claim).unwrap();
    assert_eq!(bench.finish(Finish { result: ClaimResult::Dispatching, ..finish_of(&claim) }), Err(AuditError::Conflict));
    bench.finish(finish_of(&claim)).unwrap();
    let late =
        Finish { result: ClaimResult::Failed, ending: Some(Ending { end: End::Expired, reason: "late".into() }), ..finish_of(&claim) };
    assert_eq!(bench.finish(late), Err(AuditError::Conflict));
    let past = bench.lookup(1).unwrap();
    assert_eq!(past.end, Some(End::Resolved));
    let resolution = past.resolution.unwrap();
    assert_eq!((resolution.result, resolution.finalized_at), (ClaimResult::Accepted, Some(at(2))));
    assert_eq!(bench.claim(&claim_of(&row(1))), Err(ClaimError::AlreadyClaimed));
}

#[test]
fn after_a_failed_delivery_the_request_can_be_claimed_again() {
    let bench = Bench::new();
    let first = claim_of(&row(1));
    bench.claim(&first).unwrap();
    bench.finish(Finish { result: ClaimResult::Failed, ending: None, ..finish_of(&first) }).unwrap();
    assert_eq!(bench.lookup(1).unwrap(), PastRequest { pending_id: "1".to_owned(), end: None, resolution: None });
    bench.claim(&claim_of(&row(1))).unwrap();
    assert_eq!(bench.results(1), [ClaimResult::Failed, ClaimResult::Dispatching]);
}

#[test]
fn an_end_sent_right_after_its_claim_finds_it() {
    let bench = Bench::new();
    let (tx, rx) = mpsc::channel();
    for n in 1..=200 {
        let claim = claim_of(&row(n));
        let tx = tx.clone();
        bench.audit.claim(claim.clone(), row(n), |_| ());
        bench.audit.finish(Finish { result: ClaimResult::Stale, ..finish_of(&claim) }, move |r| tx.send(r).unwrap());
    }
    drop(tx);
    assert!(rx.iter().all(|result| result.is_ok()));
}

#[test]
fn the_first_end_of_a_request_stays() {
    let bench = Bench::new();
    bench.audit.request_seen(row(1));
    let claim = claim_of(&row(1));
    bench.claim(&claim).unwrap();
    bench.audit.request_ended(row(1).request_id, Ending { end: End::Withdrawn, reason: "by the agent".into() }, at(2));
    bench.finish(Finish { result: ClaimResult::Stale, ..finish_of(&claim) }).unwrap();
    let record = bench.all().remove(0);
    assert_eq!(record.ended, Some(Ended { end: End::Withdrawn, at: at(2), reason: Some("by the agent".to_owned()) }));
    assert_eq!(record.resolutions[0].result, ClaimResult::Stale);
}

/// Invariant 7, and C16 as far as it is the store's.
#[test]
fn a_restart_ends_what_was_open() {
    let bench = Bench::new();
    bench.audit.session(session(), "t1".to_owned(), at(0));
    bench.audit.session(session(), "t2".to_owned(), at(0));
    bench.audit.execution_started(ExecutionStarted {
        execution_id: Uuid::from_u128(0xe),
        session: session(),
        agent: "fake".to_owned(),
        pid: 7,
        at: at(0),
    });
    bench.audit.request_seen(row(1));
    let (accepted, open) = (claim_of(&row(2)), claim_of(&row(3)));
    bench.claim(&accepted).unwrap();
    bench.finish(Finish { ending: None, ..finish_of(&accepted) }).unwrap();
    bench.claim(&open).unwrap();
    let bench = bench.restart();
    let recovered = &bench.recovered;
    assert_eq!((recovered.indeterminate_claims, recovered.resolved_requests), (1, 1));
    assert_eq!((recovered.expired_requests, recovered.ended_executions), (2, 1));
    assert_eq!(recovered.sessions, [(session(), "t1".to_owned())], "a session belongs to its first task");
    assert_eq!(bench.lookup(1).unwrap().end, Some(End::Expired));
    assert_eq!(bench.lookup(2).unwrap().end, Some(End::Resolved));
    let third = bench.lookup(3).unwrap();
    assert_eq!((third.end, third.resolution.unwrap().result), (Some(End::Expired), ClaimResult::Indeterminate));
    assert_eq!(bench.finish(finish_of(&open)), Err(AuditError::Conflict));
    assert_eq!(bench.claim(&claim_of(&row(3))), Err(ClaimError::AlreadyClaimed));
    let again = bench.restart().recovered;
    assert_eq!((again.indeterminate_claims, again.expired_requests, again.ended_executions), (0, 0, 0));
}

#[test]
fn a_panicking_callback_harms_nobody() {
    let bench = Bench::new();
    bench.audit.claim(claim_of(&row(1)), row(1), |_| panic!("a test's callback"));
    bench.claim(&claim_of(&row(2))).unwrap();
    assert_eq!(bench.results(1), [ClaimResult::Dispatching], "it may have been told");
}

#[test]
fn a_message_after_the_end_is_answered() {
    let bench = Bench::new();
    bench.close();
    assert!(matches!(bench.claim(&claim_of(&row(1))), Err(ClaimError::Unavailable(_))));
    bench.close();
}

#[test]
fn a_request_of_another_session_or_task_is_unknown() {
    let bench = Bench::new();
    bench.claim(&claim_of(&row(1))).unwrap();
    for (owner, session_id, task) in [("1001", "s1", "t1"), ("1000", "s2", "t1"), ("1000", "s1", "t2")] {
        let (tx, rx) = mpsc::channel();
        let key = SessionKey { owner: owner.to_owned(), session_id: session_id.to_owned() };
        bench.audit.lookup(key, task.to_owned(), row(1).request_id, move |found| tx.send(found).unwrap());
        assert_eq!(rx.recv().unwrap(), Ok(None));
    }
}

#[test]
fn texts_are_dropped_beyond_the_bytes_of_an_execution_but_claims_are_written() {
    let bench = Bench::with(Limits { bytes_per_execution: 100, ..Limits::default() });
    for n in 1..=4 {
        bench.audit.request_seen(row(n));
    }
    bench.claim(&claim_of(&row(4))).unwrap();
    bench.claim(&claim_of(&row(5))).unwrap();
    let records = bench.all();
    let titles: Vec<_> = records.iter().rev().map(|r| r.title.is_some()).collect();
    assert_eq!(titles, [true, true, true, false, false]);
    assert_eq!(records[0].pending_id, "5");
    assert_eq!(bench.audit.counters().texts_dropped, 2);
}
