//! The ledger against every order of a small world, and against a naive model at random.

use std::collections::HashMap;

use acp_bridge::id::RpcId;
use proptest::prelude::*;
use uuid::Uuid;

use super::{Answer, Full, Ledger, What, cost};

/// Ids of an agent that also tries ours.
fn id(n: usize) -> RpcId {
    let text = ["7", "\"7\"", "\"agentctl-1\"", "\"agentctl-2\"", "null"][n];
    RpcId::from_raw(&serde_json::from_str::<Box<serde_json::value::RawValue>>(text).unwrap()).unwrap()
}

#[derive(Debug, Clone, Copy)]
enum Op {
    AskPrompt(usize),
    AskOther(usize),
    Supersede(usize),
    /// The editor answers the n-th oldest of what it still owes.
    Answer(usize),
    AnswerNothing,
    /// The n-th oldest prompt ends otherwise.
    Close(usize),
}

/// What the model knows of one request: facts only, no lookup tables.
#[derive(Debug)]
struct Asked {
    number: u128,
    agent_id: RpcId,
    editor_id: RpcId,
    is_prompt: bool,
    answered: bool,
    closed: bool,
    superseded: bool,
}

fn check(ops: &[Op], cap: usize) {
    let mut ledger = Ledger::new(cap);
    let mut all: Vec<Asked> = Vec::new();
    let mut delivered: HashMap<u128, usize> = HashMap::new();
    for (step, op) in ops.iter().enumerate() {
        match *op {
            Op::AskPrompt(n) | Op::AskOther(n) => {
                let (agent_id, is_prompt, number) = (id(n), matches!(op, Op::AskPrompt(_)), step as u128);
                let what = if is_prompt { What::Prompt(Uuid::from_u128(number)) } else { What::Other };
                let owed: usize = all.iter().filter(|a| !a.answered).map(|a| cost(&a.agent_id)).sum();
                let full = owed + cost(&agent_id) > cap;
                all.iter_mut().filter(|a| a.agent_id == agent_id).for_each(|a| a.superseded = true);
                let alias = match ledger.ask(&agent_id, what) {
                    Ok(alias) => alias,
                    Err(Full) => {
                        assert!(full);
                        continue;
                    }
                };
                assert!(!full);
                // 1 and 4: rewritten exactly where the editor still owes an answer under that id.
                assert_eq!(alias.is_some(), all.iter().any(|a| !a.answered && a.editor_id == agent_id), "{ops:?}");
                let editor_id = alias.unwrap_or_else(|| agent_id.clone());
                assert!(!all.iter().any(|a| !a.answered && a.editor_id == editor_id), "an id given out twice: {ops:?}");
                all.push(Asked { number, agent_id, editor_id, is_prompt, answered: false, closed: false, superseded: false });
            }
            Op::Supersede(n) => {
                ledger.supersede(&id(n));
                all.iter_mut().filter(|a| a.agent_id == id(n)).for_each(|a| a.superseded = true);
            }
            Op::Answer(n) => {
                let Some(asked) = all.iter_mut().filter(|a| !a.answered).nth(n) else { continue };
                asked.answered = true;
                let expected = if asked.closed || asked.superseded {
                    Answer::Late
                } else {
                    *delivered.entry(asked.number).or_default() += 1;
                    let what = if asked.is_prompt { What::Prompt(Uuid::from_u128(asked.number)) } else { What::Other };
                    Answer::To { what, rewrite: (asked.agent_id != asked.editor_id).then(|| asked.agent_id.clone()) }
                };
                assert_eq!(ledger.answer(&asked.editor_id), expected, "{ops:?}");
            }
            Op::AnswerNothing => assert_eq!(ledger.answer(&RpcId::from_text("nobody")), Answer::Nothing),
            Op::Close(n) => {
                let Some(asked) = all.iter_mut().filter(|a| a.is_prompt).nth(n) else { continue };
                let wanted = !(asked.answered || asked.closed || asked.superseded);
                assert_eq!(ledger.close(Uuid::from_u128(asked.number)), wanted.then(|| asked.editor_id.clone()), "{ops:?}");
                asked.closed = true;
            }
        }
        assert_eq!(ledger.len(), all.iter().filter(|a| !a.answered).count());
        for n in 0..5 {
            let current = all.iter().rev().find(|a| a.agent_id == id(n)).filter(|a| !(a.answered || a.closed || a.superseded));
            assert_eq!(ledger.alias(&id(n)), current.map(|a| &a.editor_id).filter(|e| **e != id(n)), "{ops:?}");
        }
    }
    assert!(delivered.values().all(|n| *n == 1), "2: an answer reached the agent twice: {ops:?}");
}

#[test]
fn every_order_of_a_small_world() {
    const OPS: [Op; 8] =
        [Op::AskPrompt(0), Op::AskOther(0), Op::AskPrompt(2), Op::Answer(0), Op::Answer(1), Op::Close(0), Op::Close(1), Op::Supersede(0)];
    const LENGTH: u32 = 5;
    for mut n in 0..OPS.len().pow(LENGTH) {
        let mut ops = Vec::new();
        for _ in 0..LENGTH {
            ops.push(OPS[n % OPS.len()]);
            n /= OPS.len();
        }
        check(&ops, 3 * 131);
    }
}

proptest! {
    #[test]
    fn any_order_of_a_larger_one(ops in proptest::collection::vec(prop_oneof![
        (0usize..5).prop_map(Op::AskPrompt),
        (0usize..5).prop_map(Op::AskOther),
        (0usize..5).prop_map(Op::Supersede),
        (0usize..6).prop_map(Op::Answer),
        Just(Op::AnswerNothing),
        (0usize..8).prop_map(Op::Close),
    ], 0..60), cap in 1usize..1500) {
        check(&ops, cap);
    }
}
