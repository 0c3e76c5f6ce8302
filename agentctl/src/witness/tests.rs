use super::*;

const S: Option<&str> = Some("s");

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn oddity(finding: Option<Finding>) -> Option<Oddity> {
    finding.map(|finding| finding.oddity)
}

#[test]
fn a_tool_that_was_asked_for_and_waited() {
    for (before, kind) in [(Some("in_progress"), "execute"), (Some("pending"), "edit"), (None, "execute")] {
        let mut w = Witness::default();
        assert_eq!(w.reported(S, "c", Some(kind), before), None);
        w.asked(id(1), S, Some("c"), None, at(0));
        assert_eq!(w.reported(S, "c", None, Some("in_progress")), None, "no evidence");
        w.ended(id(1), true);
        assert_eq!(w.reported(S, "c", None, None), None);
        assert_eq!(w.reported(S, "c", None, Some("completed")), None);
        assert_eq!(w.reported(S, "c", None, Some("completed")), None);
        assert!(w.turn_ended("s", false).is_empty());
        assert_eq!(w.counts(), Counts { waited: 1, ..Counts::default() });
    }
}

#[test]
fn a_tool_that_ran_before_its_answer_is_counted_once() {
    let mut w = Witness::default();
    w.asked(id(1), S, Some("c"), Some("execute"), at(0));
    assert_eq!(oddity(w.reported(S, "c", None, Some("completed"))), Some(Oddity::RanBeforeAnswer));
    assert_eq!(w.reported(S, "c", None, Some("completed")), None);
    w.ended(id(1), true);
    assert!(w.turn_ended("s", false).is_empty(), "it did run");
    assert_eq!(w.counts(), Counts { ran_before_answer: 1, ..Counts::default() });
}

#[test]
fn an_approved_tool_that_never_ran() {
    let mut w = Witness::default();
    for (n, allowed) in [(1, true), (2, false)] {
        w.asked(id(n), S, Some(&n.to_string()), None, at(0));
        w.ended(id(n), allowed);
    }
    assert!(w.turn_ended("other", false).is_empty());
    let found = w.turn_ended("s", false);
    assert_eq!(found.iter().map(|f| (f.oddity, f.request_id)).collect::<Vec<_>>(), [(Oddity::NeverRan, Some(id(1)))]);
    assert!(w.turn_ended("s", false).is_empty());
    // A cancelled turn says nothing, and a failed tool has run.
    w.asked(id(3), S, Some("3"), None, at(0));
    w.ended(id(3), true);
    assert!(w.turn_ended("s", true).is_empty() && w.turn_ended("s", false).is_empty());
    w.asked(id(4), S, Some("4"), None, at(0));
    w.ended(id(4), true);
    assert_eq!(w.reported(S, "4", None, Some("failed")), None);
    assert!(w.turn_ended("s", false).is_empty());
    assert_eq!((w.counts().never_ran, w.counts().waited), (1, 1));
}

#[test]
fn tools_that_act_without_being_asked_for() {
    let mut w = Witness::default();
    for (n, kind) in ["execute", "edit", "delete", "move", "read", "search", "other"].iter().enumerate() {
        assert_eq!(w.reported(S, &n.to_string(), Some(kind), Some("pending")), None);
        let found = w.reported(S, &n.to_string(), None, Some("completed"));
        assert_eq!(oddity(found), (n < 4).then_some(Oddity::Unasked), "{kind}");
    }
    // What failed has done nothing that is known; another session's tool is another one.
    assert_eq!(w.reported(S, "x", Some("execute"), Some("failed")), None);
    w.asked(id(1), S, Some("y"), None, at(0));
    assert_eq!(oddity(w.reported(Some("sub"), "y", Some("execute"), Some("completed"))), Some(Oddity::Unasked));
    // An id that is used again is another tool.
    assert_eq!(w.reported(S, "0", None, Some("in_progress")), None);
    assert_eq!(oddity(w.reported(S, "0", None, Some("completed"))), Some(Oddity::Unasked));
    assert_eq!(w.counts().unasked, 6);
}

#[test]
fn two_prompts_of_one_call() {
    let mut w = Witness::default();
    w.asked(id(1), S, Some("c"), Some("edit"), at(0));
    w.asked(id(2), S, Some("c"), None, at(0));
    w.ended(id(1), true);
    w.ended(id(2), false);
    assert_eq!(w.reported(S, "c", None, Some("completed")), None);
    assert_eq!(w.counts(), Counts { waited: 1, ..Counts::default() });
}

#[test]
fn what_was_also_refused_or_has_begun_may_never_end() {
    let mut w = Witness::default();
    for (n, second_answer) in [(1, false), (3, true)] {
        let call = n.to_string();
        w.asked(id(n), S, Some(&call), Some("execute"), at(0));
        w.asked(id(n + 1), S, Some(&call), None, at(0));
        w.ended(id(n), true);
        w.ended(id(n + 1), second_answer);
    }
    w.asked(id(5), S, Some("5"), None, at(0));
    w.ended(id(5), true);
    assert_eq!(w.reported(S, "5", Some("execute"), Some("in_progress")), None);
    let found = w.turn_ended("s", false);
    assert_eq!(found.iter().map(|f| f.tool_call_id.as_deref()).collect::<Vec<_>>(), [Some("3")]);
    // What excused a call excuses no later use of its id.
    w.asked(id(6), S, Some("1"), None, at(0));
    w.ended(id(6), true);
    assert_eq!(w.turn_ended("s", false).len(), 1);
}

#[test]
fn a_finding_names_the_prompt_that_waits() {
    let mut w = Witness::default();
    w.asked(id(1), S, Some("c"), Some("execute"), at(0));
    assert_eq!(w.reported(S, "c", None, Some("completed")).and_then(|f| f.request_id), Some(id(1)));
}

#[test]
fn what_is_waited_for_is_forgotten_last() {
    let mut w = Witness::default();
    w.asked(id(1), S, Some("c"), Some("execute"), at(0));
    for n in 0..3 * WITNESSED_CALLS {
        w.reported(S, &n.to_string(), Some("read"), Some("pending"));
    }
    w.ended(id(1), true);
    w.reported(S, "c", Some("execute"), Some("completed"));
    assert_eq!(w.counts(), Counts { waited: 1, ..Counts::default() });
}

#[test]
fn a_prompt_that_nobody_listed_for_a_minute() {
    let mut w = Witness::default();
    w.asked(id(1), S, None, None, at(0));
    w.asked(id(2), S, None, None, at(1));
    w.told(id(2));
    assert_eq!(w.due(), Some(UNLISTED));
    assert!(w.unlisted(UNLISTED - at(1)).is_empty());
    assert_eq!(w.unlisted(UNLISTED + at(9)).len(), 1);
    assert!(w.unlisted(UNLISTED + at(9)).is_empty() && w.due().is_none());
    w.asked(id(3), S, None, None, at(100));
    w.listed();
    assert_eq!(w.due(), None);
    w.asked(id(4), S, None, None, at(100));
    w.ended(id(4), false);
    assert_eq!(w.due(), None, "it has ended");
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut w = Witness::default();
    for n in 0..3 * WITNESSED_CALLS {
        w.reported(S, &n.to_string(), Some("read"), Some("pending"));
    }
    assert_eq!(w.calls.len(), WITNESSED_CALLS);
}
