//! Single rules, by name.

use uuid::Uuid;

use super::super::{Offer, Table, Unanswered};
use super::world::rpc_id;
use crate::domain::End;

fn raise(table: &mut Table<()>, number: u128, id: &str, session: Option<&str>) -> Result<Option<End>, ()> {
    let offers = vec![Offer { option_id: "allow".into(), selectable: true }];
    let raised =
        table.raise(Uuid::from_u128(number), rpc_id(id), session.map(str::to_owned), offers, &format!("agentctl-{number}"), |_| ());
    raised.map(|raised| raised.replaced.map(|ended| ended.end)).map_err(|_| ())
}

fn pending_id(table: &Table<String>, number: u128) -> String {
    table.get(Uuid::from_u128(number)).cloned().unwrap()
}

#[test]
fn ids_of_different_types_are_different_requests_with_different_pending_ids() {
    let mut table: Table<String> = Table::new(9);
    for (number, id) in ["5", "\"5\"", "null", "1.5", "5.0", "\"agentctl-9\""].iter().enumerate() {
        table.raise(Uuid::from_u128(number as u128), rpc_id(id), None, Vec::new(), &format!("agentctl-{number}"), str::to_owned).unwrap();
    }
    let names: Vec<String> = (0..6).map(|n| pending_id(&table, n)).collect();
    assert_eq!(names, ["5", "agentctl-1", "agentctl-2", "agentctl-3", "agentctl-4", "agentctl-9"]);
}

#[test]
fn reusing_an_id_replaces_the_older_request_only() {
    let mut table = Table::new(9);
    assert_eq!(raise(&mut table, 1, "5", None), Ok(None));
    assert_eq!(raise(&mut table, 2, "\"5\"", None), Ok(None));
    assert_eq!(raise(&mut table, 3, "5", None), Ok(Some(End::Replaced)));
    assert_eq!(table.begin(Uuid::from_u128(1), "5", "allow", Uuid::nil()), Err(Unanswered::NotLive));
    assert!(table.begin(Uuid::from_u128(3), "5", "allow", Uuid::nil()).is_ok());
    assert_eq!(table.len(), 2);
}

#[test]
fn a_wrong_pending_id_is_told_before_the_state_and_the_option() {
    let mut table = Table::new(9);
    raise(&mut table, 1, "5", None).unwrap();
    assert_eq!(table.begin(Uuid::from_u128(1), "6", "nope", Uuid::nil()), Err(Unanswered::PendingIdDiffers));
    table.begin(Uuid::from_u128(1), "5", "allow", Uuid::nil()).unwrap();
    assert_eq!(table.begin(Uuid::from_u128(1), "6", "allow", Uuid::nil()), Err(Unanswered::PendingIdDiffers));
    assert_eq!(table.begin(Uuid::from_u128(1), "5", "nope", Uuid::nil()), Err(Unanswered::InProgress));
}

#[test]
fn a_stranger_session_belongs_to_the_only_running_turn() {
    let mut table = Table::new(9);
    table.start_turn("a").unwrap();
    raise(&mut table, 1, "1", Some("stranger")).unwrap();
    raise(&mut table, 2, "2", None).unwrap();
    assert_eq!(table.cancel_session("a").len(), 2);
    // Within the cancelled turn, also of a stranger: answered at once.
    assert!(raise(&mut table, 3, "3", Some("stranger")).is_err());
    table.end_turn("a");
    assert_eq!(raise(&mut table, 4, "4", Some("stranger")), Ok(None));
}

#[test]
fn with_two_running_turns_a_stranger_belongs_to_none() {
    let mut table = Table::new(9);
    table.start_turn("a").unwrap();
    table.start_turn("b").unwrap();
    raise(&mut table, 1, "1", Some("stranger")).unwrap();
    raise(&mut table, 2, "2", Some("b")).unwrap();
    assert!(table.cancel_session("a").is_empty());
    assert_eq!(table.end_turn("b").len(), 1);
    assert_eq!(table.len(), 1);
}

#[test]
fn a_cancel_without_a_turn_ends_requests_but_refuses_no_later_ones() {
    let mut table = Table::new(9);
    table.know_session("a");
    raise(&mut table, 1, "1", Some("a")).unwrap();
    assert_eq!(table.cancel_session("a").len(), 1);
    assert_eq!(raise(&mut table, 2, "2", Some("a")), Ok(None));
}

#[test]
fn a_request_outside_a_turn_outlives_the_turns() {
    let mut table = Table::new(9);
    table.know_session("a");
    raise(&mut table, 1, "1", Some("a")).unwrap();
    table.start_turn("a").unwrap();
    assert!(table.end_turn("a").is_empty());
    assert_eq!(table.len(), 1);
}

#[test]
fn a_claim_releases_only_itself() {
    let mut table = Table::new(9);
    raise(&mut table, 1, "1", None).unwrap();
    let (request, claim, other) = (Uuid::from_u128(1), Uuid::from_u128(10), Uuid::from_u128(11));
    table.begin(request, "1", "allow", claim).unwrap();
    assert!(!table.release(request, other));
    assert_eq!(table.begin(request, "1", "allow", other), Err(Unanswered::InProgress));
    assert!(table.release(request, claim));
    assert!(table.begin(request, "1", "allow", other).is_ok());
}

#[test]
fn at_the_cap_a_replacement_still_fits() {
    let mut table = Table::new(1);
    raise(&mut table, 1, "1", None).unwrap();
    assert!(raise(&mut table, 2, "2", None).is_err());
    assert_eq!(raise(&mut table, 3, "1", None), Ok(Some(End::Replaced)));
}

#[test]
fn an_id_that_is_used_for_something_else_names_the_request_no_more() {
    let mut table = Table::new(9);
    raise(&mut table, 1, "5", None).unwrap();
    let ended = table.replace(&rpc_id("5")).unwrap();
    assert!(ended.end == End::Replaced && ended.right.is_none());
    assert!(table.replace(&rpc_id("\"5\"")).is_none() && table.is_empty());
}

#[test]
fn history_and_a_session_that_was_given_up_raise_nothing() {
    let mut table = Table::new(9);
    raise(&mut table, 1, "1", Some("old")).unwrap();
    raise(&mut table, 2, "2", Some("other")).unwrap();
    assert_eq!(
        table.give_up_session("old").iter().map(|ended| (ended.request_id.as_u128(), ended.end)).collect::<Vec<_>>(),
        [(1, End::Cancelled)]
    );
    assert_eq!(raise(&mut table, 3, "3", Some("old")), Err(()));
    assert_eq!(raise(&mut table, 4, "4", Some("other")), Ok(None));
    table.replay(true);
    assert_eq!(raise(&mut table, 5, "5", Some("other")), Err(()));
    table.replay(false);
    assert_eq!(raise(&mut table, 6, "5", Some("other")), Ok(None));
    // The oldest ones are forgotten in the end.
    (0..crate::limits::RESET_SESSIONS).for_each(|n| drop(table.give_up_session(&format!("s{n}"))));
    assert_eq!(raise(&mut table, 7, "7", Some("old")), Ok(None));
    assert_eq!(raise(&mut table, 8, "8", Some("s0")), Err(()));
}
