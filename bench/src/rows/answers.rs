//! Durable answers a second, of many callers at once.

use std::sync::Barrier;

use agentctl_tests::harness::{Daemon, agentctl, resolve_params};
use serde_json::json;

use super::{Row, Setting, start, turn};
use crate::measure::now;

const CALLERS: usize = 64;
const PROMPTS: usize = 200;
const SLOWED_MS: f64 = 4.0;

pub fn measure(setting: &Setting<'_>) -> Vec<Row> {
    let mut rows = vec![];
    let fast = answers_a_second(&[]);
    rows.push(Row {
        what: format!("durable answers a second, {CALLERS} callers"),
        ours: format!("{fast:.0}"),
        against: "the disk as it is".into(),
        result: format!("{fast:.0}"),
        target: "10,000".into(),
        met: fast >= 10_000.0,
        raw: json!({"answers_a_second": fast}),
    });
    if let Some(library) = setting.slow_disk {
        let slow = answers_a_second(&[("LD_PRELOAD", library.to_str().expect("UTF-8"))]);
        let one_each = 1000.0 / SLOWED_MS;
        let ratio = slow / one_each;
        rows.push(Row {
            what: format!("the same on a disk slowed by {SLOWED_MS} ms"),
            ours: format!("{slow:.0}"),
            against: format!("one fdatasync each: {one_each:.0} at most"),
            result: format!("{ratio:.0}x"),
            target: "20x".into(),
            met: ratio >= 20.0,
            raw: json!({"answers_a_second": slow}),
        });
    }
    rows
}

fn answers_a_second(env: &[(&str, &str)]) -> f64 {
    let daemon = Daemon::start_with(&agentctl(), &[], env);
    let ready = Barrier::new(CALLERS + 1);
    let done = Barrier::new(CALLERS + 1);
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (daemon, ready, done) = (&daemon, &ready, &done);
            scope.spawn(move || {
                let session = format!("s{caller}");
                let mut conn = daemon.connect();
                start(daemon, &mut conn, &session);
                let turn = turn(&mut conn, &session, &format!("ask-all {PROMPTS}"));
                let live = conn.await_permissions("bench", &session, PROMPTS);
                ready.wait();
                for permission in &live {
                    conn.call("permission/resolve", resolve_params(permission, "allow")).ok();
                }
                done.wait();
                conn.reply(turn).ok();
            });
        }
        ready.wait();
        let begun = now();
        done.wait();
        let seconds = (now() - begun) as f64 / 1e9;
        (CALLERS * PROMPTS) as f64 / seconds
    })
}
