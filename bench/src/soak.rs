//! A soak: mixed load with random faults for as long as is wanted; then nothing may be there that was not after the first minute.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use agentctl_tests::harness::{Agent, Conn, Daemon, agentctl, children, parent, resolve_params, until};
use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::measure::memory;

const WORKERS: u64 = 12;
/// Sessions of each, used again and again: a session is known for ever.
const SESSIONS: u64 = 8;
/// The first part, after which everything is counted; all lists that are bounded are full then.
const FIRST: Duration = Duration::from_secs(60);

/// Between which everything is counted, too: what grows for ever is told from what fills up.
const PARTS: u32 = 6;

#[derive(Args)]
pub struct Soak {
    /// How long, in minutes
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// With which the random numbers begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What happened, and how often.
#[derive(Default)]
struct Counts(std::sync::Mutex<BTreeMap<String, u64>>);

impl Counts {
    fn add(&self, what: impl Into<String>) {
        *self.0.lock().expect("nobody panics here").entry(what.into()).or_default() += 1;
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// What there is when nothing runs.
#[derive(Debug, PartialEq)]
struct State {
    descriptors: usize,
    threads: usize,
    below: usize,
    live: u64,
    connections: u64,
    listed: usize,
    prompts: u64,
    resident_mib: f64,
}

impl Soak {
    pub fn run(self) -> std::process::ExitCode {
        let daemon = Daemon::start_with(&agentctl(), &[], &[]);
        let counts = Counts::default();
        let first = FIRST.min(Duration::from_secs(self.minutes * 60) / 2);
        load(&daemon, &counts, first, self.seed);
        let before = settle(&daemon);
        println!("after the first {} s: {before:?}", first.as_secs());
        let mut after = None;
        let begun = Instant::now();
        for part in 1..=PARTS {
            load(&daemon, &counts, (Duration::from_secs(self.minutes * 60) - first) / PARTS, self.seed + 1000 * u64::from(part));
            let state = settle(&daemon);
            println!("after {:>4} s more:    {state:?}", begun.elapsed().as_secs());
            after = Some(state);
        }
        let after = after.expect("there are parts");
        for (what, count) in counts.0.lock().expect("nobody panics here").iter() {
            println!("  {count:>9}  {what}");
        }
        let wrong: Vec<String> =
            counts.0.lock().expect("nobody panics here").keys().filter(|what| what.starts_with("WRONG")).cloned().collect();
        let more = after.descriptors > before.descriptors
            || after.threads > before.threads
            || after.below > before.below
            || after.live + after.prompts > 0
            || after.connections > before.connections
            || after.listed > before.listed
            || after.resident_mib > before.resident_mib + 1.0;
        daemon.stop();
        println!("{}", if more || !wrong.is_empty() { "NOT as promised" } else { "nothing more than after the first part" });
        std::process::ExitCode::from(u8::from(more || !wrong.is_empty()))
    }
}

/// Everything at once for so long.
fn load(daemon: &Daemon, counts: &Counts, time: Duration, seed: u64) {
    let until = Instant::now() + time;
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            scope.spawn(move || {
                let mut random = Random(seed * 100 + worker);
                while Instant::now() < until {
                    // A harness that waits too long panics: something hangs.
                    let run = catch_unwind(AssertUnwindSafe(|| one_run(daemon, counts, worker, &mut random)));
                    if run.is_err() {
                        counts.add("WRONG: a run panicked");
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut random = Random(seed);
            while Instant::now() < until {
                std::thread::sleep(Duration::from_millis(500 + random.below(4000)));
                fault(daemon, counts, &mut random);
            }
        });
    });
}

/// A start, some turns, an end.
fn one_run(daemon: &Daemon, counts: &Counts, worker: u64, random: &mut Random) {
    let mut conn = connect(daemon);
    let session = format!("w{worker}-{}", random.below(SESSIONS));
    let switches: &[&str] = match random.below(8) {
        0 => &["--stay-on-eof"],
        1 => &["--ignore-sigterm", "--stay-on-eof"],
        2 => &["--exit-after-ms", "150"],
        3 => &["--banner", "welcome"],
        4 => &["--init-error"],
        _ => &[],
    };
    let mut params = Agent::params(daemon, "soak", &session, switches);
    // Without its log.
    params["args"].as_array_mut().expect("a list").drain(..2);
    params["replace"] = json!(random.below(2) == 0);
    let started = conn.call("execution/start", params);
    counts.add(format!("start: {}", outcome(&started.0)));
    let execution = started.0["result"]["execution_id"].clone();
    for _ in 0..random.below(4) {
        if !one_turn(daemon, &mut conn, counts, &session, random) {
            break;
        }
    }
    let pid = started.0["result"]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    match (random.below(5), pid) {
        (0, Some(pid)) if is_ours(daemon, pid) => drop(kill(Pid::from_raw(pid), Signal::SIGKILL)),
        (1, Some(pid)) if is_ours(daemon, pid) => drop(kill(Pid::from_raw(parent(pid)), Signal::SIGKILL)),
        (2, _) => {}
        _ => counts.add(format!("stop: {}", outcome(&conn.call("execution/stop", json!({"session_id": session})).0))),
    }
    if execution.is_string() {
        let info = conn.call("execution/get", json!({"execution_id": execution}));
        if info.0["result"]["exit"]["code"] == 70 {
            counts.add("WRONG: an agent saw something that it must not see");
        }
    }
}

/// Whether this is still a grandchild of the guard: its number may be another's.
fn is_ours(daemon: &Daemon, pid: i32) -> bool {
    let guards = children(daemon.pid().as_raw());
    guards.iter().flat_map(|guard| children(*guard)).any(|keeper| children(keeper).contains(&pid))
}

/// One turn with a random script, answered in a random way. False if there is no agent any more.
fn one_turn(daemon: &Daemon, conn: &mut Conn, counts: &Counts, session: &str, random: &mut Random) -> bool {
    let (script, asks) = match random.below(8) {
        0 => (json!([{"text": "nothing to ask"}]), 0),
        1 => (json!([{"ask": {}}, {"ask": {}}, {"ask": {}}, {"await_all": true}]), 3),
        2 => (json!([{"ask": {"id": "x"}}, {"withdraw": "x"}, {"await": "x"}]), 0),
        3 => (json!([{"spawn": {"setsid": true, "double_fork": true, "clear_env": true}}, {"ask": {}}, {"await_all": true}]), 1),
        4 => (json!([{"loop": {"times": 200, "steps": [{"frame": {"len": 4096}}]}}, {"ask": {}}, {"await_all": true}]), 1),
        5 => (json!([{"stderr": {"bytes": 200_000}}, {"raw": "noise"}, {"ask": {}}, {"await_all": true}]), 1),
        6 => (json!([{"ask": {}}, {"hang": true}]), 1),
        _ => (json!([{"ask": {}}, {"await_all": true}]), 1),
    };
    let turn = conn.send("session/prompt", &json!({"session_id": session, "text": script.to_string()}));
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut answered = 0;
    loop {
        if let Some(reply) = conn.try_reply(turn) {
            counts.add(format!("turn: {}", outcome(&reply.0)));
            return reply.0["error"].is_null();
        }
        if Instant::now() > deadline {
            counts.add("turn: cancelled after a while");
            conn.call("session/cancel", json!({"session_id": session}));
        }
        let live = conn.call("permission/list", json!({"task_id": "soak", "session_id": session})).0["result"]["permissions"].clone();
        for permission in live.as_array().into_iter().flatten() {
            let params = resolve_params(permission, "allow-once");
            match random.below(6) {
                0 => counts.add(format!("cancel: {}", outcome(&conn.call("session/cancel", json!({"session_id": session})).0))),
                1 => {
                    // Two at once: one at most is accepted.
                    let mut other = connect(daemon);
                    let (a, b) = (conn.send("permission/resolve", &params), other.send("permission/resolve", &params));
                    let both = [conn.reply(a).0, other.reply(b).0];
                    let accepted = both.iter().filter(|reply| reply["error"].is_null()).count();
                    counts.add(format!("two at once: {accepted} accepted"));
                    if accepted > 1 {
                        counts.add("WRONG: an answer was accepted twice");
                    }
                    answered += accepted;
                }
                2 if asks == 1 => {
                    // A caller that goes away.
                    connect(daemon).send("permission/resolve", &params);
                    counts.add("answer of one who went away");
                }
                _ => {
                    let reply = conn.call("permission/resolve", params);
                    answered += usize::from(reply.0["error"].is_null());
                    counts.add(format!("answer: {}", outcome(&reply.0)));
                }
            }
        }
        if answered > 0 && script.to_string().contains("hang") {
            conn.call("session/cancel", json!({"session_id": session}));
        }
        std::thread::sleep(Duration::from_millis(random.below(5)));
    }
}

fn fault(daemon: &Daemon, counts: &Counts, random: &mut Random) {
    let pid = daemon.pid();
    let what = random.below(6);
    match what {
        0 => drop(children(pid.as_raw()).first().map(|guard| kill(Pid::from_raw(*guard), Signal::SIGKILL))),
        1 => {
            let _ = kill(pid, Signal::SIGSTOP);
            std::thread::sleep(Duration::from_millis(300));
            let _ = kill(pid, Signal::SIGCONT);
        }
        2 => drop(std::fs::remove_file(daemon.socket())),
        3 => {
            let mut silent = connect(daemon);
            silent.send("event/subscribe", &json!({}));
            std::thread::sleep(Duration::from_secs(2));
        }
        4 => {
            let mut conns: Vec<Conn> = (0..100).map(|_| connect(daemon)).collect();
            conns.iter_mut().for_each(|conn| conn.write(b"{\"jsonrpc\":\"2.0\",\"id\":1,"));
        }
        _ => {
            let mut conn = connect(daemon);
            for _ in 0..20 {
                conn.write(b"\xff no call\n");
            }
        }
    }
    counts.add(
        [
            "fault: guard killed",
            "fault: daemon stopped for 300 ms",
            "fault: socket removed",
            "fault: a silent subscriber",
            "fault: 100 clients with half a line each",
            "fault: lines that are none",
        ][what as usize],
    );
}

/// The socket may just have been removed.
fn connect(daemon: &Daemon) -> Conn {
    until("a connection", || Conn::try_open(&daemon.socket()).ok())
}

fn outcome(reply: &Value) -> String {
    match (&reply["error"]["data"]["code"], &reply["error"]["message"], &reply["result"]["stop_reason"]) {
        (Value::String(code), ..) => code.clone(),
        (_, Value::String(text), _) => text.clone(),
        (_, _, Value::String(reason)) => reason.clone(),
        _ => "ok".into(),
    }
}

/// Ends everything, and waits until nothing changes any more.
fn settle(daemon: &Daemon) -> State {
    let mut conn = connect(daemon);
    loop {
        let list = conn.call("execution/list", json!({})).ok();
        let live: Vec<Value> = list["executions"].as_array().expect("a list").iter().filter(|e| e["state"] != "exited").cloned().collect();
        if live.is_empty() {
            break;
        }
        for execution in live {
            conn.call("execution/stop", json!({"execution_id": execution["execution_id"]}));
        }
    }
    // Threads that nothing needs end after 10 s; the audit rests.
    std::thread::sleep(Duration::from_secs(15));
    let pid = daemon.pid().as_raw();
    let entries = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).expect("it runs").count();
    let status = conn.call("control/status", json!({})).ok();
    let below = children(pid).iter().map(|guard| 1 + children(*guard).len()).sum();
    State {
        descriptors: entries("fd"),
        threads: entries("task"),
        below,
        live: status["executions"].as_u64().unwrap_or(u64::MAX),
        connections: status["connections"].as_u64().unwrap_or(u64::MAX),
        listed: conn.call("execution/list", json!({})).ok()["executions"].as_array().map_or(0, Vec::len),
        prompts: conn.call("permission/list", json!({})).ok()["total"].as_u64().unwrap_or(u64::MAX),
        resident_mib: memory(pid, "VmRSS") as f64 / 1024.0,
    }
}
