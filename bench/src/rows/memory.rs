//! Memory with a client that has stopped reading.

use std::io::Write;
use std::os::unix::net::UnixStream;

use agentctl_tests::harness::Daemon;
use serde_json::json;

use super::{Row, Setting, start, turn};
use crate::measure::memory;

/// Sizes of the frames, and how many of each: 200 MB.
const FRAMES: [(usize, usize); 3] = [(1 << 20, 150), (64 << 10, 640), (1 << 10, 1000)];

pub fn measure(_: &Setting<'_>) -> Vec<Row> {
    let daemon = Daemon::start();
    let mut silent = UnixStream::connect(daemon.socket()).expect("a daemon");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "event/subscribe", "params": {"topics": ["update"]}});
    silent.write_all(format!("{call}\n").as_bytes()).expect("it reads");
    let mut conn = daemon.connect();
    start(&daemon, &mut conn, "s");
    for (size, count) in FRAMES {
        let call = turn(&mut conn, "s", &format!("frames {count} {size}"));
        conn.reply(call).ok();
    }
    let peak = memory(daemon.pid().as_raw(), "VmHWM") as f64 / 1024.0;
    conn.subscribe(json!({"topics": ["update"]}));
    let call = turn(&mut conn, "s", "longest");
    conn.reply(call).ok();
    let told = conn.event("the longest write", |event| event["topic"] == "update");
    let text = told["frame"]["params"]["update"]["content"]["text"].as_str().unwrap_or_default();
    let longest: f64 = text.trim_start_matches("longest=").parse::<f64>().expect("a time") / 1e6;
    daemon.stop();
    vec![Row {
        what: "resident with a client that stopped reading, 200 MB of updates".into(),
        ours: format!("{peak:.1} MiB; longest write of the agent {longest:.1} ms"),
        against: String::new(),
        result: format!("{peak:.1} MiB, {longest:.1} ms"),
        target: "16 MiB, 20 ms".into(),
        met: peak <= 16.0 && longest <= 20.0,
        raw: json!({"peak_mib": peak, "longest_write_ms": longest}),
    }]
}
