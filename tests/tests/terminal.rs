//! `agentctl run` at a terminal of its own (util-linux' `script` makes one).

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentctl_tests::harness::{Daemon, fake_agent, resolve_params, until};
use serde_json::{Value, json};

/// A person at a terminal.
struct Person {
    process: Child,
    keys: ChildStdin,
    screen: Arc<Mutex<String>>,
}

impl Person {
    fn run(daemon: &Daemon, args: &str, switches: &str) -> Self {
        let log = daemon.folder().join("agent.log");
        // In the shell's place: one that stays would be ended by the Ctrl-C that is meant for the command.
        let line = format!(
            "exec {} run --task t --session s {args} -- {} {switches} --log {}",
            agentctl_tests::harness::agentctl().display(),
            fake_agent().display(),
            log.display()
        );
        let mut command = std::process::Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env("SHELL", "/bin/sh");
        command.env("AGENTCTL_SOCKET", daemon.socket()).env("NO_COLOR", "1");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script is there");
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut output, seen) = (process.stdout.take().expect("a pipe"), screen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = output.read(&mut bytes) {
                lock(&seen).push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
        });
        Self { keys: process.stdin.take().expect("a pipe"), process, screen }
    }

    fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it reads");
        self.keys.flush().expect("it reads");
    }

    /// Waits until this stands on the screen, and clears what was seen up to it.
    #[track_caller]
    fn sees(&self, text: &str) -> String {
        until(&format!("{text:?} on the screen"), || {
            let mut screen = lock(&self.screen);
            let at = screen.find(text)? + text.len();
            Some(screen.drain(..at).collect())
        })
    }

    #[track_caller]
    fn exits(mut self, status: i32) {
        let ended = until("its end", || self.process.try_wait().expect("it is ours"));
        assert_eq!(ended.code(), Some(status), "{}", lock(&self.screen));
    }
}

fn lock(screen: &Mutex<String>) -> MutexGuard<'_, String> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn script(steps: Value) -> String {
    format!("{steps}\n")
}

#[test]
fn turns_questions_and_answers() {
    let daemon = Daemon::start();
    let mut person = Person::run(&daemon, "", "");
    person.sees("> ");
    person.keys(&script(json!([{"text": "\u{1b}]0;evil\u{7}hello"}, {"ask": {"id": 5}}, {"await": 5}, {"text": "bye"}])));
    assert!(!person.sees("? The agent asks: git status").contains("]0;evil\u{7}"), "an escape sequence of the agent");
    let question = person.sees("cancel the turn");
    let (first, last) = (question.find("1  Allow once (allow_once)"), question.find("3  Reject (reject_once)"));
    assert!(first.is_some() && first < last && question.contains("2  Always allow (allow_always, kept by the agent)"), "{question}");
    // Keys that came too early, and those with others, answer nothing; by itself one does.
    let mut conn = daemon.connect();
    let pending = |conn: &mut agentctl_tests::harness::Conn| conn.call("permission/list", json!({})).ok()["total"].clone();
    person.keys("3");
    assert_eq!(pending(&mut conn), 1);
    // How long it must be quiet is tested without a terminal; here the key is pressed, with pauses, until it counts.
    until("the answer", || {
        person.keys("1");
        std::thread::sleep(std::time::Duration::from_millis(700));
        lock(&person.screen).contains("answered: Allow once").then_some(())
    });
    person.sees("bye");
    person.sees("> ");
    // The second one is answered elsewhere.
    person.keys(&script(json!([{"ask": {"id": 6}}, {"await": 6}])));
    person.sees("cancel the turn");
    let live = conn.await_permissions("t", "s", 1);
    conn.call("permission/resolve", resolve_params(&live[0], "reject-once")).ok();
    person.sees("through control_socket: reject-once");
    person.sees("> ");
    // The third turn is cancelled, question and all.
    person.keys(&script(json!([{"ask": {"id": 7}}, {"hang": true}])));
    person.sees("cancel the turn");
    person.keys("\u{3}");
    person.sees("the request ended: cancelled");
    person.sees("the turn ended: cancelled");
    person.sees("> ");
    person.keys("\u{4}");
    // The last turn was cancelled.
    person.exits(1);
    assert_eq!(conn.call("execution/list", json!({})).ok()["executions"][0]["state"], "exited");
    daemon.stop();
}

#[test]
fn one_turn_with_p_and_two_interrupts_end_the_agent() {
    let daemon = Daemon::start();
    let person = Person::run(&daemon, "-p hello", "");
    person.sees("Done.");
    person.exits(0);
    // A turn that does not end when it is cancelled.
    let mut person = Person::run(&daemon, "", "--cancel-ignored");
    person.sees("> ");
    person.keys(&script(json!([{"text": "begun"}, {"hang": true}])));
    person.sees("begun\"");
    person.sees("begun");
    person.keys("\u{3}");
    person.sees("Ctrl-C again ends the agent");
    person.keys("\u{3}");
    person.exits(130);
    // Between turns.
    let mut person = Person::run(&daemon, "", "");
    person.sees("> ");
    person.keys("\u{3}");
    person.sees("Ctrl-C again, or Ctrl-D, ends the agent");
    person.keys("\u{3}");
    person.exits(130);
    daemon.stop();
}
