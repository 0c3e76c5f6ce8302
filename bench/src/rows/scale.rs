//! A thousand agents, and ten thousand prompts at once.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use agentctl_tests::harness::{Conn, Daemon, agentctl, resolve_params};
use serde_json::json;

use super::{Row, Setting, agent, turn};
use crate::measure::{context_switches, cpu, median, memory, now};

const AGENTS: usize = 1000;
/// Prompts of each.
const PROMPTS: usize = 10;
/// Agents started and stopped at once, beyond those.
const AT_ONCE: usize = 200;
const IDLE: Duration = Duration::from_secs(10);

pub fn measure(_: &Setting<'_>) -> Vec<Row> {
    let daemon = Daemon::start_with(&agentctl(), &["--max-executions", "2000"], &[]);
    let pid = daemon.pid().as_raw();
    let mut conn = daemon.connect();
    let names = |range: std::ops::Range<usize>| range.map(|n| format!("s{n}")).collect::<Vec<_>>();

    // What the first ones cost once is no cost of each.
    start_all(&daemon, &mut conn, &names(0..20));
    let before = memory(pid, "RssAnon");
    let begun = now();
    start_all(&daemon, &mut conn, &names(20..AGENTS));
    let started = seconds(begun);
    let each = (memory(pid, "RssAnon") - before) as f64 / (AGENTS - 20) as f64;

    // Threads that nothing needs any more end after 10 s.
    std::thread::sleep(Duration::from_secs(12));
    let (switches, ran) = (context_switches(pid), cpu(pid));
    std::thread::sleep(IDLE);
    let (switches, ran) = (context_switches(pid) - switches, cpu(pid) - ran);

    let turns: Vec<u64> = names(0..AGENTS).iter().map(|session| turn(&mut conn, session, &format!("ask-all {PROMPTS}"))).collect();
    let live = loop {
        let list = conn.call("permission/list", json!({})).ok();
        if list["total"] == AGENTS * PROMPTS {
            break list["permissions"].as_array().expect("a list").clone();
        }
    };
    let lists: Vec<f64> = (0..9).map(|_| list(&daemon)).collect();
    let of_one: Vec<f64> =
        (0..9).map(|_| timed(|| drop(conn.call("permission/list", json!({"task_id": "bench", "session_id": "s500"}))))).collect();
    let begun = now();
    let answers: Vec<u64> = live.iter().map(|permission| conn.send("permission/resolve", &resolve_params(permission, "allow"))).collect();
    answers.into_iter().for_each(|call| drop(conn.reply(call).ok()));
    turns.into_iter().for_each(|call| drop(conn.reply(call).ok()));
    let answered = seconds(begun);

    let more = names(AGENTS..AGENTS + AT_ONCE);
    let begun = now();
    start_all(&daemon, &mut conn, &more);
    stop_all(&mut conn, &more);
    let at_once = seconds(begun);
    let begun = now();
    stop_all(&mut conn, &names(0..AGENTS));
    let stopped = seconds(begun);
    let peak = memory(pid, "VmHWM") as f64 / 1024.0;
    daemon.stop();

    let row = |what: String, ours: String, target: &str, met: bool| Row {
        what,
        result: ours.clone(),
        ours,
        against: String::new(),
        target: target.into(),
        met,
        raw: json!(null),
    };
    let list_ms = median(&lists) / 1e6;
    vec![
        Row {
            raw: json!({"kib_each": each, "switches": switches, "cpu_ns": ran, "lists_ns": lists, "of_one_ns": of_one, "started_s": started,
                        "answered_s": answered, "stopped_s": stopped, "at_once_s": at_once, "peak_mib": peak}),
            ..row(format!("memory of the daemon for each of {AGENTS} idle agents"), format!("{each:.1} KiB"), "16 KiB", each <= 16.0)
        },
        row(
            format!("context switches of the daemon in {} s, {AGENTS} agents idle", IDLE.as_secs()),
            format!("{switches}, {:.1} ms of CPU", ran as f64 / 1e6),
            "0",
            switches == 0,
        ),
        row(
            format!("`permission/list` of {} prompts; of one session's {PROMPTS}", AGENTS * PROMPTS),
            format!("{list_ms:.1} ms; {:.2} ms", median(&of_one) / 1e6),
            "20 ms",
            list_ms <= 20.0,
        ),
        row(
            format!("{AT_ONCE} agents started and stopped at once; {AGENTS} started; {} answers; {AGENTS} stopped", AGENTS * PROMPTS),
            format!("{at_once:.1} s; {started:.1} s; {answered:.1} s; {stopped:.1} s; {peak:.0} MiB at most"),
            "no error",
            true,
        ),
    ]
}

fn start_all(daemon: &Daemon, conn: &mut Conn, sessions: &[String]) {
    let params =
        |session| json!({"command": agent(), "args": ["agent"], "cwd": daemon.folder(), "task_id": "bench", "session_id": session});
    let calls: Vec<u64> = sessions.iter().map(|session| conn.send("execution/start", &params(session))).collect();
    calls.into_iter().for_each(|call| drop(conn.reply(call).ok()));
}

fn stop_all(conn: &mut Conn, sessions: &[String]) {
    let calls: Vec<u64> = sessions.iter().map(|session| conn.send("execution/stop", &json!({"session_id": session}))).collect();
    for call in calls {
        let result = conn.reply(call).ok();
        assert_eq!(result["survivors"], json!([]), "{result}");
    }
}

/// Nanoseconds until a client has all of a list, without reading what it says.
fn list(daemon: &Daemon) -> f64 {
    let stream = UnixStream::connect(daemon.socket()).expect("a daemon");
    let (mut stream, mut line) = (BufReader::with_capacity(1 << 20, stream), Vec::new());
    timed(|| {
        stream.get_mut().write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"permission/list\",\"params\":{}}\n").expect("it reads");
        stream.read_until(b'\n', &mut line).expect("it answers");
    })
}

fn timed(what: impl FnOnce()) -> f64 {
    let begun = now();
    what();
    (now() - begun) as f64
}

fn seconds(begun: u64) -> f64 {
    (now() - begun) as f64 / 1e9
}
