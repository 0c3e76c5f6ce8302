//! The command line, against acpx.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use agentctl_tests::harness::{Daemon, agentctl};
use serde_json::json;

use super::{Row, Setting, agent};
use crate::measure::{median, now};

const ROUNDS: usize = 60;
const SLOW_ROUNDS: usize = 10;

pub fn measure(setting: &Setting<'_>) -> Vec<Row> {
    let daemon = Daemon::start();
    let socket = daemon.socket();
    let own = agentctl();
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (own, socket, bench) = (text(&own), text(&socket), text(&agent()));
    let acpx = setting.acpx.map(text);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let their_version = acpx.as_ref().map(|acpx| times(&words(&[acpx, "--version"]), SLOW_ROUNDS));
    let mut rows = Vec::new();
    for arguments in [&["--version"][..], &["ps", "--socket", &socket]] {
        let (ours, memory) = times(&[&words(&[&own])[..], &words(arguments)].concat(), ROUNDS);
        let mut met = median(&ours) <= 3.0 && memory <= 6.0;
        let (mut against, mut result) = ("acpx: not measured".to_owned(), String::new());
        if let Some((theirs, their_memory)) = &their_version {
            let ratio = median(theirs) / median(&ours);
            against = format!("`acpx --version` {:.0} ms, {their_memory:.0} MiB", median(theirs));
            result = format!("{ratio:.0}x faster");
            met &= ratio >= 50.0;
        }
        rows.push(Row {
            what: format!("`agentctl {}`", arguments[0]),
            ours: format!("{:.2} ms, {memory:.1} MiB", median(&ours)),
            against,
            result,
            target: "3 ms, 6 MiB, 50x faster".into(),
            met,
            raw: json!({"ours_ms": ours, "acpx_ms": their_version.as_ref().map(|(theirs, _)| theirs)}),
        });
    }
    rows.push(run_row(&daemon, &own, &socket, &bench, acpx.as_deref()));
    daemon.stop();
    rows
}

fn run_row(daemon: &Daemon, own: &str, socket: &str, bench: &str, acpx: Option<&str>) -> Row {
    let command = [own, "run", "--socket", socket, "--task", "t", "-p", "hello", "--", bench, "agent"].map(str::to_owned);
    let (ours, _) = times(&command, ROUNDS);
    let alone: Vec<f64> = (0..ROUNDS).map(|_| by_itself(bench)).collect();
    let extra = median(&ours) - median(&alone);
    let mut met = extra <= 10.0;
    let (mut against, mut result) = ("acpx: not measured".to_owned(), format!("+{extra:.1} ms"));
    let mut theirs = Vec::new();
    if let Some(acpx) = acpx {
        let home = daemon.folder().join("acpx-home");
        std::fs::create_dir_all(&home).expect("a folder");
        let agent = format!("{bench} agent");
        let command =
            ["env", &format!("HOME={}", home.display()), acpx, "--cwd", home.to_str().expect("UTF-8"), "--agent", &agent, "exec", "hello"];
        theirs = times(&command.map(str::to_owned), SLOW_ROUNDS).0;
        let their_extra = median(&theirs) - median(&alone);
        against = format!("`acpx exec` +{their_extra:.0} ms");
        result += &format!(", {:.0}x less", their_extra / extra);
        met &= their_extra >= 10.0 * extra;
    }
    Row {
        what: "`agentctl run -p` beyond the agent's own time".into(),
        ours: format!("{:.1} ms, of which the agent {:.1} ms", median(&ours), median(&alone)),
        against,
        result,
        target: "+10 ms, 10x less".into(),
        met,
        raw: json!({"ours_ms": ours, "agent_ms": alone, "acpx_ms": theirs}),
    }
}

/// Milliseconds of each run, and the most memory in MiB. A small process starts the command: what it has resident counts for
/// its child.
fn times(command: &[String], rounds: usize) -> (Vec<f64>, f64) {
    let once = || {
        let output = Command::new(agent()).arg("once").arg("--").args(command).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{command:?}: {output:?}");
        let mut numbers = text.split_whitespace().map(|n| n.parse::<f64>().expect("a number"));
        (numbers.next().expect("a time") / 1e6, numbers.next().expect("memory") / 1024.0)
    };
    once();
    let all: Vec<(f64, f64)> = (0..rounds).map(|_| once()).collect();
    (all.iter().map(|(time, _)| *time).collect(), all.iter().map(|(_, memory)| *memory).fold(0.0, f64::max))
}

/// Milliseconds of the same turn without anything between the agent and who drives it.
fn by_itself(bench: &str) -> f64 {
    let begun = now();
    let mut agent = Command::new(bench).arg("agent").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let (mut to, from) = (agent.stdin.take().expect("a pipe"), agent.stdout.take().expect("a pipe"));
    let mut lines = BufReader::new(from).lines();
    let prompt = json!({"sessionId": "bench", "prompt": [{"type": "text", "text": "hello"}]});
    for (method, params) in [("initialize", json!({})), ("session/new", json!({})), ("session/prompt", prompt)] {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        to.write_all(format!("{call}\n").as_bytes()).expect("it reads");
        while !lines.next().expect("an answer").expect("text").contains("\"result\"") {}
    }
    drop(to);
    agent.wait().expect("its end");
    (now() - begun) as f64 / 1e6
}
