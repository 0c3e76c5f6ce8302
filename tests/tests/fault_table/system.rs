//! What the system refuses, and its clock.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentctl_tests::harness::{Agent, children, until};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use super::world::{World, assert_works};
use super::{Row, Seen};

pub const ROWS: &[Row] = &[
    Row {
        fault: "descriptors exhausted",
        promise: "a start fails and says why; what runs goes on and is answered; no spinning",
        run: descriptors,
    },
    Row { fault: "fork fails", promise: "a start fails and says why; what runs goes on", run: fork },
    Row { fault: "wall clock jumps by a day, both ways", promise: "nothing expires, ends or is lost by it", run: clock },
];

fn descriptors() -> Seen {
    let mut world = World::new();
    let number = world.daemon.pid().as_raw();
    let pid = Pid::from_raw(number);
    let used = fs::read_dir(format!("/proc/{number}/fd")).expect("it is there").count() as u64;
    let limits = fs::read_to_string(format!("/proc/{number}/limits")).expect("it is there");
    let most = limits.lines().find(|line| line.starts_with("Max open files")).and_then(|line| line.split_whitespace().nth(4)?.parse().ok());
    let limit = |current| prlimit(pid, Resource::Nofile, Rlimit { current, maximum: most }).expect("the limit is set");
    limit(Some(used + 2));
    let failed = world.conn.call("execution/start", Agent::params(&world.daemon, "t", "new", &[]));
    let error = failed.error();
    let text = error["message"].as_str().expect("a text").to_owned();
    // One who comes now waits, and costs no CPU meanwhile.
    let waiting: Vec<_> = (0..4).map(|_| world.daemon.connect()).collect();
    let spent = |n: i32| {
        fs::read_to_string(format!("/proc/{n}/schedstat")).expect("it is there").split(' ').next().expect("a number").parse::<u64>()
    };
    let begun = spent(number).expect("a number");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let ran = (spent(number).expect("a number") - begun) as f64 / 1e6;
    assert!(ran < 100.0, "{ran} ms of CPU in 500 ms");
    world.conn.resolve(&world.prompt, "allow-once").ok();
    limit(most);
    world.assert_heard("allow-once");
    for mut conn in waiting {
        conn.call("control/status", json!({})).ok();
    }
    assert_works(&world.daemon, "new");
    world.daemon.stop();
    Seen::Kept(format!(
        "`{}`: {text}; 4 connections waited ({ran:.0} ms of CPU in 500 ms), the prompt was answered; all worked afterwards",
        error["data"]["code"].as_str().unwrap_or_default()
    ))
}

/// A group of processes that can't fork.
struct NoFork(PathBuf);

impl NoFork {
    fn of(pid: i32) -> Option<Self> {
        ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].into_iter().find_map(|root| {
            let group = Path::new(root).join(format!("agentctl-faults-{}", std::process::id()));
            fs::create_dir(&group).ok()?;
            let group = Self(group);
            fs::write(group.0.join("pids.max"), "1").and_then(|()| fs::write(group.0.join("cgroup.procs"), pid.to_string())).ok()?;
            Some(group)
        })
    }

    fn lift(&self) {
        fs::write(self.0.join("pids.max"), "max").expect("it is ours");
    }
}

impl Drop for NoFork {
    fn drop(&mut self) {
        let root = self.0.parent().expect("it has one").join("cgroup.procs");
        for pid in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write(&root, pid);
        }
        let _ = fs::remove_dir(&self.0);
    }
}

fn fork() -> Seen {
    let mut world = World::new();
    // Who forks for it: its only child.
    let guard = children(world.daemon.pid().as_raw())[0];
    let Some(group) = NoFork::of(guard) else { return Seen::NotHere("needs a cgroup of its own with `pids.max`") };
    let error = world.conn.call("execution/start", Agent::params(&world.daemon, "t", "new", &[])).error();
    let text = error["message"].as_str().expect("a text").to_owned();
    world.assert_answered("allow-once");
    group.lift();
    assert_works(&world.daemon, "new");
    world.daemon.stop();
    Seen::Kept(format!(
        "`{}`: {text}; the prompt was answered, and the next start worked",
        error["data"]["code"].as_str().unwrap_or_default()
    ))
}

/// A library that adds to the wall clock what stands in a file.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    const char *path = getenv("WALL_CLOCK_OFFSET");
    FILE *file = id == CLOCK_REALTIME && path ? fopen(path, "r") : NULL;
    if (file) {
        long seconds = 0;
        if (fscanf(file, "%ld", &seconds) == 1) now->tv_sec += seconds;
        fclose(file);
    }
    return result;
}
"#;

fn clock() -> Seen {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, library, offset) = (folder.path().join("clock.c"), folder.path().join("clock.so"), folder.path().join("offset"));
    fs::write(&source, SHIM).and_then(|()| fs::write(&offset, "0")).expect("it is ours");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).arg("-ldl").status();
    if !built.is_ok_and(|status| status.success()) {
        return Seen::NotHere("needs a C compiler");
    }
    let text = |path: &Path| path.display().to_string();
    let mut world = World::with_env(&[("LD_PRELOAD", &text(&library)), ("WALL_CLOCK_OFFSET", &text(&offset))]);
    let day = 24 * 60 * 60;
    let mut seen = Vec::new();
    for seconds in [day, -day] {
        fs::write(&offset, seconds.to_string()).expect("it is ours");
        let agent = Agent::start(&world.daemon, &mut world.conn, &format!("at{seconds}"), &[]);
        let (turn, live) = agent.ask(&mut world.conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
        seen.push(live[0]["created_at"].as_str().expect("a time").to_owned());
        world.conn.resolve(&live[0], "allow-once").ok();
        assert_eq!(world.conn.reply(turn).ok()["stop_reason"], "end_turn");
        assert_eq!(world.agent.permissions(&mut world.conn).len(), 1, "the first prompt is gone");
    }
    let days: Vec<&str> = seen.iter().map(|time| &time[..10]).collect();
    assert!(days[0] > days[1], "the clock did not jump: {seen:?}");
    world.assert_answered("allow-once");
    let ended = until("all records", || {
        let records = world.conn.call("audit/list", json!({})).ok()["records"].as_array().cloned()?;
        (records.len() == 3 && records.iter().all(|r| r["end"] == "resolved")).then_some(records.len())
    });
    world.daemon.stop();
    Seen::Kept(format!("prompts of {} and {} answered, the first one, too; {ended} records, all `resolved`", days[0], days[1]))
}
