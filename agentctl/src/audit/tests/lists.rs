use super::*;

fn query() -> Query {
    Query { owner: "1000".to_owned(), ..Query::default() }
}

fn numbers(page: &Page) -> Vec<u128> {
    page.records.iter().map(|record| record.request_id.as_u128()).collect()
}

#[test]
fn pages_stay_the_same_while_rows_are_added() {
    let bench = Bench::new();
    (1..=5).for_each(|n| bench.audit.request_seen(row(n)));
    let size = PageSize::new(2).unwrap();
    let first = bench.list(Query { limit: size, ..query() });
    assert_eq!(numbers(&first), [5, 4]);
    (6..=9).for_each(|n| bench.audit.request_seen(row(n)));
    let text = first.next.unwrap().to_string();
    let second = bench.list(Query { limit: size, cursor: Some(text.parse().unwrap()), ..query() });
    assert_eq!(numbers(&second), [3, 2]);
    let third = bench.list(Query { limit: size, cursor: second.next, ..query() });
    assert_eq!((numbers(&third), third.next), (vec![1], None));
    assert!("5".parse::<Cursor>().is_err() && "r-1".parse::<Cursor>().is_err());
    assert!(PageSize::new(0).is_none() && PageSize::new(1001).is_none() && PageSize::default().get() == 100);
}

#[test]
fn a_last_page_that_is_full_has_no_next() {
    let bench = Bench::new();
    (1..=2).for_each(|n| bench.audit.request_seen(row(n)));
    assert_eq!(bench.list(Query { limit: PageSize::new(2).unwrap(), ..query() }).next, None);
}

#[test]
fn only_what_was_asked_for() {
    let bench = Bench::new();
    for (n, owner, task, session) in [(1, "1000", "t1", "s1"), (2, "1000", "t1", "s2"), (3, "1000", "t2", "s3"), (4, "1001", "t1", "s1")] {
        let key = SessionKey { owner: owner.to_owned(), session_id: session.to_owned() };
        bench.audit.request_seen(Arc::new(RequestRow { session: key, task_id: task.to_owned(), ..(*row(n)).clone() }));
    }
    let of = |task: Option<&str>, session: Option<&str>, request: Option<u128>| {
        numbers(&bench.list(Query {
            task_id: task.map(str::to_owned),
            session_id: session.map(str::to_owned),
            request_id: request.map(Uuid::from_u128),
            ..query()
        }))
    };
    assert_eq!(of(None, None, None), [3, 2, 1]);
    assert_eq!(of(Some("t1"), None, None), [2, 1]);
    assert_eq!(of(None, Some("s2"), None), [2]);
    assert_eq!(of(Some("t2"), Some("s2"), None), []);
    assert_eq!(of(None, None, Some(1)), [1]);
    assert_eq!(of(None, None, Some(4)), []);
}

#[test]
fn attempts_are_kept_to_a_bound_and_then_counted() {
    let bench = Bench::new();
    bench.audit.request_seen(row(1));
    for second in 0..40 {
        bench.audit.attempt(FailedAttempt { option_id: Some("ö".repeat(300)), ..attempt(1, second) });
    }
    bench.audit.attempt(attempt(2, 0));
    bench.audit.attempt(FailedAttempt { session: SessionKey { session_id: "s2".to_owned(), ..session() }, ..attempt(1, 50) });
    let attempts = bench.all().remove(0).failed_attempts;
    assert_eq!((attempts.count, attempts.last.len()), (40, 32));
    assert_eq!((attempts.last[30].at, attempts.last[31].at), (at(30), at(39)), "the first ones and the latest");
    assert_eq!(attempts.last[0].option_id.as_ref().unwrap().len(), ATTEMPT_TEXT_BYTES);
    assert_eq!(bench.audit.counters().attempts_unattributed, 2);
}

#[test]
fn a_read_sees_what_was_sent_before_it() {
    let bench = Bench::new();
    for n in 1..=100 {
        bench.audit.claim(claim_of(&row(n)), row(n), |_| ());
        assert_eq!(bench.all().len() as u128, n);
        assert!(bench.lookup(n).unwrap().resolution.is_some());
    }
}

#[test]
fn ended_requests_are_pruned_by_age_and_number_but_never_live_ones() {
    let bench = Bench::with(Limits { max_requests: 3, ..Limits::default() });
    for n in 1..=6 {
        bench.audit.request_seen(row(n));
    }
    // 1 is open, 2 has a claim on its way; the others have ended, 6 first.
    bench.claim(&claim_of(&row(2))).unwrap();
    for n in 2..=6_u8 {
        let ending = Ending { end: End::Cancelled, reason: "stop".into() };
        bench.audit.request_ended(Uuid::from_u128(n.into()), ending, at(-i64::from(n)));
    }
    let limits = |max_requests| Limits { max_requests, ..Limits::default() };
    let prune = |max_requests, requests, now| {
        bench.poke(move |store| retain::prune(store.connection().unwrap(), &limits(max_requests), requests, now).unwrap())
    };
    assert_eq!(prune(10, 6, at(0)), 0);
    assert_eq!(prune(5, 6, at(0)), 1);
    assert_eq!(numbers(&bench.list(query())), [5, 4, 3, 2, 1]);
    assert_eq!(prune(10, 5, at(90 * 24 * 3600 - 4)), 1, "older than 90 days is only the fifth");
    assert_eq!(prune(0, 4, at(0)), 2);
    assert_eq!(numbers(&bench.list(query())), [2, 1]);
    assert_eq!(prune(0, 2, at(90 * 24 * 3600 * 2)), 0);
    assert_eq!(bench.results(2), [ClaimResult::Dispatching]);
}

#[test]
fn retention_runs_when_idle() {
    let bench = Bench::with(Limits { max_requests: 2, ..Limits::default() });
    for n in 1..=6_u8 {
        bench.audit.request_seen(row(n.into()));
        bench.audit.request_ended(Uuid::from_u128(n.into()), Ending { end: End::Cancelled, reason: "stop".into() }, Timestamp::now());
    }
    bench.poke(|_| ());
    bench.poke(|store| {
        let later = std::time::Instant::now() + std::time::Duration::from_secs(3600);
        store.maintain(later);
        store.maintain(later);
    });
    assert_eq!(numbers(&bench.list(query())), [6, 5]);
    assert_eq!(bench.audit.counters().pruned, 4);
}
