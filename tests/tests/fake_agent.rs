//! The fake agent itself: it does what its script says, and forgives nothing.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl Agent {
    fn spawn(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_fake-agent"));
        command.arg("--log").arg(&log).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout, log, _folder: folder }
    }

    fn ready(args: &[&str]) -> Self {
        let mut agent = Self::spawn(args);
        agent.send(json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}}));
        assert_eq!(agent.recv()["result"]["protocolVersion"], 1);
        agent.send(json!({"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}));
        assert_eq!(agent.recv()["result"]["sessionId"], "fake-session-1");
        agent
    }

    fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn prompt(&mut self, id: u64, steps: Value) {
        let prompt = json!([{"type": "text", "text": steps.to_string()}]);
        self.send(json!({"id": id, "method": "session/prompt", "params": {"sessionId": "fake-session-1", "prompt": prompt}}));
    }

    fn answer(&mut self, id: Value, option: &str) {
        self.send(json!({"id": id, "result": {"outcome": {"outcome": "selected", "optionId": option}}}));
    }

    fn cancel(&mut self) {
        self.send(json!({"method": "session/cancel", "params": {"sessionId": "fake-session-1"}}));
    }

    fn recv(&mut self) -> Value {
        serde_json::from_slice(&self.recv_bytes()).unwrap()
    }

    fn recv_bytes(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.stdout.read_until(b'\n', &mut line).unwrap();
        assert_eq!(line.pop(), Some(b'\n'));
        line
    }

    fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Polls the log for a line with this member.
    fn logged(&self, name: &str) -> Value {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            match self.log().into_iter().find(|line| line.get(name).is_some()) {
                Some(line) => return line,
                None => assert!(Instant::now() < end, "no {name} in the log: {:?}", self.log()),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The exit status, which the agent comes to by itself.
    fn exit(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn prompts_are_answered_in_any_order_and_reported() {
    let mut agent = Agent::ready(&[]);
    agent.prompt(
        2,
        json!([{"ask": {"id": 5}}, {"ask": {"id": "5"}}, {"await": 5}, {"await_all": true}, {"echo": true}, {"stop_reason": "refusal"}]),
    );
    assert_eq!((agent.recv()["id"].clone(), agent.recv()["id"].clone()), (json!(5), json!("5")));
    agent.answer(json!("5"), "reject-once");
    agent.answer(json!(5), "allow-once");
    let text = agent.recv()["params"]["update"]["content"]["text"].clone();
    let echo: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
    assert_eq!(echo["answers"][0]["id"], "5");
    assert_eq!(echo["answers"][1]["result"]["outcome"]["optionId"], "allow-once");
    assert_eq!(agent.recv()["result"]["stopReason"], "refusal");
    agent.stdin.take();
    assert_eq!(agent.exit(), Some(0));
    let received = agent.log().iter().filter(|line| line.get("recv").is_some()).count();
    assert_eq!(received, 5);
}

#[test]
fn every_violation_ends_it_with_status_70_unless_it_is_lenient() {
    let violations = [
        (json!({"id": "5", "result": {}}), "wrong JSON type"),
        (json!({"id": 6, "result": {}}), "names nothing pending"),
        (json!({"id": 5, "result": {"outcome": {"outcome": "selected", "optionId": "nope"}}}), "was not offered"),
        (json!({"id": 5, "error": {"code": -32800, "message": ""}}), "not withdrawn"),
        (json!({"id": 5}), "needs a result or an error"),
    ];
    for (message, expected) in violations {
        for lenient in [false, true] {
            let mut agent = Agent::ready(if lenient { &["--lenient"] } else { &[] });
            agent.prompt(2, json!([{"ask": {"id": 5}}, {"hang": true}]));
            agent.recv();
            agent.send(message.clone());
            assert!(agent.logged("violation")["violation"].as_str().unwrap().contains(expected), "{message}");
            if !lenient {
                assert_eq!(agent.exit(), Some(70));
            }
        }
    }
}

#[test]
fn a_second_answer_and_session_new_before_initialize_are_violations() {
    let mut agent = Agent::ready(&[]);
    agent.prompt(2, json!([{"ask": {"id": 5}}, {"hang": true}]));
    agent.recv();
    agent.answer(json!(5), "allow-once");
    agent.answer(json!(5), "allow-once");
    assert_eq!(agent.exit(), Some(70));
    assert_eq!(agent.logged("violation")["violation"], "a second answer to 5");

    let mut agent = Agent::spawn(&[]);
    agent.send(json!({"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}));
    assert_eq!(agent.recv()["error"]["code"], -32602);
    assert_eq!(agent.exit(), Some(70));
}

#[test]
fn a_cancel_ends_the_script_as_the_switches_say() {
    let mut agent = Agent::ready(&[]);
    agent.prompt(2, json!([{"hang": true}]));
    agent.prompt(3, json!([]));
    assert_eq!(agent.recv()["error"]["code"], -32600, "one turn at a time");
    agent.cancel();
    assert_eq!(agent.recv(), json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "cancelled"}}));

    let mut agent = Agent::ready(&["--prompt-after-cancel"]);
    agent.prompt(2, json!([{"hang": true}]));
    agent.cancel();
    assert_eq!(agent.recv()["id"], "after-cancel");
    agent.send(json!({"id": "after-cancel", "result": {"outcome": {"outcome": "cancelled"}}}));
    assert_eq!(agent.recv()["result"]["stopReason"], "cancelled");

    let mut agent = Agent::ready(&["--cancel-ignored"]);
    agent.prompt(2, json!([{"hang": true}]));
    agent.cancel();
    agent.prompt(3, json!([]));
    assert_eq!(agent.recv()["id"], 3, "only the second prompt is answered (refused)");
}

#[test]
fn raw_bytes_and_exact_lengths_come_out_as_asked() {
    let mut agent = Agent::ready(&[]);
    agent.prompt(
        2,
        json!([{"raw_hex": "efbbbfff"}, {"raw": "{{session}}"}, {"frame": {"len": 300, "chunk": 1}}, {"bytes": {"len": 20000, "chunk": 7000}}, {"raw": ""},
          {"ask": {"id": 1, "pad_to": 4000}}, {"withdraw": 1}, {"stderr": {"bytes": 65537}}]),
    );
    assert_eq!(agent.recv_bytes(), [0xef, 0xbb, 0xbf, 0xff]);
    assert_eq!(agent.recv_bytes(), b"fake-session-1");
    assert_eq!(agent.recv_bytes().len(), 300);
    assert_eq!(agent.recv_bytes(), [b'x'; 20000]);
    assert_eq!(agent.recv_bytes().len(), 4000);
    assert_eq!(agent.recv()["params"]["requestId"], 1);
    let mut stderr = vec![0; 65537];
    agent.child.stderr.as_mut().unwrap().read_exact(&mut stderr).unwrap();
    assert_eq!(agent.recv()["result"]["stopReason"], "end_turn");
    agent.prompt(3, json!([{"exit": 9}]));
    assert_eq!(agent.exit(), Some(9));
}

#[test]
fn a_paused_or_closed_stdin_is_neither_read_nor_the_end() {
    let mut agent = Agent::ready(&[]);
    agent.prompt(2, json!([{"ask": {"id": 5}}, {"stop_reading": true}, {"text": "paused"}, {"sleep_ms": 100}, {"echo": true}, {"resume_reading": true}, {"await": 5}]));
    agent.recv();
    agent.recv();
    agent.answer(json!(5), "allow-once");
    assert_eq!(agent.recv()["params"]["update"]["content"]["text"], r#"{"answers":[]}"#);
    assert_eq!(agent.recv()["result"]["stopReason"], "end_turn");

    agent.prompt(3, json!([{"close_stdin": true}, {"close_stdout": true}]));
    let end = Instant::now() + Duration::from_secs(10);
    while writeln!(agent.stdin.as_mut().unwrap(), r#"{{"jsonrpc":"2.0","method":"x"}}"#).is_ok() {
        assert!(Instant::now() < end, "stdin was never closed");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(agent.child.try_wait().unwrap().is_none(), "it goes on");
}

#[test]
fn a_child_that_left_everything_is_reported_with_its_pid() {
    let mut agent = Agent::ready(&[]);
    let child = json!({"setsid": true, "double_fork": true, "clear_env": true, "rename": "other", "argv": ["/bin/sh", "-c", "echo $HOME"], "sleep_s": 60});
    agent.prompt(2, json!([{"spawn": child}, {"env": "NO_SUCH_NAME"}, {"cwd": true}]));
    assert_eq!(agent.recv()["result"]["stopReason"], "end_turn");
    assert_eq!(agent.logged("env")["value"], Value::Null);
    let pid = agent.logged("spawned")["spawned"].as_i64().unwrap();
    assert_eq!(agent.logged("ran")["stdout"], "\n");
    assert_eq!(std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap(), "other\n");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
    assert_ne!(nix::unistd::getsid(Some(pid)), nix::unistd::getsid(None));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[test]
fn it_ends_by_any_signal() {
    use std::os::unix::process::ExitStatusExt;
    for signal in [9, 11, 15] {
        let mut agent = Agent::ready(&[]);
        agent.prompt(2, json!([{"signal": signal}]));
        assert_eq!(agent.child.wait().unwrap().signal(), Some(signal));
    }
}

#[test]
fn a_broken_script_is_an_error_of_the_turn() {
    let mut agent = Agent::ready(&[]);
    agent.prompt(2, json!([{"await": 77}]));
    assert!(agent.recv()["error"]["message"].as_str().unwrap().contains("never asked"));
    agent.prompt(3, json!([{"no_such_step": 1}]));
    assert!(agent.recv()["error"]["message"].as_str().unwrap().contains("step 0"));
}
