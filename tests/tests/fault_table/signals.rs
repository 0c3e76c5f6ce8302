//! SIGSTOP and SIGCONT of agent and daemon; SIGKILL of everything in turn.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use agentctl_tests::harness::{Agent, Daemon, Proxied, agentctl, ask, is_gone, parent, resolve_params, until};
use nix::sys::signal::Signal;
use serde_json::json;

use super::world::{World, assert_works, pid_of, signal};
use super::{Row, Seen};

pub const ROWS: &[Row] = &[
    Row { fault: "SIGSTOP of the agent, an answer, SIGCONT", promise: "the answer is there when it goes on, once", run: stopped_agent },
    Row { fault: "SIGSTOP of the agent, then `execution/stop`", promise: "it is ended in bounded time", run: stop_of_a_stopped_agent },
    Row {
        fault: "SIGSTOP of the daemon for 3 s, a prompt and an answer meanwhile, SIGCONT",
        promise: "both are carried out, nothing runs out",
        run: stopped_daemon,
    },
    Row { fault: "SIGKILL of the agent", promise: "its prompts expire, its turn ends with an error, nothing of it is left", run: agent },
    Row { fault: "SIGKILL of a grandchild that holds the agent's output", promise: "the agent does not notice", run: grandchild },
    Row { fault: "SIGKILL of a keeper", promise: "its agent ends, no other", run: keeper },
    Row { fault: "SIGKILL of the guard", promise: "every agent ends; the daemon goes on with another guard", run: guard },
    Row {
        fault: "SIGKILL of the daemon",
        promise: "every agent ends; the next daemon starts clean and records what was open as expired",
        run: daemon,
    },
    Row { fault: "SIGKILL of a client in its call", promise: "what it asked for is carried out and recorded", run: client },
    Row { fault: "SIGKILL of an editor's proxy", promise: "its agent ends, and its prompt unanswered", run: proxy },
];

fn stopped_agent() -> Seen {
    let mut world = World::new();
    let pid = pid_of(&world.agent.started["pid"]);
    signal(pid, Signal::SIGSTOP);
    world.conn.resolve(&world.prompt, "allow-once").ok();
    assert!(world.agent.log.responses(&json!(5)).is_empty(), "it runs");
    signal(pid, Signal::SIGCONT);
    world.assert_heard("allow-once");
    world.daemon.stop();
    Seen::Kept("accepted while it stood still; heard once when it went on".into())
}

fn stop_of_a_stopped_agent() -> Seen {
    let mut world = World::new();
    let pid = pid_of(&world.agent.started["pid"]);
    signal(pid, Signal::SIGSTOP);
    let begun = Instant::now();
    let stopped = world.conn.call("execution/stop", json!({"session_id": "s"})).ok();
    let took = begun.elapsed().as_secs_f64();
    assert_eq!((&stopped["tree_empty"], &stopped["by"]), (&json!(true), &json!("sigkill")), "{stopped}");
    assert!(is_gone(i64::from(pid)));
    world.daemon.stop();
    Seen::Kept(format!("by SIGKILL after {took:.1} s; its tree is empty"))
}

fn stopped_daemon() -> Seen {
    let mut world = World::new();
    let mut second = world.daemon.connect();
    second.call("control/status", json!({})).ok();
    let daemon = world.daemon.pid().as_raw();
    let next = json!([{"ask": {"id": 6}}, {"await": 6}]);
    signal(daemon, Signal::SIGSTOP);
    let answer = world.conn.send("permission/resolve", &resolve_params(&world.prompt, "allow-once"));
    let other = Agent::params(&world.daemon, "t", "other", &[]);
    let start = second.send("execution/start", &other);
    std::thread::sleep(Duration::from_secs(3));
    signal(daemon, Signal::SIGCONT);
    assert_eq!(world.conn.reply(answer).ok()["status"], "resolved");
    world.assert_heard("allow-once");
    second.reply(start).ok();
    let (turn, live) = world.agent.ask(&mut world.conn, &next, 1);
    world.conn.resolve(&live[0], "reject-once").ok();
    world.conn.reply(turn).ok();
    world.daemon.stop();
    Seen::Kept("the answer was heard once, a start that waited was carried out, the next prompt was answered".into())
}

fn agent() -> Seen {
    let mut world = World::new();
    signal(pid_of(&world.agent.started["pid"]), Signal::SIGKILL);
    let error = world.conn.reply(world.turn).error();
    let info = world.agent.await_state(&mut world.conn, "exited");
    assert_eq!(info["exit"], json!({"signal": 9}), "{info}");
    World::assert_expired(&mut world.conn, &world.prompt);
    let late = world.conn.resolve(&world.prompt, "allow-once");
    assert!(late.code().is_some(), "{late:?}");
    assert_works(&world.daemon, "s");
    world.daemon.stop();
    Seen::Kept(format!(
        "`exited` by signal 9; expired; the turn `{}`; a late answer `{}`",
        error["data"]["code"].as_str().unwrap_or_default(),
        late.code().unwrap_or_default()
    ))
}

