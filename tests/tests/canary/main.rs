//! No secret of the corpus is in anything that leaves the processes: lists, events, audit, database, log, errors, recordings,
//! terminals, MCP. The corpus is the redaction's own (acp-bridge/tests/data), put into every place that an agent, its
//! environment and its end have.
//!
//! By contract these are left alone: ids (of options, requests, sessions: they must match byte for byte), what the agent and
//! an editor get of each other, and the raw topics `update` and `frame`. Those hold the secrets, and are asserted to.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod corpus;
mod outputs;
mod prompts;
mod runs;

use agentctl_tests::harness::{Agent, Conn, Daemon, Log, agentctl, outcome, resolve_params, until};
use serde_json::{Value, json};

use corpus::Corpus;
use outputs::{Follower, Outputs, mcp};
use prompts::{KINDS, Script};

const LIST: &str = "list_pending_agent_permissions";
const RESOLVE: &str = "resolve_agent_permission";

fn daemon() -> Daemon {
    Daemon::start_with(&agentctl(), &[], &[("AGENTCTL_LOG", "trace")])
}

/// Starts an agent for a session, in an environment.
fn start(daemon: &Daemon, conn: &mut Conn, session: &str, script: &Script) -> Log {
    let mut params = Agent::params(daemon, "t", session, &[]);
    params["env"] = json!(script.env);
    conn.start(params);
    Log(daemon.folder().join(format!("agent-{session}.log")))
}

/// Collects what is there of a daemon before and after its end, and checks all.
fn check(daemon: Daemon, mut outputs: Outputs, corpus: &Corpus, reach: &[(&str, &[&str])]) {
    outputs.files("state", &daemon.folder().join("state"));
    let (ended, folder) = daemon.end(nix::sys::signal::Signal::SIGTERM);
    assert!(ended.status.success(), "{}", ended.log);
    outputs.files("state after the end", &folder.path().join("state"));
    outputs.add("log", ended.log.as_bytes());
    outputs.check(corpus, reach);
}

/// Everything that shows a live prompt or what became of it.
const SHOWN: &[&str] = &[
    "permissions",
    "permissions --json",
    "permissions --watch",
    "permissions --watch --json",
    "events",
    "events --json",
    "mcp",
    "state/audit.db",
    "audit --json",
];

