//! The database can't be written (C19): nothing is sent, or nothing can be sent again.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use agentctl_tests::harness::{Agent, Conn, Daemon, agentctl, agentctl_with_failpoints, identity, outcome, until};
use nix::sys::signal::Signal;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

struct Asked {
    daemon: Daemon,
    conn: Conn,
    agent: Agent,
    turn: u64,
    permission: Value,
}

/// A prompt that is on disk, under a daemon with these rules.
fn asked(rules: &str) -> Asked {
    let daemon = match rules {
        "" => Daemon::start(),
        rules => Daemon::start_with(&agentctl_with_failpoints(), &[], &[("AGENTCTL_FAILPOINTS", rules)]),
    };
    let mut conn = daemon.connect();
    let agent = Agent::start(&daemon, &mut conn, "s", &[]);
    let (turn, live) = agent.ask(&mut conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    let permission = live[0].clone();
    until("the request's row", || {
        let records = conn.call("audit/list", json!({"request_id": permission["request_id"]})).ok()["records"].clone();
        records.get(0).map(|_| ())
    });
    Asked { daemon, conn, agent, turn, permission }
}

impl Asked {
    /// The claim can't be recorded: the caller is told, the agent isn't, the prompt is as it was.
    #[track_caller]
    fn assert_claim_fails(&mut self, what: &str) {
        let reply = self.conn.resolve(&self.permission, "allow-once");
        assert_eq!(reply.code(), Some("permission_audit_failed"), "{what}: {reply:?}");
        let live = self.agent.permissions(&mut self.conn);
        assert_eq!(live.len(), 1, "{what}");
        assert_eq!((&live[0]["request_id"], &live[0]["status"]), (&self.permission["request_id"], &json!("pending")), "{what}");
        assert!(self.agent.log.responses(&json!(5)).is_empty(), "{what}");
    }

    /// The database works again: another option is accepted, and the audit has it all.
    #[track_caller]
    fn assert_works_again(mut self, what: &str, fails: u64) {
        let reply = until(&format!("{what} to be over"), || {
            let reply = self.conn.resolve(&self.permission, "reject-once");
            // It may take one more try to notice.
            (reply.code() != Some("permission_audit_failed")).then_some(reply)
        });
        assert_eq!(reply.ok()["status"], "resolved");
        assert_eq!(self.conn.reply(self.turn).ok()["stop_reason"], "end_turn");
        let answers: Vec<String> = self.agent.log.responses(&json!(5)).iter().map(outcome).collect();
        assert_eq!(answers, ["reject-once"], "{what}");
        let record = until("the failed attempts", || {
            let record = self.conn.audit_of(&self.permission["request_id"]);
            Some(record).filter(|r| r["failed_attempts"]["count"].as_u64() >= Some(fails))
        });
        let accepted: Vec<&Value> =
            record["resolutions"].as_array().expect("a list").iter().filter(|r| r["result"] == "accepted").collect();
        assert_eq!((accepted.len(), &record["end"]), (1, &json!("resolved")), "{what}: {record}");
        assert_eq!(accepted[0]["option_id"], "reject-once", "{what}: {record}");
        self.agent.log.assert_no_violation();
        self.daemon.stop();
    }
}

#[test]
fn a_claim_that_cannot_be_written_is_not_delivered_and_can_be_tried_again() {
    let points = [
        ("claim.received", "full"),
        ("claim.received", "readonly"),
        ("claim.received", "locked"),
        ("claim.before", "full"),
        ("claim.before", "readonly"),
        ("claim.before", "locked"),
        ("claim.before", "io"),
        ("claim.before_commit", "io"),
        ("claim.after_commit", "io"),
    ];
    for (point, fault) in points {
        let rule = format!("{point}=1:{fault}");
        let mut asked = asked(&format!("{rule};claim.received=2:heal"));
        asked.assert_claim_fails(&rule);
        asked.assert_works_again(&rule, 1);
    }
}

#[test]
fn a_claim_that_cannot_be_written_can_be_tried_again_under_the_next_daemon_only_by_a_new_prompt() {
    let mut asked = asked("claim.before=locked");
    asked.assert_claim_fails("locked");
    let (_, folder) = asked.daemon.end(Signal::SIGKILL);
    let daemon = Daemon::start_in(folder, &agentctl(), &[], &[]);
    let mut conn = daemon.connect();
    let record = conn.audit_of(&asked.permission["request_id"]);
    assert_eq!((&record["end"], &record["resolutions"]), (&json!("expired"), &json!([])));
    assert_eq!(conn.resolve(&asked.permission, "allow-once").code(), Some("permission_stale"));
    daemon.stop();
}

#[test]
fn a_prompt_can_be_cancelled_while_the_disk_does_not_work() {
    for fault in ["full", "readonly", "locked", "io"] {
        let mut asked = asked(&format!("claim.before={fault}"));
        asked.assert_claim_fails(fault);
        let result = asked.conn.call("permission/cancel", identity(&asked.permission)).ok();
        assert_eq!(result["status"], "cancelled");
        assert_eq!(outcome(&asked.agent.log.await_response(&json!(5))), "cancelled");
        assert_eq!(asked.conn.reply(asked.turn).ok()["stop_reason"], "end_turn");
        assert!(asked.agent.permissions(&mut asked.conn).is_empty());
        asked.agent.log.assert_no_violation();
        // The daemon ends cleanly all the same.
        asked.daemon.stop();
    }
}

#[test]
fn an_end_that_cannot_be_written_is_no_second_chance() {
    // The last: what the next daemon finds.
    let points = [
        ("claim.after_commit", "full", "indeterminate"),
        ("claim.after_commit", "readonly", "indeterminate"),
        ("claim.after_commit", "locked", "indeterminate"),
        ("finish.received", "full", "indeterminate"),
        ("finish.received", "readonly", "indeterminate"),
        ("finish.received", "locked", "indeterminate"),
        ("finish.before", "full", "indeterminate"),
        ("finish.before", "readonly", "indeterminate"),
        ("finish.before", "locked", "indeterminate"),
        ("finish.before", "io", "indeterminate"),
        ("finish.before_commit", "io", "indeterminate"),
        ("finish.after_commit", "io", "accepted"),
    ];
    for (point, fault, result) in points {
        let rule = format!("{point}={fault}");
        let Asked { daemon, mut conn, agent, turn, permission } = asked(&rule);
        let reply = conn.resolve(&permission, "allow-always");
        assert_eq!(reply.code(), Some("permission_audit_failed"), "{rule}: {reply:?}");
        assert_eq!(conn.reply(turn).ok()["stop_reason"], "end_turn");
        for option in ["allow-always", "reject-once"] {
            let retry = conn.resolve(&permission, option);
            let codes = [Some("permission_already_resolved"), Some("permission_audit_failed")];
            assert!(codes.contains(&retry.code()), "{rule}: {retry:?}");
        }
        let cancel = conn.call("permission/cancel", identity(&permission));
        assert!(cancel.code().is_some(), "{rule}: {cancel:?}");
        assert!(agent.permissions(&mut conn).is_empty(), "{rule}");

        let (_, folder) = daemon.end(Signal::SIGTERM);
        let daemon = Daemon::start_in(folder, &agentctl(), &[], &[]);
        let mut conn = daemon.connect();
        let reply = conn.resolve(&permission, "allow-always");
        assert_eq!(reply.code(), Some("permission_already_resolved"), "{rule}: {reply:?}");
        assert_eq!(reply.error()["data"]["resolution"]["result"], result, "{rule}");
        let answers: Vec<String> = agent.log.responses(&json!(5)).iter().map(outcome).collect();
        assert_eq!(answers, ["allow-always"], "{rule}");
        agent.log.assert_no_violation();
        daemon.stop();
    }
}

#[test]
fn a_database_that_somebody_else_has_locked() {
    let mut asked = asked("");
    let other = rusqlite::Connection::open(asked.daemon.database()).expect("the database opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    asked.assert_claim_fails("locked");
    // A reader is not held up, and neither is the agent.
    asked.conn.call("audit/list", json!({})).ok();
    other.execute_batch("ROLLBACK").expect("the lock is given back");
    asked.assert_works_again("locked", 1);
}

#[test]
fn a_disk_that_is_full() {
    let mut asked = asked("");
    let pid = Pid::from_raw(asked.daemon.pid().as_raw());
    let before = prlimit(pid, Resource::Fsize, Rlimit { current: Some(0), maximum: None }).expect("the limit is set");
    asked.assert_claim_fails("full");
    asked.assert_claim_fails("still full");
    prlimit(pid, Resource::Fsize, before).expect("the limit is lifted");
    asked.assert_works_again("full", 2);
}

#[test]
fn a_full_disk_keeps_no_prompt_from_being_cancelled_and_no_agent_from_working() {
    let mut asked = asked("");
    let pid = Pid::from_raw(asked.daemon.pid().as_raw());
    prlimit(pid, Resource::Fsize, Rlimit { current: Some(0), maximum: None }).expect("the limit is set");
    asked.assert_claim_fails("full");
    asked.conn.call("permission/cancel", identity(&asked.permission)).ok();
    assert_eq!(asked.conn.reply(asked.turn).ok()["stop_reason"], "end_turn");
    let (turn, live) = asked.agent.ask(&mut asked.conn, &json!([{"ask": {"id": 6}}, {"hang": true}]), 1);
    assert_eq!(asked.conn.resolve(&live[0], "allow-once").code(), Some("permission_audit_failed"));
    asked.conn.call("session/cancel", json!({"session_id": "s"})).ok();
    assert_eq!(asked.conn.reply(turn).ok()["stop_reason"], "cancelled");
    assert_eq!(outcome(&asked.agent.log.await_response(&json!(6))), "cancelled");
    asked.agent.log.assert_no_violation();
    asked.daemon.stop();
}
