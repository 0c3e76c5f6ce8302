//! Every order of a few events, and random orders of many.

use proptest::prelude::*;

use super::op::Op;
use super::world::{OPTIONS, World};

/// The events of small cases: two ids, two requests, one session.
fn small() -> Vec<Op> {
    let mut ops = vec![Op::Raise { id: 5, session: 0 }, Op::Raise { id: 6, session: 0 }];
    for request in 0..2 {
        ops.extend([Op::Begin { request, option: 0 }, Op::Begin { request, option: 1 }, Op::CancelRequest { request }]);
    }
    for claim in 0..2 {
        ops.extend([true, false].map(|ok| Op::Recorded { claim, ok }));
    }
    ops.extend([
        Op::Write,
        Op::WritePart,
        Op::Overdue,
        Op::Withdraw { id: 5 },
        Op::StartTurn,
        Op::EndTurn,
        Op::CancelSession,
        Op::Stop,
        Op::Expire,
    ]);
    ops
}

/// Plays every order of at most `depth` events that begins with `prefix`; returns how many.
fn every_order(prefix: &mut Vec<Op>, ops: &[Op], depth: usize, cap: usize) -> u64 {
    let mut world = World::new(cap);
    prefix.iter().for_each(|op| world.step(*op));
    if prefix.len() == depth {
        return 1;
    }
    let enabled: Vec<Op> = ops.iter().copied().filter(|op| world.enabled(*op)).collect();
    let mut count = 1;
    for op in enabled {
        prefix.push(op);
        count += every_order(prefix, ops, depth, cap);
        prefix.pop();
    }
    count
}

/// How many events follow the prefix; more take minutes and are for changes of the table.
fn events() -> usize {
    std::env::var("AGENTCTL_TEST_EVENTS").ok().and_then(|n| n.parse().ok()).unwrap_or(4)
}

fn every_order_after(prefix: &[Op], cap: usize) -> u64 {
    every_order(&mut prefix.to_vec(), &small(), prefix.len() + events(), cap)
}

#[test]
fn every_order_after_one_request() {
    let count = every_order_after(&[Op::Raise { id: 5, session: 0 }], 8);
    assert!(count > 10_000, "{count} orders");
}

#[test]
fn every_order_after_a_claim_within_a_turn() {
    every_order_after(&[Op::StartTurn, Op::Raise { id: 5, session: 0 }, Op::Begin { request: 0, option: 0 }], 8);
}

#[test]
fn every_order_after_a_partly_written_answer() {
    let claim = [Op::Begin { request: 0, option: 0 }, Op::Recorded { claim: 0, ok: true }, Op::WritePart];
    every_order_after(&[&[Op::Raise { id: 5, session: 0 }], claim.as_slice()].concat(), 8);
}

#[test]
fn every_order_after_two_claims() {
    let two = [0, 1].map(|n| [Op::Raise { id: 5 + n as u64, session: 0 }, Op::Begin { request: n, option: n }]);
    every_order_after(&two.concat(), 8);
}

#[test]
fn every_order_at_the_cap() {
    every_order_after(&[Op::Raise { id: 5, session: 0 }], 1);
}

fn any_op() -> impl Strategy<Value = Op> {
    let request = 0usize..12;
    let claim = 0usize..12;
    prop_oneof![
        4 => (0u64..4, 0usize..2).prop_map(|(id, session)| Op::Raise { id, session }),
        4 => (request.clone(), 0..OPTIONS.len()).prop_map(|(request, option)| Op::Begin { request, option }),
        4 => (claim, any::<bool>()).prop_map(|(claim, ok)| Op::Recorded { claim, ok }),
        3 => Just(Op::Write),
        1 => Just(Op::WritePart),
        1 => Just(Op::Overdue),
        2 => (0u64..4).prop_map(|id| Op::Withdraw { id }),
        1 => request.prop_map(|request| Op::CancelRequest { request }),
        1 => Just(Op::StartTurn),
        1 => Just(Op::EndTurn),
        1 => Just(Op::CancelSession),
        1 => Just(Op::Stop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn long_random_orders(ops in proptest::collection::vec(any_op(), 0..200), cap in 1usize..6) {
        let mut world = World::new(cap);
        for op in ops {
            if world.enabled(op) {
                world.step(op);
            }
        }
        world.step(Op::Expire);
    }
}
