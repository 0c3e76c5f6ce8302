//! Hostile streams: what each costs the daemon in memory. What is promised is promised of a release build (`scripts/faults`).

use agentctl_tests::harness::{Agent, Conn, Daemon, Log, until};
use serde_json::{Value, json};

use super::world::assert_works;
use super::{Row, Seen};

const MIB: usize = 1 << 20;
/// The cap of a frame.
const CAP: usize = 64 * MIB;

pub const ROWS: &[Row] = &[
    Row { fault: "256 MiB of stderr without a newline", promise: "drained; under 20 MiB", run: stderr },
    Row { fault: "2,000,000 lines of noise on stdout", promise: "counted; under 20 MiB", run: noise },
    Row { fault: "a line of 320 MiB", promise: "dropped, counted, reported; the stream goes on; under 100 MiB", run: endless },
    Row { fault: "a frame of 64 MiB, the cap", promise: "taken whole; under 150 MiB", run: at_the_cap },
    Row { fault: "a frame of 1 MiB, a byte at a time", promise: "the same frame; under 20 MiB", run: byte_at_a_time },
    Row {
        fault: "10,000 requests that nobody serves, of an agent that does not read",
        promise: "dropped or answered, bounded; under 20 MiB",
        run: deaf_agent,
    },
    Row {
        fault: "40 prompts of 1 MiB for an agent that does not read",
        promise: "up to 16 MiB wait for it, the others are refused; under 60 MiB",
        run: full_stdin,
    },
    Row {
        fault: "200 MiB of updates for a subscriber that does not read",
        promise: "dropped with a mark; under 20 MiB",
        run: deaf_subscriber,
    },
    Row {
        fault: "100 lines of 1 MiB from a client that reads no answer",
        promise: "it is not read any more; under 40 MiB",
        run: deaf_client,
    },
    Row {
        fault: "300 prompts at once of one agent",
        promise: "256 live, the others cancelled and counted; under 20 MiB",
        run: many_prompts,
    },
];

struct Hostile {
    daemon: Daemon,
    conn: Conn,
    agent: Agent,
}

impl Hostile {
    fn new(switches: &[&str]) -> Self {
        let daemon = Daemon::start();
        let mut conn = daemon.connect();
        let mut params = Agent::params(&daemon, "t", "s", switches);
        // Without a log, which would hold all of it.
        params["args"].as_array_mut().expect("a list").drain(..2);
        let started = conn.start(params);
        let agent = Agent { task: "t".into(), session: "s".into(), started, log: Log(daemon.folder().join("no log")) };
        Self { daemon, conn, agent }
    }

    fn turn(&mut self, script: &Value) {
        let turn = self.agent.prompt(&mut self.conn, script);
        self.conn.reply(turn).ok();
    }

    fn counter(&mut self, name: &str) -> u64 {
        self.conn.call("execution/get", json!({"session_id": "s"})).ok()["counters"][name].as_u64().expect("a counter")
    }

    /// Others are served as always, and this was the most that the daemon had.
    fn kept(self, most: usize, seen: &str) -> Seen {
        assert_works(&self.daemon, "other");
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.daemon.pid())).expect("it runs");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is listed");
        let peak = peak.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024;
        let most = if std::env::var_os("AGENTCTL_BIN").is_some() { most } else { 2 * most };
        assert!(peak < most * MIB, "{} MiB", peak / MIB);
        self.daemon.stop();
        Seen::Kept(format!("{seen}; {:.1} MiB at most", peak as f64 / MIB as f64))
    }
}

fn stderr() -> Seen {
    let mut hostile = Hostile::new(&[]);
    hostile.turn(&json!([{"stderr": {"bytes": 256 * MIB}}]));
    let bytes = hostile.counter("stderr_bytes");
    hostile.kept(20, &format!("{bytes} bytes taken"))
}

fn noise() -> Seen {
    let mut hostile = Hostile::new(&[]);
    let line = "2026-01-01 INFO something of no interest\n".repeat(2000);
    hostile.turn(&json!([{"loop": {"times": 1000, "steps": [{"part": line}]}}]));
    let lines = hostile.counter("noise");
    hostile.kept(20, &format!("{lines} counted"))
}