fn grandchild() -> Seen {
    let script = json!([{"spawn": {"setsid": true, "double_fork": true}}, {"ask": {"id": 5}}, {"await": 5}]);
    let mut world = World::of(Daemon::start(), &[], &script);
    let grandchild = pid_of(&world.agent.log.await_entry("spawned"));
    signal(grandchild, Signal::SIGKILL);
    until("its end, reaped", || (!std::path::Path::new(&format!("/proc/{grandchild}")).exists()).then_some(()));
    world.assert_answered("allow-once");
    world.daemon.stop();
    Seen::Kept("reaped; the agent's prompt was answered".into())
}

fn keeper() -> Seen {
    let mut world = World::new();
    let other = Agent::start(&world.daemon, &mut world.conn, "other", &[]);
    signal(parent(pid_of(&world.agent.started["pid"])), Signal::SIGKILL);
    let info = world.agent.await_state(&mut world.conn, "exited");
    World::assert_expired(&mut world.conn, &world.prompt);
    let (turn, live) = other.ask(&mut world.conn, &json!([{"ask": {"id": 5}}, {"await": 5}]), 1);
    world.conn.resolve(&live[0], "allow-once").ok();
    world.conn.reply(turn).ok();
    world.daemon.stop();
    Seen::Kept(format!("`exited`: {}; expired; the other agent was answered", info["reason"].as_str().unwrap_or_default()))
}

fn guard() -> Seen {
    let mut world = World::new();
    let pid = pid_of(&world.agent.started["pid"]);
    let begun = Instant::now();
    signal(world.daemon.guard().as_raw(), Signal::SIGKILL);
    until("its end", || is_gone(i64::from(pid)).then_some(()));
    let took = begun.elapsed().as_millis();
    let info = world.agent.await_state(&mut world.conn, "exited");
    World::assert_expired(&mut world.conn, &world.prompt);
    assert_works(&world.daemon, "new");
    world.daemon.stop();
    Seen::Kept(format!(
        "agent gone after {took} ms, `exited`: {}; expired; the next start worked",
        info["reason"].as_str().unwrap_or_default()
    ))
}

fn daemon() -> Seen {
    let World { daemon, agent, prompt, .. } = World::new();
    let pids = [pid_of(&agent.started["pid"]), daemon.guard().as_raw(), parent(pid_of(&agent.started["pid"]))];
    let begun = Instant::now();
    let (_, folder) = daemon.end(Signal::SIGKILL);
    until("their end", || pids.iter().all(|pid| is_gone(i64::from(*pid))).then_some(()));
    let took = begun.elapsed().as_millis();
    let daemon = Daemon::start_in(folder, &agentctl(), &[], &[]);
    World::assert_expired(&mut daemon.connect(), &prompt);
    assert_works(&daemon, "new");
    daemon.stop();
    Seen::Kept(format!("agent, keeper and guard gone after {took} ms; the next daemon recorded `expired` and worked"))
}

fn client() -> Seen {
    let mut world = World::new();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "permission/resolve", "params": resolve_params(&world.prompt, "allow-once")});
    let file = world.daemon.folder().join("call");
    std::fs::write(&file, format!("{call}\n")).expect("it is ours");
    // It writes the call and stays; while the daemon stands still nothing can answer it.
    let daemon = world.daemon.pid().as_raw();
    let socket = OwnedFd::from(UnixStream::connect(world.daemon.socket()).expect("a daemon"));
    signal(daemon, Signal::SIGSTOP);
    let mut client = Command::new("tail").arg("-f").arg(file).stdout(socket).spawn().expect("tail is there");
    std::thread::sleep(Duration::from_millis(300));
    client.kill().and_then(|()| client.wait()).expect("it is ours");
    signal(daemon, Signal::SIGCONT);
    world.assert_heard("allow-once");
    world.daemon.stop();
    Seen::Kept("heard once, recorded `accepted`".into())
}

fn proxy() -> Seen {
    let daemon = Daemon::start();
    let mut conn = daemon.connect();
    let mut proxied = Proxied::start(&daemon, "s", &[]);
    proxied.begin();
    proxied.to_editor(&ask("5"));
    let prompt = conn.await_permissions("t", "s", 1).remove(0);
    let info = conn.call("execution/get", json!({"session_id": "s"})).ok();
    signal(i32::try_from(proxied.proxy.id()).expect("a pid"), Signal::SIGKILL);
    until("the agent's end", || is_gone(info["pid"].as_i64().expect("a pid")).then_some(()));
    let record = conn.audit_of(&prompt["request_id"]);
    assert_eq!(record["resolutions"], json!([]), "{record}");
    daemon.stop();
    Seen::Kept(format!("agent gone; its prompt `{}`", record["end"].as_str().unwrap_or_default()))
}
