//! The way of a prompt to a subscriber, and of an answer to the agent.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};

use agentctl_tests::harness::Daemon;
use serde_json::{Value, json};

use super::{Row, Setting, agent, start, turn};
use crate::measure::{median, now, quantile};

const PROMPTS: usize = 1000;

pub fn measure(_: &Setting<'_>) -> Vec<Row> {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    start(&daemon, &mut conn, "s");
    let (asked, answered, synced) = ask(&daemon, &mut conn);
    let relayed = relay();
    daemon.stop();
    let ratio = median(&asked) / median(&relayed);
    let (extra, extra99) = (median(&answered) - median(&synced), quantile(&answered, 0.99) - quantile(&synced, 0.99));
    vec![
        Row {
            what: "agent writes its prompt -> a subscriber has it".into(),
            ours: format!("{:.0} us", median(&asked)),
            against: format!("bare relay {:.0} us", median(&relayed)),
            result: format!("{ratio:.2}x"),
            target: "1.5x".into(),
            met: ratio <= 1.5,
            raw: json!({"ours_us": asked, "relay_us": relayed}),
        },
        Row {
            what: "`permission/resolve` -> the agent has read it".into(),
            ours: format!("{:.2} ms, p99 {:.2} ms", median(&answered) / 1e3, quantile(&answered, 0.99) / 1e3),
            against: format!("fdatasync {:.2} ms, p99 {:.2} ms", median(&synced) / 1e3, quantile(&synced, 0.99) / 1e3),
            result: format!("+{:.2} ms, p99 +{:.2} ms", extra / 1e3, extra99 / 1e3),
            target: "+0.3 ms, p99 +1 ms".into(),
            met: extra <= 300.0 && extra99 <= 1000.0,
            raw: json!({"ours_us": answered, "fdatasync_us": synced}),
        },
    ]
}

/// Microseconds from the agent's write to the subscriber, from the answer to the agent's read, and of one fdatasync each time.
fn ask(daemon: &Daemon, conn: &mut agentctl_tests::harness::Conn) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let mut stream = UnixStream::connect(daemon.socket()).expect("a daemon");
    let mut lines = BufReader::new(stream.try_clone().expect("a descriptor")).lines().map(|line| {
        let line = line.expect("the daemon writes");
        (now(), serde_json::from_str::<Value>(&line).expect("JSON"))
    });
    let mut call = |id: usize, method: &str, params: Value| {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        stream.write_all(format!("{call}\n").as_bytes()).expect("the daemon reads");
    };
    call(0, "event/subscribe", json!({"topics": ["update", "permission"]}));
    lines.next();
    let file = std::fs::File::create(daemon.folder().join("synced")).expect("a file");
    let turn = turn(conn, "s", &format!("ask {PROMPTS}"));
    let (mut asked, mut answered, mut synced) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=PROMPTS {
        let (came, event) = lines.by_ref().find(|(_, m)| m["params"]["type"] == "requested").expect("a prompt");
        let permission = &event["params"]["permission"];
        asked.push(since(stamp(permission["title"].as_str(), "at="), came));
        synced.push(sync(&file));
        let mut params = json!({"option_id": "allow"});
        for key in ["task_id", "session_id", "request_id", "pending_id"] {
            params[key] = permission[key].clone();
        }
        let sent = now();
        call(number, "permission/resolve", params);
        let (_, event) = lines.by_ref().find(|(_, m)| m["params"]["topic"] == "update").expect("the agent's word");
        let text = event["params"]["frame"]["params"]["update"]["content"]["text"].as_str();
        answered.push(since(sent, stamp(text, "read=")));
    }
    conn.reply(turn).ok();
    (asked, answered, synced)
}

/// Writes a page to a file of the same disk and syncs it; microseconds.
fn sync(mut file: &std::fs::File) -> f64 {
    file.write_all(&[1; 4096]).expect("room");
    let begun = now();
    file.sync_data().expect("a disk");
    since(begun, now())
}

/// Microseconds from the agent's write to the reader, through the relay.
fn relay() -> Vec<f64> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).expect("a socket");
    let mut relay = Command::new(agent()).arg("relay").arg(&path).arg(PROMPTS.to_string()).stdin(Stdio::null()).spawn().expect("it starts");
    let (stream, _) = listener.accept().expect("the relay");
    let mut times = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line.expect("the relay writes");
        let came = now();
        let message: Value = serde_json::from_str(&line).expect("JSON");
        times.push(since(stamp(message["params"]["toolCall"]["title"].as_str(), "at="), came));
    }
    relay.wait().expect("its end");
    times
}

fn stamp(text: Option<&str>, name: &str) -> u64 {
    text.and_then(|text| text.strip_prefix(name)?.parse().ok()).expect("a time")
}

fn since(earlier: u64, later: u64) -> f64 {
    later.saturating_sub(earlier) as f64 / 1000.0
}
