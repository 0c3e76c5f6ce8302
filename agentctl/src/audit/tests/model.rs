//! Random sequences of operations against a model in memory. Invariants 2, 3, 5 and 7.

use super::*;
use proptest::prelude::*;

const REQUESTS: usize = 4;

#[derive(Debug, Clone)]
enum Step {
    Seen(usize),
    Claim(usize),
    /// The n-th claim ever made, with a result, and whether that ends the request.
    Finish(usize, ClaimResult, bool),
    Ended(usize, End),
    Attempt(usize),
    Restart,
    /// A claim whose commit fails, before or after it took effect.
    Broken(usize, bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let request = 0..REQUESTS;
    let result = prop::sample::select(ClaimResult::ALL);
    let end = prop::sample::select(End::ALL);
    let step = prop_oneof![
        3 => request.clone().prop_map(Step::Seen),
        5 => request.clone().prop_map(Step::Claim),
        5 => (0..12_usize, result, any::<bool>()).prop_map(|(n, result, ends)| Step::Finish(n, result, ends)),
        2 => (request.clone(), end).prop_map(|(r, end)| Step::Ended(r, end)),
        2 => request.clone().prop_map(Step::Attempt),
        1 => Just(Step::Restart),
        1 => (request, any::<bool>()).prop_map(|(r, after)| Step::Broken(r, after)),
    ];
    prop::collection::vec(step, 1..40)
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Request {
    seen: bool,
    end: Option<End>,
    claims: Vec<(Uuid, ClaimResult)>,
    attempts: u64,
}

#[derive(Default)]
struct Model {
    requests: [Request; REQUESTS],
    claims: Vec<(usize, Claim)>,
}

fn counts(result: ClaimResult) -> bool {
    matches!(result, ClaimResult::Dispatching | ClaimResult::Accepted | ClaimResult::Indeterminate)
}

impl Model {
    fn restart(&mut self) {
        for request in self.requests.iter_mut().filter(|r| r.seen) {
            for (_, result) in request.claims.iter_mut().filter(|(_, r)| *r == ClaimResult::Dispatching) {
                *result = ClaimResult::Indeterminate;
            }
            let accepted = request.claims.iter().any(|(_, r)| *r == ClaimResult::Accepted);
            request.end.get_or_insert(if accepted { End::Resolved } else { End::Expired });
        }
    }
}

fn run(steps: Vec<Step>) {
    let mut bench = Bench::new();
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Seen(r) => {
                bench.audit.request_seen(row(r as u128));
                model.requests[r].seen = true;
            }
            Step::Claim(r) => {
                let claim = claim_of(&row(r as u128));
                let taken = model.requests[r].claims.iter().any(|(_, result)| counts(*result));
                let expected = if taken { Err(ClaimError::AlreadyClaimed) } else { Ok(()) };
                assert_eq!(bench.claim(&claim), expected);
                if !taken {
                    model.requests[r].seen = true;
                    model.requests[r].claims.push((claim.claim_id, ClaimResult::Dispatching));
                }
                model.claims.push((r, claim));
            }
            Step::Finish(n, result, ends) => {
                let Some((r, claim)) = model.claims.get(n) else { continue };
                let ending = ends.then(|| Ending { end: End::Resolved, reason: "model".into() });
                let outcome = bench.finish(Finish { result, ending, ..finish_of(claim) });
                let request = &mut model.requests[*r];
                let open = request.claims.iter_mut().find(|(id, now)| *id == claim.claim_id && *now == ClaimResult::Dispatching);
                match open {
                    Some((_, now)) if result != ClaimResult::Dispatching => {
                        assert_eq!(outcome, Ok(()));
                        *now = result;
                        if ends {
                            request.end.get_or_insert(End::Resolved);
                        }
                    }
                    _ => assert_eq!(outcome, Err(AuditError::Conflict)),
                }
            }
            Step::Ended(r, end) => {
                bench.audit.request_ended(Uuid::from_u128(r as u128), Ending { end, reason: "model".into() }, at(4));
                if model.requests[r].seen {
                    model.requests[r].end.get_or_insert(end);
                }
            }
            Step::Attempt(r) => {
                bench.audit.attempt(attempt(r as u128, 5));
                model.requests[r].attempts += u64::from(model.requests[r].seen);
            }
            Step::Restart => {
                bench = bench.restart();
                model.restart();
            }
            Step::Broken(r, after) => {
                bench.arm(if after { "claim.after_commit=1:io" } else { "claim.before_commit=1:io" });
                let claim = claim_of(&row(r as u128));
                let taken = model.requests[r].claims.iter().any(|(_, result)| counts(*result));
                let outcome = bench.claim(&claim);
                if taken {
                    assert_eq!(outcome, Err(ClaimError::AlreadyClaimed));
                } else {
                    assert!(matches!(outcome, Err(ClaimError::Unavailable(_))));
                    if after {
                        model.requests[r].seen = true;
                        model.requests[r].claims.push((claim.claim_id, ClaimResult::Failed));
                    }
                }
                model.claims.push((r, claim));
            }
        }
        check(&bench, &model);
    }
}

fn check(bench: &Bench, model: &Model) {
    let mut stored: [Request; REQUESTS] = Default::default();
    for record in bench.all() {
        stored[record.request_id.as_u128() as usize] = Request {
            seen: true,
            end: record.ended.map(|ended| ended.end),
            claims: record.resolutions.iter().map(|r| (r.claim_id, r.result)).collect(),
            attempts: record.failed_attempts.count,
        };
    }
    assert_eq!(stored, model.requests);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_is_like_the_model(steps in steps()) {
        run(steps);
    }
}
