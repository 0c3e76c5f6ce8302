//! Which of the waiting messages may run now.
//!
//! Claims run apart from everything else, so messages are taken out of their order. What must not be swapped: the
//! messages of one request, and a read with anything before it.

use super::op::{Change, ClaimOp, Op, Read};
use std::collections::{HashSet, VecDeque};
use uuid::Uuid;

/// What one turn of the audit thread does, in this order.
#[derive(Default)]
pub(super) struct Turn {
    pub(super) changes: Vec<Change>,
    pub(super) claims: Vec<ClaimOp>,
    pub(super) reads: Vec<Read>,
}

/// Takes a turn's messages out of `pending`; what has to wait for another turn stays there in its order.
pub(super) fn turn(pending: &mut VecDeque<Op>) -> Turn {
    let mut turn = Turn::default();
    let mut kept = VecDeque::new();
    let mut claimed = HashSet::new();
    let mut held = HashSet::new();
    for op in pending.drain(..) {
        match op {
            Op::Claim(claim) if !held.contains(&claim.claim.request_id) => {
                claimed.insert(claim.claim.request_id);
                turn.claims.push(claim);
            }
            Op::Change(change) if !change.request().is_some_and(|r| claimed.contains(&r) || held.contains(&r)) => turn.changes.push(change),
            Op::Read(read) if turn.claims.is_empty() && kept.is_empty() => turn.reads.push(read),
            op => {
                held.extend(request(&op));
                kept.push_back(op);
            }
        }
    }
    *pending = kept;
    turn
}

/// Adds the claims that came meanwhile, unless something of the same request waits before them.
pub(super) fn more_claims(pending: &mut VecDeque<Op>, claims: &mut Vec<ClaimOp>) {
    let mut kept = VecDeque::new();
    let mut held = HashSet::new();
    for op in pending.drain(..) {
        match op {
            Op::Claim(claim) if !held.contains(&claim.claim.request_id) => claims.push(claim),
            op => {
                held.extend(request(&op));
                kept.push_back(op);
            }
        }
    }
    *pending = kept;
}

fn request(op: &Op) -> Option<Uuid> {
    match op {
        Op::Claim(claim) => Some(claim.claim.request_id),
        Op::Change(change) => change.request(),
        Op::Read(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::op::{List, Reply, Row};
    use crate::audit::tests::{claim_of, finish_of, row};
    use crate::audit::types::Query;
    use std::sync::Arc;

    fn claim(n: u128) -> Op {
        let row = row(n);
        Op::Claim(ClaimOp { claim: claim_of(&row), row, done: Reply::new(|_| ()) })
    }
    fn finish(n: u128) -> Op {
        let claim = claim_of(&row(n));
        Op::Change(Change::Finish(finish_of(&claim), Reply::new(|_| ())))
    }
    fn seen(n: u128) -> Op {
        Op::Change(Change::Row(Row::Seen(Arc::clone(&row(n)))))
    }
    fn read() -> Op {
        Op::Read(Read::List(List::Records(Query::default(), Reply::new(|_| ()))))
    }
    fn sizes(turn: &Turn, pending: &VecDeque<Op>) -> (usize, usize, usize, usize) {
        (turn.changes.len(), turn.claims.len(), turn.reads.len(), pending.len())
    }

    #[test]
    fn an_end_never_overtakes_its_claim() {
        let mut pending = VecDeque::from([seen(1), claim(1), finish(1), claim(1), seen(2)]);
        let first = turn(&mut pending);
        assert_eq!(sizes(&first, &pending), (2, 1, 0, 2));
        let second = turn(&mut pending);
        assert_eq!(sizes(&second, &pending), (1, 1, 0, 0), "the end of the first claim, then the second claim");
    }

    #[test]
    fn a_read_sees_what_came_before_it() {
        let mut pending = VecDeque::from([read(), claim(1), finish(1), read(), claim(2)]);
        assert_eq!(sizes(&turn(&mut pending), &pending), (0, 2, 1, 2));
        assert_eq!(sizes(&turn(&mut pending), &pending), (1, 0, 1, 0));
    }

    #[test]
    fn late_claims_wait_for_their_own_request_only() {
        let mut pending = VecDeque::from([finish(1), claim(1), claim(2)]);
        let mut claims = Vec::new();
        more_claims(&mut pending, &mut claims);
        assert_eq!((claims.len(), pending.len()), (1, 2));
    }
}