#[test]
fn no_output_shows_a_secret_of_a_prompt() {
    let daemon = daemon();
    let mut conn = daemon.connect();
    let (mut corpus, mut outputs) = (Corpus::new(), Outputs::default());
    let events = [
        Follower::start(&daemon, "events", &["events"]),
        Follower::start(&daemon, "events --json", &["events", "--json"]),
        Follower::start(&daemon, "raw", &["events", "--topics", "update,frame"]),
    ];
    until("the subscriptions", || (conn.call("control/status", json!({})).ok()["connections"].as_u64()? >= 4).then_some(()));
    // Each has subscribed once it shows what came after it.
    let [text, as_json, raw] = events;
    for session in (0..).map(|n| format!("probe-{n}")) {
        let quiet = Script { steps: vec![], env: Default::default(), asks: 0 };
        start(&daemon, &mut conn, &session, &quiet);
        if text.has("probe-") && as_json.has("probe-") {
            break;
        }
    }
    let mut turns = Vec::new();
    for kind in KINDS {
        let mut script = prompts::script(&mut corpus, kind);
        script.steps.push(json!({"await": 0}));
        script.steps.push(json!({"withdraw": 3}));
        script.steps.push(json!({"hang": true}));
        let log = start(&daemon, &mut conn, kind, &script);
        let turn = conn.send("session/prompt", &json!({"session_id": kind, "text": json!(script.steps).to_string()}));
        let live = conn.await_permissions("t", kind, script.asks);
        turns.push((kind, log, turn, live));
    }
    outputs.run(&daemon, "permissions", &["permissions"]);
    outputs.run(&daemon, "ps", &["ps", "--all"]);
    let mcp_calls: Vec<(&str, Value)> = KINDS
        .iter()
        .map(|kind| ("tools/call", json!({"name": LIST, "arguments": {"task_id": "t", "session_id": kind}})))
        .chain([("resources/read", json!({"uri": "agentctl://permissions/pending"}))])
        .collect();
    outputs.add("mcp", &mcp(&daemon, &mcp_calls));
    let watchers = ["permissions --watch", "permissions --watch --json"]
        .map(|name| Follower::start(&daemon, name, &name.split(' ').collect::<Vec<_>>()));
    let [watch, watch_json] = watchers;
    watch.end(&mut outputs, "seen-thin-title-here");
    watch_json.end(&mut outputs, "seen-thin-title-here");

    for (kind, log, turn, live) in &turns {
        let of = |id: usize| live.iter().find(|p| p["pending_id"].as_str() == Some(&*id.to_string())).expect("it is live").clone();
        // Answered by the command, by MCP and on the socket; wrongly, too late and twice.
        let [zero, one, two, three] = [0, 1, 2, 3].map(of);
        let id = |p: &Value, name: &str| p[name].as_str().expect("an id").to_owned();
        let (request, pending) = (id(&two, "request_id"), id(&two, "pending_id"));
        let command = ["resolve", "--task", "t", "--session", kind, "--request", &request, "--pending", &pending, "--option"];
        for option in ["never offered", "yes", "yes"] {
            let output = daemon.command(&[&command[..], &[option]].concat()).output().expect("it runs");
            outputs.command("resolve", &output);
        }
        let tool = |p: &Value, option: &str| ("tools/call", json!({"name": RESOLVE, "arguments": resolve_params(p, option)}));
        outputs.add("mcp", &mcp(&daemon, &[tool(&one, "never offered")]));
        outputs.add("mcp", &mcp(&daemon, &[tool(&one, "no")]));
        outputs.add("mcp", &mcp(&daemon, &[tool(&one, "no")]));
        outputs.call(&mut conn, "calls", "permission/resolve", resolve_params(&zero, "odd"));
        // The agent hears what was chosen, byte for byte.
        for (id, option) in [(0, "odd"), (1, "no"), (2, "yes")] {
            assert_eq!(outcome(&log.await_response(&json!(id))), option, "{kind}");
        }
        log.await_response(&json!(3));
        outputs.call(&mut conn, "calls", "permission/resolve", resolve_params(&three, "yes"));
        outputs.call(&mut conn, "calls", "session/cancel", json!({"session_id": kind}));
        let ended = conn.reply(*turn).0.to_string();
        outputs.add("calls", ended.as_bytes());
        outputs.call(&mut conn, "calls", "execution/stop", json!({"session_id": kind}));
        // All of it was really said, and the raw topics are what they are called.
        let said = std::fs::read(&log.0).expect("a log");
        assert!(corpus.found(&said).len() > 6 * live.len(), "{kind}: {}", corpus.found(&said).len());
        log.assert_no_violation();
    }
    outputs.run(&daemon, "audit", &["audit", "--limit", "1000"]);
    outputs.run(&daemon, "witness", &["audit", "--witness"]);
    start(&daemon, &mut conn, "the-last", &Script { steps: vec![], env: Default::default(), asks: 0 });
    text.end(&mut outputs, "the-last");
    as_json.end(&mut outputs, "the-last");
    let mut raw_output = Outputs::default();
    raw.end(&mut raw_output, "-title-here");
    assert!(raw_output.leaks(&corpus).len() > 1000, "raw topics are raw, and leaks are found");

    let kinds = |place: &str| KINDS.map(|kind| format!("{kind}-{place}"));
    let (titles, options) = (kinds("title"), kinds("option"));
    let mut reach: Vec<(&str, &[&str])> = titles.iter().map(|place| (&**place, SHOWN)).collect();
    reach.extend(titles.iter().map(|place| (&**place, &["audit"][..])));
    // As text an event names the option's id only.
    let but_events: Vec<&str> = SHOWN.iter().copied().filter(|output| *output != "events").collect();
    reach.extend(options.iter().map(|place| (&**place, &but_events[..])));
    let own =
        ["execute-command", "execute-cwd", "execute-hint", "edit-path", "fetch-url", "mcp-server", "mcp-tool", "thin-command", "thin-cwd"];
    reach.extend(own.iter().map(|place| (*place, &["permissions", "permissions --json", "events --json", "mcp", "state/audit.db"][..])));
    reach.push(("edit-location", &["permissions --json"]));
    reach.extend(kinds("call").iter().map(|_| ("execute-call", &["permissions --json", "events --json", "mcp", "state/audit.db"][..])));
    check(daemon, outputs, &corpus, &reach);
}
