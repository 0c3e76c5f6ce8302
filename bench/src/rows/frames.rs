//! CPU per frame, against the line pump.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use agentctl_tests::harness::{Conn, Daemon};
use serde_json::json;

use super::{Row, Setting, agent, start, turn};
use crate::measure::{cpu, median};

const ROUNDS: usize = 7;

pub fn measure(_: &Setting<'_>) -> Vec<Row> {
    vec![
        row("CPU a frame of 235 bytes, one reading subscriber", 200_000, 235, 1.5),
        row("CPU a frame of 1 MiB, the same", 300, 1 << 20, 1.1),
    ]
}

fn row(what: &str, count: usize, size: usize, target: f64) -> Row {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    start(&daemon, &mut conn, "s");
    drain(&daemon);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (us, them) = (through_daemon(&daemon, &mut conn, count, size), through_pump(count, size));
        // The first round warms both up.
        if round > 0 {
            ours.push(us);
            theirs.push(them);
        }
    }
    let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(us, them)| us / them).collect();
    let ratio = median(&ratios);
    daemon.stop();
    Row {
        what: what.into(),
        ours: format!("{:.2} us", median(&ours)),
        against: format!("line pump {:.2} us", median(&theirs)),
        result: format!("{ratio:.2}x"),
        target: format!("{target}x"),
        met: ratio <= target,
        raw: json!({"ours_us": ours, "pump_us": theirs}),
    }
}

/// A subscriber that reads as fast as it can.
fn drain(daemon: &Daemon) {
    use std::io::Write;
    let mut stream = UnixStream::connect(daemon.socket()).expect("a daemon");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "event/subscribe", "params": {"topics": ["update", "permission", "session"]}});
    stream.write_all(format!("{call}\n").as_bytes()).expect("it reads");
    std::thread::spawn(move || swallow(stream));
}

fn swallow(mut from: impl Read) {
    let mut bytes = vec![0; 256 * 1024];
    while let Ok(1..) = from.read(&mut bytes) {}
}

/// Microseconds a frame.
fn through_daemon(daemon: &Daemon, conn: &mut Conn, count: usize, size: usize) -> f64 {
    let before = cpu(daemon.pid().as_raw());
    let call = turn(conn, "s", &format!("frames {count} {size}"));
    conn.reply(call).ok();
    (cpu(daemon.pid().as_raw()) - before) as f64 / 1000.0 / count as f64
}

/// Microseconds a frame.
fn through_pump(count: usize, size: usize) -> f64 {
    let mut pump = Command::new(agent())
        .args(["pump", &count.to_string(), &size.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    swallow(pump.stdout.take().expect("a pipe"));
    let output = pump.wait_with_output().expect("its end");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let nanoseconds: f64 = text.trim().strip_prefix("cpu_ns=").and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{text}"));
    nanoseconds / 1000.0 / count as f64
}
