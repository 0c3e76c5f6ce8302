//! What a proxy between editor and agent adds to a frame, in both directions: nothing between, a bare line pump, `agentctl
//! proxy`, and the official conductor without components, in one run and in turns.
//!
//! `cargo build --release -p agentctl && cargo run --release -p agentctl-bench --example proxy_latency -- [CONDUCTOR]`
//!
//! A turn is a `session/prompt` with the time at which it was written; the agent writes how long it took and the time now in
//! a `session/update`. All clocks are the machine's monotonic one. Prints medians in microseconds.

#![allow(clippy::print_stdout, reason = "it prints what it finds")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

const ROUNDS: usize = 40;
const TURNS: usize = 50;

fn now() -> u64 {
    Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock")).as_nanos() as u64
}

fn write(to: &mut impl Write, message: &Value) {
    to.write_all(format!("{message}\n").as_bytes()).expect("it is read");
    to.flush().expect("it is read");
}

/// Every line of a stream as JSON.
fn messages(from: impl Read) -> impl Iterator<Item = Value> {
    BufReader::with_capacity(1 << 16, from).lines().map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok())
}

fn agent() {
    let mut out = std::io::stdout().lock();
    for message in messages(std::io::stdin().lock()) {
        let (id, came) = (&message["id"], now());
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}),
            Some("session/new") => json!({"sessionId": "s"}),
            Some("session/prompt") => {
                let sent: u64 = message["params"]["prompt"][0]["text"].as_str().and_then(|t| t.parse().ok()).expect("a time");
                let update = |text: String| json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}}});
                write(&mut out, &update(format!("{} {}", came - sent, now())));
                json!({"stopReason": "end_turn"})
            }
            _ => continue,
        };
        write(&mut out, &json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }
}

/// The yardstick: lines one way and the other, each looked at as the daemon does.
fn pump(command: &[String]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut child = tokio::process::Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let own = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().expect("a copy");
        let stdin = tokio::net::unix::pipe::Receiver::from_owned_fd(own(std::os::fd::AsFd::as_fd(&std::io::stdin()))).expect("a pipe");
        let stdout = tokio::net::unix::pipe::Sender::from_owned_fd(own(std::os::fd::AsFd::as_fd(&std::io::stdout()))).expect("a pipe");
        let (to, from) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        tokio::select! {
            () = pass(stdin, to) => {}
            () = pass(from, stdout) => {}
        }
    });
}

async fn pass(mut from: impl tokio::io::AsyncRead + Unpin, mut to: impl tokio::io::AsyncWrite + Unpin) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut buffer = Vec::with_capacity(1 << 16);
    while from.read_buf(&mut buffer).await.is_ok_and(|n| n > 0) {
        let Some(end) = memchr::memrchr(b'\n', &buffer) else { continue };
        for line in buffer[..end].split(|byte| *byte == b'\n') {
            assert!(acp_bridge::envelope::peek(line).is_ok());
        }
        to.write_all(&buffer[..=end]).await.expect("it is read");
        buffer.drain(..=end);
    }
}

/// One way from editor to agent.
struct Way {
    name: &'static str,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    there: Vec<u64>,
    back: Vec<u64>,
}

impl Way {
    fn open(name: &'static str, mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        let (to, from) = (child.stdin.take().expect("a pipe"), BufReader::new(child.stdout.take().expect("a pipe")));
        let mut way = Self { name, child, to, from, there: Vec::new(), back: Vec::new() };
        way.call("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}));
        way.call("session/new", &json!({"cwd": "/", "mcpServers": []}));
        way
    }

    fn call(&mut self, method: &str, params: &Value) -> Option<(u64, u64)> {
        write(&mut self.to, &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        let mut times = None;
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).expect("it can be read") > 0, "{} ended", self.name);
            let came = now();
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if message["method"] == "session/update" {
                let text = message["params"]["update"]["content"]["text"].as_str().expect("a text");
                let (there, sent) = text.split_once(' ').expect("two numbers");
                times = Some((there.parse().expect("a number"), came - sent.parse::<u64>().expect("a number")));
            } else if message["id"] == 1 {
                return times;
            }
        }
    }

    fn turn(&mut self) {
        let prompt = json!({"sessionId": "s", "prompt": [{"type": "text", "text": now().to_string()}]});
        let (there, back) = self.call("session/prompt", &prompt).expect("an update");
        self.there.push(there);
        self.back.push(back);
    }
}

fn median(values: &[u64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2] as f64 / 1000.0
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("agent") => return agent(),
        Some("pump") => return pump(&args[2..]),
        _ => {}
    }
    let own = std::env::current_exe().expect("our binary");
    let own = own.to_str().expect("text");
    let agentctl = Path::new(own).ancestors().nth(2).expect("the target folder").join("agentctl");
    let folder = tempfile::tempdir().expect("a folder");
    let command = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).env("AGENTCTL_SOCKET", folder.path().join("run/s")).env("AGENTCTL_STATE_DIR", folder.path().join("state"));
        command
    };
    let agentctl = agentctl.to_str().expect("text");
    let mut ways = vec![
        Way::open("none", command(own, &["agent"])),
        Way::open("pump", command(own, &["pump", own, "agent"])),
        Way::open("agentctl proxy", command(agentctl, &["proxy", "--", own, "agent"])),
    ];
    if let Some(conductor) = args.get(1) {
        ways.push(Way::open("conductor", command(conductor, &["agent", &format!("{own} agent")])));
    }
    for round in 0..=ROUNDS {
        for way in &mut ways {
            (0..TURNS).for_each(|_| way.turn());
            if round == 0 {
                // The first is to warm up.
                (way.there, way.back) = (Vec::new(), Vec::new());
            }
        }
    }
    let base = (median(&ways[0].there), median(&ways[0].back));
    println!("{:16} {:>14} {:>14} {:>12} {:>12}", "way", "to agent us", "to editor us", "added", "added");
    for way in &mut ways {
        let (there, back) = (median(&way.there), median(&way.back));
        println!("{:16} {there:14.1} {back:14.1} {:12.1} {:12.1}", way.name, there - base.0, back - base.1);
        let _ = way.child.kill();
        let _ = way.child.wait();
    }
    let _ = command(agentctl, &["shutdown"]).output();
}