fn endless() -> Seen {
    let mut hostile = Hostile::new(&[]);
    hostile.turn(&json!([{"bytes": {"len": 5 * CAP, "chunk": 65536}}, {"raw": ""}]));
    let lines = hostile.counter("too_long");
    assert_eq!(lines, 1);
    hostile.kept(100, "1 counted as too long, the turn went on")
}

fn at_the_cap() -> Seen {
    let mut hostile = Hostile::new(&[]);
    hostile.turn(&json!([{"frame": {"len": CAP, "chunk": 65536}}]));
    assert_eq!(hostile.counter("too_long"), 0);
    hostile.kept(150, "taken")
}

fn byte_at_a_time() -> Seen {
    let mut hostile = Hostile::new(&[]);
    hostile.conn.subscribe(json!({"topics": ["update"]}));
    hostile.turn(&json!([{"frame": {"len": MIB, "chunk": 1}}]));
    let event = hostile.conn.event_of_type("session/update");
    assert_eq!(event["frame"].to_string().len(), MIB);
    hostile.kept(20, "a subscriber has it whole")
}

fn deaf_agent() -> Seen {
    let mut hostile = Hostile::new(&["--stay-on-eof"]);
    let ask = json!({"request": {"method": "fs/read_text_file", "params": {"path": "x".repeat(500)}}});
    hostile.agent.prompt(&mut hostile.conn, &json!([{"stop_reading": true}, {"loop": {"times": 10_000, "steps": [ask]}}, {"hang": true}]));
    let refused = until("all requests", || Some(hostile.counter("not_served")).filter(|n| *n == 10_000));
    hostile.kept(20, &format!("{refused} refused"))
}

fn full_stdin() -> Seen {
    let mut hostile = Hostile::new(&["--stay-on-eof"]);
    hostile.agent.prompt(&mut hostile.conn, &json!([{"stop_reading": true}, {"text": "deaf"}, {"hang": true}]));
    let params = |n| json!({"session_id": "s", "acp_session_id": format!("other{n}"), "text": "x".repeat(MIB)});
    let calls: Vec<u64> = (0..40).map(|n| hostile.conn.send("session/prompt", &params(n))).collect();
    hostile.conn.call("control/status", json!({})).ok();
    let refused =
        calls.into_iter().filter_map(|call| hostile.conn.try_reply(call)).filter(|reply| reply.code() == Some("limit_reached")).count();
    assert!((20..30).contains(&refused), "{refused} were refused");
    hostile.kept(60, &format!("{refused} `limit_reached`"))
}

fn deaf_subscriber() -> Seen {
    let mut hostile = Hostile::new(&[]);
    let mut silent = hostile.daemon.connect();
    silent.send("event/subscribe", &json!({"topics": ["update"]}));
    hostile.turn(&json!([{"loop": {"times": 200, "steps": [{"frame": {"len": MIB}}]}}]));
    hostile.kept(20, "the turn was not held up")
}

fn deaf_client() -> Seen {
    let hostile = Hostile::new(&[]);
    let mut deaf = std::os::unix::net::UnixStream::connect(hostile.daemon.socket()).expect("a daemon");
    deaf.set_write_timeout(Some(std::time::Duration::from_secs(1))).expect("it can be set");
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "control/describe", "params": {"x": "x".repeat(MIB)}}).to_string() + "\n";
    let written = (0..100).take_while(|_| std::io::Write::write_all(&mut deaf, line.as_bytes()).is_ok()).count();
    hostile.kept(40, &format!("{written} lines taken"))
}

fn many_prompts() -> Seen {
    let mut hostile = Hostile::new(&[]);
    hostile.agent.prompt(&mut hostile.conn, &json!([{"loop": {"times": 300, "steps": [{"ask": {}}]}}, {"hang": true}]));
    let refused = until("the last one", || Some(hostile.counter("prompts_refused")).filter(|n| *n == 44));
    let live = hostile.agent.permissions(&mut hostile.conn).len();
    assert_eq!(live, 256);
    hostile.kept(20, &format!("{live} live, {refused} cancelled"))
}
